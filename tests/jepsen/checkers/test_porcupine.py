"""Our own search agrees with Go's porcupine on a thousand random histories."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fixtures.redis_server import unavailable
from tests.jepsen.checkers.random_calls import MODELS, random_calls
from tests.jepsen.checkers.wgl import Call, linearize

SOURCE = Path(__file__).parents[1] / "porcupine"
HISTORIES = 1000


@pytest.fixture(scope="module")
def porcupine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program that judges histories."""
    go = shutil.which("go")
    if go is None:
        unavailable("go is not installed")
    program = tmp_path_factory.mktemp("porcupine") / "oracle"
    built = subprocess.run(
        [go, "build", "-o", program, "."], cwd=SOURCE, capture_output=True, text=True, check=False
    )
    if built.returncode:
        unavailable(f"porcupine cannot be built: {built.stderr[-500:]}")
    return program


def _line(name: str, calls: Sequence[Call]) -> str:
    """Return a history as the program reads it: moments are whole numbers from 1."""
    forever = float("inf")
    moments = sorted({each.start for each in calls} | {each.end for each in calls})
    place = {moment: number for number, moment in enumerate(moments, 1)} | {forever: 0}
    told = [[place[each.start], place[each.end], each.action] for each in calls]
    return json.dumps({"model": name, "calls": told})


@pytest.mark.timeout(900)
def test_the_search_agrees_with_porcupine(porcupine: Path) -> None:
    chance = random.Random("porcupine")
    lines, ours = [], []
    for number in range(HISTORIES):
        name = list(MODELS)[number % len(MODELS)]
        model, calls = random_calls(name, chance, most=chance.randint(3, 16))
        lines.append(_line(name, calls))
        ours.append(linearize(calls, model).linearizable)
    judged = subprocess.run(
        [porcupine], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    theirs = [line == "true" for line in judged.stdout.split()]
    assert len(theirs) == HISTORIES
    disagreed = [line for line, a, b in zip(lines, ours, theirs, strict=True) if a is not b]
    assert not disagreed
    # Histories of both kinds say something.
    assert 200 < sum(theirs) < 800
