"""What a busy service asks of its locks: many requests a second, and a count of the answers.

Each request is answered in exactly one of three ways: granted, busy, no answer. Whatever else comes
out of a call is a finding. How late an answer came is counted in steps of ten milliseconds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    LeaseLostError,
    Redisson,
    RedissonError,
    ReleaseFailedError,
)
from redisson_py._options import LAST_LOOK
from redisson_py.barriers.arrival import LEAVE_REPLY_WAIT

Answer = Literal["granted", "busy", "no answer"]

#: Names that the requests of one kind share, so that some wait for others.
HOT = 20
#: Seconds for which a request works under what it was granted.
WORK = 0.005
#: How often new requests are made, in seconds.
PAUSE = 0.005
#: Steps of lateness, in seconds.
STEP = 0.01


class Releasable(Protocol):
    """What was granted."""

    async def release(self) -> None: ...


@dataclass
class Silence:
    """When Redis was away, on the clock of the event loop.

    Attributes:
        begun: Nothing that was asked from then on got to Redis and back,
        over: until then; None while it lasts.
    """

    begun: float
    over: float | None = None

    def covers(self, asked: float, answered: float) -> bool:
        """Whether Redis cannot have said anything between two moments."""
        return self.begun <= asked and (self.over is None or answered <= self.over)


@dataclass
class Tally:
    """What became of the requests.

    Attributes:
        answers: How many of each kind got which answer, in all and during the outage.
        releases: What became of the releases.
        lateness: Steps beyond their time, of requests answered during the outage.
        latest: The longest that a request of each kind took beyond its time, in seconds.
        overdue: Requests answered later than their time and a tenth, during the outage, for which
            this machine had no excuse.
        stall: The longest time for which the event loop was late, and the seconds of it that this
            process worked.
        false_busy: Requests answered "busy" long after Redis had said anything.
        unexpected: Answers that are none of the three.
    """

    started: int = 0
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    during: Counter[str] = field(default_factory=Counter)
    releases: Counter[str] = field(default_factory=Counter)
    lateness: Counter[int] = field(default_factory=Counter)
    latest: dict[str, float] = field(default_factory=dict)
    overdue: int = 0
    stall: float = 0.0
    stall_worked: float = 0.0
    false_busy: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    maybe_held: int = 0

    @property
    def answered(self) -> int:
        return self.answers.total()

    def late(self, share: float) -> float:
        """Return how late this share of the requests was at most, in seconds."""
        left = self.lateness.total() * share
        for step in sorted(self.lateness):
            left -= self.lateness[step]
            if left <= 0:
                return step * STEP
        return 0.0


@dataclass(frozen=True)
class Kind:
    """One thing that a service asks for.

    Attributes:
        share: How many of a hundred requests.
        ask: Asks, with a timeout; returns what must be released, or whether it was granted.
        timeouts: From which its timeout is drawn; None: it has no timeout of its own.
        grace: Seconds that it may take beyond that, as documented.
    """

    name: str
    share: int
    ask: Callable[[Redisson, str, float], Awaitable[Releasable | bool | None]]
    timeouts: tuple[float, float] | None
    grace: float = 0.0


async def _try_once(client: Redisson, number: str, timeout: float) -> Releasable | None:
    return await client.get_lock(f"once:{number}").try_acquire()


async def _try_for(client: Redisson, number: str, timeout: float) -> Releasable | None:
    return await client.get_lock(f"hot:{number}").try_acquire(timeout=timeout)


async def _acquire(client: Redisson, number: str, timeout: float) -> Releasable:
    return await client.get_lock(f"hot:{number}").acquire(timeout=timeout)


async def _kept(client: Redisson, number: str, timeout: float) -> Releasable:
    # Of another client, which holds it all the time.
    return await client.get_lock(f"lasting:{number}").acquire(timeout=timeout)


async def _fair(client: Redisson, number: str, timeout: float) -> Releasable:
    return await client.get_fair_lock(f"fair:{number}").acquire(timeout=timeout)


async def _read(client: Redisson, number: str, timeout: float) -> Releasable:
    return await client.get_read_write_lock(f"rw:{number}").read_lock().acquire(timeout=timeout)


async def _semaphore(client: Redisson, number: str, timeout: float) -> Releasable:
    return await client.get_semaphore(f"semaphore:{number}", 5).acquire(timeout=timeout)


async def _latch(client: Redisson, number: str, timeout: float) -> bool:
    await client.get_latch("latch").wait(timeout)
    return True


async def _barrier(client: Redisson, number: str, timeout: float) -> bool:
    # Alone at a barrier for two, each time at another one.
    await client.get_barrier(f"barrier:{random.getrandbits(40)}", 2).wait(timeout)
    return True


async def _ping(client: Redisson, number: str, timeout: float) -> bool:
    await client.ping(timeout=timeout)
    return True


async def _locked(client: Redisson, number: str, timeout: float) -> bool:
    await client.get_lock(f"hot:{number}").locked()
    return True


BLOCKS: Final = "hold(timeout=1)"

KINDS: Final = (
    Kind("try_acquire()", 20, _try_once, None),
    Kind("try_acquire(timeout=0.2 to 1)", 15, _try_for, (0.2, 1.0)),
    Kind("acquire(timeout=1)", 15, _acquire, (1.0, 1.0)),
    Kind("acquire(timeout=0.5), held elsewhere", 10, _kept, (0.5, 0.5)),
    Kind("fair lock, timeout=0.5", 8, _fair, (0.5, 0.5)),
    Kind("read lock, timeout=0.5", 8, _read, (0.5, 0.5)),
    Kind("semaphore, timeout=0.5", 8, _semaphore, (0.5, 0.5)),
    Kind("latch.wait(0.5)", 3, _latch, (0.5, 0.5)),
    Kind("barrier.wait(0.3)", 1, _barrier, (0.3, 0.3), LEAVE_REPLY_WAIT),
    Kind("ping(0.5)", 1, _ping, (0.5, 0.5)),
    Kind("locked()", 1, _locked, None),
    Kind(BLOCKS, 10, _try_for, (1.0, 1.0)),  # in a block of its own
)


class Load:
    """Requests of one client, at a constant rate.

    Args:
        client: The client that makes them.
        rate: How many a second.
        command_timeout: The client's.
        allowance: Seconds that an answer may be late beside the tenth: this machine is busy.

    Attributes:
        silence: The outage, while and after it lasts.
        over: Set to end it.
    """

    def __init__(
        self,
        client: Redisson,
        rate: float,
        command_timeout: float,
        *,
        allowance: float = 0.25,
        seed: int = 1,
    ) -> None:
        self._client = client
        self._rate = rate
        self._command_timeout = command_timeout
        self._allowance = allowance
        self._chance = random.Random(seed)
        self._live: set[asyncio.Task[None]] = set()
        self.tally = Tally()
        self.silence: Silence | None = None
        self.over = False
        self.most_live = 0
        #: When the event loop was late, and the seconds for which others had the processor.
        self._stalls: deque[tuple[float, float]] = deque(maxlen=200)

    @property
    def live(self) -> int:
        """How many requests are under way."""
        return len(self._live)

    async def run(self) -> None:
        """Make requests until it is over, and wait for the last answers."""
        loop, shares = asyncio.get_running_loop(), [kind.share for kind in KINDS]
        begun, due = loop.time(), 0
        while not self.over:
            before, worked = loop.time(), time.process_time()
            await asyncio.sleep(PAUSE)
            self._note_stall(loop.time() - before - PAUSE, time.process_time() - worked)
            now_due = int((loop.time() - begun) * self._rate)
            # After a stall, the missing requests are not made all at once.
            count = min(now_due - due, int(self._rate / 10) + 1)
            due = now_due
            for kind in self._chance.choices(KINDS, shares, k=count):
                task = asyncio.create_task(self._request(kind))
                self._live.add(task)
                task.add_done_callback(self._live.discard)
                self.tally.started += 1
            self.most_live = max(self.most_live, len(self._live))
        while self._live:
            await asyncio.wait(self._live)

    def _note_stall(self, seconds: float, worked: float) -> None:
        """Note that the event loop was late, and how much of that time this process worked."""
        if seconds > self.tally.stall:
            self.tally.stall, self.tally.stall_worked = seconds, worked
        if seconds > STEP:
            self._stalls.append((asyncio.get_running_loop().time(), max(0.0, seconds - worked)))

    async def _request(self, kind: Kind) -> None:
        timeout = self._chance.uniform(*kind.timeouts) if kind.timeouts else 0.0
        number = str(self._chance.randrange(HOT))
        if kind.name == BLOCKS:
            await self._block(kind, number, timeout)
            return
        asked = asyncio.get_running_loop().time()
        try:
            got = await kind.ask(self._client, number, timeout)
        except Exception as error:
            self._failed(kind, timeout, asked, error)
            return
        self._answered(kind, timeout, asked, "busy" if got is None else "granted")
        if got is None or isinstance(got, bool):
            return
        await asyncio.sleep(WORK)
        await self._release(got)

    async def _block(self, kind: Kind, number: str, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        asked, left = loop.time(), 0.0
        try:
            async with self._client.get_lock(f"hot:{number}").hold(timeout=timeout):
                self._answered(kind, timeout, asked, "granted")
                await asyncio.sleep(WORK)
                left = loop.time()
        except LeaseLostError as lost:
            self.tally.releases[f"block told of a loss ({lost.reason})"] += 1
        except Exception as error:
            if left:
                self._unexpected("the end of a block", error)
            else:
                self._failed(kind, timeout, asked, error)
        else:
            self.tally.releases["block ended"] += 1
            self._took("the end of a block", self._command_timeout, left)

    async def _release(self, got: Releasable) -> None:
        asked = asyncio.get_running_loop().time()
        try:
            await got.release()
        except ReleaseFailedError:
            self.tally.releases["release() got no answer"] += 1
        except LeaseLostError as lost:
            self.tally.releases[f"release() told of a loss ({lost.reason})"] += 1
        except Exception as error:
            self._unexpected("release()", error)
        else:
            self.tally.releases["released"] += 1
        self._took("release()", self._command_timeout, asked)

    def _failed(self, kind: Kind, timeout: float, asked: float, error: Exception) -> None:
        if isinstance(error, AcquireTimeoutError):
            self._answered(kind, timeout, asked, "busy")
        elif isinstance(error, ConnectionLostError):
            self.tally.maybe_held += error.maybe_held
            self._answered(kind, timeout, asked, "no answer")
        else:
            self.tally.answers[kind.name, "unexpected"] += 1
            self._unexpected(kind.name, error)

    def _unexpected(self, what: str, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}" if isinstance(error, RedissonError) else ""
        self.tally.unexpected[f"{what}: {text or repr(error)}"[:200]] += 1

    def _answered(self, kind: Kind, timeout: float, asked: float, answer: Answer) -> None:
        self.tally.answers[kind.name, answer] += 1
        limit = min(timeout or self._command_timeout, self._command_timeout)
        self._took(kind.name, limit + kind.grace, asked)
        answered, silence = asyncio.get_running_loop().time(), self.silence
        if silence is not None and silence.covers(asked, answered):
            self.tally.during[answer] += 1
            # Shortly before its time was up, Redis may have said so to somebody here.
            if answer == "busy" and asked + limit > silence.begun + LAST_LOOK:
                self.tally.false_busy[kind.name] += 1

    def _took(self, what: str, limit: float, asked: float) -> None:
        """Note how late an answer came that was waited for during the outage."""
        answered, silence = asyncio.get_running_loop().time(), self.silence
        if silence is None or answered < silence.begun:
            return
        late = answered - asked - limit
        self.tally.lateness[max(0, int(late / STEP) + 1) if late > 0 else 0] += 1
        self.tally.latest[what] = max(self.tally.latest.get(what, 0.0), late)
        excused = sum(stolen for when, stolen in self._stalls if when > asked)
        self.tally.overdue += late - excused > limit / 10 + self._allowance
