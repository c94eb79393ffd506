"""A signal handler raises during the first call of a thread."""

from __future__ import annotations

import gc
from functools import partial

from redisson_py.sync import Redisson
from tests.sync.interrupting import interrupted_at
from tests.sync.threads import Running, until


def test_the_first_call_of_a_thread_that_is_interrupted_at_any_point(client: Redisson) -> None:
    def block() -> None:
        with client.get_lock("k"):
            pass

    step = 0
    # Each thread has made no call before.
    while Running(partial(interrupted_at, step, block)).result():
        step += 1
    assert step > 50
    gc.collect()
    until(lambda: client.statistics().held_leases == 0)
    assert not client.get_lock("k").locked()
