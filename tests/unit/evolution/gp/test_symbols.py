"""The symbols of genomes."""

from __future__ import annotations

import math

import pytest

from streamsched.evolution.gp.symbols import CONSTANTS, TERMINAL_SETS, SymbolSet
from streamsched.formula import TERMINALS


def test_symbols_have_the_order_of_their_codes() -> None:
    symbol_set = SymbolSet(TERMINAL_SETS["paper"])
    terminals = ("n", "X", "t", "CG", "NAD", "SAD", "AAD", "GAD")
    constants = (0.001, 0.01, 0.1, 0.5, 1.0, 10.0, 100.0, 1000.0)
    assert symbol_set.symbols == (*terminals, *constants, "+", "-", "*", "/", "pow", "log", "exp")
    assert symbol_set.arity == bytes([0] * 16 + [2] * 5 + [1] * 2)
    assert symbol_set.leaves == 16


def test_each_set_of_terminals_holds_the_one_before() -> None:
    basic, paper, full = (TERMINAL_SETS[name] for name in ("basic", "paper", "full"))
    assert paper[: len(basic)] == basic
    assert full[: len(paper)] == paper
    assert set(full) == set(TERMINALS)


def test_symbol_sets_are_equal_if_their_leaves_are() -> None:
    assert SymbolSet(("X",)) == SymbolSet(("X",), CONSTANTS)
    assert SymbolSet(("X",), (0.0,)) == SymbolSet(("X",), (-0.0,))
    assert SymbolSet(("X",)) != SymbolSet(("X",), ())
    assert hash(SymbolSet(("X",))) == hash(SymbolSet(("X",)))


@pytest.mark.parametrize(
    ("terminals", "constants", "complaint"),
    [
        ((), (1.0,), "expected one or more, found none"),
        (("X", "X"), (), "each terminal and constant once"),
        (("X",), (1.0, 1.0), "each terminal and constant once"),
        (("X",), (0.0, -0.0), "each terminal and constant once"),
        (("X",), (math.nan,), "expected a finite constant"),
        (("X",), (math.inf,), "expected a finite constant"),
        (("log",), (), "expected a terminal's name"),
        (("2X",), (), "expected a terminal's name"),
        (("X",), tuple(map(float, range(249))), "at most 249 terminals and constants, found 250"),
    ],
)
def test_invalid_symbol_sets_are_refused(
    terminals: tuple[str, ...], constants: tuple[float, ...], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint):
        SymbolSet(terminals, constants)


def test_a_byte_is_enough_for_256_symbols() -> None:
    assert len(SymbolSet(("X",), tuple(map(float, range(248)))).arity) == 256
