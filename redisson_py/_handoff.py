"""Handing a lock from task to task inside this process, and taking turns with others.

Tasks of one client that wait for one lock stand in one line, first come first served; only
its head asks Redis. When the holder releases and somebody stands in line, the hold is passed:
Redis goes on naming this client's owner, only the local holder changes, and nothing is sent.
That is lock cohorting (Dice, Marathe, Shavit: "Lock Cohorting", PPoPP 2012), with the round
trip in the part of the remote cache miss.

Passing would starve other processes, so it ends with the turn: a while after Redis granted
the hold it is released for real. The process that releases is awake and would win again, so
its next asker gives way: it lets as many messages come as others were listening (the release
of each), or a short moment pass, after its own release and after each of theirs.

Invariants: while somebody waits in line, somebody asks, or a local hold or a release under way
keeps the line waiting. A place leaves the line exactly once.
"""

from __future__ import annotations

from collections import deque
from typing import TypeVar

from redisson_py._lease.hold import Hold
from redisson_py._loop import (
    Future,
    call_later,
    fail,
    new_future,
    running_loop,
    wake,
)
from redisson_py._owner import TaskRef
from redisson_py._time import now
from redisson_py._waiting import Turn

#: How long the other process's turn is waited for if no message comes, in seconds.
COURTESY = 0.003

#: Lines kept before it is worth looking for those that nobody needs.
_FEW = 128

#: How long no turn is offered after one that nobody took, in seconds. Who listens need not
#: wait: a subscription outlives its last waiter for a moment.
DISCOURTESY = 0.05

_ASK = object()
_TIMEOUT = object()


class Place:
    """One task's place in the line.

    Attributes:
        passable: It wants the watchdog's lease, so a hold can be passed to it.
    """

    __slots__ = ("future", "passable", "task")

    def __init__(self, task: TaskRef, passable: bool) -> None:
        self.task = task
        self.passable = passable
        self.future: Future[object] = new_future()


