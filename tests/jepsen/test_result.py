"""What is left of a run, and the sums over runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jepsen.checkers.verdict import EXCUSED, Verdict
from tests.jepsen.made import PLAN, TWO_HOLDERS, result
from tests.jepsen.plan import Plan, is_kept
from tests.jepsen.report.handing import HandOffs
from tests.jepsen.result import Result as Made
from tests.jepsen.result import Ruling, State
from tests.jepsen.totals import Totals


def test_a_plan_is_what_was_saved(tmp_path: Path) -> None:
    folder = tmp_path / PLAN.title
    assert not is_kept(folder)
    PLAN.save(folder)
    assert is_kept(folder)
    assert Plan.load(folder) == PLAN


def test_the_command_of_a_plan_names_all_of_it() -> None:
    words = PLAN.command.partition('ARGS="')[2].rstrip('"').split()
    said = dict(zip(words[::2], words[1::2], strict=True))
    assert said == {
        "--workload": "mutex", "--nemesis": "kill,pause", "--topology": "single",
        "--seconds": "5", "--seed": "7",
    }  # fmt: skip


def test_the_facts_of_a_plan_have_what_its_nemeses_break() -> None:
    assert PLAN.facts.broken == frozenset()
    assert Plan("mutex", ("kill", "flushall"), "single", 5, 7).facts.broken == {"data", "keys"}


def test_a_result_is_what_was_saved(tmp_path: Path) -> None:
    made = result(rulings={"mutual exclusion": TWO_HOLDERS}, folder=str(tmp_path))
    made.save(tmp_path)
    assert Made.load(tmp_path) == made


@pytest.mark.parametrize(
    ("ruling", "state", "ok"),
    [
        (Ruling(5, 0), "ok", True),
        (Ruling(0, 0), "nothing", False),
        (Ruling(5, 2), "BROKEN", False),
        (Ruling(0, 2), "BROKEN", False),
        (Ruling(5, 2, excused=True), "figure", True),
    ],
)
def test_states_of_a_ruling(ruling: Ruling, state: State, ok: bool) -> None:
    assert ruling.state == state
    made = result(rulings={"a": ruling})
    assert made.ok is ok
    assert made.broken == (["a"] if state == "BROKEN" else [])


def test_a_run_with_trouble_is_not_well() -> None:
    assert result().ok
    assert not result(trouble=["w0 did not end"]).ok


def test_what_a_checker_excuses_is_a_figure_and_counted() -> None:
    ruling = Ruling.of(Verdict([], 9, {EXCUSED: {"two holders": 4, "three": 1}}))
    assert (ruling.state, ruling.found) == ("figure", 5)


def test_totals_add_up_and_go_on_from_their_file(tmp_path: Path) -> None:
    path = tmp_path / "totals" / "totals.json"
    totals = Totals.load(path)
    totals.add(result())
    totals.save(path)
    totals = Totals.load(path)
    totals.add(result(rulings={"mutual exclusion": TWO_HOLDERS}))
    excused = Ruling(10, 3, (), {"longest": "2 ms"}, excused=True)
    other = Plan("mutex", ("flushall",), "single", 5, 8)
    totals.add(result(other, rulings={"mutual exclusion": excused}, handoffs=HandOffs()))
    totals.save(path)
    totals = Totals.load(path)
    assert (totals.runs, totals.operations, totals.handoffs) == (3, 3000, 8)
    assert totals.looked_at == {"mutual exclusion": 142}
    assert totals.broken == {"mutual exclusion": 5}
    assert totals.figures == {"mutual exclusion": 3}
    assert totals.failed == [PLAN.command]
    assert totals.runs_under == {"kill": 2, "pause": 2, "flushall": 1}
    assert totals.tally["strikes: kill worker"] == 6
    assert totals.slowest_handoff == {"kill,pause": 400.0}
    window = totals.windows["mutex under flushall: mutual exclusion"]
    assert window == {"violations": 3, "longest": "2 ms"}
