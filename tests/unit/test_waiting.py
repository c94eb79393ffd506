"""The loop of every wait: ask, listen, ask again, and leave nothing behind on any way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from redisson_py._answers import CALLED, Busy, Wakes
from redisson_py._engine import waiting
from redisson_py._engine.bus import Bus
from redisson_py._engine.client_queue import WATCH_DELAY_SECONDS, QueueSleeper, Together
from redisson_py._engine.waiting import SAFETY_POLL_SECONDS, HeadStart, Sleeper, acquire
from redisson_py._engine.wakeups import Table
from redisson_py._loop import loop_time
from redisson_py._options import LAST_LOOK_SECONDS
from redisson_py._redis.commands.wakes import lock_wakes
from redisson_py._time import PUNCTUAL_SECONDS
from redisson_py.errors import ClientClosedError, ConnectionLostError
from tests.unit.fakes import FakeClock

Outcome = str | Busy
Reply = Outcome | BaseException
YES = "yes"
BUSY = Busy(retry_in=30.0)


class FakeRequest:
    """Answers what it was told to."""

    def __init__(self, *replies: Reply, head_start: HeadStart | None = None) -> None:
        self.replies = list(replies)
        self.head_start = head_start
        self.listens_first = head_start is not None
        self.channel = b"channel"
        self.wakes: Wakes = lock_wakes
        self.heard_busy_at = 0.0
        self.asked: list[float | None] = []
        self.undone = 0
        self.on_ask: Callable[[], object] = lambda: None

    async def run(self, deadline: float | None) -> Outcome:
        self.asked.append(deadline)
        self.on_ask()
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def undo(self) -> None:
        self.undone += 1


class FakeSleeper:
    """A place to sleep. Time passes as long as it sleeps."""

    def __init__(self, bus: FakeBus) -> None:
        self.bus = bus

    def arm(self) -> None:
        self.bus.log.append("arm")

    async def wait(self, seconds: float | None) -> None:
        assert seconds is not None, "every sleep is bounded"
        self.bus.sleeps.append(seconds)
        self.bus.clock.sleep(max(0.0, seconds - self.bus.early))

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        self.bus.log.append(f"turn beyond {beyond} for {seconds:.3f}")
        return self.bus.messages > beyond


class FakeBus:
    """Gives out places, and notes who listens."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.sleeps: list[float] = []
        self.messages = 0
        self.early = 0.0

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Iterator[Sleeper]:
        assert (channel, wakes) == (b"channel", lock_wakes)
        self.log.append("listen")
        try:
            yield FakeSleeper(self)
        finally:
            self.log.append("leave")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()

    async def sleep(seconds: float) -> None:
        clock.sleep(seconds)

    monkeypatch.setattr(waiting, "loop_time", clock.time)
    monkeypatch.setattr(waiting, "sleep", sleep)
    return clock


@pytest.fixture
def bus(clock: FakeClock) -> FakeBus:
    return FakeBus(clock)


async def test_busy_listens_before_it_asks_again(bus: FakeBus) -> None:
    request = FakeRequest(BUSY, YES)
    request.on_ask = lambda: bus.log.append("ask")
    assert await acquire(request, bus, None) == "yes"
    assert bus.log == ["ask", "listen", "arm", "ask", "leave"], "armed before each request"
    assert request.undone == 0


async def test_who_would_listen_first_and_has_no_time_left_asks(
    bus: FakeBus, clock: FakeClock
) -> None:
    request = FakeRequest(ConnectionLostError("no answer", maybe_held=False))
    request.listens_first = True
    with pytest.raises(ConnectionLostError):
        await acquire(request, bus, clock.time())
    assert len(request.asked) == 1


async def test_a_sleep_ends_when_the_server_said(bus: FakeBus) -> None:
    await acquire(FakeRequest(BUSY, Busy(retry_in=1.25), YES), bus, None)
    assert bus.sleeps == [1.25]


@pytest.mark.parametrize("retry_in", [None, 30.0, 1e9])
async def test_no_sleep_is_longer_than_the_safety_poll(
    bus: FakeBus, retry_in: float | None
) -> None:
    await acquire(FakeRequest(BUSY, *[Busy(retry_in)] * 50, YES), bus, None)
    assert all(
        SAFETY_POLL_SECONDS <= seconds <= 1.5 * SAFETY_POLL_SECONDS for seconds in bus.sleeps
    )
    assert len({*bus.sleeps}) > 1, "waiters of many processes must not poll in step"


