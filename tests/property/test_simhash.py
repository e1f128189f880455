"""SimHash of one text and of many agrees with the text walked character by character and voted bit by bit."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from streamsched.estimation.simhash import simhash
from streamsched.numerics.text_words import SEPARATORS, WORDS_ALONE
from tests.reference import estimators

bounds = st.sampled_from([edge + d for span in (*SEPARATORS, *WORDS_ALONE) for edge in span for d in (-1, 0, 1)])
characters = (
    st.characters()
    | st.sampled_from("abc XYZ_9 -,.\u00e9\u00c9\u4e1c\u3042\u0e01\u043f\U0001f600")
    | bounds.filter(lambda code: code >= 0).map(chr)
)
texts = st.text(characters, max_size=40)


@given(st.lists(texts, max_size=5), st.integers(1, 64))
@example(["\ud800 \udfff", "", "a"], 1)
@example([" ".join("abcdefghij" * n for n in range(7))], 3)
def test_simhash_is_the_majority_of_its_runs_of_words(rows: list[str], width: int) -> None:
    expected = [estimators.simhash(text, width) for text in rows]
    assert simhash(rows, width=width).tolist() == expected
    assert [simhash(text, width=width) for text in rows] == expected


@given(texts, texts)
def test_repetition_of_a_whole_text_keeps_all_but_the_runs_across_the_seam(text: str, other: str) -> None:
    """Words that vote alone have no seam: any number of repetitions votes alike."""
    assert simhash(f"{text} {text} {text}", width=1) == simhash(text, width=1)
    assert simhash(f"{text} {other}", width=1) == simhash(f"{other} {text}", width=1)
