"""Writes the tables in docs/outcomes.md and docs/signal-streams.md out of FIELDS and STATUSES: ``make docs``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from streamsched.fields import Field
from streamsched.outcomes import FIELDS as OUTCOME_FIELDS
from streamsched.outcomes import STATUSES
from streamsched.signals import FIELDS as SIGNAL_FIELDS
from tests.support.paths import ROOT

_ELEMENTS: Final = {"u": "uint", "i": "int", "f": "float"}


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _fields(fields: Iterable[Field]) -> str:
    rows = ((f"`{one.name}`", one.kind.wire, str(one.bit or ""), _packed(one), one.doc) for one in fields)
    return _table(("field", "type", "bit", "packed", "meaning"), rows)


def _packed(field: Field) -> str:
    """The element types of a packed array: `<f8` is float64."""
    types = [one.lstrip("<") for one in field.kind.packed]
    return " or ".join(f"{_ELEMENTS[one[0]]}{8 * int(one[1:])}" for one in types) or "bytes"


BLOCKS: Final[Mapping[tuple[str, str], Callable[[], str]]] = {  # by page and name of the block
    ("outcomes.md", "fields"): lambda: _fields(OUTCOME_FIELDS),
    ("outcomes.md", "statuses"): lambda: _table(
        ("status", "code", "what it does"), ((f"`{word}`", str(one.code), one.doc) for word, one in STATUSES.items())
    ),
    ("signal-streams.md", "fields"): lambda: _fields(SIGNAL_FIELDS),
}


def with_tables(page: str, text: str) -> str:
    """Return the text of a page with its blocks made again."""
    for (name, block), make in BLOCKS.items():
        if name == page:
            begin, end = f"<!-- {block}: made by `make docs` -->\n", f"<!-- end of {block} -->\n"
            found = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
            old = found.search(text)
            assert old is not None, f"{page} has no block {block}"
            text = text[: old.start()] + begin + make() + end + text[old.end() :]
    return text


if __name__ == "__main__":
    for page in {name for name, _ in BLOCKS}:
        path = ROOT / "docs" / page
        path.write_text(with_tables(page, path.read_text()))
