"""A watchdog with a clock and an executor that obey."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest

from redisson_py._engine.hold import Hold
from redisson_py._engine.watchdog import Watchdog
from redisson_py._redis.executor import Executor
from redisson_py._redis.scripts.source import Arg, Script
from redisson_py._redis.stream.call import ReplyError
from redisson_py._statistics import Counts
from redisson_py.errors import BackendError, ClientClosedError
from tests.unit.fakes import LEASE, FakeClock, FakeContext, FakeOwnership, make_hold


@dataclass
class Renewal:
    """One batch that was asked for; the test says what Redis answers."""

    script: Script
    keys: list[bytes]
    owners: list[bytes]
    seconds: float
    values: dict[str, Arg]
    future: asyncio.Future[list[int]]
    splits: bool
    counts_from: float | None = None

    async def answer(self, *renewed: int) -> None:
        self.future.set_result([*renewed])
        await asyncio.sleep(0)

    async def fail(self, error: Exception) -> None:
        self.future.set_exception(error)
        await asyncio.sleep(0)

    def refusal(self, error: ReplyError) -> BackendError:
        return BackendError(str(error))


class FakeExecutor:
    """Takes renewals down; `groups` says which keys go together.

    Attributes:
        refused: The keys that Redis answers with an error, in `answer_all`.
    """

    def __init__(self) -> None:
        self.renewals: list[Renewal] = []
        self.closed = False
        self.groups: dict[bytes, int] = {}
        self.refused: set[bytes] = set()

    def group(self, commands: Any) -> object:
        return commands.renew_script, self.groups.get(commands.key, 0)

    def start_batch(
        self,
        script: Script,
        keys: list[bytes],
        arguments: list[bytes],
        seconds: float,
        *,
        splits: bool,
        **values: Arg,
    ) -> Renewal:
        if self.closed:
            raise ClientClosedError("the client is closed")
        future = asyncio.get_running_loop().create_future()
        self.renewals.append(Renewal(script, keys, arguments, seconds, values, future, splits))
        return self.renewals[-1]

    renew = Executor.renew

    @property
    def unanswered(self) -> list[Renewal]:
        return [renewal for renewal in self.renewals if not renewal.future.done()]

    async def answer_all(self) -> None:
        """Renew what was asked for, and what is asked for in consequence, except `refused`."""
        while unanswered := self.unanswered:
            for renewal in unanswered:
                if self.refused.isdisjoint(renewal.keys):
                    await renewal.answer(*[1] * len(renewal.owners))
                else:
                    await renewal.fail(ReplyError("NOPERM No permissions to access a key"))


class Setup:
    """A watchdog with everything it needs."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.executor = FakeExecutor()
        self.counts = Counts()
        self.context = FakeContext(self.new_watchdog(LEASE))
        self.context.counts = self.counts

    def new_watchdog(self, lease_time: float) -> Watchdog:
        return Watchdog(cast("Any", self.executor), lease_time, counts=self.counts)

    @property
    def watchdog(self) -> Watchdog:
        watchdog = self.context.watchdog
        assert isinstance(watchdog, Watchdog)
        return watchdog

    def ownership(self, name: str = "k1") -> FakeOwnership:
        return FakeOwnership(name, context=self.context)

    def hold(self, number: int = 1, **options: Any) -> Hold:
        """Return a hold that was granted just now, and that the watchdog keeps."""
        ownership = options.pop("ownership", None) or self.ownership(f"k{number}")
        return make_hold(ownership, owner=f"c:{number}", **options)

    def shared(self, number: int, lease_time: float) -> Hold:
        """Return a hold with a lease of its own, which others can cut, and which is asked after."""
        ownership = self.ownership(f"k{number}")
        ownership.commands.shares_lease = True
        return self.hold(number, ownership=ownership, lease_time=lease_time, renewed=False)

    @property
    def last(self) -> Renewal:
        return self.executor.renewals[-1]


def new_setup(patch: pytest.MonkeyPatch) -> Setup:
    """Return a watchdog whose clock is the test's."""
    setup = Setup()
    setup.clock.control_leases(patch)
    return setup
