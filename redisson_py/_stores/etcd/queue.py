"""The queue of a name in etcd: what is asked about it, in transactions that may run twice.

It keeps no state of its own; see `store` for what the keys mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from redisson_py._stores.contract import ELECTION
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.link import Answer, Link
from redisson_py._stores.etcd.messages import Message

#: What an undo leaves of an owner; outside of all names, because Go takes what is inside for
#: contenders.
_UNDONE = b"redisson_py/undone/"
#: etcd takes 128 operations in a transaction, unless it was told otherwise.
_MOST_OPERATIONS = 100


@dataclass(frozen=True, slots=True)
class Place:
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

    async def enter(
        self,
        name: str,
        owner: str,
        lease: int,
        if_free: bool,
        deadline: float,
        proposal: bytes | None = None,
    ) -> Place:
        """Put the key of an owner, unless it is there; return its place, for `seen`.

        Args:
            name: The name.
            owner: The owner.
            lease: The lease for the key.
            if_free: Put it only if the prefix has no key.
            deadline: Until when.
            proposal: The value of a candidate's key; that of a lock is its owner.

        Raises:
            GivenBackError: The owner has given back before.
        """
        prefix, key = prefix_of(name), key_of(name, owner, lease)
        value = owner.encode() if proposal is None else proposal
        undone = _UNDONE + owner.encode()
        free = messages.created(prefix, 0, prefix=True) if if_free else messages.created(key, 0)
        request = messages.txn(
            [free, messages.created(undone, 0)],
            [messages.newest(prefix), messages.put(key, value, lease)],
            [messages.get(key), messages.newest(prefix), messages.get(undone)],
        )
        answer = await self._link.call(messages.TXN, request, deadline)
        reply, repeated = answer.reply, answer.repeated
        at = reply.header.revision
        before = messages.first_entry(reply, 0 if reply.succeeded else 1)
        if reply.succeeded:
            return Place(at, before, at, repeated)
        ours = messages.first_entry(reply, 0)
        if ours is None and messages.first_entry(reply, 2) is not None:
            raise GivenBackError
        if ours is None:
            return Place(0, before, at, repeated)
        # An earlier request of this owner, or an owner of ours that has not gone yet.
        is_same = proposal is not None or ours.value == value
        revision = ours.create_revision if is_same else 0
        return Place(revision, ours, at, repeated)

    async def seen(self, name: str, place: Place, deadline: float) -> Place:
        """Return what `enter` returned, with the contender that its owner has to wait for."""
        prefix, found = prefix_of(name), place.ahead
        if place.revision and found is not None and found.create_revision == place.revision:
            present = await self.place(name, found.key, place.revision, deadline)
            # If it was deleted in between, it was given back, or its session has ended.
            return present or replace(place, revision=0)
        return replace(place, ahead=await self._contender(prefix, found, deadline))

    async def place(self, name: str, key: bytes, revision: int, deadline: float) -> Place | None:
        """Return the place of a key with this create revision; None if there is no such key."""
        prefix = prefix_of(name)
        request = messages.txn(
            [messages.created(key, revision)], [messages.newest(prefix, before=revision)]
        )
        reply = (await self._link.call(messages.TXN, request, deadline)).reply
        if not reply.succeeded:
            return None
        ahead = await self._contender(prefix, messages.first_entry(reply, 0), deadline)
        return Place(revision, ahead, reply.header.revision)

    async def _contender(
        self, prefix: bytes, entry: Message | None, deadline: float
    ) -> Message | None:
        """Return a key, or the contender before it if it belongs to a name inside this one."""
        while entry is not None and not _is_contender(prefix, entry):
            request = messages.newest(prefix, before=entry.create_revision).range
            found = (await self._link.call(messages.RANGE, request, deadline)).reply.kvs
            entry = found[0] if found else None
        return entry

    async def contenders(self, name: str, deadline: float) -> list[Message]:
        """Return the keys of all contenders, the holder's first."""
        prefix = prefix_of(name)
        request = messages.in_order(prefix)
        found = (await self._link.call(messages.RANGE, request, deadline)).reply.kvs
        return [each for each in found if _is_contender(prefix, each)]

    async def leader(self, name: str, deadline: float) -> tuple[Message | None, int]:
        """Return the key of the first contender, if there is one, and the present revision."""
        prefix, limit = prefix_of(name), 1
        while True:
            request = messages.in_order(prefix, limit)
            reply = (await self._link.call(messages.RANGE, request, deadline)).reply
            found = next((each for each in reply.kvs if _is_contender(prefix, each)), None)
            if found is not None or len(reply.kvs) < limit:
                return found, reply.header.revision
            # Those that came first belong to names inside this one, of which there may be many.
            limit *= 10

    async def present(self, keys: Sequence[bytes], deadline: float) -> list[int]:
        """Return the create revisions of keys; 0 for one that is not there."""
        found: list[int] = []
        for start in range(0, len(keys), _MOST_OPERATIONS):
            part = keys[start : start + _MOST_OPERATIONS]
            request = messages.txn([], [messages.get(each) for each in part])
            reply = (await self._link.call(messages.TXN, request, deadline)).reply
            for index in range(len(part)):
                entry = messages.first_entry(reply, index)
                found.append(0 if entry is None else entry.create_revision)
        return found

    async def move(
        self, key: bytes, revision: int, written: int, lease: int, deadline: float
    ) -> int:
        """Put a key under another lease, but never after a later move.

        Args:
            key: The key.
            revision: Its create revision.
            written: The revision at which it was last written, as far as is known.
            lease: The lease.
            deadline: Until when.

        Returns:
            The revision at which it was moved; 0 if there is no such key.
        """
        while True:
            request = messages.txn(
                [messages.created(key, revision), messages.changed(key, written)],
                [messages.move(key, lease)],
                [messages.get(key)],
            )
            reply = (await self._link.call(messages.TXN, request, deadline)).reply
            if reply.succeeded:
                return int(reply.header.revision)
            entry = messages.first_entry(reply, 0)
            if entry is None or entry.create_revision != revision:
                return 0
            written = entry.mod_revision
            if entry.lease == lease:
                # An attempt of ours that had no answer.
                return written

    async def proclaim(
        self, key: bytes, revision: int, written: int, value: bytes, deadline: float
    ) -> int:
        """Give a candidate's key another value, but never after a later one.

        Args:
            key: The key, which stays under its lease.
            revision: Its create revision.
            written: The revision at which it was last written, as far as is known.
            value: The value.
            deadline: Until when.

        Returns:
            The revision at which it was written; 0 if there is no such key.
        """
        while True:
            request = messages.txn(
                [messages.created(key, revision), messages.changed(key, written)],
                [messages.rewrite(key, value)],
                [messages.get(key)],
            )
            reply = (await self._link.call(messages.TXN, request, deadline)).reply
            if reply.succeeded:
                return int(reply.header.revision)
            entry = messages.first_entry(reply, 0)
            if entry is None or entry.create_revision != revision:
                return 0
            written = entry.mod_revision
            if entry.value == value:
                # An attempt of ours that had no answer.
                return written

    async def delete(
        self, name: str, key: bytes, owner: str, undone_under: int | None, deadline: float
    ) -> Answer:
        """Delete the key of an owner; in the answer is the key of the prefix that came first.

        Args:
            name: The name.
            key: The key.
            owner: Its owner; that of another is left alone.
            undone_under: The lease under which to note that the owner has given back, so that a
                request of it that is still under way is refused; None: there is none under way.
            deadline: Until when.
        """
        value = owner.encode()
        note = [messages.put(_UNDONE + value, b"", undone_under)] if undone_under else []
        is_its = messages.exists(key) if _is_election(name) else messages.has_value(key, value)
        request = messages.txn(
            [is_its],
            [messages.oldest(prefix_of(name)), messages.delete(key), *note],
            note,
        )
        return await self._link.call(messages.TXN, request, deadline)

    async def delete_created(self, key: bytes, revision: int, deadline: float) -> bool:
        """Delete a key with this create revision, whoever owns it; return whether it was there."""
        request = messages.txn([messages.created(key, revision)], [messages.delete(key)])
        answer = await self._link.call(messages.TXN, request, deadline)
        # A request without an answer may have deleted it.
        return bool(answer.reply.succeeded) or answer.repeated


def plain(name: str) -> str:
    """Return a name as its user gave it, with the client's prefix."""
    return name.lstrip(ELECTION)


def prefix_of(name: str) -> bytes:
    """Return what the keys of a name begin with."""
    return plain(name).encode() + b"/"


def key_of(name: str, owner: str, lease: int) -> bytes:
    """Return the key of a contender with a lease.

    A candidate has one of its own, because its value does not say whose it is.
    """
    return prefix_of(name) + (owner.encode() if _is_election(name) else b"%x" % lease)


def owner_of(name: str, entry: Message) -> str:
    """Return the owner of a key; the id of its lease for a key of Go's."""
    if _is_election(name):
        found: bytes = entry.key[len(prefix_of(name)) :]
        return found.decode(errors="replace")
    value: bytes = entry.value
    return value.decode(errors="replace") or f"{entry.lease:x}"


def _is_election(name: str) -> bool:
    return name.startswith(ELECTION)


def _is_contender(prefix: bytes, entry: Message) -> bool:
    return b"/" not in entry.key[len(prefix) :]
