"""Without Scrapy the import says which extra to install."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

from streamsched.errors import SettingsError


def test_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scrapy", None)
    monkeypatch.delitem(sys.modules, "streamsched.connectors.scrapy", raising=False)
    with pytest.raises(SettingsError) as caught:
        import_module("streamsched.connectors.scrapy")
    assert caught.value.setting == "scrapy"
    assert "streamsched[scrapy]" in caught.value.expected
