"""Exponentials, logarithms and powers of float64 for kernels, without branches, so that loops over them vectorise.

They use only IEEE 754 sums, products and quotients, each rounded separately: results are the same bits on every
machine, in every vector lane and in the remaining rows. Kernels inline them. Coefficients are minimax fits for the
ranges named here.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from streamsched.numerics.jit import inlined_kernel

ALMOST_CERTAIN: Final = 1.0 - 2.0**-52  # a probability whose complement has a logarithm

_LN2_HIGH: Final = 0.6931471803691238  # the upper 32 bits of ln 2: products with whole numbers up to 2**21 are exact
_LN2_LOW: Final = 1.9082149292705877e-10  # the rest
_LOG2_E: Final = 1.4426950408889634

_HIGHEST: Final = 710.0  # e**710 is infinite
_LOWEST: Final = -746.0  # e**-746 is 0
_SMALLEST_NORMAL: Final = 2.0**-1022
_TWO_54: Final = 2.0**54
_HALF_ULP: Final = 2.0**-54  # of numbers just below 1

# Adding it rounds a number to a whole one and puts that plus 2046, twice the exponent bias, into the lowest bits.
_ROUNDER: Final = 1.5 * 2.0**52 + 2046.0

_FIFTY_TWO: Final = np.uint64(52)  # bits of a significand
_ONE: Final = np.uint64(1)
_BIAS: Final = np.uint64(1023)
_BIAS_AND_ONE: Final = np.uint64(1024)
_SIGNIFICAND: Final = np.uint64((1 << 52) - 1)
_UPPER: Final = np.uint64(0xFFFFFFFFF8000000)  # sign, exponent and 26 bits of the significand
_SQRT_HALF: Final = np.uint64(0x3FE6A09E667F3BCD)  # the bits of the square root of 1/2
_ONE_LESS_SQRT_HALF: Final = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_TWO_52: Final = np.uint64(0x4330000000000000)  # the bits of 2**52; whole numbers below it may be or'ed in
_BIASED: Final = 2.0**52 + 1023.0
_BIASED_BY_54: Final = 2.0**52 + 1023.0 + 54.0


@inlined_kernel
def exp(x: float) -> float:
    """Return e**x for x from -708 to 709, within 1 ulp; NaN for NaN, undefined for other numbers. O(1)."""
    shifted = x * _LOG2_E + _ROUNDER
    whole = shifted - _ROUNDER
    rest = (x - whole * _LN2_HIGH) - whole * _LN2_LOW
    return (1.0 + (rest + _bend(rest))) * np.uint64((_bits(shifted) - _BIAS) << _FIFTY_TWO).view(np.float64)


@inlined_kernel
def expm1(x: float) -> float:
    """Return e**x - 1, within 2 ulp also near 0; from -1 to infinity above 709.8. O(1)."""
    within = max(min(x, _HIGHEST), -80.0)
    shifted = within * _LOG2_E + _ROUNDER
    whole = shifted - _ROUNDER
    near = within - whole * _LN2_HIGH
    far = whole * _LN2_LOW
    rest = near - far
    lost = (near - rest) - far
    half = np.uint64((_bits(shifted) - _BIAS_AND_ONE) << _FIFTY_TWO).view(np.float64)  # of 2**whole, which may overflow
    grown = 2.0 * (((half - 0.5) + half * rest) + half * (_bend(rest) + lost))
    return x if abs(x) < _HALF_ULP else grown


@inlined_kernel
def log(x: float) -> float:
    """Return the natural logarithm of x > 0, also of infinity, within 1 ulp; NaN for NaN, else undefined. O(1)."""
    whole, part = _split(x)
    logarithm = _join(whole, part - 1.0, 0.0)
    return logarithm if x < np.inf else x


@inlined_kernel
def log1p(x: float) -> float:
    """Return the natural logarithm of 1 + x for x > -1, within 2 ulp also near 0, as `log` does. O(1)."""
    grown = 1.0 + x
    lost = (x - (grown - 1.0)) / grown
    whole, part = _split(grown)
    logarithm = _join(whole, part - 1.0, lost)
    return logarithm if x < np.inf else x


@inlined_kernel
def power(base: float, exponent: float) -> float:
    """Return base**exponent for a finite base > 0 and exponents from -80 to 80, within 2 ulp; undefined for others.
    O(1).

    Computed as e**(exponent * ln(base)), both as sums of two numbers with about 60 bits after the point: 0 below
    e**-745, infinity above e**709.8, and 1 for the exponent 0.
    """
    high, low = _log_in_two(base)
    exponent_upper = _upper(exponent)
    high_upper = _upper(high + low)
    near = exponent_upper * high_upper  # exact
    far = exponent * ((high - high_upper) + low) + (exponent - exponent_upper) * high_upper
    wanted = near + far
    far = 0.0 if wanted > _HIGHEST or wanted < _LOWEST else far
    near = _HIGHEST if wanted > _HIGHEST else near
    near = _LOWEST if wanted < _LOWEST else near
    shifted = (near + far) * _LOG2_E + _ROUNDER
    whole = shifted - _ROUNDER
    rest = (near - whole * _LN2_HIGH) + (far - whole * _LN2_LOW)
    bits = _bits(shifted)
    half = bits >> _ONE  # in two steps, for subnormal results
    first, second = np.uint64(half << _FIFTY_TWO), np.uint64((bits - half) << _FIFTY_TWO)
    return (1.0 + (rest + _bend(rest))) * first.view(np.float64) * second.view(np.float64)


@inlined_kernel
def _log_in_two(x: float) -> tuple[float, float]:
    """Return the natural logarithm as a sum: with s = f/(2 + f), f = x/2**k - 1, it is k ln 2 + 2 s + s**3 ..."""
    whole, part = _split(x)
    inverse = 1.0 / (part + 1.0)
    s_upper = _upper((part - 1.0) * inverse)
    sum_upper = _upper(part + 1.0)
    sum_lower = part - (sum_upper - 1.0)
    s_lower = inverse * (((part - 1.0) - s_upper * sum_upper) - s_upper * sum_lower)  # what the division left
    s = s_upper + s_lower
    coarse = whole * _LN2_HIGH
    fine = 2.0 * s_upper
    high = coarse + fine
    square = s * s
    low = ((coarse - high) + fine) + (whole * _LN2_LOW + (2.0 * s_lower + s * square * _arc(square)))
    return high, low


@inlined_kernel
def _split(x: float) -> tuple[float, float]:
    """Return k and m with x = 2**k * m and m from sqrt(1/2) to sqrt(2), for x > 0."""
    small = x < _SMALLEST_NORMAL
    normal = x * _TWO_54 if small else x
    bias = _BIASED_BY_54 if small else _BIASED
    moved = _bits(normal) + _ONE_LESS_SQRT_HALF
    whole = np.uint64((moved >> _FIFTY_TWO) | _TWO_52).view(np.float64) - bias
    return whole, np.uint64((moved & _SIGNIFICAND) + _SQRT_HALF).view(np.float64)


@inlined_kernel
def _join(whole: float, f: float, lost: float) -> float:
    """Return whole * ln 2 + ln(1 + f) + lost, for a small `lost`."""
    s = f / (2.0 + f)
    square = s * s
    half_square = 0.5 * f * f
    below = s * (half_square + square * _arc(square)) + (whole * _LN2_LOW + lost)
    return whole * _LN2_HIGH - ((half_square - below) - f)


@inlined_kernel
def _bend(r: float) -> float:
    """Return e**r - 1 - r for |r| up to ln(2)/2."""
    square = r * r
    fourth = square * square
    low = (0.5 + r * 0.16666666666666677) + square * (0.041666666666620604 + r * 0.008333333333319298)
    mid = (0.001388888892029554 + r * 0.00019841269893672775) + square * (
        2.4801516575069343e-05 + r * 2.7557235662311225e-06
    )
    return square * (low + fourth * (mid + fourth * (2.7622150952783863e-07 + r * 2.511221073064976e-08)))


@inlined_kernel
def _arc(square: float) -> float:
    """Return (ln((1 + s)/(1 - s)) - 2 s)/s**3 for the square of s, up to 0.0295."""
    fourth = square * square
    even = 0.6666666666666735 + fourth * (
        0.2857142874278101 + fourth * (0.1818356684574414 + fourth * 0.1479668793976494)
    )
    return even + square * (0.3999999999941312 + fourth * (0.22222198528573894 + fourth * 0.15313981294157072))


@inlined_kernel
def _upper(x: float) -> float:
    """Return the upper half of the significand: products of two such are exact, and so is the difference to `x`."""
    return np.uint64(_bits(x) & _UPPER).view(np.float64)


@inlined_kernel
def _bits(x: float) -> np.uint64:
    return np.float64(x).view(np.uint64)
