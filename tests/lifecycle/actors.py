"""Tasks that carry out orders one at a time, and the blocks that they enter."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Any

from redisson_py import Lease, LeaseLostError

Work = Callable[[], Coroutine[Any, Any, Any]]
#: When an order is cancelled: at which suspension, counted from 1, and whether the awaited future
#: is already done at that moment; or after how many turns of the loop.
Cut = tuple[int, bool] | int


class Order:
    """An operation that an actor carries out, and its outcome.

    Attributes:
        thrown: Whether our cancellation reached the operation.
        value: What it returned; None until then.
        error: What it raised.
    """

    def __init__(self, work: Work, cut: Cut | None = None) -> None:
        self._work = work
        self._cut = cut
        self._task: asyncio.Task[None] | None = None
        self._suspensions = 0
        self.asked_to_cancel = False
        self.thrown = False
        self.finished = False
        self.value: Any = None
        self.error: BaseException | None = None

    @property
    def begun(self) -> bool:
        """Whether the actor has begun it."""
        return self._task is not None

    def cancel(self) -> None:
        """Cancel the operation, once, if it has begun and not ended."""
        if self._task is not None and not self.finished and not self.asked_to_cancel:
            self.asked_to_cancel = True
            self._task.cancel()

    async def carry_out(self, task: asyncio.Task[None]) -> BaseException | None:
        """Run the operation; return a cancellation that is not ours, which the body gets."""
        self._task = task
        try:
            self.value = await self
        except BaseException as error:
            self.error = error
            if not isinstance(error, Exception | asyncio.CancelledError):
                raise
        finally:
            self.finished = True
            if self.asked_to_cancel:
                task.uncancel()
        ours = self.asked_to_cancel
        return self.error if isinstance(self.error, asyncio.CancelledError) and not ours else None

    def __await__(self) -> Generator[Any, Any, Any]:
        operation = self._work()
        if isinstance(self._cut, int):
            self._count_down(self._cut)
        step = partial(operation.send, None)
        while True:
            try:
                future = step()
            except StopIteration as end:
                return end.value
            self._suspensions += 1
            if isinstance(self._cut, tuple) and self._suspensions == self._cut[0]:
                self._cut_at(future, answered=self._cut[1])
            try:
                yield future
                step = partial(operation.send, None)
            except BaseException as error:
                self.thrown |= self.asked_to_cancel and isinstance(error, asyncio.CancelledError)
                step = partial(operation.throw, error)

    def _count_down(self, iterations: int) -> None:
        if iterations:
            asyncio.get_running_loop().call_soon(self._count_down, iterations - 1)
        else:
            self.cancel()

    def _cut_at(self, future: asyncio.Future[Any] | None, *, answered: bool) -> None:
        if answered and future is not None:
            # Before the callback by which the future wakes the task.
            future.add_done_callback(lambda _: self.cancel())
        else:
            asyncio.get_running_loop().call_soon(self.cancel)


class Block:
    """An `async with` block that stays open until it is left, in any task.

    Attributes:
        entered: The kind of thing that the block uses.
        stacked: It is on an `AsyncExitStack`, and not in an async generator.
        lease: What its `as` gave.
        left: A task has been told to leave it.
        ended: It has been left.
        error: What came out of it, if not what was thrown in.
    """

    def __init__(
        self, manager: AbstractAsyncContextManager[Any], entered: str, *, stack: bool
    ) -> None:
        self.entered = entered
        self.manager = manager
        self._generator: AsyncGenerator[Any, None] | None = None
        self._stack: AsyncExitStack | None = AsyncExitStack() if stack else None
        self.stacked = stack
        self.lease: Lease | None = None
        self.left = False
        self.ended = False
        self.error: BaseException | None = None

    @property
    def leaving(self) -> bool:
        """Whether a task is leaving it: what it releases may be on its way to the server."""
        dropped = self._stack is None and self._generator is None
        return self.left and not self.ended and not dropped

    async def enter(self) -> Lease:
        """Enter it in the current task."""
        if self._stack is not None:
            entered = await self._stack.enter_async_context(self.manager)
        else:
            self._generator = _body(self.manager)
            entered = await anext(self._generator)
        assert isinstance(entered, Lease)
        self.lease = entered
        return entered

    async def leave(self, how: str) -> None:
        """Leave it in the current task: by its "end", a "break", or an "error".

        Raises:
            Exception: What comes out of the block.
        """
        self.left = True
        try:
            if how == "error":
                await self.throw(ZeroDivisionError("of the body"))
            elif self._stack is not None:
                await self._stack.aclose()
            elif self._generator is not None and how == "end":
                assert await anext(self._generator, "over") == "over"
            elif self._generator is not None:
                await self._generator.aclose()
        except BaseException as error:
            self.error = error
            raise
        finally:
            self.ended = True

    async def throw(self, error: BaseException) -> None:
        """Have the body raise `error`.

        Raises:
            BaseException: What comes out of the block; `error`, or what replaced it.
        """
        self.left = True
        try:
            if self._stack is None:
                assert self._generator is not None
                await self._generator.athrow(error)
            elif not await self._stack.__aexit__(type(error), error, None):
                raise error
        except BaseException as raised:
            self.error = raised
            raise
        finally:
            self.ended = True
        raise AssertionError(f"the block swallowed {error!r}")

    def drop(self) -> None:
        """Drop the generator; the event loop closes it in a task of its own."""
        self.left = True
        self._generator = None


async def _body(manager: AbstractAsyncContextManager[Any]) -> AsyncGenerator[Any, None]:
    async with manager as entered:
        yield entered


class Actor:
    """A task that carries out orders, and unwinds its blocks when it is cancelled.

    Attributes:
        client: The number of its client.
        blocks: The blocks that it has entered and that are still its own to leave.
        findings: What happened although it must not.
    """

    def __init__(self, name: str, client: int) -> None:
        self.name = name
        self.client = client
        self.blocks: list[Block] = []
        self.findings: list[str] = []
        self._orders: asyncio.Queue[Order | None] = asyncio.Queue()
        self.order: Order | None = None
        self.unwinding = False
        self._expected = 0
        self._killed = False
        self._ending = False
        self.task = asyncio.create_task(self._run(), name=name)

    def __repr__(self) -> str:
        return self.name

    @property
    def idle(self) -> bool:
        """Whether it can take an order now."""
        busy = self.order is not None and not self.order.finished
        return not (busy or self.unwinding or self._ending or self.task.done())

    def begin(self, work: Work, cut: Cut | None = None) -> Order:
        """Have it begin an operation."""
        self.order = order = Order(work, cut)
        self._orders.put_nowait(order)
        return order

    def cancel_body(self) -> None:
        """Cancel the task outside any operation: all its blocks are left."""
        self._expected += 1
        self.unwinding = True
        self.task.cancel()

    def end(self) -> None:
        """End the task, its blocks still open."""
        self._ending = True
        self._orders.put_nowait(None)

    def kill(self) -> None:
        """Cancel the task in any state; it ends as soon as it can."""
        self.blocks.clear()
        self._killed = True
        self.task.cancel()

    async def _run(self) -> None:
        while not self._killed:
            try:
                order = await self._orders.get()
            except asyncio.CancelledError as error:
                await self._unwind(error)
                continue
            if order is None:
                return
            cancelled = await order.carry_out(self.task)
            if cancelled is not None:
                await self._unwind(cancelled)

    async def _unwind(self, error: BaseException) -> None:
        self.unwinding = True
        reported = False
        while self.blocks and not reported:
            block = self.blocks.pop()
            if block.left:
                continue
            try:
                await block.throw(error)
            except asyncio.CancelledError as passed:
                error = passed
            except LeaseLostError:
                reported = True
            except BaseException as raised:
                self.findings.append(f"{raised!r} out of a block of {self} for {error!r}")
                reported = True
        while self._expected or (not reported and self.task.cancelling()):
            self._expected = max(0, self._expected - 1)
            self.task.uncancel()
        self.unwinding = False
