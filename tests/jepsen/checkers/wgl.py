"""Whether there is one order of all calls that explains what they returned (linearizability).

Wing & Gong's search as Lowe made it: follow the calls and returns in time, and keep the states in
which the object may be, each with the open calls that took effect already. A call takes effect only
when another one, or its own return, needs it. https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/
"""

from __future__ import annotations

from bisect import insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

#: Returns the next state; None if the call cannot have returned what it did in this state.
Step = Callable[[Any, Any], Any]

#: A state, and the bits of the open calls that took effect in it.
State = tuple[Any, int]

#: An open call: its end, its bit, and what it does. They stand in this order.
Open = tuple[float, int, Any]

#: How many states one return may lead to. More than that is "unknown": cut the history in smaller
#: objects, with ten clients each at most.
MOST_STATES = 200_000


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an object.

    Attributes:
        start: When it was invoked.
        end: When it returned; infinity: nobody knows whether it happened at all.
        action: What it did and what it returned; the model knows what that means.
    """

    start: float
    end: float
    action: Hashable


@dataclass(frozen=True)
class Model:
    """What an object does, one call after the other."""

    start: Hashable
    step: Step


@dataclass(frozen=True, slots=True)
class Answer:
    """What the search found.

    Attributes:
        linearizable: Whether an order exists; None: too many states, unknown.
        position: The first call, by its number, whose return nothing explains.
        states: How many states were visited in all.
    """

    linearizable: bool | None
    position: int | None
    states: int


def linearize(calls: Sequence[Call], model: Model, most: int = MOST_STATES) -> Answer:
    """Search for an order of the calls that the model allows."""
    forever = float("inf")
    returns = [(call.end, 1, position) for position, call in enumerate(calls) if call.end < forever]
    events = sorted([(call.start, 0, position) for position, call in enumerate(calls)] + returns)
    step = model.step
    pending: list[Open] = []
    bits: dict[int, int] = {}
    free: list[int] = []
    used = visited = 0
    states: set[State] = {(model.start, 0)}
    for moment, returned, position in events:
        if not returned:
            if not free:
                free.append(1 << used)
                used += 1
            bits[position] = bit = free.pop()
            insort(pending, (calls[position].end, bit, calls[position].action), key=_order)
            continue
        bit = bits.pop(position)
        after = _after(states, bit, pending, step, most)
        if after is None:
            return Answer(None, position, visited + most)
        if not after:
            return Answer(False, position, visited)
        pending.remove((moment, bit, calls[position].action))
        free.append(bit)
        visited += len(after)
        states = _laziest(after, pending, step) if len(after) > 1 else after
        if pending and pending[-1][0] == forever:
            states = _forgotten(states, pending, free)
    return Answer(True, None, visited)


def _order(call: Open) -> tuple[float, int]:
    return call[:2]


def _after(
    states: set[State], wanted: int, pending: Sequence[Open], step: Step, most: int
) -> set[State] | None:
    """Return the states after the call of this bit took effect; None if there are too many.

    Of open calls that do the same, the one that returns first takes effect first.
    """
    done = {(state, mask ^ wanted) for state, mask in states if mask & wanted}
    todo = [each for each in states if not each[1] & wanted]
    seen = set(todo)
    while todo:
        state, mask = todo.pop()
        tried = set()
        for _, bit, action in pending:
            if mask & bit or action in tried:
                continue
            tried.add(action)
            following = step(state, action)
            if following is None:
                continue
            if bit == wanted:
                done.add((following, mask))
            elif (reached := (following, mask | bit)) not in seen:
                seen.add(reached)
                todo.append(reached)
        if len(seen) > most:
            return None
    return done


def _laziest(states: set[State], pending: Sequence[Open], step: Step) -> set[State]:
    """Leave out what can still be reached from another state by a call that is open."""
    by_mask: defaultdict[int, list[Any]] = defaultdict(list)
    for state, mask in states:
        by_mask[mask].append(state)
    return {
        (state, mask)
        for state, mask in states
        if not any(
            step(earlier, action) == state
            for _, bit, action in pending
            if mask & bit
            for earlier in by_mask.get(mask ^ bit, ())
        )
    }


def _forgotten(states: set[State], pending: list[Open], free: list[int]) -> set[State]:
    """Drop the calls without a return that took effect in every state."""
    always = -1
    for _, mask in states:
        always &= mask
    for call in [call for call in pending if call[1] & always and call[0] == float("inf")]:
        pending.remove(call)
        free.append(call[1])
        states = {(state, mask ^ call[1]) for state, mask in states}
    return states
