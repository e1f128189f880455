"""Tokenises formula text; each token has its column."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

__all__ = ["Token", "tokenize"]

Kind: TypeAlias = Literal["number", "name", "mark", "unknown", "end"]

# ASCII only: \d would accept the digits of every script.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<number> (?: [0-9]+ (?: \. [0-9]* )? | \. [0-9]+ ) (?: [eE] [+-]? [0-9]+ )? )
      | (?P<name>   [A-Za-z_] [A-Za-z0-9_]* )
      | (?P<mark>   [-+*/(),] )
      | (?P<end>    \Z )
      | (?P<unknown> . )
    )""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """A piece of the text. `column` counts characters from 1; the end token is one past the last character."""

    kind: Kind
    text: str
    column: int


def tokenize(text: str) -> Iterator[Token]:
    """Yield the tokens of `text`, the last of kind "end"; an invalid character is "unknown". O(length).

    >>> [token.text for token in tokenize("1.5e-3*X")]
    ['1.5e-3', '*', 'X', '']
    """
    for match in _TOKEN.finditer(text):
        for kind in ("number", "name", "mark", "unknown"):
            if match[kind] is not None:
                yield Token(kind, match[kind], match.start(kind) + 1)
                break
        else:
            yield Token("end", "", len(text) + 1)
            return
