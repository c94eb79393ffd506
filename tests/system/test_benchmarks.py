"""The benchmarks run, and say all they should; their figures are nobody's promise here."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from benchmarks.harness import Goal, Spread, Table, percentile
from benchmarks.scenarios.handoff import summary
from tests.house import files


async def test_a_tiny_run_writes_machine_versions_every_scenario_and_every_goal(
    tmp_path: Path,
) -> None:
    report = tmp_path / "report.json"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.run", "--size", "tiny", "--loop", "asyncio"),
        *("--sides", "redis-py,bare stream,pottery", "--json", str(report)),
        cwd=files.ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(50):
        printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()
    said = json.loads(report.read_text("utf-8"))
    assert said["machine"]["processors"] > 0
    assert said["versions"]["redis"]
    tables = said["tables"]
    assert set(tables) == {
        *("pairs", "pairs of 2 processes", "hand-off in one process"),
        *("hand-off across processes", "waiting", "renewals", "loss"),
    }
    for side in ("redisson_py", "redis-py", "bare stream"):
        assert tables["pairs"]["rows"][side]["8 tasks"]["median"] > 0
    # Installed or not: it is named.
    assert "pottery" in tables["pairs"]["rows"] | tables["pairs"]["absent"]
    assert any(
        "redis-benchmark" in row for row in tables["pairs"]["rows"] | tables["pairs"]["absent"]
    )
    for name, table in tables.items():
        assert any(row.startswith("redisson_py") for row in table["rows"]), name
        assert table["title"] in printed.decode()
    assert len(said["goals"]) == 7
    assert said["goals"]["1 task against redis-py"]["found"]["median"] > 0
    assert said["goals"]["hand-off across two processes"]["verdict"] != "not measured"


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


def test_two_sections_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="two sections at once"):
        summary([(0, 10, 0), (9, 20, 1)], 2)


def test_who_had_no_turn_makes_turns_uneven() -> None:
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


def test_an_absent_side_is_printed_with_its_reason() -> None:
    table = Table("name", "title", absent={"rival": "not installed"})
    table.add("ours", {"1 task": 1234.5})
    assert "rival: not installed" in table.lines()
    assert table.lines()[3].split() == ["ours", "1,234"]
