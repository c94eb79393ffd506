"""Tasks that take orders, as the threads of the Java machine do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self


class Tasks:
    """Named tasks, each does one call at a time: `await tasks.call("a", lock.acquire)`.

    Leases belong to tasks; a task that lives as long as the test can hold one as a thread does.
    """

    def __init__(self) -> None:
        self._workers: dict[str, _Worker] = {}

    def call(
        self, task: str, function: Callable[..., Awaitable[Any]], **options: Any
    ) -> asyncio.Future[Any]:
        """Have a task call something, now; await what is returned for the result."""
        if task not in self._workers:
            self._workers[task] = _Worker()
        return self._workers[task].order(lambda: function(**options))

    def cancel(self, task: str) -> None:
        """Cancel what a task does; what is awaited for it is cancelled when it has ended."""
        self._workers[task].task.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for worker in self._workers.values():
            worker.ended = True
            worker.task.cancel()
        tasks = [worker.task for worker in self._workers.values()]
        await asyncio.gather(*tasks, return_exceptions=True)


class _Worker:
    def __init__(self) -> None:
        self._orders: asyncio.Queue[tuple[Callable[[], Awaitable[Any]], asyncio.Future[Any]]] = (
            asyncio.Queue()
        )
        self.ended = False
        self.task = asyncio.create_task(self._run())

    def order(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._orders.put_nowait((function, answer))
        return answer

    async def _run(self) -> None:
        while True:
            function, answer = await self._orders.get()
            try:
                result = await function()
            except asyncio.CancelledError:
                answer.cancel()
                task = asyncio.current_task()
                if self.ended or task is None:
                    raise
                task.uncancel()
            except Exception as error:
                if not answer.cancelled():
                    answer.set_exception(error)
            else:
                if not answer.cancelled():
                    answer.set_result(result)
