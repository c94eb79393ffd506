"""Sabotages of what ZooKeeper keeps: locks, read-write locks and semaphore mutexes."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_BLOCKED = "tests/stores/zookeeper/test_blocked_loop.py"
_CONTENDERS = "redisson_py/_stores/zookeeper/contenders.py"
_ENSEMBLE = "redisson_py/_stores/zookeeper/ensemble.py"
_NAMES = "redisson_py/_stores/zookeeper/names.py"
_NODES = "redisson_py/_stores/zookeeper/nodes.py"
_SEMAPHORES = "redisson_py/_stores/zookeeper/semaphore_mutex.py"
_SESSION = "redisson_py/_stores/zookeeper/session.py"
_STORE = "redisson_py/_stores/zookeeper/store.py"

_ENSEMBLE_TESTS = "tests/stores/zookeeper/test_ensemble.py"
_FAULTS = "tests/stores/zookeeper/test_faults.py"
_LIMITS_TESTS = "tests/stores/zookeeper/test_limits.py"
_READ_WRITE = "tests/stores/test_read_write.py"
_NAMES_TESTS = "tests/stores/zookeeper/test_names.py"
_SEMAPHORE_TESTS = "tests/stores/zookeeper/test_semaphore.py"
_SESSION_TESTS = "tests/stores/zookeeper/test_session.py"
_SIDES_TESTS = "tests/stores/zookeeper/test_read_write.py"
_STORE_TESTS = "tests/stores/zookeeper/test_store.py"
_WATCHES_TESTS = "tests/stores/zookeeper/test_watches.py"

ZOOKEEPER = (
    Mutant(
        "ZooKeeper's thread pings for an event loop that is blocked",
        "a session does not outlive its event loop by more than a lease",
        _SESSION,
        "        self._connection._send_ping = self._wait_for_loop\n",
        "",
        (f"{_BLOCKED}::test_a_session_does_not_outlive_a_blocked_loop_by_more_than_a_lease",),
    ),
    Mutant(
        "ZooKeeper's thread connects for an event loop that is blocked",
        "a session does not outlive its event loop by more than a lease",
        _SESSION,
        "        if not self._wait_for_loop():\n",
        "        if False:\n",
        (f"{_BLOCKED}::test_a_session_is_not_connected_again_for_a_blocked_loop",),
    ),
    Mutant(
        "ZooKeeper's grants count from an old sign of life",
        "what is granted after a block is fresh",
        _ENSEMBLE,
        "        if session.is_old:\n",
        "        if False:\n",
        (f"{_BLOCKED}::test_what_is_granted_after_a_block_is_fresh",),
    ),
    Mutant(
        "ZooKeeper's readers wait for the first write",
        "a waiter is rung for alone",
        _NAMES,
        "for each in reversed(ahead) if not",
        "for each in ahead if not",
        (f"{_NAMES_TESTS}::test_a_reader_waits_for_the_last_write_before_it",),
    ),
    Mutant(
        "ZooKeeper's contenders are in the order of their owners",
        "clients are served in the order they came",
        _NAMES,
        "return [child for _, _, child in sorted(numbered)]",
        "return sorted(child for _, _, child in numbered)",
        (f"{_NAMES_TESTS}::test_contenders_are_in_the_order_of_their_numbers",),
    ),
    Mutant(
        "ZooKeeper's waiters all watch the holder",
        "a release wakes the next one only",
        _NAMES,
        "return ahead[-1] if ahead else None",
        "return ahead[0] if ahead else None",
        (f"{_NAMES_TESTS}::test_a_writer_waits_for_the_one_before_it",),
    ),
    Mutant(
        "ZooKeeper's waiters trust a watch of an old connection",
        "a release is noticed after a reconnection",
        _CONTENDERS,
        "if self._watches_on != session.connections:",
        "if not self._watches_on:",
        (f"{_FAULTS}::test_a_watch_is_set_again_on_a_new_connection",),
    ),
    Mutant(
        "ZooKeeper's waiters set a watch each",
        "a waiter that gives up leaves nothing",
        _CONTENDERS,
        "if path not in self._watches:",
        "if True:",
        (f"{_WATCHES_TESTS}::test_waiters_that_give_up_leave_one_watch",),
    ),
    Mutant(
        "ZooKeeper grants what has no order",
        "one holder, also when the numbers of a directory have ended",
        _NAMES,
        "return found is not None and int(found[1]) < _LAST_NUMBER",
        "return found is not None",
        (f"{_LIMITS_TESTS}::test_nothing_is_granted_when_the_numbers_have_ended",),
    ),
    Mutant(
        "ZooKeeper's clients never forget what they have seen",
        "a client goes on when the servers have lost their data",
        _SESSION,
        "self._client.last_zxid = 0",
        "pass",
        (f"{_LIMITS_TESTS}::test_a_client_goes_on_with_servers_that_know_less",),
    ),
    Mutant(
        "ZooKeeper's waiters watch what has gone already",
        "no release falls between the question and the watch",
        _CONTENDERS,
        "watch.is_set = self.is_there(reply, path)",
        "watch.is_set = True",
        (f"{_FAULTS}::test_a_release_before_the_watch_is_not_missed",),
    ),
    Mutant(
        "ZooKeeper's reads under a write take a number of their own",
        "a downgrade lets no waiting writer in",
        _CONTENDERS,
        "number = None if under is None else number_of(under)",
        "number = None",
        (f"{_SIDES_TESTS}::test_nodes_are_those_of_curator",),
    ),
    Mutant(
        "ZooKeeper grants reads under a write that is gone",
        "nobody reads beside the writer of another client",
        _CONTENDERS,
        "if contender.under is not None and not contender.held and contender.under not in nodes:",
        "if False:",
        (f"{_SIDES_TESTS}::test_no_read_under_a_write_that_was_freed_by_force",),
    ),
    Mutant(
        "ZooKeeper's busy caller leaves a contender",
        "what does not wait leaves nothing behind",
        _CONTENDERS,
        "        if not wish.waits:\n"
        "            await self.delete(session, key, False, deadline)\n"
        "            return Busy(None)\n",
        "        if not wish.waits:\n            return Busy(None)\n",
        (f"{_STORE_TESTS}::test_a_waiter_that_will_not_wait_longer_leaves_nothing",),
    ),
    Mutant(
        "ZooKeeper's unanswered contenders stay",
        "what had no answer is looked for and given back",
        _NODES,
        "if unsure or not ours:",
        "if False:",
        (f"{_FAULTS}::test_an_unsure_creation_is_taken_back",),
    ),
    Mutant(
        "ZooKeeper's repeated deletion says that nothing was held",
        "a release whose answer was lost is no loss",
        _NODES,
        "if held and again and not any(there):",
        "if False:",
        (f"{_FAULTS}::test_a_deletion_that_stays_unanswered_may_have_been_made",),
    ),
    Mutant(
        "ZooKeeper's contenders do not say whose they are",
        "inspect says who holds it",
        _CONTENDERS,
        "data = wish.owner.encode() if wish.proposal is None",
        'data = b"" if wish.proposal is None',
        (f"{_STORE_TESTS}::test_looks_at_a_name_and_at_one_that_nobody_has",),
    ),
    Mutant(
        "ZooKeeper's own lease_time is that of the session",
        "a lease_time ends a hold in time",
        _CONTENDERS,
        "until = kept if wish.renewed else min(kept, began + wish.lease)",
        "until = kept",
        (f"{_STORE_TESTS}::test_a_hold_with_a_lease_of_its_own_ends_no_later",),
    ),
    Mutant(
        "ZooKeeper's grants count from their answer",
        "a holder's view ends before the session",
        _CONTENDERS,
        "kept = self._ensemble.kept_until(session, began)",
        "kept = now() + session.timeout",
        (f"{_FAULTS}::test_a_slow_grant_counts_from_before_it_was_sent",),
    ),
    Mutant(
        "ZooKeeper's signs of life count before the leader hears of them",
        "a holder's view ends before the session",
        _SESSION,
        "heard = written - self.timeout * _HEARD_SHARE",
        "heard = written",
        (f"{_SESSION_TESTS}::test_a_sign_of_life_counts_when_the_leader_has_heard_of_it",),
    ),
    Mutant(
        "ZooKeeper's renewals ask any server",
        "a follower that is cut off confirms nothing",
        _STORE,
        'session, deadline, Sync("/"), *(Exists(path, None)',
        'session, deadline, Exists("/", None), *(Exists(path, None)',
        (f"{_ENSEMBLE_TESTS}::test_a_follower_that_is_cut_off_confirms_nothing",),
    ),
    Mutant(
        "ZooKeeper renews whatever node is there",
        "a renewal of another hold changes nothing",
        _STORE,
        "there = stat is not None and stat.czxid == hold.token",
        "there = stat is not None",
        (f"{_STORE_TESTS}::test_a_newer_hold_of_the_name_is_another_hold",),
    ),
    Mutant(
        "ZooKeeper's owners that left are granted late",
        "a late request is refused behind its undo",
        _STORE,
        "if key in self._left:",
        "if False:",
        (f"{_STORE_TESTS}::test_an_owner_that_gave_back_is_granted_nothing",),
    ),
    Mutant(
        "ZooKeeper's contenders outlive their session",
        "what an ended session had is gone",
        _STORE,
        "        self._contenders.clear()\n",
        "",
        (f"{_SESSION_TESTS}::test_what_a_session_had_is_gone_with_it",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutexes outlive their session",
        "what an ended session had is gone",
        _STORE,
        "        self._semaphores.clear()\n",
        "",
        (f"{_SESSION_TESTS}::test_what_a_session_had_is_gone_with_it",),
    ),
    Mutant(
        "ZooKeeper's forced release of readers frees a writer",
        "a forced release ends one side only",
        _STORE,
        '            if kind == "read":\n                holders = readers\n',
        "",
        (f"{_READ_WRITE}::test_a_forced_release_of_readers_leaves_a_writer",),
    ),
    Mutant(
        "ZooKeeper's forced release of a writer leaves its reads",
        "a forced release of a writer ends its reads",
        _STORE,
        "holders = [] if alone is None else [alone, *readers]\n            if",
        "holders = [] if alone is None else [alone]\n            if",
        (f"{_READ_WRITE}::test_a_forced_release_of_a_writer_ends_its_reads",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex keeps the gate",
        "a grant is answered after the gate was left",
        _SEMAPHORES,
        "            until = self._until(session, wish, began)\n"
        "            await self._leave_gate(session, wish, deadline)\n"
        "            return Granted",
        "            until = self._until(session, wish, began)\n            return Granted",
        (f"{_SEMAPHORE_TESTS}::test_one_task_holds_it_and_cannot_enter_again",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex has two holders",
        "one owner at a time",
        _SEMAPHORES,
        "if len(nodes) == 1:",
        "if len(nodes) <= 2:",
        (f"{_SEMAPHORE_TESTS}::test_one_task_holds_it_and_cannot_enter_again",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex waits without the gate",
        "two owners never wait for each other",
        _SEMAPHORES,
        "            if lease_node is not None:\n"
        "                await self.remove(session, key, path, False, deadline)\n"
        "            return answer",
        "            return answer",
        (f"{_SEMAPHORE_TESTS}::test_one_that_lost_the_gate_leaves_its_position_to_the_next",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex misses a release",
        "no release falls between the question and the watch",
        _SEMAPHORES,
        "return Busy(None) if len(self.children(listed, path)) > 1 else None",
        "return Busy(None)",
        (f"{_FAULTS}::test_a_release_before_the_watch_is_not_missed",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex does not find its own node",
        "what had no answer is looked for",
        _SEMAPHORES,
        "        if lease_node.node is None:\n"
        "            await self.find(session, lease_node, wish.owner, path, nodes, deadline)\n",
        "",
        (f"{_SEMAPHORE_TESTS}::test_a_request_without_an_answer_leaves_nothing",),
    ),
    Mutant(
        "ZooKeeper's forced release ends the waits for a semaphore mutex",
        "a forced release ends the hold, and no wait",
        _SEMAPHORES,
        "for node in nodes[:1])\n        )\n        return any(self",
        "for node in nodes)\n        )\n        return any(self",
        (f"{_SEMAPHORE_TESTS}::test_a_forced_release_ends_no_wait",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutexes do not say whose they are",
        "inspect says who holds it",
        _SEMAPHORES,
        'create_contender(f"{path}/{prefix}", wish.owner.encode())',
        'create_contender(f"{path}/{prefix}", b"")',
        (f"{_STORE_TESTS}::test_looks_at_a_name_and_at_one_that_nobody_has",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutex has the lease_time of the session",
        "a lease_time ends a hold in time",
        _SEMAPHORES,
        "return kept if wish.renewed else min(kept, began + wish.lease)",
        "return kept",
        (f"{_STORE_TESTS}::test_a_hold_with_a_lease_of_its_own_ends_no_later",),
    ),
    Mutant(
        "ZooKeeper's waiters are not rung for after a reconnection",
        "a release is noticed after a reconnection",
        _ENSEMBLE,
        "            if self._connections > 1:\n                self._again()\n",
        "",
        (f"{_FAULTS}::test_a_release_during_a_disconnection_is_not_missed",),
    ),
    Mutant(
        "ZooKeeper's unanswered changes count as not sent",
        "what had no answer may be held",
        _ENSEMBLE,
        "                sent = changes\n",
        "                sent = False\n",
        (f"{_FAULTS}::test_an_unsure_creation_is_taken_back",),
    ),
    Mutant(
        "ZooKeeper's try for a semaphore mutex stays at the gate",
        "what does not wait leaves nothing behind",
        _SEMAPHORES,
        "        if not wish.waits:\n"
        "            await self.delete(session, key, False, deadline)\n"
        "            return Busy(None)\n"
        "        return await self._watch",
        "        if not wish.waits:\n            return Busy(None)\n"
        "        return await self._watch",
        (f"{_SEMAPHORE_TESTS}::test_a_try_that_is_asked_again_leaves_the_gate",),
    ),
    Mutant(
        "ZooKeeper's semaphore mutexes watch an old connection",
        "a release is noticed after a reconnection",
        _SEMAPHORES,
        "if lease_node.watched == session.connections:",
        "if lease_node.watched is not None:",
        (f"{_FAULTS}::test_a_watch_is_set_again_on_a_new_connection",),
    ),
    Mutant(
        "ZooKeeper's readers wait for readers",
        "readers hold it together",
        _NAMES,
        'if kind == "read":\n        writes',
        'if kind == "read" and within:\n        writes',
        (f"{_NAMES_TESTS}::test_a_reader_waits_for_the_last_write_before_it",),
    ),
)
