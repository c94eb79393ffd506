"""Sabotages of elections, in Redis and in etcd."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLAIMS = "redisson_py/_stores/etcd/claims.py"
_ELECTION = "redisson_py/_stores/election.py"
_MESSAGES = "redisson_py/_stores/etcd/messages.py"
_QUEUE = "redisson_py/_stores/etcd/queue.py"
_STORE = "redisson_py/_stores/etcd/store.py"

_FAULTS = "tests/stores/etcd/test_election_faults.py"
_OBSERVE = "tests/stores/etcd/test_observe.py"
_TESTS = "tests/stores/etcd/test_election.py"

_ACQUIRE_IN_REDIS = "lua/election/acquire.lua"
_PROCLAIM_IN_REDIS = "lua/election/proclaim.lua"
_RELEASE_IN_REDIS = "lua/election/release.lua"
_IN_REDIS = "tests/primitives/test_election.py"
_EVERYWHERE = "tests/stores/test_election.py"

ELECTIONS = (
    Mutant(
        "a leader's late value overwrites a later one in Redis",
        "a request that arrives late changes no later value",
        _PROCLAIM_IN_REDIS,
        "if written and number < written then",
        "if written and number < 0 then",
        (f"{_IN_REDIS}::test_a_proclamation_that_comes_late_changes_nothing",),
    ),
    Mutant(
        "a grant in Redis is not announced",
        "an observer hears of a new leader",
        _ACQUIRE_IN_REDIS,
        "    redis.call('PUBLISH', announced, '0')\n  end\n  if tells",
        "  end\n  if tells",
        (f"{_EVERYWHERE}::test_observers_are_rung_for",),
    ),
    Mutant(
        "the end of a leadership in Redis is not announced",
        "an observer hears that nobody leads",
        _RELEASE_IN_REDIS,
        "if held then\n  redis.call('PUBLISH', announced, '0')",
        "if held then\n  redis.call('EXISTS', lock)",
        (f"{_EVERYWHERE}::test_observers_are_rung_for",),
    ),
    Mutant(
        "the end of a leadership by force is not announced in Redis",
        "an observer hears that nobody leads",
        "lua/election/force_release.lua",
        "if freed == 1 then\n  redis.call('PUBLISH', announced, '0')",
        "if freed == 1 then\n  redis.call('EXISTS', lock)",
        (f"{_IN_REDIS}::test_an_observer_hears_that_a_leader_was_deposed",),
    ),
    Mutant(
        "an observer does not look when the lease that it saw ends",
        "an observer sees that a lease has ended, which nothing announces",
        "redisson_py/locks/election_in_redis.py",
        "return _leader_of(seen), None if seen is None else seen.ends_in",
        "return _leader_of(seen), None",
        (f"{_IN_REDIS}::test_an_observer_sees_that_a_lease_has_ended",),
    ),
    Mutant(
        "a request that is repeated begins another term",
        "a leader keeps its token and its value when its request arrives again",
        _ACQUIRE_IN_REDIS,
        "  return {own}\n",
        "  return take()\n",
        (f"{_IN_REDIS}::test_a_repeated_acquire_keeps_the_token_and_a_newer_value",),
    ),
    Mutant(
        "a term is numbered by the counter alone",
        "a token is greater than all before, also if the counter was lost",
        _ACQUIRE_IN_REDIS,
        "local first = math.max(last + 1, time[1] * 1000000 + time[2])",
        "local first = last + 1",
        (f"{_IN_REDIS}::test_tokens_grow_when_the_counter_is_lost_or_ahead",),
    ),
    Mutant(
        "a candidate that gave up is elected",
        "who gave up is refused",
        _RELEASE_IN_REDIS,
        "remember(tombstone, '1', tombstone_ms)",
        "remember(tombstone, '1', 0)",
        (f"{_IN_REDIS}::test_who_gave_up_is_refused_and_leaves_no_candidate",),
    ),
    Mutant(
        "whoever asks publishes a value",
        "only the leader publishes a value",
        _PROCLAIM_IN_REDIS,
        "if redis.call('HEXISTS', lock, owner) == 0 then",
        "if redis.call('EXISTS', lock) == 0 then",
        (f"{_IN_REDIS}::test_a_proclamation_that_comes_late_changes_nothing",),
    ),
    Mutant(
        "the holder of a lock of the same name leads",
        "the holder of a lock of the same name is no leader",
        "lua/election/leader.lua",
        "if not (found[1] and found[2]) then",
        "if redis.call('EXISTS', lock) == 0 then",
        (f"{_IN_REDIS}::test_a_fair_lock_of_the_same_name_stands_in_the_same_queue",),
    ),
    Mutant(
        "a candidate leaves its name taken",
        "an election that nobody leads can be won",
        "redisson_py/_redis/commands/election.py",
        "leave_taken_script: Script | None = None",
        "leave_taken_script: Script | None = FairLockCommands.leave_taken_script",
        ("tests/contract/test_min_hold.py::test_locks_that_cannot_have_it_say_so",),
    ),
    Mutant(
        "a leader's late value overwrites a later one",
        "a request that arrives late changes no later value",
        _QUEUE,
        "messages.created(key, revision), messages.changed(key, written)]",
        "messages.created(key, revision)]",
        (f"{_TESTS}::test_a_value_that_comes_late_changes_nothing",),
    ),
    Mutant(
        "a value takes a leader's key from under its lease",
        "the key of a leader that dies ends with its lease",
        _MESSAGES,
        "value=value, ignore_lease=True)",
        "value=value)",
        (f"{_TESTS}::test_a_value_stays_under_the_lease_of_its_key",),
    ),
    Mutant(
        "candidates of one client share a key",
        "each candidate has a key of its own",
        _CLAIMS,
        'return name.encode() + b"/" + owner\n\n\nclass',
        'return name.encode() + b"/" + owner[:1]\n\n\nclass',
        (f"{_FAULTS}::test_asking_twice_is_one_candidate",),
    ),
    Mutant(
        "a leadership is handed on inside a process",
        "candidates are elected in the order in which etcd saw them come",
        _ELECTION,
        "passes=False, reentrant=False",
        "passes=True, reentrant=False",
        (f"{_TESTS}::test_candidates_are_elected_in_the_order_in_which_they_came",),
    ),
    Mutant(
        "the leader of a name inside an election leads it",
        "a name inside a name is another election",
        _QUEUE,
        "next((each for each in reply.kvs if claim.counts(each.key)), None)",
        "next(iter(reply.kvs), None)",
        (f"{_TESTS}::test_names_inside_a_name_are_other_elections",),
    ),
    Mutant(
        "an observer misses what comes right after it looked",
        "an observer sees the newest state in the end",
        _STORE,
        "self._watches.watch(observer, seen.key, seen.at + 1, how)",
        "self._watches.watch(observer, seen.key, seen.at + 2, how)",
        (f"{_OBSERVE}::test_each_change_is_seen",),
    ),
    Mutant(
        "an observer that left is watched for",
        "an observer that left leaves nothing",
        _ELECTION,
        "        if not self._stopped:\n            store.observe",
        "        if store:\n            store.observe",
        (f"{_OBSERVE}::test_cancelled_while_it_asks_it_watches_nothing_later",),
    ),
    Mutant(
        "an observer asks before it listens to the next change",
        "an observer costs two reads for each change",
        "redisson_py/locks/election.py",
        "return self._news is not None",
        "return False",
        (f"{_IN_REDIS}::test_a_change_costs_an_observer_two_looks",),
    ),
)
