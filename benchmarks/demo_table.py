"""``python -m benchmarks.demo_table``: puts the table of `make demo`, of its ``out/replay.json``, into the README."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_POLICIES: Final = ("rand", "age", "nad", "posterior", "default", "balanced", "freshness", "oracle")
_FIGURES: Final = (("change_rate", 3), ("ndcg", 3), ("freshness", 3), ("delay_mean", 1), ("delay_p95", 1))  # and digits
_HEAD: Final = """\
                                                    Delay,     Delay,
Policy      ChangeRate         NDCG    Freshness      mean        p95
"""
_TABLE: Final = re.compile(re.escape(_HEAD) + r"(?:\S+ .*\n)+")


def make_table(policies: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the policies that the README shows."""
    lines = [_HEAD]
    for name in _POLICIES:
        figures = policies[name]["figures"]
        cells = [_show(digits, **figures[one]) for one, digits in _FIGURES]
        *shares, mean, p95 = cells
        lines.append(f"{name:<9} {' '.join(shares)} {mean:>9} {p95:>10}\n")
    return "".join(lines)


def _show(digits: int, value: float, low: float, high: float) -> str:
    return f"{value:.{digits}f} ±{(high - low) / 2.0:.{digits}f}"


def replace_table(readme: str, table: str) -> str:
    """Return `readme` with its table replaced. Raises ValueError if it has none."""
    if len(_TABLE.findall(readme)) != 1:
        raise ValueError(f"expected one table that begins with {_HEAD!r}")
    return _TABLE.sub(lambda _: table, readme)


if __name__ == "__main__":
    found = json.loads((ROOT / "out" / "replay.json").read_text("utf-8"))
    page = ROOT / "README.md"
    page.write_text(replace_table(page.read_text("utf-8"), make_table(found["policies"])), encoding="utf-8")
