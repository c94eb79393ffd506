"""A watchdog with a clock and an executor that obey, for tests of the watchdog."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

import pytest
from redisson_py._lease.hold import Hold, lease_end
from redisson_py._lease.watchdog import Watchdog

from redisson_py._scripts.source import Arg, Script
from redisson_py.errors import BackendError, ClientClosedError
from tests.unit.fakes import FakeClock, FakeResource, make_hold

LEASE = 30.0


@dataclass
class Renewal:
    """One batch that was asked for; the test says what Redis answers."""

    script: Script
    keys: list[bytes]
    owners: list[str]
    seconds: float
    values: dict[str, Arg]
    future: asyncio.Future[list[int]]

    async def answer(self, *renewed: int) -> None:
        self.future.set_result([*renewed])
        await asyncio.sleep(0)

    async def fail(self, error: BackendError) -> None:
        self.future.set_exception(error)
        await asyncio.sleep(0)


class FakeExecutor:
    """Takes renewals down; `router.group` says which keys go together."""

    def __init__(self) -> None:
        self.renewals: list[Renewal] = []
        self.router = self
        self.closed = False
        self.groups: dict[bytes, int] = {}

    def group(self, key: bytes) -> int:
        return self.groups.get(key, 0)

    def start_batch(
        self, script: Script, keys: list[bytes], rest: list[str], seconds: float, **values: Arg
    ) -> Renewal:
        if self.closed:
            raise ClientClosedError("the client is closed")
        future = asyncio.get_running_loop().create_future()
        self.renewals.append(Renewal(script, keys, rest, seconds, values, future))
        return self.renewals[-1]


@dataclass
class Kennel:
    """A watchdog with everything it needs."""

    clock: FakeClock
    executor: FakeExecutor
    dog: Watchdog

    def hold(self, number: int = 1, **options: Any) -> Hold:
        """Have the watchdog keep a hold that was granted just now."""
        resource = options.pop("resource", None) or FakeResource(f"k{number}")
        ends_at = lease_end(self.clock.present, LEASE)
        hold = make_hold(resource, ends_at=ends_at, owner=f"c:{number}", **options)
        self.dog.add(hold)
        return hold

    @property
    def last(self) -> Renewal:
        return self.executor.renewals[-1]


def new_kennel(patch: pytest.MonkeyPatch) -> Kennel:
    """Return a watchdog whose clock is the test's."""
    clock, executor = FakeClock(), FakeExecutor()
    clock.control_leases(patch)
    return Kennel(clock, executor, Watchdog(cast("Any", executor), LEASE))
