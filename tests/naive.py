"""The slow, obvious twin of every kernel and of every incremental formula: what the fast ones are compared with."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

# --- posterior


def after_change(shape: float, exposure: float, interval: float) -> tuple[float, float]:
    """SPEC 3 to the letter, in 120 decimal digits, so that no difference cancels."""
    with localcontext() as context:
        context.prec = 120
        a, b, tau = Decimal(shape), Decimal(exposure), Decimal(interval)
        log_r = (b / (b + tau)).ln()
        d0, d1, d2 = (1 - ((a + j) * log_r).exp() for j in range(3))
        m1 = a / b * d1 / d0
        m2 = a * (a + 1) / b**2 * d2 / d0
        v = m2 - m1 * m1
        return float(m1 * m1 / v), float(m1 / v)


def probability_changed(shape: float, exposure: float, elapsed: float) -> float:
    """1 - (b/(b + t))^a in 120 decimal digits."""
    with localcontext() as context:
        context.prec = 120
        a, b, t = Decimal(shape), Decimal(exposure), Decimal(elapsed)
        return float(1 - (a * (b / (b + t)).ln()).exp())


# --- change


def judge(given: dict[str, Any], page: dict[str, Any] | None, threshold: int) -> str:
    """SPEC 2's list, in its order; `given` and `page` hold what a visit carries and what the page was left with."""
    status = given.get("status", 200)
    failed = status in (0, 429) or status // 100 >= 5
    if failed:
        return "failure"
    if page is None:
        return "first"
    prints = [given.get("fingerprint"), page.get("fingerprint")]
    rules = [
        ("changed" in given, given.get("changed")),
        (status == 304, False),
        ((status < 400) != page["success"], True),
        (status >= 400, False),
        (None in prints, False),
    ]
    for applies, changed in rules:
        if applies:
            return "change" if changed else "same"
    differing = sum(a != b for a, b in zip(f"{prints[0]:064b}", f"{prints[1]:064b}", strict=True))
    return "change" if differing >= threshold else "same"
