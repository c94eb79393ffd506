"""Sabotages of the read-write lock in etcd; those of its lock are in `listed_stores`."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

_CLAIMS = "redisson_py/_stores/etcd/claims.py"
_HOLDS = "redisson_py/_stores/etcd/holds.py"
_QUEUE = "redisson_py/_stores/etcd/queue.py"

_OF_ETCD = "tests/stores/etcd/test_read_write.py"
_OF_ETCD_FAULTS = "tests/stores/etcd/test_read_write_faults.py"
_SEMANTICS = "tests/stores/test_read_write.py"

ETCD = (
    Mutant(
        "etcd's writes have no anchor",
        "a downgrade lets no waiting writer in",
        _CLAIMS,
        "return [own, messages.put(self.anchor, _ANCHOR + owner, lease)]",
        "return [own]",
        (f"{_SEMANTICS}::test_a_downgrade_lets_no_waiting_writer_in",),
    ),
    Mutant(
        "etcd's anchors go with the write",
        "a downgrade lets no waiting writer in",
        _CLAIMS,
        "            needless = [messages.none_in(first, end)]\n",
        "            needless = []\n",
        (f"{_OF_ETCD}::test_an_anchor_goes_with_the_last_of_its_keys",),
    ),
    Mutant(
        "etcd's anchors go with the first of two reads",
        "a read under a write is protected for as long as it lasts",
        _CLAIMS,
        "                messages.none_in(first, self.key),\n"
        '                messages.none_in(self.key + b"\\0", end),\n',
        "",
        (f"{_OF_ETCD}::test_an_anchor_goes_with_the_last_of_its_keys",),
    ),
    Mutant(
        "etcd's anchors stay when a write was deleted by hand",
        "nothing is left of a hold that was given back",
        _QUEUE,
        "            [*note, *claim.leaves],\n",
        "            note,\n",
        (f"{_OF_ETCD}::test_an_anchor_whose_write_was_deleted_by_hand",),
    ),
    Mutant(
        "etcd's writes wait for their own anchors",
        "a writer whose key was deleted by hand queues again",
        _CLAIMS,
        "return inside and key != self.anchor",
        "return inside",
        (f"{_OF_ETCD}::test_a_waiting_write_that_was_deleted_by_hand_queues_again",),
    ),
    Mutant(
        "etcd grants reads under a write that is gone",
        "nobody reads beside the writer of another client",
        _CLAIMS,
        "return missing + ([messages.created(self.within, self.revision)] if self.within else [])",
        "return missing",
        (f"{_OF_ETCD}::test_no_read_under_a_write_that_was_freed_by_force",),
    ),
    Mutant(
        "etcd's readers wait for readers",
        "readers hold it together",
        _CLAIMS,
        "return Claim(_reads(name) + owner, (_writes(name),), movable=False)",
        "return Claim(_reads(name) + owner, (_reads(name), _writes(name)), movable=False)",
        (f"{_SEMANTICS}::test_readers_hold_it_together",),
    ),
    Mutant(
        "etcd's writers wait for writers only",
        "a writer is alone",
        _CLAIMS,
        "return Claim(writes + owner, (reads, writes), anchor=reads + owner, movable=False)",
        "return Claim(writes + owner, (writes,), anchor=reads + owner, movable=False)",
        (f"{_SEMANTICS}::test_readers_hold_it_together",),
    ),
    Mutant(
        "etcd's sides move to leases of their own",
        "Go's waiting writers see every hold that is older than theirs",
        _HOLDS,
        "        if not claim.movable:\n",
        "        if False:\n",
        (f"{_OF_ETCD}::test_keys_are_never_written_twice",),
    ),
    Mutant(
        "etcd's forced release of a writer leaves its reads",
        "a forced release of a writer ends its reads",
        _CLAIMS,
        "return [own, messages.delete(self.anchor), below]",
        "return [own, messages.delete(self.anchor)]",
        (f"{_OF_ETCD}::test_no_read_under_a_write_that_was_freed_by_force",),
    ),
    Mutant(
        "etcd remembers sides that were never asked for",
        "what was not asked leaves nothing in memory",
        _HOLDS,
        "            if not (sent or self.may_have(waiter)):\n"
        "                self._claims.forget(waiter)\n",
        "",
        (f"{_OF_ETCD_FAULTS}::test_what_is_not_asked_is_not_remembered",),
    ),
    Mutant(
        "etcd says of an undone wait that it was a hold",
        "an undo says whether its owner held",
        _QUEUE,
        "if each is not None and each.create_revision < ours.create_revision",
        "if each is not None and False",
        (f"{_OF_ETCD_FAULTS}::test_a_question_without_an_answer_is_taken_back",),
    ),
)
