"""Which acquisition a block's exit is for, however the two halves of the block were looked up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from redisson_py._engine.block import Block, BlockHalf, HoldBlock
from redisson_py._engine.decorating import Fill
from redisson_py._engine.lease import Lease
from redisson_py._loop import Task
from redisson_py.errors import NotHeldError
from tests.unit.fakes import FakeOwnership, make_hold, make_lease

EXIT = (None, None, None)


class FakeLock:
    """Anybody can hold it at any time; it notes what is held."""

    def __init__(self) -> None:
        self._half: Block | None = None
        self._by_hand: tuple[Block, ...] = ()
        self._ownership = FakeOwnership("k")
        self.held: list[Lease] = []
        self.fails = False

    __aenter__: Any = BlockHalf("__aexit__")
    __aexit__: Any = BlockHalf("__aenter__")

    def __repr__(self) -> str:
        return "fake lock 'k'"

    async def _acquire_for_block(self, task: Task | None = None, begun: object = None) -> Lease:
        await asyncio.sleep(0)
        if self.fails:
            raise ZeroDivisionError
        return self.new_lease()

    def new_lease(self) -> Lease:
        lease = make_lease(make_hold(FakeOwnership("k")))
        self.held.append(lease)
        return lease

    def _acquired_since(self, lease: Lease, task: Task | None) -> Lease | None:
        return None

    @property
    def _names(self) -> tuple[str, ...]:
        return ("k",)

    def _filled(self, fill: Fill) -> FakeLock:
        return self

    @property
    def states(self) -> list[str]:
        return [lease._state for lease in self.held]


@pytest.fixture
def lock() -> FakeLock:
    return FakeLock()


Entry = tuple[Callable[[], Any], Callable[..., Any]]


def enter_first(lock: FakeLock) -> Entry:
    """Look the halves up as `async with` does before Python 3.14."""
    enter = lock.__aenter__
    return enter, lock.__aexit__


def exit_first(lock: FakeLock) -> Entry:
    """Look the halves up as `async with` does since Python 3.14."""
    leave = lock.__aexit__
    return lock.__aenter__, leave


def on_the_class(lock: FakeLock) -> Entry:
    """Look the halves up as `AsyncExitStack` does."""
    enter, leave = type(lock).__aenter__, type(lock).__aexit__
    return lambda: enter(lock), lambda *error: leave(lock, *error)


every_way = pytest.mark.parametrize("look_up", [enter_first, exit_first, on_the_class])


async def elsewhere(leave: Callable[..., Any]) -> None:
    """Call an exit in a task of its own."""

    async def work() -> None:
        await leave(*EXIT)

    await asyncio.create_task(work())


@every_way
async def test_each_exit_is_for_its_own_entry(
    lock: FakeLock, look_up: Callable[[FakeLock], Entry]
) -> None:
    entries = [look_up(lock) for _ in range(3)]
    for number in (1, 0, 2):
        await entries[number][0]()
    # In the order of entry these are 1, 0, 2; whoever leaves, in whatever order.
    await elsewhere(entries[0][1])
    assert lock.states == ["held", "released", "held"]
    await entries[1][1](*EXIT)
    assert lock.states == ["released", "released", "held"]
    await elsewhere(entries[2][1])
    assert lock.states == ["released"] * 3
    assert lock._half is None
    assert lock._by_hand == ()


class TestByHand:
    async def test_those_looked_up_before_any_is_entered(self, lock: FakeLock) -> None:
        """`asyncio.wait_for(lock.__aenter__(), 1)` looks it up now and calls it later."""
        early = lock.__aenter__
        enter, leave = enter_first(lock)
        late = lock.__aenter__
        first, second, third = await early(), await enter(), await late()
        await leave(*EXIT)
        assert (first._state, second._state, third._state) == ("held", "released", "held")
        await lock.__aexit__(*EXIT)
        await lock.__aexit__(*EXIT)
        assert lock.states == ["released"] * 3

    async def test_an_entry_that_failed_is_none(self, lock: FakeLock) -> None:
        lock.fails = True
        with pytest.raises(ZeroDivisionError):
            await lock.__aenter__()
        assert lock._by_hand == ()
        with pytest.raises(ZeroDivisionError):
            async with lock:
                pytest.fail("entered")
        assert lock._half is None


class TestLookedAt:
    """A half that was looked at, and never called, does not spoil the next block."""

    @pytest.mark.parametrize("half", ["__aenter__", "__aexit__"])
    @pytest.mark.parametrize("of_class", [False, True])
    @every_way
    async def test_one_half(
        self, lock: FakeLock, half: str, of_class: bool, look_up: Callable[[FakeLock], Entry]
    ) -> None:
        assert hasattr(type(lock) if of_class else lock, half)
        enter, leave = look_up(lock)
        lease = await enter()
        await leave(*EXIT)
        assert lease._state == "released"
        async with lock as again:
            pass
        assert again._state == "released"
        assert lock._by_hand == ()


class TestHoldBlock:
    async def test_it_is_used_once_at_a_time(self, lock: FakeLock) -> None:
        block = HoldBlock(lock, FakeLock._acquire_for_block)
        for _ in range(2):
            async with block:
                with pytest.raises(RuntimeError, match="in use"):
                    await block.__aenter__()
        assert lock.states == ["released"] * 2

    async def test_an_entry_that_failed_frees_it(self, lock: FakeLock) -> None:
        block = HoldBlock(lock, FakeLock._acquire_for_block)
        lock.fails = True
        with pytest.raises(ZeroDivisionError):
            await block.__aenter__()
        with pytest.raises(NotHeldError, match="not entered"):
            await block.__aexit__(*EXIT)
        lock.fails = False
        async with block:
            pass
        assert lock.states == ["released"]
