"""Slow reference implementations of every kernel and every incremental formula, to compare the fast ones with."""

from __future__ import annotations

import itertools
import math
import unicodedata
from collections.abc import Mapping
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from streamsched.connectors.formats.msgpack_boundaries import ANONYMOUS, EVENT, FRAME, INCOMPLETE, MALFORMED, MAX_DEPTH
from streamsched.formula import Constant, Node, Terminal, Unary
from streamsched.numerics.jit import mix
from streamsched.numerics.text_words import SEPARATORS, WORDS_ALONE
from streamsched.numerics.url_bytes import hash_bytes

# --- posterior


@lru_cache(1 << 16)  # many pages have the same history
def after_change(shape: float, exposure: float, interval: float) -> tuple[float, float]:
    """Match mean and variance of the exact posterior, in 120 decimal digits, so that no difference cancels."""
    with localcontext() as context:
        context.prec = 120
        a, b, tau = Decimal(shape), Decimal(exposure), Decimal(interval)
        ratio = b / (b + tau)
        power = (a * ratio.ln()).exp()
        d0, d1, d2 = (1 - power * ratio**j for j in range(3))
        m1 = a / b * d1 / d0
        m2 = a * (a + 1) / b**2 * d2 / d0
        v = m2 - m1 * m1
        return float(m1 * m1 / v), float(m1 / v)


@lru_cache(1 << 16)
def probability_changed(shape: float, exposure: float, elapsed: float) -> float:
    """1 - (b/(b + t))^a in 120 decimal digits."""
    with localcontext() as context:
        context.prec = 120
        a, b, t = Decimal(shape), Decimal(exposure), Decimal(elapsed)
        return float(1 - (a * (b / (b + t)).ln()).exp())


# --- change


def judge(given: dict[str, Any], page: dict[str, Any] | None, threshold: int, changes: str = "exact") -> str:
    """The rules of changes, in their order; `given` and `page`: what a visit carries, and what the page has stored."""
    status = given.get("status", 200)
    failed = status in (0, 429) or status // 100 >= 5
    if failed:
        return "failure"
    if page is None:
        return "first"
    rules = [
        ("changed" in given, given.get("changed")),
        (status == 304, False),
        ((status < 400) != page["success"], True),
        (status >= 400, False),
    ]
    for applies, changed in rules:
        if applies:
            return "change" if changed else "same"
    hashes = ["content", "fingerprint"] if changes == "exact" else ["fingerprint", "content"]
    for name in hashes:
        if name in given and name in page and (name == "fingerprint" or _made_alike(given[name], page[name])):
            differing = sum(a != b for a, b in zip(f"{given[name]:064b}", f"{page[name]:064b}", strict=True))
            return "change" if differing >= (threshold if name == "fingerprint" else 1) else "same"
    return "no_evidence"


def _made_alike(left: int, right: int) -> bool:
    """Whether two hashes of contents are compared: of 16 hexadecimal digits, C0E7 and 10 bits say how."""
    kinds = [(f"{one:064b}"[:26] if f"{one:016x}".startswith("c0e7") else "other") for one in (left, right)]
    return kinds[0] == kinds[1]


# --- formulas


def protected(op: str, *operands: float) -> float:
    """The operations of formulas on numbers, by `math`."""
    if any(math.isnan(operand) for operand in operands):
        return math.nan
    a, b = (*operands, 0.0)[:2]
    if op == "neg":
        return -a
    if op == "log":
        return 0.0 if a <= 0 else math.log(a)
    if op == "exp":
        return math.exp(clamped(a))
    if op == "/":
        return 0.0 if b == 0 else a / b
    if op == "pow":
        return 0.0 if a < 0 or (a == 0 and b < 0) else power(a, clamped(b))
    return {"+": a + b, "-": a - b, "*": a * b}[op]


def clamped(exponent: float) -> float:
    return min(max(exponent, -80.0), 80.0)


def power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf


def formula_value(node: Node, row: Mapping[str, float]) -> float:
    """The value of a tree for one row, by walking it."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Terminal):
        return row[node.name]
    children = [node.operand] if isinstance(node, Unary) else [node.left, node.right]
    return protected(node.op, *(formula_value(child, row) for child in children))


# --- bounds of formulas

Ends: TypeAlias = tuple[float, float]


def interval(op: str, *operands: Ends) -> Ends:
    """The hull of an operation's values over intervals: that of all corners, each operand split at 0."""
    chosen_parts = itertools.product(*(cut(operand) for operand in operands))
    corners = [corner for chosen in chosen_parts for corner in itertools.product(*chosen)]
    values = [protected(op, *corner) for corner in corners]
    numbers = [value for value in values if not math.isnan(value)]
    if op not in ("+", "-") and len(numbers) < len(values):
        numbers.append(0.0)  # what is nearly infinite times 0, and a number over infinity
    return min(numbers, default=math.inf), max(numbers, default=-math.inf)


