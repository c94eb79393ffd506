"""Closes a channel of gRPC whose event loop was closed before it, which gRPC itself cannot.

This uses private names of gRPC: what its own `close` does, without its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc.aio

from redisson_py._loop import end_task, hush, is_closed


def abandon(of_grpc: grpc.aio.Channel) -> None:
    """Close a channel without waiting, also if its event loop was closed."""
    channel: Any = of_grpc
    loop = channel._loop
    if is_closed(loop):
        # gRPC still tells the loop of the end of each call. An error there would keep the call and
        # its socket open, and hold up calls of other loops.
        loop.call_soon, loop.call_soon_threadsafe = _ignore, _carry_out
        for task in asyncio.all_tasks(loop):
            if getattr(task.get_coro(), "__qualname__", "").startswith("_AioCall."):
                hush(task)
    for call in list(channel._active_calls):
        for task in vars(call).values():
            if isinstance(task, asyncio.Task):
                end_task(task)
        call.cancel()
    # What `close` does once there are no calls.
    channel._active_calls.clear()
    channel._channel.close()


def _ignore(*_: object, **__: object) -> None:
    """Do nothing: the loop runs nothing any more."""


def _carry_out(call: Callable[..., object], *arguments: object, **_: object) -> None:
    """Do at once what the loop does not do any more."""
    call(*arguments)
