"""The tool as a user starts it: a run, its verdicts again, a run that is interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jepsen import rounds
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result
from tests.support.waiting import until

TOOL = [sys.executable, "-m", "tests.jepsen"]
PLAN = Plan("fenced", ("kill", "pause"), "single", 1.5, 3)


def tool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the tool to its end."""
    return subprocess.run(
        [*TOOL, *map(str, words)], capture_output=True, text=True, check=False, timeout=200
    )


def test_a_run_is_judged_the_same_again(tmp_path: Path) -> None:
    words = ("--workload", "fenced", "--nemesis", "kill,pause", "--seconds", "1.5", "--seed", "3")
    begun = tool(*words, "--keep", tmp_path)
    assert begun.returncode == 0, begun.stdout + begun.stderr
    result = Result.load(tmp_path / PLAN.title)
    assert result.plan == PLAN
    assert result.rulings["mutual exclusion"].looked_at > 10
    again = tool("--check", tmp_path)
    assert again.returncode == 0, again.stdout
    assert again.stdout == begun.stdout


@pytest.mark.parametrize(
    ("nemesis", "said"),
    [("drop", "cannot begin: [Errno 2] No such file or directory: 'unshare'"),
     ("clock-step", "a compiler is needed: cc")],
)  # fmt: skip
async def test_a_machine_that_lacks_something_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nemesis: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await rounds.one(Plan("mutex", (nemesis,), "single", 1, 1), tmp_path / "run")
    assert not result.ok
    assert said in result.failures[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "mutx"), "no such workload: mutx; there are: mutex, "),
        (("--hours", "nan"), "invalid _positive value: 'nan'"),
        (("--jobs", "0"), "invalid _at_least_one value: '0'"),
    ],
)
def test_what_is_wrong_is_reported(words: tuple[str, ...], said: str) -> None:
    done = tool(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_everything_that_can_be_named_is_listed() -> None:
    said = tool("--list").stdout
    for each in ("workloads:\n  mutex  ", "nemeses:\n  kill  ", "topologies:\n  single  ",
                 "checkers:\n  mutual exclusion  "):  # fmt: skip
        assert each in said


def naming(folder: Path) -> dict[int, str]:
    """Return the other processes whose command names a folder."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(folder) in command:
                found[int(entry.name)] = command
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_what_was_started_ends_with_the_tool(tmp_path: Path, number: signal.Signals) -> None:
    """Its run, the resource and four workers, one of which is stopped."""
    words = ("--workload", "mutex", "--nemesis", "none", "--seconds", "60", "--keep", tmp_path)
    process = await asyncio.create_subprocess_exec(
        *TOOL, *map(str, words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )

    try:
        await until(lambda: len([*tmp_path.glob("*/w?.history")]) == 4, 100)
        found = naming(tmp_path)
        assert len(found) >= 7
        stopped = next(pid for pid, command in found.items() if "jepsen.worker" in command)
        os.kill(stopped, signal.SIGSTOP)
        process.send_signal(number)
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    assert code == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    await until(lambda: not naming(tmp_path), 100)
