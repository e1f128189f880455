"""``python -m benchmarks.plain_sites FILE``: puts what ``streamsched replay --suite --json FILE`` found into the docs.

The table goes into docs/default.md, its weakest rows into the README, each between two comments.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
_POLICIES: Final = (
    ("change_rate", ("default", "posterior", "age", "known prior")),
    ("freshness", ("freshness", "age", "known rates")),
)
_HEAD: Final = (
    "| site | budget, % | changes | `default` | `posterior` | `age` | known prior | ratio | `freshness` | `age` | "
    "known rates | to `age` | to known rates |"
)


def make_table(sites: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of ChangeRate and Freshness on each site, as Markdown."""
    lines = [_HEAD, "|" + " --- |" * _HEAD.count(" | ") + " --- |"]
    for site in sites:
        (found, finders), (fresh, keepers) = _POLICIES
        cells = [
            site["site"],
            f"{100 * site['budget']:g}",
            f"{site['changes']:g}",
            *(f"{site[found][name]:.3f}" for name in finders),
            f"{site['found']:.3f}",
            *(f"{site[fresh][name]:.3f}" for name in keepers),
            f"{site['against_age']:.3f}",
            f"{site['against_known']:.3f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def make_sentence(sites: Sequence[Mapping[str, Any]]) -> str:
    """Return the README's sentences on the weakest sites."""
    found, age, known = (min(sites, key=lambda site: site[name]) for name in ("found", "against_age", "against_known"))
    return (
        f"  On {len(sites)} simulated sites (`streamsched replay --suite`) the default is weakest on {_name(found)}:\n"
        f"  {found['found']:.2f} of the ChangeRate of the best of `posterior`, `age` and a crawl that knows the prior. "
        f"`freshness`\n  is weakest on {_name(age)} against `age`: {age['against_age']:.2f} of its Freshness,\n"
        f"  and on {_name(known)} against a crawl that knows all rates: {known['against_known']:.2f}.\n"
    )


def _name(site: Mapping[str, Any]) -> str:
    return f"*{site['site']}* ({100 * site['budget']:g} % a day, {site['changes']:g} changes between visits)"


def replace_block(text: str, block: str) -> str:
    """Return `text` with the block between its two comments replaced. Raises ValueError if it has none."""
    found = re.search(r"( *<!-- suite: .* -->\n).*?( *<!-- end of suite -->)", text, re.DOTALL)
    if found is None:
        raise ValueError("expected a block between <!-- suite: ... --> and <!-- end of suite -->")
    return text[: found.start()] + found[1] + block + found[2] + text[found.end() :]


def main(path: str) -> None:
    """Write the figures of the JSON file at `path` into docs/default.md and the README."""
    sites = json.loads(Path(path).read_text("utf-8"))["sites"]
    for page, block in ((ROOT / "docs" / "default.md", make_table(sites)), (ROOT / "README.md", make_sentence(sites))):
        page.write_text(replace_block(page.read_text("utf-8"), block), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
