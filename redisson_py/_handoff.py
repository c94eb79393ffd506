"""Handing a lock from task to task inside this process, and taking turns with others.

Tasks of one client that wait for one lock stand in one line, first come first served; only
its head asks Redis. When the holder releases and somebody stands in line, the hold is passed:
Redis goes on naming this client's owner, only the local holder changes, and nothing is sent.
That is lock cohorting (Dice, Marathe, Shavit: "Lock Cohorting", PPoPP 2012), with the round
trip in the part of the remote cache miss.

Passing would starve other processes, so it ends with the turn: a while after Redis granted
the hold it is released for real. The process that releases is awake and would win again, so
if others were listening its next asker first lets one more message come (their release), or a
short moment pass.

Invariants: the head is asking, or a local hold or a release under way keeps it waiting. A
place leaves the line exactly once.
"""

from __future__ import annotations

import weakref
from collections import deque

from redisson_py._lease.hold import Hold
from redisson_py._loop import (
    Future,
    Task,
    call_later,
    current_task,
    fail,
    new_future,
    running_loop,
    wake,
)
from redisson_py._time import now
from redisson_py._waiting import Turn

#: How long the other process's turn is waited for if no message comes, in seconds.
COURTESY = 0.003

_ASK = object()
_TIMEOUT = object()


class Place:
    """One task's place in the line.

    Attributes:
        passable: It wants the watchdog's lease, so a hold can be passed to it.
        asking: It is at the head and asks Redis by itself.
    """

    __slots__ = ("asking", "future", "passable", "task")

    def __init__(self, passable: bool) -> None:
        self.task: weakref.ref[Task] = weakref.ref(current_task())
        self.passable = passable
        self.asking = False
        self.future: Future[object] | None = None


class Line:
    """The tasks of one client that want one lock, and the hold one of them has.

    Attributes:
        hold: The hold that a task of this client has on the lock, as far as is known.
        releasing: A release is under way; who asked now would overtake the others.
    """

    __slots__ = ("hold", "key", "places", "releasing", "turn")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.places: deque[Place] = deque()
        self.hold: Hold | None = None
        self.releasing = False
        self.turn: Turn | None = None

    @property
    def empty(self) -> bool:
        """Whether nobody needs this line any more."""
        return not self.places and self.hold is None and not self.releasing

    @property
    def _free(self) -> bool:
        return not self.releasing and (self.hold is None or not self.hold.held)

    async def enter(self, place: Place, deadline: float | None) -> Hold | bool:
        """Stand in line; return a hold that was passed, True to ask Redis, False when time is up.

        Whoever gets True stays at the head and must `leave`. Cancelled, the place is given up
        and what it was given goes to the next.
        """
        self.places.append(place)
        if len(self.places) == 1 and self._free:
            place.asking = True
            return True
        place.future = new_future()
        timer = None
        if deadline is not None:
            left = max(0.0, deadline - running_loop().time())
            timer = call_later(left, lambda: wake(place.future, _TIMEOUT))
        try:
            answer = await place.future
        except BaseException:
            self._abandon(place)
            raise
        finally:
            if timer is not None:
                timer.cancel()
        if answer is _TIMEOUT:
            self.leave(place)
            return False
        if isinstance(answer, Hold) and answer.held:
            return answer
        if isinstance(answer, Hold):
            # Lost between the pass and now: go and ask, before those who came later.
            place.asking = True
            self.places.appendleft(place)
        return True

    def leave(self, place: Place) -> None:
        """Give up a place; the next one may become the head."""
        if place in self.places:
            self.places.remove(place)
        self.advance()

    def granted(self, place: Place, hold: Hold) -> None:
        """Redis granted the head's question."""
        self.hold = hold
        self.leave(place)

    def pass_on(self, hold: Hold, turn: float, least_left: float) -> bool:
        """Make the next in line the holder of `hold`, if it may be passed; return whether."""
        if not self.places:
            return False
        place = self.places[0]
        present = now()
        if (
            place.asking
            or not place.passable
            or place.future is None
            or place.future.done()
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
        while self.places and self._free and not self.places[0].asking:
            place = self.places[0]
            if wake(place.future, _ASK):
                place.asking = True
                return
            if place.future is not None and place.future.cancelled():
                # Its task has been cancelled and will find its place gone.
                self.places.popleft()
                continue
            return

    def close(self, error: BaseException) -> None:
        """Send everybody away."""
        for place in list(self.places):
            fail(place.future, error)

    def _abandon(self, place: Place) -> None:
        """A waiting task was cancelled, perhaps just after it was given something."""
        future = place.future
        given = None
        if future is not None and future.done() and not future.cancelled():
            given = None if future.exception() is not None else future.result()
        if isinstance(given, Hold):
            given.resource._give_back(given)
        else:
            self.leave(place)


class Lines:
    """The lines of one client, by key."""

    def __init__(self) -> None:
        self._lines: dict[bytes, Line] = {}

    def open(self, key: bytes) -> Line:
        """Return the line for a key."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line(key)
        return line

    def find(self, key: bytes) -> Line | None:
        """Return the line for a key, if there is one."""
        return self._lines.get(key)

    def drop_if_empty(self, line: Line) -> None:
        """Forget a line nobody needs; one whose turn is pending, when that is over."""
        if not line.empty or self._lines.get(line.key) is not line:
            return
        if line.turn is not None and line.turn.until > running_loop().time():
            call_later(COURTESY * 2, lambda: self.drop_if_empty(line))
            return
        del self._lines[line.key]

    @property
    def waiting(self) -> int:
        """How many tasks stand in line, those who ask Redis included."""
        return sum(len(line.places) for line in self._lines.values())

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
