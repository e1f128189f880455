"""Tokens: what counts as a number, a name, a mark, and where each starts."""

from __future__ import annotations

import pytest

from streamsched.formula.syntax.lexer import Token, tokenize


@pytest.mark.parametrize("number", ["0", "12", "1.", ".5", "1.5", "1e3", "1E3", "1.e-3", ".5e+10", "007"])
def test_numbers_are_one_token(number: str) -> None:
    assert [*tokenize(number)] == [Token("number", number, 1), Token("end", "", len(number) + 1)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("1e", ["1", "e"]),
        ("1e+", ["1", "e", "+"]),
        ("1.2.3", ["1.2", ".3"]),
        ("2X", ["2", "X"]),
        ("1_000", ["1", "_000"]),
        ("0x1F", ["0", "x1F"]),
        ("a**b", ["a", "*", "*", "b"]),
        ("log(X)", ["log", "(", "X", ")"]),
    ],
)
def test_what_is_no_number_falls_apart(text: str, pieces: list[str]) -> None:
    assert [token.text for token in tokenize(text)] == [*pieces, ""]


def test_columns_count_characters_from_1_through_blanks_of_all_kinds() -> None:
    assert [(token.text, token.column) for token in tokenize(" X\t+\r\n t_1 ")] == [
        ("X", 2),
        ("+", 4),
        ("t_1", 8),
        ("", 12),
    ]


@pytest.mark.parametrize("letter", ["²", "٣", "é", "\u2212", "^", ".", "\x00", "\u00a0", "\U0001f600"])
def test_foreign_characters_are_tokens_of_their_own(letter: str) -> None:
    assert [*tokenize(f"X{letter}t")][1] == Token("unknown", letter, 2)
