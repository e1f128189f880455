"""The entries of an XML document by a table of its elements: sitemaps and feeds differ in that table alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from streamsched.connectors.signals.entry_columns import ContentHash, StatedTime
from streamsched.connectors.signals.safe_xml import MAX_DEPTH
from streamsched.errors import DocumentError

if TYPE_CHECKING:
    from xml.parsers import expat

__all__ = ["EntryLayout", "Field", "Role", "XmlEntry", "read_entries"]

_MAX_TEXT_CHARS: Final = 1 << 14  # of a URL or a time: twice the longest URL, so what is cut is too long anyway
_MAX_TIMES: Final = 8  # of an entry: no format has as many
_Attributes = Mapping[str, str]


class Role(Enum):
    """What the text of an element is for."""

    URL = auto()
    TIME = auto()
    CONTENT = auto()


class Field(NamedTuple):
    """An element directly within an entry, by its name in messages."""

    name: str
    role: Role


@dataclass(slots=True)
class XmlEntry:
    """The attributes of an entry, the first text of each URL element, its times, and the hash of its contents."""

    attributes: _Attributes
    urls: dict[str, str] = field(default_factory=dict)
    times: list[StatedTime] = field(default_factory=list)
    content: ContentHash = field(default_factory=ContentHash)


@dataclass(frozen=True, slots=True)
class EntryLayout:
    """``entries``: names of the elements that are entries; ``fields``: those directly within them.

    ``finish(entry)`` is called at the end of each entry, ``on_field(entry, field, attributes)`` at the beginning of
    each field, for what an attribute says.
    """

    entries: frozenset[str]
    fields: Mapping[str, Field]
    finish: Callable[[XmlEntry], None]
    on_field: Callable[[XmlEntry, Field, _Attributes], None] | None = None


def read_entries(parser: expat.XMLParserType, url: str, layout: EntryLayout) -> None:
    """Let `parser`, which is at the start of the root element, pass the entries to `layout`.

    An entry within an entry is none. Raises DocumentError, while it parses, for elements nested beyond `MAX_DEPTH`.
    """
    reader = _EntryReader(parser, url, layout)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end


class _EntryReader:
    """The handlers of a document: no text is collected but that of fields. Depths count from 1, the root's; 0: none."""

    def __init__(self, parser: expat.XMLParserType, url: str, layout: EntryLayout) -> None:
        self._parser = parser
        self._url = url
        self._layout = layout
        self._depth = 1
        self._entry_depth = 0
        self._field_depth = 0
        self._entry = XmlEntry({})
        self._field = Field("", Role.URL)
        self._texts: list[str] = []
        self._room = 0

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Begin an element."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            reason = f"expected elements nested at most {MAX_DEPTH} deep"
            raise DocumentError(self._url, reason, self._parser.CurrentByteIndex)
        if self._entry_depth:
            if self._depth == self._entry_depth + 1 and (found := self._layout.fields.get(name)):
                self._open(found, attributes)
        elif name in self._layout.entries:
            self._entry_depth = self._depth
            self._entry = XmlEntry(attributes)

    def end(self, _name: str) -> None:
        """End an element."""
        if self._depth == self._field_depth:
            self._close()
        elif self._depth == self._entry_depth:
            self._entry_depth = 0
            self._layout.finish(self._entry)
        self._depth -= 1

    def _open(self, found: Field, attributes: _Attributes) -> None:
        self._field, self._field_depth = found, self._depth
        self._texts, self._room = [], _MAX_TEXT_CHARS
        if self._layout.on_field is not None:
            self._layout.on_field(self._entry, found, attributes)
        if found.role is Role.CONTENT:
            self._entry.content.begin(found.name)
            self._parser.CharacterDataHandler = self._entry.content.add
        else:
            self._parser.CharacterDataHandler = self._take_text

    def _take_text(self, text: str) -> None:
        self._texts.append(text[: self._room])
        self._room = max(self._room - len(text), 0)

    def _close(self) -> None:
        self._parser.CharacterDataHandler = None
        self._field_depth = 0
        name, role = self._field
        if role is Role.CONTENT:
            return
        text = "".join(self._texts).strip()
        if role is Role.URL:
            self._entry.urls.setdefault(name, text)
        elif text and len(self._entry.times) < _MAX_TIMES:
            self._entry.times.append(StatedTime(name, text))
