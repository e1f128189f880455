"""Marks of tests that need a package of an extra."""

import importlib.util

import pytest

needs_casadi = pytest.mark.skipif(
    importlib.util.find_spec("casadi") is None, reason="needs casadi: pip install 'streamsched[webfountain]'"
)
