"""Cancelled anywhere, or its connection lost, `Once` in PostgreSQL stays whole: done, or free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine

import pytest

from redisson_py import Once
from redisson_py.postgres import Postgres
from redisson_py.testing import FaultProxy
from tests.fixtures.client import assert_idle
from tests.stores.postgres.server import PostgresServer
from tests.support.cancellation_scene import SOON, once
from tests.support.cancellation_sweep import Probe, sweep
from tests.support.waiting import set_safety_poll, until


class Scene:
    """A client whose operation is cancelled, and another."""

    def __init__(self, client: Postgres, other: Postgres) -> None:
        self.client, self.other = client, other
        self.mine, self.theirs = client.get_once("k"), other.get_once("k")

    async def settled(self) -> bool:
        """Return whether it is done, once all is sent that the operation still had to send."""
        carrier = self.client._executor.carrier
        await until(lambda: not carrier.queues and not len(carrier.tasks))
        assert_idle(self.client)
        return (await self.theirs.inspect()).done

    async def check(self) -> None:
        """Fail if anything is left, or if it cannot be carried out again."""
        await self.settled()
        await self.theirs.forget()
        for made in (self.mine, self.theirs):
            async with made.hold(timeout=SOON) as running:
                assert not running.done


Trial = Callable[[Scene, Probe], Coroutine[object, object, None]]
TRIALS: list[Trial] = []


def trial(function: Trial) -> Trial:
    TRIALS.append(function)
    return function


async def enter(made: Once) -> bool:
    async with made as entered:
        return entered.done


@trial
async def enter_and_leave(scene: Scene, cut: Probe) -> None:
    assert not await cut(enter(scene.mine))
    assert not await scene.settled()


@trial
async def enter_what_is_done(scene: Scene, cut: Probe) -> None:
    await scene.theirs.run(lambda: b"1")
    assert await cut(enter(scene.mine)) in (True, None)
    assert await scene.settled()


@trial
async def complete_in_a_block(scene: Scene, cut: Probe) -> None:
    async with scene.mine as running:
        await cut(running.complete(b"1"))
        assert cut.point is None or cut.cancelled or running.done
    assert await scene.settled()


@trial
async def complete_again_after_a_cancellation(scene: Scene, cut: Probe) -> None:
    async with scene.mine as running:
        await cut(running.complete(b"1"))
        if not running.done:
            await running.complete(b"1")
    assert await scene.settled()


@trial
async def run_it(scene: Scene, cut: Probe) -> None:
    found = await cut(scene.mine.run(lambda: b"1"))
    assert found == (None if cut.cancelled else b"1")
    done = await scene.settled()
    assert done or cut.cancelled


@trial
async def wait_until_it_is_done(scene: Scene, cut: Probe) -> None:
    running = await scene.theirs.acquire()
    complete = once(running.complete)

    def act() -> None:
        if scene.client._context.bus.table.seats and (cut.answered or cut.point is None):
            complete()

    assert await cut(enter(scene.mine), act) in (True, None)
    await complete()
    assert await scene.settled()


@trial
async def forget(scene: Scene, cut: Probe) -> None:
    await scene.theirs.run(lambda: b"1")
    assert await cut(scene.mine.forget()) in (True, None)
    assert not await scene.settled()


@pytest.mark.parametrize("each", TRIALS, ids=lambda each: each.__name__)
async def test_sweep(each: Trial, server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    set_safety_poll(monkeypatch, 6 * SOON)
    async with Postgres.from_url(server.url) as client, Postgres.from_url(server.url) as other:
        scene = Scene(client, other)

        async def run(cut: Probe) -> None:
            await each(scene, cut)
            await scene.check()

        assert (await sweep(run)).cancellations


async def complete(made: Once) -> object:
    running = await made.acquire(timeout=20)
    await running.complete(b"1")
    return running.result


async def call(made: Once) -> object:
    return await made.run(lambda: b"1")


async def done_before(made: Once) -> object:
    return await made.run(lambda: b"2")


LOST: dict[str, tuple[bool, Callable[[Once], Awaitable[object]], object]] = {
    "complete": (False, complete, b"1"),
    "run": (False, call, b"1"),
    "what is done": (True, done_before, b"1"),
    "forget": (True, lambda made: made.forget(), True),
}


@pytest.mark.parametrize(("before", "act", "answer"), LOST.values(), ids=LOST)
@pytest.mark.parametrize("answers", [1, 2, 3, 4, 5])
async def test_a_lost_answer_changes_nothing_twice(
    server: PostgresServer,
    before: bool,
    act: Callable[[Once], Awaitable[object]],
    answer: object,
    answers: int,
) -> None:
    """After so many answers the next one is lost, and its connection with it."""
    async with (
        FaultProxy.in_front_of(server.url, raw=True) as link,
        Postgres.from_url(link.url) as client,
        Postgres.from_url(server.url) as other,
    ):
        name = f"{act}:{answers}"
        await client.ping()
        await client.get_once("warm").inspect()
        if before:
            await other.get_once(name).run(lambda: b"1")
        acting = asyncio.ensure_future(act(client.get_once(name)))
        for _ in range(answers):
            received = link.down.bytes_in
            await until(lambda received=received: link.down.bytes_in > received or acting.done())  # type: ignore[misc]
        received = link.down.bytes_in
        link.black_hole("down")
        await until(lambda: link.down.bytes_in > received or acting.done())
        link.cut()
        link.pass_through()
        assert await acting == answer
        await until(lambda: not client._executor.carrier.queues)
        snapshot = await other.get_once(name).inspect()
        assert snapshot.holders == ()
        assert snapshot.done == (answer == b"1")
