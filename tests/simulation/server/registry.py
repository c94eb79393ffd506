"""The commands that work on a database: those that scripts and sessions share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation.server.replies import Reply


class Command(NamedTuple):
    """A command.

    Attributes:
        run: Takes the database and the arguments.
        least: The number of arguments, and `most` the greatest one.
        takes_memory: A server that is full refuses it.
    """

    run: Callable[..., Reply]
    least: int
    most: float
    takes_memory: bool = False


#: What a server that is full refuses, and how.
_TAKE_MEMORY = frozenset("APPEND HINCRBY HMSET HSET HSETNX INCR INCRBY LPUSH RPUSH SET ZADD".split())
OUT_OF_MEMORY = b"OOM command not allowed when used memory > 'maxmemory'."

#: By name, in capitals.
COMMANDS: dict[bytes, Command] = {}


def command(run: Callable[..., Reply]) -> Callable[..., Reply]:
    """Make a function the command of its name; its parameters say how many arguments it takes."""
    parameters = [*inspect.signature(run).parameters.values()][1:]
    plain = [p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    least = sum(p.default is p.empty for p in plain)
    most = len(plain) if len(plain) == len(parameters) else math.inf
    name = run.__name__.rstrip("_").upper()
    COMMANDS[name.encode()] = Command(run, least, most, name in _TAKE_MEMORY)
    return run
