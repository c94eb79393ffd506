"""Sabotages of the queue of clients of a read-write lock."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CALL_SIDES = "lua/lib/call_sides.lua"
_QUEUE = "redisson_py/_engine/client_queue.py"

_SCRIPTS = "tests/lua/test_client_queue_sides.py"
_SIDES = "tests/crowd/test_read_write.py"
_STOPPED = "tests/crowd/test_stopped_and_killed.py"

READ_WRITE_QUEUE = (
    Mutant(
        "a writer that leaves calls one reader",
        "all readers that waited come together",
        _CALL_SIDES,
        "alone, readers, done = false, reads, not (told and reads)",
        "alone, readers, done = false, reads, true",
        (_SCRIPTS,),
    ),
    Mutant(
        "a reader does not bring the others",
        "all readers come when a writer's lease ends",
        "lua/lib/bring_readers.lua",
        "if not called then",
        "if false then",
        (_SCRIPTS,),
    ),
    Mutant(
        "one side that was called is waited for without end",
        "a client that stands still keeps nobody waiting",
        "lua/lib/pass_over.lua",
        "    if member ~= client then\n",
        "    if false then\n",
        (f"{_STOPPED}::test_stopped_waiters_are_passed_over",),
    ),
    Mutant(
        "a writer that goes before readers stands behind them",
        "a writer with prefer='writers' goes first",
        "lua/lib/join_sides.lua",
        "(prefers and 1500000000000000 or 0)",
        "0",
        (_SCRIPTS,),
    ),
    Mutant(
        "a writer that gave up calls nobody",
        "readers come in when the writer gives up that kept them out",
        "lua/write_lock/release.lua",
        "'02')\n  called = call_sides(clients, channel, '', true)\nend",
        "'02')\nend",
        (_SCRIPTS,),
    ),
    Mutant(
        "a reader that yields calls no writer",
        "a writer comes that was not called",
        "lua/read_lock/acquire.lua",
        "    if notes == 0 and",
        "    if false and",
        (_SCRIPTS,),
    ),
    Mutant(
        "a reader that came in leaves its client in the queue",
        "who has it does not wait",
        "lua/read_lock/acquire.lua",
        "if client ~= '' then\n  bring_readers(clients, channel, client)\nend\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "a reader that comes in wakes no other one of its client",
        "readers of one client come together",
        _QUEUE,
        "        elif not self.roused:\n            self.rouse(table)\n",
        "",
        (f"{_SIDES}::test_readers_of_one_client_come_together",),
    ),
    Mutant(
        "nobody watches for one that leaves",
        "readers of one client go on waiting when some leave",
        _QUEUE,
        "        if is_next and not together.roused:\n",
        "        if False:\n",
        (f"{_SIDES}::test_readers_of_one_client_go_on_waiting_when_some_leave",),
    ),
)
