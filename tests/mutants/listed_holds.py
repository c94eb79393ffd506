"""Sabotages of the transitions of a hold: entered, re-entered, passed, ended, released, lost."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_HOLD = "redisson_py/_engine/hold.py"
_BLOCK = "redisson_py/_engine/block.py"
_WATCHDOG = "redisson_py/_engine/watchdog.py"
_CONTEXT = "redisson_py/_engine/context.py"
_PARTIAL_RELEASE = "redisson_py/_engine/ownership.py"

_INNER_LEASES = "tests/lifecycle/test_leases_inside_leases.py"
_LATE_CHANGES = "tests/lifecycle/test_late_changes.py"
_PARTIAL = "tests/lifecycle/test_partial_changes.py"
_AS_ASKED = "test_each_lease_lasts_as_asked_for_and_no_longer_than_redis_has_it"
_UNANSWERED = "tests/lifecycle/test_partial_changes.py"
_ANSWER_TOO_OLD = "test_the_answer_to_a_change_does_not_count_after_the_next_was_sent"
_REENTRY = "tests/lifecycle/test_leases_inside_leases.py"

_REGISTRY = "tests/unit/test_registry.py"

HOLDS = (
    # What the locks of one name share.
    Mutant(
        "what is dropped leaves the table before it is referred to weakly",
        "an interruption spoils nothing for later calls",
        _CONTEXT,
        "                    self._weak[key] = part\n                    del self._kept[key]\n",
        "                    self._weak[key] = self._kept.pop(key)\n",
        (_REGISTRY,),
    ),
    Mutant(
        "a key without a part is an error for whoever looks at it next",
        "an interruption spoils nothing for later calls",
        _CONTEXT,
        "            part = self._kept.get(key)\n            if part is None or not",
        "            part = self._kept[key]\n            if part is None or not",
        (_REGISTRY,),
    ),
    Mutant(
        "a part that was made meanwhile is made again",
        "what waits for one name waits in one queue",
        _CONTEXT,
        "part = self._kept.setdefault(key, made)",
        "part = self._kept[key] = made",
        (_REGISTRY,),
    ),
    Mutant(
        "a queue that nobody needs now is dropped, although a lock refers to it",
        "the locks of one name have one queue, or a task waits for itself",
        _CONTEXT,
        "                    self._weak[key] = part\n",
        "",
        (f"{_REGISTRY}::test_what_a_waiting_task_stands_in_is_never_made_twice",),
    ),
    Mutant(
        "a queue is made again beside one that a lock refers to",
        "the locks of one name have one queue, or a task waits for itself",
        _CONTEXT,
        "known = self._weak.get(key)",
        "known = None",
        (f"{_REGISTRY}::test_a_part_that_anybody_refers_to_is_never_made_twice",),
    ),
    Mutant(
        "a new name looks at all others",
        "no step of the event loop goes through all names",
        _CONTEXT,
        "range(min(_PARTS_LOOKED_AT, len(keys)))",
        "range(len(keys))",
        (f"{_REGISTRY}::test_a_new_name_never_walks_through_all_others",),
    ),
    # Leases inside leases.
    Mutant(
        "a released lease is not reviewed",
        "a hold is renewed exactly if a lease without an end holds",
        _HOLD,
        "        self._remove(lease)\n        self._review()",
        "        self._remove(lease)",
        ("tests/unit/test_watchdog_ends.py",),
    ),
    Mutant(
        "the end of an inner lease does not reach Redis",
        "Redis counts the leases that hold",
        _WATCHDOG,
        "        if overdue:\n            hold.ownership.lower(hold)",
        "        if False:\n            hold.ownership.lower(hold)",
        (f"{_INNER_LEASES}::test_count_on_the_server_follows",),
    ),
    Mutant(
        "a partial release keeps the shortest lease",
        "no lease of a hold is shortened by the release of another",
        _HOLD,
        "needed = max(needs)",
        "needed = min(needs)",
        (f"{_PARTIAL}::{_AS_ASKED}",),
    ),
    Mutant(
        "a partial release does not set the end",
        "no lease is believed to last longer than Redis has it",
        _PARTIAL_RELEASE,
        "hold.lease_maybe_set(present, seconds)",
        "hold._last_change = 0",
        (f"{_PARTIAL}::{_AS_ASKED}",),
    ),
    Mutant(
        "a partial release counts when it is answered only",
        "until the answer to a change the shorter end counts",
        _PARTIAL_RELEASE,
        "        hold.lease_maybe_set(present, seconds)\n",
        "",
        (f"{_UNANSWERED}::test_the_outer_lease_ends_with_what_redis_may_have",),
    ),
    Mutant(
        "an extension counts for other leases when it is answered only",
        "until the answer to a change the shorter end counts",
        _HOLD,
        "if len(hold.live) > 1:",
        "if False:",
        (f"{_UNANSWERED}::test_the_outer_lease_ends_with_what_redis_may_have",),
    ),
    Mutant(
        "an older partial release counts after a newer change",
        "the answer to a change does not count after the next was sent",
        _PARTIAL_RELEASE,
        'elif hold.state == "held" and hold.is_last_change(change):',
        'elif hold.state == "held":',
        (f"{_UNANSWERED}::{_ANSWER_TOO_OLD}",),
    ),
    Mutant(
        "an older extension counts after a newer change",
        "the answer to a change does not count after the next was sent",
        _HOLD,
        "if hold.is_last_change(self._change):",
        "if True:",
        (f"{_UNANSWERED}::{_ANSWER_TOO_OLD}",),
    ),
    Mutant(
        "an extension ignores the other leases",
        "no lease of a hold is shortened by the extension of another",
        _HOLD,
        "return max(needed)",
        "return needed[0]",
        (f"{_PARTIAL}::{_AS_ASKED}",),
    ),
    Mutant(
        "a read stretches the write lease",
        "a read under a write hold lasts no longer than that",
        "redisson_py/_engine/task_ownership.py",
        "if not parent.renewed:",
        "if False:",
        ("tests/lifecycle/test_leases_inside_leases.py",),
    ),
    # Which holds there are, and what their releases were answered.
    Mutant(
        "a forced release asks the tasks only",
        "a hold that is passed from task to task is in the list of all holds",
        "redisson_py/_engine/task_ownership.py",
        "if isinstance(keeper := hold.ownership, TaskOwnership) and keeper.holds is holds",
        "if isinstance(hold.ownership, TaskOwnership) and hold in holds.all()",
        ("tests/lifecycle/test_forced_in_passage.py",),
    ),
    Mutant(
        "a forced release forgets requests under way",
        "a grant that the server gave before it is looked after",
        "redisson_py/_engine/task_ownership.py",
        "        if request.overtaken:",
        "        if False:",
        (
            "tests/topology/test_sync.py"
            "::test_a_forced_release_finds_a_grant_that_replicas_have_not_confirmed",
        ),
    ),
    Mutant(
        "a cancelled caller takes the answer with it",
        "what the server answers decides",
        "redisson_py/_engine/ownership.py",
        "            call.unattended().add_done_callback(decide)",
        "            pass",
        ("tests/lifecycle/test_cancelled_callers.py",),
    ),
    # Re-entries.
    Mutant(
        "a refused re-entry gives nothing back",
        "a hold whose last lease was released meanwhile is released",
        "redisson_py/_engine/task_ownership.py",
        "            self.give_back(hold)\n        elif",
        "            pass\n        elif",
        (f"{_REENTRY}::test_refused_re_entry_beside_a_release",),
    ),
    Mutant(
        "a re-entry that may have been granted is not taken back",
        "Redis counts the leases that hold",
        "redisson_py/_engine/task_ownership.py",
        "self._give_up_reentry(hold, unsure or hold.changed_since(request.change))",
        "self._give_up_reentry(hold, False)",
        ("tests/contract/test_cancellation.py", _REENTRY),
    ),
    # Passing, and what was left behind.
    Mutant(
        "a passed hold keeps its old leases",
        "the task that is passed a hold owes nothing for the leases of the one before",
        _HOLD,
        "        self.leases = ()\n        self.id_known = False",
        "        self.id_known = False",
        ("tests/lifecycle/test_state_machine.py::test_no_lifecycle_breaks_an_invariant",),
    ),
    Mutant(
        "a known id does not keep a permit",
        "a permit whose id was read can be released with it",
        _HOLD,
        "or self.reentries or self.id_known:",
        "or self.reentries:",
        ("tests/lifecycle/test_permits.py",),
    ),
    Mutant(
        "the end of a read is not told to its write hold",
        "a write hold under which nobody reads can be passed",
        _HOLD,
        "self.parent.count_read(-1)",
        "pass",
        ("tests/primitives/test_read_write_lock.py",),
    ),
    # Blocks.
    Mutant(
        "a block left elsewhere finds nothing, in silence",
        "whoever leaves a block gives back what it acquired",
        _BLOCK,
        "            assert source is not None\n            source._half = None\n",
        "            return\n",
        ("tests/lifecycle/test_blocks.py",),
    ),
    Mutant(
        "the halves of a statement are not paired",
        "each block gives back its own, whichever task leaves it",
        _BLOCK,
        "if block is not None and block.half == self._other:",
        "if False:",
        ("tests/lifecycle/test_blocks.py",),
    ),
    Mutant(
        "what was acquired since is kept",
        "a block ends what its task acquired after a release inside it",
        _BLOCK,
        "                if newer is not None:",
        "                if False:",
        ("tests/lifecycle/test_blocks.py",),
    ),
    Mutant(
        "a loss is reported again and again",
        "a loss is reported once",
        "redisson_py/_engine/hold.py",
        "self._spent = True",
        'self._spent = self._state == "held"',
        (f"{_INNER_LEASES}::test_inner_lease_says_that_it_ended",),
    ),
    # The watchdog.
    Mutant(
        "a refused batch is not split",
        "a key that Redis refuses costs no other its lease",
        _WATCHDOG,
        "if refused is not None and self._refused.is_of_one(holds, refused):",
        "if False:",
        (
            "tests/lifecycle/test_watchdog_edges.py::test_a_key_that_redis_refuses_costs_no_other_lease",
        ),
    ),
    Mutant(
        "the first renewal counts from the grant",
        "a grant that took most of its lease is renewed in time",
        _HOLD,
        "watchdog.add(self, sent_at + lease_time / 3)",
        "watchdog.add(self, now() + lease_time / 3)",
        (
            "tests/lifecycle/test_watchdog_edges.py::test_a_grant_that_took_most_of_its_lease_is_renewed",
        ),
    ),
    # Late duplicates within one hold.
    Mutant(
        "versions are not compared",
        "a late duplicate of an older change changes nothing",
        "lua/lib/superseded.lua",
        "return seen and seen > version or false",
        "return false",
        ("tests/lua/test_versions.py",),
    ),
    Mutant(
        "versions are never kept",
        "Redis knows the newest change while an older one may arrive",
        _HOLD,
        "keep = self.uncertain or self._changes > 0",
        "keep = False",
        (_LATE_CHANGES,),
    ),
    # How long Redis may keep what its holder gives back.
    Mutant(
        "a release is repeated for as long as its holder relied on the lease",
        "a release is repeated for as long as Redis may keep the lease",
        "redisson_py/_engine/ownership.py",
        "max(options.lease_time, hold.may_last_until - now())",
        "max(options.lease_time, hold.lease_until - now())",
        (f"{_UNANSWERED}::test_a_release_is_repeated_for_a_long_lease_without_an_answer",),
    ),
    Mutant(
        "a plain release is repeated for as long as its holder relied on the lease",
        "a release is repeated for as long as Redis may keep the lease",
        "redisson_py/_engine/ownership.py",
        "keep = hold.may_last_until - let_go_at",
        "keep = hold.lease_until - let_go_at",
        (f"{_UNANSWERED}::test_a_release_is_repeated_for_a_renewal_without_an_answer",),
    ),
    Mutant(
        "a late answer to a renewal moves an end that has passed",
        "what was seen as lost stays lost",
        _WATCHDOG,
        "elif lease_time and hold.ends_at <= present:",
        "elif False:",
        ("tests/unit/test_lost_for_good.py",),
    ),
    Mutant(
        "a client that closes does not wait for a connection for its releases",
        "aclose releases what is still held, also if the connection has just broken",
        "redisson_py/_redis/connections.py",
        "        await wait_for_all(again, _RECONNECT_SECONDS)\n",
        "",
        (
            "tests/lifecycle/test_closing.py"
            "::test_what_is_held_is_released_although_the_connection_has_broken",
        ),
    ),
    Mutant(
        "a second complete with another result succeeds",
        "a block completes it once, and its result is that of all",
        "redisson_py/locks/once.py",
        "            await self._leave()\n        self._check_recorded(result)\n",
        "            await self._leave()\n",
        ("tests/faults/test_lost_replies_once.py",),
    ),
)
