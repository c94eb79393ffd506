"""The benchmarks run, and say all they should; their figures are nobody's promise here."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks.goals import goals
from benchmarks.harness import Goal, Spread, Table, percentile
from benchmarks.rivals import (
    ON_STORES,
    REDISSON,
)
from benchmarks.rivals.redisson import Redisson
from benchmarks.rivals.side import CannotError
from benchmarks.scenarios import crowd
from benchmarks.scenarios.crowd import Look, figures
from benchmarks.scenarios.crowd_workers import Found
from benchmarks.scenarios.handoff import summary
from tests.support import repository


# Two Java machines start for it, and Maven before them if nothing is built yet: a minute on a quiet
# machine, several beside the rest of `test-more`.
@pytest.mark.timeout(400)
async def test_a_tiny_run_writes_machine_versions_every_scenario_and_every_goal(
    tmp_path: Path,
) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.run", "--size", "tiny", "--loop", "asyncio"),
        *("--sides", f"redis-py,bare stream*,pottery,py-redis*,*limit*,{REDISSON}"),
        *("--json", str(report)),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(390):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    said = json.loads(report.read_text("utf-8"))
    assert said["machine"]["processors"] > 0
    assert said["versions"]["redis"]
    tables = said["tables"]
    assert set(tables) == {
        *("pairs", "pairs of 2 processes", "hand-off in one process"),
        *("hand-off across processes", "waiting", "renewals", "loss"),
        *("primitives", "contended", "wake-ups", "order", "semaphores", "red lock"),
        *("processor time of pairs", "hand-off in turns", "calls", "imports", "telemetry"),
        *("growth with tasks", "growth with names", "growth with waiters"),
        *("crowd", "crowd, every kind", "server's processor time of pairs"),
        *("topologies", "processor time on topologies", "recovery", "stores"),
        "rate limiters",
    }
    for side in ("redisson_py", "redis-py", "bare stream"):
        assert tables["pairs"]["rows"][side]["8 tasks"]["median"] > 0
    # Installed or not: each rival is named.
    named = {name: table["rows"] | table["absent"] for name, table in tables.items()}
    for entries in ON_STORES.values():
        assert set(entries) <= set(named["stores"])
    for side in ("pottery", "redis-benchmark", REDISSON):
        assert any(side in row for row in named["pairs"]), side
    assert "py-redis-semaphore" in named["semaphores"]
    assert {"limits", "pyrate-limiter", "aiolimiter"} <= named["rate limiters"].keys()
    assert tables["rate limiters"]["rows"]["redisson_py"]["8 tasks"]["median"] > 0
    for table in tables.values():
        assert table["rows"]
        assert table["title"] in printed.decode()
    assert len(said["goals"]) == 43
    # In the hundredths of a second that it is measured here, a process may stand still.
    measured = {
        name
        for name, goal in said["goals"].items()
        if goal["verdict"] != "not measured" and "across two processes" not in name
    }
    assert {
        *(f"{kind} against lock, worst column" for kind in ("write lock", "read lock")),
        *(f"{kind} against lock, worst column" for kind in ("semaphore", "fair lock")),
        *("1 task against bare stream, packed by hiredis", "import redisson_py"),
        *("100,000 held locks: processor", "100,000 held locks: longest stand of the loop"),
        *("cluster against one server, worst column", "recovery: graceful failover"),
        "1 task against redis-py",
    } <= measured


@pytest.mark.parametrize(
    ("share", "expected"), [(0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)]
)
def test_a_percentile_is_the_value_of_nearest_rank(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_only_gaps_between_parties_count_as_hand_offs() -> None:
    # Begin, end, party: 0 twice, to 1 after 2 us, back to 0 after 4 us.
    found = summary([(0, 0, 0), (9_000, 9_000, 0), (11_000, 11_000, 1), (15_000, 15_000, 0)], 2)
    assert found == {"median": 2.0, "p99": 4.0, "hand_offs": 2, "evenness": 1 / 3}
    assert summary([(0, 0, 0), (9, 9, 0)], 2) is None


async def test_redisson_without_java_is_a_side_that_cannot_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotError, match="needs java on the PATH"):
        await Redisson().open("redis://nowhere")


def test_a_primitive_is_judged_by_its_worst_column() -> None:
    table = Table("primitives", "title")
    table.add("read lock", {"1 task": 9.0, "1 task, x lock": 0.9, "64 tasks, x lock": 0.7})
    found = {goal.name: goal for goal in goals({table.name: table})}
    goal = found["read lock against lock, worst column"]
    assert goal.found is not None
    assert (goal.found.median, goal.verdict) == (0.7, "MISSED")
    assert goal.detail == "1 task: 0.90; 64 tasks: 0.70"


def test_two_sections_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="two sections at once"):
        summary([(0, 10, 0), (9, 20, 1)], 2)


def test_a_verdict_follows_the_direction() -> None:
    def verdict(found: float, better: str) -> str:
        assert better in ("more", "less")
        at_least, aim = (1.0, 2.0) if better == "more" else (2.0, 1.0)
        spread = Spread([found])
        return Goal("x", spread, better, at_least, aim, "x").verdict  # type: ignore[arg-type]

    assert [verdict(found, "more") for found in (0.9, 1.0, 2.0)] == [
        *("MISSED", "reached", "aim reached")
    ]
    assert [verdict(found, "less") for found in (2.1, 2.0, 1.0)] == [
        *("MISSED", "reached", "aim reached")
    ]
    assert Goal("x", None, "more", 1.0, 2.0, "x").verdict == "not measured"


# Hand-offs among many clients.

_MS = 1_000_000


def row(*visits: tuple[int, int, int], clients: int, pushes: int = 0) -> dict[str, float]:
    """Return what is said of visits in the second between 1,000 and 2,000 ms; times in ms."""
    found: Found = {
        "visits": [(asked * _MS, begin * _MS, party) for asked, begin, party in visits],
        "pushes": [1_500 * _MS] * pushes,
    }
    looks = (
        Look(at=1_000 * _MS, scripts=100, publishes=10, cpu=1.0),
        Look(at=2_000 * _MS, scripts=112, publishes=16, cpu=1.0006),
    )
    return figures([found], clients, *looks)


def test_a_hand_off_is_a_grant_to_another_client_than_the_one_before() -> None:
    # 0, 0, 1, 1, 0: two hand-offs. What was before and after the second does not count.
    said = row(
        *((900, 950, 1), (1_000, 1_100, 0), (1_100, 1_200, 0), (1_000, 1_300, 1)),
        *((1_300, 1_400, 1), (1_200, 1_500, 0), (1_500, 2_100, 0)),
        clients=2,
        pushes=6,
    )
    assert said[crowd.RATE] == 2
    assert said[crowd.GRANTS] == 5
    assert said[crowd.MEAN] == 500
    assert said[crowd.SCRIPTS] == 6
    assert said[crowd.PUBLISHES] == 3
    assert said[crowd.PUSHES] == 3
    assert said[crowd.SERVER] == pytest.approx(300)
    assert said[crowd.EVENNESS] == pytest.approx(25 / (2 * (9 + 4)))


async def test_the_command_counts_every_kind_on_a_server_of_its_own() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.crowd", "--kinds", ",".join(crowd.KINDS)),
        *("--clients", "2,5", "--seconds", "0.1", "--hold", "1", "--pause", "1"),
        *("--processes", "2"),
        cwd=repository.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(100):
        output, _ = await process.communicate()
    printed = output.decode()
    assert process.returncode == 0, printed
    for kind in crowd.KINDS:
        for clients in (2, 5):
            row = next(one for one in printed.splitlines() if one.startswith(f"{kind}, {clients} "))
            # Where nobody happened to hand on, three figures are left.
            printed_figures = row.removeprefix(f"{kind}, {clients}").split()
            assert len(printed_figures) in (3, 10), printed
