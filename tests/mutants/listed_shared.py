"""Sabotages of the read-write lock and the semaphore of PostgreSQL."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_SQL = "redisson_py/_stores/postgres/shared_sql.py"
_STORE = "redisson_py/_stores/postgres/shared.py"
_LISTENING = "redisson_py/_stores/postgres/listening.py"
_SEMAPHORE = "redisson_py/_stores/semaphore.py"
_TABLE = "redisson_py/_stores/postgres/table.py"
_UNIT_REQUEST = "redisson_py/semaphores/_queue.py"

_TESTS = "tests/stores/postgres/test_shared.py"

SHARED = (
    Mutant(
        "a reader overtakes a writer that waits",
        "readers do not starve a writer",
        _SQL,
        """                    AND NOT EXISTS (SELECT FROM ahead WHERE {_is("mode", "w")})""",
        "",
        (
            "tests/stores/test_read_write.py::test_a_reader_behind_a_waiting_writer_waits",
            "tests/stores/postgres/test_shared_record.py::test_few_among_many_do_not_starve[w]",
        ),
    ),
    Mutant(
        "who wants few permits overtakes who wants many",
        "clients are served in order, also those that want many",
        _SQL,
        "{_MINUS} coalesce((SELECT pg_catalog.sum(units) FROM ahead), 0))",
        ")",
        (f"{_TESTS}::test_one_who_wants_many_is_not_overtaken",),
    ),
    Mutant(
        "nobody is called",
        "a waiter sleeps until it is called",
        _SQL,
        "SELECT key, station, owner FROM judged WHERE free AND called IS NULL",
        "SELECT key, station, owner FROM judged WHERE false",
        (f"{_TESTS}::test_only_those_that_may_go_on_are_called",),
    ),
    Mutant(
        "a waiter that was called in vain blocks the others",
        "dead waiters are passed over",
        _SQL,
        """        AND (called IS NULL OR called {_GT} {_NOW})
), verdict""",
        """), verdict""",
        (f"{_TESTS}::test_dead_waiters_are_passed_over",),
    ),
    Mutant(
        "the first that may not go on does not look after the others",
        "a writer behind dead readers goes on",
        _SQL,
        'CASE WHEN EXISTS (SELECT FROM calling) THEN {_tell("watcher", queue.WATCH)} END',
        "NULL",
        (f"{_TESTS}::test_only_those_that_may_go_on_are_called",),
    ),
    Mutant(
        "holds never end by the clock",
        "the permits of a dead holder return within one lease",
        _SQL,
        """    FROM found, pg_catalog.jsonb_each(found.holds) AS each
    WHERE {_number("each.value", "e")} {_GT} {_NOW}
), wait""",
        """    FROM found, pg_catalog.jsonb_each(found.holds) AS each
), wait""",
        (f"{_TESTS}::test_the_end_of_a_dead_holders_lease_is_enough",),
    ),
    Mutant(
        "a change that is sent twice is carried out twice",
        "a lost reply adds no permits",
        _SQL,
        "found.receipts {_HAS_KEY} $2::pg_catalog.text AS done",
        "false AS done",
        (f"{_TESTS}::test_a_change_of_the_number_is_carried_out_once",),
    ),
    Mutant(
        "a waiter for what is shared that gave up is granted late",
        "what arrives behind its undo is refused",
        _STORE,
        "refuse, repeated = unsure or owner in self._repeated, False",
        "refuse, repeated = False, False",
        (f"{_TESTS}::test_an_ask_behind_its_undo_is_refused",),
    ),
    Mutant(
        "a forced release that comes late ends any hold of its owner",
        "it ends the hold that was seen",
        _SQL,
        "WHERE pg_catalog.concat(owner, ' ', token)",
        "WHERE pg_catalog.concat(owner, pg_catalog.substr($2::pg_catalog.text[] [1], 4))",
        (f"{_TESTS}::test_a_forced_release_that_comes_late_ends_no_later_hold",),
    ),
    Mutant(
        "rows are renewed in the order in which they are named",
        "two clients do not wait for each other",
        _SQL,
        " ORDER BY t.id FOR NO KEY UPDATE",
        " ORDER BY t.id DESC FOR NO KEY UPDATE",
        (f"{_TESTS}::test_rows_are_renewed_in_one_order",),
    ),
    Mutant(
        "a watch rings for nobody by name",
        "who looks after the others is rung for alone",
        _LISTENING,
        "self._ring(waited, owner, 2)",
        "self._ring(waited, None, 2)",
        (f"{_TESTS}::test_only_those_that_may_go_on_are_called",),
    ),
    Mutant(
        "busy after a lost answer counts as no answer",
        "a waiter whose first answer was lost waits on",
        _STORE,
        "return replace(answer, unsure=True)",
        "raise self._last_failure.lost_answer()",
        (f"{_TESTS}::test_busy_after_a_lost_answer_is_busy",),
    ),
    Mutant(
        "busy after a lost answer leaves what that granted",
        "nothing is held for a caller that gave up",
        _STORE,
        "return replace(answer, unsure=True)",
        "return answer",
        (f"{_TESTS}::test_busy_after_a_lost_answer_is_busy",),
    ),
    Mutant(
        "a permit that was passed leaves the wait behind",
        "nothing of a waiter that got a permit here remains on the server",
        _UNIT_REQUEST,
        "                self.leave_server()\n                return PASSED",
        "                return PASSED",
        (
            "tests/stores/test_cancellation_sweep.py::test_sweep"
            "[semaphore_in_postgres-acquire_passed_from_another_task]",
        ),
    ),
    Mutant(
        "a writer of PostgreSQL is let in beside readers",
        "nobody is let in who must not, under attack",
        _SQL,
        "NOT EXISTS (SELECT FROM hold) AND NOT EXISTS (SELECT FROM ahead)",
        "NOT EXISTS (SELECT FROM ahead)",
        (
            "tests/stores/postgres/test_shared_record.py"
            "::test_killed_connections_lost_replies_and_restarts",
        ),
    ),
    Mutant(
        "one who waits is not told that there is no such semaphore",
        "a timeout on a semaphore that was never given permits says so",
        _STORE,
        "return replace(answer, retry_in=retry_in)",
        "return Busy(retry_in)",
        ("tests/sync/test_stores_own.py::test_a_semaphore",),
    ),
    Mutant(
        "a client does not ask whether the store has its number of permits",
        "another number than the code says is logged once",
        _SEMAPHORE,
        "compares = request.compares and permits is not None",
        "compares = False",
        (f"{_TESTS}::test_another_number_than_asked_is_said_once[acquire-2]",),
    ),
    Mutant(
        "who is granted permits is not told that their number is another one",
        "another number than the code says is logged once",
        _SQL,
        "NOT me.refused AND NOT me.disagrees AND coalesce(",
        "NOT me.refused AND coalesce(",
        (f"{_TESTS}::test_another_number_than_asked_is_said_once[acquire-2]",),
    ),
    Mutant(
        "who changed the number of permits is warned of it",
        "a client that has changed the number itself is not warned",
        _SEMAPHORE,
        'self.permit_queue.number_known |= verb in ("set", "add", "drain")',
        "self.permit_queue.number_known |= False",
        (f"{_TESTS}::test_who_names_no_number_or_changed_it_is_not_warned",),
    ),
    Mutant(
        "a table that is made later is looked for along the search_path",
        "all tables are beside that of locks",
        _TABLE,
        "await prepare_table(connections, _quoted(schema), where, deadline, table)",
        "await prepare_table(connections, None, where, deadline, table)",
        ("tests/stores/postgres/test_rights.py::test_all_tables_are_beside_that_of_locks",),
    ),
)
