"""Shaking the cluster while the workers book: masters are killed, slots are moved."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from examples.demo.crew import DemoError, Member, until
from redisson_py.testing import EmbeddedCluster, EmbeddedServer, TopologyError

_LOOK_AGAIN = 0.02
#: Seconds that a master's death and two moves of a slot usually take, until all is well again.
_USUAL = 3.5
_ATOMIC_SINCE = (9, 0, 0)

Say = Callable[[str], None]


@dataclass(slots=True)
class Shock:
    """What was done to the cluster, and what came of it.

    Attributes:
        what: What was done.
        whose: What was on the node or in the slot: the lock or the book.
        at: When, by the monotonic clock.
        cluster_took: Seconds until the cluster itself had a master for it again.
        workers_took: Seconds until a worker had the lock again.
    """

    what: str
    whose: str
    at: float
    cluster_took: float = 0.0
    workers_took: float | None = None

    def __str__(self) -> str:
        return f"{self.whose}: {self.what}; {self.took}"

    @property
    def took(self) -> str:
        """How long it took, in words."""
        took = "no worker acquired the lock any more"
        if self.workers_took is not None:
            took = f"a worker had the lock after {self.workers_took:.2f} s"
        return f"{took} (the cluster itself took {self.cluster_took:.2f} s)"


def least_seconds(seconds: float) -> float:
    """Return how long all shocks take, if they are spread over so many seconds."""
    return seconds / 2 + 2 * _USUAL


class Shaker:
    """Does it.

    Args:
        cluster: The cluster.
        members: The workers.
        names: Names in it, each with the key that says where it lives.
        patience: Seconds after which what must happen counts as missing.
        say: Prints a line.
    """

    def __init__(
        self,
        cluster: EmbeddedCluster,
        members: Sequence[Member],
        names: dict[str, str],
        patience: float,
        say: Say,
    ) -> None:
        self._cluster = cluster
        self._members = members
        self._names = names
        self._patience = patience
        self._say = say
        self._shocks: list[Shock] = []

    async def shake(self, seconds: float) -> list[Shock]:
        """Kill the master of each place, and move its slot, spread over so many seconds."""
        pause = seconds / (4 * len(self._names))
        for whose, key in self._names.items():
            await asyncio.sleep(pause)
            await self._kill(whose, key)
            await asyncio.sleep(pause)
            await self._move(whose, key)
        return self._shocks

    async def _kill(self, whose: str, key: str) -> None:
        old = await self._cluster.master_of(key)
        shock = self._new_shock(f"master at {old.address} killed (SIGKILL)", whose)
        self._say(f"the master at {old.address} with {whose} is killed (SIGKILL)")
        await self._cluster.kill(old)
        await self._until_served(key, old)
        await self._recovery(shock)
        await self._cluster.revive(old)
        await self._cluster.wait_healthy()
        self._say(f"{old.address} is started again, as a replica")

    async def _move(self, whose: str, key: str) -> None:
        ways = [False, True] if self._cluster.version >= _ATOMIC_SINCE else [False]
        for atomic in ways:
            source = await self._cluster.master_of(key)
            how = "in one piece" if atomic else "key by key"
            shock = self._new_shock(f"slot moved {how} from {source.address}", whose)
            target = await self._cluster.migrate(key, atomic=atomic)
            shock.what += f" to {target.address}"
            self._say(f"the slot with {whose} is moved {how} to {target.address}")
            await self._recovery(shock)

    def _new_shock(self, what: str, whose: str) -> Shock:
        shock = Shock(what, whose, time.monotonic())
        self._shocks.append(shock)
        return shock

    async def _until_served(self, key: str, old: EmbeddedServer) -> None:
        deadline = time.monotonic() + self._patience
        while time.monotonic() < deadline:
            with suppress(TopologyError):
                if await self._cluster.master_of(key) is not old:
                    return
            await asyncio.sleep(_LOOK_AGAIN)
        raise DemoError("the cluster has not replaced its master")

    async def _recovery(self, shock: Shock) -> None:
        """Wait until a worker is granted the lock after all that."""
        served_at = time.monotonic()
        shock.cluster_took = served_at - shock.at

        def grants() -> list[float]:
            return [at for each in self._members for at, _ in each.grants[-5000:] if at > served_at]

        if await until(lambda: bool(grants()), self._patience):
            shock.workers_took = min(grants()) - shock.at
        self._say(shock.took)
