"""The tasks of a storm, and the model that knows what each step must have done."""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from redis.asyncio import Redis

from redisson_py import FencedLock, Lease, LeaseLostError, Redisson, RedissonError, RLock
from redisson_py._redis.commands.lock import TOKENS
from tests.soak.weather import Losses
from tests.support.stragglers import Stragglers

Lock = RLock | FencedLock

LEASE = 30.0  # much longer than any step takes, so that nobody may lose one
SHORT_LEASE = 5.0  # of those who hold until they were renewed, on a busy machine too
LONGEST_LEASE = 90.0
DEEPEST = 3
HASTY = 0.05  # the share of steps that are given up half-way
FIRST_TOKEN = 2**52  # above the server's microseconds, so that the next token is known


class Witness:
    """Asks the server itself who holds what, many at a time."""

    _LOOK = """
        local seen = {}
        for i, key in ipairs(KEYS) do
            seen[i] = {redis.call('PTTL', key), redis.call('HGETALL', key)}
        end
        return seen
    """

    def __init__(self, redis: Redis) -> None:
        self._look = redis.register_script(self._LOOK)
        self._asked: list[tuple[bytes, asyncio.Future[tuple[dict[str, int], float]]]] = []
        self._news = asyncio.Event()

    async def look(self, key: bytes) -> tuple[dict[str, int], float]:
        """Return the hold count of each owner, and the seconds left of the lease."""
        future: asyncio.Future[tuple[dict[str, int], float]] = asyncio.Future()
        self._asked.append((key, future))
        self._news.set()
        return await future

    async def run(self) -> None:
        """Answer; until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            asked, self._asked = self._asked, []
            seen = await self._look(keys=[key for key, _ in asked])
            for (_, future), (left, found) in zip(asked, seen, strict=True):
                owners = [owner.decode() for owner in found[::2]]
                counts = [int(count) for count in found[1::2]]
                future.set_result((dict(zip(owners, counts, strict=True)), left / 1000))


@dataclass
class Play:
    """What all tasks of a storm share.

    Attributes:
        ended: Whether they should give back what they hold, and end.
        compared: Steps whose effect was compared with the server.
        given_up: Steps cancelled half-way; the step after them shows their effect.
        findings: Double effects, missing effects and wrong answers, in words.
        forced: How often an operator was told that a lock is free by force.
        lost_owners: Whose holds on such a lock were lost.
        last_tokens: The token of the latest grant.
    """

    witness: Witness
    stragglers: Stragglers
    losses: Losses
    chance: random.Random
    ended: bool = False
    compared: int = 0
    given_up: int = 0
    findings: list[str] = field(default_factory=list)
    forced: Counter[bytes] = field(default_factory=Counter)
    lost_owners: defaultdict[bytes, set[str]] = field(default_factory=lambda: defaultdict(set))
    last_tokens: Counter[bytes] = field(default_factory=Counter)

    def wrong(self, lock: Lock, what: str) -> None:
        """Note a finding."""
        self.findings.append(f"{lock!r}: {what}")


class Walker:
    """One task that does random things with one lock and knows what must come of them.

    Args:
        play: What it shares with the others.
        lock: What it does them with.
        shared: Whether other tasks want the lock too.
        forced: Whether an operator frees it now and then.
    """

    def __init__(
        self, play: Play, lock: Lock, *, shared: bool = False, forced: bool = False
    ) -> None:
        self._play = play
        self._lock = lock
        self._shared = shared
        self._forced = forced
        self._leases: list[Lease] = []
        self._longest = LEASE
        self._given_up = 0  # since the last grant
        self._settled = True  # nothing that nobody waits for can still be on its way

    async def walk(self) -> None:
        """Take steps until the storm is over, then give everything back."""
        while self._leases or not self._play.ended:
            step = self._release if self._play.ended else self._choose()
            try:
                async with asyncio.timeout(self._patience(step)) as limit:
                    await step()
            except TimeoutError:
                if not limit.expired():
                    raise
                self._settled = False
                self._given_up += 1
                self._play.given_up += 1
            except LeaseLostError as error:
                await self._lose(error.owner)
            except RedissonError as error:
                self._settled = False
                self._play.wrong(self._lock, f"{type(error).__name__}: {error}")
            else:
                self._settled = step != self._force_release
                await self._compare()

    def _roll(self) -> float:
        return self._play.chance.random()

    def _patience(self, step: Callable[[], Awaitable[None]]) -> float | None:
        """Return after how many seconds a step is given up."""
        depth = len(self._leases)
        outermost = depth == (1 if step == self._release else 0)
        # A hold that is passed on must not have calls of its last holder still under way: who
        # gets it asks the server nothing, and would be compared too early.
        tempted = step in (self._acquire, self._release) and (outermost or not self._shared)
        if tempted and self._roll() < HASTY:
            return self._roll() / 50
        return None

    def _choose(self) -> Callable[[], Awaitable[None]]:
        roll, depth = self._roll(), len(self._leases)
        if roll < 0.05 and not self._shared:
            return self._force_release
        if roll < (0.15 if depth else 0.5) and not self._shared and self._settled:
            return self._deliver_late
        if roll < 0.25 and depth == 1:
            return self._extend
        if depth == 0 or (roll < 0.6 and depth < DEEPEST):
            return self._acquire
        return self._release

    async def _acquire(self) -> None:
        last = self._play.last_tokens[self._lock.key]
        # A name of its own is free, whatever was given up before: asking once must do.
        lease = await self._lock.try_acquire(timeout=None if self._shared else 0)
        if lease is None:
            self._play.wrong(self._lock, "busy although nobody holds it")
            return
        if not self._leases:
            self._longest = LONGEST_LEASE if self._shared else LEASE
            if not self._forced:
                last = self._play.last_tokens[self._lock.key]
            # Else somebody may have been granted it after us, and have been told before us.
            self._see_token(lease, last)
            self._given_up = 0
        self._leases.append(lease)

    async def _release(self) -> None:
        await self._leases.pop().release()

    async def _extend(self) -> None:
        seconds = self._play.chance.uniform(LEASE + 10, LONGEST_LEASE)
        await self._leases[0].extend(seconds)
        self._longest = seconds

    async def _force_release(self) -> None:
        held = bool(self._leases)
        if await self._lock.force_release() is not held:
            self._play.wrong(self._lock, f"force_release said {not held}")
        if not all(lease.lost for lease in self._leases):
            self._play.wrong(self._lock, "freed by force, and its holder does not know")
        await self._drop()

    async def _deliver_late(self) -> None:
        """A call of an earlier hold comes once more: whatever it was, nothing must change."""
        present = [lease.owner.encode() for lease in self._leases]
        recent = self._play.losses.recent[self._lock.key]
        late = [sent.command for sent in recent if sent.owner not in present]
        if late:
            await self._play.stragglers.deliver([self._play.chance.choice(late)])

    async def _lose(self, owner: str) -> None:
        if self._forced:
            # By owner: a hold that was freed may be passed on before anybody here knows.
            self._play.lost_owners[self._lock.key].add(owner)
        else:
            self._play.wrong(self._lock, "lost although its lease could not have ended")
        await self._drop()

    async def _drop(self) -> None:
        leases, self._leases = self._leases, []
        for lease in leases:
            with suppress(LeaseLostError):
                await lease.release()

    def _see_token(self, lease: Lease, last: int) -> None:
        """A grant takes one range of tokens, not two; one that was given up may have taken one."""
        if lease.token is None:
            return
        ranges, beyond = divmod(lease.token - last, TOKENS)
        if self._shared:
            right = lease.token > last
        else:
            right = beyond == 0 and 1 <= ranges <= 1 + self._given_up
        if not right:
            self._play.wrong(self._lock, f"token {lease.token} after {last}")
        seen = self._play.last_tokens[self._lock.key]
        self._play.last_tokens[self._lock.key] = max(lease.token, seen)

    async def _compare(self) -> None:
        """Compare what the server says with what it must say."""
        leases = self._leases
        if self._shared and not leases:
            return  # the next holder will look
        self._play.compared += 1
        holders, left = await self._play.witness.look(self._lock.key)
        if self._forced and leases[0].owner not in holders:
            await self._lose(leases[0].owner)
            return
        expected = {lease.owner: len(leases) for lease in leases}
        if holders != expected:
            self._play.wrong(self._lock, f"held by {holders}, not by {expected}")
        elif leases and not 0 < left <= self._longest + 0.001:
            self._play.wrong(self._lock, f"{left:.3f} s left of {self._longest:.3f}")


async def keep(play: Play, client: Redisson, lock: Lock) -> None:
    """Hold a lock until it was renewed a few times, again and again."""
    while not play.ended:
        lease = await lock.acquire()
        enough = client.statistics().renewals + play.chance.randint(1, 4)
        while client.statistics().renewals < enough and not play.ended:
            await asyncio.sleep(0.05)
        play.compared += 1
        holders, left = await play.witness.look(lock.key)
        if holders != {lease.owner: 1} or not 0 < left <= SHORT_LEASE:
            play.wrong(lock, f"held by {holders} for {left:.3f} s, not by {lease.owner}")
        try:
            await lease.release()
        except LeaseLostError:
            play.wrong(lock, "lost although it was renewed")


async def operate(play: Play, locks: list[Lock]) -> None:
    """Free locks by force that others use."""
    while not play.ended:
        lock = play.chance.choice(locks)
        if await lock.force_release():
            play.forced[lock.key] += 1
        await asyncio.sleep(play.chance.uniform(0, 0.2))
