"""Following what an asynchronous generator of the async client yields."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Any, Generic, Self, TypeVar, final

from redisson_py.sync._wrapping import ThreadsOnly, Wrapper

T = TypeVar("T")


@final
class Observation(ThreadsOnly, Generic[T]):
    """What is now, and then each change: an iterator, whose `next` waits for the next change.

    Any thread may iterate, one at a time. It ends when it is closed, or when it is garbage, as
    behind a `for` loop that was left; an interrupted step, or one that fails, ends it too. Use
    `contextlib.closing` to end it at a moment of your own, which must not be during a step.

    Args:
        source: What is observed.
        observe: Makes the generator of the async client from that of the source.
    """

    def __init__(self, source: Wrapper, observe: Callable[[Any], AsyncGenerator[T]]) -> None:
        self._source = source
        self._observe = observe
        #: Made by the event loop. Dropped without `close`, the event loop closes it.
        self._generator: AsyncGenerator[T] | None = None
        self._closed = False
        #: A step is under way, or was interrupted, or failed.
        self._is_stepping = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._closed or self._is_stepping:
            raise StopIteration
        # What an interrupted step has seen is lost, and the next one would wait for another change.
        self._is_stepping = True
        try:
            state = self._source._call(self._next)
        except StopAsyncIteration:
            raise StopIteration from None
        self._is_stepping = False
        return state

    async def _next(self, own: Any) -> T:
        if self._generator is None:
            self._generator = self._observe(own)
        return await anext(self._generator)

    def close(self) -> None:
        """End it; the next step raises StopIteration. Idempotent."""
        self._closed = True
        generator, self._generator = self._generator, None
        if generator is not None:

            async def close(own: Any) -> None:
                await generator.aclose()

            self._source._call(close)
