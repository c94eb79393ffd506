"""Whatever is asked in whatever order, by this toolkit, by Redisson and by the dead, each unit
taken comes back once: the semaphores beside models in plain Python."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from redisson_py import _keys
from tests.lua.permit_models import Model, Permits, Plain, said
from tests.support.scripts.calls import TOMBSTONE, Scripts, ask
from tests.support.scripts.expirable import ExpirableScripts
from tests.support.scripts.permits import NEVER, SemaphoreScripts

M = TypeVar("M", bound=Model)
S = TypeVar("S", SemaphoreScripts, ExpirableScripts)
T = TypeVar("T")

CLIENTS = st.sampled_from(("client-a", "client-b"))
UNITS = st.integers(1, 3)
START = st.sampled_from((-1, 2))
RECLAIMS = st.sampled_from((1, 100))
TIMES = st.integers(1, 2)
ORDERS = st.lists(st.sampled_from(("ask", "undo")), max_size=3)

#: Something done to the model and to the server, with equal answers.
Step = tuple[Callable[[], Any], Callable[[], Awaitable[Any]]]


class Machine(RuleBasedStateMachine, Generic[M, S]):
    """The scripts on a server beside a model."""

    url = ""
    machines = 0
    model: M
    scripts: S

    def __init__(self) -> None:
        super().__init__()
        Machine.machines += 1
        self.runner = asyncio.Runner()
        self.sent: list[Step] = []
        self.calls = Counter[str]()
        self.owners = 0
        self.go(self._open())

    def new_owner(self) -> str:
        """Return one that was never used before; they sort as they came."""
        self.owners += 1
        return f"owner:{self.owners:010}"

    def go(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(doing)

    def start(self, scripts: Scripts) -> None:
        """Make the model and its counterpart."""
        raise NotImplementedError

    async def _open(self) -> None:
        # A command that redis-py repeated after its timeout would be one more than the model's.
        self.redis = Redis.from_url(self.url, socket_timeout=60)
        self.start(await Scripts.on(self.redis))
        self.pubsub: Any = self.redis.pubsub()
        await self.pubsub.subscribe(self.scripts.channel)
        await self._message("subscribe")

    async def _message(self, kind: str) -> Any:
        message = None
        while message is None or message["type"] != kind:
            message = await self.pubsub.get_message(timeout=10)
        return message["data"]

    async def _heard(self) -> list[int]:
        heard: list[int] = []
        while (payload := await self._message("message")) != b"end":
            assert payload.isdigit(), "a message that breaks Redisson's listeners"
            heard.append(int(payload))
        return heard

    def do(
        self, model: Callable[[], Any], really: Callable[[], Awaitable[Any]], times: int = 1
    ) -> None:
        """Do something, perhaps twice at once; its duplicates may arrive later too."""
        self.sent.append((model, really))
        for _ in range(times):
            self.again(self.sent[-1])

    def again(self, step: Step) -> None:
        model, really = step

        async def run() -> Any:
            return await really()

        reply = self.go(run())
        expected = model()
        assert expected in (reply, "past")

    def receipted(self, client: str, change: Callable[[], Any], name: str, **values: Any) -> None:
        """Make a call with a receipt."""
        self.calls[client] += 1
        calls, verb = self.calls[client], getattr(self.scripts, name)
        self.do(
            lambda: self.model.receipted(client, calls, change),
            lambda: verb(client=client, calls=calls, **values),
        )

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def a_duplicate_arrives_late(self, data: st.DataObject) -> None:
        self.again(data.draw(st.sampled_from(self.sent[-10:])))

    @precondition(lambda self: self.model.held)
    @rule()
    def delete(self) -> None:
        """An operator deletes the counter, and with it what was taken is void."""
        self.go(self.scripts.delete())
        self.model.delete()

    @precondition(lambda self: self.model.value is None and not self.model.held)
    @rule(units=st.integers(0, 4))
    def redisson_makes_it(self, units: int) -> None:
        note = self.model.note
        self.go(self.scripts.start(units))
        self.model.make(units)
        self.model.note = note

    @precondition(lambda self: self.model.held.keys() - self.model.ended)
    @rule(data=st.data())
    def a_lease_ends(self, data: st.DataObject) -> None:
        mark = data.draw(st.sampled_from(sorted(self.model.held.keys() - self.model.ended)))
        self.go(self.scripts.end(mark))
        self.model.ended.add(mark)
        self.model.endless.discard(mark)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), sets=st.booleans())
    def a_lease_is_renewed(self, data: st.DataObject, sets: bool) -> None:
        mark = data.draw(st.sampled_from(sorted(self.model.held)))
        doing = self.scripts.set_lease(mark) if sets else self.scripts.renew(mark, idle_ms=0)
        # What was taken from a semaphore that is gone is void.
        there = self.model.value is not None and mark not in self.model.ended
        assert self.go(doing) == int(there)
        if sets and there and self.model.ends_sooner(mark):
            self.model.tell(1)

    @invariant()
    def the_server_has_what_the_model_has(self) -> None:
        self.go(self._compare())

    async def _compare(self) -> None:
        model = self.model
        async with self.redis.pipeline(transaction=False) as pipe:
            pipe.publish(self.scripts.channel, "end")
            pipe.get(self.scripts.key)
            pipe.zrange(self.scripts.permits, 0, -1)
            pipe.hgetall(_keys.suffixed(self.scripts.key, b"redisson_py:units"))
            _, value, marks, counts = await pipe.execute()
        assert await self._heard() == model.heard
        model.heard.clear()
        assert value == (None if model.value is None else str(model.value).encode())
        assert self.units(marks, counts) == model.held
        if model.value is not None:
            assert model.value + sum(model.held.values()) + model.away == model.total

    def units(self, marks: list[bytes], counts: dict[bytes, bytes]) -> dict[Any, int]:
        """Return who has how many units, read from the keys beside the counter."""
        raise NotImplementedError

    def teardown(self) -> None:
        self.go(self._empty())
        self.runner.close()

    async def _empty(self) -> None:
        """The dead are found by the next who looks: all comes back."""
        if self.model.value is not None:
            await self.scripts.end(*(self.model.held.keys() - self.model.ended))
            found: Any = await self.scripts.available()
            value = found[0] if isinstance(found, list) else found
            assert value + self.model.away == self.model.total
            assert not await self.redis.exists(self.scripts.permits)
        counts = getattr(self.scripts, "counts", b"none")
        await self.redis.delete(self.scripts.key, self.scripts.permits, counts)
        await self.pubsub.aclose()
        await self.redis.aclose()


class PlainMachine(Machine[Plain, SemaphoreScripts]):
    """A plain semaphore, whose marks are owners."""

    def start(self, scripts: Scripts) -> None:
        self.model = Plain()
        self.scripts = SemaphoreScripts(scripts, b"semaphore%d" % self.machines)

    def units(self, marks: list[bytes], counts: dict[bytes, bytes]) -> dict[Any, int]:
        assert {*marks} == counts.keys()
        return {owner.decode(): int(count) for owner, count in counts.items()}

    def asking(
        self, owner: str, units: int, start: int, reclaims: int, compares: bool = False
    ) -> Step:
        async def really() -> str:
            how: Any = {"start_units": start, "reclaims": reclaims, "compares": int(compares)}
            return said(await self.scripts.acquire(owner, units, **how))

        return lambda: self.model.acquire(owner, units, start, reclaims, compares), really

    def giving(self, owner: str, units: int, *, leaves: bool) -> Step:
        async def really() -> str:
            tombstone_ms = TOMBSTONE if leaves else 0
            reply = await self.scripts.release(owner, units, tombstone_ms=tombstone_ms)
            return {None: "nothing", 0: "part"}.get(reply, "all")

        return lambda: self.model.release(owner, units, leaves), really

    @rule(units=UNITS, start=START, reclaims=RECLAIMS, times=TIMES, compares=st.booleans())
    def acquire(self, units: int, start: int, reclaims: int, times: int, compares: bool) -> None:
        self.do(*self.asking(self.new_owner(), units, start, reclaims, compares), times=times)

    @rule(units=UNITS, start=START, order=ORDERS)
    def abandon(self, units: int, start: int, order: list[str]) -> None:
        owner = self.new_owner()
        asking, undo = self.asking(owner, units, start, 100), self.giving(owner, 0, leaves=True)
        for step in [*order, "undo", "ask"]:
            self.do(*(asking if step == "ask" else undo))

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), units=st.integers(0, 2), times=TIMES)
    def release(self, data: st.DataObject, units: int, times: int) -> None:
        owner = data.draw(st.sampled_from(sorted(self.model.held)))
        self.do(*self.giving(owner, units, leaves=False), times=times)

    @rule(client=CLIENTS, units=st.integers(-3, 3), creates=st.integers(0, 1))
    def add(self, client: str, units: int, creates: int) -> None:
        self.receipted(
            client, lambda: self.model.add(units, creates), "add", units=units, creates=creates
        )

    @rule(client=CLIENTS, units=st.integers(0, 4))
    def set(self, client: str, units: int) -> None:
        self.receipted(client, lambda: self.model.set(units), "set", units=units)

    @rule(client=CLIENTS)
    def drain(self, client: str) -> None:
        self.receipted(client, self.model.drain, "drain")

    @rule(reclaims=RECLAIMS)
    def look(self, reclaims: int) -> None:
        self.do(lambda: self.model.available(reclaims), lambda: self.scripts.available(reclaims))

    @precondition(lambda self: self.model.value is not None)
    @rule(units=st.integers(-3, 3))
    def redisson_takes_or_gives_back(self, units: int) -> None:
        model = self.model
        assert model.value is not None
        if -model.away <= units <= max(0, model.value):
            model.value -= units
            model.away += units
            self.go(ask(self.redis, "DECRBY", self.scripts.key, units))


class PermitsMachine(Machine[Permits, ExpirableScripts]):
    """A semaphore of permits with ids."""

    def start(self, scripts: Scripts) -> None:
        self.model = Permits()
        self.scripts = ExpirableScripts(scripts, b"semaphore%d" % self.machines)

    def units(self, marks: list[bytes], counts: dict[bytes, bytes]) -> dict[Any, int]:
        return dict.fromkeys(marks, 1)

    def new_id(self) -> bytes:
        return self.new_owner().encode()

    def some_ids(self, data: st.DataObject) -> tuple[bytes, ...]:
        known = sorted(self.model.held) + [self.new_id()] * data.draw(st.integers(0, 1))
        known = known or [self.new_id()]
        return tuple(data.draw(st.lists(st.sampled_from(known), min_size=1, unique=True)))

    def asking(
        self, ids: tuple[bytes, ...], start: int, reclaims: int, compares: bool = False
    ) -> Step:
        async def really() -> str:
            how: Any = {"start_units": start, "reclaims": reclaims, "compares": int(compares)}
            return said(await self.scripts.acquire(b"".join(ids), **how))

        return lambda: self.model.acquire(ids, start, reclaims, compares), really

    def giving(self, ids: tuple[bytes, ...], batch: bytes | None) -> Step:
        async def really() -> str:
            tombstone_ms = TOMBSTONE if batch else 0
            reply = await self.scripts.release(
                b"".join(ids), tombstone_ms=tombstone_ms, batch=batch
            )
            return {None: "nothing", 0: "over"}.get(reply, "all")

        return lambda: self.model.release(ids, batch), really

    @rule(units=UNITS, start=START, reclaims=RECLAIMS, times=TIMES, compares=st.booleans())
    def acquire(self, units: int, start: int, reclaims: int, times: int, compares: bool) -> None:
        ids = tuple(self.new_id() for _ in range(units))
        self.do(*self.asking(ids, start, reclaims, compares), times=times)

    @rule(units=UNITS, start=START, order=ORDERS)
    def abandon(self, units: int, start: int, order: list[str]) -> None:
        ids = tuple(self.new_id() for _ in range(units))
        asking, undo = self.asking(ids, start, 100), self.giving(ids, ids[0])
        for step in [*order, "undo", "ask"]:
            self.do(*(asking if step == "ask" else undo))

    @rule(units=UNITS)
    def give_some_back_and_hear_the_question_again(self, units: int) -> None:
        ids = (self.new_id(), *(self.new_id() for _ in range(units)))
        asking = self.asking(ids, -1, 100)
        for step in (asking, self.giving(ids[:units], None), asking):
            self.do(*step)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), times=TIMES)
    def release(self, data: st.DataObject, times: int) -> None:
        self.do(*self.giving(self.some_ids(data), None), times=times)

    @rule(data=st.data(), client=CLIENTS)
    def release_all(self, data: st.DataObject, client: str) -> None:
        ids = self.some_ids(data)
        self.receipted(
            client, lambda: self.model.release_all(ids), "release_all", ids=b"".join(ids)
        )

    @rule(client=CLIENTS, units=st.integers(0, 4), replaces=st.integers(0, 1))
    def set(self, client: str, units: int, replaces: int) -> None:
        self.receipted(
            client, lambda: self.model.set(units, replaces), "set", units=units, replaces=replaces
        )

    @rule(client=CLIENTS, units=st.integers(-3, 3))
    def add(self, client: str, units: int) -> None:
        self.receipted(client, lambda: self.model.add(units), "add", units=units)

    @rule(reclaims=RECLAIMS)
    def look(self, reclaims: int) -> None:
        async def really() -> int:
            return (await self.scripts.available(reclaims))[0]

        self.do(lambda: self.model.available(reclaims), really)

    @rule(data=st.data())
    def update_lease(self, data: st.DataObject) -> None:
        mark = self.some_ids(data)[0]
        self.do(lambda: self.model.update_lease(mark), lambda: self.scripts.update_lease(mark))

    @precondition(lambda self: (self.model.value or 0) > 0)
    @rule()
    def redisson_takes(self) -> None:
        permit = self.new_id()
        self.go(ask(self.redis, "DECRBY", self.scripts.key, 1))
        self.go(ask(self.redis, "ZADD", self.scripts.permits, NEVER, permit))
        assert self.model.value is not None
        self.model.value -= 1
        self.model.held[permit] = 1
        self.model.endless.add(permit)

    @precondition(lambda self: self.model.value is not None and self.model.held)
    @rule(data=st.data())
    def redisson_gives_back(self, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(sorted(self.model.held)))
        self.go(ask(self.redis, "ZREM", self.scripts.permits, permit))
        self.go(ask(self.redis, "INCRBY", self.scripts.key, 1))
        assert self.model.value is not None
        self.model.value += self.model.drop(permit)


@pytest.mark.parametrize("kind", [PlainMachine, PermitsMachine])
def test_every_interleaving_is_answered_as_the_model_says(
    kind: type[Machine[Any, Any]], server_url: str
) -> None:
    run_state_machine_as_test(
        type("OnServer", (kind,), {"url": server_url}),
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