@pytest.mark.parametrize("retry_in", [0.0, -1.0, 0.001])
async def test_a_server_that_names_no_moment_is_not_flooded(bus: FakeBus, retry_in: float) -> None:
    await acquire(FakeRequest(BUSY, Busy(retry_in), YES), bus, None)
    assert bus.sleeps == [0.05]


async def test_a_sleep_ends_at_the_deadline_with_a_last_look_before(bus: FakeBus) -> None:
    request = FakeRequest(BUSY, BUSY, BUSY)
    assert await acquire(request, bus, bus.clock.present + 2.0) is None
    assert bus.sleeps == [2.0 - LAST_LOOK_SECONDS, LAST_LOOK_SECONDS]


@pytest.mark.parametrize(
    ("early", "requests"), [(PUNCTUAL_SECONDS * 0.9, 3), (PUNCTUAL_SECONDS * 1.1, 4)]
)
async def test_a_timer_that_is_a_little_early_leaves_no_time_for_another_request(
    bus: FakeBus, early: float, requests: int
) -> None:
    """uvloop's clock has whole milliseconds, so its timers can fire before their moment.

    A message may come then as well. In no case does the wait end before its deadline.
    """
    bus.early = early
    request = FakeRequest(*[BUSY] * 5)
    request.on_ask = lambda: setattr(bus, "early", early if len(request.asked) == 3 else 0.0)
    deadline = bus.clock.present + 2.0
    assert await acquire(request, bus, deadline) is None
    assert len(request.asked) == requests
    assert bus.clock.present == pytest.approx(deadline, abs=1e-6)


