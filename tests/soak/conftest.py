"""What the attacks share: schedulers that reserve little memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.guarded_memory import small_reserve


@pytest.fixture(autouse=True, scope="module")
def small_tables() -> Iterator[None]:
    with small_reserve():
        yield
