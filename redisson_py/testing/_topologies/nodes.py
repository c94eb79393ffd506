"""The data servers of a topology: which can answer, what they say, and when they agree."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from redisson_py.testing._asking import CommandError
from redisson_py.testing._server import EmbeddedServer, end_of_log

#: Answers "" if a condition holds, else what is missing.
Check = Callable[[], Awaitable[str]]
_LOOK_AGAIN: Final = 0.01
#: Seconds a server has for one answer: a busy machine may take a while.
_ANSWER_TIME: Final = 5.0


class TopologyError(RuntimeError):
    """Raised when servers did not agree in time; the message has the log of the one to blame."""


class Blame(TopologyError):
    """Raised when a server could not say what it was asked; while waiting, it is asked again."""


class Nodes:
    """The data servers of one topology.

    Args:
        patience: Seconds that an order, or agreeing on something, may take.

    Attributes:
        all: The servers.
        apart: Those that a partition cut off.
    """

    def __init__(self, patience: float) -> None:
        self.all: Final[list[EmbeddedServer]] = []
        self.apart: Final[set[EmbeddedServer]] = set()
        self._patience: Final = patience

    def awake(self) -> list[EmbeddedServer]:
        """Return the servers that can answer and are not cut off."""
        return [node for node in self.all if self.is_awake(node)]

    def is_awake(self, server: EmbeddedServer) -> bool:
        """Return whether a server, perhaps a Sentinel, can answer and is not cut off."""
        return server.running and not server.paused and server not in self.apart

    async def until(self, what: str, check: Check, timeout: float | None = None) -> None:
        """Return once `check` finds nothing missing.

        Args:
            what: The state until then, for the error.
            check: Returns what is still missing; errors of a server count as an answer.
            timeout: Seconds it may take; None for their patience.
        """
        seconds = self._patience if timeout is None else timeout
        missing = ""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    missing = await _missing(check)
                    if not missing:
                        return
                    await asyncio.sleep(_LOOK_AGAIN)
        except TimeoutError:
            raise TopologyError(f"after {seconds} seconds, {what}; {missing}") from None

    async def ask(self, node: EmbeddedServer, *command: str | int) -> Any:
        """Ask a server something, inside a `check`."""
        try:
            return await node.execute(*command, timeout=_ANSWER_TIME)
        except (CommandError, OSError, TimeoutError) as error:
            text = str(error) or type(error).__name__
            raise Blame(blame(node, f"{command[0]}: {text}")) from error

    async def order(self, node: EmbeddedServer, *command: str | bytes | int) -> Any:
        """Have a server do something; errors are raised as they are."""
        try:
            return await node.execute(*command, timeout=self._patience)
        except (CommandError, OSError, TimeoutError) as error:
            words = " ".join(each for each in command[:2] if isinstance(each, str))
            text = str(error) or type(error).__name__
            raise TopologyError(blame(node, f"{words}: {text}")) from error

    async def info(self, node: EmbeddedServer, section: str) -> dict[str, str]:
        """Return what a server says in a section of INFO, inside a `check`."""
        rows = str(await self.ask(node, "INFO", section)).splitlines()
        return dict(row.split(":", 1) for row in rows if ":" in row)

    async def replication_gap(self, node: EmbeddedServer) -> str:
        """Return what the replication of this server still misses, as INFO tells it."""
        info = await self.info(node, "replication")
        if info["role"] == "slave" and info["master_link_status"] != "up":
            return blame(node, "its link to the master is down")
        lasting = [each for each in info if each.startswith("slave") and each[5:].isdigit()]
        if any("state=online" not in info[each] for each in lasting):
            return blame(node, "a replica is not online yet")
        return ""


def blame(node: EmbeddedServer, text: str) -> str:
    """Return what is wrong with a server, and the end of its log."""
    state = "" if node.running else " (has ended)"
    return f"{node.address}{state}: {text}; {end_of_log(node)}"


async def _missing(check: Check) -> str:
    try:
        return await check()
    except Blame as error:
        return str(error)
