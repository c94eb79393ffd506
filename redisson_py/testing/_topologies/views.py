"""What a cluster's nodes say about each other, read from CLUSTER NODES, and slots of keys."""

from __future__ import annotations

import asyncio
import binascii
import re
from dataclasses import dataclass
from typing import Final, final

from redisson_py.testing._server import EmbeddedServer

from .nodes import Nodes, TopologyError, blame

SLOTS: Final = 16384
_OPEN: Final = re.compile(r"\[(\d+)-[<>]-(\w+)\]")
#: A slot's number, or a key in it.
SlotOrKey = int | str | bytes


def slot_of(slot_or_key: SlotOrKey) -> int:
    """Return the slot of a key; a number is a slot already."""
    if isinstance(slot_or_key, int):
        if not 0 <= slot_or_key < SLOTS:
            raise ValueError(f"{slot_or_key} is not a slot: slots are 0 to {SLOTS - 1}")
        return slot_or_key
    key = slot_or_key.encode() if isinstance(slot_or_key, str) else slot_or_key
    begin = key.find(b"{")
    end = key.find(b"}", begin + 1)
    if begin >= 0 and end > begin + 1:
        key = key[begin + 1 : end]
    return binascii.crc_hqx(key, 0) % SLOTS  # the servers' CRC16 is XMODEM's, as is this


@final
@dataclass(frozen=True, slots=True)
class Seen:
    """One node, as one of the nodes sees it.

    Attributes:
        id: Its id.
        port: Its port.
        flags: `myself`, `master`, `slave`, `fail?`, `fail`, `handshake`...
        master: The id of its master; empty if it is one.
        epoch: The epoch of its slots; the highest wins.
        slots: First and last slot of each of its ranges.
        open: Slots on their way to or from it, with the id of the other node. Only nodes that
            describe themselves tell.
    """

    id: str
    port: int
    flags: frozenset[str]
    master: str
    epoch: int
    slots: tuple[tuple[int, int], ...]
    open: tuple[tuple[int, str], ...] = ()

    @property
    def is_master(self) -> bool:
        """Whether it has no master."""
        return "master" in self.flags

    def has(self, slot: int) -> bool:
        """Whether the slot is among its slots."""
        return any(first <= slot <= last for first, last in self.slots)

    @property
    def count(self) -> int:
        """How many slots it has."""
        return sum(last - first + 1 for first, last in self.slots)


def read_view(text: str) -> dict[str, Seen]:
    """Return every node in the answer to CLUSTER NODES, by its id."""
    nodes = {}
    for row in text.splitlines():
        node, address, flags, master, _, _, epoch, _, *ranges = row.split()
        owned = [each.partition("-") for each in ranges if not each.startswith("[")]
        nodes[node] = Seen(
            node,
            int(address.partition("@")[0].rpartition(":")[2]),
            frozenset(flags.split(",")),
            "" if master == "-" else master,
            int(epoch),
            tuple((int(first), int(last or first)) for first, _, last in owned),
            tuple((int(match[1]), match[2]) for match in map(_OPEN.fullmatch, ranges) if match),
        )
    return nodes


@final
class ClusterMap:
    """The nodes of a cluster by their ids, and what they have to say.

    Attributes:
        ids: Every node that belongs to it.
    """

    def __init__(self, nodes: Nodes) -> None:
        """Begin with no nodes."""
        self.ids: Final[dict[str, EmbeddedServer]] = {}
        self._nodes: Final = nodes

    def id_of(self, node: EmbeddedServer) -> str:
        """Return the id of a node."""
        return next(each for each, server in self.ids.items() if server is node)

    async def view(self, node: EmbeddedServer) -> dict[str, Seen]:
        """Return all nodes as one of them sees them."""
        return read_view(str(await self._nodes.ask(node, "CLUSTER", "NODES")))

    async def myself(self, node: EmbeddedServer) -> Seen:
        """Return a node as it sees itself."""
        view = await self.view(node)
        return next(seen for seen in view.values() if "myself" in seen.flags)

    async def owner(self, slot: int) -> EmbeddedServer | None:
        """Return the node that says the slot is its own; if two do, the one that will win."""
        mine = await asyncio.gather(*(self.myself(node) for node in self._nodes.awake()))
        owners = [seen for seen in mine if seen.is_master and seen.has(slot)]
        return self.ids[max(owners, key=lambda seen: seen.epoch).id] if owners else None

    async def last_owner(self, slot: int) -> EmbeddedServer:
        """Return the master of a slot, even if it does not answer."""
        if owner := await self.owner(slot):
            return owner
        for node in self._nodes.awake():
            for seen in (await self.view(node)).values():
                if seen.has(slot):
                    return self.ids[seen.id]
        raise TopologyError(f"no running node knows a master of slot {slot}")

    async def disagreement(self) -> str:
        """Return what the nodes that answer see differently, or what they miss."""
        awake = self._nodes.awake()
        first: object = None
        for node in awake:
            info = str(await self._nodes.ask(node, "CLUSTER", "INFO"))
            if "cluster_state:ok" not in info:
                return blame(node, "its cluster_state is not ok")
            view = await self.view(node)
            if any("handshake" in seen.flags for seen in view.values()):
                return blame(node, "its handshake is not complete")
            if sum(seen.count for seen in view.values()) != SLOTS:
                return blame(node, "it misses slots")
            shown = {
                (seen.master, seen.slots, "fail" in seen.flags)
                for each, seen in view.items()
                if self.ids.get(each) in awake
            }
            if first is not None and shown != first:
                return blame(node, f"it disagrees with {awake[0].address}")
            first = shown
        return ""
