"""Fixtures of tests without a server."""

from __future__ import annotations

import pytest

from tests.unit.watchdog_setup import Setup, new_setup


@pytest.fixture
def setup(monkeypatch: pytest.MonkeyPatch) -> Setup:
    """A watchdog whose clock is the test's."""
    return new_setup(monkeypatch)
