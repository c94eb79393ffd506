"""The sample service under gunicorn: it pays an order once, and every answer is true in outages."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path

import httpx2 as httpx
import pytest
from redis.asyncio import Redis

from examples.service.ledger import AlreadyPaidError, Ledger, StaleTokenError
from redisson_py.testing import EmbeddedServer, FaultProxy
from tests.support import repository
from tests.support.waiting import until_async

#: Requests for one order, each with a key of its own.
RIVALS = 3
CALLERS = 24
#: Answers to have seen before the next thing happens.
ENOUGH = 100
#: Another process holds this order, but for a moment after a restart of Redis, which forgets it.
TAKEN = "taken"


@dataclass
class Answers:
    """What callers were told.

    Attributes:
        away: Redis is away: what is asked and answered meanwhile had no Redis.
        ended: Callers ask nothing new.
        taken: Another process holds one order.
        paid: The orders of the requests that were answered 200, by key.
        seen: How many answers of each status, of what was asked since the last change.
    """

    away: bool = False
    ended: bool = False
    taken: bool = False
    changes: int = 0
    paid: dict[str, str] = field(default_factory=dict)
    seen: Counter[tuple[str, int]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def set_away(self, away: bool) -> None:
        self.away = away
        self.changes += 1
        self.seen.clear()

    @property
    def when(self) -> str:
        return "away" if self.away else "there"


@asynccontextmanager
async def gunicorn(
    url: str,
    ledger: Path,
    workers: int,
    python: Path = Path(sys.executable),
    folder: Path = repository.ROOT,
) -> AsyncIterator[httpx.AsyncClient]:
    """Run the service; hand out a client of it."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        listener.set_inheritable(True)
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", "gunicorn", "--preload", "--workers", str(workers)),
            *("--worker-class", "uvicorn_worker.UvicornWorker", "--log-level", "warning"),
            *("--bind", f"fd://{listener.fileno()}", "examples.service.app:app"),
            cwd=folder,
            env={"REDISSON_URL": url, "LEDGER": str(ledger), "PATH": ""},
            pass_fds=(listener.fileno(),),
        )
        port = listener.getsockname()[1]
        try:
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                timeout=60,
                trust_env=False,
                limits=httpx.Limits(max_connections=CALLERS + 4),
            ) as http:
                yield http
            process.terminate()
            assert await asyncio.wait_for(process.wait(), 30) == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


