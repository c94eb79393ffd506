"""Sabotages of what is done once, in Redis and in PostgreSQL."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_ACQUIRE = "lua/once/acquire.lua"
_COMPLETE = "lua/once/complete.lua"
_FORGET = "lua/once/forget.lua"
_ONCE = "redisson_py/locks/once.py"
_SQL = "redisson_py/_stores/postgres/once.py"
_SYNC = "redisson_py/sync/_guarding.py"
_KEYSPACE = "redisson_py/_cli/looks/keyspace.py"

_SCRIPTS = "tests/lua/test_once_scripts.py"
_TESTS = "tests/primitives/test_once.py"
_POSTGRES = "tests/stores/postgres/test_once.py"
_THREADS = "tests/sync/test_once.py"

ONCE = (
    Mutant(
        "what is done is granted again",
        "nobody runs what is done",
        _ACQUIRE,
        "if done[1] and done[2] and done[3] then",
        "if false then",
        (_SCRIPTS, _TESTS),
    ),
    Mutant(
        "who has left may run it after all",
        "an acquire that arrives after its undo grants nothing",
        _ACQUIRE,
        "elseif redis.call('EXISTS', tombstone) == 1 then",
        "elseif false then",
        (_SCRIPTS,),
    ),
    Mutant(
        "the next run has the token of the one before",
        "a later run has a greater token",
        _ACQUIRE,
        "taken = math.max(last + 1, time[1] * 1000000 + time[2])",
        "taken = math.max(last, 1)",
        (_SCRIPTS,),
    ),
    Mutant(
        "anybody may say that it is done",
        "who has lost its lease records nothing",
        _COMPLETE,
        "if redis.call('HEXISTS', lock, owner) == 0 then",
        "if false then",
        (_SCRIPTS, _TESTS),
    ),
    Mutant(
        "a second copy of a completion is another one",
        "what was recorded first stays",
        _COMPLETE,
        "if redis.call('EXISTS', receipt) == 1 then",
        "if false then",
        (_SCRIPTS,),
    ),
    Mutant(
        "those that wait do not hear that it is done",
        "all that wait hear that it is done",
        _COMPLETE,
        "redis.call('PUBLISH', channel, '1')",
        "redis.call('EXISTS', lock)",
        (_SCRIPTS,),
    ),
    Mutant(
        "it is done for ever",
        "it is done for as long as `keep` says",
        _COMPLETE,
        "redis.pcall('PEXPIRE', record, string.format('%.0f', keep_ms))",
        "redis.pcall('PTTL', record)",
        (_SCRIPTS,),
    ),
    Mutant(
        "a second copy forgets a later result",
        "a request that arrives late forgets nothing",
        _FORGET,
        "if seen then",
        "if false then",
        (_SCRIPTS,),
    ),
    Mutant(
        "a block completes it twice",
        "a block completes it once",
        _ONCE,
        "if self._result is not None and not self._in_transaction:",
        "if False:",
        (_TESTS,),
    ),
    Mutant(
        "after its completion others wait for the end of the block",
        "what follows `complete` keeps nobody waiting",
        _ONCE,
        "        if connection is None:\n            await self._leave()",
        "        if connection is None:\n            pass",
        (_TESTS,),
    ),
    Mutant(
        "in PostgreSQL anybody may say that it is done",
        "who has lost its lease records nothing",
        _SQL,
        "WHERE id {_EQ} {_ID} AND owner {_EQ} {_OWNER} AND token {_EQ} {_TOKEN}\n"
        "        AND expires",
        "WHERE id {_EQ} {_ID}\n        AND expires",
        (_POSTGRES,),
    ),
    Mutant(
        "in PostgreSQL others may run it before the transaction has ended",
        "who completes it in a transaction keeps others out until that has ended",
        _SQL,
        "    FOR KEY SHARE\n",
        "",
        (_POSTGRES,),
    ),
    Mutant(
        "in PostgreSQL a second copy of a completion is another one",
        "what was recorded first stays",
        _SQL,
        "result = CASE WHEN {_SAME} THEN t.result ELSE excluded.result END",
        "result = excluded.result",
        (_POSTGRES,),
    ),
    Mutant(
        "in PostgreSQL what was forgotten is done again by a late copy",
        "a request that arrives late changes nothing",
        _SQL,
        "expires = CASE WHEN {_SAME} THEN t.expires ELSE excluded.expires END",
        "expires = excluded.expires",
        (_POSTGRES,),
    ),
    Mutant(
        "a thread records before it knows of a transaction",
        "outside of a transaction nothing is recorded",
        _SYNC,
        "        first, *others = statements\n",
        "        *others, first = statements\n",
        (_THREADS,),
    ),
    Mutant(
        "a thread in a transaction records nothing",
        "what is completed in a transaction is committed with it",
        _SYNC,
        "        for each in others:\n",
        "        row = (None, None) if others else row\n        for each in ():\n",
        (_THREADS,),
    ),
    Mutant(
        "a thread does not know what it has completed in a transaction",
        "`once.done` says that it is done",
        _SYNC,
        "    once._call(lambda own: _recorded(own, row, result))\n",
        "",
        (_THREADS,),
    ),
    Mutant(
        "each tombstone of a run is looked at by `locks`",
        "who has left costs those that look nothing",
        _KEYSPACE,
        'return None if _REDISSON_PY in tagged else Resource(name, "once")',
        'return Resource(name, "once")',
        ("tests/cli/test_keyspace.py",),
    ),
    Mutant(
        "a name in braces shares the lock of the name within them",
        "no two names share a lock",
        "redisson_py/_keys.py",
        'b"redisson_py:once:" if b"{" in key else b"redisson_py:once"',
        'b"redisson_py:once"',
        ("tests/primitives/test_once.py",),
    ),
    Mutant(
        "the record of a name has the key of another's lock",
        "a name from outside reaches no record of another",
        "redisson_py/_keys.py",
        'return prefixed(b"redisson_py:record", lock)',
        'return suffixed(lock.replace(b"once::", b"once:"), b"record")',
        ("tests/primitives/test_once.py",),
    ),
)
