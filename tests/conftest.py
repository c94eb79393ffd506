"""Plugins and the event loop; fixtures live in `fixtures/`."""

from __future__ import annotations

pytest_plugins = [
    "tests.fixtures.redis_server",
    "tests.fixtures.loop",
    "tests.fixtures.client",
    "tests.fixtures.leaks",
    "tests.fixtures.fleet",
    "tests.fixtures.measured",
    "tests.fixtures.java",
]
