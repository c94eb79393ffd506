"""The loop of every wait: ask, listen, ask again, and leave nothing behind on any way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import pytest

from redisson_py import _waiting
from redisson_py._stream.call import LateReplyError
from redisson_py._waiting import SAFETY_POLL, Busy, Granted, Turn, Waiter, acquire
from redisson_py._wakeups.table import Wakes, lock_wakes
from redisson_py.errors import AcquireTimeoutError, ClientClosedError, ConnectionLostError
from tests.unit.fakes import FakeClock

Outcome = Granted[str] | Busy
Reply = Outcome | BaseException | asyncio.Event
YES = Granted("yes")
BUSY = Busy(retry_in=30.0)


class FakeAttempt:
    """Answers what it was told to; an event is a reply that is still under way."""

    def __init__(self, *replies: Reply, turn: Turn | None = None) -> None:
        self.replies = list(replies)
        self.turn = turn
        self.channel = b"channel"
        self.wakes: Wakes = lock_wakes
        self.asked: list[float | None] = []
        self.undone = 0
        self.in_flight = asyncio.Event()
        self.on_ask: Callable[[], object] = lambda: None

    async def run(self, deadline: float | None) -> Outcome:
        self.asked.append(deadline)
        self.on_ask()
        reply = self.replies.pop(0)
        if isinstance(reply, asyncio.Event):
            self.in_flight.set()
            await reply.wait()
            return YES
        if isinstance(reply, BaseException):
            raise reply
        return reply

    def undo(self) -> None:
        self.undone += 1


class FakeWaiter:
    """A place to sleep. Time passes as long as it sleeps, unless it is woken."""

    def __init__(self, bus: FakeBus) -> None:
        self.bus = bus
        self.woken = False

    def arm(self) -> None:
        self.woken = False
        self.bus.log.append("arm")

    async def wait(self, seconds: float | None) -> None:
        assert seconds is not None, "every sleep is bounded"
        self.bus.sleeps.append(seconds)
        if self.woken:
            return
        self.bus.asleep.set()
        if self.bus.sleeps_for_ever:
            await asyncio.Event().wait()
        self.bus.clock.sleep(max(0.0, seconds))

    async def wait_for_messages(self, beyond: int, seconds: float) -> bool:
        self.bus.log.append(f"turn beyond {beyond} for {seconds:.3f}")
        if self.bus.sleeps_for_ever:
            self.bus.asleep.set()
            await asyncio.Event().wait()
        return self.bus.messages > beyond


class FakeBus:
    """Gives out places, and notes who listens."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.log: list[str] = []
        self.sleeps: list[float] = []
        self.sleeps_for_ever = False
        self.messages = 0
        self.asleep = asyncio.Event()
        self.waiter: FakeWaiter | None = None

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Iterator[Waiter]:
        assert (channel, wakes) == (b"channel", lock_wakes)
        self.log.append("listen")
        self.waiter = FakeWaiter(self)
        try:
            yield self.waiter
        finally:
            self.log.append("leave")

    def wake(self) -> None:
        assert self.waiter is not None
        self.waiter.woken = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock()
    monkeypatch.setattr(_waiting, "running_loop", lambda: clock)
    return clock


@pytest.fixture
def bus(clock: FakeClock) -> FakeBus:
    return FakeBus(clock)


async def test_uncontended_is_one_question_and_no_subscription(bus: FakeBus) -> None:
    attempt = FakeAttempt(YES)
    assert await acquire(attempt, bus, None) == "yes"
    assert len(attempt.asked) == 1
    assert bus.log == []
    assert attempt.undone == 0


async def test_busy_listens_before_it_asks_again(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY, YES)
    attempt.on_ask = lambda: bus.log.append("ask")
    assert await acquire(attempt, bus, None) == "yes"
    assert bus.log == ["ask", "listen", "arm", "ask", "leave"]
    assert attempt.undone == 0


async def test_a_wake_up_between_question_and_sleep_is_not_lost(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY, BUSY, YES)
    bus.sleeps_for_ever = True

    def wake_while_the_question_is_under_way() -> None:
        if bus.waiter is not None:
            bus.wake()

    attempt.on_ask = wake_while_the_question_is_under_way
    assert await acquire(attempt, bus, None) == "yes"


async def test_every_question_is_armed_anew(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY, BUSY, BUSY, YES)
    assert await acquire(attempt, bus, None) == "yes"
    assert bus.log.count("arm") == 3
    assert len(bus.sleeps) == 2


async def test_a_sleep_ends_when_the_server_said(bus: FakeBus) -> None:
    await acquire(FakeAttempt(BUSY, Busy(retry_in=1.25), YES), bus, None)
    assert bus.sleeps == [1.25]


