"""What is special about `Once`: it is carried out once, and all get its result."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from redis.asyncio import Redis

from redisson_py import (
    AcquireTimeoutError,
    ClientClosedError,
    LeaseLostError,
    NotHeldError,
    Once,
    OnceLease,
    Redisson,
    ScriptError,
)
from redisson_py._redis.commands.once import OnceCommands
from redisson_py.testing import lose
from tests.fixtures.client import ClientFactory
from tests.support.waiting import until, until_async, until_listening, until_waiting

KEY = "redisson_py:once:{k}"
RECORD = f"redisson_py:record:{KEY}"
MIB = 1 << 20


@pytest.fixture
def once(client: Redisson) -> Once:
    return client.get_once("k")


@pytest.fixture
def far(clients: ClientFactory) -> Redisson:
    return clients()


async def enter(once: Once) -> tuple[bool, object]:
    """Enter a block; return what it was told, without completing anything."""
    async with once as entered:
        return entered.done, entered.result if entered.done else None


async def in_a_task(once: Once) -> tuple[bool, object]:
    return await asyncio.create_task(enter(once))


class TestNames:
    """Names come from outside, as idempotency keys do: none may reach another's keys."""

    @pytest.mark.parametrize("other", ["{k}", "{k}:record", "{k}:token", ":{k}", "record:{k}"])
    async def test_no_two_names_share_keys(
        self, client: Redisson, redis: Redis, once: Once, other: str
    ) -> None:
        async with asyncio.timeout(20), client.get_once(other) as running:
            assert await asyncio.create_task(once.run(lambda: "of k")) == "of k"
            await running.complete("of the other")
        assert await asyncio.create_task(once.run(lambda: "again")) == "of k"
        assert await redis.pttl(RECORD) > 86_000_000

    async def test_a_name_in_braces_has_a_result_of_its_own(self, client: Redisson) -> None:
        assert await client.get_once("k").run(lambda: "of k") == "of k"
        assert await client.get_once("{k}").run(lambda: "of {k}") == "of {k}"


class TestBlocks:
    async def test_the_first_runs_it_and_the_others_get_its_result(
        self, client: Redisson, far: Redisson, once: Once
    ) -> None:
        async with once as running:
            assert isinstance(running, OnceLease)
            assert not running.done
            with pytest.raises(RuntimeError, match="no result"):
                _ = running.result
            waiting = [
                asyncio.create_task(enter(each.get_once("k"))) for each in (client, far, far)
            ]
            await until_waiting(far, 2)
            await until_waiting(client, 1)
            await running.complete(b"paid")
            assert (running.done, running.result) == (True, b"paid")
            assert repr(running) == "<OnceLease of once 'k': done>"
            # They need not wait for the end of this block.
            assert await asyncio.gather(*waiting) == [(True, b"paid")] * 3
        assert await in_a_task(once) == (True, b"paid")

    async def test_a_block_without_completion_leaves_the_name_free(
        self, far: Redisson, once: Once
    ) -> None:
        async with once:
            waiting = asyncio.create_task(enter(far.get_once("k")))
            await until_waiting(far, 1)
        assert await waiting == (False, None)
        assert not (await once.inspect()).done

    async def test_an_error_of_the_body_leaves_the_name_free(self, once: Once) -> None:
        with pytest.raises(ZeroDivisionError):
            async with once:
                raise ZeroDivisionError
        assert await in_a_task(once) == (False, None)

    async def test_who_does_not_wait_is_refused_while_somebody_runs_it(
        self, far: Redisson, once: Once
    ) -> None:
        theirs = far.get_once("k")
        async with once as running:
            for seconds in (0, 0.03):
                with pytest.raises(AcquireTimeoutError):
                    async with theirs.hold(timeout=seconds):
                        pytest.fail("two run it")
            assert await theirs.try_acquire() is None
            await running.complete()
            async with theirs.hold(timeout=0) as entered:
                assert entered.done
                assert entered.result == b""

    async def test_each_task_of_one_object_knows_its_own_block(self, once: Once) -> None:
        with pytest.raises(NotHeldError, match="has not entered"):
            _ = once.done
        async with once:
            assert not once.done
            child = asyncio.create_task(once.complete(b"x"))
            with pytest.raises(NotHeldError, match="has not entered"):
                await child
            await once.complete(b"1")
            assert (once.done, once.result) == (True, b"1")
        async with once.hold(timeout=5):
            assert once.result == b"1"

    async def test_a_child_task_may_complete_what_a_block_gave(self, once: Once) -> None:
        async with once as running:
            await asyncio.create_task(running.complete("text"))
        assert running.result == "text"

    async def test_a_block_of_what_is_done_holds_nothing(
        self, client: Redisson, redis: Redis, once: Once
    ) -> None:
        await once.run(lambda: b"1")
        async with once as entered, client.get_once("k") as again:
            assert client.statistics().held_leases == 0
            assert not await once.locked()
            assert entered.token == again.token > 0
            assert not entered.lost
            entered.check()
            with pytest.raises(NotHeldError):
                await entered.extend(5)
        with pytest.raises(NotHeldError):
            await entered.complete(b"2")
        assert await redis.hget(RECORD, "result") == b"1"

    async def test_the_same_task_cannot_enter_what_it_runs(self, once: Once) -> None:
        async with once:
            with pytest.raises(RuntimeError, match="not reentrant"):
                async with once:
                    pytest.fail("entered twice")

    async def test_a_lock_of_the_same_name_has_nothing_to_do_with_it(
        self, client: Redisson, once: Once
    ) -> None:
        async with client.get_lock("k"), client.get_fenced_lock("k2"), once as running:
            await running.complete()
        assert await in_a_task(once) == (True, b"")


