"""Waits in vain on a slow machine: which "busy" counts when the time runs out."""

from __future__ import annotations

import pytest

from redisson_py._engine import local_queue, waiting
from redisson_py._stores import executor
from redisson_py._stream import stream


def let_any_busy_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a "busy" count however old it is when the time of a wait runs out.

    As the package is, the server must say it again within the last half second. A server of a slow
    machine that does not is taken for one that does not answer.
    """
    for module in (waiting, local_queue, executor, stream):
        monkeypatch.setattr(module, "LAST_LOOK", 100_000.0)
