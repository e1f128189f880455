"""Cases of tests: seeded ones and drawn ones, a few in an ordinary run and all with ``--soak``; and tables of cases.

``@pytest.mark.cases(ordinary=20, whole=420)`` runs a test once for each number of a case; with ``ordinary=0`` it runs
with ``--soak`` only. The test draws from `rng`, which depends on the seed, the test and the number only, so that a case
can be repeated alone. ``@examples(ordinary=10, whole=100)`` says the same of the examples that Hypothesis draws,
where the numbers of its profile (conftest.py) are not the right ones.
``@pytest.mark.longer`` says that a test asks `how_many`, ``@pytest.mark.soak`` that it runs with ``--soak`` only.
``@grouped`` is ``@pytest.mark.parametrize`` for a table that names what several cases share.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings

SOAK = "soak"  # the Hypothesis profile


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("soak")
    group.addoption("--soak", action="store_true", help="run all cases of tests marked with `cases`, not a few")
    group.addoption("--soak-seed", type=int, default=0, metavar="N", help="seed of these cases")


def pytest_configure(config: pytest.Config) -> None:
    """Load the profile before test modules are imported, whose decorators ask for it."""
    if config.getoption("soak"):
        settings.load_profile(SOAK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marker = metafunc.definition.get_closest_marker("cases")
    if marker is not None:
        count = marker.kwargs["whole" if metafunc.config.getoption("soak") else "ordinary"]
        metafunc.parametrize("case", range(count))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests without an ordinary case: a skipped one would look as if something were missing."""
    if not config.getoption("soak"):
        items[:] = [item for item in items if not _for_soak_only(item)]


def _for_soak_only(item: pytest.Item) -> bool:
    counts = (marker.kwargs["ordinary"] for marker in item.iter_markers("cases"))
    return item.get_closest_marker("soak") is not None or not all(counts)


@pytest.fixture
def rng(request: pytest.FixtureRequest, case: int) -> random.Random:
    """Random numbers of one case."""
    test = request.node.nodeid.partition("[")[0]
    return random.Random(f"{request.config.getoption('soak_seed')} {test} {case}")


def grouped(names: Sequence[str], table: Mapping[Any, Sequence[Any]]) -> pytest.MarkDecorator:
    """Run a test with each value of each key of `table`; keys have the first of the parameters, values the rest.

    A key is a tuple if it has several parameters, and so is a value.
    """
    cases: list[tuple[Any, ...]] = []
    for key, values in table.items():
        keys = key if isinstance(key, tuple) else (key,)
        cases += [(*keys, *(value if len(names) > len(keys) + 1 else (value,))) for value in values]
    return pytest.mark.parametrize(names, cases)


def how_many(ordinary: int, whole: int) -> int:
    """Return how many examples, steps or places this run tries: `whole` with ``--soak``."""
    return whole if settings.get_current_profile_name() == SOAK else ordinary


def examples(*, ordinary: int, whole: int) -> settings:
    """Draw that many examples by Hypothesis, `whole` with ``--soak``."""
    return settings(max_examples=how_many(ordinary, whole))
