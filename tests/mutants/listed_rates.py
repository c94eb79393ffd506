"""Sabotages of rate limiters."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ACQUIRE = "lua/rate_limiter/acquire.lua"
_SET = "lua/rate_limiter/set.lua"
_UNDO = "lua/rate_limiter/undo.lua"
_LIMITER = "redisson_py/rates/rate_limiter.py"
_QUEUE = "redisson_py/rates/queue.py"

_SCRIPTS = "tests/lua/test_rate_limiter_scripts.py"
_PROMISES = "tests/primitives/test_rate_limiter.py"
_SWEEP = "tests/primitives/test_rate_limiter_sweep.py"
_LOST = "tests/faults/test_lost_replies_rate_limiter.py"

RATES = (
    Mutant(
        "the moment of an admission is rounded down",
        "not more than the rate in any interval",
        _ACQUIRE,
        "math.ceil(micros / 1000)",
        "math.floor(micros / 1000)",
        (_SCRIPTS,),
    ),
    Mutant(
        "a repeated request is admitted once more",
        "each admission counts once",
        _ACQUIRE,
        "local served = score and tonumber(score) > tonumber(ended)",
        "local served = false",
        (_SCRIPTS,),
    ),
    Mutant(
        "a small request overtakes a large one that does not fit",
        "first come, first served among the tasks of one client",
        _ACQUIRE,
        "    if wanted > still then\n      break\n    end\n    still = still - wanted\n",
        "    if wanted <= still then\n      still = still - wanted\n    end\n",
        (_SCRIPTS,),
    ),
    Mutant(
        "a refusal names the moment at which the first unit comes back",
        "retry_after is the moment at which the request fits",
        "lua/lib/until_fits.lua",
        "missing = missing - select(2, struct.unpack('Bc0I', oldest[i]))",
        "missing = 0",
        (_PROMISES,),
    ),
    Mutant(
        "units of an undone admission stay taken",
        "a cancelled acquire gives back what it was admitted",
        _UNDO,
        "  redis.call('INCRBY', value, string.format('%.0f', units))\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "an undone request is admitted when it arrives later",
        "a late copy takes nothing",
        _UNDO,
        "redis.call('ZADD', undone, string.format('%.0f', present + undone_ms), id)\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "nobody hears of another rate",
        "a message wakes those that wait when the rate changes",
        _SET,
        "if sets then\n  redis.call('PUBLISH', channel, '1')\nend\n",
        "",
        (_PROMISES,),
    ),
    Mutant(
        "what was taken before another rate still counts",
        "set_rate begins anew",
        _SET,
        "elseif replaces then\n  redis.call('DEL', KEYS[2], KEYS[4])\n",
        "",
        (_PROMISES,),
    ),
    Mutant(
        "a try takes what those that wait were about to get",
        "try_acquire never overtakes",
        _LIMITER,
        "looks = self._queue.is_ahead",
        "looks = False",
        (_PROMISES,),
    ),
    Mutant(
        "a cancelled waiter keeps what another's request got for it",
        "a cancelled acquire gives back what it was admitted",
        _LIMITER,
        "if applicant.maybe_admitted or applicant.admission is not None:",
        "if applicant.maybe_admitted:",
        (_SWEEP,),
    ),
    Mutant(
        "a request that may arrive again is not refused after it was answered",
        "each admission counts once, whatever happens to the connection",
        _LIMITER,
        "self._undo(applicant, used=admission.allowed)",
        "pass",
        (_LOST,),
    ),
    Mutant(
        "a closing client leaves what it has asked for",
        "what a client that closes was asking for is undone",
        _LIMITER,
        "            self._limiter._send_undo(each)\n",
        "",
        (_SWEEP,),
    ),
    Mutant(
        "the head looks again and again",
        "a waiter sleeps until the moment that the server named, and asks once",
        _LIMITER,
        "await sleeper.wait(until - loop_time())",
        "await sleeper.wait(min(0.5, until - loop_time()))\n            due = loop_time()",
        (_PROMISES,),
    ),
    Mutant(
        "the next head does not ask what was announced before it listened",
        "a message wakes those that wait when the rate changes or units come back earlier",
        _LIMITER,
        "missed = not knew or queue.heard_on != context.bus.heard_on(self._commands.channel)",
        "missed = not knew",
        (_PROMISES,),
    ),
    Mutant(
        "each task asks for itself",
        "those of one client behind the head do not ask",
        _QUEUE,
        "if len(asked) == _MOST_AT_ONCE:",
        "if asked:",
        (_PROMISES,),
    ),
    Mutant(
        "one that is too large for the rate waits behind others",
        "n > rate is an error before any wait",
        _LIMITER,
        "if queue.waiting and queue.rate is not None and applicant.units > queue.rate:",
        "if queue.waiting and queue.rate is None:",
        (_PROMISES,),
    ),
    Mutant(
        "those behind do not hear that they are too large for the rate",
        "n > rate is an error before any wait",
        _QUEUE,
        "                fail(waiter.future, error(waiter.units))\n",
        "                pass\n",
        (_PROMISES,),
    ),
    Mutant(
        "a new rate resets the units that a client had before it was opened again",
        "what was taken before set_rate does not count any more",
        _LIMITER,
        "self._receipts.run(self._asking.set(limit, replaces=replaces))",
        "self._receipts.run(self._commands.set(limit, replaces=replaces))",
        (f"{_PROMISES}::TestRates::test_a_client_that_was_opened_again_resets_what_it_has_now",),
    ),
)
