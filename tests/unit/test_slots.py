"""What a cluster's nodes say about slots is read as they mean it, or refused."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import crc

from redisson_py._addresses import Address, AddressMap
from redisson_py._keys import SLOTS, hash_tag, key_slot
from redisson_py._redis.topology.slots import SlotMap, changes, read_redirect
from redisson_py.errors import BackendError

ASKED = ("asked", 7000)
A, B, C = ("10.0.0.1", 6379), ("10.0.0.2", 6379), ("10.0.0.3", 6380)

OWNERS = st.lists(
    st.tuples(st.integers(1, 4000), st.sampled_from([None, A, B, C])), min_size=1, max_size=12
)


def node(address: Address, **metadata: str) -> list[Any]:
    host, port = address
    flat = [word.encode() for pair in metadata.items() for word in pair]
    return [host.encode(), port, f"id-{host}-{port}".encode(), flat]


def reply(runs: Iterable[tuple[int, Address | None]]) -> list[Any]:
    """Return the reply of CLUSTER SLOTS for owners that are given as run lengths."""
    ranges: list[Any] = []
    first = 0
    for length, owner in runs:
        last = min(first + length, SLOTS) - 1
        if owner is not None and last >= first:
            ranges.append([first, last, node(owner)])
        first = last + 1
    return ranges


def owners(runs: Iterable[tuple[int, Address | None]]) -> list[Address | None]:
    flat = itertools.chain.from_iterable([owner] * length for length, owner in runs)
    return [*itertools.islice(itertools.chain(flat, itertools.repeat(None)), SLOTS)]


@given(key=st.one_of(st.binary(), st.text("ab{}").map(str.encode)))
def test_slots_are_those_of_redis_py(key: bytes) -> None:
    assert key_slot(key) == crc.key_slot(key)
    assert key_slot(key) == crc.key_slot(hash_tag(key) or key)


# The map.


@given(runs=OWNERS)
def test_every_slot_has_the_owner_of_its_range(runs: list[tuple[int, Address | None]]) -> None:
    slots = SlotMap.parse(reply(runs), ASKED)
    expected = owners(runs)
    assert slots.owners == expected
    assert {*slots.masters} == {*expected} - {None} == slots.nodes()


@given(old=OWNERS, new=OWNERS)
def test_changes_are_the_slots_whose_owner_differs(
    old: list[tuple[int, Address | None]], new: list[tuple[int, Address | None]]
) -> None:
    before, after = SlotMap.parse(reply(old), ASKED), SlotMap.parse(reply(new), ASKED)
    expected: dict[object, list[int]] = {}
    for slot, pair in enumerate(zip(before.owners, after.owners, strict=True)):
        if pair[0] != pair[1]:
            expected.setdefault(pair, []).append(slot)
    assert changes(before, after) == expected
    assert changes(before, SlotMap.parse(reply(old), ASKED)) == {}


@given(
    runs=OWNERS,
    moves=st.lists(st.tuples(st.integers(0, SLOTS - 1), st.sampled_from([A, B, C])), max_size=20),
)
def test_a_moved_slot_is_known_at_once(
    runs: list[tuple[int, Address | None]], moves: list[tuple[int, Address]]
) -> None:
    slots = SlotMap.parse(reply(runs), ASKED)
    for slot, address in moves:
        slots.move(slot, address)
    expected = owners(runs)
    for slot, address in moves:
        expected[slot] = address
    assert slots.owners == expected
    assert {*slots.masters} == {*expected} - {None}


# Names of nodes.


@pytest.mark.parametrize("host", [None, b"", "", b"?", "?"])
def test_a_node_without_a_name_is_the_one_that_was_asked(host: object) -> None:
    slots = SlotMap.parse([[0, 9, [host, 7001, b"id", []]]], ASKED)
    assert slots.owners[9] == ("asked", 7001)


@pytest.mark.parametrize(
    "metadata", [[b"ip", b"10.0.0.9"], {b"ip": b"10.0.0.9"}, {"ip": "10.0.0.9"}]
)
def test_a_name_that_is_not_set_has_an_address_beside_it(metadata: object) -> None:
    slots = SlotMap.parse([[0, 9, [b"?", 7001, b"id", metadata]]], ASKED)
    assert slots.owners[9] == ("10.0.0.9", 7001)


def test_every_announced_address_is_mapped_with_its_host_filled_in() -> None:
    seen: list[Address] = []

    def outside(host: str, port: int) -> Address:
        seen.append((host, port))
        return "outside", port + 1000

    slots = SlotMap.parse([[0, 9, node(A), [None, 7001, b"id", []]]], ASKED, AddressMap(outside))
    assert slots.owners[0] == ("outside", 7379)
    assert slots.replicas == {("outside", 7379): (("outside", 8001),)}
    redirect = read_redirect("MOVED 9 :7002", ASKED, AddressMap(outside))
    assert redirect is not None
    assert redirect.address == ("outside", 8002)
    assert seen == [A, ("asked", 7001), ("asked", 7002)]


@pytest.mark.parametrize(
    "bad",
    [
        None,
        b"OK",
        {},
        [None],
        [[]],
        [[0, 9]],
        [[0, 9, None]],
        [[0, 9, []]],
        [[0, 9, [b"h"]]],
        [[0, 9, [b"h", b"6379"]]],
        [[0, 9, [b"h", True]]],
        [[0, 9, [b"h", 0, b"id"]]],
        [[0, 9, [b"h", 65536, b"id"]]],
        [[0, 9, [5, 6379, b"id"]]],
        [[0, 9, [b"\xff", 6379, b"id"]]],
        [[0, 9, [b"h", 6379, 5]]],
        [[5, 4, [b"h", 6379, b"id"]]],
        [[-1, 4, [b"h", 6379, b"id"]]],
        [[0, SLOTS, [b"h", 6379, b"id"]]],
        [[b"0", 9, [b"h", 6379, b"id"]]],
        [[0, 9, [b"h", 6379, b"id"], None]],
        [[0, 9, [b"?", 6379, b"id", {b"ip": 5}]]],
    ],
)
def test_what_is_no_map_is_refused(bad: object) -> None:
    with pytest.raises(BackendError, match="invalid answer"):
        SlotMap.parse(bad, ASKED)


# Redirections.

WRAPPED = "ERR Error running script (call to f_0123): @user_script:1: @user_script: 1: -"


BEHIND = " script: 0123, on @user_script:1."


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:6381", ("127.0.0.1", 6381)),
        ("node.example:6381", ("node.example", 6381)),
        (":6381", ("asked", 6381)),
        ("?:6381", ("asked", 6381)),
        ("::1:6381", ("::1", 6381)),
        ("[::1]:6381", ("::1", 6381)),
    ],
)
def test_a_redirection_is_read(text: str, address: Address) -> None:
    for before, kind, behind in itertools.product(("", WRAPPED), ("MOVED", "ASK"), ("", BEHIND)):
        redirect = read_redirect(f"{before}{kind} 3999 {text}{behind}", ASKED)
        assert redirect == (kind == "ASK", 3999, address)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ERR no such key",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served",
        "MOVEDX 1 h:1",
        "ERR unknown command 'MOVED 1 h:1'",
        "MOVED x h:1",
        "MOVED 1 h",
        "MOVED 1 h:x",
        "ASKING 1 h:1",
    ],
)
def test_other_errors_send_nothing(text: str) -> None:
    assert read_redirect(text, ASKED) is None


@pytest.mark.parametrize("text", ["MOVED 16384 h:1", "ASK 1 h:0", "MOVED 1 h:65536"])
def test_a_redirection_to_nowhere_is_refused(text: str) -> None:
    with pytest.raises(BackendError, match="invalid answer"):
        read_redirect(text, ASKED)


def test_a_master_without_slots_is_none_any_more() -> None:
    slots = SlotMap.parse([[0, 1, node(A)], [2, 3, node(B)]], ASKED)
    slots.move(2, A)
    assert {*slots.masters} == {A, B}
    slots.move(3, A)
    assert {*slots.masters} == {A}
