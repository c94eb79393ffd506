"""The figures that are published of each nemesis: hand-offs, own looks, the window of W1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.jepsen.checkers.referee import overlaps
from tests.jepsen.checkers.verdict import Facts
from tests.jepsen.checkers.written import acquire, op, release
from tests.jepsen.history import History, Op
from tests.jepsen.made import result
from tests.jepsen.plan import Plan
from tests.jepsen.report import costs, text
from tests.jepsen.report.handing import LONGEST_POLL, HandOffs, handing
from tests.jepsen.report.page import page
from tests.jepsen.totals import Totals

MS = 1_000_000
HELD = (acquire("a", 0, 1 * MS), release("a", 10 * MS, 12 * MS))


def handed(*ops: Op, **facts: Any) -> HandOffs:
    """Return what became of the contended releases of a history."""
    return handing(History(list(ops)), Facts(**facts))


def test_a_hand_off_is_a_release_with_waiters_and_the_next_grant() -> None:
    waited = (acquire("b", 5 * MS, 14 * MS), release("b", 20 * MS, 21 * MS))
    nobody = (acquire("c", 25 * MS, 26 * MS), release("c", 30 * MS, None))
    # What it waited for nobody knows.
    unknown = acquire("d", 28 * MS, 50 * MS)
    assert handed(*HELD, *waited, *nobody, unknown).taken == (4.0,)


def test_the_slowest_hand_off_counts_whoever_was_granted_it() -> None:
    # Others pass by, and the grant of the next holder is that of somebody who came later.
    slow = (acquire("b", 5 * MS, 7000 * MS), acquire("c", 6000 * MS, 6001 * MS))
    assert handed(*HELD, *slow).taken == (5991.0,)


def test_a_release_that_nobody_takes_is_published_apart() -> None:
    found = handed(*HELD, acquire("b", 5 * MS, 5005 * MS, out="fail"))
    assert found.taken == ()
    assert found.unserved == (4995.0,)


def test_several_releases_before_a_grant_are_one_hand_off() -> None:
    readers = [acquire(name, 0, 1 * MS, value="read") for name in "ab"]
    gone = [release("a", 10 * MS, 11 * MS), release("b", 20 * MS, 21 * MS)]
    writer = acquire("w", 5 * MS, 23 * MS, value="write")
    assert handed(*readers, *gone, writer).taken == (3.0,)


def slept(rid: str, busy: tuple[int, int], end: int, answer: int) -> Op:
    """Return a sleep that a timer ended, with times in milliseconds."""
    value = [busy[1] * MS, end * MS]
    return op("overslept", busy[0] * MS, answer * MS, rid, value=value, n=0)


WAITER = acquire("b", 5 * MS, 1007 * MS)


def test_a_waiter_that_found_the_lock_by_its_own_look_is_counted() -> None:
    found = handed(*HELD, WAITER, slept("b", (5, 6), 1005, 1007))
    assert (found.followed, found.own_looks) == (1, (997.0,))


@pytest.mark.parametrize(
    "sleep",
    [
        # The sleep was over before the release.
        slept("b", (5, 6), 8, 9),
        # It was the sleep of somebody else.
        slept("c", (5, 6), 1005, 1007),
    ],
)
def test_a_waiter_that_a_message_woke_is_not_counted(sleep: Op) -> None:
    found = handed(*HELD, WAITER, sleep)
    assert (found.followed, found.own_looks) == (1, ())


def test_who_cannot_be_followed_is_in_no_share() -> None:
    sleep = slept("b", (5, 6), 1005, 1007)
    older = op("began", 0, 0, "b", value={"older": True})
    assert handed(*HELD, WAITER, sleep, older).followed == 0
    assert handed(*HELD, WAITER, sleep, limits={"x": 2}).followed == 0
    passed = acquire("b", 5 * MS, 1007 * MS, owner="a")
    assert handed(*HELD, passed, sleep).followed == 0
    assert handing(History([*HELD, WAITER, sleep]), Facts(), watched=False).followed == 0


def section(rid: str, asked: int, begun: int, wrote: int | None, **facts: Any) -> list[Op]:
    """Return the steps of a section, as the resource saw them, in milliseconds."""
    words = [("ask", asked), ("begin", begun), *([] if wrote is None else [("write", wrote)])]
    return [
        op(word, moment * MS, moment * MS, rid, process="resource", fence=0,
           **{"owner": rid, "value": 1 if word == "write" else None, **facts})
        for word, moment in words
    ]  # fmt: skip


OLD = section("old", 0, 10, 90)


def test_a_window_is_from_the_newer_beginning_to_the_older_write() -> None:
    newer = section("new", 20, 40, 60)
    assert overlaps(History([*OLD, *newer])) == [50.0]
    # The first of the newer ones counts.
    assert overlaps(History([*OLD, *newer, *section("next", 61, 70, None)])) == [50.0]


def test_no_window_without_a_write_of_an_older_one() -> None:
    assert overlaps(History([*section("old", 0, 10, None), *section("new", 20, 40, 60)])) == []
    # Asked for before the old one had begun: nobody knows which is newer.
    assert overlaps(History([*OLD, *section("beside", 5, 40, 60)])) == []
    # It was passed on, and first asked for then.
    passed = [*section("first", 5, 20, None), *section("second", 25, 40, 60, owner="first")]
    assert overlaps(History([*OLD, *passed])) == []
    # The resource refuses that where it checks tokens.
    fenced = [*section("a", 0, 10, 90, obj="fenced-1"), *section("b", 20, 40, 60, obj="fenced-1")]
    assert overlaps(History(fenced)) == []


def plan(*nemeses: str, workload: str = "mutex") -> Plan:
    """Return a plan of nemeses."""
    return Plan(workload, nemeses, "single", 5, 7)


def published() -> Totals:
    """Return the sums of runs with and without windows."""
    slow = HandOffs((1.0, LONGEST_POLL + 1), (3.0,), 2, (LONGEST_POLL + 1,))
    return Totals.of([
        result(plan("kill"), overlaps=[2.0, 5.0], handoffs=slow),
        result(plan("kill"), overlaps=[3.0]),
        result(plan("pause"), overlaps=[]),
        result(plan("kill", "pause"), overlaps=[9.0]),
        result(plan("kill", "pause"), overlaps=[], idle=["kill"]),
        result(plan("pause", workload="fair"), overlaps=[1.0]),
        result(plan()),
    ])  # fmt: skip


def test_the_window_is_summed_by_nemesis_alone_and_with_others() -> None:
    rows = published().window
    assert rows["kill"] == {"runs": 2, "windows": 3, "longest ms": 5.0, "ms in all": 10.0}
    assert rows["pause"] == {"runs": 2, "windows": 0, "longest ms": 0.0, "ms in all": 0.0}
    assert rows["kill + others"] == rows["pause + others"]
    assert rows["kill + others"]["longest ms"] == 9.0
    assert rows["none"]["windows"] == 0


def test_hand_offs_are_summed_by_nemesis() -> None:
    row = published().wakes["kill"]
    assert (row["hand-offs"], row["slower than the poll"], row["unserved"]) == (6, 1, 1)
    assert (row["own looks"], row["of so many"]) == (1, 6)
    assert row["slowest ms"] == row["slowest own look ms"] == LONGEST_POLL + 1
    assert published().slowest_handoff["kill"] == LONGEST_POLL + 1


def test_what_is_published_goes_on_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "totals.json"
    published().save(path)
    totals = Totals.load(path)
    totals.add(result(plan("kill"), overlaps=[7.0]))
    assert totals.window["kill"]["longest ms"] == 7.0
    assert totals.window["kill"]["windows"] == 4
    # A file of before has none of it.
    left = json.loads(path.read_text("utf-8"))
    del left["window"], left["wakes"]
    path.write_text(json.dumps(left), "utf-8")
    assert Totals.load(path).window == {}


def test_the_report_has_the_tables() -> None:
    results = [result(plan("kill"), overlaps=[2.0, 5.0]), result(plan("pause"))]
    said, html = text.published(results), page(results)
    for table in (costs.WINDOW, costs.WAKES):
        assert table.title in said
        assert table.title in html
    row = next(line for line in said.splitlines() if line.startswith("kill"))
    assert row.split() == ["kill", "1", "2", "5.00", "7.00"]
    assert "<td>kill</td>" in html
    assert text.published([]) == ""
