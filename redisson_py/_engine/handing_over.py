"""Handing a hold to another process: the giver's half, and the adopter's.

The giver asks the server to keep the hold for a lease, under the owner that it has. Nobody else
knows the text that stands for it before the answer has come, so a giver that is cancelled, or gets
no answer, goes on holding it as before. With the answer its hold is over here, in the same step
that returns the text: it renews nothing and releases nothing any more.

The adopter asks for the hold under an owner of its own. The server replaces the one by the other
in one step, so the first adopter has it and a second one finds it gone. An adopter that is
cancelled, or gets no answer, releases what it may have got, as with an acquire; if its request
never arrived, the lease runs out.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from redisson_py._answers import RefusedError
from redisson_py._engine.handed_over import SECRET_BYTES, HandedOver
from redisson_py._engine.hold import (
    Hold,
    Lease,
    composite_of,
    has_max_hold,
    is_lost,
    is_settled,
    loss_of,
    lost_error,
    release_failed,
    tell_released,
)
from redisson_py._engine.ownership import cannot_be_handed_over as cannot
from redisson_py._engine.request import AcquireRequest
from redisson_py._loop import Future, current_task
from redisson_py._owner import reference
from redisson_py._time import now
from redisson_py.errors import BackendError, NotHeldError

if TYPE_CHECKING:
    from redisson_py._engine.server import Call, Courier, Way
    from redisson_py._engine.task_ownership import TaskOwnership

#: What the server answers to an adopter, if not the milliseconds that are left of its lease.
GONE, VOID, TAKEN, OVERDUE = -2, -3, -4, -5


async def hand_over(
    ownership: TaskOwnership, hold: Hold, lease: Lease, lease_time: float | None
) -> str:
    """Return the text with which another process adopts a hold; see `Lease.hand_over`."""
    context = ownership.context
    context.check()
    courier = ownership.view.courier
    if courier is None:
        raise cannot(ownership)
    if (why := _hindrance(hold, lease)) is not None:
        raise cannot(ownership, why)
    seconds = context.options.lease_time if lease_time is None else lease_time
    change = hold.begin_change(seconds)
    secret = secrets.token_hex(SECRET_BYTES)
    call = courier.hand_over(hold, seconds, change, secret)
    try:
        until_ms = await call.future
    except RefusedError as error:
        raise ownership.refusal(hold, lease, call, error) from error
    finally:
        # Not done if this coroutine was closed.
        call.future.cancel()
        # What its end was before the answer decides, also for a giver that was cancelled.
        context.watchdog.end_overdue(hold)
        hold.end_change(call)
    if is_settled(lease):
        raise NotHeldError(f"{ownership!r} was released or handed over meanwhile")
    if until_ms == 0:
        context.watchdog.lose(hold, "taken")
    if hold.state != "held" or is_lost(lease):
        raise loss_of(lease)
    if until_ms < 0 or not hold.is_last_change(change):
        raise cannot(ownership, "its lease was changed meanwhile; it is still held")
    if (why := _hindrance(hold, lease)) is not None:
        raise cannot(ownership, why)
    handed = HandedOver(
        ownership.kind,
        ownership.name,
        ownership.commands.key,
        courier.database,
        hold.owner,
        secret,
        lease.token,
        hold.last_token,
        until_ms,
    )
    _end(ownership, hold, lease)
    return handed.text()


def _hindrance(hold: Hold, lease: Lease) -> str | None:
    """Return why a held lease cannot be handed over, if so."""
    if composite_of(lease) is not None:
        return "it is a member of a lock that is made of several"
    if has_max_hold(lease):
        return "its max_hold ends it, and the adopter could not know when"
    if hold.taken_until > now():
        return "its min_hold is not over, and the adopter could not know until when"
    if hold.count != 1:
        return "its task has acquired it more than once; release the inner acquisitions first"
    return None


def _end(ownership: TaskOwnership, hold: Hold, lease: Lease) -> None:
    """End a hold here; the server keeps it. Tasks that wait for it ask the server."""
    queue, let_go_at = ownership.queue, now()
    hold.settle(lease)
    release_failed(lease, "it was handed over")
    ownership.forget(hold)
    hold.end("released")
    if queue is not None:
        if queue.hold is hold:
            queue.hold = None
        if queue.waiters:
            queue.advance()
    tell_released(lease, let_go_at)


async def adopt(ownership: TaskOwnership, handed: HandedOver) -> Lease:
    """Return the lease of an adopted hold, for the current task; see `Redisson.adopt`."""
    context = ownership.context
    context.check()
    courier = ownership.view.courier
    assert courier is not None
    _check(ownership, courier, handed)
    task = current_task()
    room = context.executor.room(ownership.commands.key, None)
    if room is not None:
        await room
    request = _Adoption(ownership, courier, handed)
    try:
        answer = await request.ask()
    except BaseException:
        request.undo()
        raise
    if answer <= 0:
        raise _refused(ownership, handed, answer)
    holds, queue = ownership.holds, ownership.queue
    former = holds.of(task)
    if former is not None and former.state == "held":
        # The server has another owner, so this one was lost and nobody knew.
        context.watchdog.lose(former, "taken")
    hold = Hold(
        ownership,
        request.field,
        reference(task),
        request.sent_at,
        request.lease_time,
        True,
        uncertain=request.uncertain,
    )
    if handed.token is not None:
        hold.bring_tokens(handed.token, max(1, handed.last_token - handed.token + 1))
    if request.overtaken:
        context.watchdog.ask_now(lambda key: key == ownership.commands.key)
    if not hold.valid:
        loss = ownership.loss(hold)
        ownership.give_back(hold)
        raise loss
    if queue is not None and not (queue.asking or queue.waiters or queue.releasing):
        # Those who wait already stand in the queue on the server, and come before later tasks here.
        queue.hold = hold
    lease = ownership.take(hold, task, None, now())
    if answer > request.lease_ms:
        # The giver left more time than an adopter needs: if this process dies, none is wasted.
        ownership.set_needed_lease(hold)
    return lease


def _check(ownership: TaskOwnership, courier: Courier, handed: HandedOver) -> None:
    """Refuse a hold of another database, or one to which this client gives another key."""
    if handed.database != courier.database:
        raise ValueError(
            f"this token is for {handed.kind} {handed.name!r} in database {handed.database}, and"
            f" this client uses database {courier.database}"
        )
    if handed.key != ownership.commands.key:
        raise ValueError(
            f"this token is for {handed.kind} {handed.name!r} at the key {handed.key!r}, which this"
            f" client has at {ownership.commands.key!r}: prefix and name_mapper must be the same"
        )


def _refused(ownership: TaskOwnership, handed: HandedOver, answer: int) -> Exception:
    """Return the error for a hold that could not be adopted."""
    if answer == TAKEN:
        return NotHeldError(f"{ownership!r} was already adopted with this token")
    if answer == OVERDUE:
        return lost_error(ownership, handed.owner, 0.0, "expired", "this token came too late:")
    if answer == GONE:
        return lost_error(
            *(ownership, handed.owner, 0.0, "taken"),
            "this token is for a hold that is not on this server:",
        )
    return BackendError(f"{ownership!r}: this request was already given up")


class _Adoption(AcquireRequest):
    """Asks for a hold that was handed over, under a new owner."""

    __slots__ = ("_courier", "_handed")

    def __init__(self, ownership: TaskOwnership, courier: Courier, handed: HandedOver) -> None:
        context = ownership.context
        owner, lease_time = context.owners.new_owner(), context.options.lease_time
        super().__init__(ownership, owner, 1, lease_time, once=True)
        self._courier = courier
        self._handed = handed

    def send(
        self, deadline: float | None, way: Way | None = None, future: Future[Any] | None = None
    ) -> Call:
        """Send the request; the caller must await `ask` or call `undo`."""
        context, handed = self.ownership.context, self._handed
        self.asked_at = self.sent_at = now()
        self.checks = self.ownership.commands.kind not in context.permitted
        self.call = call = self._courier.adopt(self, handed.owner, handed.secret, handed.until_ms)
        context.pending[self] = None
        return call

    async def ask(self) -> int:
        """Ask once; return the answer."""
        call = self.send(None)
        try:
            answer: int = await call.future
        except RefusedError as error:
            # An earlier copy without an answer may have been granted.
            self._queued = self.maybe_repeated
            self.answered()
            raise await self.ownership.context.executor.explain(call, error) from error
        finally:
            if call.uncertain:
                self.uncertain = True
        self.answered()
        if self._given_up is not None:
            raise self._given_up
        if self.checks:
            self.ownership.context.permitted.add(self.ownership.commands.kind)
        return answer
