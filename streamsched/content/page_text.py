"""The text of a page without what surrounds its content: menus, headers, footers, asides, forms and scripts."""

from __future__ import annotations

import codecs
import re
from functools import lru_cache
from importlib import import_module, metadata
from typing import Any, Final

from streamsched.content.bounded_markup import bound_markup
from streamsched.content.ignore_rules import NOTHING, Ignored, IgnoreRules
from streamsched.errors import SettingsError

SELECTOLAX: Final = "selectolax"
TRAFILATURA: Final = "trafilatura"
EXTRACTORS: Final = (SELECTOLAX, TRAFILATURA)
MOST_BYTES: Final = 5_000_000  # of a page that are read; a browser's own limits are of this order

_VERSION: Final = 2  # of what is removed below: part of each hash, to be raised with any change of it
_NO_TEXT: Final = ["script", "style", "noscript", "template", "svg"]
_NO_TEXT_OR_AROUND: Final = [*_NO_TEXT, "nav", "footer", "aside"]  # and headers that are not an article's
_NOT_CONTENT: Final = [*_NO_TEXT_OR_AROUND, "header"]
_ROLES: Final = "[role=navigation], [role=banner], [role=search], [role=complementary], [role=contentinfo]"
_HAS_ROLE: Final = re.compile(r"""role=["']?(?:main|navigation|banner|search|complementary|contentinfo)\b""")
_MAY_BE_AROUND: Final = ("div", "ul", "table", "td")  # by their names; pages without `main` mark menus so
_LONGEST_NAMES: Final = 200  # characters of the classes of an element that are looked at
_AROUND_NAMES: Final = ("nav", "sidebar", "header", "footer", "breadcrumb", "copyright")
_AROUND: Final = re.compile(
    r"(?<![a-z])(?:(?:top|bottom|sub|skip|main|site|page)?nav(?:bar|igation)?|(?:sphinx)?sidebar"
    r"|(?:site|page)?(?:header|footer)|breadcrumbs?|copyright)(?![a-z])"
)
# glibc returns the memory of each tree to the system, which clears it for the next one: 20 µs a page. Once a block of
# this size was freed, it keeps twice as much.
_KEPT_BYTES: Final = 1 << 20
_CHARSET: Final = re.compile(rb"""<meta[^<>]{0,200}?charset\s*=\s*["']?\s*([a-zA-Z0-9_:.-]{1,40})""", re.IGNORECASE)
# Python's codecs that are no charsets of pages; punycode takes quadratic time.
_NO_CHARSETS: Final = frozenset(("punycode", "idna", "unicode-escape", "raw-unicode-escape", "utf-7"))
_BOMS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class PageText(str):
    """The text of a page in lines; ``by``: the extractor and its version, which `content_hash` makes part of hashes."""

    __slots__ = ("by",)
    by: str

    @classmethod
    def of(cls, text: str, by: str) -> PageText:
        """Return `text` as made by `by`."""
        made = cls(text)
        made.by = by
        return made


def page_text(
    html: str | bytes,
    url: str = "",
    *,
    by: str = SELECTOLAX,
    ignore: IgnoreRules | None = None,
    most_bytes: int = MOST_BYTES,
) -> PageText:
    """Return the text of a page without menus, headers, footers, asides, forms and scripts, in lines. O(bytes).

    - `html`: bytes are decoded by their byte order mark, else by their `meta` tag, else as UTF-8;
    - `url`: which of the rules of `ignore` apply;
    - `by`: "selectolax", which keeps all else; or "trafilatura", which looks for the article, 20 times slower;
    - `most_bytes`: what is beyond is not read.

    Any input gives a text, an empty one if there is none. Of documents larger than 65,536 characters, tags that are
    nested very deeply and formatting tags such as ``b`` and ``a`` are not kept, so that none takes a parser minutes;
    selectors must name other elements there. Raises SettingsError for a wrong argument, a selector
    that is none, or if the extractor is not installed.
    """
    if not isinstance(html, str | bytes | bytearray | memoryview):
        raise SettingsError("html", type(html).__name__, "a page as bytes or str")
    if by not in EXTRACTORS:
        raise SettingsError("by", by, " or ".join(map(repr, EXTRACTORS)))
    text = html[:most_bytes] if isinstance(html, str) else decode_page(bytes(html[:most_bytes]))
    ignored = NOTHING if ignore is None else ignore.find(url)
    text = bound_markup(text)
    if by == TRAFILATURA:
        found, version = _extract_article(text), f"{TRAFILATURA} {_version_of(TRAFILATURA)}"
    else:
        found, version = _extract_all(text, ignored), f"{SELECTOLAX} {_VERSION}"
    for pattern in ignored.texts:
        found = pattern.sub(" ", found)
    return PageText.of(found, version)


