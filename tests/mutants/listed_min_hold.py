"""Sabotages of `min_hold`: a name that stays taken after its block."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_HOLD = "redisson_py/_engine/hold.py"
_OWNERSHIP = "redisson_py/_engine/ownership.py"
_SCRIPT = "lua/lock/leave_taken.lua"
_FAIR_SCRIPT = "lua/fair_lock/leave_taken.lua"

_BLOCKS = "tests/contract/test_min_hold.py"
_SCRIPTS = "tests/lua/test_leave_taken.py"

#: What leaves a name taken, and until when.
_MOMENT = "a name stays taken until min_hold seconds after the acquisition, and no longer"
#: What it is to others.
_NOBODY = "a name that stays taken belongs to nobody, whatever arrives late"

MIN_HOLD = (
    Mutant(
        "a block that is left early frees the name",
        _MOMENT,
        _OWNERSHIP,
        "taken = None if not hold.taken_until else hold.stays_taken(let_go_at)",
        "taken = None",
        (f"{_BLOCKS}::test_left_early_the_name_stays_taken_and_nobody_holds_it",),
    ),
    Mutant(
        "after a lost answer a block that is left early frees the name",
        _MOMENT,
        _OWNERSHIP,
        "            taken=hold.stays_taken(now()),\n",
        "            taken=None,\n",
        (f"{_BLOCKS}::test_after_a_grant_whose_answer_was_lost_late_copies_are_refused",),
    ),
    Mutant(
        "an end of a lease frees the name before its time",
        _MOMENT,
        _OWNERSHIP,
        "            elif hold.stays_taken(now()) is not None:\n",
        "            elif hold.taken_until < 0:\n",
        (f"{_BLOCKS}::test_it_counts_from_the_grant_however_late_that_is_heard",),
    ),
    Mutant(
        "an extension leaves the server no time for the rest of min_hold",
        _MOMENT,
        _HOLD,
        "        needed.append(self._hold.taken_until - self._sent_at)\n",
        "",
        (f"{_BLOCKS}::test_an_extension_ends_the_body_and_not_the_time",),
    ),
    Mutant(
        "the last min_hold counts, and not the latest moment",
        _MOMENT,
        _HOLD,
        "self.taken_until = max(self.taken_until, moment)",
        "self.taken_until = moment",
        (f"{_BLOCKS}::test_the_end_of_the_last_block_counts_and_the_latest_moment",),
    ),
    Mutant(
        "a hold goes from task to task before its min_hold is over",
        _MOMENT,
        _HOLD,
        "            and self.taken_until <= present\n",
        "",
        (f"{_BLOCKS}::test_it_is_not_passed_on_before",),
    ),
    Mutant(
        "what was held up on its way leaves the name taken for longer",
        _MOMENT,
        _SCRIPT,
        "math.max(1, math.min(stays_ms, left + beyond))",
        "math.max(1, stays_ms)",
        (
            _SCRIPTS,
            f"{_BLOCKS}::test_a_release_that_is_held_up_on_its_way_leaves_it_taken_no_longer",
        ),
    ),
    Mutant(
        "a name stays taken for the lease that is there",
        _MOMENT,
        _SCRIPT,
        "  redis.call('PEXPIRE', lock, string.format('%.0f', stays_ms))\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "a fair lock stays taken for the lease that is there",
        _MOMENT,
        _FAIR_SCRIPT,
        "  redis.call('PEXPIRE', lock, string.format('%.0f', stays_ms))\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "who has left early is still the owner",
        _NOBODY,
        _SCRIPT,
        "  redis.call('HDEL', lock, owner)\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "a late copy of the acquire takes the name that had stayed taken",
        _NOBODY,
        _SCRIPT,
        "remember(tombstone, '1', tombstone_ms)\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "a repetition of leaving early is no release",
        "each call takes effect once, and the repetition gets the first answer",
        _SCRIPT,
        "return (held or renamed) and 1 or nil",
        "return held and 1 or nil",
        (_SCRIPTS,),
    ),
    Mutant(
        "who sleeps until the end of the lease does not hear that min_hold ends sooner",
        "who waits gets a name that stayed taken as soon as it is free",
        _SCRIPT,
        "  sooner_for(clients, channel)\n",
        "",
        (f"{_BLOCKS}::test_a_shorter_time_than_the_lease_wakes_who_sleeps_until_its_end",),
    ),
    Mutant(
        "the first in a fair queue does not hear that min_hold ends sooner",
        "who waits gets a name that stayed taken as soon as it is free",
        _FAIR_SCRIPT,
        "  redis.call('PUBLISH', head_channel, '0')\n",
        "",
        (f"{_BLOCKS}::test_a_shorter_time_than_the_lease_wakes_who_sleeps_until_its_end",),
    ),
    Mutant(
        "a lock of several leaves its members free",
        "a min_hold of a composite is one of each member",
        "redisson_py/composite/_hold.py",
        "            member._keep_taken(moment)\n",
        "            pass\n",
        (f"{_BLOCKS}::test_left_early_the_name_stays_taken_and_nobody_holds_it",),
    ),
    Mutant(
        "a lock of several leaves members free that joined it late",
        "a min_hold of a composite is one of each member",
        "redisson_py/composite/_hold.py",
        "            member._keep_taken(self._taken_until)\n",
        "            pass\n",
        (
            "tests/primitives/test_red_lock.py"
            "::test_of_a_member_that_joins_late_the_name_stays_taken_too",
        ),
    ),
    Mutant(
        "redisson-py run forgets --min-hold",
        "a command that ends early leaves the name taken",
        "redisson_py/_cli/commands/run.py",
        "min_hold=min_hold)",
        "min_hold=None)",
        ("tests/cli/test_run.py",),
    ),
    Mutant(
        "a name that min_hold keeps is another application's key",
        "people find whatever is taken, and can free it",
        "redisson_py/_cli/looks/keyspace.py",
        "(:write|:kept)?",
        "(:write)?",
        ("tests/cli/test_inspect.py",),
    ),
)
