"""How commands end: exit statuses, errors in one line, and answers as text or JSON."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

import anyio
import click

from redisson_py import AcquireTimeoutError, RedissonError

#: Those of sysexits.h.
UNAVAILABLE, LOST, BUSY = 69, 74, 75

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def answer(value: Any) -> None:
    """Print one JSON document on one line."""
    click.echo(json.dumps(value))


def say(message: str) -> None:
    """Print one line on stderr; nothing happens if that cannot be written to."""
    try:
        click.echo(f"redisson-py: {message}", err=True)
    except OSError:
        # Python would try again when it exits, and replace our exit status by 120.
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def fail(status: int, message: str) -> NoReturn:
    """Print one line on stderr and exit."""
    say(message)
    sys.exit(status)


def asynchronous(command: Callable[..., Awaitable[int | None]]) -> Callable[..., None]:
    """Make a command of a coroutine function: its result is the exit status, None is 0.

    What Redis refuses or does not answer is one line and 69, busy is 75.
    """

    @functools.wraps(command)
    def runs(**options: Any) -> None:
        try:
            status = anyio.run(functools.partial(command, **options))
        except AcquireTimeoutError as error:
            fail(BUSY, str(error))
        except RedissonError as error:
            fail(UNAVAILABLE, str(error))
        except KeyboardInterrupt:
            sys.exit(130)
        sys.exit(status or 0)

    return runs
