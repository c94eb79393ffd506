"""A connection to one endpoint of etcd, and what a fork of the process does to it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

import grpc
import grpc.aio

from redisson_py._loop import end_task, hush, is_closed
from redisson_py.errors import BackendError

_OPTIONS = (
    # Connections are shared by nothing, and wait for nothing but our own back-off.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    # What a silent connection costs is bounded by the deadlines of calls; this is for a watch.
    # etcd refuses those that probe every 5 s or more often.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # The keys of a name, with those of the names inside it, may be many.
    ("grpc.max_receive_message_length", -1),
)


_used = False
_forked = False


def _after_fork() -> None:
    global _forked
    _forked = _used


# Otherwise the first call in the child would crash it, or never return; one in fifty times it does
# not return even if the parent has closed all its connections before.
os.register_at_fork(after_in_child=_after_fork)


class Connection:
    """A channel to one endpoint.

    Attributes:
        endpoint: Where it goes.
        channel: The channel.
        users: The number of calls and streams on it.
        retired: Whether it failed.
        when_retired: Called when it fails.
    """

    def __init__(self, endpoint: str, channel: grpc.aio.Channel) -> None:
        self.endpoint = endpoint
        self.channel = channel
        self.users = 0
        self.retired = False
        self.when_retired: list[Callable[[], object]] = []

    def close(self) -> Coroutine[Any, Any, None]:
        """Return what closes it; nobody uses it."""
        closing: Coroutine[Any, Any, None] = self.channel.close()
        return closing

    def leave_behind(self) -> None:
        """Close it without waiting: its event loop was closed, or ends now."""
        self.retired = True
        _abandon(self.channel)


def check_not_forked() -> None:
    """Check that gRPC works here.

    Raises:
        BackendError: This process was forked after its parent had connected.
    """
    if _forked:
        raise BackendError(
            "gRPC does not work in a process that was forked after an etcd client was used: use"
            " clients only after the fork, or start the process with spawn"
        )


def connect(endpoint: str, credentials: grpc.ChannelCredentials | None) -> Connection:
    """Return a connection, which is not made yet; with credentials it is encrypted."""
    global _used
    _used = True
    where = f"dns:///{endpoint}"
    if credentials is None:
        channel = grpc.aio.insecure_channel(where, options=_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(where, credentials, options=_OPTIONS)
    return Connection(endpoint, channel)


def _abandon(of_grpc: grpc.aio.Channel) -> None:
    """Close a channel without waiting, also if its event loop was closed.

    gRPC itself cannot. This uses private names of it: what its own `close` does, without its loop.
    """
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
