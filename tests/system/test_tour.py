"""The tour: every scene goes well, can go wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from redis import Redis

from examples.tour.scenes import SCENES
from redisson_py.testing import EmbeddedServer

ROOT = Path(__file__).resolve().parents[2]

#: Seconds for a whole tour, however busy the machine is.
PATIENCE = 400
#: How often a scene may go well by luck.
LUCK = 4

pytestmark = pytest.mark.timeout(LUCK * PATIENCE)


@contextmanager
def tour(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Take the tour, its output a pipe; end it if the test did not."""
    environment = {name: value for name, value in os.environ.items() if name != "REDISSON_URL"}
    process = subprocess.Popen(
        [sys.executable, "-m", "examples.tour", *arguments],
        cwd=ROOT,
        env=environment | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # it ends its processes; a SIGKILL would leave a stopped one


def output_of(*arguments: str) -> tuple[int, str]:
    with tour(*arguments) as process:
        output, _ = process.communicate(timeout=PATIENCE)
        return process.returncode, output


def processes_in(output: str) -> set[int]:
    return {int(found) for found in re.findall(r"\(pid (\d+)\)", output)}


def assert_gone(pids: set[int]) -> None:
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.fixture(scope="module")
def whole() -> tuple[int, str]:
    """The exit code and the output of the whole tour, which leaves nothing on a server."""
    server = EmbeddedServer()
    server.start_blocking()
    try:
        found = output_of("--url", server.url)
        with Redis.from_url(server.url) as redis:
            assert redis.keys("*") == []
    finally:
        server.close_blocking()
    return found


def test_the_whole_tour_goes_well_and_ends_its_processes(whole: tuple[int, str]) -> None:
    code, output = whole
    assert code == 0, output
    assert re.search(r"\nOK after \d+ s\n\Z", output), output
    about, _, _ = output.partition("\n")
    assert f"{len(SCENES)} short scenes" in about
    _, _, summary = output.rpartition("\nSCENE ")
    assert re.findall(r"^(\w+) +\d+ +[\d.]+ +ok$", summary, re.MULTILINE) == list(SCENES)
    assert "\x1b" not in output
    assert_gone(processes_in(output))


@pytest.mark.parametrize("name", SCENES)
def test_a_scene_shows_what_it_promises(whole: tuple[int, str], name: str) -> None:
    _, output = whole
    _, found, rest = output.partition(f"\n  examples/tour/scenes/{name}.py\n")
    assert found, output
    shown, _, _ = rest.partition("\n\n")
    assert len(re.findall(r"^     ok  .+: .+$", shown, re.MULTILINE)) >= 1, shown
    assert "WRONG" not in shown


def test_every_scene_goes_wrong_among_processes_that_do_not_meet() -> None:
    """By luck one may do as it should: if a busy machine runs its processes in turn."""
    lucky = list(SCENES)
    for _ in range(LUCK):
        played = [f"--only={name}" for name in lucky]
        code, output = output_of("--sabotage=apart", "--patience=5", *played)
        wrong = re.findall(r"\n  WRONG  (\w+): (?:WrongError: expected: |TourError: )", output)
        if wrong:
            assert code == 1, output
            assert re.search(rf"\nFAILED after \d+ s: {', '.join(wrong)}\n\Z", output), output
        assert_gone(processes_in(output))
        lucky = [name for name in lucky if name not in wrong]
        if not lucky:
            return
    pytest.fail(f"these never went wrong: {lucky}")


def test_server_that_is_not_there_is_told_in_one_line() -> None:
    code, output = output_of("--url=redis://127.0.0.1:1/0", "--patience=1")
    assert code == 1
    assert "WRONG" in output
    assert "Traceback" not in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_ends_all_processes_even_a_stopped_one(number: signal.Signals) -> None:
    with tour("--only", "lost_lease") as process:
        assert process.stdout is not None
        pids: set[int] = set()
        for line in process.stdout:
            pids |= processes_in(line)
            if "(SIGSTOP)" in line:
                break
        assert pids
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert_gone(pids)
