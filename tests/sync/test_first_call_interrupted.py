"""A signal handler raises during the first call of a thread."""

from __future__ import annotations

import gc

import pytest

from redisson_py.sync import Redisson
from tests.sync.interrupting import interrupted_at
from tests.sync.threads import Running, until


@pytest.mark.slow
def test_the_first_call_of_a_thread_that_is_interrupted_at_any_point(client: Redisson) -> None:
    def block() -> None:
        with client.get_lock("k"):
            pass

    steps = 0
    # Each thread has made no call before.
    while Running(lambda: interrupted_at(steps, block)).result():
        steps += 1
    assert steps > 50
    gc.collect()
    until(lambda: client.statistics().held_leases == 0)
    assert not client.get_lock("k").locked()
