"""Runs workloads in threads, on `redisson_py.sync`: each `await` is a call that blocks.

A workload is written once, with `await`. Here the client is one of `redisson_py.sync` behind
`Blocking`, whose methods can be awaited but never suspend: `drive` runs a coroutine of those to
its end.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, TypeVar

import redisson_py
from redisson_py import sync

T = TypeVar("T")

_ASYNC = {name: getattr(redisson_py, name, None) for name in sync.__all__}


def client_of(url: str, options: dict[str, Any]) -> Any:
    """Return a client of `redisson_py.sync` that looks like one of tasks."""
    return Blocking(sync.Redisson.from_url(url, **options))


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends; return what it returns."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise RuntimeError("a workload waited for an event loop in a thread")


class Blocking:
    """An object of `redisson_py.sync` with the interface of the async one of the same name."""

    def __init__(self, own: Any) -> None:
        self.own = own

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.own, name)
        if not callable(found):
            return _seen(found)
        like = getattr(_ASYNC.get(type(self.own).__name__), name, None)
        if inspect.iscoroutinefunction(like):

            async def call(*arguments: Any, **options: Any) -> Any:
                return _seen(found(*map(_own, arguments), **options))

            return call
        return lambda *arguments, **options: _seen(found(*map(_own, arguments), **options))

    async def __aenter__(self) -> Any:
        return _seen(self.own.__enter__())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.own.__exit__(kind, error, trace)

    def __call__(
        self, func: Callable[..., Coroutine[Any, Any, T]]
    ) -> Callable[..., Coroutine[Any, Any, T]]:
        @functools.wraps(func)
        def plain(*arguments: Any, **options: Any) -> T:
            return drive(func(*arguments, **options))

        decorated = self.own(plain)

        @functools.wraps(func)
        async def call(*arguments: Any, **options: Any) -> Any:
            return decorated(*arguments, **options)

        return call


def _own(value: Any) -> Any:
    return value.own if isinstance(value, Blocking) else value


def _seen(value: Any) -> Any:
    """Return a value as workloads see it: objects of `redisson_py.sync` can be awaited."""
    if isinstance(value, list):
        return [_seen(each) for each in value]
    module = type(value).__module__
    return Blocking(value) if module.startswith("redisson_py.sync") else value
