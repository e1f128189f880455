"""What a synthetic corpus may be asked to be."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import asdict, replace

import pytest

from streamsched.replay import KINDS, SyntheticSettings


def test_the_defaults_are_of_the_published_size() -> None:
    settings = SyntheticSettings()
    assert (settings.pages, settings.days, settings.hosts) == (417_000, 57, 10_000)
    assert sum(settings.shares) == pytest.approx(1)
    assert len(settings.shares) == len(KINDS)


def test_settings_are_values() -> None:
    settings = SyntheticSettings(pages=7)
    assert settings == SyntheticSettings(pages=7) != replace(settings, days=3)
    assert len({settings, SyntheticSettings(pages=7)}) == 1
    assert SyntheticSettings(**deepcopy(asdict(settings))) == settings
