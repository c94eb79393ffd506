"""Plugins; fixtures live in `fixtures/`."""

from __future__ import annotations

import gc
import os
import signal

from hypothesis import settings

# How long an example takes depends on what else the machine does.
settings.register_profile("busy machine", deadline=None)
settings.load_profile("busy machine")

# A child of a fork that collects what earlier tests left ends with a segmentation fault, if they
# used gRPC.
os.register_at_fork(after_in_child=gc.freeze)

pytest_plugins = [
    "tests.fixtures.legs",
    "tests.fixtures.redis_server",
    "tests.fixtures.topologies",
    "tests.fixtures.own_network",
    "tests.fixtures.loop",
    "tests.fixtures.client",
    "tests.fixtures.leaks",
    "tests.fixtures.fleet",
    "tests.fixtures.measured",
    "tests.fixtures.java",
    "tests.fixtures.backends",
]


def pytest_configure() -> None:
    """Have processes that tests start end by signals, also when we run in the background.

    What a shell starts with `&` ignores SIGINT, what `nohup` starts SIGHUP, and so does what those
    start. A handler is not passed on to them.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
