"""Has processes of both languages work together; `CROWD=10` makes it ten times the work."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from typing import Any

from tests.interop.crowd_referee import Referee
from tests.interop.java import Java, JavaObject

TIMES = int(os.environ.get("CROWD", "1"))
#: Threads or tasks a process.
WORKERS = 3
#: Sections of a worker.
SHARE = 180 * TIMES
#: In seconds; longer than any test, so that whoever is not woken by a message never is.
LEASE = 36_000


class Crew:
    """A process with workers.

    Attributes:
        language: Which they speak.
        process: It.
    """

    language: str
    process: subprocess.Popen[bytes]
    _doomed = False

    async def work(self, order: dict[str, Any]) -> None:
        """Have all workers do their share; return also if the process is killed."""
        raise NotImplementedError

    def die(self) -> None:
        """Kill the process: nothing is released, nobody says good-bye."""
        self._doomed = True
        self.process.kill()


class PythonCrew(Crew):
    """A process with a client of this library."""

    language = "python"

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.interop.crowd_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    async def work(self, order: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        try:
            answer = await asyncio.to_thread(self.process.stdout.readline)
        except asyncio.CancelledError:
            # The thread would sleep until there is something to read.
            self.process.kill()
            raise
        assert answer or self._doomed, "a process has ended"

    def close(self) -> None:
        """End it, if it has not ended, and tidy up."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()


class JavaCrew(Crew):
    """A process with a client of Redisson."""

    language = "java"

    def __init__(self, java: Java, client: JavaObject) -> None:
        self._java = java
        self._client = client
        self.process = java.process

    async def work(self, order: dict[str, Any]) -> None:
        thread = self._java.new_name()
        try:
            await self._java.driver.call("crowd", self._client, order, thread=thread)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            assert task is not None
            if task.cancelling() or not self._doomed:
                raise


#: A turn of 0 passes nothing inside a process, so that the languages meet oftener.
_USUAL = {
    "workers": WORKERS,
    "sections": SHARE,
    "turn": 0,
    "lease_time": LEASE,
    "wait_ms": 0,
    "parties": 0,
    "alternate": False,
}


async def work(crews: Sequence[Crew], referee: Referee, **order: Any) -> None:
    """Have every crew carry out an order, each under a name of its own; see `Crowd.java`."""
    async with asyncio.TaskGroup() as group:
        for number, crew in enumerate(crews):
            own = {"process": f"{crew.language}{number}", "first": number, "port": referee.port}
            group.create_task(crew.work({**_USUAL, **own, **order}))


class Order:
    """Who came to a fair lock and who got it, in the order of Redis.

    Attributes:
        grants: How often it was given.
        queued: How often somebody had to stand in line.
        overtaken: Each time somebody got it, or came again, before his time.
    """

    def __init__(self, log: bytes, name: str) -> None:
        self.grants = self.queued = 0
        self.overtaken: list[str] = []
        order: deque[bytes] = deque()
        #: By owner, where it waits under another name: see lua/fair_lock/acquire.lua.
        waits_as: dict[bytes, bytes] = {}
        name = re.escape(name)
        asks = r'"evalsha" "\w+" "6" (?:"[^"]*" ){6}"([^"]+)" "1" "\d+" "\d+" "\d+" "([^"]+)"'
        comes = rf'RPUSH" "redisson_lock_queue:{{{name}}}" "([^"]+)"'
        gets = rf'(?:HSET|HINCRBY)" "{name}" "([^"]+)" "1"'
        pattern = rf'{asks}|lua\] "(?:{comes}|{gets})'.encode()
        for found in re.finditer(pattern, log, re.IGNORECASE):
            owner, position, comer, holder = found.groups()
            if owner:
                waits_as[owner] = owner if position == b"1" else position
            elif comer:
                self.queued += 1
                if comer in order:
                    self.overtaken.append(f"{comer!r} had a place and came again")
                order.append(comer)
            else:
                self.grants += 1
                waiter = waits_as.get(holder, holder)
                if order and order[0] != waiter:
                    self.overtaken.append(f"{waiter!r} came before {order[0]!r}")
                if waiter in order:
                    order.remove(waiter)
