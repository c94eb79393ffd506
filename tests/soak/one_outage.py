"""One outage under load, from its beginning to its end; see `tests.soak.outage`."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson
from redisson_py._engine.watchdog import BATCH
from redisson_py.testing import EmbeddedServer, running_server
from tests.soak.away import Outage, innards, prepared, rss
from tests.soak.kept import Keeper
from tests.soak.load import HOT, Load, Silence
from tests.support.streams import stream_of
from tests.support.waiting import until, until_async

Say = Callable[[str], object]

#: What is called too much: memory in MiB, connections of each client after the return.
MOST_GROWTH = 48.0
MOST_CONNECTIONS = 2


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
        slow: What is too much, or too late, on this one.
    """

    figures: dict[str, str] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Coming:
    """What a client did in its first second after an outage.

    Attributes:
        at: When it heard of Redis again, on the monotonic clock.
    """

    at: float
    connections: int
    commands: int


async def _first_second(client: Redisson) -> Coming:
    """Count until one second after the client has heard from Redis."""
    before = client.statistics()
    stream, heard = stream_of(client), stream_of(client).traffic.received
    # Some time can pass: one whose connection is half-open has yet to find out.
    await until(lambda: stream.ready and stream.traffic.received > heard, 3600)
    at = time.monotonic()
    await asyncio.sleep(1)
    after = client.statistics()
    return Coming(
        at, after.connections - before.connections, after.commands_sent - before.commands_sent
    )


