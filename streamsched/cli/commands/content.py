"""``streamsched content``: the text and hashes of a page, and what differs between two copies of it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Final

import click

from streamsched.cli.exits import DONE
from streamsched.cli.options import Parsed
from streamsched.cli.output import echo, echo_json, plain
from streamsched.content import IgnoreRules, PageText, content_hash, page_text, simhash
from streamsched.content.page_difference import DifferingLine, find_differing
from streamsched.content.page_text import EXTRACTORS, MOST_BYTES, SELECTOLAX
from streamsched.errors import FetchError, SettingsError, SourceError
from streamsched.numerics.durations import parse_duration

_EPILOG: Final = """
\b
Examples:
  streamsched content https://example.org/ --twice
  streamsched content monday.html tuesday.html --ignore '[0-9]+ views' --ignore css:.adverts
"""
_SECONDS: Final = 20.0  # for a whole page
_LONGEST_WAIT_S: Final = 3_600.0
_SHOWN: Final = 50  # lines of each copy


def _parse_wait(text: str) -> float:
    """Return a time from 0 to an hour, in seconds."""
    if (wait_s := parse_duration(text, "wait", zero=True)) > _LONGEST_WAIT_S:
        raise SettingsError("wait", text, "a time of at most an hour")
    return wait_s


@click.command("content", epilog=_EPILOG)
@click.argument("page")
@click.argument("other", required=False)
@click.option("--twice", is_flag=True, help="Fetch the page twice and show the lines that differ.")
@click.option("--wait", type=Parsed("TIME", _parse_wait), default="2s", show_default=True, help="Time between the two.")
@click.option("--ignore", multiple=True, metavar="PATTERN", help="Leave out what a regular expression or css: matches.")
@click.option("--by", type=click.Choice(EXTRACTORS), default=SELECTOLAX, show_default=True, help="The extractor.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def content_command(  # noqa: PLR0913, PLR0917  one for each option
    page: str, other: str | None, twice: bool, wait: float, ignore: tuple[str, ...], by: str, as_json: bool
) -> int:
    """Print a page's text and hashes, or where two copies differ.

    PAGE is a file or a URL, OTHER is a second one. What differs between two copies fetched at once is noise: times and
    dates, which the hash leaves out, and the rest, for which --ignore can be tried.
    """
    if twice and other is not None:
        raise SettingsError("--twice", other, "one page, or two without --twice")
    rules = IgnoreRules({"*": ignore})
    sources = [page] if other is None and not twice else [page, page if other is None else other]
    texts: list[PageText] = []
    for source in sources:
        if twice and texts:
            time.sleep(wait)
        texts.append(page_text(_read(source), source, by=by, ignore=rules))
    if len(texts) == 1:
        _show_one(page, texts[0], as_json)
    else:
        _show_both(sources, texts, as_json)
    return DONE


def _show_one(source: str, text: PageText, as_json: bool) -> None:
    found = _describe(source, text)
    if as_json:
        echo_json(found | {"text": str(text)})
        return
    echo("\n".join(map(plain, text.splitlines())))
    echo(f"\ncontent {found['content']}, fingerprint {found['fingerprint']}, by {found['by']}")


def _show_both(sources: list[str], texts: list[PageText], as_json: bool) -> None:
    lines = find_differing(*texts)
    found = [_describe(*each) for each in zip(sources, texts, strict=True)]
    bits = (simhash(texts[0]) ^ simhash(texts[1])).bit_count()
    is_equal = found[0]["content"] == found[1]["content"]
    if as_json:
        only = [{"only": [line._asdict() for line in each]} for each in lines]
        pages = [one | beside for one, beside in zip(found, only, strict=True)]
        echo_json({"changed": not is_equal, "bits": bits, "pages": pages})
        return
    for sign, each in zip("-+", lines, strict=True):
        _show_lines(sign, each)
    left = sum(not line.removed for each in lines for line in each)
    echo(f"content: {'equal' if is_equal else 'other'}; fingerprint: {bits} of 64 bits differ")
    if left:
        echo(f"{left} lines differ beside times and dates: if nothing has changed, ignore them (--ignore)")
    elif not is_equal:
        echo("no line differs beside times and dates: the order of the lines does")


def _show_lines(sign: str, lines: list[DifferingLine]) -> None:
    for line in lines[:_SHOWN]:
        echo(f"{sign} {plain(line.text)}{'    (left out by the hash)' if line.removed else ''}")
    if len(lines) > _SHOWN:
        echo(f"{sign} ... and {len(lines) - _SHOWN} more lines")


def _describe(source: str, text: PageText) -> dict[str, Any]:
    hashes = {"content": f"{content_hash(text):016x}", "fingerprint": f"{simhash(text):016x}"}
    return {"source": source, "by": text.by, **hashes, "lines": len(text.splitlines())}


def _read(source: str) -> bytes:
    """Return the first bytes of a file, or of the page of a URL. Raises SourceError."""
    if source.lower().startswith(("http://", "https://")):
        return _fetch(source)
    try:
        with Path(source).open("rb") as file:
            return file.read(MOST_BYTES)
    except OSError as error:
        raise SourceError(source, f"cannot be read: {error.strerror or error}") from error


def _fetch(url: str) -> bytes:
    """Return the first bytes of a page, within `_SECONDS`. Raises SourceError."""
    try:
        from streamsched.web.reach import ANYWHERE  # noqa: PLC0415  here and below: httpx is an extra
        from streamsched.web.safe_fetch import FetchLimits, SafeClient  # noqa: PLC0415
    except ImportError:
        expected = "a file: URLs need httpx: pip install 'streamsched[fetch]'"
        raise SettingsError("page", url, expected) from None

    async def fetch() -> bytes:
        limits = FetchLimits(body_bytes=MOST_BYTES, cut=True)
        async with (
            asyncio.timeout(_SECONDS),
            SafeClient(ANYWHERE) as client,
            client.fetch(url, limits=limits) as answer,
        ):
            if answer.status >= 400:
                raise SourceError(url, f"answers with status {answer.status}")
            return answer.body

    try:
        return asyncio.run(fetch())
    except TimeoutError:
        raise SourceError(url, f"takes longer than {_SECONDS:.0f} seconds") from None
    except FetchError as error:
        raise SourceError(error.url, f"cannot be fetched: {error.reason}") from error
