"""An outage under load: Redis stopped, killed and black-holed, and back again.

    python -m tests.soak.outage --seconds 600

A thousand requests a second, with timeouts, of every kind, and ten thousand held leases. Half of
the leases are shorter than the outage: their holders must learn of the loss. The other half are
longer: they must survive, unless Redis comes back without its data. What must hold, whatever the
machine does:

- each request gets exactly one of three answers: granted, busy, no answer;
- no answer is "busy" while Redis says nothing;
- afterwards each lease is held in Redis under its owner, or its holder knows of the loss;
- nothing is left: in the clients, nor in Redis of requests that were given up.

What is measured, and judged by this command only: memory, and what comes down on Redis in the first
second of its return.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._engine.watchdog import BATCH_HOLDS
from redisson_py.testing import EmbeddedServer, FaultProxy, running_server
from tests.soak.kept import Keeper
from tests.soak.load import HOT, Load
from tests.support.streams import stream_of
from tests.support.waiting import until, until_async

#: What is called too much: memory in MiB, connections of each client after the return.
MOST_GROWTH = 48.0
MOST_CONNECTIONS = 2

OUTAGES = ("stopped", "killed", "black hole")


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes:
        seconds: How long Redis is away.
        calm: How long the load runs before that, and after.
        rate: Requests a second.
        leases: Held leases.
        brief: Lease time of half of them, and of the requests.
        steady: Lease time of the other half.
    """

    seconds: float
    calm: float
    rate: float
    leases: int
    brief: float
    steady: float
    command_timeout: float = 5.0


@dataclass
class Result:
    """What an outage did.

    Attributes:
        figures: What was counted and measured, in the order in which to tell it.
        findings: What must not be, on any machine.
        slow: What is too much on this one.
    """

    figures: dict[str, object] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Outage:
    """How Redis goes away and comes back, with its data or without."""

    url: str
    keeps_data: bool
    strike: Callable[[], Awaitable[None]]
    lift: Callable[[], Awaitable[None]]


@asynccontextmanager
async def prepared(name: str, server: EmbeddedServer) -> AsyncIterator[Outage]:
    """Prepare an outage of a server for the time of a block."""
    if name == "stopped":
        # Connections stay open, new ones are accepted by the kernel, nothing answers.
        yield Outage(server.url, True, server.pause, server.resume)
    elif name == "killed":
        yield Outage(server.url, False, server.kill, server.start)
    else:
        async with FaultProxy.in_front_of(server.url) as link:

            async def strike() -> None:
                link.black_hole()

            async def lift() -> None:
                link.pass_through()
                # TCP loses no bytes in the middle of a connection: these are broken.
                link.cut()

            yield Outage(link.url, True, strike, lift)


