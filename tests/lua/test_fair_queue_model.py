"""Whatever is asked in whatever order, by this toolkit, by Redisson and by the dead, the queue is
the model's: a Python list."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from tests.support.scripts.calls import Scripts
from tests.support.scripts.fair import WAIT, FairScripts, server_ms

T = TypeVar("T")

OURS = ("a", "b", "c", "d", "e")
JAVA = ("java-1", "java-2", "java-3")

Verb = Literal["acquire", "try_once", "release", "release_part", "leave"]
SLOTS = st.sampled_from(OURS)
TIMES = st.integers(1, 2)


@dataclass
class Model:
    """A lock, and a list of those who wait for it.

    Attributes:
        gone: Left behind a tombstone.
        dead: Ours, whose lease as waiters has passed.
        stale: Those whose moment in `timeouts` has passed; looked up before each step.
        purged: Ours that Redisson took for dead; `waiters` still has them.
        unasked: How often one of Redisson's has acquired since each of ours asked.
        messages: The heads that were told that the lock is free.
    """

    holder: str | None = None
    count: int = 0
    order: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    stale: set[str] = field(default_factory=set)
    purged: set[str] = field(default_factory=set)
    unasked: dict[str, int] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def take(self, verb: Verb, owner: str) -> str:
        """Do what one of our scripts does; return what the caller is told."""
        if verb in ("acquire", "try_once"):
            return self.acquire(owner, queue=verb == "acquire")
        if verb == "leave":
            self.gone.add(owner)
        return self.release(owner, 1 if verb == "release_part" else 0)

    def acquire(self, owner: str, *, queue: bool = True, holds: int = 1) -> str:
        if self.holder == owner:
            self.count = holds
            return "granted"
        if holds > 1:
            return "lost"
        if owner in self.gone:
            return "void"
        if self.holder is None:
            before = self.order[:1]
            self.drop_the_dead(asks=owner)
            if self.order[:1] in ([], [owner]):
                self.grant(owner)
                if not self.order:
                    self.purged.clear()
                return "granted"
            if self.order[:1] != before:
                self.messages.append(self.order[0])
        if queue:
            if owner not in self.order:
                self.order.append(owner)
            self.dead.discard(owner)
            self.purged.discard(owner)
            self.unasked[owner] = 0
        return "busy"

    def release(self, owner: str, holds: int) -> str:
        reply = "not the owner"
        if self.holder == owner and holds > 0:
            self.count = min(self.count, holds)
            return "still held"
        if self.holder == owner:
            self.holder = None
            reply = "free"
        if holds == 0:
            self.leave(owner)
            self.tell()
        return reply

    def leave(self, owner: str) -> None:
        self.purged.discard(owner)
        if owner in self.order:
            self.order.remove(owner)

    def tell(self) -> None:
        """Tell the first who is alive, if the lock is free."""
        if self.holder is None:
            self.drop_the_dead()
            self.messages += self.order[:1]

    def drop_the_dead(self, asks: str | None = None) -> None:
        while self.order and self.order[0] != asks:
            head = self.order[0]
            if head not in (self.stale if head in JAVA else self.dead):
                return
            del self.order[0]

    def grant(self, owner: str) -> None:
        self.leave(owner)
        self.holder, self.count = owner, 1

    # What Redisson does, by its own rules.

    def java_tries(self, owner: str) -> str:
        self.java_purges()
        if self.holder is None and self.order[:1] in ([], [owner]):
            self.grant(owner)
            for each in self.unasked:
                self.unasked[each] += 1
            return "granted"
        if owner not in self.order:
            self.order.append(owner)
        return "busy"

    def java_unlocks(self, owner: str) -> None:
        self.java_purges()
        if self.holder == owner:
            self.holder = None
        if self.holder is None:
            self.messages += self.order[:1]

    def java_purges(self) -> None:
        while self.order and self.order[0] in self.stale:
            head = self.order.pop(0)
            if head not in JAVA:
                # What one acquire of Redisson's may take off, ours have on their moment.
                assert self.unasked[head] > 1, f"{head} was evicted"
                self.purged.add(head)


class Queue(RuleBasedStateMachine):
    """The scripts on a server beside the model."""

    url = ""
    machines = 0

    def __init__(self) -> None:
        super().__init__()
        Queue.machines += 1
        self.runner = asyncio.Runner()
        self.model = Model()
        self.owners = {slot: f"{slot}:0" for slot in OURS}
        self.sent: list[tuple[Verb, str]] = []
        self.go(self._open())

    def go(self, doing: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(doing)

    async def _open(self) -> None:
        self.redis = Redis.from_url(self.url)
        self.fair = FairScripts(await Scripts.on(self.redis), key=b"q%d" % self.machines)
        self.pubsub: Any = self.redis.pubsub()
        await self.pubsub.psubscribe(self.fair.channel + b":*")
        await self._message("psubscribe")

    async def _message(self, kind: str) -> Any:
        message = None
        while message is None or message["type"] != kind:
            message = await self.pubsub.get_message(timeout=10)
        return message

    async def _messages(self) -> list[str]:
        """Return who was told that the lock is free since the last call."""
        end = self.fair.channel_of("end")
        await self.redis.publish(end, "end")
        messages: list[str] = []
        while (message := await self._message("pmessage"))["channel"] != end:
            assert message["data"] == b"0"
            messages.append(message["channel"].removeprefix(self.fair.channel + b":").decode())
        return messages

    async def _really(self, verb: Verb, owner: str) -> str:
        fair = self.fair
        if verb in ("acquire", "try_once"):
            return await self._outcome(await getattr(fair, verb)(owner))
        if verb == "leave":
            reply = await fair.leave(owner)
        else:
            reply = await fair.release(owner, 1 if verb == "release_part" else 0)
        return {None: "not the owner", 0: "still held"}.get(reply, "free")

    async def _outcome(self, reply: int | None) -> str:
        messages = {None: "granted", -2: "lost", -3: "void"}.get(reply)
        if messages is None:
            assert reply is not None
            # Never 0 while it is free: that would be asked again at once.
            assert (0 if await self.redis.exists(self.fair.key) else 1) <= reply <= 10 * WAIT
        return messages or "busy"

    def look(self) -> None:
        """Let the model know what Redisson's rule says of each waiter now."""
        self.model.stale = {
            owner for owner, left in self.go(self.fair.moments()).items() if left <= 0
        }

    def step(self, verb: Verb, owner: str, times: int = 1) -> None:
        """Do it on the server once or twice, and once in the model."""
        self.look()
        replies = [self.go(self._really(verb, owner)) for _ in range(times)]
        assert replies[0] == self.model.take(verb, owner)
        if times == 2 and verb in ("release", "leave"):
            # Only the reply and a second message, which is a hint, tell it from one.
            self.model.tell()
        self.sent.append((verb, owner))

    @initialize(held=st.booleans(), order=st.lists(SLOTS, unique=True))
    def begin(self, held: bool, order: list[str]) -> None:
        if held:
            self.step("acquire", "holder:1")
        for slot in order:
            self.step("acquire", self.owners[slot])

    @rule(slot=SLOTS, times=TIMES)
    def acquire(self, slot: str, times: int) -> None:
        self.step("acquire", self.owners[slot], times)

    @rule(slot=SLOTS, times=TIMES)
    def try_once(self, slot: str, times: int) -> None:
        if self.owners[slot] not in self.model.order:
            self.step("try_once", self.owners[slot], times)

    @precondition(lambda self: self.model.holder in self.owners.values())
    @rule(times=TIMES, part=st.booleans())
    def re_enter_and_release(self, times: int, part: bool) -> None:
        owner = self.model.holder
        assert owner is not None
        for _ in range(times):
            assert self.go(self.fair.acquire(owner, 2)) is None
        self.model.acquire(owner, holds=2)
        self.step("release_part" if part else "release", owner, times)

    @rule(slot=SLOTS, times=TIMES)
    def release(self, slot: str, times: int) -> None:
        self.step("release", self.owners[slot], times)

    @precondition(lambda self: self.model.holder and ":" in self.model.holder)
    @rule(times=TIMES)
    def release_what_is_held(self, times: int) -> None:
        assert self.model.holder is not None
        self.step("release", self.model.holder, times)

    @rule(slot=SLOTS, times=TIMES)
    def leave(self, slot: str, times: int) -> None:
        self.step("leave", self.owners[slot], times)
        # The next acquisition of this task has an owner of its own.
        name, _, number = self.owners[slot].partition(":")
        self.owners[slot] = f"{name}:{int(number) + 1}"

    @precondition(lambda self: self.sent)
    @rule(data=st.data())
    def a_duplicate_arrives_late(self, data: st.DataObject) -> None:
        self.step(*data.draw(st.sampled_from(self.sent[-12:])))

    @rule(slot=SLOTS)
    def die(self, slot: str) -> None:
        owner = self.owners[slot]
        if owner in self.model.order:
            self.go(self.fair.die(owner))
            self.model.dead.add(owner)
            self.owners[slot] = f"{slot}:{int(owner.partition(':')[2]) + 1}"

    @rule()
    def the_lease_ends(self) -> None:
        self.go(self.fair.end_lease())
        self.model.holder = None

    @rule(times=TIMES)
    def force_release(self, times: int) -> None:
        self.look()
        held = self.model.holder is not None
        request = f"{len(self.sent)}-{self.go(server_ms(self.redis))}"
        for _ in range(times):
            assert self.go(self.fair.force_release(request)) == held
        self.model.holder = None
        self.model.tell()

    @rule(owner=st.sampled_from(JAVA))
    def redisson_tries(self, owner: str) -> None:
        if self.model.holder != owner:
            self.look()
            reply = self.go(self.fair.java_tries(owner))
            assert ("granted" if reply is None else "busy") == self.model.java_tries(owner)

    @rule(owner=st.sampled_from(JAVA))
    def redisson_unlocks(self, owner: str) -> None:
        self.look()
        self.go(self.fair.java_unlocks(owner))
        self.model.java_unlocks(owner)

    @rule(owner=st.sampled_from(JAVA))
    def one_of_redissons_dies(self, owner: str) -> None:
        if owner in self.model.order:
            self.go(self.fair.set_moment(owner, -1))

    @invariant()
    def the_server_has_what_the_model_has(self) -> None:
        self.go(self._compare())

    async def _compare(self) -> None:
        fair, model, redis = self.fair, self.model, self.redis
        assert await self._messages() == model.messages
        model.messages.clear()
        holder = {} if model.holder is None else {model.holder: model.count}
        assert await fair.holds() == holder
        assert await fair.queued() == model.order
        assert (await fair.moments()).keys() == {*model.order}
        assert (await fair.alive()).keys() == {*model.order} - {*JAVA} | model.purged
        assert await redis.pttl(fair.queue) < 0
        assert await redis.pttl(fair.timeouts) < 0
        for key, least in ((fair.key, 0), (fair.waiters, WAIT)):
            assert not await redis.exists(key) or await redis.pttl(key) > least

    def teardown(self) -> None:
        try:
            self.go(self._empty())
        finally:
            self.go(self._close())
            self.runner.close()

    async def _empty(self) -> None:
        """The living go their ways, the dead are found by the next: nothing is left."""
        fair = self.fair
        queued = await fair.queued()
        for owner in {*queued} & {*JAVA}:
            await fair.set_moment(owner, -1)
        for owner in reversed(queued):
            if owner not in self.model.dead.union(JAVA):
                await fair.leave(owner)
        await fair.end_lease()
        assert await fair.acquire("last:1") is None
        assert await fair.release("last:1") == 1
        left = [fair.key, fair.queue, fair.timeouts, fair.waiters]
        assert await self.redis.exists(*left) == 0

    async def _close(self) -> None:
        await self.pubsub.aclose()
        await self.redis.aclose()


@pytest.fixture
def machine(server_url: str) -> type[Queue]:
    """The machine, on the session's server."""
    return type("OnServer", (Queue,), {"url": server_url})


def test_every_interleaving_is_answered_as_the_model_says(machine: type[Queue]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
