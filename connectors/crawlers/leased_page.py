"""One leased page in the hands of a crawler, until its outcome is reported or it is given back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from streamsched.api.answers import LeasedPage as Lease
from streamsched.connectors.crawlers.visits import ContentRules, Visit, outcomes_of
from streamsched.errors import SettingsError
from streamsched.outcomes import Outcome, StatusWord

_NO_HEADERS: Final[Mapping[str, str]] = {}


class Holder(Protocol):
    """Whom a page comes from."""

    rules: ContentRules

    def now(self) -> float:
        """Return the service's time."""
        ...

    def report(self, serial: int, outcomes: tuple[Outcome, ...]) -> None:
        """Send the outcomes of the page with this number."""
        ...

    def give_back(self, serial: int) -> None:
        """Give the page with this number back unvisited, in any thread; do nothing if it is not out."""
        ...


class LeasedPage:
    """A page to visit; report its outcome once, by `done` or `failed`.

    ``url``, ``host``; ``headers``: If-None-Match and If-Modified-Since, as far as its last visit had validators;
    ``lease``: all that the service says of it. A page that the program drops without an outcome is given back. For the
    thread of the event loop.
    """

    __slots__ = ("_owner", "_serial", "host", "lease", "url")

    def __init__(self, lease: Lease, owner: Holder, serial: int) -> None:
        self.url = lease.url
        self.host = lease.host
        self.lease = lease
        self._owner: Holder | None = owner
        self._serial = serial

    def __repr__(self) -> str:
        return f"LeasedPage({self.url!r})"

    def __del__(self) -> None:
        if getattr(self, "_owner", None) is not None:
            self.give_back()

    @property
    def is_held(self) -> bool:
        """Whether it has no outcome and was not given back."""
        return self._owner is not None

    @property
    def headers(self) -> dict[str, str]:
        """The headers of a conditional request: the answer is 304 if nothing has changed."""
        found = {"If-None-Match": self.lease.etag, "If-Modified-Since": self.lease.last_modified}
        return {name: value for name, value in found.items() if value}

    def done(  # noqa: PLR0913  all but the first two by name
        self,
        status: int | StatusWord,
        html: bytes | str = b"",
        *,
        headers: Mapping[str, str] = _NO_HEADERS,
        final_url: str | None = None,
        redirect_status: int = 302,
        text: str | None = None,
        cost: float | None = None,
    ) -> None:
        """Report the answer: its status, its body, and what else is known, as `Visit` has it. O(bytes).

        The time of the visit is now. Raises SettingsError if the page has an outcome or was given back, and the
        sender's error if the service refuses outcomes.
        """
        found = None if final_url is None else str(final_url)  # httpx has a class for it
        self.report(Visit(self.url, self._now(), status, headers, html, text, found, redirect_status, cost))

    def failed(self, error: BaseException | None = None, *, cost: float | None = None) -> None:
        """Report that there was no answer; after a cancellation the page counts as not attempted. Raises as `done`."""
        self.report(Visit(self.url, self._now(), error=error, cost=cost))

    def report(self, visit: Visit) -> None:
        """Report a visit of this page. O(bytes). Raises as `done`."""
        owner = self._held()
        owner.report(self._serial, outcomes_of(visit, owner.rules))
        self._owner = None

    def give_back(self) -> None:
        """Give the page back unvisited. Nothing happens if it has an outcome or was given back."""
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.give_back(self._serial)

    def _now(self) -> float:
        """Return the time by the clock of the service that leased the page."""
        return self._held().now()

    def _held(self) -> Holder:
        if self._owner is None:
            raise SettingsError("page", self.url, "one outcome for each page, before it is given back")
        return self._owner
