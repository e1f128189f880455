"""Fingerprints of texts."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import numpy as np
import pytest

from streamsched import Outcome
from streamsched.errors import SettingsError
from streamsched.estimation.change_detection import CHANGE_BITS, hamming
from streamsched.estimation.simhash import simhash

WORDS = [f"word{i}" for i in range(3000)]


def texts(count: int, length: int = 300) -> list[list[str]]:
    draw = np.random.default_rng(11)
    return [[WORDS[i] for i in draw.integers(0, len(WORDS), length)] for _ in range(count)]


def fingerprints(rows: list[list[str]], width: int = 3) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return simhash((" ".join(row) for row in rows), width=width)


@pytest.mark.parametrize(
    ("text", "expected", "expected_of_words"),
    [
        ("The quick brown fox jumps over the lazy dog", 0xC117D1AABFBF111E, 0x19B244FDACF24A45),
        ("a", 0x00EF0F84BD7A2E3E, 0x00EF0F84BD7A2E3E),
        ("STRASSE straße Straße", 0x6438E56C8BA57CEF, 0x03E41B57D8B9CC0E),
        ("naïve café \u2013 naïve café", 0x800780030A818065, 0x949024A401045002),
        ("東京で会いましょう", 0x32C1F4E0817423B2, 0x93AC50BCF94F893B),
        ("ไทย ภาษา", 0x0A54BDEFCC866DEB, 0xDEF48BFF02CA69B9),
        ("\U0001f600\U0001f680", 0x49AD0796307FDBBE, 0x124040B004230880),
        ("", 0, 0),
    ],
)
def test_fingerprints_are_the_same_in_every_version(text: str, expected: int, expected_of_words: int) -> None:
    """If this fails, stored fingerprints no longer compare: every page of every user would seem changed once."""
    assert simhash(text) == expected == simhash([text])[0]
    assert simhash(text, width=1) == expected_of_words


def test_unrelated_texts_differ_in_half_of_the_bits() -> None:
    found = fingerprints(texts(400))
    distances = hamming(found[:200], found[200:])
    assert 31.0 < distances.mean() < 33.0
    assert distances.min() > 16


def test_near_duplicates_differ_in_a_few_bits() -> None:
    before = texts(200)
    after = [[*row[:150], "edited", *row[151:]] for row in before]
    distances = hamming(fingerprints(before), fingerprints(after))
    assert distances.mean() < CHANGE_BITS / 2
    assert (distances >= CHANGE_BITS).mean() < 0.1


def test_rewritten_paragraph_is_a_change() -> None:
    before = texts(200)
    after = [[*row[:150], *reversed(row[150:180]), *row[180:]] for row in before]
    assert (hamming(fingerprints(before), fingerprints(after)) >= CHANGE_BITS).mean() > 0.9


def test_order_of_words_counts_unless_they_vote_alone() -> None:
    rows = texts(50)
    shuffled = [sorted(row) for row in rows]
    assert np.array_equal(fingerprints(rows, width=1), fingerprints(shuffled, width=1))
    assert hamming(fingerprints(rows, width=2), fingerprints(shuffled, width=2)).min() > CHANGE_BITS


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("Red green blue", "  red,\tGREEN\n(blue)!"),
        ("STRASSE", "straße"),
        (unicodedata.normalize("NFD", "Ångström naïve"), unicodedata.normalize("NFC", "ångström NAÏVE")),
        ("Привет, мир", "привет — МИР"),
        ("今日は、東京。", "今 日 は 東京"),
        ("don\u2019t", "don't"),
        ("\ufeffone\u00a0two", "one two"),
        ("", " .,;\n\u3000"),
    ],
)
def test_case_punctuation_and_spaces_do_not_count(left: str, right: str) -> None:
    assert simhash(left) == simhash(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [("one two", "onetwo"), ("a b", "b a"), ("e", "é"), ("東", "西"), ("x_y", "x y"), ("mp3", "mp 3"), ("ж", "ш")],
)
def test_letters_and_their_order_count(left: str, right: str) -> None:
    assert simhash(left) != simhash(right)


def test_one_character_of_a_script_without_spaces_does_not_alter_the_rest() -> None:
    draw = np.random.default_rng(5)
    before = ["".join(map(chr, draw.integers(0x4E00, 0x9FFF, 300))) for _ in range(100)]
    after = [text[:150] + "\u4e00" + text[151:] for text in before]
    assert hamming(simhash(before), simhash(after)).mean() < CHANGE_BITS / 2


def test_one_text_has_a_number_and_texts_have_a_column() -> None:
    assert type(simhash("one")) is int
    assert Outcome("https://a.example/", 1.0, fingerprint=simhash("one")).fingerprint == simhash("one")
    assert simhash([]).shape == (0,)
    assert simhash(["one", "", "two"]).dtype == np.uint64
    assert simhash(["one", "", "two"]).tolist() == [simhash("one"), 0, simhash("two")]
    assert simhash(iter(["one"])) == simhash(("one",))


def test_one_text_needs_no_compiler() -> None:
    """A crawler that fingerprints what it fetched starts in milliseconds."""
    program = "import sys; from streamsched import simhash; simhash('one two'); print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True)
    assert done.stdout == "False\n"


def test_any_str_has_a_fingerprint() -> None:
    assert simhash("half a \ud800 pair") != simhash("half a pair")
    assert simhash("nul\0nul") == simhash("nul nul")


@pytest.mark.parametrize("width", [0, -1, 65])
def test_width_outside_its_range_is_refused(width: int) -> None:
    with pytest.raises(SettingsError, match="width: expected 1 to 64 words"):
        simhash("one two", width=width)
