"""Numbers at the door: taken as plain numbers, or refused by name."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from streamsched import SettingsError
from streamsched.numerics.argument_checks import check_share, check_time, check_whole


def test_numbers_come_out_plain() -> None:
    result = [check_time(np.float64(2.5)), check_share("panel", np.float64(0.5)), check_whole("k", np.uint8(3), 0, "")]
    assert result == [2.5, 0.5, 3]
    assert [type(number) for number in result] == [float, float, int]


@pytest.mark.parametrize("found", [math.nan, math.inf, "5", None, 10**400, [1]])
def test_time_that_is_none(found: Any) -> None:
    with pytest.raises(SettingsError, match=r"^now: expected UTC epoch seconds, finite, found "):
        check_time(found)


@pytest.mark.parametrize("found", [-0.001, 1.0, math.nan, "0.5", None, False])
def test_share_that_is_none(found: Any) -> None:
    with pytest.raises(SettingsError, match=r"^panel: expected 0 or more and less than 1, found "):
        check_share("panel", found)


@pytest.mark.parametrize("found", [0, 5, 2.0, True, "2", None])
def test_whole_number_that_does_not_fit(found: Any) -> None:
    with pytest.raises(SettingsError, match=r"^k: expected 1 to 4, found ") as caught:
        check_whole("k", found, 1, "1 to 4", most=4)
    assert caught.value.found is found
