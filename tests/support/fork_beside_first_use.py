"""A program that forks while a thread imports a client, makes it and uses it for the first time.

Run as a script, because it must begin without the package: MODULE, CLASS, URL and how many forks,
each in a process of its own at another of the imports that the first use makes. It prints each
import and what became of the child: "done", the name of an error, or "hung".
"""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import threading
from typing import Any

#: Seconds that a child has for an import, a client and a lock, on a busy machine.
DEADLINE = 40

#: Seconds for which an import waits, in the middle, for the fork. One that must wait for the end of
#: the import cannot come sooner.
IN_THE_MIDDLE = 0.05

#: What the package imports first while no process may fork.
FIRST = "redisson_py.errors"


def children(module: str, kind: str, url: str, count: int) -> dict[str, str]:
    """Run the program; return what became of the child that was forked during each import."""
    # From Python 3.12 on, any fork beside threads is warned of.
    command = [sys.executable, "-P", "-W", "ignore", __file__, module, kind, url, str(count)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(row.split() for row in done.stdout.splitlines())


def use(module: str, kind: str, url: str) -> None:
    """Import a client, make one, and take a lock with it."""
    made: Any = getattr(importlib.import_module(module), kind)
    client = made.from_url(url)
    name = f"lock-of-{os.getpid()}"

    async def acquire() -> None:
        async with client, client.get_lock(name):
            pass

    if module.startswith("redisson_py.sync"):
        with client.get_lock(name):
            pass
    else:
        asyncio.run(acquire())


class Watch:
    """What the imports of this process tell; they are watched until the first fork."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.moment: str | None = None
        self.reached = threading.Event()
        self.forked = threading.Event()
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "import" or self.reached.is_set():
            return
        self.names.append(arguments[0])
        if arguments[0] == self.moment:
            self.reached.set()
            self.forked.wait(IN_THE_MIDDLE)


def moments(count: int, *what: str) -> list[str]:
    """Return some of the names that a first use imports, from the first to the last."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        watch = Watch()
        use(*what)
        names = list(dict.fromkeys(watch.names))
        os.write(writing, "\n".join(names[names.index(FIRST) :]).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as reader:
        names = reader.read().split()
    return [names[i * (len(names) - 1) // (count - 1)] for i in range(count)]


def forked_at(moment: str, *what: str) -> str:
    """Fork at a moment of a thread's first use; return what became of the child."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        watch = Watch()
        watch.moment = moment
        thread = threading.Thread(target=use, args=what, daemon=True)
        thread.start()
        assert watch.reached.wait(DEADLINE), moment
        child = os.fork()
        if child == 0:
            signal.alarm(DEADLINE)
            _child(writing, *what)
        watch.forked.set()
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            os.write(writing, b"hung")
        thread.join(DEADLINE)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as reader:
        return reader.read()


def _child(writing: int, *what: str) -> None:
    try:
        use(*what)
    except Exception as error:
        os.write(writing, type(error).__name__.encode())
    else:
        os.write(writing, b"done")
    finally:
        os._exit(0)


if __name__ == "__main__":
    MODULE, KIND, URL, COUNT = sys.argv[1:]
    for each in moments(int(COUNT), MODULE, KIND, URL):
        sys.stdout.write(f"{each} {forked_at(each, MODULE, KIND, URL)}\n")
