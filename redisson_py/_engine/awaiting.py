"""Errors that say what to write, where `async` is missing or an acquire is used as a block.

Calls that acquire return an `Acquiring`: their coroutine, which refuses `async with` and `with`. It
has a truth value, as every coroutine: asyncio asks tasks for it. So Python's own warning, that it
was never awaited, is all that `if lock.try_acquire():` gets.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Generator
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, SupportsIndex, TypeVar, cast

from redisson_py._arguments import as_async, refuse_misfit
from redisson_py._process_bound import ProcessBound

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Coroutine[Any, Any, Any]])


class Acquiring(Generic[T]):
    """The coroutine of a call that acquires; it can be used wherever a coroutine can.

    Args:
        coroutine: The coroutine.
        args: The arguments of the call that are given by position.
        given: Those that are given by name.
    """

    __slots__ = ("__weakref__", "_args", "_coroutine", "_given")

    # `inspect.iscoroutine`, on which anyio relies, asks for this class.
    __class__ = CoroutineType  # type: ignore[assignment]

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], args: tuple[Any, ...], given: dict[str, Any]
    ) -> None:
        self._coroutine = coroutine
        self._args = args
        self._given = given

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # A task calls `send` and `throw` of the coroutine itself: a frame of ours between them
        # would refer to those of the event loop for as long as somebody keeps the error.
        return getattr(self._coroutine, name)

    def __repr__(self) -> str:
        return repr(self._coroutine)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> NoReturn:
        # Nor can it be copied.
        raise TypeError(f"cannot pickle {self!r}")

    def _refuse_block(self, *_: object) -> NoReturn:
        """Raise: this is entered as if it were a block."""
        # Or Python would warn, too, that it was never awaited.
        self._coroutine.close()
        name, thing = self.__name__, self._thing
        if name.endswith("_many"):
            advice = f"await it, as in `permits = await {thing}.{name}({self._arguments()})`"
        elif name == "acquire" and not (self._args or self._given):
            advice = f"write `async with {thing}:`"
        else:
            if name == "try_acquire":
                self._given.setdefault("timeout", 0)
            advice = f"write `async with {thing}.hold({self._arguments()}):`"
        raise TypeError(f"{name}() is not a context manager: {advice}")

    __aenter__ = __aexit__ = __enter__ = __exit__ = _refuse_block

    @property
    def _thing(self) -> str:
        return "semaphore" if "Semaphore" in self.__qualname__ else "lock"

    def _arguments(self) -> str:
        named = [f"{key}={value!r}" for key, value in self._given.items()]
        return ", ".join([*map(repr, self._args), *named])


def acquiring(method: F) -> F:
    """Have an async method return an `Acquiring`, and explain arguments that it does not take."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **given: Any) -> Any:
        try:
            # This runs nothing of the method yet.
            coroutine = method(self, *args, **given)
        except TypeError:
            refuse_misfit(method, (self, *args), given)
            raise
        return Acquiring(coroutine, args, given)

    return cast("F", as_async(call))


class AsyncOnly(ProcessBound):
    """Base of what is a block of `async with`: it refuses `with`, pickles and copies."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __enter__(self, *_: object) -> NoReturn:
            raise TypeError(
                f"{type(self).__name__} needs `async with`, inside an `async def`; for other code"
                " there is redisson_py.sync"
            )

        # `with` looks this up before it calls the other.
        __exit__ = __enter__
