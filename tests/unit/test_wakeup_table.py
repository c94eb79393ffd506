"""The rules of the table of waiters, one by one. Random schedules: test_wakeup_schedules.py."""

from __future__ import annotations

from typing import Any

import pytest

from redisson_py._answers import ALL
from redisson_py._commands.wakes import lock_wakes, read_write_wakes
from redisson_py._engine.wakeups import Channel, Seat, Table


def join(table: Table, count: int, channel: bytes = b"c") -> list[Seat]:
    return [table.join(channel, lock_wakes)[0] for _ in range(count)]


def woken(seats: list[Seat]) -> list[bool]:
    return [seat.woken for seat in seats]


def test_the_first_seat_of_a_channel_subscribes_and_no_other() -> None:
    table = Table()
    assert [table.join(b"c", lock_wakes)[1] for _ in range(3)] == [True, False, False]
    assert table.join(b"d", lock_wakes)[1]
    assert list(table.channels) == [b"c", b"d"]
    assert table.seats == 4


def test_one_release_wakes_one_seat_the_first() -> None:
    table = Table()
    seats = join(table, 3)
    table.message(b"c", b"0")
    assert woken(seats) == [True, False, False]


def test_the_next_release_wakes_the_next_seat() -> None:
    table = Table()
    seats = join(table, 3)
    table.message(b"c", b"0")
    table.message(b"c", b"0")
    assert woken(seats) == [True, True, False]
    assert table.wakeups == 2


def test_a_message_for_all_wakes_all() -> None:
    table = Table()
    seats = join(table, 3)
    table.message(b"c", b"1")
    assert woken(seats) == [True, True, True]


@pytest.mark.parametrize(("value", "count"), [(b"2", 2), (b"0", 0), (b"100", 3)])
def test_a_message_wakes_as_many_seats_as_it_is_worth(value: bytes, count: int) -> None:
    table = Table()

    def wakes(permits: int) -> int:
        return permits

    seats = [table.join(b"c", wakes)[0] for _ in range(3)]
    table.message(b"c", value)
    assert sum(woken(seats)) == count


def test_seats_are_woken_in_order_of_arrival_after_one_left() -> None:
    table = Table()
    first, second, third = join(table, 3)
    table.leave(first, now=0.0)
    (fourth,) = join(table, 1)
    table.message(b"c", b"0")
    table.message(b"c", b"0")
    assert woken([second, third, fourth]) == [True, True, False]


def test_a_wake_up_tells_the_waiting_task() -> None:
    table = Table()
    calls: list[str] = []
    table.join(b"c", lock_wakes, lambda: calls.append("first"))
    table.join(b"c", lock_wakes, lambda: calls.append("second"))
    table.message(b"c", b"0")
    assert calls == ["first"]


def test_a_seat_that_asks_again_forgets_its_wake_up() -> None:
    table = Table()
    first, second = join(table, 2)
    table.message(b"c", b"0")
    first.arm()
    table.message(b"c", b"0")
    assert woken([first, second]) == [True, False]


def test_a_woken_seat_that_leaves_passes_the_wake_up_on() -> None:
    table = Table()
    first, second, third = join(table, 3)
    table.message(b"c", b"0")
    table.leave(first, now=0.0)
    assert woken([second, third]) == [True, False]
    table.leave(second, now=0.0)
    assert woken([third]) == [True]


def test_a_wake_up_is_passed_to_the_first_seat_without_one() -> None:
    table = Table()
    first, second, third = join(table, 3)
    table.message(b"c", b"0")
    table.message(b"c", b"0")
    table.leave(first, now=0.0)
    assert woken([second, third]) == [True, True]


def test_a_seat_that_was_not_woken_leaves_without_a_trace() -> None:
    table = Table()
    first, second = join(table, 2)
    table.leave(first, now=0.0)
    assert not second.woken
    assert table.seats == 1


def test_a_seat_that_asked_leaves_without_waking_anybody() -> None:
    table = Table()
    first, second = join(table, 2)
    table.message(b"c", b"0")
    first.arm()
    table.leave(first, now=0.0)
    assert not second.woken


