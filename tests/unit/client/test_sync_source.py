"""The modules for threads are those for asyncio, translated."""

from __future__ import annotations

import pytest

from tests.support.sync_source import CLIENT, MODULES, to_sync


@pytest.mark.parametrize("name", MODULES)
def test_the_modules_for_threads_are_up_to_date(name: str) -> None:
    assert (CLIENT / f"{MODULES[name]}.py").read_text() == to_sync(name), "run `make client`"


@pytest.mark.parametrize("name", MODULES.values())
def test_nothing_asynchronous_is_left(name: str) -> None:
    source = (CLIENT / f"{name}.py").read_text().replace("async_", "")
    assert "async" not in source
    assert "await" not in source
    assert "Async" not in source
