"""Sabotages of the short way of an uncontended pair, and of what is kept for it."""

from __future__ import annotations

from tests.mutants.mutant import Attack, Mutant

_BLOCK = "redisson_py/_engine/block.py"
_OWNERSHIP = "redisson_py/_engine/ownership.py"
_RELEASING = "redisson_py/_engine/ownership.py"
_REQUEST = "redisson_py/_engine/request.py"
_LOCKS = "redisson_py/_engine/task_ownership.py"
_QUEUE = "redisson_py/_engine/local_queue.py"

_ACQUIRE_RELEASE = "tests/contract/test_acquire_release.py"
_CLIENT = "tests/primitives/test_client.py"
_LATE_DUPLICATES = "tests/faults/test_late_duplicates.py"
_LOSS = "tests/contract/test_loss.py"
_SHORT_WAYS = "tests/lua/test_short_ways.py"
_SWEEP = "tests/contract/test_cancellation_sweep.py"

_WHOLE_TRUTH = """\
            or call is None
            or call.uncertain
            or self not in pending
"""

PLAIN = (
    Mutant(
        "a plain acquire that was cancelled is not given back",
        "a cancelled acquire holds nothing",
        _BLOCK,
        "            ownership.abandon(begun)\n            raise",
        "            raise",
        (_SWEEP,),
        jepsen=Attack("leaks", "brief", ("cancel",)),
    ),
    Mutant(
        "a plain release that was cancelled keeps the queue waiting",
        "the next waiter asks when a release was cancelled",
        _RELEASING,
        "                self.leave()\n",
        "",
        (_SWEEP,),
    ),
    Mutant(
        "a reply of a request that may have been executed twice is plain",
        "what arrives late is refused",
        _REQUEST,
        "            or call.uncertain\n",
        "",
        (_LATE_DUPLICATES,),
    ),
    Mutant(
        "a plain grant that comes when its lease is over counts",
        "what is over before it can be used is not given to anybody",
        _REQUEST,
        "            or present - self.sent_at > self.lease_time / 2\n",
        "",
        (f"{_ACQUIRE_RELEASE}::test_grant_that_a_stalled_loop_reads_too_late_is_given_back",),
    ),
    Mutant(
        "a plain grant after the client was closed counts",
        "a closed client holds nothing",
        _REQUEST,
        _WHOLE_TRUTH,
        "            or pending.setdefault(self)\n            or (call and call.uncertain)\n",
        (_CLIENT,),
    ),
    Mutant(
        "an uncertain hold is released without a tombstone",
        "what arrives late is refused",
        _OWNERSHIP,
        "late = parent is None and hold.uncertain",
        "late = False",
        (_LATE_DUPLICATES,),
    ),
    Mutant(
        "a re-entered hold is released as a whole",
        "a lock is free when it was released as often as it was acquired",
        "redisson_py/_engine/hold.py",
        "        self._remove(lease)\n        self._review()\n        return self.count\n",
        "        self._remove(lease)\n        self._review()\n        return 0\n",
        ("tests/contract/test_reentry.py::test_reentry_counts",),
    ),
    Mutant(
        "a lost hold is passed on",
        "nobody is given what is lost",
        _LOCKS,
        'if type(reply) is Hold and reply.state == "held" and present < reply.ends_at:',
        "if type(reply) is Hold:",
        (f"{_LOSS}::test_hold_that_ends_on_its_way_to_the_next_task_is_not_taken",),
    ),
    Mutant(
        "a hold is passed to a waiter that was cancelled",
        "a waiter leaves the queue once",
        _QUEUE,
        "            if not waiter.future.done():\n                break",
        "            break",
        ("tests/unit/test_local_queue_schedules.py",),
    ),
    Mutant(
        "a plain acquire goes before those who wait",
        "tasks of one client are served in the order they came",
        _LOCKS,
        "                queue.waiters\n                or queue.asking\n",
        "                queue.asking\n",
        (
            "tests/lifecycle/test_no_overtaking.py::"
            "test_a_waiter_goes_first_when_the_hold_was_lost_in_a_stalled_loop",
        ),
    ),
    Mutant(
        "a turn that is over keeps a semaphore from its short way",
        "a turn is over when its time is up",
        "redisson_py/semaphores/_ownership.py",
        "(queue.head_start is not None and queue.is_ahead)",
        "queue.head_start is not None",
        ("tests/primitives/test_who_waits.py",),
    ),
    Mutant(
        "ends that come before the next renewal are not minded",
        "a loss is told in time",
        "redisson_py/_engine/schedule.py",
        "            if hold.ends_at < soon:\n",
        "            if False:\n",
        ("tests/unit/test_watchdog_ends.py",),
    ),
    Mutant(
        "keys with braces share the patterns of others",
        "a call names the keys of its own lock",
        "redisson_py/_redis/commands/plain.py",
        'len(key), b"{" in key, lease_time',
        "len(key), False, lease_time",
        ("tests/unit/test_plain_calls.py",),
    ),
    # The short ways of scripts.
    Mutant(
        "a permit whose units have vanished is renewed",
        "a holder whose record is gone is told by the next renewal",
        "lua/permit/renew.lua",
        "    alive = has == 1 and (alive or not ends_at)\n",
        "",
        ("tests/lua/test_vanished_records.py",),
    ),
    Mutant(
        "units of a semaphore that vanished are kept for the next",
        "never more holders than permits",
        "lua/semaphore/acquire.lua",
        "local known = leases + holders > 0",
        "local known = leases > 0",
        ("tests/lua/test_vanished_records.py",),
    ),
    Mutant(
        "a count refused after the counter is not put back",
        "what is refused has changed nothing",
        "lua/semaphore/release.lua",
        "      redis.pcall('HSET', counts, owner, held)\n",
        "",
        ("tests/lua/test_refusals.py",),
    ),
    Mutant(
        "a semaphore's short way minds no expiry",
        "records end with the counter they belong to",
        "lua/semaphore/acquire.lua",
        " and redis.call('PTTL', counter) == -1 then",
        " and redis.call('PTTL', counter) ~= -2 then",
        (_SHORT_WAYS,),
    ),
    Mutant(
        "a semaphore's short way grants what is not there",
        "never more holders than permits",
        "lua/semaphore/acquire.lua",
        "    if value >= 0 and",
        "    if value >= -1 and",
        (_SHORT_WAYS,),
    ),
    Mutant(
        "a semaphore's short way keeps what it did not grant",
        "who is refused takes no units",
        "lua/semaphore/acquire.lua",
        "    redis.call('INCRBY', counter, units)\n    if done ~= true then",
        "    if done ~= true then",
        (_SHORT_WAYS,),
    ),
    Mutant(
        "a semaphore's short way minds no queue",
        "the first of the clients that wait is called",
        "lua/semaphore/release.lua",
        "redis.pcall('EXISTS', counter, counter, clients) == 2",
        "redis.pcall('EXISTS', counter, counter, clients) >= 2",
        ("tests/lua/test_unit_queue.py",),
    ),
    Mutant(
        "units refused after the counter are not put back",
        "what is refused has changed nothing",
        "lua/semaphore/release.lua",
        "    redis.call('INCRBY', counter, '-' .. held)\n",
        "",
        ("tests/lua/test_refusals.py",),
    ),
    Mutant(
        "a fair lock's short way minds only our own waiters",
        "the head of the queue is told, Redisson's too",
        "lua/fair_lock/release.lua",
        "if plain and redis.call('EXISTS', queue, timeouts, waiters) == 0",
        "if plain and redis.call('EXISTS', waiters) == 0",
        (_SHORT_WAYS,),
    ),
    Mutant(
        "a reader's short way minds no other reader",
        "a lock is read until the last reader has left",
        "lua/read_lock/release.lua",
        "if plain and fields == 2 then",
        "if plain then",
        (_SHORT_WAYS,),
        jepsen=Attack("read-write", "read-write", seconds=3),
    ),
)
