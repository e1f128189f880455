"""What is claimed of a subtree, and the value that refutes each claim not made."""

from __future__ import annotations

import pytest

from streamsched.formula import Formula
from streamsched.formula.evaluation.value_claims import Claims, claims_of


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        ("3", "finite defined nonnegative"),
        ("-3", "finite defined"),
        ("X", "finite defined nonnegative"),
        ("-X", "finite defined"),
        ("log(X)", "finite defined"),
        ("exp(X)", "finite defined nonnegative"),
        ("X - n", "finite defined"),
        ("X + n", "defined nonnegative"),
        ("X * n", "defined nonnegative"),
        ("X / n", "defined nonnegative"),
        ("pow(X, n)", "defined nonnegative"),
        ("exp(X + n)", "finite defined nonnegative"),
        ("X - -n", "defined"),
        ("X * n + X * n", "defined nonnegative"),
        ("X * n - X", "defined"),
        ("X * n - X * n", ""),
        ("-X * n + X * n", ""),
        ("X * n * t", "nonnegative"),
        ("X * n / t", "defined nonnegative"),
        ("X * n / (X * t)", "nonnegative"),
        ("pow(X * n, -t)", "defined nonnegative"),
        ("exp(X * n - X * n)", "nonnegative"),
    ],
)
def test_claims(text: str, claims: str) -> None:
    assert claims_of(Formula.parse(text).root) == Claims(*(name in claims.split() for name in Claims._fields))
