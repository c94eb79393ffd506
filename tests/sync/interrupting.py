"""Exceptions that come from outside, as signal handlers raise them."""

from __future__ import annotations

import dis
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from types import CodeType, FrameType
from typing import Any

from tests.sync.generate import SYNC
from tests.sync.threads import Running


class Interrupted(Exception):
    """Raised by a signal handler, as Celery's SoftTimeLimitExceeded is."""


@contextmanager
def raising_handler() -> Iterator[None]:
    """Have SIGUSR1 raise `Interrupted` in the main thread.

    Nothing is collected meanwhile: what is raised in a callback of the collector (hypothesis has
    one), or in a finalizer that it runs, reaches nobody, and pytest fails the test for it.
    """

    def handler(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    collecting = gc.isenabled()
    gc.disable()
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)
        if collecting:
            gc.enable()


def signal_when(condition: Callable[[], object], number: int = signal.SIGUSR1) -> Running[None]:
    """Send the main thread a signal when a condition has come true."""

    def watch() -> None:
        condition()
        main = threading.main_thread().ident
        assert main is not None
        signal.pthread_kill(main, number)

    return Running(watch)


#: The instructions behind which Python runs signal handlers; and at the beginning of a function.
_INTERRUPTIBLE = ("CALL", "JUMP_BACKWARD", "RESUME")


@cache
def _points(code: CodeType) -> frozenset[int]:
    """Return the offsets at which a signal handler may have run just before."""
    steps = list(dis.get_instructions(code))
    return frozenset(
        after.offset for one, after in pairwise(steps) if one.opname.startswith(_INTERRUPTIBLE)
    )


def interrupted_at(step: int, func: Callable[[], object], where: str = str(SYNC)) -> bool:
    """Run a function, and raise `Interrupted` before one instruction of `redisson_py.sync`.

    Args:
        step: The number of the instruction among those that this thread executes.
        func: The function.
        where: What the paths of the files begin with, if they are others.

    Returns:
        Whether there are so many.
    """
    left = step

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(where):
            return None
        frame.f_trace_opcodes = True
        if event in ("call", "opcode") and (
            event == "call" or frame.f_lasti in _points(frame.f_code)
        ):
            left -= 1
            if left < 0:
                sys.settrace(None)
                raise Interrupted(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        func()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    assert left >= 0, "the interruption was swallowed"
    return False
