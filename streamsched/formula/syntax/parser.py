"""From text to tree: an operator-precedence parser with two stacks and no recursion.

::

    formula  = sum
    sum      = product { ("+" | "-") product }       groups to the left
    product  = signed { ("*" | "/") signed }         groups to the left
    signed   = "-" signed | operand                  so -X/n*t is ((-X)/n)*t; there is no unary plus
    operand  = number | terminal | "(" sum ")" | ("log" | "exp") "(" sum ")" | "pow" "(" sum "," sum ")"
    number   = digits, point and exponent as in Python, without underscores, finite as a float64

A minus directly before a number belongs to it: ``-3`` is a constant and ``-(3)`` a negation. Between tokens there may
be spaces, tabs and line ends. A text may have 100,000 characters, 100 brackets open at once, and give a tree of 100
levels and 4096 nodes; every operator of a chain ``a + b + c`` is one level.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterator
from typing import Final, Literal, NamedTuple, NoReturn, TypeAlias, cast

from streamsched.errors import FormulaError, shorten
from streamsched.formula.syntax.nodes import (
    BINDING,
    FUNCTIONS,
    MAX_DEPTH,
    MAX_NAME,
    MAX_SIZE,
    NEGATION_BINDING,
    Binary,
    BinaryOp,
    Constant,
    Node,
    Terminal,
    Unary,
    UnaryOp,
)

Kind: TypeAlias = Literal["number", "name", "mark", "unknown", "end"]

MAX_LENGTH: Final = 100_000  # characters; no tree of 4096 nodes prints longer

_CLOSE: Final = 0.65  # similarity from which a known name is suggested; __import__ and importance have 0.6
_OPERAND: Final = "a number, a name, '-' or '('"
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


class _Pending(NamedTuple):
    """An operator or an opening bracket whose right side is not complete yet."""

    op: str
    binding: int  # 0 for a bracket
    column: int
    missing: int = 0  # commas still to come before the bracket may close


def parse_tree(text: str, terminals: Collection[str]) -> Node:
    """Return the tree of `text`, in which names may be any of `terminals`. O(length).

    Raises FormulaError at the column of the first character that does not fit.
    """
    if len(text) > MAX_LENGTH:
        reason = f"found {len(text):,} characters, expected at most {MAX_LENGTH:,}"
        raise FormulaError(text, MAX_LENGTH + 1, reason)
    return _Parser(text, terminals).parse()


class _Parser:
    def __init__(self, text: str, terminals: Collection[str]) -> None:
        self.text = text
        self.terminals = terminals
        self.tokens = tokenize(text)
        self.operands: list[tuple[Node, int]] = []  # with its depth
        self.pending: list[_Pending] = []
        self.brackets: list[_Pending] = []  # those of `pending` that are brackets
        self.size = 0

    def parse(self) -> Node:
        self._read_operand()
        while self._read_operator():
            self._read_operand()
        return self.operands.pop()[0]

    def _read_operand(self) -> None:
        """Read signs and opening brackets, then a number or a terminal."""
        previous = Token("end", "", 0)
        while True:
            token = next(self.tokens)
            if token.text == "-":
                self.pending.append(_Pending("neg", NEGATION_BINDING, token.column))
            elif token.text == "(":
                self._open(_Pending("(", 0, token.column))
            elif token.text in FUNCTIONS:
                self._open_function(token)
            elif token.kind == "number":
                return self._push_number(token, negative=previous.text == "-")
            elif token.kind == "name":
                return self._push_terminal(token)
            else:
                self._refuse(token, _OPERAND)
            previous = token

    def _read_operator(self) -> bool:
        """Read closing brackets, then an operator or a comma; return False at the end of the text."""
        while True:
            token = next(self.tokens)
            if token.text in BINDING:
                self._reduce(BINDING[token.text])
                self.pending.append(_Pending(token.text, BINDING[token.text], token.column))
                return True
            if token.text == ")" and self.brackets and not self.brackets[-1].missing:
                self._close()
            elif token.text == "," and self.brackets and self.brackets[-1].missing:
                self._reduce(1)
                op, binding, column, missing = self.brackets[-1]
                self.pending[-1] = self.brackets[-1] = _Pending(op, binding, column, missing - 1)
                return True
            elif token.kind == "end" and not self.brackets:
                self._reduce(1)
                return False
            else:
                self._refuse(token, f"an operator or {self._closer()}")

    def _open(self, bracket: _Pending) -> None:
        if len(self.brackets) == MAX_DEPTH:
            reason = f"found more than {MAX_DEPTH} open brackets, expected at most {MAX_DEPTH}"
            raise FormulaError(self.text, bracket.column, reason)
        self.brackets.append(bracket)
        self.pending.append(bracket)

    def _open_function(self, token: Token) -> None:
        bracket = next(self.tokens)
        if bracket.text != "(":
            self._refuse(bracket, f"'(' after {token.text}")
        self._open(_Pending(token.text, 0, token.column, missing=FUNCTIONS[token.text] - 1))

    def _close(self) -> None:
        self._reduce(1)
        self.brackets.pop()
        bracket = self.pending.pop()
        if bracket.op != "(":
            self._apply(bracket)

    def _reduce(self, binding: int) -> None:
        """Apply the pending operators that bind at least as tightly as `binding`."""
        while self.pending and self.pending[-1].binding >= binding:
            self._apply(self.pending.pop())

    def _apply(self, pending: _Pending) -> None:
        operand, depth = self.operands.pop()
        if pending.op in BINDING or pending.op == "pow":
            left, left_depth = self.operands.pop()
            node: Node = Binary(cast(BinaryOp, pending.op), left, operand)
            depth = max(depth, left_depth)
        else:
            node = Unary(cast(UnaryOp, pending.op), operand)
        if depth == MAX_DEPTH:
            reason = f"found more than {MAX_DEPTH} levels, expected at most {MAX_DEPTH}; group long chains in brackets"
            raise FormulaError(self.text, pending.column, reason)
        self._push(node, depth + 1, pending.column)

    def _push(self, node: Node, depth: int, column: int) -> None:
        self.size += 1
        if self.size > MAX_SIZE:
            reason = f"found more than {MAX_SIZE} numbers, names and operators, expected at most {MAX_SIZE}"
            raise FormulaError(self.text, column, reason)
        self.operands.append((node, depth))

    def _push_number(self, token: Token, *, negative: bool) -> None:
        value = float(token.text)
        if math.isinf(value):
            self._refuse(token, "a number that float64 can hold, at most 1.8e308")
        if negative:
            self.pending.pop()
            value = -value
        self._push(Constant(value), 1, token.column)

    def _push_terminal(self, token: Token) -> None:
        if token.text not in self.terminals:
            reason = f"found unknown name {shorten(token.text, MAX_NAME)}{self._suggest(token.text)}"
            raise FormulaError(self.text, token.column, reason)
        self._push(Terminal(token.text), 1, token.column)

    def _suggest(self, name: str) -> str:
        """Return a question for the known name closest to `name`, or all of them if none is close."""
        names = [*self.terminals, *FUNCTIONS]
        known = {known.casefold(): known for known in names}
        near = difflib.get_close_matches(name[:MAX_NAME].casefold(), known, n=1, cutoff=_CLOSE)
        return f": did you mean {known[near[0]]!r}?" if near else f", expected one of {', '.join(names)}"

    def _closer(self) -> str:
        if not self.brackets:
            return "the end"
        bracket = self.brackets[-1]
        return f"{',' if bracket.missing else ')'!r} for {bracket.op!r} of column {bracket.column}"

    def _refuse(self, token: Token, expected: str) -> NoReturn:
        found = "the end" if token.kind == "end" else shorten(token.text, MAX_NAME)
        foreign_power = token.text == "^" or self.text[: token.column].endswith("**")
        hint = "; write pow(a, b) for a to the power of b" if foreign_power else ""
        raise FormulaError(self.text, token.column, f"found {found}, expected {expected}{hint}")
