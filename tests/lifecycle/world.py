"""Two clients behind links, tasks of each, and the expected state of their acquisitions."""

from __future__ import annotations

import asyncio
import contextlib
from contextlib import AsyncExitStack
from typing import Any

from redisson_py import AcquireTimeoutError, ConnectionLostError, Lease, RedissonError, ScriptError
from tests.lifecycle.actors import Actor
from tests.lifecycle.records import Grip, Straggler, Wait
from tests.lifecycle.subjects import Subject
from tests.lifecycle.surroundings import Link, Surroundings
from tests.support.any_client import Client

#: Options of the clients. The first never renews during an example, so that nothing of it is
#: lost without a cause; the second learns from its watchdog, and its bodies run on.
CLIENTS: tuple[dict[str, Any], ...] = ({"lease_time": 30}, {"lease_time": 3, "on_lost": "raise"})
ACTORS = (0, 0, 0, 1, 1)

#: Seconds within which everything that has become possible must happen. Less than the safety
#: poll, which would hide a waiter that is never woken.
SOON = 4.0


class World:
    """The world of one example.

    Attributes:
        grips: Every acquisition so far.
        waits: Acquisitions under way.
        played: What was done.
        findings: Errors that only the exception handler of the event loop got.
    """

    def __init__(self, subject: Subject, surroundings: Surroundings) -> None:
        self.subject = subject
        self.surroundings = surroundings
        self.grips: list[Grip] = []
        self.played: list[str] = []
        self.waits: list[Wait] = []
        self.findings: list[str] = []
        self.late = Straggler()
        self.clients: list[Client] = []
        self.observer: Any = None
        self.links: list[Link] = []
        self.actors: list[Actor] = []
        self.ended: list[Actor] = []
        #: How many steps are under way that have the server forget what is held.
        self.severing = 0
        #: Owners whose record was on the server when it was deleted.
        self.severed_owners: set[str] = set()
        #: When something was freed by force, by the clock of leases.
        self.forced_at = 0.0
        self.racing = False
        self.full = False
        self.closed: set[int] = set()
        self._stack = AsyncExitStack()
        self.dropped: list[Exception] = []

    @property
    def redis(self) -> Any:
        """A plain client; None: the server is not Redis."""
        return self.surroundings.redis

    async def open(self) -> None:
        asyncio.get_running_loop().set_exception_handler(self._unseen)
        surroundings = self.surroundings
        await surroundings.open(self._stack)
        self.observer = await self._stack.enter_async_context(surroundings.client())
        for options in CLIENTS:
            link = await surroundings.link()
            self.links.append(link)
            self.clients.append(surroundings.behind(link, **options))
        await self.subject.prepare(self.observer)
        self.targets = [
            {side: self.subject.make(client, side) for side in self.subject.sides}
            for client in self.clients
        ]
        self.shared = [
            {side: self.subject.hold(target, None, 1) for side, target in targets.items()}
            for targets in self.targets
        ]
        self.actors = [Actor(f"actor {n}", client) for n, client in enumerate(ACTORS)]

    async def close(self) -> None:
        """End everything, also after a failure."""
        for link in self.links:
            link.pass_through()
        for client in self.clients:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.aclose(), 15)
        tasks = [actor.task for actor in self.actors + self.ended]
        for actor in self.actors:
            actor.kill()
        await asyncio.wait(tasks, timeout=SOON)
        self.free_memory()
        await self.surroundings.clear()
        await self._stack.aclose()

    def _unseen(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if "asyncgen" in context and isinstance(error, RuntimeError | RedissonError):
            # From a dropped generator: nothing else can receive it.
            self.dropped.append(error)
            return
        self.findings.append(f"{context.get('message')}: {error!r}")

    def fill_memory(self) -> None:
        """Have the server refuse commands that take memory; without a turn of the loop."""
        self.full = True
        for wait in self.waits:
            wait.refused = True
        self.surroundings.set_memory(1)

    def free_memory(self) -> None:
        """Let it take memory again."""
        self.full = False
        self.surroundings.set_memory(0)

    # Outcomes.

    def collect(self) -> None:
        """Note what became of acquisitions that have ended, and of leases."""
        for wait in list(self.waits):
            if not wait.order.finished:
                continue
            self.waits.remove(wait)
            lease = wait.order.value
            if isinstance(lease, Lease):
                assert not wait.order.thrown, "a cancellation was swallowed"
                grip = wait.granted(lease)
                # A hold that is passed on keeps its history.
                owner = [each for each in self.grips if each.lease.owner == lease.owner]
                severed = self.severing > 0 or wait.severed
                parts: list[Lease] = getattr(lease, "_members", [])
                severed |= any(part._hold.granted_at <= self.forced_at for part in parts)
                severed |= not self.severed_owners.isdisjoint(owners_of(lease))
                grip.severed = severed or any(each.severed for each in owner)
                if grip.side == "read":
                    # Under a write that ends by itself, a read ends with it.
                    mine = [
                        each for each in self.grips if each.task is grip.task and not each.ended
                    ]
                    grip.own_end |= any(each.side == "write" and each.own_end for each in mine)
                self.grips.append(grip)
                self.note("->", grip)
            else:
                self._check_refusal(wait)
        for grip in self.grips:
            if grip.block is not None and grip.block.left:
                self.allow(grip, hollow=grip.ended and not grip.lost)
                grip.reported |= grip.block.ended
            if grip.held or grip.ended:
                continue
            grip.ended = True
            for wait in self.waits:
                # The end of a lease publishes no message to other clients; a release does.
                if grip.lost and wait.actor.client != grip.client:
                    wait.untold = True
                elif not grip.lost and not grip.severed:
                    wait.untold = False

    def _check_refusal(self, wait: Wait) -> None:
        error = wait.order.error
        mine = [grip for grip in self.grips if grip.task is wait.actor.task]
        if error is None or wait.order.thrown or type(error) is RuntimeError:
            return  # busy, for a try; cancelled; or not reentrant, an upgrade, a block in use
        if wait.actor.client in self.closed:
            assert isinstance(error, RedissonError | asyncio.CancelledError), repr(error)
        elif isinstance(error, asyncio.CancelledError):
            self.check_strike(wait.actor)
        else:
            assert not isinstance(error, AcquireTimeoutError), "timed out without a timeout"
            assert isinstance(error, RedissonError), f"an acquisition ended with {error!r}"
            short = wait.lease_time is not None and wait.lease_time < 1
            gone = any(grip.lost or (grip.severed and not grip.ended) for grip in mine)
            once = wait.once and isinstance(error, ConnectionLostError)
            refused = wait.refused and isinstance(error, ScriptError)
            assert short or gone or once or refused or wait.raced, (
                f"an acquisition failed: {error!r}"
            )

    def check_strike(self, actor: Actor) -> None:
        mine = [grip for grip in self.grips if grip.task is actor.task and grip.block]
        assert any(grip.lost for grip in mine), f"{actor} was cancelled by nobody"

    def allow(self, grip: Grip, *, hollow: bool) -> None:
        """Let the end of a block release its own acquisition, or what its task took since."""
        grip.may_go = True
        for other in self.grips:
            if hollow and other.task is grip.task and other.block is None:
                other.may_go = True

    @staticmethod
    def is_hollow(grip: Grip) -> bool:
        """Whether the acquisition of a block is over and its end has no loss left to report."""
        return not grip.held and (grip.reported or not grip.lost)

    # The acquisitions and actors.

    def pending(self, client: int) -> list[Wait]:
        """Return the acquisitions of a client that have not ended."""
        waits = [wait for wait in self.waits if wait.actor.client == client]
        return [wait for wait in waits if not wait.order.finished]

    def idle(self) -> list[Actor]:
        """Return the actors that can take an order."""
        return [actor for actor in self.actors if actor.idle]

    def held(self) -> list[Grip]:
        """Return what its holders expect to hold."""
        return [grip for grip in self.grips if grip.held]

    def not_ended(self) -> list[Grip]:
        """Return what is held, what is being released, and what may be held again.

        A concurrent step or a cancelled body may be releasing it. Until the client has noticed that
        the end has come, an answer can still bring a new end.
        """
        return [
            grip
            for grip in self.grips
            if not grip.ended
            or grip.lease._state == "held"
            or (grip.block is not None and grip.block.leaving)
        ]

    def ending(self) -> list[Grip]:
        """Return what is held and will soon end by itself."""
        return [grip for grip in self.held() if grip.own_end and grip.lease.remaining < 1]

    def open_blocks(self) -> list[Grip]:
        """Return the acquisitions whose blocks are still open."""
        return [grip for grip in self.grips if grip.block is not None and not grip.block.left]

    def entered_by(self, grip: Grip) -> Actor | None:
        """Return the actor whose block this still is."""
        return next((actor for actor in self.actors if grip.block in actor.blocks), None)

    def is_sure(self, grip: Grip) -> bool:
        """Whether an operation on it must succeed."""
        return grip.held and not (grip.severed or grip.own_end or self.racing)

    @staticmethod
    def unwound(grip: Grip) -> bool:
        """Whether its block was left, as when another lease of its task was lost meanwhile."""
        return grip.block is not None and grip.block.left

    def is_clear(self, grip: Grip, by: Actor) -> bool:
        """Whether it can be known which block `by` leaves.

        An `AsyncExitStack` calls the methods of the class with the thing itself: nothing then
        tells the blocks of one task apart but their order, and those of several by the task.
        """
        if grip.block is None or grip.block.entered != "bare" or not grip.block.stacked:
            return True
        others = [
            each
            for each in self.open_blocks()
            if each.block is not None
            and each.block.entered == "bare"
            and (each.client, each.side) == (grip.client, grip.side)
        ]
        if by.task is grip.task:
            return [each for each in others if each.task is by.task][-1] is grip
        return others == [grip]

    # The report.

    def note(self, *details: object) -> None:
        """Add details to the step."""
        if self.played:
            self.played[-1] += f" {' '.join(map(str, details))}"


def owners_of(lease: Lease) -> set[str]:
    """Return the owner of a lease, or those of the leases it is made of."""
    return {each.owner for each in getattr(lease, "_members", None) or [lease]}