def test_leaving_twice_is_leaving_once() -> None:
    table = Table()
    first, second, third = join(table, 3)
    table.message(b"c", b"0")
    table.leave(first, now=0.0)
    table.leave(first, now=0.0)
    assert woken([second, third]) == [True, False]
    assert table.seats == 2


def test_a_new_connection_wakes_everybody() -> None:
    table = Table()
    seats = join(table, 2) + join(table, 1, b"d")
    table.wake_all()
    assert woken(seats) == [True, True, True]


def test_messages_are_counted_new_connections_too() -> None:
    table = Table()
    join(table, 1)
    channel = table.channel(b"c")
    assert channel is not None
    table.message(b"c", b"0")
    table.message(b"c", b"5")
    table.wake_all()
    assert channel.messages == 3


@pytest.mark.parametrize("payload", [b"", b"x", b"0x1", b"1.5", b"\xff", b"[1]"])
def test_what_is_no_number_is_ignored(payload: bytes) -> None:
    table = Table()
    seats = join(table, 1)
    table.message(b"c", payload)
    assert woken(seats) == [False]


@pytest.mark.parametrize(("message", "count"), [(0, 1), (1, ALL), (2, 0), (-1, 0), (2**70, 0)])
def test_a_lock_knows_two_messages(message: int, count: int) -> None:
    assert lock_wakes(message) == count


def test_a_message_on_another_channel_wakes_nobody() -> None:
    table = Table()
    seats = join(table, 1)
    table.message(b"d", b"0")
    assert woken(seats) == [False]
    assert list(table.channels) == [b"c"]


def test_a_channel_lingers_after_its_last_seat() -> None:
    table = Table()
    (seat,) = join(table, 1)
    table.leave(seat, now=10.0)
    assert table.lingering
    assert table.expired(before=9.9) == []
    assert table.join(b"c", lock_wakes)[1] is False, "it was subscribed still"
    assert not table.lingering


def test_an_idle_channel_is_dropped_and_subscribed_anew() -> None:
    table = Table()
    (seat,) = join(table, 1)
    table.leave(seat, now=10.0)
    assert [each.name for each in table.expired(before=10.0)] == [b"c"]
    assert list(table.channels) == []
    assert table.channel(b"c") is None
    assert table.join(b"c", lock_wakes)[1] is True


def test_a_channel_with_a_seat_is_never_dropped() -> None:
    table = Table()
    first, _ = join(table, 2)
    table.leave(first, now=10.0)
    assert table.expired(before=1e9) == []
    assert not table.lingering


def test_only_idle_channels_are_dropped() -> None:
    table = Table()
    (first,) = join(table, 1, b"c")
    (second,) = join(table, 1, b"d")
    join(table, 1, b"e")
    table.leave(first, now=1.0)
    table.leave(second, now=5.0)
    assert [each.name for each in table.expired(before=2.0)] == [b"c"]
    assert list(table.channels) == [b"d", b"e"]
    assert table.lingering


def test_a_wake_up_on_an_empty_channel_is_nobodys() -> None:
    table = Table()
    (seat,) = join(table, 1)
    table.message(b"c", b"0")
    table.leave(seat, now=0.0)
    (late,) = join(table, 1)
    assert not late.woken, "it has not asked yet, and will"


def test_an_early_end_wakes_all_that_wait_for_the_lock_in_its_queue_too_and_no_others() -> None:
    table = Table()
    seats = join(table, 2) + join(table, 1, b"c:id:1") + join(table, 1, b"c:id:2")
    others = join(table, 1, b"cd") + join(table, 1, b"cd:id:1")
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
    table.message(b"c", b"0")
    assert woken([idle, *seats]) == [False, True, False, True, True, False]


def test_a_wake_up_is_passed_on_to_one_that_follows_the_same_rule() -> None:
    table = Table()
    first, _ = table.join(b"c", lock_wakes)
    other, _ = table.join(b"c", read_write_wakes)
    next_one, _ = table.join(b"c", lock_wakes)
    first.wake()
    table.leave(first, now=0.0)
    assert woken([other, next_one]) == [False, True]