@pytest.mark.parametrize("retry_in", [None, 30.0, 1e9])
async def test_no_sleep_is_longer_than_the_safety_poll(
    bus: FakeBus, retry_in: float | None
) -> None:
    await acquire(FakeAttempt(BUSY, *[Busy(retry_in)] * 50, YES), bus, None)
    assert all(SAFETY_POLL <= seconds <= 1.5 * SAFETY_POLL for seconds in bus.sleeps)
    assert len({*bus.sleeps}) > 1, "waiters of many processes must not poll in step"


@pytest.mark.parametrize("retry_in", [0.0, -1.0, 0.001])
async def test_a_server_that_names_no_moment_is_not_flooded(bus: FakeBus, retry_in: float) -> None:
    await acquire(FakeAttempt(BUSY, Busy(retry_in), YES), bus, None)
    assert bus.sleeps == [0.05]


async def test_a_sleep_ends_at_the_deadline(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY, BUSY)
    assert await acquire(attempt, bus, bus.clock.present + 2.0) is None
    assert bus.sleeps == [2.0]


async def test_timeout_is_none_and_nothing_to_undo(bus: FakeBus) -> None:
    attempt = FakeAttempt(*[Busy(retry_in=1.0)] * 10)
    assert await acquire(attempt, bus, bus.clock.present + 3.0) is None
    assert attempt.undone == 0
    assert bus.log[-1] == "leave"


async def test_timeout_in_a_queue_is_announced(bus: FakeBus) -> None:
    attempt = FakeAttempt(*[Busy(retry_in=1.0, queued=True)] * 10)
    assert await acquire(attempt, bus, bus.clock.present + 3.0) is None
    assert attempt.undone == 1


async def test_a_deadline_that_has_passed_asks_once(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY)
    assert await acquire(attempt, bus, bus.clock.present) is None
    assert len(attempt.asked) == 1
    assert bus.log == []


async def test_every_question_knows_the_deadline(bus: FakeBus) -> None:
    attempt = FakeAttempt(Busy(1.0), Busy(1.0), YES)
    deadline = bus.clock.present + 10
    await acquire(attempt, bus, deadline)
    assert attempt.asked == [deadline] * 3


@pytest.mark.parametrize(("reply", "result"), [(YES, "yes"), (BUSY, None)])
async def test_once_asks_once(bus: FakeBus, reply: Outcome, result: str | None) -> None:
    attempt = FakeAttempt(reply, turn=Turn(5, bus.clock.present + 1, 0.003))
    assert await acquire(attempt, bus, None, once=True) == result
    assert len(attempt.asked) == 1
    assert bus.log == []
    assert attempt.undone == 0


async def test_once_in_a_queue_leaves_it(bus: FakeBus) -> None:
    attempt = FakeAttempt(Busy(1.0, queued=True))
    assert await acquire(attempt, bus, None, once=True) is None
    assert attempt.undone == 1


async def test_a_turn_of_others_is_waited_for_before_the_first_question(bus: FakeBus) -> None:
    attempt = FakeAttempt(YES, turn=Turn(7, bus.clock.present + 0.003, 0.003))
    attempt.on_ask = lambda: bus.log.append("ask")
    assert await acquire(attempt, bus, None) == "yes"
    assert bus.log == ["listen", "turn beyond 7 for 0.003", "arm", "ask", "leave"]


@pytest.mark.parametrize(
    ("messages", "replies", "taken"),
    [(8, [YES], True), (8, [BUSY, YES], True), (7, [YES], False), (7, [BUSY, YES], False)],
)
async def test_a_turn_is_taken_if_its_messages_came_before_we_were_granted(
    bus: FakeBus, messages: int, replies: list[Outcome], taken: bool
) -> None:
    bus.messages = messages
    turn = Turn(7, bus.clock.present + 0.003, 0.003)
    assert await acquire(FakeAttempt(*replies, turn=turn), bus, None) == "yes"
    assert turn.taken == taken


async def test_way_is_given_again_after_each_wake_up(bus: FakeBus) -> None:
    attempt = FakeAttempt(BUSY, YES, turn=Turn(7, bus.clock.present + 0.003, 0.005))
    attempt.on_ask = lambda: bus.log.append("ask")
    await acquire(attempt, bus, None)
    first, again = "turn beyond 7 for 0.003", "turn beyond 7 for 0.005"
    assert bus.log == ["listen", first, "arm", "ask", again, "arm", "ask", "leave"]


CancelledHow = Callable[[FakeAttempt, FakeBus], "asyncio.Task[object]"]


def by_task(attempt: FakeAttempt, bus: FakeBus) -> asyncio.Task[object]:
    async def work() -> object:
        return await acquire(attempt, bus, None)

    task = asyncio.create_task(work())
    attempt_or_sleep(attempt, bus, task.cancel)
    return task


