"""What carries requests to a store: answers that count again, against a store that is none."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import pytest

from redisson_py._answers import Busy as AnsweredBusy
from redisson_py._engine.client_life import ClientLife
from redisson_py._stores.carrier import Carrier
from redisson_py._stores.contract import Bell, Busy, Wish
from redisson_py._stores.last_failure import LastFailure
from redisson_py._stores.requests import Ask, GiveBack, StoreCall


class Occupied:
    """A store in which every name is held; it may ring while it answers."""

    title, where, ends_leases = "a store", "nowhere", True
    last_failure = LastFailure("a store at nowhere")

    def __init__(self, *, rings: bool = False) -> None:
        self.asked = 0
        self._rings = rings
        self._bell: Bell | None = None

    async def start(self, bell: Bell, deadline: float) -> None:
        self._bell = bell

    async def ask(self, wish: Wish, deadline: float) -> Busy:
        self.asked += 1
        if self._rings and self._bell is not None:
            self._bell.ring(wish.name)
        return Busy(None)

    async def stop(self) -> None:
        self._bell = None


def carrier_to(store: Any, woken: list[str | None]) -> Carrier:
    return Carrier(store, ClientLife(), 3.0, lambda name, owner: woken.append(name))


async def ask(carrier: Carrier) -> None:
    wish = Wish("k", "client:1", 30.0, renewed=True, waits=True)
    call = StoreCall(Ask(wish), carrier.time() + 3.0)
    carrier.send(call)
    assert await call.future == AnsweredBusy(None, queued=True)


def stop_clock(carrier: Carrier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all requests come at one moment, however slow the machine is."""
    present = time.monotonic()
    monkeypatch.setattr(carrier, "time", lambda: present)


@pytest.mark.parametrize("rings_for", [None, "k", "another"])
async def test_an_answer_counts_again_until_the_store_rings(
    rings_for: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, woken = Occupied(), list[str | None]()
    carrier = carrier_to(store, woken)
    stop_clock(carrier, monkeypatch)
    await ask(carrier)
    await ask(carrier)
    assert store.asked == 1
    if rings_for is None:
        carrier.ring_all()
    else:
        carrier.ring(rings_for)
    assert woken == [rings_for]
    await ask(carrier)
    assert store.asked == (1 if rings_for == "another" else 2)
    await carrier.close()


async def test_an_answer_behind_a_ring_does_not_count_again() -> None:
    store = Occupied(rings=True)
    carrier = carrier_to(store, [])
    await ask(carrier)
    await ask(carrier)
    assert store.asked == 2
    await carrier.close()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no eager tasks before Python 3.12")
async def test_where_tasks_begin_at_once_the_next_request_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request that is answered without waiting is over before its task is known."""
    store = Occupied()
    carrier = carrier_to(store, [])
    stop_clock(carrier, monkeypatch)
    loop = asyncio.get_running_loop()
    loop.set_task_factory(getattr(asyncio, "eager_task_factory"))  # noqa: B009
    try:
        await ask(carrier)
        await ask(carrier)
        carrier.ring("k")
        await ask(carrier)
    finally:
        loop.set_task_factory(None)
    assert store.asked == 2
    await carrier.close()


async def test_what_was_not_asked_was_not_heard() -> None:
    """An owner of which the store has nothing gives back without a request."""
    carrier = carrier_to(Occupied(), [])
    await ask(carrier)
    heard_at, carrier.ready = carrier.heard_at, False
    call = StoreCall(GiveBack("k", "client:2"), carrier.time() + 3.0, must=True)
    carrier.send(call)
    assert await call.future is None
    assert not carrier.ready
    assert carrier.heard_at == heard_at
    await carrier.close()
