"""The pages on synchronous code run their blocks in this process."""

from __future__ import annotations

import pytest

from redisson_py.sync import _loop_thread


@pytest.fixture(scope="session", autouse=True)
def loop_thread() -> None:
    """Start the thread of all clients of threads: it stays, with its sockets."""
    _loop_thread.start()
