"""What an owner asks for in etcd: its key, and the keys for which that waits.

`store.py` describes the keys of locks and elections. Those of a read-write lock are as Go's
`RWMutex` keeps them, in `experimental/recipes`; the last part, which Go takes from its clock, is
the owner:

    NAME/read/<owner>            reads, or waits until no older write is there
    NAME/write/<owner>           writes, or waits until nothing older is there

A task that writes may read, and keeps that when it has released the write. Writers that wait
already look only at keys that are older than theirs, so they would not see the key of such a read.
Therefore each write has an anchor, a read key that is put in the same transaction, and the reads
under it are below that:

    NAME/read/<owner of the write>           the anchor
    NAME/read/<owner of the write>/<owner>   a read under it

Invariants:

- A read under a write is put only while the key of that write is there, and its anchor stays for as
  long as it does. The anchor goes in the transaction in which the last of them goes.
- No key of a read-write lock is written twice. Go goes by the revision of the last change: if a
  hold was moved to another lease, writers that wait for it would not see it any more. So all holds
  are under the session, and the client ends a `lease_time` (`EndedHere`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from operator import attrgetter

from redisson_py._stores.contract import Kind, Wish
from redisson_py._stores.etcd import messages
from redisson_py._stores.etcd.messages import Message
from redisson_py._stores.etcd.watches import Waiter

#: What the value of an anchor begins with; the owner of the write follows.
_ANCHOR = b"reads under "


@dataclass(frozen=True, slots=True)
class Claim:
    """What an owner asks for.

    Attributes:
        key: Its key.
        ahead: The prefixes of the keys for which it waits, if they are older than its own.
        anchor: Of a write, or of a read under it: the anchor of that write.
        within: Of a read under a write: the key of that write.
        revision: The create revision of that key.
        says: Of a candidate of an election: the value of its key; None: that is the owner.
        movable: Its key may be moved to another lease.
    """

    key: bytes
    ahead: tuple[bytes, ...] = ()
    anchor: bytes | None = None
    within: bytes | None = None
    revision: int = 0
    says: bytes | None = None
    movable: bool = True

    def counts(self, key: bytes) -> bool:
        """Return whether it waits for a key of a prefix, which may belong to a name inside it."""
        inside = any(key.startswith(each) and b"/" not in key[len(each) :] for each in self.ahead)
        return inside and key != self.anchor

    @property
    def conditions(self) -> list[Message]:
        """The conditions under which its key is put."""
        missing = [messages.created(self.key, 0)]
        return missing + ([messages.created(self.within, self.revision)] if self.within else [])

    def puts(self, owner: bytes, lease: int) -> list[Message]:
        """Return the operations that put its key, under a lease."""
        own = messages.put(self.key, owner if self.says is None else self.says, lease)
        if self.anchor is None or self.within is not None:
            return [own]
        return [own, messages.put(self.anchor, _ANCHOR + owner, lease)]

    def is_its(self, entry: Message, owner: bytes) -> bool:
        """Return whether a key in the place of its own is that: a candidate's says no owner."""
        return self.says is not None or bool(entry.value == owner)

    def is_there(self, owner: bytes) -> Message:
        """Return the condition that its key is there."""
        if self.says is not None:
            return messages.exists(self.key)
        return messages.has_value(self.key, owner)

    @property
    def leaves(self) -> list[Message]:
        """The operations that go with the deletion of its key."""
        if self.anchor is None:
            return []
        first, end = self.anchor + b"/", messages.after_prefix(self.anchor + b"/")
        if self.within is None:
            needless = [messages.none_in(first, end)]
        else:
            needless = [
                messages.created(self.within, 0),
                messages.none_in(first, self.key),
                messages.none_in(self.key + b"\0", end),
            ]
        return [messages.nested(needless, [messages.delete(self.anchor)])]

    @property
    def ends(self) -> list[Message]:
        """The operations that end its hold by force; the reads under a write go with that."""
        own = messages.delete(self.key)
        if self.anchor is None or self.within is not None:
            return [own, *self.leaves]
        below = messages.delete_all(self.anchor + b"/")
        return [own, messages.delete(self.anchor), below]


def read_claim(name: str, owner: bytes) -> Claim:
    """Return what asks to read."""
    return Claim(_reads(name) + owner, (_writes(name),), movable=False)


def write_claim(name: str, owner: bytes) -> Claim:
    """Return what asks to write."""
    reads, writes = _reads(name), _writes(name)
    # Reads first: of a write and its anchor, which have one revision, the anchor may stay longer.
    return Claim(writes + owner, (reads, writes), anchor=reads + owner, movable=False)


def read_under(name: str, owner: bytes, write: bytes, revision: int = 0) -> Claim:
    """Return what asks to read under a write: its owner, and the create revision of its key."""
    anchor = _reads(name) + write
    key, within = anchor + b"/" + owner, _writes(name) + write
    return Claim(key, (), anchor, within, revision, movable=False)


