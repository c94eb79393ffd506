"""What every simulation of a seed stands on: a loop, a network, a trace, and a clean end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

from redisson_py._loop import discard
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.seeded import collect, quiet, seeded
from tests.simulation.trace import Trace, script_names

#: The first port of the servers.
PORT = 6379


class Simulation:
    """The loop, the network and the trace of one seed.

    Attributes:
        seed: What decides everything.
        unhandled: What is called with what only the exception handler of the loop gets.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = SimulatedLoop(self.chance("loop"))
        self.trace = Trace(script_names())
        self.network = Network(self.loop, self.trace, self.chance)

    def chance(self, name: str) -> random.Random:
        """Return the source of random numbers of one part."""
        return random.Random(f"{self.seed}: {name}")

    def note(self, *words: object) -> None:
        """Write something into the trace."""
        self.trace.add(self.loop.time(), *words)

    def run(
        self,
        live: Callable[[], Coroutine[Any, Any, None]],
        after_step: Callable[[], object] | None = None,
    ) -> None:
        """Run `live` to its end, outside of all hosts, and `after_step` after every step."""
        collect()
        with seeded(self.loop.time, self.chance("package")), quiet():
            self.loop.after_step = after_step
            try:
                self.loop.run_until_complete(live())
            except BaseException as error:
                self.note("failed:", type(error).__name__, error)
                raise
            finally:
                self._destroy()

    def _destroy(self) -> None:
        """End what is left of processes, where nothing comes of it."""
        self.loop.after_step = None
        for host in self.loop.hosts:
            if not host.crashed:
                self.loop.crash(host)
        # What is suspended sees a running loop, which ignores all that it asks for.
        asyncio._set_running_loop(self.loop)
        for _, reference in self.loop.tasks:
            task = reference()
            if task is not None and not task.done():
                discard(task)
        for host in self.loop.hosts:
            host.bury()
        asyncio._set_running_loop(None)
        self.loop.forget()
        self.loop.close()