def cut(operand: Ends) -> list[Ends]:
    """The parts of an interval below 0, at 0 and above."""
    low, high = operand
    parts = [(low, min(high, -5e-324)), (0.0, 0.0), (max(low, 5e-324), high)]
    return [part for part in parts if low <= part[0] <= part[1] <= high]


def formula_interval(node: Node, box: Mapping[str, Ends]) -> Ends:
    """The interval of a tree's values, given those of the terminals, by walking it."""
    if isinstance(node, Constant):
        return node.value, node.value
    if isinstance(node, Terminal):
        return box[node.name]
    children = [node.operand] if isinstance(node, Unary) else [node.left, node.right]
    return interval(node.op, *(formula_interval(child, box) for child in children))


# --- estimators: each from the whole list of flags, the oldest first


def cg(flags: list[bool]) -> float:
    """-ln((n - X + 0.5)/(n + 0.5)) in 120 decimal digits."""
    with localcontext() as context:
        context.prec = 120
        half = Decimal("0.5")
        return float(-((len(flags) - sum(flags) + half) / (len(flags) + half)).ln())


def weighted(flags: list[bool], weights: list[int]) -> float:
    """The sum of w_i I_i over the sum of w_i, exactly; 0 for no visit."""
    total = sum(weights)
    return float(Fraction(sum(w for w, changed in zip(weights, flags, strict=True) if changed), total or 1))


def nad(flags: list[bool]) -> float:
    """w_i = 1/n."""
    return weighted(flags, [1 for _ in flags])


def sad(flags: list[bool]) -> float:
    """w_n = 1, all others 0."""
    return weighted(flags, [int(i == len(flags)) for i in range(1, len(flags) + 1)])


def aad(flags: list[bool]) -> float:
    """w_i = 2i/(n(n + 1))."""
    return weighted(flags, list(range(1, len(flags) + 1)))


def gad(flags: list[bool]) -> float:
    """w_i = 2^(i - 1)/(2^n - 1)."""
    return weighted(flags, [2**i for i in range(len(flags))])


def naive_interval(flags: list[bool], intervals: list[float]) -> float:
    """T/X; 0 before time has passed, infinite before a change."""
    total = math.fsum(intervals)
    return 0.0 if total == 0 else total / sum(flags) if any(flags) else math.inf


def modified_interval(flags: list[bool]) -> float:
    """-1/ln((N - X + 0.5)/(N + 0.5)); 0 for no visit, infinite before a change."""
    return 0.0 if not flags else 1.0 / cg(flags) if any(flags) else math.inf


def gamma_posterior(shape: float, exposure: float, flags: list[bool], intervals: list[float]) -> tuple[float, float]:
    """The prior carried through all visits, each change moment-matched in exact arithmetic."""
    for changed, interval in zip(flags, intervals, strict=True):
        if changed and interval == 0:
            shape += 1.0
        elif changed:
            shape, exposure = after_change(shape, exposure, interval)
        else:
            exposure += interval
    return shape, exposure


# --- elementary functions: the twins are those of `math`


def ulps_between(found: float, expected: float) -> float:
    """The distance of two numbers in units in the last place of the second; 0 if both are infinite."""
    return 0.0 if found == expected else abs(found - expected) / math.ulp(expected)


# --- simhash


def words(text: str) -> list[str]:
    """The words of a text, character by character."""
    found = [""]
    for character in unicodedata.normalize("NFC", text.casefold()):
        alone = any(first <= ord(character) <= last for first, last in WORDS_ALONE)
        separator = any(first <= ord(character) <= last for first, last in SEPARATORS)
        if alone:
            found += [character, ""]
        elif separator:
            found += [""]
        else:
            found[-1] += character
    return [word for word in found if word]


def simhash(text: str, width: int) -> int:
    """The majority of the bits of the hashes of all runs of `width` words, +1 for a set bit, -1 for a clear one."""
    hashes = [hash_text(word) for word in words(text)]
    run = min(width, len(hashes))
    runs = [hashes[i : i + run] for i in range(len(hashes) - run + 1)] if run else []
    codes = []
    for members in runs:
        code = run
        for member in members:
            code = int(mix(np.uint64((code * 0x9E3779B97F4A7C15 + member) % 2**64)))
        codes.append(code)
    return sum(1 << bit for bit in range(64) if sum(1 if code >> bit & 1 else -1 for code in codes) > 0)


def hash_text(word: str) -> int:
    """The hash of one word's UTF-8, by the kernel, which has a reference of its own."""
    raw = np.frombuffer(word.encode("utf-8", "surrogatepass"), np.uint8)
    return int(hash_bytes(raw, 0, raw.size))


# --- connectors: msgpack structure