class Recorder(logging.Handler):
    """Counts what the library logs, and keeps the beginning of it."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.counts: Counter[str] = Counter()
        self.first: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        key = f"{record.levelname} {record.msg[:50]}"
        self.counts[key] += 1
        self.first.setdefault(key, record.getMessage()[:150])


class Run:
    """One outage from its beginning to its end."""

    def __init__(self, plan: Plan, outage: Outage, server: EmbeddedServer, redis: Redis) -> None:
        self._plan = plan
        self._outage = outage
        self._server = server
        self._redis = redis
        self.result = Result()

    async def run(self, service: Redisson, brief: Redisson, steady: Redisson, say: Say) -> None:
        """Make the outage; the clients are new."""
        plan, result, loop = self._plan, self.result, asyncio.get_running_loop()
        self._clients = (service, brief, steady)
        keepers = (
            Keeper(brief, plan.leases // 2, "brief"),
            Keeper(steady, plan.leases - plan.leases // 2, "lasting"),
        )
        for keeper in keepers:
            await keeper.take()
        load = Load(service, plan.rate, plan.command_timeout)
        loading = asyncio.create_task(load.run())
        try:
            await self._measured("before", plan.calm, load)
            gc.collect()
            server_before = await self._server_counts()
            held = [sum(keeper.lost for keeper in keepers)]
            memory = rss()
            await self._outage.strike()
            # What Redis said in its last moment has arrived, also by way of a busy process.
            await asyncio.sleep(0.5)
            load.silence = silence = Silence(loop.time())
            say("  away")
            most = await self._measured("during the outage", plan.seconds, load)
            result.figures["memory before"] = f"{memory:.1f} MiB"
            result.figures["memory more, at most"] = f"{most - memory:.1f} MiB"
            if most - memory > MOST_GROWTH:
                result.slow.append(f"{most - memory:.0f} MiB more")
            held.append(sum(keeper.lost for keeper in keepers))
            silence.over = loop.time()
            holder = await self._return(load, server_before, say)
            await self._measured("after", plan.calm, load)
        finally:
            load.over = True
            await loading
        gc.collect()
        result.figures["memory more, afterwards"] = f"{rss() - memory:.1f} MiB"
        self._answers(load)
        await self._account(keepers, held)
        self._keeper_came(await holder)
        await self._nothing_left(service)

    async def _measured(self, when: str, seconds: float, load: Load) -> float:
        """Watch for that time; return the highest memory use, in MiB."""
        begun, worked, started = time.monotonic(), time.process_time(), load.tally.started
        most, inside = 0.0, Counter[str]()
        while time.monotonic() - begun < seconds:
            await asyncio.sleep(0.2)
            most = max(most, rss())
            for name, count in innards(self._clients[0]).items():
                inside[name] = max(inside[name], count)
        wall = time.monotonic() - begun
        figures = self.result.figures
        figures[f"requests a second, {when}"] = f"{(load.tally.started - started) / wall:,.0f}"
        figures[f"processor, {when}"] = f"{(time.process_time() - worked) / wall:.0%}"
        if "outage" in when:
            figures["requests under way, at most"] = f"{load.most_live:,}"
            figures["in the client, at most"] = ", ".join(
                f"{count:,} {name}" for name, count in inside.items() if count
            )
        return most

    async def _server_counts(self) -> Counter[str]:
        stats: dict[str, Any] = await self._redis.info("stats")
        names = {
            "total_connections_received": "connections",
            "total_commands_processed": "commands",
        }
        return Counter({name: int(stats[key]) for key, name in names.items()})

    async def _return(
        self, load: Load, server_before: Counter[str], say: Say
    ) -> asyncio.Task[Coming]:
        """Bring Redis back, and count what comes down on it; return what the holder does."""
        figures, tally = self.result.figures, load.tally
        live = load.live
        owed = tally.maybe_held + tally.releases["release() got no answer"]
        if self._outage.restarts:
            server_before = Counter()
        elif self._outage.url != self._server.url:
            # It was there all the time, for us.
            server_before = await self._server_counts()
        started, begun = tally.started, time.monotonic()
        # The client that has lost all its leases has no reason to connect.
        service, _, steady = self._clients
        asking = asyncio.create_task(_first_second(service))
        holder = asyncio.create_task(_first_second(steady))
        await self._outage.lift()
        lifted = time.monotonic()
        # Our own connection is none of those that are tested.
        await self._redis.connection_pool.disconnect()
        say(f"  back after {lifted - begun:.2f} s")
        came = await asking
        counted = await self._server_counts() - server_before
        asked = tally.started - started
        figures["connected again after"] = f"{came.at - lifted:.2f} s"
        figures["first second, connections opened"] = f"{came.connections}"
        figures["first second, commands"] = f"{came.commands:,}"
        figures["first second, Redis counted"] = (
            f"{counted['connections']:,} connections, {counted['commands']:,} commands"
        )
        figures["of these for"] = f"{live:,} live, {asked:,} new requests, {owed:,} undone"
        # A request is at most: subscribe, ask, ask again, undo or release, unsubscribe.
        bound = 5 * (live + asked) + owed + 100
        if came.commands > bound:
            self.result.slow.append(f"{came.commands:,} commands at once, {bound:,} explained")
        if came.connections > MOST_CONNECTIONS:
            self.result.slow.append(f"{came.connections} connections at once")
        return holder

    def _keeper_came(self, coming: Coming) -> None:
        """Report what the client that still holds leases sent in its first second."""
        batches = self._plan.leases // 2 // BATCH + 1
        self.result.figures["of the holder of leases"] = (
            f"{coming.connections} connections, {coming.commands:,} commands, {batches} batches"
        )
        # What Redis forgot of a fair lock or a reader is cleared up one by one.
        bound = 2 * batches + 100 + (0 if self._outage.keeps_data else self._plan.leases // 10)
        if coming.commands > bound or coming.connections > MOST_CONNECTIONS:
            self.result.slow.append(f"of the holder of leases: {coming}")

    def _answers(self, load: Load) -> None:
        """Report the answers, and how late they came."""
        tally, figures = load.tally, self.result.figures
        findings, slow = self.result.findings, self.result.slow
        figures["requests"] = f"{tally.started:,}"
        for answer in ("granted", "busy", "no answer"):
            count = sum(n for (_, each), n in tally.answers.items() if each == answer)
            figures[answer] = f"{count:,}, {tally.during[answer]:,} of them while it was away"
        figures["releases"] = ", ".join(f"{n:,} {what}" for what, n in tally.releases.items())
        figures["late, 99 of 100"] = f"{tally.late(0.99):.2f} s"
        figures["late, at most"] = f"{max(tally.latest.values(), default=0):.2f} s"
        worst = sorted(tally.latest.items(), key=lambda item: -item[1])[:4]
        figures["latest"] = ", ".join(f"{what} {late:.2f} s" for what, late in worst)
        figures["longest stall of the event loop"] = (
            f"{tally.stall:.2f} s, {tally.stall_worked:.2f} s of it work"
        )
        figures["beyond its time and a tenth"] = f"{tally.overdue:,}"
        if tally.answered != tally.started:
            findings.append(f"{tally.started - tally.answered} requests got no answer at all")
        findings += [f"{n} x 'busy' of {what}" for what, n in tally.false_busy.items()]
        findings += [f"{n} x {what}" for what, n in tally.unexpected.most_common(5)]
        if tally.overdue:
            slow.append(f"{tally.overdue:,} answers too late")

    async def _account(self, keepers: tuple[Keeper, Keeper], held: list[int]) -> None:
        """Have Redis and the holders agree on every lease."""
        figures, findings = self.result.figures, self.result.findings
        brief, steady = keepers
        figures["told lost when it was away"] = f"{held[1]:,}, {held[0]} before"
        for keeper, lease_time in ((brief, self._plan.brief), (steady, self._plan.steady)):
            wrong = await keeper.reconcile(self._redis, lease_time / 3 + 20)
            findings += wrong[:3] + ([f"and {len(wrong) - 3} more"] if len(wrong) > 3 else [])
            told = keeper.told.total()
            reasons = ", ".join(f"{n:,} {reason}" for reason, n in keeper.told.items()) or "none"
            what = f"leases of {lease_time:g} s"
            figures[what] = f"{keeper.count:,}: {reasons} lost, {keeper.count - told:,} held"
            if keeper.client.statistics().losses != told:
                findings.append(f"{what}: {keeper.client.statistics().losses} losses counted")
            findings += await keeper.end()
        if brief.told["expired"] != brief.count:
            findings.append("a lease outlived an outage that was longer")
        survived = steady.count - steady.told.total()
        if survived != (steady.count if self._outage.keeps_data else 0):
            findings.append(f"{survived} of {steady.count} long leases survived")

    async def _nothing_left(self, service: Redisson) -> None:
        """Find what is left of requests, in the clients and in Redis."""
        figures, findings = self.result.figures, self.result.findings
        begun = time.monotonic()
        left: list[bytes] = []

        async def no_ghosts() -> bool:
            nonlocal left
            # The client says who it is in a string; its hashes are locks that are held.
            left = [key async for key in self._redis.scan_iter(_type="hash", count=1000)]
            left = [key for key in left if not key.startswith((b"barrier:", b"{barrier:"))]
            return not left

        # Units that a dead request took come back to the next one that looks.
        for number in range(HOT):
            semaphore = service.get_semaphore(f"semaphore:{number}")
            try:
                await until_async(partial(_all_free, semaphore.available), self._plan.brief + 10)
            except TimeoutError:
                findings.append(f"{semaphore!r}: {await semaphore.available()} of 5 are free")
        try:
            await until_async(no_ghosts, self._plan.brief + 10)
        except TimeoutError:
            findings.append(f"{len(left)} ghosts in Redis: {left[:3]}")
        figures["nothing left in Redis after"] = f"{time.monotonic() - begun:.1f} s"
        for client in self._clients:
            try:
                await until(partial(_nothing_inside, client))
            except TimeoutError:
                findings.append(f"left in {client!r}: {innards(client)}")


def _nothing_inside(client: Redisson) -> bool:
    return not any(innards(client).values())


async def _all_free(available: Callable[[], Any]) -> bool:
    # A semaphore that nobody has used since Redis forgot it is not there.
    return await available() in (0, 5)


async def outage(plan: Plan, name: str, kind: str | None = None, say: Say = len) -> Result:
    """Run one outage on a server of its own."""
    recorder, log = Recorder(), logging.getLogger("redisson_py")
    propagate, log.propagate = log.propagate, False
    log.addHandler(recorder)
    try:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(running_server(kind))
            away = await stack.enter_async_context(prepared(name, server))
            redis = await stack.enter_async_context(Redis.from_url(server.url))
            clients = [
                await stack.enter_async_context(
                    Redisson.from_url(
                        away.url, lease_time=each, command_timeout=plan.command_timeout
                    )
                )
                for each in (plan.brief, plan.brief, plan.steady)
            ]
            run = Run(plan, away, server, redis)
            await run.run(clients[0], clients[1], clients[2], say)
    finally:
        log.removeHandler(recorder)
        log.propagate = propagate
    run.result.figures["log records"] = f"{recorder.counts.total():,}"
    for key, count in recorder.counts.most_common(4):
        run.result.figures[f"  {recorder.first[key][:60]}"] = f"{count:,}"
    return run.result