async def test_a_wait_that_is_cancelled_just_before_its_deadline_is_undone(
    bus: FakeBus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A semaphore's request may have been passed a permit meanwhile."""

    async def cancelled(seconds: float) -> None:
        assert request.undone == 0
        raise asyncio.CancelledError

    monkeypatch.setattr(waiting, "sleep", cancelled)
    bus.early = PUNCTUAL_SECONDS * 0.9
    request = FakeRequest(BUSY, BUSY, BUSY)
    with pytest.raises(asyncio.CancelledError):
        await acquire(request, bus, bus.clock.present + 0.3)
    assert request.undone == 1


@pytest.mark.parametrize("queued", [False, True])
async def test_timeout_is_none_and_a_queue_is_left(bus: FakeBus, queued: bool) -> None:
    request = FakeRequest(*[Busy(retry_in=1.0, queued=queued)] * 10)
    assert await acquire(request, bus, bus.clock.present + 3.0) is None
    assert request.undone == queued
    assert bus.log[-1] == "leave"


async def test_a_deadline_that_has_passed_asks_once(bus: FakeBus) -> None:
    request = FakeRequest(BUSY)
    assert await acquire(request, bus, bus.clock.present) is None
    assert len(request.asked) == 1
    assert bus.log == []


@pytest.mark.parametrize(
    ("reply", "result", "undone"),
    [(YES, "yes", 0), (BUSY, None, 0), (Busy(1.0, queued=True), None, 1)],
)
async def test_once_asks_once(
    bus: FakeBus, reply: Outcome, result: str | None, undone: int
) -> None:
    request = FakeRequest(reply, head_start=HeadStart(5, bus.clock.present + 1, 0.003))
    assert await acquire(request, bus, None, once=True) == result
    assert len(request.asked) == 1
    assert bus.log == []
    assert request.undone == undone


@pytest.mark.parametrize(
    ("messages", "replies", "taken"),
    [(8, [YES], True), (8, [BUSY, YES], True), (7, [YES], False), (7, [BUSY, YES], False)],
)
async def test_a_head_start_is_taken_if_its_messages_came_before_we_were_granted(
    bus: FakeBus, messages: int, replies: list[Outcome], taken: bool
) -> None:
    bus.messages = messages
    head_start = HeadStart(7, bus.clock.present + 0.003, 0.003)
    assert await acquire(FakeRequest(*replies, head_start=head_start), bus, None) == "yes"
    assert head_start.taken == taken


@pytest.mark.parametrize("before", [(), (BUSY,)])
@pytest.mark.parametrize(
    "error",
    [ConnectionLostError("gone", maybe_held=True), ClientClosedError("closed"), ValueError("bug")],
)
async def test_an_error_comes_through_after_the_undo(
    bus: FakeBus, before: tuple[Outcome, ...], error: Exception
) -> None:
    request = FakeRequest(*before, error)
    with pytest.raises(type(error)) as caught:
        await acquire(request, bus, None)
    assert caught.value is error
    assert request.undone == 1


def unanswered() -> ConnectionLostError:
    return ConnectionLostError("no answer", maybe_held=True)


@pytest.mark.parametrize("others_first", [False, True])
async def test_no_answer_until_the_deadline_is_not_busy(bus: FakeBus, others_first: bool) -> None:
    head_start = HeadStart(7, bus.clock.present + 0.003, 0.003) if others_first else None
    late = unanswered()
    request = FakeRequest(late, head_start=head_start)
    request.on_ask = lambda: bus.clock.sleep(3.0)
    with pytest.raises(ConnectionLostError) as caught:
        await acquire(request, bus, bus.clock.present + 2.0)
    assert caught.value is late
    assert request.undone == 1


async def test_busy_a_while_ago_and_no_answer_since_is_not_busy(bus: FakeBus) -> None:
    request = FakeRequest(BUSY, BUSY, unanswered())
    request.on_ask = lambda: bus.clock.sleep(0.6 if len(request.asked) == 3 else 0.0)
    with pytest.raises(ConnectionLostError):
        await acquire(request, bus, bus.clock.present + 2.0)
    assert len(request.asked) == 3
    assert request.undone == 1


async def test_busy_shortly_before_a_late_answer_is_busy(bus: FakeBus) -> None:
    """That others held it a moment ago is known; that the last answer was slow changes nothing."""
    request = FakeRequest(Busy(retry_in=1.0), Busy(retry_in=0.2), unanswered())
    request.on_ask = lambda: bus.clock.sleep(1.8 if len(request.asked) == 1 else 0.15)
    assert await acquire(request, bus, bus.clock.present + 2.2) is None
    assert len(request.asked) == 3
    assert request.undone == 1


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_no_answer_before_the_deadline_is_an_error_of_its_own(
    bus: FakeBus, timeout: float | None
) -> None:
    request = FakeRequest(unanswered())
    deadline = None if timeout is None else bus.clock.present + timeout
    with pytest.raises(ConnectionLostError):
        await acquire(request, bus, deadline)
    assert request.undone == 1


async def test_a_client_in_the_queue_sleeps_until_the_lease_has_ended() -> None:
    # It would ask all the time until then.
    table = Table()
    sleeper = QueueSleeper(Bus(table), b"channel", lock_wakes)
    sleeper.seat, _ = table.join(b"channel:own", sleeper.heard, sleeper.rouse)
    before = loop_time()
    await sleeper.wait(PUNCTUAL_SECONDS)
    # uvloop's clock has whole milliseconds.
    assert loop_time() - before >= PUNCTUAL_SECONDS - 0.001


@pytest.mark.parametrize("together", [None, Together()])
@pytest.mark.parametrize("watches", [False, True])
async def test_a_client_in_the_queue_looks_if_it_was_notified_between_its_request_and_the_answer(
    watches: bool, together: Together | None
) -> None:
    """A loop that is busy reads both at once, and the task that asked goes on later."""
    table = Table()
    sleeper = QueueSleeper(Bus(table), b"channel", lock_wakes, together)
    sleeper.seat, _ = table.join(b"channel:own", sleeper.heard, sleeper.rouse)
    if watches:
        assert sleeper.placed(Busy(None, position=1, calls=False))
    sleeper.arm()
    if watches:
        # A client before this one was called.
        table.rang(b"channel", CALLED)
    else:
        table.rang(b"channel:own", 2)
    assert not sleeper.placed(Busy(None, position=1 if watches else 2, calls=True))
    before = loop_time()
    async with asyncio.timeout(10):
        await sleeper.wait(600)
    assert loop_time() - before >= WATCH_DELAY_SECONDS / 2
    sleeper.left()
