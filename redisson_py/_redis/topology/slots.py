"""Which node of a cluster serves a slot, according to its nodes.

Nothing here does I/O: replies and error texts go in, addresses come out.

A node that does not know its own name, or must not say it, leaves the host out and means the host
that was asked. Every address that a node announces goes through the user's `address_map`, with the
host filled in.
"""

from __future__ import annotations

import re
from collections.abc import KeysView, Mapping
from itertools import groupby
from typing import Any, NamedTuple, Self, final

from redisson_py._addresses import Address, AddressMap
from redisson_py._keys import SLOTS
from redisson_py.errors import BackendError

#: If a command of a script was redirected, Redis 6.2 puts text before the error, Redis 7 after it.
_REDIRECT = re.compile(r"(?:^|: -)(MOVED|ASK) ([0-9]{1,9}) (\S*):([0-9]{1,9})(?= |$)")
#: Stands for the host of a node that should announce its name and has none.
_NAMELESS = "?"


@final
class SlotMap:
    """The owner of each slot.

    Attributes:
        owners: The address of the master of each slot, by its number; None where there is none.
            All slots of one master have the same object. Change it with `move`.
        replicas: The addresses of the replicas of each master that has slots.
        node_ids: The ids of the nodes: of every master that has slots, and of their replicas.
    """

    __slots__ = ("_served", "node_ids", "owners", "replicas")

    def __init__(
        self,
        owners: list[Address | None],
        replicas: Mapping[Address, tuple[Address, ...]],
        node_ids: frozenset[str],
    ) -> None:
        if len(owners) != SLOTS:
            raise ValueError(f"a slot map has {SLOTS} owners, not {len(owners)}")
        self.owners = owners
        self.replicas = replicas
        self.node_ids = node_ids
        # How many slots each master serves.
        self._served: dict[Address, int] = {}
        for first, end, owner in _runs(owners):
            if owner is not None:
                self._served[owner] = self._served.get(owner, 0) + end - first

    @classmethod
    def parse(cls, reply: object, asked: Address, address_map: AddressMap | None = None) -> Self:
        """Return what CLUSTER SLOTS answered.

        Args:
            reply: The reply, as hiredis reads it.
            asked: The address of the node that was asked.
            address_map: Turns an announced address into one that can be reached from here.

        Raises:
            BackendError: It is malformed, or `address_map` failed.
        """
        owners: list[Address | None] = [None] * SLOTS
        replicas: dict[Address, tuple[Address, ...]] = {}
        ids: set[str] = set()
        known: dict[Address, Address] = {}

        def read(node: Any) -> Address:
            address, node_id = _read_node(node, asked, address_map)
            if node_id:
                ids.add(node_id)
            return known.setdefault(address, address)

        for entry in _list(reply, "CLUSTER SLOTS"):
            first, last, master, *others = _list(entry, "a range of slots", least=3)
            if type(first) is not int or type(last) is not int or not 0 <= first <= last < SLOTS:
                raise _malformed(f"a range of slots from {first!r} to {last!r}")
            owner = read(master)
            owners[first : last + 1] = [owner] * (last + 1 - first)
            replicas[owner] = tuple(read(node) for node in others)
        return cls(owners, replicas, frozenset(ids))

    @property
    def masters(self) -> KeysView[Address]:
        """The addresses that serve at least one slot."""
        return self._served.keys()

    def nodes(self) -> set[Address]:
        """Return every address, of masters and of replicas."""
        return {
            *self._served,
            *self.replicas,
            *(a for each in self.replicas.values() for a in each),
        }

    def move(self, slot: int, address: Address) -> None:
        """Let `address` own `slot`, as a MOVED says."""
        before = self.owners[slot]
        if before == address:
            return
        self.owners[slot] = address
        self._served[address] = self._served.get(address, 0) + 1
        if before is not None:
            self._served[before] -= 1
            if not self._served[before]:
                del self._served[before]


def changes(old: SlotMap, new: SlotMap) -> dict[tuple[Address | None, Address | None], list[int]]:
    """Return the slots whose owner has changed, in order, by (owner before, owner now)."""
    moved: dict[tuple[Address | None, Address | None], list[int]] = {}
    olds = iter(_runs(old.owners))
    _, old_end, before = next(olds)
    for first, end, now in _runs(new.owners):
        while first < end:
            if first == old_end:
                _, old_end, before = next(olds)
            stop = min(end, old_end)
            if before != now:
                moved.setdefault((before, now), []).extend(range(first, stop))
            first = stop
    return moved


def _runs(owners: list[Address | None]) -> list[tuple[int, int, Address | None]]:
    """Return the ranges of consecutive slots with one owner: (first, last + 1, owner).

    Most maps have a few long ranges, in which C code compares the owners.
    """
    runs: list[tuple[int, int, Address | None]] = []
    first = 0
    for owner, same in groupby(owners):
        end = first + len(list(same))
        runs.append((first, end, owner))
        first = end
    return runs


class Redirect(NamedTuple):
    """Where a node says that a call belongs.

    Attributes:
        asks: Whether it is an ASK, for this call only and with ASKING before it; else it is a
            MOVED: the slot is there from now on.
        slot: The slot.
        address: The node to send it to.
    """

    asks: bool
    slot: int
    address: Address


def read_redirect(
    text: str, asked: Address, address_map: AddressMap | None = None
) -> Redirect | None:
    """Return where an error reply sends a call; None if it is neither MOVED nor ASK.

    Raises:
        BackendError: It names no slot or no address that can exist.
    """
    found = _REDIRECT.search(text)
    if found is None:
        return None
    kind, slot, host, port = found.groups()
    if int(slot) >= SLOTS:
        raise _malformed(f"a redirection of slot {slot}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    return Redirect(kind == "ASK", int(slot), _address(host, int(port), asked, address_map))


def _read_node(node: object, asked: Address, address_map: AddressMap | None) -> tuple[Address, str]:
    """Return the address of a node and its id; Redis 4 has no metadata behind them."""
    host, port, *details = _list(node, "a node", least=2)
    name = "" if host is None else _text(host)
    if type(port) is not int:
        raise _malformed(f"a node with port {port!r}")
    if name == _NAMELESS:
        name = _ip(details[1]) if len(details) > 1 else ""
    return _address(name, port, asked, address_map), _text(details[0]) if details else ""


def _ip(metadata: Any) -> str:
    """Return the IP address from the metadata of a node: a map in RESP3, else a flat list."""
    if isinstance(metadata, dict):
        pairs = list(metadata.items())
    elif isinstance(metadata, list):
        pairs = list(zip(metadata[::2], metadata[1::2], strict=False))
    else:
        return ""
    ips = [ip for name, ip in pairs if name in (b"ip", "ip") and ip is not None]
    return _text(ips[0]) if ips else ""


def _address(host: str, port: int, asked: Address, address_map: AddressMap | None) -> Address:
    if not host or host == _NAMELESS:
        host = asked[0]
    if not 0 < port < 65536:
        # A server that takes TLS only announces port 0 to clients without TLS.
        raise _malformed(f"a node at {host} with port {port}, which it does not open to clients")
    return (host, port) if address_map is None else address_map(host, port)


def _list(value: object, what: str, least: int = 0) -> list[Any]:
    if not isinstance(value, list) or len(value) < least:
        raise _malformed(f"{_short(value)} in place of {what}")
    return value


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            pass
    raise _malformed(f"{_short(value)} in place of a host or an id")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _malformed(what: str) -> BackendError:
    return BackendError(f"a node of the cluster sent an invalid answer: {what}")
