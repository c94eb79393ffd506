"""Sabotages of what is done where another server may become the master of a key."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLUSTER = "redisson_py/_redis/topology/cluster.py"
_DISCOVERY = "redisson_py/_redis/topology/discovery.py"
_FINDER = "redisson_py/_redis/topology/finder.py"
_STREAM = "redisson_py/_redis/stream/stream.py"
_EXECUTOR = "redisson_py/_redis/executor.py"
_CONFIRMING = "redisson_py/_redis/topology/confirming.py"

_DISCOVERS = "tests/topology/test_discovery.py"
_SUSPECTS = "tests/stream/test_cluster_suspects.py"
_FAULTS = "tests/faults/test_moving_slots_and_promotion.py"
_REPEATS = "tests/topology/test_repeats_write.py"
_SENTINEL = "tests/topology/test_sentinel_fakes.py"
_SYNC = "tests/topology/test_sync.py"
_SYNC_AUTO = "tests/topology/test_sync_auto.py"

TOPOLOGIES = (
    Mutant(
        "ASK for reader scripts",
        "a reader whose lease has not moved yet is no loss",
        _CLUSTER,
        "if call.script is not None and not call.script.follows_ask:",
        "if False:",
        (f"{_FAULTS}::test_ask_and_tryagain_of_a_moving_slot",),
    ),
    Mutant(
        "ASK is not followed",
        "what needs one key only is served while its slot moves",
        _CLUSTER,
        "if call.script is not None and not call.script.follows_ask:",
        "if True:",
        (f"{_FAULTS}::test_ask_and_tryagain_of_a_moving_slot",),
    ),
    Mutant(
        "a seed of another cluster is believed",
        "a client stays with its cluster while that may be back",
        _DISCOVERY,
        "return present < self._strangers_since + _STRANGER_SECONDS",
        "return False",
        (f"{_DISCOVERS}::test_a_seed_that_serves_another_cluster_by_now",),
    ),
    Mutant(
        "a late reply is read",
        "what comes after a silence counts only if another node confirms it",
        _STREAM,
        "wire.hold_back(lambda: topology.confirm_late(self, read_on))",
        "return None",
        (_SUSPECTS,),
    ),
    Mutant(
        "a late reply of a node that serves nothing is read",
        "what a node says that serves nothing any more is not believed",
        _STREAM,
        """\
        wire = self._wire
        if wire is not None:
            wire.why = reason
            wire.abort()
""",
        """\
        wire = None
        if wire is not None:
            wire.why = reason
            wire.abort()
""",
        (_SUSPECTS,),
    ),
    Mutant(
        "no recheck after a doubt",
        "a node that was frozen is used again only when another one says what it serves",
        _STREAM,
        "if self._suspected and self._topology is not None:",
        "if False:",
        (_SUSPECTS,),
    ),
    Mutant(
        "a slow connection is no doubt",
        "a server that took long to answer may have been frozen meanwhile",
        _STREAM,
        "if loop_time() - began > SLOW_OPENING_SECONDS:",
        "if False:",
        (_SUSPECTS,),
    ),
    Mutant(
        "no recheck while a master is connected to",
        "a connection that took longer than a failover is not used",
        _FINDER,
        "if attempt.done() and not news.done():",
        "if attempt.done():",
        (f"{_SENTINEL}::test_a_message_while_the_old_master_is_connected_to",),
    ),
    Mutant(
        "WAIT on the other stream",
        "WAIT is about what its own connection wrote",
        _EXECUTOR,
        "Granted\n            )\n            stream = stream.grants\n",
        "Granted\n            )\n",
        (_SYNC,),
    ),
    Mutant(
        "granted before replicas confirm it",
        "a grant that a failover loses was never a grant",
        _CONFIRMING,
        "future.begin(self._number > 0, self._batch_began_at)",
        "future.begin(False, self._batch_began_at)",
        (f"{_SYNC}::test_with_too_few_replicas_nothing_is_held",),
    ),
    Mutant(
        "a WAIT for a call that was sent on",
        "a grant is confirmed by replicas of the node that gave it",
        _CONFIRMING,
        "if self._batch.pop(call, call) is None:",
        "if call is None:",
        (f"{_SYNC_AUTO}::test_a_grant_is_confirmed_by_replicas_of_the_node_that_gave_it",),
    ),
    Mutant(
        "the time of replicas begins with the WAIT",
        "too few replicas are told within sync_timeout, also to what had to gather",
        _CONFIRMING,
        "left = oldest.since + self._sync_timeout - loop_time()",
        "left = self._sync_timeout",
        (f"{_SYNC}::test_what_gathers_has_no_more_time_than_what_is_written",),
    ),
    Mutant(
        "a repeat that does not write",
        "WAIT behind a repeated grant covers the grant",
        "lua/lock/acquire.lua",
        "  redis.call('HINCRBY', lock, owner, string.format('%.0f', added))\n",
        "  if added > 0 then\n"
        "    redis.call('HINCRBY', lock, owner, string.format('%.0f', added))\n"
        "  end\n",
        (_REPEATS,),
    ),
    Mutant(
        "a repeat of permits that does not write",
        "WAIT behind a repeated grant covers the grant",
        "lua/semaphore/acquire.lua",
        "  redis.call('INCRBY', counter, '0')\n",
        "",
        (_REPEATS,),
    ),
)
