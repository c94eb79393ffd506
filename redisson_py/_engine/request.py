"""One acquire request, and its undo."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from redisson_py._answers import (
    GIVEN_UP,
    GRANTED,
    LOST,
    Answer,
    Busy,
    Change,
    Disagrees,
    Granted,
    RefusedError,
    Settled,
    Wakes,
)
from redisson_py._engine.bus import Sleeper
from redisson_py._engine.client_queue import QueueSleeper
from redisson_py._engine.waiting import HeadStart
from redisson_py._loop import Future, call_later, loop_time
from redisson_py._time import milliseconds, now
from redisson_py.errors import BackendError, ClientClosedError

if TYPE_CHECKING:
    from redisson_py._engine.context import Context
    from redisson_py._engine.hold import Hold
    from redisson_py._engine.ownership import Ownership
    from redisson_py._engine.server import Call, ClientQueue, Commands, Way

#: Longest wait in seconds that is sent to a queue on the server; the caller may wait longer.
_LONGEST_WAIT_SECONDS = 366 * 24 * 3600.0


class AcquireRequest:
    """Asks for a hold count, or for units, under one owner.

    Args:
        ownership: The lock or semaphore that is requested.
        owner: The owner of the hold.
        target: The hold count to reach, or the number of units.
        lease_time: Seconds.
        head_start: The head start of other processes that comes before this request.
        once: The caller does not wait.
        deadline: The end of the caller's wait, in loop time.
        reentry: The hold that this request enters again.
        parent: The write hold whose owner the read uses.

    Attributes:
        renewed: The hold will be renewed.
        asked_at: The time just before the granting request was first written.
        sent_at: The same, or the time from which the lease of the grant counts, if the answer says
            so.
        uncertain: The request may arrive twice, or late.
        fails_fast: The first failed attempt to connect fails the request.
        heard_busy_at: When the server last answered the caller "busy", in loop time.
        undone: An undo was sent.
        overtaken: A forced release was answered before it, so its grant may be gone already.
        call: The call under way.
        client: Its client's name in the queue of clients while it waits there; for a fair lock the
            name of an earlier wait under which it waits; else nothing.
        yields: 1, it lets the first of that queue go first, because its client has just released;
            -1, it may go first by chance, because it waits and cannot stand in that queue;
            0, neither.
        checks: The server must say whether this client may also release it.
        compares: The server must say if it has something else than this client names.
        change: Which change of a live hold it is; None: it asks for a new owner.
    """

    __slots__ = (
        "_given_up",
        "_queue_sleeper",
        "_queued",
        "_wait_ms",
        "asked_at",
        "call",
        "change",
        "checks",
        "client",
        "compares",
        "deadline",
        "fails_fast",
        "field",
        "head_start",
        "heard_busy_at",
        "lease_time",
        "once",
        "overtaken",
        "owner",
        "ownership",
        "parent",
        "reentry",
        "renewed",
        "sent_at",
        "target",
        "uncertain",
        "undone",
        "yields",
    )

    def __init__(
        self,
        ownership: Ownership[Commands, Context],
        owner: str,
        target: int,
        lease_time: float,
        head_start: HeadStart | None = None,
        *,
        once: bool = False,
        deadline: float | None = None,
        reentry: Hold | None = None,
        parent: Hold | None = None,
    ) -> None:
        self.ownership: Ownership[Commands, Context] = ownership
        self.owner: str = owner
        self.field: bytes = ownership.commands.field(owner)
        self.target: int = target
        self.lease_time: float = lease_time
        self.head_start: HeadStart | None = head_start
        self.once: bool = once
        self.deadline: float | None = deadline
        self.reentry: Hold | None = reentry
        self.renewed: bool = True
        self.parent: Hold | None = parent
        self.asked_at: float = 0.0
        self.sent_at: float = 0.0
        self.uncertain: bool = False
        self.undone: bool = False
        self.overtaken: bool = False
        self.fails_fast: bool = False
        self.heard_busy_at: float = 0.0
        self.checks: bool = False
        self.compares: bool = False
        self.change: Change | None = None
        self.call: Call | None = None
        self.client: bytes = b""
        self.yields: int = 0
        self._queue_sleeper: QueueSleeper | None = None
        self._given_up: BaseException | None = None
        self._queued = False
        self._wait_ms = 0

    @property
    def reenters(self) -> bool:
        """Whether it enters a live hold again."""
        return self.reentry is not None

    @property
    def lease_ms(self) -> int:
        """The lease in milliseconds."""
        return milliseconds(self.lease_time)

    @property
    def wait_ms(self) -> int:
        """The wait in milliseconds, fixed by the first request; 0: it does not end by itself."""
        if self.once or self.deadline is None:
            return 0
        if not self._wait_ms:
            left = min(self.deadline - loop_time(), _LONGEST_WAIT_SECONDS)
            self._wait_ms = max(1, math.ceil(left * 1000))
        return self._wait_ms

    @property
    def clients(self) -> ClientQueue | None:
        """The queue of clients in which it waits, if there is one."""
        return self.ownership.commands.clients

    @property
    def channel(self) -> bytes:
        """The channel on which it hears that it may ask."""
        if (clients := self.clients) is not None:
            return clients.channel(self.ownership.context.owners.client_id)
        commands = self.ownership.commands
        return commands.request_channel(self.client.decode() or self.owner)

    @property
    def listens_first(self) -> bool:
        """Whether it listens before it asks for the first time."""
        queue = self.ownership.queue
        return bool(
            self.head_start or self.yields or self.client or (queue is not None and queue.joined)
        )

    @property
    def late_entry(self) -> str | None:
        """The name under which a late copy of it may still enter a queue on the server, or None."""
        if not (self.uncertain and self.ownership.commands.queues):
            return None
        return (self.client or self.field).decode()

    @contextmanager
    def listen(self, channel: bytes, wakes: Wakes) -> Generator[Sleeper]:
        """Hold a seat on the channel; in the queue of clients, if there is one."""
        ownership, bus = self.ownership, self.ownership.context.bus
        clients, commands = self.clients, ownership.commands
        if clients is None:
            beside = commands.channel if commands.queues else None
            with bus.listen(channel, wakes, beside=beside) as sleeper:
                yield sleeper
                if not (self._queued or self.uncertain) and sleeper.seat is not None:
                    # It left no place in the queue, and nothing of it can arrive late.
                    sleeper.seat.channel.spare = self.client or self.owner.encode()
            return
        if (together := ownership.together) is not None:
            together.channel = channel
        self._queue_sleeper = waits = QueueSleeper(bus, commands.channel, wakes, together)
        try:
            with bus.listen(channel, waits.heard, waits):
                self.client = clients.member(ownership.context.owners.client_id)
                yield waits
        finally:
            waits.left()
            self.client = b""

    @property
    def has_queued(self) -> bool:
        """Whether it has asked as a client in the queue of clients."""
        return self._queue_sleeper is not None

    @property
    def wakes(self) -> Wakes:
        """Says how many waiters a message wakes."""
        return self.ownership.commands.wakes

    @property
    def is_pending(self) -> bool:
        """Whether the request was sent and is still unanswered."""
        return self.call is not None

    @property
    def maybe_repeated(self) -> bool:
        """Whether it was sent on more than one connection, so that it may arrive twice or late."""
        return self.uncertain or (self.call is not None and self.call.uncertain)

    async def run(self, deadline: float | None) -> Answer:
        """Ask once, unless the request was sent already; return the answer."""
        if self._given_up is not None:
            raise self._given_up
        call = self.call or self.send(deadline)
        ownership, patience = self.ownership, None
        if deadline is not None and not self.once and ownership.queue is not None:
            # Waiters behind it without a timeout wait no longer than `command_timeout`.
            seconds = ownership.context.executor.command_timeout
            patience = call_later(seconds, ownership.fail_together)
        try:
            reply = await call.future
        except RefusedError as error:
            # This copy was granted nothing. An earlier copy without an answer may be granted, a
            # request that fails halfway may have left an entry in a queue, and an entry that an
            # earlier answer named is still there.
            queues = self.ownership.commands.queues and not self.once
            self._queued = self._queued or queues or self.maybe_repeated
            self.answered()
            raise await ownership.context.executor.explain(call, error) from error
        finally:
            if patience is not None:
                patience.cancel()
            if call.uncertain:
                self.uncertain = True
        self.answered()
        if self.checks:
            self.ownership.context.permitted.add(self.ownership.commands.kind)
        if self._given_up is not None:
            # The undo was sent before this task handled the answer.
            raise self._given_up
        answer = self.ownership.commands.answer(reply, self)
        if self.compares:
            self.ownership.compares = False
            if type(answer) is Disagrees:
                self.ownership.disagrees(answer)
                return await self.run(deadline)
        if answer is GIVEN_UP and self.reentry is not None:
            if self.reentry.state != "held":
                # Lost before it came again, which a change of the hold had made void.
                return LOST
            if self._renumbered(self.reentry):
                return await self.run(deadline)
        if answer is GIVEN_UP or type(answer) is Disagrees:
            raise BackendError(f"{self.ownership!r}: this request was already given up")
        if type(answer) is not Busy:
            if type(answer) is Granted:
                self._queued = self._queued and self.uncertain
                if answer.sent_at is not None:
                    self.sent_at = answer.sent_at
            elif type(answer) is Settled and (self.uncertain or self._queued):
                # A copy of it may arrive when that is gone, and be granted.
                self._queued = True
                self.undo()
            return answer
        if not self.once:
            # Others see who waits, as they see who holds.
            ownership.context.describe(self.asked_at)
            if ownership.queue is not None:
                ownership.queue.heard_busy()
        self.yields = 0
        if self._queue_sleeper is not None:
            if self._queue_sleeper.placed(answer):
                return await self.run(deadline)
            if not self._queue_sleeper.watches:
                answer = replace(answer, retry_in=None)
        if answer.queued or self.uncertain:
            # The server has an entry for it, or may still grant a duplicate. So an undo must follow
            # when the caller leaves or the client closes.
            self._queued = True
            self.ownership.context.pending[self] = None
            return replace(answer, queued=True)
        return answer

    def _renumbered(self, hold: Hold) -> bool:
        """Take a new number if this re-entry came again behind a later change of its hold.

        That change, as the release of an outer acquisition, knew of the re-entry: it is not void.
        """
        if self.change is None or not hold.changed_since(self.change):
            return False
        self.change = Change(self.ownership.context.owners.new_number(), remembered=True)
        return True

    def send(
        self,
        deadline: float | None,
        way: Way | None = None,
        future: Future[Any] | None = None,
    ) -> Call:
        """Send the request; the caller must await `run` or call `undo`.

        A `way` must have room; `future` gets the reply then.
        """
        ownership = self.ownership
        commands, context = ownership.commands, ownership.context
        self.asked_at = self.sent_at = now()
        self.overtaken = False
        self.checks = commands.kind not in context.permitted
        self.compares = ownership.compares
        call = context.executor.ask(commands, self, deadline, way, future)
        if self.client and (own := self.clients) is not None:
            ownership.may_have_joined(self.client, own)
        self.call = call
        context.pending[self] = None
        return call

    def plain_grant(self, reply: object, present: float) -> Granted | None:
        """Return the answer to a plain request if it is a grant that needs no other handling.

        Otherwise, for example if the client was closed or half the lease has passed, return None
        and change nothing: `run` handles the answer.
        """
        call, pending = self.call, self.ownership.context.pending
        answer = GRANTED if reply is None else self.ownership.commands.answer(reply, self)
        if (
            type(answer) is not Granted
            or call is None
            or call.uncertain
            or self not in pending
            or self.overtaken
            or present - self.sent_at > self.lease_time / 2
        ):
            return None
        if answer.sent_at is not None:
            self.sent_at = answer.sent_at
        del pending[self]
        self.call = None
        if self.checks:
            self.ownership.context.permitted.add(self.ownership.commands.kind)
        if self.compares:
            self.ownership.compares = False
        return answer

    def undo(self) -> None:
        """Undo what the request may have left on the server. Does not wait; idempotent."""
        call = self.call
        if call is None and not self._queued:
            return
        never = call is not None and not (call.maybe_executed or call.wanted)
        queued, self._queued = self._queued, False
        self.answered()
        if never and not queued:
            # Never sent, or refused each time.
            return
        self.undone = True
        try:
            self.send_undo()
        except ClientClosedError:
            # The closing client has undone it already, or the lease ends.
            return

    def send_undo(self) -> None:
        """Release what it may have been granted; the server refuses it if it arrives late."""
        ownership, parent = self.ownership, self.parent
        if self.reentry is not None:
            self.reentry.became_uncertain()
            return
        change, context = None, ownership.context
        if parent is not None:
            parent.became_uncertain()
            change = Change(context.owners.new_number(), remembered=True)
        # Repeated for as long as there can be anything to release.
        context.executor.undo(
            ownership.commands, self, self._longest_lease, late=parent is None, change=change
        )

    def release_unanswered(self) -> None:
        """Send the release behind the unanswered request; a late duplicate is not refused."""
        ownership, executor = self.ownership, self.ownership.context.executor
        if self.reentry is not None or self.parent is not None or self.maybe_repeated:
            self.send_undo()
            return
        with suppress(ClientClosedError):
            executor.undo(ownership.commands, self, self._longest_lease)

    @property
    def _longest_lease(self) -> float:
        return max(self.lease_time, self.ownership.context.options.lease_time)

    def give_up(self, error: BaseException) -> None:
        """Undo the request because the client closes, and raise `error` in its caller."""
        call = self.call
        self._given_up = error
        self.undo()
        if call is not None:
            call.fail(error)

    def answered(self) -> None:
        """Record that no call is under way any more."""
        self.call = None
        self.ownership.context.pending.pop(self, None)