def by_scope(attempt: FakeAttempt, bus: FakeBus) -> asyncio.Task[object]:
    async def work() -> object:
        with anyio.CancelScope() as scope:
            attempt_or_sleep(attempt, bus, scope.cancel)
            return await acquire(attempt, bus, None)
        raise asyncio.CancelledError

    return asyncio.create_task(work())


def by_timeout(attempt: FakeAttempt, bus: FakeBus) -> asyncio.Task[object]:
    async def work() -> object:
        try:
            async with asyncio.timeout(None) as limit:
                attempt_or_sleep(attempt, bus, lambda: limit.reschedule(0))
                return await acquire(attempt, bus, None)
        except TimeoutError:
            raise asyncio.CancelledError from None

    return asyncio.create_task(work())


def attempt_or_sleep(attempt: FakeAttempt, bus: FakeBus, strike: Callable[[], object]) -> None:
    """Strike as soon as a reply is in flight or the waiter sleeps."""

    async def watch() -> None:
        events = [attempt.in_flight, bus.asleep]
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        strike()
        await asyncio.wait(waits)

    bus.watcher = asyncio.create_task(watch())  # type: ignore[attr-defined]  # kept alive


ways_out = pytest.mark.parametrize("cancelled", [by_task, by_scope, by_timeout])


@ways_out
async def test_cancelled_with_the_first_reply_in_flight_is_undone_once(
    bus: FakeBus, cancelled: CancelledHow
) -> None:
    attempt = FakeAttempt(asyncio.Event())
    await expect_cancelled(cancelled(attempt, bus))
    assert attempt.undone == 1
    assert bus.log == []


@ways_out
async def test_cancelled_with_a_later_reply_in_flight_is_undone_once(
    bus: FakeBus, cancelled: CancelledHow
) -> None:
    attempt = FakeAttempt(BUSY, asyncio.Event())
    await expect_cancelled(cancelled(attempt, bus))
    assert attempt.undone == 1
    assert bus.log == ["listen", "arm", "leave"]


@ways_out
async def test_cancelled_asleep_is_undone_once(bus: FakeBus, cancelled: CancelledHow) -> None:
    bus.sleeps_for_ever = True
    attempt = FakeAttempt(BUSY, BUSY)
    await expect_cancelled(cancelled(attempt, bus))
    assert attempt.undone == 1
    assert bus.log[-1] == "leave"


@ways_out
async def test_cancelled_in_the_turn_of_others_has_asked_nothing(
    bus: FakeBus, cancelled: CancelledHow
) -> None:
    bus.sleeps_for_ever = True
    attempt = FakeAttempt(turn=Turn(0, bus.clock.present + 1, 0.003))
    await expect_cancelled(cancelled(attempt, bus))
    assert attempt.asked == []
    assert bus.log[-1] == "leave"


async def test_cancelled_in_the_turn_the_reply_came_is_undone(bus: FakeBus) -> None:
    reply = asyncio.Event()
    attempt = FakeAttempt(reply)
    task = asyncio.create_task(acquire(attempt, bus, None))
    await attempt.in_flight.wait()
    reply.set()
    task.cancel()
    await expect_cancelled(task)
    assert attempt.undone == 1


async def expect_cancelled(task: asyncio.Task[object] | asyncio.Task[str | None]) -> None:
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.parametrize("before", [(), (BUSY,)])
@pytest.mark.parametrize(
    "error",
    [ConnectionLostError("gone", maybe_held=True), ClientClosedError("closed"), ValueError("bug")],
)
async def test_an_error_comes_through_after_the_undo(
    bus: FakeBus, before: tuple[Outcome, ...], error: Exception
) -> None:
    attempt = FakeAttempt(*before, error)
    with pytest.raises(type(error)) as caught:
        await acquire(attempt, bus, None)
    assert caught.value is error
    assert attempt.undone == 1


async def test_an_answer_later_than_the_deadline_is_a_timeout(bus: FakeBus) -> None:
    late = LateReplyError("no answer", maybe_held=True)
    attempt = FakeAttempt(late)
    attempt.on_ask = lambda: bus.clock.sleep(3.0)
    with pytest.raises(AcquireTimeoutError) as caught:
        await acquire(attempt, bus, bus.clock.present + 2.0)
    assert caught.value.__cause__ is late
    assert attempt.undone == 1


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_no_answer_before_the_deadline_is_an_error_of_its_own(
    bus: FakeBus, timeout: float | None
) -> None:
    attempt = FakeAttempt(LateReplyError("no answer", maybe_held=True))
    deadline = None if timeout is None else bus.clock.present + timeout
    with pytest.raises(LateReplyError):
        await acquire(attempt, bus, deadline)
    assert attempt.undone == 1
