"""Sabotages that an earlier suite let live: queues, settings, receipts, what is told and kept."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_PARTIAL = "tests/lifecycle/test_partial_changes.py"
_SECRETS = "tests/lifecycle/test_passwords_kept_secret.py"
_EDGES = "tests/lifecycle/test_watchdog_edges.py"
_REFUSED = "tests/lifecycle/test_refused.py"

ENDS = (
    Mutant(
        "what was busy for two is busy for one",
        "a client that waits for units stands in the queue under the number that it wants",
        "redisson_py/semaphores/_queue.py",
        "            or self.joined_as != name\n",
        "",
        ("tests/crowd/test_units.py::test_who_left_under_another_name_asks_again_to_come_back",),
    ),
    Mutant(
        "a fair waiter says once a lease that it lives",
        "a living waiter keeps its place",
        "redisson_py/_redis/commands/lock.py",
        "stay_alive = self.alive / 3",
        "stay_alive = self.alive",
        (f"{_PARTIAL}::test_a_live_waiter_keeps_its_position_when_others_ask_later_than_a_lease",),
    ),
    Mutant(
        "an argument of the URL that does not exist is named",
        "no error tells a password",
        "redisson_py/_redis/url_arguments.py",
        '"the URL has an unknown argument; known are"',
        'f"the URL has an unknown argument: {name}; known are"',
        ("tests/lifecycle/test_passwords_kept_secret.py::test_a_url_that_is_refused",),
    ),
    Mutant(
        "TLS of any version",
        "TLS below 1.2 is not spoken",
        "redisson_py/_redis/redis_py.py",
        'settings["ssl_min_version"] = ssl.TLSVersion.TLSv1_2',
        "pass",
        (f"{_SECRETS}::test_tls_below_1_2_is_not_spoken_whatever_the_system_allows",),
    ),
    Mutant(
        "a receipt's caller is freed when its call is cancelled",
        "calls that are refused with BUSY and cancelled all count",
        "redisson_py/_redis/receipts.py",
        "        reply = await self._context.executor.answer(call)\n",
        "        try:\n"
        "            reply = await self._context.executor.answer(call)\n"
        "        except BaseException:\n"
        "            self._free.append(caller)\n"
        "            raise\n",
        ("tests/faults/test_lost_replies_latch_barrier.py",),
    ),
    Mutant(
        "permits released without an answer are watched",
        "what was given back is not renewed",
        "redisson_py/semaphores/permit_expirable_semaphore.py",
        "            if released:\n                self._ownership.released_by_id(hold)\n",
        "",
        (f"{_EDGES}::test_permits_released_without_an_answer_are_not_renewed",),
    ),
    Mutant(
        "a refused request is not undone, whatever became of the copy before it",
        "what nobody holds is not taken for a whole lease",
        "redisson_py/_engine/request.py",
        "queues or self.maybe_repeated",
        "queues",
        (_REFUSED,),
    ),
    Mutant(
        "a refused extension has changed nothing, whatever became of the copy before it",
        "a holder does not rely on a lease that Redis ends sooner",
        "redisson_py/_engine/hold.py",
        "if call.uncertain or not isinstance(error, RefusedError):",
        "if not isinstance(error, RefusedError):",
        (f"{_REFUSED}::test_a_shorter_lease_counts_although_its_repetition_is_refused",),
    ),
    Mutant(
        "the client's description lives for one lease",
        "a holder that cannot describe itself for a lease or two is still known",
        "redisson_py/_redis/connections.py",
        "milliseconds(3 * max(lease_time, SAFETY_POLL_SECONDS))",
        "milliseconds(lease_time)",
        (f"{_EDGES}::test_what_a_client_says_of_itself_lives_for_three_leases",),
    ),
)
