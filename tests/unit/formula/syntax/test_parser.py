"""The grammar: what each text means, and for every kind of error its column and what it says."""

from __future__ import annotations

import pytest

from streamsched.errors import FormulaError
from streamsched.formula import MAX_LENGTH, Binary, Constant, Formula, Node, Terminal, Unary
from streamsched.formula.syntax.parser import Token, tokenize
from streamsched.formula.terminal_table import PROVIDED

X, N, T = Terminal("X"), Terminal("n"), Terminal("t")


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("X", X),
        ("1e3", Constant(1000)),
        ("X + n * t", Binary("+", X, Binary("*", N, T))),
        ("X * n + t", Binary("+", Binary("*", X, N), T)),
        ("X - n - t", Binary("-", Binary("-", X, N), T)),
        ("X / n / t", Binary("/", Binary("/", X, N), T)),
        ("X - (n - t)", Binary("-", X, Binary("-", N, T))),
        ("-X/n*t", Binary("*", Binary("/", Unary("neg", X), N), T)),
        ("X*-n", Binary("*", X, Unary("neg", N))),
        ("X--n", Binary("-", X, Unary("neg", N))),
        ("-(X+n)", Unary("neg", Binary("+", X, N))),
        ("-3", Constant(-3)),
        ("- 3", Constant(-3)),
        ("--3", Unary("neg", Constant(-3))),
        ("-(3)", Unary("neg", Constant(3))),
        ("X-3", Binary("-", X, Constant(3))),
        ("X - -3", Binary("-", X, Constant(-3))),
        ("-0", Constant(0)),
        ("1e-999", Constant(0)),
        ("log(X)", Unary("log", X)),
        ("-exp (-X)", Unary("neg", Unary("exp", Unary("neg", X)))),
        ("pow(X + n, -t)", Binary("pow", Binary("+", X, N), Unary("neg", T))),
        ("pow(pow(X, n), (t))", Binary("pow", Binary("pow", X, N), T)),
        ("((X))", X),
        ("\n1 -\n\texp(-X/n*t)\r\n", Formula.parse("1-exp(-X/n*t)").root),
    ],
)
def test_texts_mean_trees(text: str, tree: Node) -> None:
    assert Formula.parse(text).root == tree


