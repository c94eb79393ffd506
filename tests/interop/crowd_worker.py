"""A process whose tasks work in the mixed crowd, as `Crowd.java` says of its threads.

Run as `python -m tests.interop.crowd_worker`. It takes orders as JSON lines on its input: what
`Crowd.java` wants, the `url` of the server, and the client's `lease_time` and `turn`. Each is
answered with `done`. It ends with its input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from redisson_py import Redisson
from redisson_py._engine import waiting
from redisson_py.semaphores import _queue

Section = Callable[[int], AbstractAsyncContextManager[str]]


class Referee:
    """The referee, as one task sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def tell(self, words: str) -> str:
        """Tell the next step and return the answer."""
        self._writer.write(words.encode() + b"\n")
        answer = await self._reader.readline()
        if not answer:
            sys.exit("the referee is gone")
        return answer.decode().strip()


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Referee]:
    """Connect to the referee."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield Referee(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()


def sections(client: Redisson, kind: str, name: str) -> Section:
    """Return what to enter for the section of a number; it says how one may share it."""

    def within(held: Any, mode: str = "alone") -> AbstractAsyncContextManager[str]:
        @asynccontextmanager
        async def block() -> AsyncIterator[str]:
            async with held as lease:
                yield mode if lease.token is None else f"{mode} {lease.token}"

        return block()

    @asynccontextmanager
    async def unlocked() -> AsyncIterator[str]:
        yield "alone"

    if kind == "read-write lock":
        both = client.get_read_write_lock(name)
        sides: list[tuple[Any, str]] = [(both.read_lock(), "shared"), (both.write_lock(), "alone")]
        return lambda number: within(*sides[number % 2])
    makers: dict[str, Callable[[], Any]] = {
        "read lock": lambda: client.get_read_write_lock(name).read_lock(),
        "write lock": lambda: client.get_read_write_lock(name).write_lock(),
        "lock": lambda: client.get_lock(name),
        "non-reentrant lock": lambda: client.get_lock(name, reentrant=False),
        "fair lock": lambda: client.get_fair_lock(name),
        "fenced lock": lambda: client.get_fenced_lock(name),
        "multi lock": lambda: client.get_multi_lock(
            client.get_lock(f"{name}1"), client.get_lock(f"{name}2")
        ),
        "semaphore": lambda: client.get_semaphore(name),
        "permit semaphore": lambda: client.get_permit_expirable_semaphore(name),
    }
    if kind == "nothing":
        return lambda number: unlocked()
    lock = makers[kind]()
    mode = "permit" if "semaphore" in kind else "shared" if kind == "read lock" else "alone"
    return lambda number: within(lock, mode)


async def work(client: Redisson, order: dict[str, Any]) -> None:
    """Do one worker's share."""
    async with connected(order["port"]) as referee:
        await referee.tell(f"hello python {order['process']}")
        if order["kind"] == "latch":
            await rounds(client, order, referee)
            return
        section = sections(client, order["kind"], order["name"])
        for number in range(order["sections"]):
            async with section(order["first"] + number) as mode:
                value = int(await referee.tell(f"enter {mode}"))
                answer = await referee.tell(f"leave {value + 1}")
            if answer == "closed":
                return
            if order["alternate"]:
                await referee.tell("rest")


async def rounds(client: Redisson, order: dict[str, Any], referee: Referee) -> None:
    """Count down with all parties and wait for them, round after round.

    Each round has one of three latches, which every party arms in the round before. Who does
    has passed the round before that, so all have counted down there, and nobody is still in
    the one before, which had the same latch.
    """
    latches = [client.get_latch(f"{order['name']}{number}") for number in range(3)]
    for number in range(order["sections"]):
        if number + 1 < order["sections"]:
            await latches[(number + 1) % 3].try_set_count(order["parties"])
        await referee.tell(f"arrive {number}")
        await latches[number % 3].count_down()
        await latches[number % 3].wait()
        await referee.tell(f"pass {number}")


async def carry_out(order: dict[str, Any]) -> None:
    """Have tasks of a new client work until all have done their share."""
    async with Redisson.from_url(
        order["url"], lease_time=order["lease_time"], turn=order["turn"]
    ) as client:
        async with asyncio.TaskGroup() as group:
            for _ in range(order["workers"]):
                group.create_task(work(client, order))


def main() -> None:
    """Carry out orders until the input ends."""
    # Nobody gets along by asking again: who misses a message must be missed.
    for module in (waiting, _queue):
        setattr(module, "SAFETY_POLL_SECONDS", 100_000.0)  # noqa: B010  # mypy knows it in one of them only
    for row in sys.stdin:
        asyncio.run(carry_out(json.loads(row)))
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
