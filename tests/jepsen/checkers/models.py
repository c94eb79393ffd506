"""What mutexes, a read-write lock, a semaphore, a register and a fenced register do."""

from __future__ import annotations

from typing import Any

from tests.jepsen.checkers.wgl import Model

#: A state must not be None: that is "not possible".
FREE = ""
Held = tuple[str, int]
#: The mode and the holder of each hold, in an order of their own.
Holds = tuple[tuple[str, str], ...]


def _mutex(state: str, action: tuple[str, str]) -> str | None:
    """`acquire WHO`, `release WHO`."""
    word, caller = action
    if word == "acquire":
        return caller if state == FREE else None
    return FREE if state == caller else None


def _reentrant(state: Held, action: tuple[str, str]) -> Held | None:
    """`acquire WHO`, `release WHO`; `drop WHO`: all its holds at once, as at the lease's end."""
    word, caller = action
    holder, count = state
    if word == "acquire":
        return (caller, count + 1) if holder in (FREE, caller) else None
    if holder != caller:
        return None
    return (FREE, 0) if word == "drop" or count == 1 else (holder, count - 1)


def _read_write(state: Holds, action: tuple[str, tuple[str, str]]) -> Holds | None:
    """`acquire HOLD`, `release HOLD`, `drop HOLD`; a writer may read, and write again."""
    word, hold = action
    mode, caller = hold
    if word != "acquire":
        if hold not in state:
            return None
        index = state.index(hold)
        return state[:index] + state[index + 1 :]
    if mode == "read":
        possible = all(held == "read" or other == caller for held, other in state)
    else:
        possible = not state or ("write", caller) in state
    return tuple(sorted((*state, hold))) if possible else None


def semaphore(limit: int) -> Model:
    """Return the model of a semaphore with so many units: `acquire N`, `release N`."""

    def step(taken: int, action: tuple[str, int]) -> int | None:
        word, units = action
        if word == "acquire":
            return taken + units if taken + units <= limit else None
        return taken - units if units <= taken else None

    return Model(0, step)


def _register(state: Any, action: tuple[str, Any]) -> Any:
    """`write VALUE`, `read VALUE`."""
    word, value = action
    if word == "write":
        return value
    return state if state == value else None


def _fenced_register(
    state: tuple[int, int], action: tuple[str, int, int | None, bool]
) -> tuple[int, int] | None:
    """`begin TOKEN VALUE` (None: any value), `write TOKEN VALUE ACCEPTED`."""
    value, greatest = state
    word, token, said, accepted = action
    if word == "begin":
        return (value, max(token, greatest)) if said is None or said == value else None
    if accepted != (token >= greatest):
        return None
    return (value if said is None else said, max(token, greatest)) if accepted else state


MUTEX = Model(FREE, _mutex)
REENTRANT = Model((FREE, 0), _reentrant)
READ_WRITE = Model((), _read_write)
#: Registers begin with 0.
REGISTER = Model(0, _register)
FENCED_REGISTER = Model((0, 0), _fenced_register)
