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
)
