"""`leased_pages`: a loop over pages to visit, for any HTTP library and any number of tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Self

from streamsched.client.async_client import AsyncClient
from streamsched.connectors.crawlers.frontier import LeaseSettings
from streamsched.connectors.crawlers.leased_page import LeasedPage
from streamsched.connectors.crawlers.page_leases import PageLeases
from streamsched.connectors.crawlers.visits import ContentRules


def leased_pages(  # noqa: PLR0913  all but the first by name
    client: AsyncClient,
    *,
    size: int = 100,
    lease: str | float = "10m",
    wait: str | float = "5s",
    hosts: Iterable[str] | None = None,
    per_host: int | None = None,
    in_hand: int = 1_000,
    limit: int | None = None,
    follow: bool = True,
    rules: ContentRules | None = None,
) -> LeasedPages:
    """Return the pages to visit, best first, for ``async for``; each is to be reported by its `done`.

    - `client`: an AsyncClient, within whose ``async with`` block the loop is;
    - `size`: the most pages that are leased and wait; half of them are asked for while the other half is left;
    - `lease`: for how long pages are leased; pages with less than a quarter of it left are not handed out;
    - `wait`: for how long the service waits for a page in one request. A loop that ends waits for this request;
    - `hosts`, `per_host`: as for `next_batch`;
    - `in_hand`: the most pages without an outcome that the program has at a time; then the loop waits;
    - `limit`: the most pages in all; `follow`: False to end once no page was due for the time `wait`;
    - `rules`: how bodies become hashes.

    Several tasks may loop over one object: each page goes to one of them. When the last loop ends, breaks or is
    cancelled, pages that wait are given back; pages in the program's hands are given back when it drops them, at the
    latest when the client is closed. While the service does not answer, the loop waits. Raises SettingsError for a
    wrong argument, and from the loop what `next_batch` raises if the service refuses.
    """
    settings = LeaseSettings(
        size, lease, wait, None if hosts is None else tuple(hosts), per_host, in_hand, limit, follow
    )
    return LeasedPages(PageLeases(client, settings, rules))


class LeasedPages:
    """Pages to visit, as `leased_pages` returns them; also an asynchronous context manager.

    ``leases``: the pages that are leased, with counts.
    """

    def __init__(self, leases: PageLeases) -> None:
        self.leases = leases
        self._loops = 0  # that are under way

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back all pages without an outcome and send the outcomes. Raises the error if they could not be sent."""
        await self.leases.close()

    def __aiter__(self) -> AsyncIterator[LeasedPage]:
        return self._pages()

    async def groups(self, most: int) -> AsyncIterator[list[LeasedPage]]:
        """Yield lists of 1 to `most` pages: those that wait, at least one. For libraries that take many URLs."""
        async for page in self:
            group, another = [page], self.leases.take_now() if most > 1 else None
            while another is not None:
                group.append(another)
                another = self.leases.take_now() if len(group) < most else None
            del page
            yield group
            del group

    async def _pages(self) -> AsyncIterator[LeasedPage]:
        await self.leases.start()
        self._loops += 1
        try:
            while (page := await self.leases.take()) is not None:
                held = [page]
                del page
                yield held.pop()  # the program alone has it, and gives it back by dropping it
        finally:  # the loop ends, breaks, or is cancelled
            self._loops -= 1
            if not self._loops:
                await self.leases.stop()
        if not self._loops:  # it has ended by itself
            await self.leases.flush()
            if not self.leases.in_hand:
                await self.leases.close()
