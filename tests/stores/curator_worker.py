"""A real Curator in a Java machine; its mutexes are acquired by threads that the tests name."""

from __future__ import annotations

import fcntl
import itertools
import shutil
import subprocess
import threading
from asyncio import wrap_future
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.stores.zookeeper_server import ZooKeeperNotFoundError

_PROJECT = Path(__file__).parent / "curator"
_JVM = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def build() -> str:
    """Build the program, if need be; return its class path.

    Raises:
        ZooKeeperNotFoundError: `java` or `mvn` is missing.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise ZooKeeperNotFoundError(f"needs {program} on the PATH, to talk to a real Curator")
    target = _PROJECT / "target"
    target.mkdir(exist_ok=True)
    built = target / "built"
    sources = [_PROJECT / "pom.xml", *_PROJECT.glob("src/**/*.java")]
    with (target / "lock").open("w") as lock:
        # Several test runs may start at once from one checkout.
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = max(source.stat().st_mtime for source in sources)
        if not built.exists() or built.stat().st_mtime < changed:
            subprocess.run(
                ["mvn", "-q", "-B", "compile"],
                cwd=_PROJECT,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=2,
            )
            built.touch()
    return f"{target}/classes:{target}/lib/*"


class Curator:
    """A process with one Curator client."""

    def __init__(self, port: int, session_ms: int = 5000) -> None:
        """Start it, for the server at a port."""
        self._numbers = itertools.count()
        self._calls: dict[str, Future[str]] = {}
        self._process = subprocess.Popen(
            [
                *("java", *_JVM, "-cp", build()),
                *("redisson_py.stores.Curator", f"127.0.0.1:{port}", str(session_ms)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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

    async def acquire(self, path: str, thread: str = "main", wait: float = 0.0) -> bool:
        """Acquire the mutex of a path in a thread; return whether it did within the time."""
        return await self._call(thread, "acquire", path, str(round(wait * 1000))) == "true"

    async def release(self, path: str, thread: str = "main") -> None:
        """Release it."""
        assert await self._call(thread, "release", path) == "true"

    async def participants(self, path: str) -> list[str]:
        """Return the paths of all contenders, the holder first, as Curator sees them."""
        return (await self._call("looks", "participants", path)).split(",")

    def end(self) -> None:
        """End it as SIGKILL does: its session ends by its timeout."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End it, and close what led to it."""
        self.end()
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
        return await wrap_future(answer)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, _, result = line.rstrip("\n").partition(" ")
            call = self._calls.pop(number)
            if call.set_running_or_notify_cancel():
                call.set_result(result)
        for call in self._calls.values():
            call.cancel()
