"""Sabotages of handing a lease to another process."""

from __future__ import annotations

from tests.mutants.mutant import Attack, Mutant

_BOTH_HALVES = "redisson_py/_engine/handing_over.py"
_TEXT = "redisson_py/_engine/handed_over.py"
_ADOPT = "lua/lock/adopt.lua"

_SCRIPTS = "tests/lua/test_handing_over_scripts.py"
_LOCKS = "tests/primitives/test_handing_over.py"

HANDING_OVER = (
    Mutant(
        "the giver's hold stays beside the adopter's",
        "at most one owner",
        _ADOPT,
        "redis.call('HDEL', lock, giver)\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "two adopters have one hold",
        "each hold is adopted at most once",
        _ADOPT,
        "redis.call('SET', adopted, owner, 'PX', string.format('%.0f', adopted_ms))\n"
        "redis.call('HINCRBY', lock, owner, 1)\n"
        "redis.call('HDEL', lock, giver)\n",
        "redis.call('HINCRBY', lock, owner, 1)\n",
        (_SCRIPTS,),
        jepsen=Attack("adoption", "adopted", seconds=3),
    ),
    Mutant(
        "nothing says that a hold was adopted",
        "a second adopter is told so, and a late acquire of the giver is refused",
        _ADOPT,
        "redis.call('SET', adopted, owner, 'PX', string.format('%.0f', adopted_ms))\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "an undone adoption is carried out when it arrives",
        "a cancelled adopter holds nothing",
        _ADOPT,
        "redis.call('EXISTS', tombstone) == 1",
        "redis.call('EXISTS', tombstone) == 2",
        (_SCRIPTS,),
    ),
    Mutant(
        "a hold whose acquire may arrive late is handed over without a tombstone",
        "no late acquire makes a hold that an adopter takes for the one it was given",
        "lua/lock/hand_over.lua",
        "redis.call('SET', tombstone, secret, 'PX', kept)\n",
        "",
        (_SCRIPTS,),
    ),
    Mutant(
        "who knows the owner of a hold can adopt it",
        "a hold goes to another process only if it was handed over",
        _ADOPT,
        "local there = mark == secret and",
        "local there =",
        (_SCRIPTS,),
    ),
    Mutant(
        "the giver goes on renewing it",
        "the giver's lease is over once there is a token",
        _BOTH_HALVES,
        '    hold.end("released")\n',
        "",
        (_LOCKS,),
    ),
    Mutant(
        "nobody asks for the lock that the giver's tasks wait for",
        "tasks of the giver wait for the adopter's release",
        _BOTH_HALVES,
        "        if queue.waiters:\n            queue.advance()\n",
        "",
        (_LOCKS,),
    ),
    Mutant(
        "an adopter that was cancelled undoes nothing",
        "a cancelled adopter holds nothing",
        _BOTH_HALVES,
        "    except BaseException:\n        request.undo()\n",
        "    except BaseException:\n",
        (_LOCKS,),
    ),
    Mutant(
        "the adopter's hold is passed to those who came after others",
        "tasks of the adopter are served in order of arrival",
        _BOTH_HALVES,
        "not (queue.asking or queue.waiters or queue.releasing)",
        "not queue.releasing",
        (_LOCKS,),
    ),
    Mutant(
        "the adopter keeps the time that the giver left",
        "a crash frees the lock within a lease",
        _BOTH_HALVES,
        "if answer > request.lease_ms:",
        "if answer < 0:",
        (_LOCKS,),
    ),
    Mutant(
        "what happened to a hold meanwhile does not matter",
        "no token is given for a hold that is entered twice",
        _BOTH_HALVES,
        "    if (why := _hindrance(hold, lease)) is not None:\n"
        "        raise cannot(ownership, why)\n    handed",
        "    handed",
        (_LOCKS,),
    ),
    Mutant(
        "a hold whose name is to stay taken goes to another process",
        "min_hold keeps the name taken, whoever ends the hold",
        _BOTH_HALVES,
        "    if hold.taken_until > now():\n",
        "    if hold.taken_until < 0:\n",
        (_LOCKS,),
    ),
    Mutant(
        "a hold on its way looks like any other",
        "people see why a lock is taken that nobody renews",
        "redisson_py/_redis/inspecting.py",
        "len(mark) == 2 * SECRET_BYTES",
        "len(mark) == SECRET_BYTES",
        (_LOCKS,),
    ),
    Mutant(
        "a damaged token is read",
        "what was changed on the way is refused before anything is sent",
        _TEXT,
        'if zlib.crc32(written).to_bytes(4, "big") != checked[:4]:',
        "if not checked:",
        ("tests/unit/test_handed_over.py",),
    ),
)
