"""What the replies of a barrier's scripts mean, and where its keys are."""

from __future__ import annotations

import pytest

from redisson_py._commands import barrier as commands
from redisson_py._commands.barrier import (
    BarrierCommands,
    Broken,
    Entry,
    InspectReply,
    OtherParties,
    Released,
    Void,
    Waiting,
    WaitReply,
)
from redisson_py._numbers import EXACT_LIMIT, check_whole


@pytest.mark.parametrize(
    ("reply", "meaning"),
    [
        ([1, 2, 77, -1], Released(2)),
        ([1, -1, 77, -1], Released(None)),
        ([0, 1, 77, 2500], Waiting(77, 1, 2.5)),
        ([0, 0, 77, -1], Waiting(77, 0, None)),
        ([0, 0, 77, 0], Waiting(77, 0, 0.0)),
        ([-1, -1, 0, -1], Broken()),
        ([-2, 3, 0, -1], OtherParties(3)),
        ([-3, -1, 0, -1], Void()),
    ],
)
def test_replies_of_wait(reply: list[int], meaning: WaitReply) -> None:
    assert commands.wait_reply(reply) == meaning


def test_a_reply_of_wait_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match=r"barrier\.wait replied \[7, 0, 0, 0\]"):
        commands.wait_reply([7, 0, 0, 0])


def test_replies_of_leave() -> None:
    assert commands.leave_reply(0) == Released(0)
    assert commands.leave_reply(-1) is None


def test_replies_of_inspect() -> None:
    assert commands.inspect_reply([1, 0, 0, 1000, 0]) == InspectReply(True, None, None, 0, ())
    listed = [b"c:1", b"900", b"d:2", b"3500"]
    entries = (Entry("c:1", 0.0), Entry("d:2", 2.5))
    assert commands.inspect_reply([0, 9, 5, 1000, 4, *listed]) == InspectReply(
        False, 9, 5, 4, entries
    )


@pytest.mark.parametrize("name", [b"b", b"{t}b", b"a}b"])
def test_all_keys_are_its_own_and_in_one_slot(name: bytes) -> None:
    barrier = BarrierCommands(name)
    keys = {barrier.barrier, barrier.arrivals, barrier.released, barrier.arrival("c:1")}
    assert len(keys) == 4
    assert name not in keys
    start = name if b"{" in name else b"{" + name + b"}"
    assert all(key.startswith(start + b":redisson_py:") for key in keys)
    assert barrier.channel == b"redisson_py_barrier:" + start


def test_whole_numbers() -> None:
    assert check_whole(EXACT_LIMIT - 1) == EXACT_LIMIT - 1
    assert check_whole(0, "count", 0) == 0
    for value in (0, -1, EXACT_LIMIT):
        with pytest.raises(ValueError, match=r"n must be at least 1 and below 2\*\*53, not"):
            check_whole(value)
    others: tuple[object, ...] = (1.0, "1", None, True)
    for other in others:
        with pytest.raises(TypeError, match="count must be int, not"):
            check_whole(other, "count")
