"""Expat with everything refused by which a document could make a reader hang, grow or fetch something."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final
from xml.parsers import expat

from streamsched.errors import DocumentError, shorten

__all__ = ["MAX_DEPTH", "MAX_NAMES", "MAX_NAMESPACE_CHARS", "MAX_TOKEN_BYTES", "parse_xml"]

MAX_DEPTH: Final = 256  # of nested elements; XHTML within an entry of Atom has some tens
MAX_TOKEN_BYTES: Final = 1 << 18  # of a tag, comment or instruction: Expat before 2.6 rescans an unfinished one
MAX_NAMES: Final = 10_000  # different names of elements and attributes: Expat keeps each of them
MAX_NAMESPACE_CHARS: Final = 256  # of a namespace's URI: Expat copies it into each name
_SEPARATOR: Final = " "  # between the URI and the local part of a name
_ENCODINGS: Final = re.compile(
    r"utf-?8|utf-?16(?:-?[bl]e)?|(?:us-)?ascii|iso-?8859-?\d{1,2}|latin-?1|(?:windows|cp)-?125\d|koi8-[ru]",
    re.IGNORECASE,
)

Root = Callable[[expat.XMLParserType, str, dict[str, str]], None]


def parse_xml(blocks: Iterable[bytes], url: str, open_root: Root) -> None:
    """Parse the XML document whose bytes are `blocks`; names come as ``namespace local``, the URI and a space first.

    ``open_root(parser, name, attributes)`` is called for the root element and sets the handlers for those within;
    they may raise DocumentError. Raises DocumentError, and no other error, for what is not well-formed, has a
    document type or an entity of its own, or exceeds a limit of this module. O(bytes); holds one block and one token.
    """
    parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
    _set_up(parser, url, open_root)
    fed = 0
    try:
        for block in blocks:
            parser.Parse(block, False)
            fed += len(block)
            _check_growth(parser, url, fed)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = f"not well-formed XML: {expat.ErrorString(error.code)}"
        raise DocumentError(url, reason, max(parser.ErrorByteIndex, 0)) from error
    except DocumentError:
        raise
    except (ValueError, LookupError) as error:  # Python knows no table of 256 characters for it
        raise DocumentError(url, f"cannot be decoded: {error}", max(parser.CurrentByteIndex, 0)) from error


def _set_up(parser: expat.XMLParserType, url: str, open_root: Root) -> None:
    def refuse(reason: str) -> DocumentError:
        return DocumentError(url, reason, max(parser.CurrentByteIndex, 0))

    def on_declaration(_version: str, encoding: str | None, _standalone: int) -> None:
        if encoding is not None and not _ENCODINGS.fullmatch(encoding):
            raise refuse(f"encoding: expected UTF-8, UTF-16 or one byte a character, found {shorten(encoding)}")

    def on_doctype(*_: object) -> None:
        raise refuse("has a document type (DOCTYPE): refused, as it may define entities or name files")

    def on_namespace(_prefix: str | None, uri: str | None) -> None:
        if uri is not None and len(uri) > MAX_NAMESPACE_CHARS:
            raise refuse(f"namespace: expected at most {MAX_NAMESPACE_CHARS} characters, found {len(uri)}")

    def on_root(name: str, attributes: dict[str, str]) -> None:
        open_root(parser, name, attributes)

    parser.buffer_text = True
    parser.XmlDeclHandler = on_declaration
    parser.StartDoctypeDeclHandler = on_doctype
    parser.StartNamespaceDeclHandler = on_namespace
    parser.StartElementHandler = on_root
    if hasattr(parser, "SetReparseDeferralEnabled"):  # tokens are bounded here, so that rescans cost little
        parser.SetReparseDeferralEnabled(False)


def _check_growth(parser: expat.XMLParserType, url: str, fed: int) -> None:
    """Raise DocumentError if an unfinished token or the set of names has grown beyond its limit."""
    if fed - parser.CurrentByteIndex > MAX_TOKEN_BYTES:
        reason = f"expected tags and comments of at most {MAX_TOKEN_BYTES} bytes"
        raise DocumentError(url, reason, parser.CurrentByteIndex)
    if len(parser.intern) > MAX_NAMES:
        reason = f"expected at most {MAX_NAMES} different names of elements and attributes"
        raise DocumentError(url, reason, parser.CurrentByteIndex)
