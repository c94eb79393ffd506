"""Sabotages that worlds in simulated time show: one of some seeds of tests/simulation must."""

from __future__ import annotations

from tests.mutants.mutant import Mutant, Seeds

SIMULATION = (
    Mutant(
        "no margin for clocks",
        "a lease is not relied on for its whole time, whatever the clocks do",
        "redisson_py/_engine/hold.py",
        "DRIFT_SHARE = 0.01\nDRIFT_FLOOR_SECONDS = 0.002\n",
        "DRIFT_SHARE = 0.0\nDRIFT_FLOOR_SECONDS = 0.0\n",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "no renewals",
        "what is held stays held for as long as its holder lives",
        "redisson_py/_engine/watchdog.py",
        "pause = self._renew_what_is_due(moment)",
        "pause = math.inf",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "losses ignored",
        "a holder is told of its loss",
        "redisson_py/_engine/watchdog.py",
        "        hold.lose(reason)\n\n    def close",
        "        pass\n\n    def close",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "news of force ignored",
        "a client believes Redis when it says that a hold is not there",
        "redisson_py/_engine/watchdog.py",
        "        hold.lose(reason)\n\n    def close",
        '        if reason not in {"taken", "forced"}:\n'
        "            hold.lose(reason)\n\n    def close",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "no undo",
        "nothing is left of an acquire that was cancelled",
        "redisson_py/_engine/request.py",
        "        ownership, parent = self.ownership, self.parent\n"
        "        if self.reentry is not None:",
        "        return\n"
        "        ownership, parent = self.ownership, self.parent\n"
        "        if self.reentry is not None:",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "no second look after subscribing",
        "a release between the first request and the subscription is not missed",
        "redisson_py/_engine/waiting.py",
        "    late = False\n",
        "    late = False\n    sleeper.arm()\n    await sleeper.wait(_sleep(None, deadline))\n",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "channels stay subscribed",
        "a client listens only to what somebody waits for",
        "redisson_py/_redis/stream/stream.py",
        '        self._subscription("UNSUBSCRIBE", channel)',
        "        pass",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "deaf after a refused SUBSCRIBE",
        "a SUBSCRIBE that a busy server refused is sent again",
        "redisson_py/_redis/subscriptions.py",
        "        assert call.channel is not None\n"
        "        subscription = self._channels.get(call.channel)",
        "        return False\n        subscription = self._channels.get(call.channel)",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "released by another owner",
        "nobody frees the lock of another owner",
        "lua/lock/release.lua",
        "local held = redis.call('HGET', lock, owner)",
        "local held = redis.call('EXISTS', lock) == 1 and '1' or nil",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "a re-entry counts twice",
        "a lock is free when it was released as often as it was acquired",
        "lua/lock/acquire.lua",
        "math.max(count, holds) - count",
        "math.max(count, holds) - count + 1",
        simulation=Seeds("lock"),
    ),
    Mutant(
        "the last in the queue is the first",
        "requests are served in the order in which they came",
        "lua/lib/join_fair.lua",
        "'RPUSH', queue, waiter",
        "'LPUSH', queue, waiter",
        simulation=Seeds("fair_lock"),
    ),
    Mutant(
        "writers beside readers",
        "a writer is alone",
        "lua/write_lock/acquire.lua",
        "free = holds == 1 and redis.call('EXISTS', lock, tombstone) == 0\n",
        "redis.call('HSET', lock, 'mode', 'write', owner, '1')\n"
        "redis.call('PEXPIRE', lock, string.format('%.0f', lease_ms))\n"
        "if true then return nil end\n",
        simulation=Seeds("read_write_lock"),
    ),
)
