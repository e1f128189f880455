"""robots.txt by RFC 9309: where it is, what its answers mean, and what it allows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from protego import Protego

from streamsched.errors import FetchError
from streamsched.web.safe_fetch import FetchLimits, Permit, SafeClient, join_url, parse_url

TOKEN: Final = "streamsched"  # the product token that robots.txt may name
MOST_AGE_S: Final = 86_400.0  # RFC 9309, 2.4
UNREACHABLE_AGE_S: Final = 3_600.0  # a failing server is asked again earlier
LONGEST_DELAY_S: Final = 3_600.0  # of a Crawl-delay, which no standard bounds
MOST_SITEMAPS: Final = 1_000
_LIMITS: Final = FetchLimits(seconds=30.0, body_bytes=500 << 10, cut=True)  # RFC 9309, 2.5 and 2.3.1.2
_AGENT_LINE: Final = re.compile(r"\s*user[ -]?agent\s*:?\s*([^#]*)", re.IGNORECASE)
_LONGEST_TOKEN: Final = re.compile(r"[A-Za-z_-]+")
_PARSED: Final = 64  # hosts: those whose documents are being fetched


@dataclass(frozen=True, slots=True)
class Robots:
    """What the robots.txt of a host said at `fetched_at`, UTC epoch seconds.

    ``text``: its rules, empty if there are none; ``reachable``: False if the server failed or was silent, which forbids
    everything until it answers; ``reason``: why.
    """

    text: str
    fetched_at: float
    reachable: bool = True
    reason: str = ""

    def is_fresh(self, now: float) -> bool:
        """Return whether it may still be used. O(1)."""
        most = MOST_AGE_S if self.reachable else UNREACHABLE_AGE_S
        return 0.0 <= now - self.fetched_at < most

    def allows(self, url: str, token: str = TOKEN) -> bool:
        """Return whether the client named `token` may fetch `url`. O(rules)."""
        return self.reachable and (not self.text or _parse(self.text, token).can_fetch(url, token))

    def delay_s(self, token: str = TOKEN) -> float:
        """Return its Crawl-delay in seconds, at most an hour, 0 without one. O(1)."""
        found = _parse(self.text, token).crawl_delay(token) if self.text else None
        return min(float(found or 0.0), LONGEST_DELAY_S)

    def sitemaps(self, token: str = TOKEN) -> list[str]:
        """Return the URLs of its ``Sitemap:`` lines, each once. O(lines)."""
        found = _parse(self.text, token).sitemaps if self.text else ()
        return list(dict.fromkeys(found))[:MOST_SITEMAPS]


async def fetch_robots(client: SafeClient, url: str, now: float, permit: Permit | None = None) -> Robots:
    """Return the robots.txt of the host of `url`, fetched at `now`. Raises FetchError if `url` is none.

    2xx: its rules, of the first 500 KiB; other answers below 500, and redirects that do not end: no rules; 5xx, 429, no
    answer, and an address that may not be connected to: unreachable. `permit` is entered around each request.
    Source: RFC 9309, 2.3.1.
    """
    place = robots_url(url)
    try:
        async with client.fetch(place, limits=_LIMITS, permit=permit) as answer:
            if answer.status >= 500 or answer.status == 429:
                return Robots("", now, reachable=False, reason=f"{answer.url}: answers with status {answer.status}")
            text = answer.body.decode("utf-8-sig", "replace") if 200 <= answer.status < 300 else ""
            return Robots(keep_own_groups(text, TOKEN), now)
    except FetchError as error:
        if error.kind == "wait":  # of the permit: the host may not be asked now
            raise
        return Robots("", now, reachable=error.kind == "redirects", reason=str(error))


def robots_url(url: str) -> str:
    """Return where the robots.txt for `url` is. Raises FetchError.

    >>> robots_url("https://a.example:8443/b/c?d")
    'https://a.example:8443/robots.txt'
    """
    return join_url(str(parse_url(url)), "/robots.txt")


def keep_own_groups(text: str, token: str) -> str:
    """Return a robots.txt without the names of other clients but one a group, so that parsing takes linear time.

    Protego keeps each rule of a group once for each of its names: 500 KiB may hold 10,000 of both.
    """
    kept: list[str] = []
    skipping = False  # within names of one group, and another client's of it is kept already
    for line in text.splitlines():
        match = _AGENT_LINE.match(line)
        if match is None:
            skipping = skipping and not line.split("#")[0].strip()
            kept.append(line)
            continue
        found = _LONGEST_TOKEN.match(match[1].strip())
        is_own = match[1].strip().startswith("*") or (found is not None and found[0].lower() == token)
        if is_own:
            kept.append(f"User-agent: {token if found else '*'}")
        elif not skipping:
            kept.append("User-agent: another")
            skipping = True
    return "\n".join(kept)


@lru_cache(_PARSED)
def _parse(text: str, _token: str) -> Protego:
    return Protego.parse(text)