class TestCompleting:
    @pytest.mark.parametrize("result", [b"", b"\0\xff", "", "naïve ☃", b"x" * MIB, "x" * MIB])
    async def test_a_result_comes_back_as_it_was(
        self, far: Redisson, once: Once, result: str | bytes
    ) -> None:
        assert await once.run(lambda: result) == result
        found = await far.get_once("k").run(lambda: b"other")
        assert found == result
        assert type(found) is type(result)

    @pytest.mark.parametrize(
        ("result", "error"),
        [
            (b"x" * (MIB + 1), ValueError),
            ("é" * (MIB // 2 + 1), ValueError),
            ("\ud800", ValueError),
            (1, TypeError),
            (None, TypeError),
            (bytearray(b"x"), TypeError),
        ],
    )
    async def test_a_bad_result_is_refused_before_anything_is_sent(
        self, client: Redisson, once: Once, result: Any, error: type[Exception]
    ) -> None:
        async with once as running:
            sent = client.statistics().commands_sent
            with pytest.raises(error, match="result"):
                await running.complete(result)
            assert client.statistics().commands_sent == sent
            await running.complete(b"good")

    async def test_a_block_completes_once(self, once: Once) -> None:
        async with once as running:
            await running.complete(b"1")
            with pytest.raises(NotHeldError, match="done already"):
                await running.complete(b"2")
        assert await in_a_task(once) == (True, b"1")

    async def test_after_its_block_nothing_is_completed(self, once: Once) -> None:
        async with once as running:
            pass
        with pytest.raises(NotHeldError):
            await running.complete(b"1")
        assert await in_a_task(once) == (False, None)

    async def test_one_whose_lease_was_lost_is_refused(self, redis: Redis, once: Once) -> None:
        with pytest.raises(LeaseLostError):
            async with once as running:
                # Nobody has told it yet.
                await redis.delete(KEY)
                with pytest.raises(LeaseLostError, match="taken"):
                    await running.complete(b"late")
        assert await redis.exists(RECORD) == 0
        assert not running.done

    @pytest.mark.parametrize("word", ["ttl", "expire", "lease_time"])
    async def test_a_time_of_another_library(self, client: Redisson, word: str) -> None:
        make: Any = client.get_once
        with pytest.raises(TypeError, match="keep= is the time"):
            make("k", **{word: 5})

    async def test_a_late_one_records_nothing_beside_who_runs_it_now(
        self, clients: ClientFactory, redis: Redis, once: Once
    ) -> None:
        late = await clients(on_lost="raise").get_once("k").acquire()
        await redis.delete(KEY)
        async with once as running:
            assert running.token > late.token
            with pytest.raises(LeaseLostError):
                await late.complete(b"late")
            await running.complete(b"mine")
        assert await in_a_task(once) == (True, b"mine")

    async def test_a_loss_cancels_the_block(self, once: Once) -> None:
        with pytest.raises(LeaseLostError):
            async with once as running:
                losing = asyncio.create_task(lose(running))
                await asyncio.Event().wait()
        await losing
        assert await in_a_task(once) == (False, None)

    async def test_after_completion_nothing_can_be_lost(self, redis: Redis, once: Once) -> None:
        async with once as running:
            await running.complete(b"1")
            await redis.flushdb()
            assert not running.lost
            running.check()
        assert running.result == b"1"

    async def test_a_refusal_leaves_the_block_running(
        self, client: Redisson, redis: Redis, once: Once
    ) -> None:
        async with once as running:
            await redis.set(RECORD, "of another type")
            with pytest.raises(ScriptError):
                await running.complete(b"1")
            assert not running.done
            running.check()
            await redis.delete(RECORD)
            await running.complete(b"2")
        assert await in_a_task(once) == (True, b"2")

    async def test_a_connection_is_for_postgresql(self, once: Once) -> None:
        async with once as running:
            with pytest.raises(TypeError, match="PostgreSQL"):
                await running.complete(b"1", connection=object())
            assert not running.done

    async def test_a_closed_client_completes_nothing(
        self, clients: ClientFactory, redis: Redis
    ) -> None:
        client = clients(on_lost="raise")
        running = await client.get_once("k").acquire()
        await client.aclose()
        with pytest.raises((ClientClosedError, LeaseLostError)):
            await running.complete(b"1")
        assert await redis.exists(RECORD) == 0


class TestRun:
    async def test_the_function_is_called_once_for_all(
        self, client: Redisson, far: Redisson
    ) -> None:
        calls = []

        async def pay(amount: int) -> str:
            calls.append(amount)
            await asyncio.sleep(0)
            return f"paid {amount}"

        found = await asyncio.gather(
            *[each.get_once("k").run(pay, 42) for each in (client, far) for _ in range(20)]
        )
        assert found == ["paid 42"] * 40
        assert calls == [42]

    async def test_nothing_counts_as_no_bytes(self, once: Once) -> None:
        assert await once.run(lambda: None) == b""

    async def test_what_raises_leaves_it_to_the_next(self, far: Redisson, once: Once) -> None:
        async def fails() -> bytes:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await once.run(fails)
        assert await far.get_once("k").run(lambda: b"2") == b"2"

    async def test_a_cancelled_run_leaves_it_to_the_next(self, far: Redisson, once: Once) -> None:
        began = asyncio.Event()

        async def long() -> bytes:
            began.set()
            await asyncio.Event().wait()
            return b""

        running = asyncio.create_task(once.run(long))
        await began.wait()
        theirs = asyncio.create_task(far.get_once("k").run(lambda: b"2"))
        await until_waiting(far, 1)
        running.cancel()
        assert await theirs == b"2"
        with pytest.raises(asyncio.CancelledError):
            await running

    @pytest.mark.parametrize("func", [None, 1, "run"])
    async def test_what_cannot_be_called_is_refused_before_anything_is_sent(
        self, client: Redisson, once: Once, func: Any
    ) -> None:
        with pytest.raises(TypeError, match="callable"):
            await once.run(func)
        assert client.statistics().commands_sent == 0

    async def test_a_wrong_result_is_an_error_and_records_nothing(self, once: Once) -> None:
        wrong: Any = lambda: 1  # noqa: E731
        with pytest.raises(TypeError, match="result must be"):
            await once.run(wrong)
        assert await in_a_task(once) == (False, None)

    async def test_it_is_no_decorator(self, once: Once) -> None:
        async def pay() -> bytes:
            return b""

        for decorator in (once, once.hold(timeout=1)):
            with pytest.raises(TypeError, match=r"once.run\(func\)"):
                decorator(pay)

    async def test_it_is_no_member_of_a_composite(self, client: Redisson, once: Once) -> None:
        with pytest.raises(TypeError, match="done already"):
            client.get_multi_lock(client.get_lock("a"), once)
        red: Any = once
        with pytest.raises(TypeError, match="red lock"):
            client.get_red_lock(red)


class TestKeeping:
    async def test_the_server_forgets_it_after_keep(
        self, client: Redisson, redis: Redis, far: Redisson
    ) -> None:
        await client.get_once("k", keep=timedelta(minutes=1)).run(lambda: b"1")
        assert 50_000 < await redis.pttl(RECORD) <= 60_000
        assert await in_a_task(far.get_once("k")) == (True, b"1")
        await redis.pexpire(RECORD, 1)
        await until_async(lambda: _gone(redis))
        assert await far.get_once("k").run(lambda: b"2") == b"2"
        assert 80_000_000 < await redis.pttl(RECORD) <= 86_400_000

    @pytest.mark.parametrize("keep", [0, -1, float("nan"), float("inf"), 0.0001])
    def test_a_keep_out_of_range_is_refused(self, client: Redisson, keep: float) -> None:
        with pytest.raises(ValueError, match="keep"):
            client.get_once("k", keep=keep)

    @pytest.mark.parametrize("keep", ["1", None, b""])
    def test_a_keep_that_is_no_time_is_refused(self, client: Redisson, keep: Any) -> None:
        with pytest.raises(TypeError, match="keep"):
            client.get_once("k", keep=keep)

    def test_keep_is_given_by_name(self, client: Redisson) -> None:
        get: Any = client.get_once
        with pytest.raises(TypeError):
            get("k", 60)

    async def test_tokens_grow_from_run_to_run(self, client: Redisson, far: Redisson) -> None:
        tokens = []
        for number in range(3):
            async with (client, far)[number % 2].get_once("k") as running:
                tokens.append(running.token)
        async with far.get_once("k") as running:
            await running.complete()
        await client.get_once("k").forget()
        async with client.get_once("k") as again:
            assert tokens == sorted(set(tokens))
            assert again.token > running.token > tokens[-1]

    async def test_its_counter_of_tokens_does_not_stay_for_ever(
        self, client: Redisson, redis: Redis
    ) -> None:
        async with client.get_once("k", keep=60):
            assert 60_000 < await redis.pttl(f"redisson_lock_token:{KEY}") <= 90_000


async def _gone(redis: Redis) -> bool:
    return bool(await redis.exists(RECORD) == 0)


class TestForgetting:
    async def test_it_runs_again_after_it_was_forgotten(self, far: Redisson, once: Once) -> None:
        assert await once.forget() is False
        await once.run(lambda: b"1")
        assert await far.get_once("k").forget() is True
        assert await once.run(lambda: b"2") == b"2"

    async def test_who_runs_it_is_not_touched(self, far: Redisson, once: Once) -> None:
        async with once as running:
            assert await far.get_once("k").forget() is False
            await running.complete(b"1")
        assert await in_a_task(once) == (True, b"1")


class TestWaiting:
    async def test_a_waiter_costs_no_command_until_it_is_done(
        self, client: Redisson, far: Redisson, once: Once
    ) -> None:
        async with once as running:
            waiting = [asyncio.create_task(enter(far.get_once("k"))) for _ in range(50)]
            await until_waiting(far, 50)
            await until_listening(far)
            await until(lambda: not far._context.pending)
            sent = far.statistics().commands_sent
            await running.complete(b"1")
            assert await asyncio.gather(*waiting) == [(True, b"1")] * 50
        # One question each, or two where the release was heard before the answer; and UNSUBSCRIBE.
        assert far.statistics().commands_sent - sent <= 2 * 50 + 1

    async def test_when_its_runner_gives_up_one_waiter_runs_it(
        self, client: Redisson, far: Redisson, once: Once
    ) -> None:
        ran = 0

        async def work(client: Redisson) -> None:
            nonlocal ran
            async with client.get_once("k") as entered:
                if not entered.done:
                    ran += 1
                    await entered.complete()

        async with once:
            waiting = [asyncio.create_task(work(each)) for each in (client, far) * 5]
            await until_waiting(client, 5)
            await until_waiting(far, 5)
        await asyncio.gather(*waiting)
        assert ran == 1

    async def test_a_forced_release_lets_the_next_one_run_it(
        self, clients: ClientFactory, far: Redisson
    ) -> None:
        held = await clients(on_lost="raise").get_once("k").acquire()
        waiting = asyncio.create_task(enter(far.get_once("k")))
        await until_waiting(far, 1)
        assert await far.get_once("k").force_release()
        assert await waiting == (False, None)
        with pytest.raises(LeaseLostError):
            await held.complete()
        with pytest.raises((LeaseLostError, NotHeldError)):
            await held.release()


class TestLooking:
    async def test_it_says_who_runs_it_and_whether_it_is_done(
        self, client: Redisson, once: Once
    ) -> None:
        nothing = await once.inspect()
        assert (nothing.done, nothing.kept, nothing.token, nothing.size) == (False, None, None, 0)
        assert nothing.holders == ()
        async with once as running:
            (holder,) = (await once.inspect()).holders
            assert holder.owner == running.owner
            assert holder.task == asyncio.current_task().get_name()  # type: ignore[union-attr]
            assert 0 < holder.remaining <= 30
            assert await once.locked()
            await running.complete(b"four")
        seen = await once.inspect()
        assert (seen.done, seen.token, seen.size) == (True, running.token, 4)
        assert seen.kept is not None
        assert 86_000 < seen.kept <= 86_400
        assert KEY in seen.keys

    async def test_all_its_keys_are_in_one_slot(self) -> None:
        from redisson_py._keys import key_slot, once

        for name in (b"k", b"{a}b", b"pay:42"):
            keys = OnceCommands(once(name), 1000).keys
            assert len({key_slot(key) for key in (*keys, name)}) == 1