OPERAND = "expected a number, a name, '-' or '('"
REST = "expected an operator or the end"


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("", 1, f"found the end, {OPERAND}"),
        ("   ", 4, f"found the end, {OPERAND}"),
        ("X + ", 5, f"found the end, {OPERAND}"),
        ("X + * n", 5, f"found '*', {OPERAND}"),
        ("+X", 1, f"found '+', {OPERAND}"),
        ("X * +n", 5, f"found '+', {OPERAND}"),
        ("()", 2, f"found ')', {OPERAND}"),
        ("X n", 3, f"found 'n', {REST}"),
        ("2X", 2, f"found 'X', {REST}"),
        ("1.2.3", 4, f"found '.3', {REST}"),
        ("n(X)", 2, f"found '(', {REST}"),
        ("X)", 2, f"found ')', {REST}"),
        ("X, n", 2, f"found ',', {REST}"),
        ("X = n", 3, f"found '=', {REST}"),
        ("X \u2212 n", 3, f"found '\u2212', {REST}"),
        ("é", 1, f"found 'é', {OPERAND}"),
        ("X\x00", 2, f"found '\\x00', {REST}"),
        ("X ^ 2", 3, f"found '^', {REST}; write pow(a, b) for a to the power of b"),
        ("X ** 2", 4, f"found '*', {OPERAND}; write pow(a, b) for a to the power of b"),
        ("1 + (X", 7, "found the end, expected an operator or ')' for '(' of column 5"),
        ("log(X", 6, "found the end, expected an operator or ')' for 'log' of column 1"),
        ("log(X, n)", 6, "found ',', expected an operator or ')' for 'log' of column 1"),
        ("(X, n)", 3, "found ',', expected an operator or ')' for '(' of column 1"),
        ("pow(X)", 6, "found ')', expected an operator or ',' for 'pow' of column 1"),
        ("pow(X", 6, "found the end, expected an operator or ',' for 'pow' of column 1"),
        ("pow((X, n), t)", 7, "found ',', expected an operator or ')' for '(' of column 5"),
        ("pow(X, n, t)", 9, "found ',', expected an operator or ')' for 'pow' of column 1"),
        ("pow(, n)", 5, f"found ',', {OPERAND}"),
        ("log()", 5, f"found ')', {OPERAND}"),
        ("log X", 5, "found 'X', expected '(' after log"),
        ("1 + exp", 8, "found the end, expected '(' after exp"),
        ("1 + 1e999", 5, "found '1e999', expected a number that float64 can hold, at most 1.8e308"),
        ("-1e309", 2, "found '1e309', expected a number that float64 can hold, at most 1.8e308"),
        ("X * x", 5, "found unknown name 'x': did you mean 'X'?"),
        ("1 - posteriour", 5, "found unknown name 'posteriour': did you mean 'posterior'?"),
        ("LOG(X)", 1, "found unknown name 'LOG': did you mean 'log'?"),
        ("__import__", 1, f"found unknown name '__import__', expected one of {', '.join(PROVIDED)}, log, exp, pow"),
        ("sqrt(X)", 1, f"found unknown name 'sqrt', expected one of {', '.join(PROVIDED)}, log, exp, pow"),
        ("X + " + "y" * 5000, 5, "found unknown name 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy…, expected one of n, X, "),
    ],
)
def test_errors_name_the_column_and_what_was_expected(text: str, column: int, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        Formula.parse(text)
    assert caught.value.text == text
    assert caught.value.column == column
    assert caught.value.reason[: len(reason)] == reason
    assert caught.value.reason == reason or len(text) > 5000


def test_names_are_the_terminals_that_are_given() -> None:
    assert Formula.parse("age * X", terminals=["age", "X"]).terminals == ("X", "age")
    with pytest.raises(FormulaError, match="'surge', expected one of n, X, log, exp, pow"):
        Formula.parse("surge", terminals=["n", "X"])


def test_a_text_may_open_100_brackets_at_once_and_no_more() -> None:
    assert Formula.parse("(" * 100 + "X" + ")" * 100).root == X
    with pytest.raises(FormulaError, match="found more than 100 open brackets, expected at most 100") as caught:
        Formula.parse("(" * 100 + "log(X" + ")" * 101)
    assert caught.value.column == 101


def test_a_text_may_nest_100_levels_and_no_more() -> None:
    assert Formula.parse("-" * 99 + "X").depth == 100
    assert Formula.parse("X" + "+X" * 99).depth == 100
    assert Formula.parse(str(Formula.parse("log(" * 99 + "X" + ")" * 99))).depth == 100
    for text, column in (("-" * 100 + "X", 1), ("X" + "+X" * 150, 200), ("log(" * 100 + "X" + ")" * 100, 1)):
        with pytest.raises(FormulaError, match="found more than 100 levels, expected at most 100") as caught:
            Formula.parse(text)
        assert caught.value.column == column


def test_a_text_may_have_4096_nodes_and_no_more() -> None:
    """64 groups of 32 names are 4095 nodes; a sign makes one more, a difference two."""
    group = "(" + "+".join(["X"] * 32) + ")"
    text = "*".join([group] * 64)
    assert Formula.parse(f"-({text})").size == 4096
    with pytest.raises(FormulaError, match="found more than 4096 numbers, names and operators") as caught:
        Formula.parse(f"{text} - X")
    assert caught.value.column == len(text) + 2


def test_a_text_may_have_100_000_characters_and_no_more() -> None:
    assert Formula.parse("X".ljust(MAX_LENGTH)).root == X
    with pytest.raises(FormulaError, match="found 100,001 characters, expected at most 100,000") as caught:
        Formula.parse("X".ljust(MAX_LENGTH + 1))
    assert caught.value.column == MAX_LENGTH + 1


@pytest.mark.parametrize("text", ["(" * 90_000, "-" * 90_000, "pow(" * 20_000, "X+" * 40_000, "9" * 90_000])
def test_hostile_texts_end_in_an_error(text: str) -> None:
    with pytest.raises(FormulaError):
        Formula.parse(text)


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
