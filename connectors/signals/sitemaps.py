"""Sitemaps and sitemap indexes, by the protocol of sitemaps.org."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from streamsched.connectors.signals.xml_entries import EntryLayout, Field, Role, XmlEntry

if TYPE_CHECKING:
    from streamsched.connectors.signals.entry_columns import EntryColumns

__all__ = ["SITEMAP_ENTRIES", "sitemap_layout"]

SITEMAP_ENTRIES: Final = {"urlset": "url", "sitemapindex": "sitemap"}  # root element: its entries


def sitemap_layout(prefix: str, root: str, columns: EntryColumns) -> EntryLayout:
    """Return the elements of a sitemap whose root is `root`, of the namespace `prefix`, for `columns`.

    Elements of other namespaces, such as those of images and news, are passed over, as are changefreq and priority:
    they announce nothing.
    """

    def finish(entry: XmlEntry) -> None:
        columns.add("loc", entry.urls.get("loc"), entry.times)

    fields = {f"{prefix}loc": Field("loc", Role.URL), f"{prefix}lastmod": Field("lastmod", Role.TIME)}
    return EntryLayout(frozenset({prefix + SITEMAP_ENTRIES[root]}), fields, finish)
