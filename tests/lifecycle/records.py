"""What the state machine knows of one acquisition, from its request to its end."""

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
        units: How many units it takes.
        block: The block that it belongs to.
        own_end: It may end by itself.
        severed: Its record on the server was deleted, directly or by `force_release`.
        may_go: A task was told to release it.
        reported: A release of it has reported the loss.
        ended: It is known to have ended.
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
    reported: bool = False
    ended: bool = False

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
        raced: Another step ran at the same time.
        untold: Since it began to wait, a hold ended without a message, so it may notice late.
        severed: The server deleted what it may have held by then.
        may_go: In the current step, a task released the newest acquisition.
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
