"""A Java machine with real Redisson clients, and orders for its threads."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from tests.interop.driver_build import RELEASE, command

MS = "MILLISECONDS"
#: Starts in half the time; the tests do not need its speed.
_QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
#: Few connections: each test has clients of its own.
_SMALL = {"subscriptionConnectionMinimumIdleSize": 1, "threads": 4}
_SMALL_ONE = _SMALL | {"connectionMinimumIdleSize": 1}
_SMALL_MANY = _SMALL | {
    # Of several nodes on a busy machine one may not answer within the usual three seconds.
    "timeout": 15_000,
    "masterConnectionMinimumIdleSize": 1,
    "slaveConnectionMinimumIdleSize": 1,
}


class JavaError(Exception):
    """What a call in Java raised.

    Attributes:
        kind: The simple name of the Java exception.
    """

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.kind = name.rpartition(".")[2]


class JavaObject:
    """An object in the Java machine; its methods are called by their Java names.

    Each call is made in the Java thread named by `thread`, which does one call at a time.
    Numbers, text (also for enums and, in ISO 8601, durations), lists and other objects of the
    machine can be arguments.
    """

    def __init__(self, java: Java, name: str) -> None:
        self.java = java
        self.name = name

    def call(self, method: str, *args: object, thread: str = "main") -> asyncio.Future[Any]:
        """Send the order now; await what is returned for the result.

        The result of an asynchronous method is what its future completes with.

        Raises:
            JavaError: The method raised (when awaited).
        """
        return asyncio.wrap_future(self.java.order(self.name, method, args, thread))

    async def get(self, method: str, *args: object, thread: str = "main") -> JavaObject:
        """Call a method and keep the object that it returns."""
        name = self.java.new_name()
        await asyncio.wrap_future(self.java.order(self.name, method, args, thread, name))
        return JavaObject(self.java, name)


class Java:
    """A process that runs the driver; clients in it share nothing but the process.

    Not bound to an event loop: tests with loops of their own can share one.
    """

    def __init__(self, release: str = RELEASE) -> None:
        """Start it, built if need be.

        Raises:
            JavaNotFoundError: `java` or `mvn` is missing.
        """
        self.release = release
        self._numbers = itertools.count()
        self._calls: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        self.process = subprocess.Popen(
            command(release, *_QUICK), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.driver = JavaObject(self, "driver")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def since(self, *release: int) -> bool:
        """Whether this release is that one or a later one: `java.since(4, 0)`."""
        return tuple(map(int, self.release.split("."))) >= release

    async def connect(self, address: str, prefix: str = "", **settings: object) -> JavaObject:
        """Connect a Redisson client.

        Args:
            address: A URL as this library takes it: `redis://`, `redis+cluster://` or
                `redis+sentinel://`, without a password.
            prefix: A NameMapper puts this before every name.
            settings: Of `Config` or its part for such servers, named as there
                (`lockWatchdogTimeout=1500`).
        """
        small = _SMALL_MANY if "+" in address else _SMALL_ONE
        return await self.driver.get(
            "connect", address, prefix, {**small, **settings}, thread=self.new_name()
        )

    def order(
        self,
        on: str,
        method: str,
        args: tuple[object, ...],
        thread: str,
        keep_as: str | None = None,
    ) -> Future[Any]:
        """Write an order; its future is for any thread."""
        call: Future[Any] = Future()
        row = {"on": on, "method": method, "thread": thread, "as": keep_as}
        with self._lock:
            number = next(self._numbers)
            self._calls[number] = call
            text = json.dumps({"id": number, **row, "args": [_argument(arg) for arg in args]})
            assert self.process.stdin is not None
            self.process.stdin.write(text.encode() + b"\n")
            self.process.stdin.flush()
        return call

    def new_name(self) -> str:
        """Return a name that nothing has yet."""
        return f"#{next(self._numbers)}"

    def kill(self) -> None:
        """End it as SIGKILL does: nothing is released, nobody says good-bye."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for row in self.process.stdout:
            answer = json.loads(row)
            call = self._calls.pop(answer["id"])
            # A caller that was cancelled wants no answer.
            if not call.set_running_or_notify_cancel():
                continue
            if "error" in answer:
                call.set_exception(JavaError(answer["error"], answer["message"]))
            else:
                call.set_result(answer["result"])
        for call in self._calls.values():
            call.cancel()


def _argument(arg: object) -> object:
    if isinstance(arg, JavaObject):
        return {"object": arg.name}
    if isinstance(arg, Mapping):
        return dict(arg)
    return arg
