"""The rules of the table of waiters, one by one. Random schedules: test_waiting_schedules.py."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py._answers import ALL
from redisson_py._engine.wakeups import Channel, Seat, Table
from redisson_py._redis.commands.wakes import lock_wakes, read_write_wakes


def join(
    table: Table, count: int, channel: bytes = b"c", beside: bytes | None = None
) -> list[Seat]:
    return [table.join(channel, lock_wakes, beside=beside)[0] for _ in range(count)]


def woken(seats: list[Seat]) -> list[bool]:
    return [seat.woken for seat in seats]


@pytest.mark.parametrize(("message", "count"), [(0, 1), (1, ALL), (2, 0), (-1, 0), (2**70, 0)])
def test_a_lock_knows_two_messages(message: int, count: int) -> None:
    assert lock_wakes(message) == count


def test_an_early_end_wakes_all_that_wait_for_the_lock_in_its_queue_too_and_no_others() -> None:
    table = Table()
    seats = join(table, 2) + join(table, 1, b"c1", b"c") + join(table, 1, b"c2", b"c")
    others = join(table, 1, b"cd") + join(table, 1, b"cd1", b"cd")
    table.ended_early(b"c")
    assert woken(seats) == [True, True, True, True]
    assert woken(others) == [False, False]
    table.ended_early(b"nobody waits")
    for seat in seats:
        table.leave(seat, now=0.0)
    table.expired(before=1.0)
    table.ended_early(b"c")


def test_an_early_end_costs_the_same_however_many_other_channels_there_are() -> None:
    table = Table()
    for number in range(1000):
        join(table, 1, b"d%d" % number)
    seen: list[bytes] = []

    class Watched(dict[bytes, Channel]):
        def values(self) -> Any:
            seen.extend(self)
            return super().values()

    table.channels = Watched(table.channels)
    table.ended_early(b"d7")
    assert not seen


def test_who_sits_by_other_rules_does_not_use_up_a_message() -> None:
    def first_two(message: int) -> int:
        return 2

    def nobody(message: int) -> int:
        return 0

    table = Table()
    idle, _ = table.join(b"c", nobody)
    seats = [*join(table, 2), *[table.join(b"c", first_two)[0] for _ in range(3)]]
    table.rang(b"c", 0)
    assert woken([idle, *seats]) == [False, True, False, True, True, False]


def test_a_wake_up_is_passed_on_to_one_that_follows_the_same_rule() -> None:
    table = Table()
    first, _ = table.join(b"c", lock_wakes)
    other, _ = table.join(b"c", read_write_wakes)
    next_one, _ = table.join(b"c", lock_wakes)
    first.wake()
    table.leave(first, now=0.0)
    assert woken([other, next_one]) == [False, True]
