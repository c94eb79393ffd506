"""The benchmarks run, and say all they should; their figures are nobody's promise here."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.crew import Bench, alternately
from benchmarks.goals import goals
from benchmarks.harness import Goal, Spread, Table, percentile
from benchmarks.rivals import (
    ON_STORES,
    OURS,
    OURS_POSTGRES,
    OURS_UVLOOP,
    POTTERY,
    POTTERY_THREADS,
    PY_REDIS_SEMAPHORE,
    REDIS_PY,
    REDIS_PY_64,
    REDIS_PY_CLUSTER,
    REDISSON,
    REDISSON_ASYNC,
    REDISSON_ASYNC_8,
)
from benchmarks.rivals.redisson import Redisson
from benchmarks.rivals.rueidislock import Rueidislock
from benchmarks.rivals.side import CannotError, Pairs
from benchmarks.run import parse, workers_needed
from benchmarks.scenarios.handoff import summary
from benchmarks.scenarios.visits import Visit, at_once, evenness, later_visits, places_lost, wait_ms
from benchmarks.sizes import SIZES
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
        *("--sides", f"redis-py,bare stream*,pottery,py-redis*,{REDISSON}"),
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
    }
    for side in ("redisson_py", "redis-py", "bare stream"):
        assert tables["pairs"]["rows"][side]["8 tasks"]["median"] > 0
    # Installed or not: it is named.
    others = tables["stores"]
    for entries in ON_STORES.values():
        assert set(entries) <= set(others["rows"] | others["absent"])
    assert others["rows"][OURS_POSTGRES]["1 task"]["median"] > 0
    assert "pottery" in tables["pairs"]["rows"] | tables["pairs"]["absent"]
    assert any(
        "redis-benchmark" in row for row in tables["pairs"]["rows"] | tables["pairs"]["absent"]
    )
    takes_part = shutil.which("java") is not None and shutil.which("mvn") is not None
    for name in (
        *("pairs", "processor time of pairs", "hand-off in one process", "crowd"),
        *("hand-off across processes", "hand-off in turns"),
    ):
        rows = tables[name]["rows"] if takes_part else tables[name]["absent"]
        assert any(row.startswith(REDISSON) for row in rows), name
    for side in ("pottery", "py-redis-semaphore"):
        where = tables["red lock" if side == "pottery" else "semaphores"]
        assert side in where["rows"] | where["absent"]
    for name, table in tables.items():
        # Where only ours takes part, rows are its primitives.
        starts = {
            "imports": "import",
            "stores": OURS_POSTGRES,
            "topologies": "cluster: redisson_py",
            "processor time on topologies": "Sentinel: redisson_py",
            "recovery": "graceful failover: redisson_py",
        }
        start = starts.get(name, "redisson_py")
        if name in ("primitives", "contended", "wake-ups", "crowd, every kind"):
            start = "lock"
        assert any(row.startswith(start) for row in table["rows"])
        assert table["title"] in printed.decode()
    for ending in ("growth", "clients"):
        picture = report.with_name(f"report-{ending}.png")
        assert picture.exists() == (find_spec("matplotlib") is not None)
    assert len(said["goals"]) == 43
    assert said["goals"]["1 task against redis-py"]["found"]["median"] > 0
    across = ("hand-off across two processes", "fair hand-off across two processes")
    stood_still = any(
        cells["hand-offs/s"]["median"] == 0
        for cells in tables["hand-off across processes"]["rows"].values()
        if "hand-offs/s" in cells
    )
    for goal in (
        *across,
        *(f"{kind} against lock, worst column" for kind in ("write lock", "read lock")),
        *(f"{kind} against lock, worst column" for kind in ("semaphore", "fair lock")),
        *("1 task against bare stream, packed by hiredis", "import redisson_py"),
        *("100,000 held locks: processor", "100,000 held locks: longest stand of the loop"),
        *("cluster against one server, worst column", "recovery: graceful failover"),
    ):
        # In the hundredths of a second that it is measured here, a process may stand still.
        if goal not in across or not stood_still:
            assert said["goals"][goal]["verdict"] != "not measured", goal


@pytest.mark.parametrize(
    ("share", "expected"), [(0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)]
)
def test_a_percentile_is_the_value_of_nearest_rank(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected


def test_no_values_have_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)


def test_only_gaps_between_parties_count_as_hand_offs() -> None:
    # Begin, end, party: 0 twice, to 1 after 2 us, back to 0 after 4 us.
    found = summary([(0, 0, 0), (9_000, 9_000, 0), (11_000, 11_000, 1), (15_000, 15_000, 0)], 2)
    assert found == {"median": 2.0, "p99": 4.0, "hand_offs": 2, "evenness": 1 / 3}
    assert summary([(0, 0, 0), (9, 9, 0)], 2) is None


def test_of_the_hand_offs_those_to_one_party_are_told_apart() -> None:
    sections = [(0, 0, 0), (2_000, 2_000, 1), (7_000, 7_000, 0), (9_000, 9_000, 0)]
    to_the_first, to_the_second = (summary(sections, 2, taker) for taker in (0, 1))
    assert to_the_first is not None
    assert to_the_second is not None
    assert (to_the_first["median"], to_the_first["hand_offs"]) == (5.0, 1)
    assert (to_the_second["median"], to_the_second["hand_offs"]) == (2.0, 1)


async def test_redisson_without_java_is_a_side_that_cannot_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotError, match="needs java on the PATH"):
        await Redisson().open("redis://nowhere")


async def test_rueidislock_without_go_is_a_side_that_cannot_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotError, match="needs go on the PATH"):
        await Rueidislock().open("redis://nowhere")


async def test_redisson_is_warm_when_it_gets_no_faster() -> None:
    class Warming(Redisson):
        def __init__(self) -> None:
            self.rates = [1, 2, 4, 4, 4, 4, 4, 4]

        async def pairs(self, tasks: int, seconds: float, prefix: str) -> Pairs:
            return Pairs(done=self.rates[0], seconds=1.0, cpu=0.0)

        async def sections(self, **order: object) -> list[tuple[int, int, int]]:
            self.rates.pop(0)
            return []

    side = Warming()
    assert await side.warm_up(10.0)
    # Four in a row after the first 4.
    assert side.rates == [4]
    side = Warming()
    assert not await side.warm_up(0.0)
    assert side.rates == [1, 2, 4, 4, 4, 4, 4, 4]


def test_concurrent_visits_are_counted_and_exits_come_before_entries() -> None:
    assert at_once([]) == 0
    assert at_once([Visit(0, 1, 5, 0), Visit(0, 5, 9, 1)]) == 1
    assert at_once([Visit(0, 1, 6, 0), Visit(0, 5, 9, 1), Visit(0, 2, 3, 2)]) == 2


def test_evenness_is_one_for_all_alike_and_a_share_for_one_alone() -> None:
    alike = [Visit(0, 0, 0, party) for party in (0, 1, 2, 0, 1, 2)]
    assert evenness(alike, 3) == 1.0
    assert evenness([Visit(0, 0, 0, 0)] * 5, 4) == 0.25
    assert evenness([], 4) == 0.0


def test_places_are_lost_to_later_arrivals_that_enter_sooner() -> None:
    # In at 10, 11, ...; asked in another order. The one that asked at 12 came after others left.
    visits = [Visit(3, 10, 10, 0), Visit(1, 11, 11, 1), Visit(2, 12, 12, 2), Visit(12, 13, 13, 0)]
    assert places_lost(visits) == [0, 1, 1, 0]
    assert places_lost([Visit(1, 2, 2, 0), Visit(3, 4, 4, 0)]) == [0, 0]


def test_first_visits_are_left_out() -> None:
    visits = [Visit(0, 5, 5, "a"), Visit(0, 1, 1, "b"), Visit(0, 2, 2, "b"), Visit(0, 9, 9, "a")]
    assert [visit.begin for visit in later_visits(visits)] == [2, 9]


def test_a_wait_is_from_asking_to_being_in() -> None:
    visits = [Visit(0, wait * 1_000_000, 0, 0) for wait in range(1, 101)]
    assert (wait_ms(visits, 0.5), wait_ms(visits, 0.99)) == (50.0, 99.0)


def test_scenarios_and_sides_are_chosen_by_name_or_pattern() -> None:
    chosen = parse(["--only", "red,pai*", "--sides", "redis-py*"])
    assert chosen.only == ["pairs", "red"]
    assert chosen.sides == [OURS, OURS_UVLOOP, REDIS_PY, REDIS_PY_CLUSTER, REDIS_PY_64]


def test_a_pattern_without_a_match_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--only", "pairs,nothing*"])
    assert "no 'nothing*' among pairs; handoff;" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (["red"], {OURS: 1, OURS_UVLOOP: 1}),
        (["order"], {OURS: 4, OURS_UVLOOP: 4, REDIS_PY: 4}),
        (["semaphores"], {OURS: 2, OURS_UVLOOP: 2, PY_REDIS_SEMAPHORE: 2}),
        (["turns"], {OURS: 2, OURS_UVLOOP: 2, REDISSON: 2}),
        (["handoff"], {OURS: 1, OURS_UVLOOP: 1, REDIS_PY: 1, REDISSON: 1}),
    ],
)
def test_only_those_processes_start_that_the_scenarios_need(
    chosen: list[str], expected: dict[str, int]
) -> None:
    sides = [OURS, OURS_UVLOOP, REDIS_PY, REDISSON, PY_REDIS_SEMAPHORE]
    assert workers_needed(chosen, sides, SIZES["full"]) == expected


def test_the_order_of_sides_is_reversed_every_round() -> None:
    assert list(alternately("ab", 3)) == [
        *((0, "a"), (0, "b"), (1, "b"), (1, "a"), (2, "a"), (2, "b"))
    ]


def test_the_ratio_to_pottery_is_to_the_faster_of_its_two() -> None:
    table = Table("red lock", "title")
    for side, rate in ((OURS, 90.0), (POTTERY, 10.0), (POTTERY_THREADS, 30.0)):
        table.add(side, {"1 task": rate})
    found = {goal.name: goal for goal in goals({table.name: table})}
    goal = found["red lock on 5 servers, 1 task, against pottery"]
    assert goal.found is not None
    assert (goal.found.median, goal.verdict) == (3.0, "aim reached")
    assert goal.detail == "9.00 x pottery"


def test_tasks_are_compared_with_threads_and_with_redissons_other_ways() -> None:
    table = Table("pairs", "title")
    rates = {OURS: 90.0, REDISSON: 30.0, REDISSON_ASYNC: 45.0, REDISSON_ASYNC_8: 20.0}
    for side, rate in rates.items():
        table.add(side, {"64 tasks": rate})
    found = {goal.name: goal for goal in goals({table.name: table})}
    goal = found[f"64 tasks against {REDISSON}"]
    assert goal.found is not None
    assert (goal.found.median, goal.verdict) == (3.0, "MISSED")
    assert goal.detail == f"2.00 x {REDISSON_ASYNC}; 4.50 x {REDISSON_ASYNC_8}"
    assert found[f"1 task against {REDISSON}"].verdict == "not measured"


def test_a_primitive_is_judged_by_its_worst_column() -> None:
    table = Table("primitives", "title")
    table.add("read lock", {"1 task": 9.0, "1 task, x lock": 0.9, "64 tasks, x lock": 0.7})
    found = {goal.name: goal for goal in goals({table.name: table})}
    goal = found["read lock against lock, worst column"]
    assert goal.found is not None
    assert (goal.found.median, goal.verdict) == (0.7, "MISSED")
    assert goal.detail == "1 task: 0.90; 64 tasks: 0.70"


def test_what_held_locks_cost_says_how_many_there_were() -> None:
    table = Table("renewals", "title")
    figures = {"processor %": 9.0, "bytes a lock": 1024.0, "bytes a lock, a task each": 2048.0}
    table.add("redisson_py, 20 locks", figures)
    found = {goal.name: goal for goal in goals({table.name: table})}
    assert found["100,000 held locks: processor"].detail == "found with redisson_py, 20 locks"
    memory = found["100,000 held locks: memory of each"]
    assert memory.found is not None
    assert (memory.found.median, memory.verdict) == (1.0, "reached")
    assert memory.detail.endswith("acquired by a task each: 2.00 KiB")


def test_a_hand_off_across_processes_is_compared_with_the_bare_streams() -> None:
    table = Table("hand-off across processes", "title")
    table.add("bare stream, 2 x 1 task", {"median us": 100.0})
    table.add("redisson_py, 2 x 1 task", {"median us": 108.0})
    table.add("redisson_py, fair lock, 2 x 1 task", {"median us": 150.0})
    found = {goal.name: goal for goal in goals({table.name: table})}
    assert found["hand-off across two processes"].verdict == "reached"
    assert found["fair hand-off across two processes"].verdict == "MISSED"


def test_two_sections_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="two sections at once"):
        summary([(0, 10, 0), (9, 20, 1)], 2)


def test_a_side_without_a_turn_makes_turns_uneven() -> None:
    found = summary([(0, 0, 0), (1, 1, 1)], 3)
    assert found is not None
    assert found["evenness"] == 0


def test_ratios_are_those_of_rounds() -> None:
    ratio = Spread([10.0, 30.0, 20.0]).over(Spread([10.0, 10.0, 10.0]))
    assert (ratio.median, str(ratio)) == (2.0, "2.00 (1.00..3.00)")


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


def test_a_side_that_was_still_getting_faster_is_named_under_the_table() -> None:
    bench = Bench("redis://nowhere", None, SIZES["quick"], [REDISSON], cold={REDISSON})
    table = Table("name", "title")
    bench.sides(table, OURS)
    assert table.notes == []
    bench.sides(table, OURS, REDISSON)
    assert table.notes == [f"{REDISSON}: was still getting faster after 3 s of warming up."]


def test_an_absent_side_is_printed_with_its_reason() -> None:
    table = Table("name", "title", absent={"rival": "not installed"})
    table.add("ours", {"1 task": 1234.5})
    assert "rival: not installed" in table.lines()
    assert table.lines()[3].split() == ["ours", "1,234"]
