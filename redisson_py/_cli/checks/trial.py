"""A real lock under a random name: acquired, extended, handed over by a message, released."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

import anyio

from redisson_py import Listener, Redisson, RedissonError, ScriptError, WaitStartedEvent
from redisson_py._cli.checks.facts import Trial
from redisson_py._client import context_of
from redisson_py._time import now

_PINGS = 5
#: A waiter that finds the lock free before it sleeps needs no message. Then it is tried again.
_MOST_HANDOVERS = 3


class _Waiting(Listener):
    """Says when a client begins to wait."""

    def __init__(self) -> None:
        self.started = anyio.Event()

    def wait_started(self, event: WaitStartedEvent, /) -> None:
        self.started.set()


class _Refusals(logging.Handler):
    """Keeps errors that the library logs: nothing else shows that SUBSCRIBE was refused."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


@dataclass(slots=True)
class _Progress:
    """How far the trial has come."""

    step: str = "connect"
    woken: bool = False
    pings: tuple[float, ...] = ()


async def try_lock(new_client: Callable[..., Redisson], limit: float) -> Trial:
    """Use a lock with two clients, and say what became of it.

    Cancelled, it holds nothing: its clients release it as they close. It leaves small records that
    expire within 90 seconds.

    Args:
        new_client: Makes a client, with the options it is given.
        limit: Seconds that each call may take.
    """
    progress, refusals, began = _Progress(), _Refusals(), now()
    log = logging.getLogger("redisson_py")
    log.addHandler(refusals)
    error = ""
    try:
        await _use(new_client, limit, progress, refusals)
    except* RedissonError as group:
        first = _first(group)
        # Without the random name.
        error = f"{first.script}: {first.message}" if isinstance(first, ScriptError) else str(first)
    finally:
        log.removeHandler(refusals)
    trial = Trial(error, progress.step, progress.woken, pings=progress.pings, seconds=now() - began)
    listening = [text for text in refusals.texts if text.startswith("cannot listen")]
    return replace(trial, message_error=listening[0] if listening else "")


async def _use(
    new_client: Callable[..., Redisson], limit: float, progress: _Progress, refusals: _Refusals
) -> None:
    waiting = _Waiting()
    name = f"redisson-py:doctor:{uuid.uuid4().hex}"
    async with (
        new_client(command_timeout=limit) as holder,
        new_client(command_timeout=limit, listener=waiting) as waiter,
    ):
        await holder.ping()
        progress.step = "ping"
        for _ in range(_PINGS):
            began = now()
            await holder.ping()
            progress.pings += (now() - began,)
        for _ in range(_MOST_HANDOVERS):
            await _hand_over(holder, waiter, name, waiting, progress)
            if progress.woken or refusals.texts:
                break
    progress.step = ""


async def _hand_over(
    holder: Redisson, waiter: Redisson, name: str, waiting: _Waiting, progress: _Progress
) -> None:
    lock, context = waiter.get_lock(name), context_of(waiter)
    waiting.started = anyio.Event()
    before = waiter.statistics().wake_ups

    async def wait() -> None:
        try:
            lease = await lock.acquire()
        finally:
            # If the lock was lost meanwhile, there was no wait.
            waiting.started.set()
        progress.woken = waiter.statistics().wake_ups > before
        progress.step = "release a lock"
        await lease.release()

    progress.step = "acquire a lock"
    lease = await holder.get_lock(name).acquire()
    progress.step = "extend a lease"
    await lease.extend(context.options.lease_time)
    progress.step = "wait for a lock"
    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await waiting.started.wait()
        # SUBSCRIBE was sent before this, on the same connection.
        await context.executor.query(lock.key, "PING")
        progress.step = "release a lock"
        await lease.release()


def _first(group: BaseExceptionGroup[RedissonError]) -> RedissonError:
    for error in group.exceptions:
        return _first(error) if isinstance(error, BaseExceptionGroup) else error
    raise AssertionError("a group has errors in it")