class Line:
    """The tasks of one client that want one lock, and the hold one of them has.

    Attributes:
        places: Those who wait, first come first.
        asking: The head has left the line to ask Redis, and is not back.
        head: Its place, if it stood in line before.
        hold: The hold that a task of this client has on the lock, as far as is known.
        releasing: A release is under way; who asked now would overtake the others.
        turn: The turn of other processes that the next asker owes them.
        no_turn_until: Until when, in loop time, none is owed: the last one was not taken.
    """

    __slots__ = ("asking", "head", "hold", "no_turn_until", "places", "releasing", "turn")

    def __init__(self) -> None:
        self.places: deque[Place] = deque()
        self.asking = False
        self.head: Place | None = None
        self.hold: Hold | None = None
        self.releasing = False
        self.turn: Turn | None = None
        self.no_turn_until = 0.0

    def needed(self, present: float) -> bool:
        """Whether somebody stands here, holds, or must respect a turn, at a loop time."""
        busy = self.places or self.asking or self.releasing or self.hold is not None
        owes_a_turn = self.turn is not None and self.turn.until > present
        return bool(busy) or owes_a_turn or self.no_turn_until > present

    @property
    def _free(self) -> bool:
        return not (self.asking or self.releasing) and (self.hold is None or not self.hold.held)

    @property
    def waiting(self) -> int:
        """How many tasks stand in line, one that asks Redis included."""
        return len(self.places) + self.asking

    def go_first(self) -> bool:
        """Ask Redis at once, if nobody is before us; return whether. Then `asked` must follow."""
        hold = self.hold
        if self.places or self.asking or self.releasing or (hold is not None and hold.held):
            return False
        self.asking = True
        return True

    async def stand(self, place: Place, deadline: float | None) -> Hold | bool:
        """Wait in line; return a hold that was passed, True to ask Redis, False when time is up.

        Whoever gets True must say `asked` afterwards. Cancelled, the place is given up and
        what it was given goes to the next.
        """
        self.places.append(place)
        timer = None
        if deadline is not None:
            left = max(0.0, deadline - running_loop().time())
            timer = call_later(left, lambda: wake(place.future, _TIMEOUT))
        try:
            while True:
                answer = await place.future
                if not isinstance(answer, Hold):
                    break
                if answer.held:
                    return answer
                # Lost between the pass and now: what comes next is ours, before all others.
                if deadline is not None and running_loop().time() >= deadline:
                    return False
                place.future = new_future()
                self.places.appendleft(place)
                self.advance()
        except BaseException:
            self._abandon(place)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if answer is _ASK:
            return True
        self._remove(place)
        return False

    def asked(self) -> None:
        """Redis has answered, or will not; the next one may ask, unless there is a hold."""
        self.asking = False
        self.head = None
        if self.places:
            self.advance()

    def pass_on(self, hold: Hold, turn: float, least_left: float) -> bool:
        """Make the next in line the holder of `hold`, if it may be passed; return whether."""
        while self.places and self.places[0].future.done():
            # Cancelled, or its time is up.
            self.places.popleft()
        if not self.places:
            return False
        place = self.places[0]
        present = now()
        if (
            not place.passable
            or hold is not self.hold
            or hold.doubtful
            or not hold.watched
            or hold.state != "held"
            or hold.ends_at - present < least_left
            or present - hold.granted_at >= turn
            or (hold.next_token is not None and hold.next_token > hold.tokens_end)
        ):
            return False
        self.places.popleft()
        hold.task = place.task
        wake(place.future, hold)
        return True

    def advance(self) -> None:
        """Have the head ask Redis if nothing here keeps it waiting."""
        while self.places and self._free:
            # Who cannot be woken was cancelled, or its time is up: it has gone.
            head = self.places.popleft()
            self.asking = wake(head.future, _ASK)
            self.head = head if self.asking else None

    def close(self, error: BaseException) -> None:
        """Send everybody away."""
        for place in list(self.places):
            fail(place.future, error)

    def _abandon(self, place: Place) -> None:
        """A waiting task was cancelled, perhaps just after it was given something."""
        future = place.future
        given = None
        if future.done() and not future.cancelled() and future.exception() is None:
            given = future.result()
        if isinstance(given, Hold):
            given.resource._give_back(given)
        elif given is _ASK:
            self.asked()
        else:
            self._remove(place)

    def _remove(self, place: Place) -> None:
        if place in self.places:
            self.places.remove(place)


L = TypeVar("L", bound=Line)


class Lines:
    """The lines of one client, by key."""

    def __init__(self) -> None:
        self._lines: dict[bytes, Line] = {}
        self._sweep_at = _FEW

    def open(self, key: bytes) -> Line:
        """Return the line for a key."""
        line = self._lines.get(key)
        return self._add(key, Line()) if line is None else line

    def open_as(self, key: bytes, kind: type[L]) -> L:
        """Return the line for a key that has lines of a kind of its own."""
        line = self._lines.get(key)
        if line is None:
            return self._add(key, kind())
        assert isinstance(line, kind)
        return line

    def _add(self, key: bytes, line: L) -> L:
        if len(self._lines) >= self._sweep_at:
            self._sweep()
        self._lines[key] = line
        return line

    def find(self, key: bytes) -> Line | None:
        """Return the line for a key, if there is one."""
        return self._lines.get(key)

    def _sweep(self) -> None:
        """Forget the lines that nobody needs, so seldom that it costs nothing."""
        present = running_loop().time()
        self._lines = {key: line for key, line in self._lines.items() if line.needed(present)}
        self._sweep_at = max(_FEW, 2 * len(self._lines))

    @property
    def waiting(self) -> int:
        """How many tasks stand in line, those who ask Redis included."""
        return sum(line.waiting for line in self._lines.values())

    def close(self, error: BaseException) -> None:
        """Send everybody away."""
        for line in list(self._lines.values()):
            line.close(error)


def take_turn(line: Line) -> Turn | None:
    """Return the turn of others that is to be respected now; it is respected once."""
    turn, line.turn = line.turn, None
    if turn is not None and turn.until > running_loop().time():
        return turn
    return None
