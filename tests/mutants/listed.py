"""The sabotages: each is one change, of one place, that breaks one promise.

`tests` only saves time: the claim is that the suite catches the mutant, and these are the parts
of the suite that are run to see it. Tests that look at the text of the sources (`tests/house`,
the manifest, the rules for Lua files) are never among them.

`jepsen` is the claim that this checker catches it within its limit on a machine with two cores that
others use too, `simulation` that one of these seeds shows it.
"""

from __future__ import annotations

from tests.mutants.listed_client_queue import CLIENT_QUEUE
from tests.mutants.listed_cluster import CLUSTER
from tests.mutants.listed_composite import COMPOSITE
from tests.mutants.listed_elections import ELECTIONS
from tests.mutants.listed_ends import ENDS
from tests.mutants.listed_etcd import ETCD
from tests.mutants.listed_handing_over import HANDING_OVER
from tests.mutants.listed_holds import HOLDS
from tests.mutants.listed_jepsen import JEPSEN
from tests.mutants.listed_min_hold import MIN_HOLD
from tests.mutants.listed_once import ONCE
from tests.mutants.listed_plain import PLAIN
from tests.mutants.listed_rates import RATES
from tests.mutants.listed_read_write_queue import READ_WRITE_QUEUE
from tests.mutants.listed_sentinel import SENTINEL
from tests.mutants.listed_servers import SERVERS
from tests.mutants.listed_shared import SHARED
from tests.mutants.listed_simulation import SIMULATION
from tests.mutants.listed_stores import STORES
from tests.mutants.listed_topologies import TOPOLOGIES
from tests.mutants.listed_zookeeper import ZOOKEEPER
from tests.mutants.mutant import Attack, Mutant, Seeds

_LUA_ACQUIRE = "tests/lua/test_acquire_scripts.py"
_LUA_FENCED = "tests/lua/test_fenced_lock_scripts.py"
_LUA_LOCK = "tests/lua/test_lock_scripts.py"
_BREAKS = "tests/stream/test_stream_fake_peer_breaks.py"
_CANCELLATION = "tests/contract/test_cancellation.py"
_ACQUIRE_RELEASE = "tests/contract/test_acquire_release.py"
_WAITING = "tests/contract/test_waiting.py"


