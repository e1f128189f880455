"""The slow, obvious twin of every kernel and of every incremental formula: what the fast ones are compared with."""

from __future__ import annotations

from decimal import Decimal, localcontext

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