def decode_page(page: bytes) -> str:
    """Return a page as text, with a replacement for each byte that its encoding cannot have. O(bytes)."""
    for mark, name in _BOMS:
        if page.startswith(mark):
            return page[len(mark) :].decode(name, "replace")
    found = _CHARSET.search(page, 0, 2048)
    name = found[1].decode("ascii") if found else "utf-8"
    try:
        codec = codecs.lookup(name).name
        if codec.startswith("utf-16") or codec in _NO_CHARSETS:  # a tag that can be read is not in UTF-16
            name = "utf-8"
        return page.decode(name, "replace")
    except (LookupError, ValueError):  # an unknown encoding, or one that is none of text
        return page.decode("utf-8", "replace")


def _extract_all(html: str, ignored: Ignored) -> str:
    """Return the text of the main element, else of the body; all of it if nothing else is left."""
    small = html.lower()  # a search in the text costs less than one in the tree
    is_part = "<main" in small or "<article" in small
    tree = _parse(html, ignored, _NO_TEXT_OR_AROUND if is_part else _NOT_CONTENT)
    if tree.body is None:
        return ""
    mains = tree.tags("main")
    if "role=" in small and _HAS_ROLE.search(small):
        _remove(tree.css(_ROLES))
        mains = tree.tags("main") or tree.css("[role=main]")
    articles, forms, headers, outside = tree.tags("article"), tree.tags("form"), tree.tags("header"), []
    is_named = not mains and not articles and any(name in small for name in _AROUND_NAMES)
    if headers or forms or is_named:
        frames = _holders(mains + articles)
        outside += [node for node in headers if node.mem_id not in frames and not _is_within_part(node)]
        frames |= _holders(tree.tags("h1"))  # a form with one of these is the frame of a page
        outside += [node for node in forms if node.mem_id not in frames]
        if is_named:
            frames |= _holders(tree.tags("h2"))
            for name in _MAY_BE_AROUND:
                outside += [node for node in tree.tags(name) if node.mem_id not in frames and _is_named_around(node)]
    _remove(outside)
    text = _text_of(mains[0]) if len(mains) == 1 else ""
    return text or _text_of(tree.body) or _text_of(_parse(html, ignored, _NO_TEXT).body)


def _parse(html: str, ignored: Ignored, left_out: list[str]) -> Any:
    """Return the tree of a document without the elements `left_out` and those ignored."""
    tree = _load(SELECTOLAX, "selectolax.lexbor", "content").LexborHTMLParser(html)
    tree.strip_tags(left_out)
    for selector in ignored.selectors:
        try:
            found = tree.css(selector)
        except Exception as error:  # noqa: BLE001  selectolax has no class of its own
            raise SettingsError("ignore", f"css:{selector}", f"a CSS selector ({str(error).rstrip('.')})") from None
        _remove(found)
    return tree


def _remove(nodes: list[Any]) -> None:
    """Remove elements from their tree; one within another goes with it."""
    for node in reversed(nodes):  # the inner ones first
        node.decompose()


def _holders(nodes: list[Any]) -> set[int]:
    """Return the ids of these elements and of all they are in. O(elements)."""
    held: set[int] = set()
    for held_node in nodes:
        node = held_node
        while node is not None and node.mem_id not in held:
            held.add(node.mem_id)
            node = node.parent
    return held


def _is_within_part(node: Any) -> bool:
    while (node := node.parent) is not None:
        if node.tag in ("article", "main"):
            return True
    return False


def _is_named_around(node: Any) -> bool:
    """Tell whether the id or a class of an element calls it a menu, a header or a footer."""
    names = node.attributes
    return bool(names) and (_is_around(names.get("class")) or _is_around(names.get("id")))


@lru_cache(4096)
def _is_around(name: str | None) -> bool:
    return name is not None and _AROUND.search(name[:_LONGEST_NAMES].lower()) is not None


def _text_of(node: Any) -> str:
    """Return the pieces of text below a node, a line for each; "" for None."""
    return "" if node is None else str(node.text(separator="\n", strip=True, skip_empty=True))


def _extract_article(html: str) -> str:
    module = _load(TRAFILATURA, "trafilatura", "trafilatura")
    return str(module.extract(html, fast=True, include_comments=True, deduplicate=False) or "")


@lru_cache(8)
def _version_of(package: str) -> str:
    return metadata.version(package)


@lru_cache(8)
def _load(package: str, module: str, extra: str) -> Any:
    bytearray(_KEPT_BYTES)
    try:
        return import_module(module)
    except ImportError:
        expected = f"{package}, which is not installed: pip install 'streamsched[{extra}]'"
        raise SettingsError("by", package, expected) from None