class _NoMap(Exception):
    """A map that cannot be read further: `verdict` says whether more bytes may help."""

    def __init__(self, verdict: int) -> None:
        self.verdict = verdict


class MsgpackMap:
    """One map of a msgpack stream, token by token: its end or a verdict, and its kind."""

    def __init__(self, data: bytes, start: int, limit: int) -> None:
        self.data, self.start, self.at, self.limit = data[: start + limit], start, start, limit
        self.incomplete = INCOMPLETE if len(data) - start < limit else MALFORMED
        self.kind = ANONYMOUS
        try:
            self._read()
            self.end = self.at
        except _NoMap as stop:
            self.end = stop.verdict

    def _read(self) -> None:
        if self.data[self.start : self.start + 1] and _family(self.data[self.start]) != "map":
            raise _NoMap(MALFORMED)
        _, _, values = self._read_token(depth=-1)
        if values > self.limit:
            raise _NoMap(MALFORMED)
        for _ in range(values // 2):
            family, key, _ = self._read_token(depth=0)
            if family != "str":
                raise _NoMap(MALFORMED)
            family, _, values = self._read_token(depth=0)
            if key == b"url":
                self.kind = FRAME if family in ("bin", "array") else EVENT
            self._read_values(values, depth=1)

    def _read_values(self, count: int, depth: int) -> None:
        for _ in range(count):
            _, _, values = self._read_token(depth)
            self._read_values(values, depth + 1)

    def _read_token(self, depth: int) -> tuple[str, bytes, int]:
        """The token's family, its payload, and how many values follow as its children."""
        if self.at >= len(self.data):
            raise _NoMap(self.incomplete)
        first = self.data[self.at]
        family, size_bytes, size, fixed = _family(first), *_sizes(first)
        body = self.at + 1 + size_bytes
        children = 0
        if body <= len(self.data):
            if size_bytes:
                size = int.from_bytes(self.data[self.at + 1 : body], "big")
            children = {"map": 2 * size, "array": size}.get(family, 0)
            end = body if family in ("map", "array") else body + size + fixed
        else:
            end = body
        if family == "never" or (children and depth + 1 == MAX_DEPTH):
            raise _NoMap(MALFORMED)
        if depth == 0 and size_bytes == 4 and size > self.limit:
            self.incomplete = MALFORMED  # even if it is a list or map, whose children come one by one
        if end > len(self.data):
            raise _NoMap(self.incomplete)
        self.at = end
        return family, self.data[body:end], children


def _family(first: int) -> str:
    """The family of a msgpack token, after the table of the specification."""
    for last, family in ((0x7F, "int"), (0x8F, "map"), (0x9F, "array"), (0xBF, "str"), (0xC0, "nil"), (0xC1, "never")):
        if first <= last:
            return family
    for last, family in ((0xC3, "bool"), (0xC6, "bin"), (0xC9, "ext"), (0xCB, "float"), (0xD3, "int"), (0xD8, "ext")):
        if first <= last:
            return family
    return "str" if first <= 0xDB else "array" if first <= 0xDD else "map" if first <= 0xDF else "int"


def _sizes(first: int) -> tuple[int, int, int]:
    """Bytes of a token's size field, its size if the first byte holds it, and bytes of fixed length."""
    fixed = {0xCA: 4, 0xCB: 8, 0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
    fixed |= {0xC7: 1, 0xC8: 1, 0xC9: 1, 0xD4: 2, 0xD5: 3, 0xD6: 5, 0xD7: 9, 0xD8: 17}
    field = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xC7: 1, 0xC8: 2, 0xC9: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
    field |= {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
    held = first & 0x1F if _family(first) == "str" else first & 0x0F if 0x80 <= first <= 0x9F else 0
    return field.get(first, 0), held if first < 0xC0 else 0, fixed.get(first, 0)


def find_map(data: bytes, start: int, limit: int, *, final: bool) -> tuple[int, bool]:
    """Where the next map with a URL begins, and whether there is one."""
    for at in range(start, len(data)):
        if 0x80 <= data[at] <= 0x8F and at + 1 < len(data) and _family(data[at + 1]) != "str":
            continue  # whose first key, if whole, is no text
        found = MsgpackMap(data, at, limit)
        if found.end > 0 and found.kind != ANONYMOUS:
            return at, True
        if found.end == INCOMPLETE and not final:
            return at, False
    return len(data), False


def split_maps(data: bytes, limit: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The spans of a whole input that are maps, and those that are not."""
    maps, gaps, at = [], [], 0
    while at < len(data):
        end = MsgpackMap(data, at, limit).end
        if end > 0:
            maps.append((at, end))
            at = end
            continue
        after, _ = find_map(data, at + 1, limit, final=True)
        gaps.append((at, after))
        at = after
    return maps, gaps
