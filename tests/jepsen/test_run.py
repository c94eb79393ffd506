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
from tests.jepsen.judge import judge
from tests.jepsen.plan import Plan
from tests.jepsen.result import Result

TOOL = [sys.executable, "-m", "tests.jepsen"]
PLAN = Plan("fenced", ("kill", "pause"), "single", 1.5, 3)


def tool(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the tool to its end."""
    return subprocess.run(
        [*TOOL, *map(str, words)], capture_output=True, text=True, check=False, timeout=200
    )


def test_a_run_is_judged_the_same_again(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    begun = tool(
        *("--workload", "fenced", "--nemesis", "kill,pause", "--seconds", "1.5", "--seed", "3"),
        *("--keep", kept),
    )
    assert begun.returncode == 0, begun.stdout + begun.stderr
    folder = kept / PLAN.title
    first = Result.load(folder)
    assert first.plan == PLAN
    assert first.operations > 100
    assert first.rulings["mutual exclusion"].looked_at > 10
    again = judge(folder)
    assert again.operations == first.operations
    assert {name: each.state for name, each in again.rulings.items()} == {
        name: each.state for name, each in first.rulings.items()
    }
    checked = tool("--check", kept)
    assert checked.returncode == 0, checked.stdout
    assert f"{first.operations:,} operations" in checked.stdout


def test_a_run_that_cannot_begin_is_a_failure_with_its_command(tmp_path: Path) -> None:
    unknown = Plan("fenced", (), "moon", 1, 1)
    result = asyncio.run(rounds.one(unknown, tmp_path / "run"))
    assert not result.ok
    assert "KeyError: 'moon'" in result.trouble[0]


@pytest.mark.parametrize(
    ("nemesis", "said"),
    [("drop", "cannot begin: [Errno 2] No such file or directory: 'unshare'"),
     ("clock-step", "a compiler is needed: cc")],
)  # fmt: skip
def test_a_machine_that_lacks_something_says_what(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nemesis: str, said: str
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = asyncio.run(rounds.one(Plan("mutex", (nemesis,), "single", 1, 1), tmp_path / "run"))
    assert not result.ok
    assert said in result.trouble[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--workload", "mutx"), "no such workload: mutx; there are: mutex, "),
        (("--nemesis", "rain"), "no such nemesis: rain; there are: kill, "),
        (("--seconds", "0"), "invalid _positive value: '0'"),
        (("--hours", "nan"), "invalid _positive value: 'nan'"),
        (("--jobs", "0"), "invalid _at_least_one value: '0'"),
        (("--topology", "moon"), "no such topology: moon"),
    ],
)
def test_wrong_names_are_told(words: tuple[str, ...], said: str) -> None:
    done = tool(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_everything_that_can_be_named_is_listed() -> None:
    said = tool("--list").stdout
    for title in ("workloads:", "nemeses:", "topologies:", "checkers:"):
        assert title in said
    assert "  fenced  " in said
    assert "  mutual exclusion  " in said


async def started(folder: Path) -> dict[int, str]:
    """Look at the processes now and then: it takes a while to look at all of them."""
    await asyncio.sleep(0.2)
    return of_session(folder)


def of_session(folder: Path) -> dict[int, str]:
    """Return the processes whose command names a folder."""
    found: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if str(folder) in command and int(entry.name) != os.getpid():
                found[int(entry.name)] = command
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_what_was_started_ends_with_the_tool(tmp_path: Path, number: signal.Signals) -> None:
    words = ("--workload", "mutex", "--nemesis", "pause", "--seconds", "150", "--keep", tmp_path)
    process = await asyncio.create_subprocess_exec(
        *TOOL, *map(str, words), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(100):
            # The tool, its run, the resource and four workers.
            while len(await started(tmp_path)) < 7:
                pass
        process.send_signal(number)
        code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    assert code == (130 if number != signal.SIGKILL else -signal.SIGKILL)
    async with asyncio.timeout(100):
        while await started(tmp_path):
            pass


async def test_workers_end_with_a_run_that_is_killed_also_a_stopped_one(tmp_path: Path) -> None:
    plan = Plan("mutex", (), "single", 150, 1)
    plan.save(tmp_path)
    run = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.jepsen.run", str(tmp_path), stdin=subprocess.PIPE
    )
    try:
        async with asyncio.timeout(100):
            # The run, the resource and four workers, each of which has begun to work.
            while len(list(tmp_path.glob("w?.history"))) < 4:  # noqa: ASYNC240
                found = await started(tmp_path)
        stopped = next(pid for pid, command in found.items() if "jepsen.worker" in command)
        os.kill(stopped, signal.SIGSTOP)
    finally:
        run.kill()
        await run.wait()
    async with asyncio.timeout(100):
        while await started(tmp_path):
            pass
