"""Processes that acquire locks as the tests say: of Go, of Java, and of this library."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from asyncio import wrap_future
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.stores import builds
from tests.stores.backends import Backend


class WorkerError(Exception):
    """What a call in another process raised."""


class Worker:
    """A process with one client, whose threads, named by the tests, are owners of locks."""

    def __init__(self, command: Sequence[str]) -> None:
        """Start it."""
        self._numbers = itertools.count()
        self._calls: dict[str, Future[str]] = {}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def acquire(self, name: str, thread: str = "main", wait: float = 0.0) -> bool:
        """Acquire a lock in a thread; return whether it did within the time."""
        return await self._call(thread, "acquire", name, str(round(wait * 1000))) == "true"

    async def release(self, name: str, thread: str = "main") -> None:
        """Release it."""
        await self._call(thread, "release", name)

    async def delete(self, name: str, number: int = 0) -> None:
        """Delete the key of a contender, whoever it is: 0 is the holder."""
        await self._call("deletes", "delete", name, str(number))

    async def crowd(self, name: str, file: Path, times: int, row: str) -> None:
        """Add a line so many times to a file that only the lock protects."""
        await self._call("crowd", "crowd", name, str(file), str(times), row)

    async def leave(self) -> None:
        """Close the session of the main thread."""
        await self._call("main", "leave")

    async def key(self, name: str) -> str:
        """Return the key of the main thread: Go."""
        return await self._call("main", "key", name)

    async def campaign(self, name: str, value: str, thread: str = "main", wait: float = 30) -> bool:
        """Campaign in a thread; return whether it was elected within the time."""
        words = "campaign", name, value, str(round(wait * 1000))
        return await self._call(thread, *words) == "true"

    async def proclaim(self, name: str, value: str, thread: str = "main") -> None:
        """Have a leader say something else: Go."""
        await self._call(thread, "proclaim", name, value)

    async def resign(self, name: str, thread: str = "main") -> None:
        """End a leadership."""
        await self._call(thread, "resign", name)

    async def candidate(self, name: str) -> str:
        """Return the key with which the main thread campaigns: Go."""
        return await self._call("main", "candidate", name)

    async def leader(self, name: str) -> tuple[str, int]:
        """Return what the leader says, and when its key was created; of Curator, 1."""
        value, revision = (await self._call("looks", "leader", name)).split(" ")
        return value, int(revision)

    async def observe(self, name: str, last: str) -> list[str]:
        """Return what leaders said, in order, until one says `last`: Go."""
        return (await self._call("observes", "observe", name, last)).split(",")

    async def participants(self, name: str) -> list[str]:
        """Return the paths of all contenders, the holder first: Curator."""
        return (await self._call("looks", "participants", name)).split(",")

    def kill(self) -> None:
        """End it as SIGKILL does: its session ends by its timeout."""
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def pause(self) -> None:
        """Stop it (SIGSTOP)."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it, and close what led to it."""
        self.kill()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    async def _call(self, thread: str, *words: str) -> str:
        number = str(next(self._numbers))
        answer: Future[str] = Future()
        self._calls[number] = answer
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join((number, thread, *words)) + "\n")
        self._process.stdin.flush()
        result = await wrap_future(answer)
        if result.startswith("!"):
            raise WorkerError(result[1:])
        return result

    def _read(self) -> None:
        assert self._process.stdout is not None
        for row in self._process.stdout:
            number, _, result = row.rstrip("\n").partition(" ")
            call = self._calls.pop(number)
            if call.set_running_or_notify_cancel():
                call.set_result(result)
        for call in self._calls.values():
            call.cancel()


def theirs(store: str, backend: Backend, session: int = 10) -> Worker:
    """Start a process of the other language, with sessions of so many seconds."""
    address = f"127.0.0.1:{backend.server.port}"
    if store == "etcd":
        return Worker([*builds.go(), address, str(session)])
    return Worker([*builds.curator(), address, str(session * 1000)])


def ours(store: str, backend: Backend, session: int = 10) -> Worker:
    """Start a process with a client of this library, with leases of so many seconds."""
    command = [sys.executable, "-m", "tests.stores.our_worker", store, backend.url, str(session)]
    return Worker(command)