def candidate_claim(name: str, owner: bytes, says: bytes) -> Claim:
    """Return what asks to lead an election, and says something."""
    return Claim(candidate_key(name, owner), (name.encode() + b"/",), says=says)


def candidate_key(name: str, owner: bytes) -> bytes:
    """Return the key of a candidate, which has its owner because its value does not."""
    return name.encode() + b"/" + owner


class Claims:
    """What the owners of one client asked for, if it is no lock and something may be in etcd."""

    def __init__(self) -> None:
        self._claims: dict[Waiter, Claim] = {}
        # The create revisions of the keys of write holds, which reads under them need.
        self._writes: dict[Waiter, int] = {}

    def of(self, waiter: Waiter) -> Claim | None:
        """Return what an owner asked for; None: a lock, or nothing."""
        return self._claims.get(waiter)

    def asked(self, wish: Wish) -> Claim:
        """Return what an owner asks for, which is the same until it is forgotten."""
        (name, owner), write = (wish.name, wish.owner.encode()), wish.within or ""
        if (name, wish.owner) in self._claims:
            return self._claims[name, wish.owner]
        if wish.proposal is not None:
            claim = candidate_claim(name, owner, wish.proposal)
        elif wish.kind == "write":
            claim = write_claim(name, owner)
        elif (name, write) in self._writes:
            claim = read_under(name, owner, write.encode(), self._writes[name, write])
        else:
            claim = read_claim(name, owner)
        self._claims[name, wish.owner] = claim
        return claim

    def forget(self, waiter: Waiter) -> None:
        """Forget what an owner asked for: nothing of it can be there."""
        self._claims.pop(waiter, None)

    def writes(self, waiter: Waiter, revision: int) -> None:
        """Note that an owner writes, and when its key was created."""
        self._writes[waiter] = revision

    def writes_no_more(self, waiter: Waiter) -> None:
        """Note that an owner gives back, or that its key is gone."""
        self._writes.pop(waiter, None)

    def clear(self, but: Collection[Waiter]) -> None:
        """Forget everything, as the session has ended, but what is under a lease of its own."""
        self._claims = {each: claim for each, claim in self._claims.items() if each in but}
        self._writes.clear()


def owner_of(entry: Message, kind: Kind) -> str:
    """Return the owner of a key; the id of its lease for a key of Go's."""
    if kind == "election":
        key: bytes = entry.key
        return key.rpartition(b"/")[2].decode(errors="replace")
    value: bytes = entry.value
    return value.removeprefix(_ANCHOR).decode(errors="replace") or f"{entry.lease:x}"


@dataclass(frozen=True, slots=True)
class Sides:
    """A read-write lock as etcd saw it, in the order of the keys' creation.

    Attributes:
        writer: The key that writes.
        readers: Those that read.
        waiters: Those that wait.
    """

    writer: Message | None
    readers: Sequence[Message]
    waiters: Sequence[Message]


def look_at_sides(name: str) -> Message:
    """Return the request for both sides; `sides_of` takes what it found."""
    return messages.txn([], [messages.all_of(_reads(name)), messages.all_of(_writes(name))])


def sides_of(name: str, reply: Message) -> Sides:
    """Return which keys read, write and wait."""
    below, beside = len(_reads(name)), len(_writes(name))
    reads, writes = ({each.key: each for each in found.range.kvs} for found in reply.responses)
    writers = [each for key, each in writes.items() if b"/" not in key[beside:]]
    first = writers[0].create_revision if writers else None
    # An anchor does not count itself, unless somebody deleted the key of its write.
    anchors = {each.key[beside:] for each in writers}
    anchors |= {key[below:].partition(b"/")[0] for key in reads if b"/" in key[below:]}
    readers: list[Message] = []
    waiters: list[Message] = []
    older = False
    for key, each in reads.items():
        owner, slash, _ = key[below:].partition(b"/")
        position = reads.get(key[:below] + owner)
        if position is None or (
            position.value.startswith(_ANCHOR) and not slash and owner in anchors
        ):
            continue
        if slash and not position.value.startswith(_ANCHOR):
            # It belongs to a name inside this one.
            continue
        since = position.create_revision
        older = older or first is None or since < first
        (readers if first is None or since <= first else waiters).append(each)
    writer = None if older or first is None else writers[0]
    waiters += writers if writer is None else writers[1:]
    return Sides(writer, readers, sorted(waiters, key=attrgetter("create_revision")))


def claim_of(name: str, entry: Message) -> Claim:
    """Return the claim of a key of a read-write lock."""
    key: bytes = entry.key
    if not entry.value:
        # Of Go, which has no anchors.
        return Claim(key)
    if key.startswith(_writes(name)):
        return write_claim(name, key[len(_writes(name)) :])
    write, slash, owner = key[len(_reads(name)) :].partition(b"/")
    return read_under(name, owner, write) if slash else Claim(key)


def _reads(name: str) -> bytes:
    return name.encode() + b"/read/"


def _writes(name: str) -> bytes:
    return name.encode() + b"/write/"
