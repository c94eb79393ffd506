"""How a lock is lost, and its fencing tokens, over every store."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from redisson_py import FencedLease, LeaseLostError, Redisson
from tests.stores.backends import Client
from tests.stores.conftest import NewClient
from tests.stores.test_contract import SOON, is_waiting

pytestmark = pytest.mark.also("stores-uvloop")


async def test_a_lock_that_is_freed_by_force_cancels_the_body(
    client: Client, other: Client
) -> None:
    reached = False
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k") as lease:
            assert await other.get_lock("k").force_release()
            await asyncio.sleep(2 * SOON)
            reached = True
    assert not reached
    assert lease.lost
    assert caught.value.reason == "taken"
    assert caught.value.name == "k"
    assert not await client.get_lock("k").locked()
    assert not await other.get_lock("k").force_release()


async def test_its_own_client_tells_it_at_once(client: Client) -> None:
    with pytest.raises(LeaseLostError) as caught:
        async with client.get_lock("k"):
            await asyncio.create_task(client.get_lock("k").force_release())
            await asyncio.sleep(SOON)
    assert caught.value.reason == "forced"


async def test_the_error_of_the_body_is_not_masked(client: Client, other: Client) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        async with client.get_lock("k") as lease:
            assert await other.get_lock("k").force_release()
            with contextlib.suppress(asyncio.CancelledError):
                await lease.wait_lost()
                await asyncio.sleep(SOON)
            raise ZeroDivisionError
    assert "LeaseLostError" in "".join(caught.value.__notes__)


async def test_a_forced_release_wakes_waiters(client: Client, other: Client) -> None:
    lease = await client.get_lock("k").acquire()
    waiter = asyncio.create_task(other.get_lock("k").acquire())
    await is_waiting(other, 1)
    assert await client.get_lock("k").force_release()
    async with asyncio.timeout(SOON):
        await (await waiter).release()
    assert lease.lost
    with pytest.raises(LeaseLostError):
        await lease.release()


async def test_a_loss_may_only_raise(new_client: NewClient, other: Client) -> None:
    client = new_client(on_lost="raise")
    reached = False
    with pytest.raises(LeaseLostError):
        async with client.get_lock("k") as lease:
            await other.get_lock("k").force_release()
            await lease.wait_lost()
            reached = True
    assert reached


# Fencing tokens.


async def test_tokens_grow_from_holder_to_holder(new_client: NewClient) -> None:
    clients = [new_client(), new_client()]
    tokens: list[int] = []

    async def work(client: Client) -> None:
        for _ in range(5):
            async with client.get_fenced_lock("k") as lease:
                assert isinstance(lease, FencedLease)
                tokens.append(lease.token)

    async with asyncio.timeout(120):
        await asyncio.gather(*[work(client) for client in clients for _ in range(3)])
    assert len(tokens) == 30
    assert tokens == sorted(set(tokens))


async def test_re_entry_keeps_the_token(client: Client) -> None:
    lock = client.get_fenced_lock("k")
    async with lock as outer, lock as inner:
        assert inner.token == outer.token
    async with lock as later:
        assert later.token > outer.token


async def test_a_plain_and_a_fenced_lock_exclude_each_other(client: Client, other: Client) -> None:
    async with client.get_lock("k") as lease:
        assert lease.token is None
        assert await other.get_fenced_lock("k").try_acquire() is None
        with pytest.raises(RuntimeError, match="no fencing token"):
            await client.get_fenced_lock("k").acquire()
    async with client.get_fenced_lock("k"):
        assert await other.get_lock("k").try_acquire() is None


async def test_a_forced_release_finds_a_grant_whose_answer_is_under_way(
    new_client: NewClient, other: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With several connections answers come in another order than the requests were served."""
    # No renewal is due before the end of the test.
    client = new_client(lease_time=4 * SOON)
    granted, may_come = asyncio.Event(), asyncio.Event()
    if isinstance(client, Redisson):
        pytest.skip("one connection: the answers keep their order")
    store = client._executor.carrier.store
    ask = store.ask

    async def ask_slowly(*arguments: Any, **options: Any) -> Any:
        answer = await ask(*arguments, **options)
        granted.set()
        await may_come.wait()
        return answer

    async with client.get_lock("first"):
        pass
    monkeypatch.setattr(store, "ask", ask_slowly)
    acquiring = asyncio.create_task(client.get_lock("k").acquire())
    await granted.wait()
    assert await client.get_lock("k").force_release()
    taken = await other.get_lock("k").acquire(timeout=SOON)
    may_come.set()
    lease = await acquiring
    async with asyncio.timeout(SOON):
        await lease.wait_lost()
    await taken.release()
