"""A crawler's own service says why it has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamsched import DurableScheduler
from streamsched.connectors.crawlers.local_service import LocalService
from streamsched.errors import ServiceError


def test_a_state_in_use_is_named(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with DurableScheduler.open(state), pytest.raises(ServiceError) as raised:
        LocalService.open(str(state))
    text = str(raised.value)
    assert "Fatal Python error" not in text
    assert f"streamsched: {state}" in text
