"""The search for an order of all calls: by hand, and as Go's porcupine says."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.redis_server import unavailable
from tests.jepsen.checkers.models import (
    FENCED_REGISTER,
    MUTEX,
    READ_WRITE,
    REENTRANT,
    REGISTER,
    semaphore,
)
from tests.jepsen.checkers.wgl import Call, Model, linearize

INF = float("inf")
SOURCE = Path(__file__).parents[1] / "porcupine"
HISTORIES = 1000
LIMIT = 3


def call(start: float, end: float, *action: object) -> Call:
    return Call(start, end, action)


def a(t0: float, t1: float) -> Call:
    return call(t0, t1, "acquire", "a")


def b(t0: float, t1: float) -> Call:
    return call(t0, t1, "acquire", "b")


def a_leaves(t0: float, t1: float) -> Call:
    return call(t0, t1, "release", "a")


#: The greatest token that anybody has shown is 2, and the value is 0.
SEEN = call(0, 1, "begin", 2, 0, True)
WRITTEN = [call(0, 9, "write", 1), call(1, 2, "read", 1)]


@pytest.mark.parametrize(
    ("model", "calls", "expected"),
    [
        (MUTEX, [a(0, 9), b(1, 8), a_leaves(2, 3)], True),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(5, 6)], False),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(2, INF)], True),
        (MUTEX, [a(0, 3), b(1, 4), a_leaves(5, INF)], False),
        (REENTRANT, [a(0, 1), a(2, 3), a_leaves(4, 5), b(6, 7)], False),
        (REENTRANT, [a(0, 1), a(2, 3), call(4, 5, "drop", "a"), b(6, 7)], True),
        (semaphore(2), [call(0, 1, "acquire", 1)] * 3, False),
        (semaphore(3), [call(0, 1, "acquire", 1)] * 3, True),
        (REGISTER, [*WRITTEN, call(3, 4, "read", 1)], True),
        (REGISTER, [*WRITTEN, call(3, 4, "read", 0)], False),
        (FENCED_REGISTER, [SEEN, call(2, 3, "write", 1, 5, True)], False),
        (FENCED_REGISTER, [SEEN, call(2, 3, "write", 1, 5, False)], True),
    ],
)
def test_histories_by_hand(model: Model, calls: list[Call], expected: bool) -> None:
    assert linearize(calls, model).linearizable is expected


def test_too_many_states_are_unknown() -> None:
    calls = [call(0, 100, "write", number) for number in range(12)]
    assert linearize(calls, REGISTER, most=50).linearizable is None
    assert linearize(calls, REGISTER).linearizable is True


def _fenced(chance: random.Random) -> tuple[Any, ...]:
    token, value = chance.randint(1, 3), chance.randint(0, 1)
    if chance.random() < 0.5:
        return "begin", token, chance.choice([None, value]), True
    return "write", token, value, chance.random() < 0.7


def _of(words: Sequence[str], what: Sequence[object]) -> Callable[[random.Random], tuple[Any, ...]]:
    return lambda chance: (chance.choice(words), chance.choice(what))


_MODES = [(mode, who) for mode in ("read", "read", "write") for who in "ab"]
_ENDS = ("acquire", "acquire", "release", "drop")
#: Each model by its name, and how its calls are made up.
MODELS: dict[str, tuple[Model, Callable[[random.Random], tuple[Any, ...]]]] = {
    "mutex": (MUTEX, _of(("acquire", "release"), "ab")),
    "reentrant": (REENTRANT, _of(_ENDS, "ab")),
    "read-write": (READ_WRITE, _of(_ENDS, _MODES)),
    "semaphore": (semaphore(LIMIT), _of(("acquire", "release"), (1, 2))),
    "register": (REGISTER, _of(("write", "read"), (0, 1, 2))),
    "fenced": (FENCED_REGISTER, _fenced),
}


def random_calls(name: str, chance: random.Random, most: int) -> list[Call]:
    """Return calls in an order that the model allows, half of the time with another one in it.

    Each was invoked some time before it took effect, and returned some time after.
    """
    model, make = MODELS[name]
    state, calls, moment = model.start, list[Call](), 0.0
    while len(calls) < most and moment < 100 * most:
        moment += 10
        action = make(chance)
        following = model.step(state, action)
        if following is None:
            continue
        state = following
        start = moment - chance.uniform(0, 30)
        end = INF if chance.random() < 0.1 else moment + chance.uniform(0, 30)
        calls.append(Call(start, end, action))
    if chance.random() < 0.6:
        index = chance.randrange(len(calls))
        calls[index] = Call(calls[index].start, calls[index].end, make(chance))
    return calls


def _row(name: str, calls: Sequence[Call]) -> str:
    """Return a history as the program reads it: moments are whole numbers from 1."""
    moments = sorted({each.start for each in calls} | {each.end for each in calls})
    index = {moment: number for number, moment in enumerate(moments, 1)} | {INF: 0}
    reported = [[index[each.start], index[each.end], each.action] for each in calls]
    return json.dumps({"model": name, "calls": reported})


@pytest.mark.timeout(900)
def test_the_search_agrees_with_porcupine(tmp_path: Path) -> None:
    if (go := shutil.which("go")) is None:
        unavailable("go is not installed")
    build = [go, "build", "-o", str(tmp_path / "oracle"), "."]
    built = subprocess.run(build, cwd=SOURCE, capture_output=True, text=True, check=False)
    if built.returncode:
        unavailable(f"porcupine cannot be built: {built.stderr[-500:]}")
    chance = random.Random("porcupine")
    rows, ours = [], []
    for number in range(HISTORIES):
        name = list(MODELS)[number % len(MODELS)]
        calls = random_calls(name, chance, most=chance.randint(3, 16))
        rows.append(_row(name, calls))
        ours.append(linearize(calls, MODELS[name][0]).linearizable)
    judged = subprocess.run(
        [tmp_path / "oracle"], input="\n".join(rows), capture_output=True, text=True, check=True
    )
    theirs = [row == "true" for row in judged.stdout.split()]
    disagreed = [row for row, a, b in zip(rows, ours, theirs, strict=True) if a is not b]
    assert not disagreed
    # Histories of both kinds say something.
    assert 200 < sum(theirs) < 800
