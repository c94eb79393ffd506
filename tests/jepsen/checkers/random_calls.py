"""Random calls of each model, for checks of the search against others: some valid, some broken."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.jepsen.checkers.models import (
    FENCED_REGISTER,
    MUTEX,
    READ_WRITE,
    REENTRANT,
    REGISTER,
    semaphore,
)
from tests.jepsen.checkers.wgl import Call, Model

LIMIT = 3


def _mutex(chance: random.Random, number: int) -> tuple[Any, ...]:
    return chance.choice(["acquire", "release"]), chance.choice("ab")


def _reentrant(chance: random.Random, number: int) -> tuple[Any, ...]:
    return chance.choice(["acquire", "acquire", "release", "drop"]), chance.choice("ab")


def _read_write(chance: random.Random, number: int) -> tuple[Any, ...]:
    hold = chance.choice(["read", "read", "write"]), chance.choice("ab")
    return chance.choice(["acquire", "acquire", "release", "drop"]), hold


def _semaphore(chance: random.Random, number: int) -> tuple[Any, ...]:
    return chance.choice(["acquire", "release"]), chance.randint(1, 2)


def _register(chance: random.Random, number: int) -> tuple[Any, ...]:
    return chance.choice(["write", "read"]), chance.randint(0, 2)


def _fenced(chance: random.Random, number: int) -> tuple[Any, ...]:
    token, value = chance.randint(1, 3), chance.randint(0, 1)
    if chance.random() < 0.5:
        return "begin", token, chance.choice([None, value]), True
    return "write", token, value, chance.random() < 0.7


#: Each model by its name, and how its calls are made up.
MODELS: dict[str, tuple[Model, Callable[[random.Random, int], tuple[Any, ...]]]] = {
    "mutex": (MUTEX, _mutex),
    "reentrant": (REENTRANT, _reentrant),
    "read-write": (READ_WRITE, _read_write),
    "semaphore": (semaphore(LIMIT), _semaphore),
    "register": (REGISTER, _register),
    "fenced": (FENCED_REGISTER, _fenced),
}


def random_calls(name: str, chance: random.Random, most: int = 12) -> tuple[Model, list[Call]]:
    """Return a model and calls of it: as a rule in an order that it allows, then disturbed.

    Calls take effect one after the other, where the model allows them; each was invoked some time
    before and returned some time after. Then, half of the time, one is replaced by any other.
    """
    model, make = MODELS[name]
    state, calls = model.start, list[Call]()
    moment = 0.0
    while len(calls) < most and moment < 100 * most:
        moment += 10
        action = make(chance, len(calls))
        following = model.step(state, action)
        if following is None:
            continue
        state = following
        start = moment - chance.uniform(0, 30)
        end = float("inf") if chance.random() < 0.1 else moment + chance.uniform(0, 30)
        calls.append(Call(start, end, action))
    if chance.random() < 0.6:
        place = chance.randrange(len(calls))
        other = calls[place]
        calls[place] = Call(other.start, other.end, make(chance, place))
    return model, calls