async def call(http: httpx.AsyncClient, numbers: itertools.count[int], answers: Answers) -> None:
    """Pay one order after the other, and note every answer."""
    while not answers.ended:
        number = next(numbers)
        order = TAKEN if number % 20 == 0 else str(number // RIVALS)
        request = f"{order}:{number}"
        changes, when, taken = answers.changes, answers.when, answers.taken
        answer = await http.post(f"/orders/{order}/pay", headers={"Idempotency-Key": request})
        status = answer.status_code
        if status not in (200, 409, 503) or (order == TAKEN and taken and status == 200):
            answers.wrong.append(f"{request}: {status} {answer.text}")
        if status == 200:
            answers.paid[request] = order
        if changes == answers.changes:
            answers.seen[when, status] += 1
            if answers.away and status != 503:
                answers.wrong.append(f"{request}: {status} without a Redis: {answer.text}")


def entries(ledger: Path) -> dict[str, str]:
    """Return the orders that the ledger has as paid, by the key that paid them."""
    with closing(sqlite3.connect(ledger)) as database:
        paid = "SELECT paid_by, id FROM orders WHERE paid_by IS NOT NULL"
        return dict(database.execute(paid).fetchall())


Blow = Callable[[], Awaitable[object]]


@pytest.mark.parametrize("outage", ["stopped", "killed", "black hole"])
async def test_every_answer_is_true(
    outage: str, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, answers, numbers = tmp_path / "ledger.sqlite", Answers(), itertools.count()

    async with FaultProxy.in_front_of(own_server.url) as link:

        async def hole() -> None:
            link.black_hole()

        async def heal() -> None:
            link.pass_through()
            # TCP loses no bytes in the middle of a connection: these are broken.
            link.cut()

        blows: dict[str, tuple[Blow, Blow]] = {
            "stopped": (own_server.pause, own_server.resume),
            "killed": (own_server.kill, own_server.start),
            "black hole": (hole, heal),
        }
        strike, lift = blows[outage]
        url = link.url if outage == "black hole" else own_server.url
        async with gunicorn(url, ledger, workers=2) as http, asyncio.TaskGroup() as group:

            async def health(status: int) -> bool:
                return (await http.get("/health")).status_code == status

            async def seen(*statuses: int) -> None:
                async def enough() -> bool:
                    counts = [answers.seen[answers.when, status] for status in statuses]
                    return counts[0] >= ENOUGH and all(counts)

                await until_async(enough, 80)

            async def noticed() -> bool:
                return answers.seen["there", 503] >= CALLERS

            await until_async(lambda: health(200), 60)
            await take(own_server.url, answers)
            callers = [group.create_task(call(http, numbers, answers)) for _ in range(CALLERS)]
            await seen(200, 409)
            answers.taken = outage != "killed"
            await strike()
            # Workers have noticed, and what Redis said in its last moment has arrived.
            await until_async(noticed, 80)
            await asyncio.sleep(1.5)
            answers.set_away(away=True)
            await seen(503)
            assert await health(503)
            answers.set_away(away=False)
            await lift()
            if outage == "killed":
                await take(own_server.url, answers)
            await seen(200, 409)
            assert await health(200)
            answers.ended = True
            await asyncio.wait(callers)
        # gunicorn has ended in good order: nothing is held by those who asked last.
        async with Redis.from_url(own_server.url) as redis:
            left = await redis.keys("order:*")
            assert left == [b"order:taken"]

    assert answers.wrong == []
    assert entries(ledger) == answers.paid
    assert len(set(answers.paid.values())) == len(answers.paid), "an order was paid twice"


async def take(url: str, answers: Answers) -> None:
    """Take one order, as soon as the service does not have it, and die: it stays taken."""
    text = """
    if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
    redis.call('HSET', KEYS[1], 'somebody', 1)
    return redis.call('PEXPIRE', KEYS[1], 600000)
    """
    async with Redis.from_url(url) as redis:
        await until_async(lambda: redis.eval(text, 1, "order:taken"))
    answers.taken = True


async def pay(http: httpx.AsyncClient, order: str, key: str) -> tuple[int, str]:
    """Pay an order as the service's docstring says: again, until the answer is final."""
    while True:
        answer = await http.post(f"/orders/{order}/pay", headers={"Idempotency-Key": key})
        error = answer.json().get("error", "")
        if answer.status_code != 503 and error != "busy":
            return answer.status_code, error


PAID, ALREADY_PAID = (200, ""), (409, "already paid")


async def test_an_order_is_paid_once_whatever_the_keys(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger.sqlite"
    async with (
        gunicorn(own_server.url, ledger, workers=1) as one,
        gunicorn(own_server.url, ledger, workers=1) as other,
    ):
        # One after the other: the lock is free when the second request comes.
        assert await pay(one, "17", "first") == PAID
        for http in (other, one):
            assert await pay(http, "17", "second") == ALREADY_PAID
            assert await pay(http, "17", "first") == PAID
        paid = {"first": "17"}

        # At once, in two processes.
        for order in map(str, range(100, 120)):
            keys = (f"{order} a", f"{order} b")
            answers = await asyncio.gather(pay(one, order, keys[0]), pay(other, order, keys[1]))
            assert sorted(answers) == [PAID, ALREADY_PAID]
            paid[keys[answers.index(PAID)]] = order
    assert entries(ledger) == paid


def test_ledger_takes_an_entry_only_from_the_newest_holder(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path / "ledger.sqlite"))
    assert ledger.begin("17", "paused", 1)
    assert ledger.begin("17", "next", 2)
    # Whoever was overtaken has not paid, also before the next one has.
    with pytest.raises(StaleTokenError):
        ledger.enter("17", "paused", 1)
    with pytest.raises(StaleTokenError):
        ledger.begin("17", "paused", 1)
    ledger.enter("17", "next", 2)
    with pytest.raises(StaleTokenError):
        ledger.enter("17", "paused", 1)
    with pytest.raises(AlreadyPaidError):
        ledger.begin("17", "paused", 3)
    assert not ledger.begin("17", "next", 4)