def _rss() -> float:
    """Return the memory this process has now, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def _innards(client: Redisson) -> dict[str, int]:
    """Return how much of everything a client keeps that must not outlive those who wait for it."""
    stream = stream_of(client)
    return {
        "backlog": len(stream._backlog),
        "in flight": len(stream._wire.in_flight) if stream._wire else 0,
        "delayed": len(stream._delayed),
        "refused": len(stream._refused_calls),
        "deadlines": len(stream._deadlines),
        "waiting for room": len(stream._room.waiting),
        "pending requests": len(client._context.pending),
        "seats": client._context.bus.table.seats,
        "waiters": client.statistics().waiters,
    }


async def _first_second(client: Redisson) -> tuple[int, int]:
    """Return the connections and commands of a client until a second after it heard from Redis."""
    before = client.statistics()
    stream, heard = stream_of(client), stream_of(client).traffic.received
    # Some time can pass: one whose connection is half-open has yet to find out.
    await until(lambda: stream.ready and stream.traffic.received > heard, 3600)
    await asyncio.sleep(1)
    after = client.statistics()
    return after.connections - before.connections, after.commands_sent - before.commands_sent


async def _strike(plan: Plan, outage: Outage, load: Load, steady: Redisson, result: Result) -> None:
    """Take Redis away while the load runs, and bring it back."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(plan.calm)
    gc.collect()
    memory = most = _rss()
    await outage.strike()
    # What Redis said in its last moment has arrived, also by way of a busy process.
    await asyncio.sleep(0.5)
    load.began = loop.time()
    while loop.time() < load.began + plan.seconds:
        await asyncio.sleep(0.2)
        most = max(most, _rss())
    result.figures["memory more, at most"] = f"{most - memory:.1f} MiB"
    if most - memory > MOST_GROWTH:
        result.slow.append(f"{most - memory:.0f} MiB more")
    load.back = loop.time()
    live, started = len(load.live), load.started
    coming = [asyncio.create_task(_first_second(each)) for each in (load.client, steady)]
    await outage.lift()
    service = await coming[0]
    # A request is at most: subscribe, ask, ask again, undo or release, unsubscribe.
    bounds = [5 * (live + load.started - started) + load.owed + 100]
    await asyncio.sleep(plan.calm)
    # What Redis forgot of a fair lock or a reader is cleared up one by one.
    forgotten = 0 if outage.keeps_data else plan.leases // 10
    bounds.append(2 * (plan.leases // 2 // BATCH_HOLDS + 1) + 100 + forgotten)
    names = ("of the service", "of the holder of leases")
    for name, did, bound in zip(names, (service, await coming[1]), bounds, strict=True):
        said = f"{did[0]} connections, {did[1]:,} commands, {bound:,} explained"
        result.figures[f"first second {name}"] = said
        if did[0] > MOST_CONNECTIONS or did[1] > bound:
            result.slow.append(f"{name} in the first second: {said}")


async def _nothing_left(redis: Redis, clients: list[Redisson], seconds: float) -> list[str]:
    """Find what is left of requests, in Redis and in the clients."""
    findings: list[str] = []

    async def ghosts() -> list[bytes]:
        # The client says who it is in a string; its hashes are locks that are held.
        left = [key async for key in redis.scan_iter(_type="hash", count=1000)]
        return [key for key in left if not key.startswith((b"barrier:", b"{barrier:"))]

    async def no_ghosts() -> bool:
        return not await ghosts()

    async def all_free(number: int) -> bool:
        # Units that a dead request took come back to the next one that looks. A semaphore that
        # nobody has used since Redis forgot it is not there.
        return await clients[0].get_semaphore(f"semaphore:{number}").available() in (0, 5)

    try:
        for number in range(HOT):
            await until_async(partial(all_free, number), seconds)
        await until_async(no_ghosts, seconds)
    except TimeoutError:
        findings.append(f"units are taken, or there are ghosts: {(await ghosts())[:3]}")
    for client in clients:
        try:
            await until(lambda each=client: not any(_innards(each).values()))  # type: ignore[misc]
        except TimeoutError:
            findings.append(f"left in {client!r}: {_innards(client)}")
    return findings


async def outage(plan: Plan, name: str, kind: str | None = None) -> Result:
    """Run one outage on a server of its own."""
    result = Result()
    figures, findings = result.figures, result.findings
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        server = await enter(running_server(kind))
        away = await enter(prepared(name, server))
        redis = await enter(Redis.from_url(server.url))
        service, brief, steady = [
            await enter(
                Redisson.from_url(away.url, lease_time=each, command_timeout=plan.command_timeout)
            )
            for each in (plan.brief, plan.brief, plan.steady)
        ]
        half = plan.leases // 2
        short, long = Keeper(brief, half, "brief"), Keeper(steady, plan.leases - half, "steady")
        for keeper in (short, long):
            await keeper.take()
        load = Load(service, plan.rate, plan.command_timeout)
        loading = asyncio.create_task(load.run())
        try:
            await _strike(plan, away, load, steady, result)
        finally:
            load.ended = True
            await loading
        # Our own connection is none of those that are tested.
        await redis.connection_pool.disconnect()
        figures["requests"] = f"{load.started:,}"
        for answer, count in load.answers.items():
            figures[answer] = f"{count:,}, {load.away[answer]:,} of them while Redis was away"
        findings += [f"{count} x {what}" for what, count in load.wrong.most_common(5)]
        if load.answers.total() != load.started:
            findings.append(f"{load.started - load.answers.total()} requests without an answer")
        for keeper, lease_time in ((short, plan.brief), (long, plan.steady)):
            findings += await keeper.account(redis, lease_time / 3 + 20)
            figures[f"leases of {lease_time:g} s"] = f"{keeper.count:,}, {keeper.lost:,} lost"
        if short.lost != short.count:
            findings.append("a lease outlived an outage that was longer")
        if long.lost != (0 if away.keeps_data else long.count):
            findings.append(f"{long.lost} of {long.count} long leases were lost")
        findings += await _nothing_left(redis, [service, brief, steady], plan.brief + 10)
    return result


def main() -> int:
    """Run the outages; return how the process should end."""
    parser = argparse.ArgumentParser(description="Outages under load.")
    parser.add_argument("--seconds", type=float, default=600, help="how long Redis is away")
    parser.add_argument("--outages", nargs="+", default=list(OUTAGES), choices=OUTAGES)
    options = parser.parse_args()
    say, seconds = partial(print, flush=True), options.seconds
    # Losses are what happens here all the time.
    logging.getLogger("redisson_py").setLevel(logging.CRITICAL)
    failed = False
    for name in options.outages:
        say(f"\n{name}: {seconds:g} s")
        # Two thirds of the long lease are guaranteed: three times the outage, and some room.
        leases = (min(30.0, seconds / 3), 3 * seconds + 10)
        result = asyncio.run(outage(Plan(seconds, 10.0, 1000, 10_000, *leases), name))
        for what, figure in result.figures.items():
            say(f"  {what:34} {figure}")
        for finding in result.findings:
            say(f"  WRONG {finding}")
        for what in result.slow:
            say(f"  TOO MUCH {what}")
        failed |= bool(result.findings or result.slow)
    return failed


if __name__ == "__main__":
    sys.exit(main())
