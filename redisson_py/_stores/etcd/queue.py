"""The queue of a name in etcd: what is asked about it, in transactions that may run twice.

It keeps no state of its own; see `store` for what the keys mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.claims import Claim, Sides, look_at_sides, sides_of
from redisson_py._stores.etcd.link import Answer, Link, TooManyOperationsError
from redisson_py._stores.etcd.messages import Message

#: What an undo leaves of an owner; outside of all names, because Go takes what is inside for
#: contenders.
_UNDONE = b"redisson_py/undone/"
#: How many keys are looked for in one transaction at first: etcd takes 128 operations, unless it is
#: configured otherwise.
_KEYS_AT_ONCE = 100
#: How many keys are looked through for a contender at first, and how many times as many after that.
_FIRST_LOOK, _LOOK_GROWTH = 10, 10


@dataclass(frozen=True, slots=True)
class Position:
    """Where an owner stands.

    Attributes:
        revision: The create revision of its key; 0 if it has none.
        ahead: The key that it has to wait for, if there is one.
        at: The revision at which etcd said so.
        repeated: Whether an earlier copy of the request may arrive later.
    """

    revision: int
    ahead: Message | None
    at: int
    repeated: bool = False


class GivenBackError(Exception):
    """Raised when an owner that was given back asks: its request was late."""


class Queue:
    """Asks about queues.

    Args:
        link: Where.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._at_once = _KEYS_AT_ONCE

    async def enter(
        self, claim: Claim, owner: str, lease: int, if_free: bool, deadline: float
    ) -> Position:
        """Put the key of an owner, unless it is there; return its place, for `seen`.

        Args:
            claim: What it asks for.
            owner: The owner.
            lease: The lease for the key.
            if_free: Put it only if there is no key for which it would wait.
            deadline: Until when.

        Raises:
            GivenBackError: The owner has given back before.
        """
        value = owner.encode()
        undone = _UNDONE + value
        free = [messages.created(each, 0, prefix=True) for each in claim.ahead if if_free]
        newest = [messages.newest(each) for each in claim.ahead]
        request = messages.txn(
            [*claim.conditions, messages.created(undone, 0), *free],
            [*newest, *claim.puts(value, lease)],
            [*newest, messages.get(claim.key), messages.get(undone)],
        )
        answer = await self._link.call(messages.TXN, request, deadline)
        reply, repeated = answer.reply, answer.repeated
        at = reply.header.revision
        before = _latest(_entries(reply, len(newest)))
        if reply.succeeded:
            return Position(at, before, at, repeated)
        ours = messages.first_entry(reply, len(newest))
        if ours is None and messages.first_entry(reply, len(newest) + 1) is not None:
            raise GivenBackError
        if ours is None:
            return Position(0, before, at, repeated)
        # An earlier request of this owner, or an owner of ours that has not gone yet.
        revision = ours.create_revision if claim.is_its(ours, value) else 0
        return Position(revision, ours, at, repeated)

    async def seen(self, claim: Claim, position: Position, deadline: float) -> Position:
        """Return what `enter` returned, with the contender that its owner has to wait for."""
        found = position.ahead
        if position.revision and found is not None and found.create_revision == position.revision:
            present = await self.position(claim, position.revision, deadline)
            # If it was deleted in between, it was given back, or its session has ended.
            return present or replace(position, revision=0)
        return replace(position, ahead=await self._contender(claim, found, deadline))

    async def position(self, claim: Claim, revision: int, deadline: float) -> Position | None:
        """Return the place of a key with this create revision; None if there is no such key."""
        newest = [messages.newest(each, before=revision) for each in claim.ahead]
        request = messages.txn([messages.created(claim.key, revision)], newest)
        reply = (await self._link.call(messages.TXN, request, deadline)).reply
        if not reply.succeeded:
            return None
        ahead = _latest(_entries(reply, len(newest)))
        ahead = await self._contender(claim, ahead, deadline)
        return Position(revision, ahead, reply.header.revision)

    async def _contender(
        self, claim: Claim, entry: Message | None, deadline: float
    ) -> Message | None:
        """Return a key, or the contender before it if it belongs to a name inside this one."""
        if entry is None or claim.counts(entry.key):
            return entry
        return await self._contender_before(claim, entry.create_revision, deadline)

    async def _contender_before(
        self, claim: Claim, revision: int, deadline: float, at: int = 0
    ) -> Message | None:
        """Return the last contender that was created before a revision.

        Args:
            claim: What was asked for.
            revision: The revision.
            deadline: Until when.
            at: The state of this revision; 0: the present one.
        """
        last = [
            await self._last_before(claim, prefix, revision, deadline, at) for prefix in claim.ahead
        ]
        return _latest([each for each in last if each is not None])

    async def _last_before(
        self, claim: Claim, prefix: bytes, revision: int, deadline: float, at: int
    ) -> Message | None:
        """Return the last contender with one prefix."""
        limit = _FIRST_LOOK
        while True:
            request = messages.last_created(prefix, before=revision, limit=limit, at=at)
            found = (await self._link.call(messages.RANGE, request, deadline)).reply.kvs
            for entry in found:
                if claim.counts(entry.key):
                    return entry
            if len(found) < limit:
                return None
            # All of them belong to names inside this one, of which there may be any number.
            revision, limit = found[-1].create_revision, limit * _LOOK_GROWTH

    async def sides(self, name: str, deadline: float) -> Sides:
        """Return which keys of a read-write lock read, write and wait."""
        answer = await self._link.call(messages.TXN, look_at_sides(name), deadline)
        return sides_of(name, answer.reply)

    async def contenders(self, name: str, deadline: float) -> list[Message]:
        """Return the keys of all contenders, the holder's first."""
        prefix = prefix_of(name)
        request = messages.in_order(prefix)
        found = (await self._link.call(messages.RANGE, request, deadline)).reply.kvs
        claim = lock_claim(name, prefix)
        return [each for each in found if claim.counts(each.key)]

    async def leader(self, name: str, deadline: float) -> tuple[Message | None, int]:
        """Return the key of the first contender, if there is one, and the present revision."""
        prefix, limit = prefix_of(name), 1
        claim = lock_claim(name, prefix)
        while True:
            request = messages.in_order(prefix, limit)
            reply = (await self._link.call(messages.RANGE, request, deadline)).reply
            found = next((each for each in reply.kvs if claim.counts(each.key)), None)
            if found is not None or len(reply.kvs) < limit:
                return found, reply.header.revision
            # Those that came first belong to names inside this one, of which there may be many.
            limit *= _LOOK_GROWTH

    async def present(self, keys: Sequence[bytes], deadline: float) -> list[int]:
        """Return the create revisions of keys; 0 for one that is not there."""
        found: list[int] = []
        while len(found) < len(keys):
            part = keys[len(found) : len(found) + self._at_once]
            request = messages.txn([], [messages.get(each) for each in part])
            try:
                reply = (await self._link.call(messages.TXN, request, deadline)).reply
            except TooManyOperationsError:
                if len(part) <= messages.MOST_OPERATIONS:
                    raise
                self._at_once = max(messages.MOST_OPERATIONS, len(part) // 2)
                continue
            for index in range(len(part)):
                entry = messages.first_entry(reply, index)
                found.append(0 if entry is None else entry.create_revision)
        return found

    async def move(
        self, key: bytes, revision: int, written: int, lease: int, deadline: float
    ) -> int:
        """Put a key under another lease; see `_change`."""
        moving = messages.move(key, lease)
        return await self._change(
            key, revision, written, moving, lambda entry: bool(entry.lease == lease), deadline
        )

    async def proclaim(
        self, key: bytes, revision: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Give a candidate's key another value, under the same lease; see `_change`."""
        writing = messages.rewrite(key, value)
        return await self._change(
            key, revision, written, writing, lambda entry: bool(entry.value == value), deadline
        )

    async def _change(
        self,
        key: bytes,
        revision: int,
        written: int,
        operation: Message,
        is_done: Callable[[Message], bool],
        deadline: float,
    ) -> int:
        """Write a key again. A copy of the request that comes late undoes no later change.

        Args:
            key: The key.
            revision: Its create revision.
            written: The revision at which it was last written, as far as is known.
            operation: What writes it.
            is_done: Whether a key has been written so: by an attempt that had no answer.
            deadline: Until when.

        Returns:
            The revision at which it was written; 0 if there is no such key.
        """
        while True:
            request = messages.txn(
                [messages.created(key, revision), messages.changed(key, written)],
                [operation],
                [messages.get(key)],
            )
            reply = (await self._link.call(messages.TXN, request, deadline)).reply
            if reply.succeeded:
                return int(reply.header.revision)
            entry = messages.first_entry(reply, 0)
            if entry is None or entry.create_revision != revision:
                return 0
            written = entry.mod_revision
            if is_done(entry):
                return written

    async def delete(
        self, claim: Claim, owner: str, undone_under: int | None, deadline: float
    ) -> Answer:
        """Delete the key of an owner; for the answer see `was_first`.

        Args:
            claim: What it asked for.
            owner: Its owner; the key of another is left alone.
            undone_under: The lease under which to note that the owner has given back, so that a
                request of it that is still under way is refused; None: there is none under way.
            deadline: Until when.
        """
        value = owner.encode()
        note = [messages.put(_UNDONE + value, b"", undone_under)] if undone_under else []
        oldest = [messages.oldest(each) for each in claim.ahead]
        request = messages.txn(
            [claim.is_there(value)],
            [messages.get(claim.key), *oldest, messages.delete(claim.key), *note, *claim.leaves],
            [*note, *claim.leaves],
        )
        return await self._link.call(messages.TXN, request, deadline)

    async def was_first(self, claim: Claim, reply: Message, deadline: float) -> bool:
        """Return whether a key that `delete` deleted waited for no other."""
        ours = messages.first_entry(reply, 0)
        assert ours is not None
        found = [messages.first_entry(reply, 1 + index) for index in range(len(claim.ahead))]
        older = [
            each
            for each in found
            if each is not None and each.create_revision < ours.create_revision
        ]
        if not older or any(claim.counts(each.key) for each in older):
            return not older
        before = await self._contender_before(
            claim, ours.create_revision, deadline, at=reply.header.revision - 1
        )
        return before is None

    async def delete_note(self, owner: str, deadline: float) -> None:
        """Delete the note that an owner has given back."""
        request = messages.txn([], [messages.delete(_UNDONE + owner.encode())])
        await self._link.call(messages.TXN, request, deadline)

    async def delete_created(self, claim: Claim, revision: int, deadline: float) -> bool:
        """Delete a key with this create revision, whoever owns it; return whether it was there."""
        request = messages.txn([messages.created(claim.key, revision)], claim.ends)
        answer = await self._link.call(messages.TXN, request, deadline)
        # A request without an answer may have deleted it.
        return bool(answer.reply.succeeded) or answer.repeated


def prefix_of(name: str) -> bytes:
    """Return what the keys of a name begin with."""
    return name.encode() + b"/"


def key_of(name: str, lease: int) -> bytes:
    """Return the key of the contender with a lease."""
    return prefix_of(name) + b"%x" % lease


def lock_claim(name: str, key: bytes) -> Claim:
    """Return what asks for a lock by a key."""
    return Claim(key, (prefix_of(name),))


def _entries(reply: Message, count: int) -> list[Message]:
    """Return the keys that the first operations of a transaction read."""
    found = [messages.first_entry(reply, index) for index in range(count)]
    return [each for each in found if each is not None]


def _latest(entries: Sequence[Message]) -> Message | None:
    """Return the key that was created last, or the first of those."""
    return max(entries, key=lambda each: each.create_revision, default=None)
