"""The commands that work on a database, which scripts and sessions share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.server.replies import Reply


class Command(NamedTuple):
    """A command.

    Attributes:
        run: Takes what it works on, and the arguments.
        least: The number of arguments, and `most` the greatest one.
        takes_memory: A server that is full refuses it.
    """

    run: Callable[..., Reply]
    least: int
    most: float
    takes_memory: bool = False


#: What a server that is full refuses, and how.
_TAKE_MEMORY = {"APPEND", "HINCRBY", "HMSET", "HSET", "INCR", "INCRBY", "LPUSH", "RPUSH", "SET"}
_TAKE_MEMORY |= {"ZADD"}
BUSY = b"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."

#: By name, in capitals.
COMMANDS: dict[bytes, Command] = {}


def described(run: Callable[..., Reply]) -> Command:
    """Return a function as a command; its parameters say how many arguments it takes.

    The first one is what it works on: a database, or a session.
    """
    parameters = [*inspect.signature(run).parameters.values()][1:]
    plain = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    least = sum(p.default is p.empty for p in plain)
    return Command(run, least, len(plain) if len(plain) == len(parameters) else math.inf)


def command(run: Callable[..., Reply]) -> Callable[..., Reply]:
    """Make a function the command of its name."""
    name = run.__name__.rstrip("_").upper()
    COMMANDS[name.encode()] = described(run)._replace(takes_memory=name in _TAKE_MEMORY)
    return run
