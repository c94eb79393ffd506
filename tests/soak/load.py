"""What a busy service asks of its locks: many requests a second, and a count of the answers.

Each request is answered in exactly one of three ways: granted, busy, no answer. Whatever else comes
out of a call is a finding.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from redisson_py import (
    AcquireTimeoutError,
    ConnectionLostError,
    LeaseLostError,
    Redisson,
    ReleaseFailedError,
)
from redisson_py._options import LAST_LOOK_SECONDS

#: Names that the requests of one kind share, so that some wait for others.
HOT = 20
#: Seconds for which a request works under what it was granted, and between new requests.
WORK, PAUSE = 0.005, 0.005


@dataclass(frozen=True)
class Kind:
    """One thing that a service asks for.

    Attributes:
        share: How many of a hundred requests.
        ask: Asks, with a timeout; returns what must be released, True, or None: it is busy.
        timeouts: From which its timeout is drawn; without one, that of a command counts.
    """

    share: int
    ask: Callable[[Redisson, str, float], Awaitable[Any]]
    timeouts: tuple[float, float] = (0.0, 0.0)


async def _done(work: Awaitable[object]) -> bool:
    await work
    return True


def _alone(client: Redisson, number: str, timeout: float) -> Awaitable[bool]:
    """Wait alone at a barrier for two, each time at another one."""
    return _done(client.get_barrier(f"barrier:{random.getrandbits(40)}", 2).wait(timeout))


BLOCK = "hold(timeout=1)"
KINDS = {
    "try_acquire()": Kind(
        20, lambda client, n, timeout: client.get_lock(f"once:{n}").try_acquire()
    ),
    "try_acquire(timeout=0.2 to 1)": Kind(
        15,
        lambda client, n, timeout: client.get_lock(f"hot:{n}").try_acquire(timeout=timeout),
        (0.2, 1.0),
    ),
    "acquire(timeout=1)": Kind(
        15,
        lambda client, n, timeout: client.get_lock(f"hot:{n}").acquire(timeout=timeout),
        (1.0, 1.0),
    ),
    "acquire(timeout=0.5), held by another client": Kind(
        10,
        lambda client, n, timeout: client.get_lock(f"steady:{n}").acquire(timeout=timeout),
        (0.5, 0.5),
    ),
    "fair lock": Kind(
        8,
        lambda client, n, timeout: client.get_fair_lock(f"fair:{n}").acquire(timeout=timeout),
        (0.5, 0.5),
    ),
    "read lock": Kind(
        8,
        lambda client, n, timeout: (
            client.get_read_write_lock(f"rw:{n}").read_lock().acquire(timeout=timeout)
        ),
        (0.5, 0.5),
    ),
    "semaphore": Kind(
        8,
        lambda client, n, timeout: client.get_semaphore(f"semaphore:{n}", 5).acquire(
            timeout=timeout
        ),
        (0.5, 0.5),
    ),
    "latch": Kind(
        3,
        lambda client, n, timeout: _done(client.get_latch("latch").wait(timeout)),
        (0.5, 0.5),
    ),
    "barrier": Kind(1, _alone, (0.3, 0.3)),
    "ping": Kind(1, lambda client, n, timeout: _done(client.ping(timeout=timeout)), (0.5, 0.5)),
    "locked()": Kind(1, lambda client, n, timeout: _done(client.get_lock(f"hot:{n}").locked())),
    BLOCK: Kind(10, _alone, (1.0, 1.0)),  # in a block of its own
}


@dataclass
class Load:
    """Requests of one client, at a constant rate.

    Attributes:
        client: The client that makes them.
        rate: How many a second.
        command_timeout: The client's.
        began: When Redis was away: nothing that was asked from then on got there and back.
        back: Until when; None while it is away.
        started: How many requests there were.
        answers: How many got which answer.
        away: How many got which answer while Redis was away.
        owed: Requests that may hold something, and releases without an answer.
        wrong: What must not be: "busy" long after Redis had said anything, and other errors.
    """

    client: Redisson
    rate: float
    command_timeout: float
    began: float | None = None
    back: float | None = None
    ended: bool = False
    started: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    away: Counter[str] = field(default_factory=Counter)
    owed: int = 0
    wrong: Counter[str] = field(default_factory=Counter)
    live: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Make requests until it is over, and wait for the last answers."""
        loop, shares = asyncio.get_running_loop(), [kind.share for kind in KINDS.values()]
        begun, due = loop.time(), 0
        while not self.ended:
            await asyncio.sleep(PAUSE)
            now_due = int((loop.time() - begun) * self.rate)
            # After a stall, the missing requests are not made all at once.
            count = min(now_due - due, int(self.rate / 10) + 1)
            due = now_due
            for name in random.choices([*KINDS], shares, k=count):
                task = asyncio.create_task(self._request(name))
                self.live.add(task)
                task.add_done_callback(self.live.discard)
                self.started += 1
        while self.live:
            await asyncio.wait(self.live)

    async def _request(self, name: str) -> None:
        timeout, number = random.uniform(*KINDS[name].timeouts), str(random.randrange(HOT))
        asked = asyncio.get_running_loop().time()
        granted = False
        try:
            if name == BLOCK:
                async with self.client.get_lock(f"hot:{number}").hold(timeout=timeout):
                    granted = True
                    self._answered(name, timeout, asked, "granted")
                    await asyncio.sleep(WORK)
                return
            got = await KINDS[name].ask(self.client, number, timeout)
            granted = got is not None
            self._answered(name, timeout, asked, "granted" if granted else "busy")
            if granted and got is not True:
                await asyncio.sleep(WORK)
                await got.release()
        except (LeaseLostError, ReleaseFailedError) as error:
            unanswered = isinstance(error, ReleaseFailedError)
            self.owed += unanswered
            if not granted or (unanswered and name == BLOCK):
                self.wrong[f"{name}: {error!r}"] += 1
        except AcquireTimeoutError:
            self._answered(name, timeout, asked, "busy")
        except ConnectionLostError as error:
            self.owed += error.maybe_held
            self._answered(name, timeout, asked, "no answer")
        except Exception as error:
            self.wrong[f"{name}: {error!r}"] += 1

    def _answered(self, name: str, timeout: float, asked: float, answer: str) -> None:
        self.answers[answer] += 1
        now = asyncio.get_running_loop().time()
        if self.began is None or asked < self.began or (self.back is not None and now > self.back):
            return
        self.away[answer] += 1
        limit = min(timeout or self.command_timeout, self.command_timeout)
        # Shortly before its time was up, Redis may have said so to somebody here.
        if answer == "busy" and asked + limit > self.began + LAST_LOOK_SECONDS:
            self.wrong[f"{name}: busy while Redis was away"] += 1
