"""SimHash: fingerprints of texts, of one text without the compiler.

SimHash is a 64-bit fingerprint of text whose Hamming distance measures how much two texts differ. Charikar (2002),
"Similarity estimation techniques from rounding algorithms". Each run of `width` words votes with its hash on all 64
bits, once per occurrence; the majority decides, a tie gives 0. Texts that share all but a few runs differ in a few
bits, unrelated ones in about 32. A text with fewer words votes once, as a whole; a text without words has fingerprint
0. `numerics.text_words` says what a word is.

Equal texts have equal fingerprints in every version of this library and on every little-endian machine, because letters
are defined here, not by the running Python's tables. Only letters newer than those tables may be folded differently.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, overload

import numpy as np
import numpy.typing as npt

from streamsched.numerics.argument_checks import check_whole, read_items
from streamsched.numerics.text_words import SHINGLE_WORDS, encode, fingerprint_text, fold_text

_WIDEST: Final = 64


@overload
def simhash(texts: str, *, width: int = SHINGLE_WORDS) -> int: ...  # type: ignore[overload-overlap]
@overload
def simhash(texts: Iterable[str], *, width: int = SHINGLE_WORDS) -> npt.NDArray[np.uint64]: ...
def simhash(texts: str | Iterable[str], *, width: int = SHINGLE_WORDS) -> int | npt.NDArray[np.uint64]:
    """Return the fingerprint of a text, as `Outcome` takes it, or those of n texts: uint64[n]. O(characters).

    One text takes a few µs a word and compiles nothing; texts are walked by a kernel, which is compiled for the first.
    `width`: how many words vote together, 1 to 64. With 1 the order of words does not count; fingerprints of different
    widths are not comparable. Raises SettingsError if `width` is out of range or a text is no str, TypeError if `texts`
    are no texts.

    >>> simhash("Red green blue.") == simhash("red, GREEN (blue)")
    True
    >>> simhash("to be or not to be", width=1) == simhash("or not to be to be", width=1)
    True
    >>> simhash(["one", "two"]).shape
    (2,)
    """
    width = check_whole("width", width, 1, f"1 to {_WIDEST} words", most=_WIDEST)
    if isinstance(texts, str):
        return fingerprint_text(fold_text(texts), width)
    from streamsched.estimation.content import fingerprint_texts  # noqa: PLC0415  numba takes longer than one text

    return fingerprint_texts([encode(fold_text(text)) for text in read_items("texts", texts, "a text or texts")], width)
