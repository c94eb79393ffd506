"""The bus joins the table to the stream: what is subscribed, who sleeps, who is woken."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from redisson_py._commands.wakes import lock_wakes
from redisson_py._engine import bus as bus_module
from redisson_py._engine.bus import LINGER, Bus
from redisson_py._engine.wakeups import Table
from tests.unit.fakes import FakeClock

CHANNEL = b"c"


class FakeStream:
    """Takes down what is subscribed; serves every key."""

    def __init__(self) -> None:
        self.log: list[tuple[str, bytes]] = []

    def stream_for(self, key: bytes) -> FakeStream:
        return self

    def subscribe(self, channel: bytes) -> None:
        self.log.append(("subscribe", channel))

    def unsubscribe(self, channel: bytes) -> None:
        self.log.append(("unsubscribe", channel))


@pytest.fixture
def stream() -> FakeStream:
    return FakeStream()


@pytest.fixture
def bus(stream: FakeStream) -> Bus:
    bus = Bus(Table())
    bus.attach(cast("Any", stream))
    return bus


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(bus_module, "loop_time", clock.time)
    monkeypatch.setattr(bus_module, "call_later", clock.call_later)
    return clock


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_the_first_listener_subscribes_before_anything_it_sends(
    bus: Bus, stream: FakeStream
) -> None:
    with bus.listen(CHANNEL, lock_wakes):
        assert stream.log == [("subscribe", CHANNEL)]
        with bus.listen(CHANNEL, lock_wakes):
            assert len(stream.log) == 1
    bus.close()


async def test_a_message_ends_the_sleep(bus: Bus) -> None:
    with bus.listen(CHANNEL, lock_wakes) as sleeper:
        sleeper.arm()
        sleep = asyncio.create_task(sleeper.wait(None))
        await turns()
        assert not sleep.done()
        bus.table.message(CHANNEL, b"0")
        await sleep
    bus.close()


@pytest.mark.parametrize("seconds", [0.01, 0.0, -1.0])
async def test_a_sleep_is_bounded(bus: Bus, seconds: float) -> None:
    with bus.listen(CHANNEL, lock_wakes) as sleeper:
        await sleeper.wait(seconds)
    bus.close()


async def test_one_message_more_ends_the_turn_of_others(bus: Bus) -> None:
    with bus.listen(CHANNEL, lock_wakes) as sleeper:
        beyond = bus.own_message(CHANNEL)
        turn = asyncio.create_task(sleeper.wait_for_messages(beyond, 60.0))
        await turns()
        bus.table.message(CHANNEL, b"0")
        await turns()
        assert not turn.done(), "that was the message of our own release"
        bus.table.message(CHANNEL, b"0")
        assert await turn
    bus.close()


async def test_the_turn_of_others_is_bounded(bus: Bus) -> None:
    with bus.listen(CHANNEL, lock_wakes) as sleeper:
        assert not await sleeper.wait_for_messages(5, 0.01)
    bus.close()


async def test_our_own_message_is_numbered_only_where_we_listen(bus: Bus) -> None:
    assert bus.own_message(CHANNEL) == 0
    with bus.listen(CHANNEL, lock_wakes):
        assert bus.own_message(CHANNEL) == 1
        bus.table.message(CHANNEL, b"0")
        assert bus.own_message(CHANNEL) == 2
    bus.close()


async def test_a_channel_stays_subscribed_for_a_while(
    bus: Bus, stream: FakeStream, clock: FakeClock
) -> None:
    for _ in range(10):
        with bus.listen(CHANNEL, lock_wakes):
            clock.sleep(LINGER * 0.3)
        clock.sleep(LINGER * 0.3)
    assert stream.log == [("subscribe", CHANNEL)]
    clock.sleep(3 * LINGER)
    assert stream.log == [("subscribe", CHANNEL), ("unsubscribe", CHANNEL)]
    assert clock.pending == []


async def test_idle_channels_share_one_timer(bus: Bus, clock: FakeClock) -> None:
    for number in range(20):
        with bus.listen(b"c%d" % number, lock_wakes):
            pass
    assert len(clock.pending) == 1
    clock.sleep(3 * LINGER)
    assert not bus.table.channels


async def test_a_new_connection_subscribes_again_and_wakes_all(
    bus: Bus, stream: FakeStream
) -> None:
    with bus.listen(b"c", lock_wakes) as one, bus.listen(b"d", lock_wakes) as other:
        stream.log.clear()
        bus.resubscribe(lambda channel: True)
        assert stream.log == [("subscribe", b"c"), ("subscribe", b"d")]
        await one.wait(None)
        await other.wait(None)
    bus.close()


async def test_closing_stops_the_timer(bus: Bus, clock: FakeClock) -> None:
    with bus.listen(CHANNEL, lock_wakes):
        pass
    assert clock.pending
    bus.close()
    bus.close()
    assert clock.pending == []
