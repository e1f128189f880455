"""Sentences: one for each code, made of the finding's values alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streamsched.replay
from streamsched.replay.reporting.sentences import _SENTENCES, Finding, describe


def test_every_code_has_a_sentence_and_every_sentence_a_code() -> None:
    root = Path(streamsched.replay.__file__).parent
    sources = [path.read_text() for path in root.rglob("*.py") if path.name != "sentences.py"]
    written = {code for source in sources for code in re.findall(r'Finding\(\s*"(\w+)"', source)}
    composed = {
        *(
            "best_change_rate",
            "best_freshness",
            "below_age",
            "below_posterior",
            "untestable_periods",
            "unclear_periods",
        ),
        *("no_week", "no_hours", "shorter_than_week", "shorter_than_four_weeks"),
    }
    assert written | composed == set(_SENTENCES)


def test_an_unknown_code_is_an_error() -> None:
    with pytest.raises(KeyError):
        describe(Finding("unheard_of"))


def test_numbers_are_rounded_for_reading() -> None:
    values = {"policies": ["nad", "gad"], "value": 0.12345, "baseline": "age", "baseline_value": 0.1}
    assert describe(Finding("best_change_rate", values)).startswith("nad and gad found the most changes: 0.123 ")
    assert describe(Finding("best_change_rate", values)).endswith("(age: 0.100).")


def test_a_name_of_a_policy_may_look_like_a_field() -> None:
    values = {"policies": ["nad", "my {own}"], "gaps": [0.0123, 3e-5], "metric": "freshness", "baseline_value": 0.9}
    assert describe(Finding("below_age", values)).endswith("nad by 0.012 and my {own} by 3e-05.")
