"""Each recipe of examples/recipes runs as a program, and does what docs/recipes.md says of it.

It runs in an environment that has nothing but what its line `# pip install …` installs.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

import asyncpg
import pytest
from redis.asyncio import Redis

from redisson_py.postgres import Postgres
from tests.docs.newcomer import Newcomers
from tests.docs.stores import StoreServers
from tests.support import repository

FOLDER = repository.ROOT / "examples" / "recipes"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
#: Lines of a recipe, without the empty ones.
MOST_ROWS = 39

#: Where readers have them, seen from the folder in which they have installed the checkout.
HERE = "redisson_py/examples/recipes"

Check = Callable[[list[str]], None]
Run = Callable[[str, str, str], list[str]]


#: How a recipe says what it needs.
INSTALL = re.compile(r"^# (pip install .+)$", re.MULTILINE)


@pytest.fixture
def run(newcomers: Newcomers) -> Run:
    """Runs a recipe to its end, in an environment made from its line; gives what it printed."""

    def run(name: str, variable: str, url: str) -> list[str]:
        (row,) = INSTALL.findall((FOLDER / f"{name}.py").read_text("utf-8"))
        reader = newcomers.with_row(row, url)
        shutil.copytree(FOLDER, reader.home / HERE, dirs_exist_ok=True)
        done = reader.type(f"{variable}='{url}' python -W error {HERE}/{name}.py")
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout.splitlines()

    return run


def fastapi_lifespan(rows: list[str]) -> None:
    assert rows == ['while it is locked: 409; afterwards: 200 {"written":"monday"}']


def leader_election(rows: list[str]) -> None:
    terms = [int(found[1]) for row in rows if (found := re.search(r"leads, term (\d+)", row))]
    assert len(terms) == 3
    assert sorted(set(terms)) == terms
    # The loser of the second term may be cancelled, with the others, before it says so.
    assert sum(row.endswith("does not lead any more: forced") for row in rows) in (1, 2)


def elected_service(rows: list[str]) -> None:
    served = [
        found.groups() for row in rows if (found := re.search(r"(.+) serves, term (\d+)", row))
    ]
    terms = [int(term) for _, term in served]
    assert sorted(set(terms)) == terms
    # In order of arrival, each again after the others.
    leaders = [address for address, _ in served]
    assert len({*leaders[:3]}) == 3
    assert leaders[3:] == leaders[: len(leaders) - 3]
    asked = [row.removeprefix("clients ask ") for row in rows if row.startswith("clients ask ")]
    assert len(asked) >= 3
    assert {*asked} == {*leaders}


def cron_job(rows: list[str]) -> None:
    assert rows == [
        "second machine, meanwhile: ran=False",
        "first machine: ran=True",
    ]


def periodic_job(rows: list[str]) -> None:
    assert rows == [
        "prices are fresh",
        "first machine: ran=True",
        "second machine, later: ran=False",
        "the next period may come",
    ]


def work_rate(rows: list[str]) -> None:
    *calls, last = rows
    assert sorted(calls) == [f"worker {a}: call {b}" for a in range(4) for b in range(5)]
    found = re.fullmatch(r"20 calls in ([\d.]+) s", last)
    assert found
    # Four groups of five, each a second after the one before, and the last second: not sooner,
    # however fast the machine is.
    assert float(found[1]) >= 3.9


def rate_limit(rows: list[str]) -> None:
    answers, calls = rows
    # The sixth may come a second after the first, on a machine that is stopped meanwhile.
    assert answers in ("200 200 200 200 200 429 1", "200 200 200 200 200 200 None")
    assert calls == "15 calls"


def migration(rows: list[str]) -> None:
    found = re.fullmatch(r"\{'first name, last name': (\d+), 'name': (\d+)\}", rows[-1])
    assert found, "a request has seen the row half changed, or all saw the same"
    assert int(found[1]) + int(found[2]) == 60
    assert int(found[1]) >= 20
    assert int(found[2]) >= 20


def migration_gate(rows: list[str]) -> None:
    replicas = [f"replica {number} serves with schema 7" for number in range(4)]
    assert rows == [*replicas, "columns: | first name | last name | name"]


def fan_out(rows: list[str]) -> None:
    assert rows == ["all parts are done: NORTH, SOUTH, WEST"]


def sigterm(rows: list[str]) -> None:
    *jobs, last = rows
    assert jobs == ["a job begins", "it is done"] * (len(jobs) // 2)
    assert jobs
    assert last == "stopped between two jobs"


def fencing_sql(rows: list[str]) -> None:
    assert rows == ["new holder: accepted", "paused holder: refused", "balance: 150"]


def celery_task(rows: list[str]) -> None:
    found = ["monday is there", "monday is there", "wrote monday", "wrote tuesday"]
    assert rows == [str(found)]


def celery_chain(rows: list[str]) -> None:
    assert rows == ["loaded rows of users under 'etl:users'", "free again: True"]


def batch_job(rows: list[str]) -> None:
    assert rows == ["the job works under 'table:users': True", "the table is free"]


def django_command(rows: list[str]) -> None:
    assert rows == ["second host: it runs already", "first host: done"]


def django_atomic_requests(rows: list[str]) -> None:
    assert rows == ["answers: {200}", "balance: 300"]


def django_postgres_command(rows: list[str]) -> None:
    assert rows == ["it runs already", "done"]


def idempotent_consumer(rows: list[str]) -> None:
    assert rows == ["booked known known known 1 look-up"]


def postgres_guard(rows: list[str]) -> None:
    assert rows == [
        "taken over before the commit: False",
        "new holder: booked",
        "paused holder: refused",
        "balance: 120",
    ]


def postgres_fencing(rows: list[str]) -> None:
    assert rows == [
        "new holder: accepted",
        "paused holder: refused",
        "now it hears of it",
        "balance: 150",
    ]


def postgres_reports(rows: list[str]) -> None:
    assert sorted(rows) == ["6 reports, at most 2 at a time", "the load runs beside 0 reports"]


def row_lock(rows: list[str]) -> None:
    assert rows == ["paid refused refused", "balance: 40"]


def version_column(rows: list[str]) -> None:
    found = re.fullmatch(r"words: ([abc] [abc] [abc]); version 4; (\d) attempts", rows[-1])
    assert found, "a word is lost"
    assert set(found[1].split()) == set("abc")
    assert 3 <= int(found[2]) <= 6


def idempotency_key(rows: list[str]) -> None:
    assert rows == ["booking 1, booking 1, booking 1", "rows: 1"]


def pay_once(rows: list[str]) -> None:
    failed, at_once, later = rows
    assert failed == "the bank does not answer"
    # A number of a transaction that is rolled back is not used again.
    assert at_once == ", ".join(["payment 2"] * 3)
    assert later == "payment 2 of 1"


#: What the output of a recipe must show.
CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        *(fastapi_lifespan, leader_election, elected_service, cron_job, periodic_job, work_rate),
        *(
            rate_limit,
            migration,
            migration_gate,
            fan_out,
            sigterm,
            fencing_sql,
            idempotent_consumer,
        ),
        *(celery_task, celery_chain, batch_job, django_command),
    )
}
#: The same for those that run on PostgreSQL.
POSTGRES_CHECKS: dict[str, Check] = {
    check.__name__: check
    for check in (
        *(postgres_guard, postgres_fencing, postgres_reports, row_lock, version_column),
        *(idempotency_key, pay_once, django_atomic_requests, django_postgres_command),
    )
}


@pytest.mark.parametrize("name", CHECKS)
async def test_recipe_shows_what_it_claims(
    name: str, run: Run, server_url: str, redis: Redis
) -> None:
    CHECKS[name](run(name, "REDISSON_URL", server_url))
    # The counter of tokens and a semaphore's stay by design, and permits until their lease ends.
    kinds = {key: await redis.type(key) for key in await redis.keys("*")}
    hashes = [key for key, kind in kinds.items() if kind == b"hash" and b"redisson_py" not in key]
    # So do the rates of limiters.
    held = [key for key in hashes if not await redis.hexists(key, "rate")]
    assert held == [], "a lock is still held"


@pytest.mark.parametrize("name", POSTGRES_CHECKS)
async def test_recipe_on_postgres_shows_what_it_claims(
    name: str, run: Run, stores: StoreServers
) -> None:
    url = stores.backend("postgres").url
    POSTGRES_CHECKS[name](run(name, "DATABASE_URL", url))
    connection = await asyncpg.connect(url)
    try:
        left = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'recipe%'"
        assert await connection.fetch(left) == []
    finally:
        await connection.close()
    async with Postgres.from_url(url) as store:
        assert not await store.get_lock("account:a").locked()


def test_every_recipe_is_run() -> None:
    assert set(NAMES) == set(CHECKS | POSTGRES_CHECKS)


@pytest.mark.parametrize("name", CHECKS | POSTGRES_CHECKS)
def test_recipe_is_short_and_on_the_page(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    assert sum(bool(row.strip()) for row in text.splitlines()) <= MOST_ROWS
    page = (repository.ROOT / "docs" / "recipes.md").read_text("utf-8")
    assert f'--8<-- "{name}.py"' in page
    assert f"../examples/recipes/{name}.py" in page
