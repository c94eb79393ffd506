"""Sabotages of the short way of the members of a composite."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_MEMBER = "redisson_py/composite/_member.py"
_GATHER = "redisson_py/composite/_gather.py"

_FAULTS = "tests/faults/test_red_lock_faults.py"
_HELD = "tests/primitives/test_red_lock_held.py"
_LATE = "tests/primitives/test_red_lock.py"
_SHORT_WAY = "tests/lifecycle/test_red_lock_members.py"

COMPOSITE = (
    Mutant(
        "a plain request to a member that was cancelled is not given back",
        "a cancelled acquire holds nothing",
        _MEMBER,
        "        self._pending.pop(self._member, None)\n        self._request.undo()",
        "        self._pending.pop(self._member, None)",
        (_SHORT_WAY, _FAULTS),
    ),
    Mutant(
        "a member's grant that was released before it came counts",
        "nothing is left of a lock that was released",
        _MEMBER,
        "        if member not in pending:\n            call =",
        "        if False:\n            call =",
        (_LATE,),
    ),
    Mutant(
        "what arrives behind its release is not given back",
        "nothing is left of a lock that was released",
        _MEMBER,
        "            if call is None or call.sends > 1:\n                return None\n",
        "",
        (_LATE, _FAULTS),
    ),
    Mutant(
        "a plain release of a member that finds nothing is no loss",
        "whoever has lost a quorum is told by the release",
        _MEMBER,
        "        if not reply:\n            return None\n",
        "",
        (_SHORT_WAY, _HELD),
    ),
    Mutant(
        "a member that its task holds is asked for as a new owner",
        "the task that holds a member can enter it again",
        _MEMBER,
        "        or ((holds.first is not None or holds.more) and holds.of(task) is not None)\n",
        "",
        (_SHORT_WAY, _HELD),
    ),
    Mutant(
        "an error instead of a member's reply ends nothing",
        "members that refuse are not waited for",
        _GATHER,
        "        self.exception()\n        self._go_on()",
        "        self.exception()",
        (_SHORT_WAY, "tests/unit/test_gather.py"),
    ),
    Mutant(
        "each node of a cluster is a server of its own",
        "a cluster is one vote of a red lock",
        "redisson_py/_redis/identity.py",
        "    return frozenset() if context is None else context.executor.router.node_ids",
        "    return frozenset()",
        ("tests/topology/test_composites.py",),
    ),
    Mutant(
        "a red lock in a multi lock is known by its members only",
        "a release gives back only what its own lock acquired",
        "redisson_py/composite/_ownership.py",
        "keys = [_hold_key(member) for member in members]",
        "keys = [owner.commands.hold_kind.encode() + owner.commands.key for owner in owners]",
        (_HELD,),
    ),
    Mutant(
        "a multi lock and a red lock of the same members are one",
        "a release gives back only what its own lock acquired",
        "redisson_py/composite/_ownership.py",
        'kind.encode() + b":" + self.key',
        'b":" + self.key',
        (_HELD,),
    ),
    Mutant(
        "a multi lock of a red lock counts no leases",
        "statistics count the leases that are held",
        "redisson_py/composite/_hold.py",
        '        leases = [cast("Lease", each) for each in above if each is not None]\n',
        "        made.update(each for each in above if isinstance(each, CompositeLease))\n"
        "        leases = []\n",
        (_HELD,),
    ),
    Mutant(
        "what the queue knows is not the answer of a quorum",
        "busy is said if a quorum was busy shortly before the time ran out",
        "redisson_py/composite/red_lock.py",
        "rounds.quorum_known(red.queue.known_busy_at(waiter))",
        "pass",
        ("tests/lifecycle/test_red_lock_members.py",),
    ),
)
