"""Operations that are under way together, without tasks."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Coroutine
from typing import Any

import pytest

from redisson_py.composite._gather import Gather, Sent


class Peer:
    """Answers operations when the test says so, and notes what it sees of them."""

    def __init__(self) -> None:
        self.answers: dict[str, asyncio.Future[Any]] = {}
        self.seen: list[str] = []

    async def ask(self, name: str, times: int = 1) -> str:
        self.seen.append(f"{name} asked")
        answer = name
        try:
            for _ in range(times):
                self.answers[name] = asyncio.get_running_loop().create_future()
                answer = await self.answers[name]
        except asyncio.CancelledError:
            self.seen.append(f"{name} cancelled")
            raise
        finally:
            self.seen.append(f"{name} over")
        return answer

    def ask_all(self, *names: str) -> Gather[str]:
        return Gather(self.ask(name) for name in names)

    def answer(self, name: str, answer: str | Exception = "yes") -> None:
        future = self.answers[name]
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)


@pytest.fixture
def peer() -> Peer:
    return Peer()


async def iterations(count: int = 3) -> None:
    """Let the loop run what is due."""
    for _ in range(count):
        await asyncio.sleep(0)


async def test_all_are_begun_at_once_in_order_and_without_tasks(peer: Peer) -> None:
    before = asyncio.all_tasks()
    together = peer.ask_all("a", "b", "c")
    assert peer.seen == ["a asked", "b asked", "c asked"]
    assert asyncio.all_tasks() == before
    together.cancel()


async def test_results_and_errors_have_their_numbers(peer: Peer) -> None:
    together = peer.ask_all("a", "b", "c")
    for name, answer in (("c", "no"), ("a", ValueError("b")), ("b", "yes")):
        peer.answer(name, answer)
    await together.wait()
    assert together.results == {2: "no", 1: "yes"}
    assert [str(error) for error in together.errors.values()] == ["b"]
    assert list(together.errors) == [0]
    await together.wait()


async def test_enough_is_enough_and_the_others_come_to_their_end(peer: Peer) -> None:
    together = peer.ask_all("a", "b", "c")
    waiting = asyncio.create_task(together.wait(2))
    peer.answer("a", ValueError())
    peer.answer("c")
    await iterations()
    assert not waiting.done()
    peer.answer("b")
    await waiting
    together = peer.ask_all("d", "e")
    waiting = asyncio.create_task(together.wait(1))
    await iterations()
    peer.answer("e")
    await waiting
    late: list[int] = []
    together.on_end = late.append
    peer.answer("d")
    await iterations()
    assert late == [0]
    assert together.results == {1: "yes", 0: "yes"}


@pytest.mark.parametrize("answered", [False, True])
async def test_the_others_get_a_grace(peer: Peer, answered: bool) -> None:
    together = peer.ask_all("a", "b")
    waiting = asyncio.create_task(together.wait(1, grace=0.02 if not answered else 60))
    await iterations()
    peer.answer("a")
    await iterations()
    assert not waiting.done()
    if answered:
        peer.answer("b")
    await waiting
    assert together.left == (0 if answered else 1)
    together.cancel()


async def test_cancelled_wait_leaves_them_alone(peer: Peer) -> None:
    together = peer.ask_all("a", "b")
    waiting = asyncio.create_task(together.wait())
    await iterations()
    waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled()
    for name in ("a", "b"):
        peer.answer(name)
    await iterations()
    assert together.results == {0: "yes", 1: "yes"}


@pytest.mark.parametrize("answered", [False, True])
async def test_cancel_is_seen_at_once(peer: Peer, answered: bool) -> None:
    """Before this turn of the loop is over, and also when an answer is in that nobody has seen."""
    together = peer.ask_all("a")
    future = peer.answers["a"]
    if answered:
        peer.answer("a")
    together.cancel()
    assert peer.seen == ["a asked", "a cancelled", "a over"]
    assert future.cancelled() is not answered
    together.cancel()
    await iterations()
    assert isinstance(together.errors[0], asyncio.CancelledError)
    assert peer.seen == ["a asked", "a cancelled", "a over"]


async def test_cancelled_future_is_an_error_of_its_operation(peer: Peer) -> None:
    together = peer.ask_all("a")
    peer.answers["a"].cancel()
    await together.wait()
    assert isinstance(together.errors[0], asyncio.CancelledError)


class Seen(Gather[str]):
    """Can be looked after."""

    __slots__ = ("__weakref__",)


async def test_what_has_ended_does_not_wait_for_the_garbage_collector(peer: Peer) -> None:
    gc.disable()
    try:
        together = Seen(peer.ask(name) for name in ("a", "b"))
        for name in ("a", "b"):
            peer.answer(name)
        await together.wait()
        seen = weakref.ref(together)
        del together
        assert seen() is None
    finally:
        gc.enable()


class Asked(Sent[str]):
    """Is all told by one reply, unless that says that there is more."""

    def __init__(self) -> None:
        super().__init__()
        self.abandoned = 0

    def finish(self, reply: str) -> str | None:
        if reply == "wrong":
            raise ValueError(reply)
        return None if reply == "more" else reply

    def resume(self) -> Coroutine[Any, Any, str]:
        async def resume() -> str:
            return f"{await self}, and what follows"

        return resume()

    def abandon(self) -> None:
        self.abandoned += 1


async def test_reply_ends_what_was_begun_in_the_same_iteration() -> None:
    begun = [Asked(), Asked(), Asked()]
    together = Gather(begun)
    begun[1].set_result("yes")
    assert (together.results, together.left) == ({1: "yes"}, 2)
    begun[0].set_result("more")
    assert together.results == {1: "yes", 0: "more, and what follows"}
    begun[2].set_result("wrong")
    assert [str(error) for error in together.errors.values()] == ["wrong"]
    await together.wait()
    together.cancel()
    assert [each.abandoned for each in begun] == [0, 0, 0]


async def test_error_instead_of_a_reply_is_left_to_resume() -> None:
    begun = Asked()
    together = Gather([begun])
    begun.set_exception(ConnectionError("gone"))
    assert [str(error) for error in together.errors.values()] == ["gone"]
    await together.wait()


async def test_what_was_begun_is_abandoned_once(peer: Peer) -> None:
    begun = Asked()
    operations: list[Coroutine[Any, Any, str] | Sent[str]] = [peer.ask("a"), begun]
    together = Gather(operations)
    together.cancel()
    together.cancel()
    assert begun.abandoned == 1
    assert begun.cancelled()
    assert [type(error) for error in together.errors.values()] == [asyncio.CancelledError] * 2
    with pytest.raises(asyncio.InvalidStateError):
        begun.set_result("too late")
    assert not together.results


async def test_bare_pauses_are_gone_through() -> None:
    async def pause() -> str:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "rested"

    together = Gather([pause()])
    await together.wait()
    assert together.results == {0: "rested"}
