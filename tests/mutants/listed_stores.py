"""Sabotages of locks in other stores, and of what carries requests to them."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CARRIER = "redisson_py/_stores/carrier.py"
_ETCD = "redisson_py/_stores/etcd/store.py"
_ETCD_QUEUE = "redisson_py/_stores/etcd/queue.py"
_MYSQL = "redisson_py/_stores/mysql/store.py"
_MYSQL_POLLING = "redisson_py/_stores/mysql/polling.py"
_MYSQL_QUEUE = "redisson_py/_stores/mysql/queue.py"
_MYSQL_SQL = "redisson_py/_stores/mysql/sql.py"
_POSTGRES = "redisson_py/_stores/postgres/store.py"
_POSTGRES_SQL = "redisson_py/_stores/postgres/sql.py"

_CARRIED = "tests/unit/test_carrier.py"
_CANCELLATION = "tests/contract/test_cancellation.py"
_LATE = "tests/stores/test_late_requests.py"
_ETCD_TESTS = "tests/stores/etcd/test_store.py"
_ETCD_TRAPS = "tests/stores/etcd/test_traps.py"
_DATABASES = "tests/stores/test_databases.py"
_DATABASE_FAULTS = "tests/stores/test_database_faults.py"
_GUARD = "tests/stores/postgres/test_guard.py"
_MYSQL_CROWD = "tests/stores/mysql/test_crowd.py"
_MYSQL_FAULTS = "tests/stores/mysql/test_faults.py"
_MYSQL_QUEUE_TESTS = "tests/stores/mysql/test_queue.py"
_POLLING_TESTS = "tests/stores/mysql/test_polling.py"
_ODD = "tests/stores/test_odd_answers.py"
_POSTGRES_FAULTS = "tests/stores/postgres/test_faults.py"
_SYNC_GUARD = "tests/sync/test_guard.py"
_SYNC_GUARDING = "redisson_py/sync/_guarding.py"
_WAITING = "tests/stores/postgres/test_waiting.py"

STORES = (
    Mutant(
        "what was perhaps granted is not given back",
        "a cancelled acquire leaves nothing in a store",
        _CARRIER,
        "queue is not None and not (queue.kept or queue.unsure):",
        "queue is not None:",
        (f"{_CANCELLATION}::test_waiter_for_another_client_leaves_nothing",),
    ),
    Mutant(
        "a release that failed oddly is not repeated",
        "what must arrive is asked for again",
        _CARRIER,
        "if not call.must or left <= 0 or self._closing:",
        "if True:",
        (f"{_ODD}::test_a_release_behind_odd_errors_arrives",),
    ),
    Mutant(
        "a ring leaves the last answer",
        "a store that rings is asked again",
        _CARRIER,
        "                queue.busy = None\n                queue.rings += 1",
        "                queue.rings += 1",
        (_CARRIED,),
    ),
    Mutant(
        "all that wait for a name are rung for",
        "a waiter is rung for alone",
        "redisson_py/_stores/client.py",
        'self._context.bus.table.wake_first(own_channel(owner or ""), name.encode())',
        "self._context.bus.table.wake_all()",
        ("tests/stores/test_ringing.py",),
    ),
    Mutant(
        "nobody is rung for",
        "a release wakes those that wait",
        _POSTGRES_SQL,
        'CASE WHEN calls THEN {queue.tell("waiters[1]", queue.ASK_NOW)}',
        "CASE WHEN calls THEN NULL",
        (f"{_WAITING}::test_a_release_rings_for_those_that_wait",),
    ),
    Mutant(
        "a message for nobody",
        "NOTIFY is sent only if somebody waits",
        _POSTGRES_SQL,
        "    CASE WHEN {_RINGS_ALL} THEN {_NOTIFY}{_CHANNEL}, '') END,\n",
        "    {_NOTIFY}{_CHANNEL}, ''),\n",
        (f"{_WAITING}::test_a_message_is_sent_only_if_somebody_waits",),
    ),
    Mutant(
        "a plain release passes over the queue",
        "a release calls the first waiter",
        _POSTGRES_SQL,
        "refused IS NULL\n    AND waiting_until IS NULL",
        "true",
        (f"{_WAITING}::test_a_release_rings_for_those_that_wait",),
    ),
    Mutant(
        "a plain request passes over the queue",
        "a free name is kept for the waiter that was called",
        _POSTGRES_SQL,
        "{_IS_FREE} AND refused IS NULL",
        "{_IS_FREE}",
        ("tests/stores/postgres/test_plain.py",),
    ),
    Mutant(
        "a guard of an expired lease",
        "a lease that is over guards nothing",
        _POSTGRES_SQL,
        "\n    AND expires {_GT} pg_catalog.clock_timestamp()",
        "",
        (f"{_GUARD}::test_a_lease_that_has_ended_is_not_guarded",),
    ),
    Mutant(
        "a guard that any holder passes",
        "a guard is for one hold",
        _POSTGRES_SQL,
        "AND owner {_EQ} $2::pg_catalog.text AND token {_EQ} $3::pg_catalog.int8",
        "AND ($2::pg_catalog.text, $3::pg_catalog.int8) IS NOT NULL",
        (f"{_GUARD}::test_a_guard_knows_owner_and_token",),
    ),
    Mutant(
        "an owner that gave up is granted late",
        "a late request is refused behind its undo",
        _POSTGRES_SQL,
        " AND NOT {_IS_REFUSED}\n",
        "\n",
        (f"{_POSTGRES_FAULTS}::test_a_refused_owner_stays_refused_and_no_other",),
    ),
    Mutant(
        "tokens of the next holder overlap",
        "tokens grow by what was taken",
        _POSTGRES_SQL,
        "greatest(t.token {_PLUS} t.tokens, {_microseconds(_EPOCH)})",
        "t.token {_PLUS} 1",
        (f"{_DATABASES}::test_tokens_grow_by_what_was_taken",),
    ),
    Mutant(
        "a release that nobody remembers",
        "a release that is asked for twice answers the same",
        _POSTGRES_SQL,
        "WHERE id {_EQ} {_ID} AND freed_by {_EQ} {_OWNER} AND NOT EXISTS (SELECT FROM freed)",
        "WHERE false AND id {_EQ} {_ID} AND freed_by {_EQ} {_OWNER}",
        (f"{_DATABASES}::test_giving_back_twice_answers_the_same",),
    ),
    Mutant(
        "a repeated question leaves no tombstone",
        "a lost question may be carried out late",
        _POSTGRES,
        "if unsure or owner in self._repeated:",
        "if unsure:",
        (f"{_DATABASE_FAULTS}::test_a_grant_whose_reply_is_lost_is_found_again",),
    ),
    Mutant(
        "a waiter that does not look again once it listens",
        "no release falls between the question and LISTEN",
        _POSTGRES,
        "answer = await self._ask(wish, deadline, station=station, barges=not heard)",
        "pass",
        (f"{_WAITING}::test_a_release_that_a_waiter_does_not_see_rings", _WAITING),
    ),
    Mutant(
        "MySQL's expired holds stay",
        "a lease that has ended frees the name",
        _MYSQL_SQL,
        '_IS_FREE = f"expires <= {_NOW} AND',
        '_IS_FREE = f"expires = 0 AND',
        (f"{_DATABASES}::test_a_lease_ends_by_the_clock_of_the_server",),
    ),
    Mutant(
        "MySQL's late requests are granted",
        "a late request is refused behind its undo",
        _MYSQL_SQL,
        "AND COALESCE(LOCATE({{entry}}, refused), 0) = 0",
        "",
        (f"{_MYSQL_FAULTS}::test_a_late_request_is_refused_after_an_unsure_release",),
    ),
    Mutant(
        "MySQL renews what another holds",
        "a renewal of another hold changes nothing",
        _MYSQL_SQL,
        'WHERE id IN ({{ids}}) AND (id, owner, token) IN ({{holds}}) AND expires > {_NOW}"""\n\n'
        "_SET_LEASE",
        'WHERE id IN ({{ids}}) AND expires > {_NOW}"""\n\n_SET_LEASE',
        (f"{_DATABASES}::test_a_renewal_of_another_hold_changes_nothing",),
    ),
    Mutant(
        "MySQL sets an exact lease whatever the present one is",
        "an extension that arrives late undoes no newer one",
        _MYSQL_SQL,
        "  AND expires = {{end}} AND expires > {_NOW}",
        "  AND {{end}} AND expires > {_NOW}",
        (_LATE,),
    ),
    Mutant(
        "PostgreSQL sets an exact lease whatever the present one is",
        "an extension that arrives late undoes no newer one",
        _POSTGRES_SQL,
        " AND {_END} {_EQ} coalesce(entry.seen, {_END})",
        "",
        (_LATE,),
    ),
    Mutant(
        "MySQL's forced release ends whatever is there",
        "a forced release that comes late ends no later hold",
        _MYSQL_SQL,
        "WHERE id = {{id}} AND token = {{token}} AND owner = {{owner}}",
        "WHERE id = {{id}} AND {{token}} > 0 OR owner = {{owner}}",
        (f"{_LATE}::test_a_forced_release_that_comes_late_ends_no_later_hold",),
    ),
    Mutant(
        "MySQL's polls grow without end",
        "a waiter polls at its longest interval at least",
        _MYSQL_POLLING,
        "min(max(interval, _SHORTEST_POLL), self._longest)",
        "max(interval, _SHORTEST_POLL)",
        (_POLLING_TESTS,),
    ),
    Mutant(
        "MySQL's free names go to whoever comes first",
        "clients are served in the order of arrival",
        _MYSQL_SQL,
        "AND {{reserved}} = 0",
        "",
        (f"{_MYSQL_CROWD}::test_first_come_first_served",),
    ),
    Mutant(
        "MySQL's short ask does not see the queue",
        "clients are served in the order of arrival",
        _MYSQL_SQL,
        '_IS_FREE = f"expires <= {_NOW} AND {{is_open}}"',
        '_IS_FREE = f"expires <= {_NOW}"',
        (f"{_MYSQL_CROWD}::test_first_come_first_served",),
    ),
    Mutant(
        "MySQL's newcomers always go first",
        "whoever has waited as the first for 20 ms goes first",
        _MYSQL_QUEUE,
        "{_OPEN_FOR} > 0 AND {mine} = 0",
        "{mine} = 0",
        (f"{_MYSQL_QUEUE_TESTS}::test_one_that_comes_goes_first_for_20_ms",),
    ),
    Mutant(
        "MySQL's waiters leave their place in the queue by taking the name out of turn",
        "who holds is not in the queue",
        _MYSQL_QUEUE,
        "{_OPEN_FOR} > 0 AND {mine} = 0",
        "{_OPEN_FOR} > 0",
        (f"{_MYSQL_QUEUE_TESTS}::test_one_that_comes_goes_first_for_20_ms",),
    ),
    Mutant(
        "MySQL's waiters wait for a row that others write",
        "many that come at once are served",
        _MYSQL,
        "query, unless = sql.unless_locked(wish.name, query), _LOCKED",
        "unless = ()",
        (f"{_MYSQL_CROWD}::test_one_that_is_not_next_does_not_wait_for_the_row",),
    ),
    Mutant(
        "MySQL keeps free names for the dead",
        "a silent waiter stands in nobody's way",
        _MYSQL_QUEUE,
        "{_HAS_FIRST} AND {_FIRST_UNTIL} > {NOW} AND {_at(owner)} <> {_STAMP + 1}, 0)",
        "{_HAS_FIRST} AND {_at(owner)} <> {_STAMP + 1}, 0)",
        (f"{_MYSQL_QUEUE_TESTS}::test_a_free_name_is_kept_for_the_first_as_long_as_it_says",),
    ),
    Mutant(
        "MySQL's tombstones go while somebody waits",
        "a late request is refused behind its undo",
        _MYSQL_QUEUE,
        "CONCAT({QUEUE}, {_SINCE_MARK}, ",
        "CONCAT({QUEUE}, ",
        (f"{_MYSQL_QUEUE_TESTS}::test_tombstones_stay_for_a_minute_and_not_for_ever",),
    ),
    Mutant(
        "MySQL's polls do not see that it is their turn",
        "a waiter takes what is free for it",
        _MYSQL_QUEUE,
        'f"expires <= {NOW} AND COALESCE({kept}, 0) = 0 OR ',
        'f"',
        (f"{_MYSQL_QUEUE_TESTS}::test_a_poll_says_whether_to_ask",),
    ),
    Mutant(
        "MySQL's waiters that leave stay in the queue",
        "a wait that ends leaves nothing",
        _MYSQL,
        "await self._run(sql.leave(name, owner), deadline, _RELEASE)",
        "pass",
        (f"{_MYSQL_CROWD}::test_who_leaves_leaves_no_entry",),
    ),
    Mutant(
        "etcd's late release deletes a newer hold",
        "a key is deleted by its own owner only",
        _ETCD_QUEUE,
        "[claim.is_there(value)],",
        "[],",
        (f"{_ETCD_TRAPS}::test_a_late_release_leaves_a_newer_hold_alone", _ETCD_TRAPS),
    ),
    Mutant(
        "etcd's undone owners may enter",
        "an undo refuses its question if that comes later",
        _ETCD_QUEUE,
        "[*claim.conditions, messages.created(undone, 0), *free],",
        "[*claim.conditions, *free],",
        (f"{_ETCD_TRAPS}::test_an_undo_refuses_its_question_if_it_comes_later", _ETCD_TRAPS),
    ),
    Mutant(
        "etcd's waiters watch nothing",
        "a waiter is woken when the one before it leaves",
        _ETCD,
        "self._watches.watch(waiter, position.ahead.key, position.at + 1)",
        "pass",
        (f"{_ETCD_TESTS}::test_waiters_ring_in_their_order",),
    ),
    Mutant(
        "etcd's busy caller stays in the queue",
        "what does not wait leaves nothing behind",
        _ETCD,
        "                elif not if_free or holds.may_have(waiter):\n"
        "                    await telling(holds.give_back(waiter, False, deadline), entered)\n",
        "",
        (f"{_ETCD_TESTS}::test_a_caller_that_is_overtaken_leaves_nothing",),
    ),
    Mutant(
        "a guard outside of a transaction",
        "a guard that protects nothing is refused",
        _SYNC_GUARDING,
        "if _find(cursor, _IN_TRANSACTION, call=call) is None:",
        "if False:",
        (f"{_SYNC_GUARD}::test_outside_of_a_transaction_it_is_refused",),
    ),
    Mutant(
        "a guard in a thread that any lease passes",
        "a holder that lost its lease writes nothing",
        _SYNC_GUARDING,
        'if asking is None or _ask(connection, [asking], "guard") is None:',
        'if asking is None or _ask(connection, [asking], "guard") is asking:',
        (f"{_SYNC_GUARD}::test_a_lease_that_is_gone_is_not_guarded",),
    ),
    Mutant(
        "a guarded hold is passed on",
        "behind a release nobody gets the lock before the commit",
        "redisson_py/postgres.py",
        "        hold.guard()\n",
        "",
        (f"{_SYNC_GUARD}::test_a_release_before_the_commit_lets_nobody_in",),
    ),
)
