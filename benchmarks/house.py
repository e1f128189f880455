"""Structure of the code: modules on a level, import chains, sizes. ``python -m benchmarks.house`` or ``make house``.

`BOUNDS` are the goals of this project, which tests/packaging/test_house.py checks. The figures of starlette, river and
quix-streams were measured once from their sources.
"""

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import grimp
import numpy as np
from rich.console import Console
from rich.table import Table

__all__ = ["BOUNDS", "House", "measure_house"]

ROOT: Final = Path(__file__).resolve().parents[1]
_FOLDERS: Final = ("streamsched", "connectors", "replay")
_WHOLE_STATE: Final = "ShardArrays"
_SHARED: Final = {f"streamsched.{name}" for name in ("errors", "numerics", "outcomes", "signals")}  # by every room
_Node = TypeVar("_Node", bound=ast.AST)
BOUNDS: Final = {  # least or greatest value of each figure
    "modules_on_a_level": ("most", 12),
    "longest_import_chain": ("most", 18),
    "imports_within_a_room": ("least", 0.6),
    "files_over_400_lines": ("most", 0),
    "classes_over_300_lines": ("most", 0),
    "function_lines_p90": ("most", 19),  # as before the rooms
    "function_lines_most": ("most", 52),
}
_OTHERS: Final = {
    "modules_on_a_level": "22 · 31 · 14",
    "function_lines_p90": "23 (starlette)",
    "function_lines_most": "89 (starlette)",
}
_LABELS: Final = {
    "modules_on_a_level": "most modules in one folder, without `__init__`",
    "longest_import_chain": "longest import chain, in modules, without imports for type checkers",
    "imports_within_a_room": "share of imports within a room, without those of the shared modules",
    "files_over_400_lines": "files over 400 lines",
    "classes_over_300_lines": "classes over 300 lines",
    "function_lines_p90": "lines of a function, 90th percentile",
    "function_lines_most": "lines of the longest function",
    "takers_of_the_whole_state": f"functions that take all arrays of a shard (`{_WHOLE_STATE}`)",
}


@dataclass(frozen=True, slots=True)
class House:
    """The figures of one checkout, and the places of those that are counts."""

    modules_on_a_level: int
    longest_import_chain: int
    imports_within_a_room: float
    files_over_400_lines: int
    classes_over_300_lines: int
    function_lines_p90: int
    function_lines_most: int
    takers_of_the_whole_state: int
    places: dict[str, list[str]]

    def beyond_bounds(self) -> list[str]:
        """Return the figures that miss their bounds, each with its places."""
        missed = []
        for name, (kind, bound) in BOUNDS.items():
            found = getattr(self, name)
            if found > bound if kind == "most" else found < bound:
                missed.append(f"{name}: found {found}, expected at {kind} {bound}: {self.places.get(name, [])}")
        return missed


def measure_house(root: Path = ROOT) -> House:
    """Return the figures of the checkout at `root`, which must be on the import path. O(source)."""
    files = sorted(path for folder in _FOLDERS for path in _python_files(root / folder))
    trees = {str(path.relative_to(root)): ast.parse(path.read_bytes()) for path in files}
    levels = Counter(str(path.parent.relative_to(root)) for path in files if not path.name.startswith("__"))
    fullest, modules = levels.most_common(1)[0]
    chain, within = _imports()
    long_files = [str(path.relative_to(root)) for path in files if path.read_bytes().count(b"\n") > 400]
    long_classes = [f"{name}:{node.name}" for name, node in _nodes(trees, ast.ClassDef) if _lines(node) > 300]
    functions = sorted((_lines(node), f"{name}:{node.name}") for name, node in _nodes(trees, ast.FunctionDef))
    takers = [f"{name}:{node.name}" for name, node in _nodes(trees, ast.FunctionDef) if _takes_whole_state(node)]
    return House(
        modules_on_a_level=modules,
        longest_import_chain=len(chain),
        imports_within_a_room=round(within, 2),
        files_over_400_lines=len(long_files),
        classes_over_300_lines=len(long_classes),
        function_lines_p90=int(np.percentile([lines for lines, _ in functions], 90)),
        function_lines_most=functions[-1][0],
        takers_of_the_whole_state=len(takers),
        places={
            "modules_on_a_level": [fullest],
            "longest_import_chain": chain,
            "files_over_400_lines": long_files,
            "classes_over_300_lines": long_classes,
            "function_lines_most": [functions[-1][1]],
            "takers_of_the_whole_state": takers,
        },
    )


def _python_files(folder: Path) -> Iterator[Path]:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from _python_files(path)
        elif path.suffix == ".py":
            yield path


def _imports() -> tuple[list[str], float]:
    """Return the longest chain of imports, from the top, and the share of imports within a room."""
    graph = grimp.build_graph("streamsched", exclude_type_checking_imports=True, cache_dir=None)

    @cache
    def chain_from(module: str) -> tuple[str, ...]:
        below = (chain_from(imported) for imported in graph.find_modules_directly_imported_by(module))
        return (module, *max(below, key=len, default=()))

    chain = max((chain_from(module) for module in sorted(graph.modules)), key=len)
    imports = [
        (module, imported) for module in graph.modules for imported in graph.find_modules_directly_imported_by(module)
    ]
    placed = [(_room(module), _room(imported)) for module, imported in imports if _room(imported) not in _SHARED]
    return list(chain), sum(room == other for room, other in placed) / len(placed)


def _room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _nodes(trees: dict[str, ast.Module], kind: type[_Node]) -> Iterator[tuple[str, _Node]]:
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, kind):
                yield name, node


def _lines(node: ast.ClassDef | ast.FunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _takes_whole_state(function: ast.FunctionDef) -> bool:
    parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return any(isinstance(one.annotation, ast.Name) and one.annotation.id == _WHOLE_STATE for one in parameters)


def main() -> int:
    """Print the figures beside their bounds, with ``--json`` as JSON; return 1 if one misses its bound."""
    house = measure_house()
    if "--json" in sys.argv[1:]:
        print(json.dumps(asdict(house), indent=2))
        return bool(house.beyond_bounds())
    table = Table("figure", "here", "goal", "starlette · river · quix-streams")
    for name, label in _LABELS.items():
        kind, bound = BOUNDS.get(name, ("", ""))
        goal = {"most": f"≤ {bound}", "least": f"≥ {bound}"}.get(kind, "fewer")
        table.add_row(label, str(getattr(house, name)), goal, _OTHERS.get(name, "–"))
    console = Console()
    console.print(table)
    for line in house.beyond_bounds():
        console.print(line)
    return bool(house.beyond_bounds())


if __name__ == "__main__":
    raise SystemExit(main())
