"""What the state machine knows of one acquisition, before and after it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from redisson_py import Lease
from tests.lifecycle.actors import Actor, Block, Cut, Order

#: What goes wrong in an operation: nothing; a cancellation; a "lost reply"; or it is "refused",
#: because the server has no memory left.
Mishap = None | Cut | str


@dataclass(eq=False)
class Grip:
    """One acquisition, as the machine knows it.

    Attributes:
        task: The task that acquired it.
        client: The number of its client.
        side: Of a read-write lock.
        units: How much it takes.
        block: The block that it belongs to.
        own_end: It may end by itself.
        severed: The server was told to forget it, behind its back or by force.
        may_go: Somebody was told to release it.
        told: Its loss has been told to whoever released it.
        over: It is known to have ended.
    """

    lease: Lease
    task: asyncio.Task[None]
    client: int
    side: str
    units: int
    block: Block | None
    own_end: bool
    severed: bool = False
    may_go: bool = False
    told: bool = False
    over: bool = False

    @property
    def held(self) -> bool:
        return self.lease.remaining > 0

    @property
    def lost(self) -> bool:
        return self.lease.lost

    def __repr__(self) -> str:
        state = "held" if self.held else "lost" if self.lost else "released"
        return f"<{state} by {self.task.get_name()} {self.side} of client {self.client}>"


@dataclass(eq=False)
class Wait:
    """An acquisition under way.

    Attributes:
        once: It does not wait.
        refused: The server had no memory left meanwhile.
        raced: Something else happened at the same time.
        untold: Something ended without a message since it waits, so it may look late.
        severed: The server was told to forget what it may have had by then.
        may_go: Somebody released whatever is the newest, in the step that is played.
    """

    actor: Actor
    order: Order
    side: str
    lease_time: float | None
    units: int
    block: Block | None = None
    once: bool = False
    refused: bool = False
    raced: bool = False
    untold: bool = False
    severed: bool = False
    may_go: bool = False

    def granted(self, lease: Lease) -> Grip:
        """Return what it got."""
        return Grip(
            lease=lease,
            task=self.actor.task,
            client=self.actor.client,
            side=self.side,
            units=self.units,
            block=self.block,
            own_end=self.lease_time is not None,
            may_go=self.may_go,
        )


@dataclass
class Straggler:
    """Records a command whose reply is lost, so that its bytes can arrive once more, late."""

    commands: list[bytes] = field(default_factory=list)

    def __call__(self, command: bytes) -> bool:
        if b"EVALSHA" not in command[:40]:
            return False
        self.commands.append(command)
        return True