MUTANTS = (
    # Lua: acquiring.
    Mutant(
        "no owner check in acquire",
        "one owner at a time",
        "lua/lock/acquire.lua",
        "if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0",
        "if holds == 1 and redis.call('EXISTS', tombstone) == 0",
        (_LUA_ACQUIRE,),
        jepsen=Attack("mutual exclusion", "mutex", seconds=3),
    ),
    Mutant(
        "tombstone ignored",
        "an acquire that arrives after its undo grants nothing",
        "lua/lock/acquire.lua",
        "if holds == 1 and redis.call('EXISTS', lock, tombstone) == 0",
        "if holds == 1 and redis.call('EXISTS', lock) == 0",
        (_LUA_ACQUIRE,),
        jepsen=Attack("leaks", "mutex", ("duplicate",), limit=120),
    ),
    Mutant(
        "re-entry adds one",
        "a repeated re-entry counts once",
        "lua/lock/acquire.lua",
        "local added = math.max(count, holds) - count",
        "local added = 1",
        (_LUA_ACQUIRE,),
        jepsen=Attack("hold count", "reentrant", ("cut-after",)),
    ),
    Mutant(
        "a bad lease is not found before the first write",
        "what is refused has changed nothing",
        "lua/lock/acquire.lua",
        "holds, lease_ms = whole(holds, 1), whole(lease_ms, 1)",
        "holds, lease_ms = whole(holds, 1), tonumber(lease_ms)",
        ("tests/lua/test_refusals.py::test_a_bad_number_is_refused",),
    ),
    Mutant(
        "tokens are a plain counter",
        "tokens grow although the counter was lost",
        "lua/fenced_lock/acquire.lua",
        "math.max(last + 1, time[1] * 1000000 + time[2])",
        "last + 1",
        (_LUA_FENCED,),
        jepsen=Attack("fencing", "fenced", ("flushall",)),
        simulation=Seeds("fenced_lock", first=300),
    ),
    # Lua: releasing, renewing, forcing.
    Mutant(
        "no owner check in release",
        "nobody frees the lock of another owner",
        "lua/lock/release.lua",
        "if held and holds == 0 then\n  redis.call('DEL', lock)",
        "if holds == 0 then\n  redis.call('DEL', lock)",
        (_LUA_LOCK,),
        jepsen=Attack("mutual exclusion", "mutex", ("late",)),
    ),
    Mutant(
        "no call at release",
        "a waiter elsewhere is woken by the release",
        "lua/lock/release.lua",
        "if not first or (tonumber(redis.pcall('PUBLISH', own, '0')) or 0) > 0 then",
        "if true then",
        (_WAITING,),
        jepsen=Attack("no lost wake-up", "brief", seconds=3),
    ),
    Mutant(
        "release not allowed on a full server",
        "what is held can be given back when Redis is out of memory",
        "lua/lock/release.lua",
        "#!lua flags=allow-oom",
        "#!lua",
        ("tests/lua/test_refusals.py",),
        jepsen=Attack("no unexpected error", "mutex", ("memory-full",)),
    ),
    Mutant(
        "no owner check in renew",
        "nobody renews the lock of another owner",
        "lua/lock/renew.lua",
        "if ours == 1 then",
        "if redis.call('EXISTS', lock) == 1 then",
        (_LUA_LOCK,),
        jepsen=Attack("loss detection", "forced"),
    ),
    Mutant(
        "receipt ignored",
        "a repeated force_release spares the next holder",
        "lua/lock/force_release.lua",
        "if seen then",
        "if false then",
        (_LUA_LOCK,),
        simulation=Seeds("lock", first=3100),
    ),
    # Python: waiting and wake-ups.
    Mutant(
        "undo left out",
        "a cancelled acquire holds nothing",
        "redisson_py/_engine/request.py",
        "try:\n            self.send_undo()",
        "try:\n            pass",
        (_CANCELLATION,),
        jepsen=Attack("leaks", "brief", ("cancel",)),
    ),
    Mutant(
        "armed after asking",
        "a release between question and sleep is heard",
        "redisson_py/_engine/waiting.py",
        "sleeper.arm()\n        outcome = await request.run(deadline)\n",
        "outcome = await request.run(deadline)\n        sleeper.arm()\n",
        ("tests/unit/test_waiting_schedules.py",),
        jepsen=Attack("no lost wake-up", "brief"),
    ),
    Mutant(
        "end of the holder's lease not waited for",
        "a waiter gets in when a crashed holder's lease ends",
        "redisson_py/_engine/waiting.py",
        "poll = min(poll, max(retry_in, _SHORTEST_SLEEP_SECONDS))",
        "poll = max(poll, retry_in)",
        (_WAITING,),
    ),
    Mutant(
        "wake-up not passed on",
        "a woken waiter that is cancelled wakes the next",
        "redisson_py/_engine/wakeups.py",
        "        if seat.woken:\n            self._pass_on",
        "        if False:\n            self._pass_on",
        ("tests/unit/test_waiting_schedules.py",),
    ),
    Mutant(
        "not subscribed again",
        "waiters hear of releases after a reconnection",
        "redisson_py/_redis/subscriptions.py",
        "        subscription.last = stream.subscribe(channel) or",
        "        subscription.last = None if before else stream.subscribe(channel) or",
        ("tests/stream/test_stream_servers.py",),
        jepsen=Attack("no lost wake-up", "brief", ("kill-pubsub",)),
    ),
    Mutant(
        "seats left behind",
        "seats follow their slot's master",
        "redisson_py/_redis/subscriptions.py",
        "                self._table.missed(channel)\n"
        "                self._subscribe(channel, subscription)",
        "                self._table.missed(channel)",
        ("tests/unit/test_bus_moving.py",),
    ),
    Mutant(
        "subscribed in two places",
        "a channel is subscribed where its slot's master is, and nowhere else",
        "redisson_py/_redis/subscriptions.py",
        "            before.unsubscribe(channel)",
        "            pass",
        ("tests/unit/test_bus_moving.py",),
    ),
    Mutant(
        "holds not asked after at a new connection",
        "what was taken while Redis was away is told at the reconnection",
        "redisson_py/_engine/watchdog.py",
        "                self._at_once[hold] = None",
        "                pass",
        (
            "tests/lifecycle/test_watchdog_edges.py::"
            "test_what_was_taken_meanwhile_is_reported_at_the_reconnection",
        ),
    ),
    Mutant(
        "a batch whose slot moves is not split",
        "a slot that moves key by key costs no plain lock its lease",
        "redisson_py/_engine/watchdog.py",
        "splits = len(holds) > 1 and not again",
        "splits = False",
        ("tests/unit/test_watchdog_asks.py",),
    ),
    # Python: the queue of one client.
    Mutant(
        "turn never ends",
        "a contended lock goes to other processes too",
        "redisson_py/_engine/hold.py",
        "and present - self.granted_at < longest",
        "and longest >= 0",
        ("tests/system/test_processes.py",),
    ),
    # Python: leases.
    Mutant(
        "a grant that is over is used",
        "whoever gets a lease can rely on it",
        "redisson_py/_engine/acquiring.py",
        "if attempt.is_good(grant):",
        "if True:",
        (_ACQUIRE_RELEASE,),
        jepsen=Attack("loss detection", "mutex", ("delay",)),
    ),
    Mutant(
        "`ends_at` counted from the reply",
        "a holder's view ends before the server's",
        "redisson_py/_engine/hold.py",
        "= sent_at + lease_time * (1 - DRIFT_SHARE)",
        "= now() + lease_time * (1 - DRIFT_SHARE)",
        (_ACQUIRE_RELEASE,),
        jepsen=Attack("loss detection", "set-add", ("delay",), limit=120),
    ),
    Mutant(
        '"not the owner" ignored',
        "a loss is told at the next renewal",
        "redisson_py/_engine/watchdog.py",
        "            if not renewed:",
        "            if False:",
        ("tests/unit/test_watchdog.py::test_not_the_owner_is_lost_at_once_and_only_that_hold",),
    ),
    Mutant(
        "body not cancelled",
        "a loss ends the block",
        "redisson_py/_engine/hold.py",
        'self._hold.ownership.on_lost == "cancel":',
        'self._hold.ownership.on_lost == "":',
        ("tests/contract/test_blocks.py",),
    ),
    Mutant(
        "cancellation from outside swallowed",
        "a cancelled task that loses its lease at once is still cancelled",
        "redisson_py/_engine/block.py",
        "ours = task.uncancel() <= self._cancelling",
        "ours = task.uncancel() >= 0",
        ("tests/unit/test_block_cancellation.py",),
    ),
    # Python: the stream.
    Mutant(
        "sent again behind what came later",
        "an undo does not overtake its acquire",
        "redisson_py/_redis/stream/stream.py",
        "dict.fromkeys([*unanswered, *self._backlog])",
        "dict.fromkeys([*self._backlog, *unanswered])",
        (_BREAKS,),
    ),
    Mutant(
        "abandoned releases not sent again",
        "a cancelled release is carried out",
        "redisson_py/_redis/stream/call.py",
        "return self.must or not self.future.done()",
        "return not self.future.done()",
        (_BREAKS,),
    ),
    Mutant(
        "repeated calls not known as such",
        "a hold whose acquire may come again leaves a tombstone",
        "redisson_py/_redis/stream/stream.py",
        "call.uncertain = True",
        "call.uncertain = False",
        (_BREAKS,),
    ),
    Mutant(
        "silence not noticed",
        "a dead connection is given up",
        "redisson_py/_redis/stream/health.py",
        "if self._silent >= _TICKS_A_TIMEOUT:",
        "if self._silent < 0:",
        (_BREAKS,),
        jepsen=Attack("no deadlock", "brief", ("half-open",)),
    ),
    # Python: owners.
    Mutant(
        "one owner for all acquisitions of a client",
        "what arrives late touches no newer hold",
        "redisson_py/_owner.py",
        "str(self.new_number())",
        '"1"',
        ("tests/contract/test_reentry.py",),
        jepsen=Attack("fencing", "fenced", seconds=3),
    ),
    # Barriers and latches.
    Mutant(
        "rounds of a barrier never forgotten",
        "what is remembered of released rounds does not grow for ever",
        "lua/barrier/wait.lua",
        "redis.call('ZREMRANGEBYSCORE', released, '-inf', string.format('%.0f', ms))",
        "",
        ("tests/lua/test_barrier_scripts.py",),
        jepsen=Attack("leaks", "barrier", seconds=70, limit=120),
    ),
    Mutant(
        "arrivals without an expiry",
        "a barrier whose parties have all gone mends itself",
        "lua/barrier/wait.lua",
        "redis.call('PEXPIREAT', barrier, string.format('%.0f', tonumber(last[2])))",
        "",
        ("tests/lua/test_barrier_expiry_scripts.py",),
        jepsen=Attack("leaks", "barrier", ("kill",), limit=120),
    ),
    Mutant(
        "a latch that was set with an end has none",
        "an abandoned latch does not stay in Redis",
        "lua/latch/try_set_count.lua",
        "if reply == 1 and expire_ms > 0 then",
        "if reply == 1 and expire_ms < 0 then",
        ("tests/lua/test_latch_scripts.py",),
    ),
    Mutant(
        "a repetition sets a latch that has ended meanwhile",
        "each call takes effect once, and the repetition gets the first answer",
        "lua/latch/try_set_count.lua",
        "if seen then",
        "if seen and left then",
        ("tests/lua/test_latch_scripts.py",),
    ),
    Mutant(
        "who waits for a latch does not know when it ends",
        "waiters are released at the end of a latch, of which nobody sends a message",
        "redisson_py/barriers/latch.py",
        "return Busy(retry_in=ends_in)",
        "return Busy(retry_in=None)",
        ("tests/primitives/test_latch_waiting.py",),
    ),
    Mutant(
        "any number of milliseconds is the end of a latch",
        "a time that makes no sense is refused before anything is sent",
        "redisson_py/barriers/latch.py",
        'None if expire_in is None else check_lease_time(expire_in, "expire_in")',
        "None if expire_in is None else float(expire_in)",
        ("tests/primitives/test_latch.py",),
    ),
    *HOLDS,
    *HANDING_OVER,
    *MIN_HOLD,
    *RATES,
    *ENDS,
    *SENTINEL,
    *SERVERS,
    *PLAIN,
    *CLIENT_QUEUE,
    *READ_WRITE_QUEUE,
    *CLUSTER,
    *TOPOLOGIES,
    *SHARED,
    *STORES,
    *ETCD,
    *ELECTIONS,
    *ONCE,
    *ZOOKEEPER,
    *COMPOSITE,
    *JEPSEN,
    *SIMULATION,
)
