"""Sabotages of the queue of clients."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ACQUIRE = "lua/lock/acquire.lua"
_CALL_NEXT = "lua/lib/call_next.lua"
_LOCAL_QUEUE = "redisson_py/_engine/local_queue.py"
_MAY_TAKE = "lua/lib/may_take.lua"
_QUEUE = "redisson_py/_engine/client_queue.py"
_REQUEST = "redisson_py/_engine/request.py"
_TASK_OWNERSHIP = "redisson_py/_engine/task_ownership.py"
_CALL_UNITS = "lua/lib/call_units.lua"
_UNIT_REQUEST = "redisson_py/semaphores/_queue.py"

_BESIDE = "tests/crowd/test_beside_the_queue.py"
_LEAVING = "tests/crowd/test_leaving.py"
_STOPPED = "tests/crowd/test_stopped_and_killed.py"
_UNITS = "tests/lua/test_unit_queue.py"
_WALKS = "tests/lua/test_unit_queue_walks.py"
_WAITERS = f"{_STOPPED}::test_stopped_waiters_are_passed_over"

CLIENT_QUEUE = (
    Mutant(
        "a client that was called is waited for without end",
        "a client that stands still keeps nobody waiting",
        _MAY_TAKE,
        "math.abs(present - called) > 50000",
        "false",
        (_WAITERS,),
    ),
    Mutant(
        "a client that was called in the future is waited for",
        "a clock that goes back keeps nobody waiting",
        _MAY_TAKE,
        "math.abs(present - called)",
        "present - called",
        (_BESIDE,),
    ),
    Mutant(
        "any grant counts as one that took its client out of the queue",
        "who stops waiting leaves the queue",
        _TASK_OWNERSHIP,
        "if request.has_queued and queue is not None:",
        "if queue is not None and not self.once:",
        (f"{_LEAVING}::test_who_asks_when_its_time_is_up_leaves_no_entry",),
    ),
    Mutant(
        "who cannot stand in the queue has no chance",
        "a crowd does not starve a red lock",
        _MAY_TAKE,
        "yields == '-1' and",
        "false and",
        (_BESIDE,),
    ),
    Mutant(
        "whoever becomes the second by a grant does not hear of it",
        "a second client that stands still keeps nobody waiting",
        _ACQUIRE,
        "    redis.call('PUBLISH', own, '2')\n",
        "",
        (_WAITERS,),
    ),
    Mutant(
        "whoever becomes the second by a call does not hear of it",
        "dead clients and one that stands still keep nobody waiting",
        _CALL_NEXT,
        "local second = next_one and next_one ~= client and (i > 1 or dead[1])"
        " and front(clients)[2]",
        "local second = nil",
        (f"{_STOPPED}::test_clients_of_a_killed_process_are_no_burden",),
    ),
    Mutant(
        "the second client does not look",
        "a second client that stands still keeps nobody waiting",
        _QUEUE,
        "        self._look_at = loop_time() + WATCH_DELAY_SECONDS\n        self.rouse()\n",
        "        self.rouse()\n",
        (_WAITERS,),
    ),
    Mutant(
        "a client never leaves the queue",
        "who gives up leaves nothing behind",
        _LOCAL_QUEUE,
        "        if leave is not None:\n            leave(closing=closing)\n",
        "",
        (_LEAVING,),
    ),
    Mutant(
        "a client that is closed stays in the queue",
        "a closed client leaves nothing behind",
        _LOCAL_QUEUE,
        "        self.end_watch()\n        self._leave_clients(closing=True)\n",
        "        self.end_watch()\n",
        (_LEAVING,),
    ),
    Mutant(
        "a client joins the queue before it listens",
        "who does not wait is not in the queue",
        _REQUEST,
        '        self.client: bytes = b""\n',
        "        clients = ownership.commands.clients\n"
        "        client_id = ownership.context.owners.client_id\n"
        '        self.client: bytes = clients.member(client_id) if clients else b""\n',
        (_BESIDE,),
    ),
    Mutant(
        "a client that was called for units is waited for without end",
        "a client that stands still keeps no units",
        _CALL_UNITS,
        "math.abs(age) > 50000",
        "false",
        (_UNITS,),
    ),
    Mutant(
        "what a called client wants is not reserved",
        "a newcomer does not take what others were called for",
        _CALL_UNITS,
        "left, fresh, oldest = left - wanted_units(member), fresh + 1",
        "left, fresh, oldest = left, fresh + 1",
        (_UNITS,),
    ),
    Mutant(
        "one unit is reserved for whoever was called",
        "a newcomer does not take what others were called for",
        "lua/lib/wanted_units.lua",
        "string.match(client, ':(%d+)$') or '1'",
        "'1'",
        (_UNITS,),
    ),
    Mutant(
        "who becomes one of the first two that were not called does not hear of it",
        "clients that stand still keep nobody waiting",
        _CALL_UNITS,
        "i < 3 and stay[i] and at[i] > 2",
        "i < 3 and stay[i] and at[i] > 9",
        (_UNITS,),
    ),
    Mutant(
        "units never gather",
        "who wants many permits comes too",
        _CALL_UNITS,
        "waited % 100000 < 20000",
        "waited % 100000 < 0",
        (_UNITS,),
    ),
    Mutant(
        "units gather without end",
        "units do not lie idle because the first wants many",
        _CALL_UNITS,
        "waited % 100000 < 20000",
        "waited % 100000 < 100000",
        (_UNITS,),
    ),
    Mutant(
        "who asks calls nobody else",
        "units that come back at once go to all that wait",
        "lua/semaphore/acquire.lua",
        "keep_calls(clients, work)\n",
        "",
        (_WALKS,),
    ),
    Mutant(
        "who gives up calls nobody for the units it was called for",
        "units do not lie idle because one gives up",
        "lua/client_queue/leave_units.lua",
        "keep_calls(clients, work)\n",
        "",
        ("tests/lua/test_unit_queue_leaving.py",),
    ),
    Mutant(
        "the name of a client that wants many units is that of one that wants one",
        "a client waits under the name that says what it wants",
        _UNIT_REQUEST,
        "self._permits.commands.clients_for(self.target)",
        "self._permits.commands.clients",
        ("tests/crowd/test_units.py",),
    ),
)
