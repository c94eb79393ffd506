"""How often those ask that wait in the queue, by their place, the pace and the lease."""

from __future__ import annotations

import asyncio
import random

import pytest

from redisson_py._stores.mysql import polling
from redisson_py._stores.mysql.polling import Polls


class Clock:
    now = 1000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(polling, "now", lambda: clock.now)
    # Without jitter.
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    return clock


def polls(rang: list[str] | None = None, longest: float = 0.5) -> Polls:
    heard = [] if rang is None else rang
    return Polls(longest, lambda name, _: heard.append(name))


def asked(store: Polls, clock: Clock, seconds: float, position: int, hold: float = 0.0) -> int:
    """Return how often one asks in some seconds; with a hold, places move."""
    began, number, left = clock.now, 0, position
    while clock.now < began + seconds:
        if hold:
            left = position - int((clock.now - began) / hold)
            if left < 0:
                store.granted("k", "o")
                return number
        clock.now += max(store.again("k", "o", left, 30.0), 0.05)
        number += 1
    return number


async def test_the_first_two_ask_often_at_first_and_the_longer_a_hold_lasts_the_less(
    clock: Clock,
) -> None:
    for position, most in ((0, 10), (1, 8)):
        store = polls()
        assert most / 2 < asked(store, clock, 0.5, position) <= most
        assert asked(store, clock, 9.5, position) < 60
        # Half a second from now on.
        assert 199 <= asked(store, clock, 100.0, position) <= 201
        store.clear()


async def test_the_others_ask_as_their_moment_comes_near(clock: Clock) -> None:
    """With a known pace: at most as many times as two for each of those near the head."""
    store = polls(longest=60.0)
    asked(store, clock, 100.0, 8, hold=1.0)
    numbers = {
        position: asked(store, clock, 1000.0, position, hold=1.0) for position in (4, 8, 16, 32)
    }
    assert numbers[32] <= numbers[4] + 3 * 4


async def test_nobody_asks_less_often_than_the_longest_interval(clock: Clock) -> None:
    for longest in (0.02, 0.5, 3.0):
        store = polls(longest=longest)
        for position in (None, 0, 1, 2, 1000):
            for _ in range(200):
                interval = store.again("k", f"{position}", position, 30.0)
                assert min(longest, polling._SHORTEST_POLL) <= interval <= longest
                clock.now += interval
                # A name waits for at least as long as it says to sleep.
                assert store.patience(f"{position}")[1] > interval
        store.clear()


async def test_who_joins_as_one_of_the_first_two_asks_within_its_patience(clock: Clock) -> None:
    store = polls()
    fast, usual = store.patience("o")
    assert fast < usual
    for position in (0, 1):
        assert store.again("k", f"{position}", position, 30.0) < fast
        assert store.patience(f"{position}") == (fast, fast)
    assert store.again("k", "2", 200, 30.0) < usual
    assert store.patience("2") == (fast, usual)
    store.clear()


async def test_the_first_two_ask_when_the_lease_ends_and_often_when_it_has(clock: Clock) -> None:
    store = polls()
    for left, most in ((0.02, 0.02), (0.0, 0.05)):
        for position in range(4):
            store.again("k", f"{position}", position, 30.0)
            clock.now += 10.0
            assert (store.again("k", f"{position}", position, left) <= most) == (position < 2)
    store.clear()


async def test_a_fast_pace_rings_before_the_waiting_loop_would_ask(clock: Clock) -> None:
    rang: list[str] = []
    store = polls(rang)
    for _ in range(5):
        store.again("k", "o", 1, 30.0)
        clock.now += 0.01
        store.again("k", "o", 0, 30.0)
        clock.now += 0.01
        store.granted("k", "o")
    assert store.again("k", "o", 0, 30.0) <= 0.01
    async with asyncio.timeout(20):
        while not rang:
            await asyncio.sleep(0)
    assert rang == ["k"]
    # Not for who waits no more.
    store.again("k", "o", 0, 30.0)
    assert store.forget("o")
    assert not store.forget("o")
    await asyncio.sleep(0.02)
    assert rang == ["k"]


async def test_paces_are_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("redisson_py._stores.remembered.MOST", 2)
    store = polls()
    for name in "abcab":
        store.again(name, "o", 0, 30.0)
        store.granted(name, "o")
    assert list(store._paces) == ["a", "b"]
    assert not store._waiters
