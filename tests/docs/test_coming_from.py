"""What docs/coming-from.md says of ported code is what happens to it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from redis.asyncio import Redis

import redisson_py
from redisson_py import Lease, Redisson
from redisson_py._arguments import RENAMED, WITHOUT
from redisson_py._engine.block import HoldBlock
from tests.support import repository

PAGE = (repository.ROOT / "docs" / "coming-from.md").read_text("utf-8")


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = [row for row in section.splitlines() if row.startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


PORTED = rows("If you change only the import")
NAMES = rows("Names")


async def run(source: str, client: Redisson, lease: Lease | None = None) -> Any:
    """Run one expression of the page, and leave nothing held."""
    names = {"redis": client, "lock": client.get_lock("k"), "lease": lease}
    value: Any = eval(source.removeprefix("await "), names)
    if source.startswith("await "):
        value = await value
    if isinstance(value, HoldBlock):
        async with value:
            pass
    elif isinstance(value, Lease):
        await value.release()
    return value


@pytest.mark.parametrize("row", PORTED, ids=lambda row: row[0])
async def test_the_same_call(row: list[str], client: Redisson) -> None:
    (ported,), outcome = code(row[0]), code(row[1])[0]
    held = await client.get_lock("k").acquire() if "release()" in ported else None

    async def call() -> Any:
        return await run(ported, client)

    if outcome.endswith("Error"):
        kind = (
            getattr(redisson_py, outcome, None)
            or {
                "TypeError": TypeError,
                "AttributeError": AttributeError,
            }[outcome]
        )
        with pytest.raises(kind):
            await asyncio.create_task(call())
    else:
        assert type(await call()).__name__ == outcome
    if held is not None:
        await held.release()


@pytest.mark.parametrize("row", PORTED, ids=lambda row: row[0])
async def test_what_to_write(row: list[str], client: Redisson) -> None:
    advice = code(row[2])[0]
    lease = await client.get_lock("k").acquire() if "lease." in advice else None
    await run(advice, client, lease)
    if lease is not None and "release()" not in advice:
        await lease.release()


async def test_what_changes_in_silence(client: Redisson, redis: Redis) -> None:
    lock = client.get_lock("k")
    theirs: Any = redis.lock("k", timeout=10)
    assert await theirs.acquire()
    with pytest.raises(redisson_py.ScriptError, match="WRONGTYPE"):
        await lock.acquire(timeout=1)
    await theirs.release()
    async with lock:
        async with lock:
            assert not await redis.lock("k", timeout=10).acquire(blocking=False)

        async def child() -> Lease | None:
            return await lock.try_acquire()

        assert await asyncio.create_task(child()) is None
    with pytest.raises(ValueError, match="timeout"):
        await lock.acquire(timeout=-1)
    async with client.get_lock("k", reentrant=False):
        with pytest.raises(RuntimeError):
            await client.get_lock("k", reentrant=False).acquire()


def test_the_arguments_of_others_are_refused_in_our_words() -> None:
    """Those of the rows of arguments, of the libraries for Python and of Redisson."""
    ours = {name for row in NAMES for name in code(row[0])}
    found: set[str] = set()
    for name, *theirs in NAMES:
        if name in ("`timeout`", "`lease_time`", "`lease.owner`") or not code(name):
            found |= {each for cell in theirs[:5] for each in code(cell)}
    assert {"blocking_timeout", "sleep", "expire", "token", "waitTime"} <= found
    assert found - ours <= {*RENAMED, *WITHOUT}
