"""What is shown: the table, the failures, the page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.jepsen.history import History
from tests.jepsen.made import MS, OVERLAP, PLAN, TWO_HOLDERS, op, result
from tests.jepsen.report import series, text
from tests.jepsen.report.drawing import inside, steps, tens
from tests.jepsen.report.handing import HandOffs
from tests.jepsen.report.page import page
from tests.jepsen.report.timeline import timeline
from tests.jepsen.result import Ruling, Span

BROKEN = result(rulings={"mutual exclusion": TWO_HOLDERS, "fencing": Ruling(0, 0)})


def pictures(html: str) -> list[ElementTree.Element]:
    """Return the pictures of a page; each must be XML."""
    return [ElementTree.fromstring(each) for each in re.findall(r"<svg.*?</svg>", html, re.DOTALL)]


def drawn(picture: ElementTree.Element, look: str) -> list[ElementTree.Element]:
    """Return the parts of a picture that have a look."""
    return [part for part in picture.iter() if look in part.get("class", "").split()]


def test_a_row_tells_what_every_checker_said() -> None:
    row = text.row(BROKEN)
    assert row.split()[:5] == ["mutex", "kill,pause", "single", "1,000", "4"]
    assert "BROKEN: mutual exclusion 5; nothing: fencing" in row


def test_a_failure_tells_the_operations_and_the_command() -> None:
    said = text.failure(BROKEN)
    assert PLAN.command in said
    assert "two holders <of> plain-1 at once" in said
    assert re.search(r"40\.000 \.\. +… ms  w0 +w0\.0 +release plain-1 info .*ConnectionError", said)


def test_who_had_nothing_to_look_at_is_named() -> None:
    assert text.silent([BROKEN, BROKEN]) == ["fencing"]
    assert text.silent([BROKEN, result(rulings={"fencing": Ruling(3, 0)})]) == []


def test_the_page_needs_nothing_but_itself() -> None:
    html = page([result(), BROKEN])
    assert not re.search(r"<script|<link|<img|src=|url\(|https?:|@import", html)
    assert "two holders &lt;of&gt; plain-1 at once" in html
    assert html.count(f"{PLAN.seconds:g} --seed {PLAN.seed}") >= 2
    assert 'href="#run-1"' in html
    assert 'id="run-1"' in html


def test_every_picture_is_drawn_within_its_frame() -> None:
    found = pictures(page([result(), BROKEN]))
    assert len(found) == 7  # speed, latency and hand-offs of two runs, and a counterexample
    for picture in found:
        *_, width, height = map(float, picture.get("viewBox", "").split())
        for part in picture.iter():
            for name, most in {"x": width, "y": height, "x1": width, "y2": height}.items():
                assert 0 <= float(part.get(name, 0)) <= most
            points = re.findall(r"[ML]([\d.-]+) ([\d.-]+)", part.get("d", ""))
            assert all(0 <= float(x) <= width and 0 <= float(y) <= height for x, y in points)


def test_a_line_is_interrupted_where_nothing_was_granted() -> None:
    picture = pictures(page([result()]))[1]
    (median,) = drawn(picture, "first")
    assert median.get("d", "").count("M") == 2


def test_a_run_without_hand_offs_or_operations_is_shown_too() -> None:
    nothing = result(
        operations=0, handoffs=HandOffs(), bins=[], spans=[], rulings={}, trouble=["failed"]
    )
    assert "There were none." in page([nothing])


def test_the_timeline_marks_what_was_held_twice() -> None:
    strikes = [Span("pause", "w0", 0.012, 0.03), Span("pause", "w1", 5, 6)]
    picture = ElementTree.fromstring(timeline(OVERLAP, strikes, 0))
    (overlap,) = drawn(picture, "overlap")
    bars = {each.get("class"): each for each in picture.iter() if each.tag == "rect"}
    assert len(drawn(picture, "strike")) == 1
    assert len(drawn(picture, "lane")) == 2
    assert "op info" in bars
    held = [float(each.get("x", 0)) for each in drawn(picture, "held")]
    assert float(overlap.get("x", 0)) == max(held)  # from the second grant on


def test_bins_count_what_ended_in_them() -> None:
    ops = [
        op("acquire", "a", 0, 10),
        op("check", "a", 20, 600),
        op("acquire", "b", 1, None, "info"),
    ]
    found = series.bins(History(ops))
    assert len(found) == series.BINS
    assert sum(each.ended for each in found) * 0.6 / series.BINS == pytest.approx(2)
    assert found[1].median == 10
    assert series.bins(History([])) == []


def test_strikes_and_what_they_counted_are_in_the_tally() -> None:
    strike = op("nemesis", "swallow", 0, 5, "info", n=3)
    history = History([strike, strike, op("acquire", "a", 0, None, "info")])
    assert series.tally(history) == {
        "strikes: swallow": 2, "times: swallow": 6, "acquire info": 1
    }  # fmt: skip
    assert series.spans(history)[0].end * 1e9 == 5 * MS


@pytest.mark.parametrize("most", [0.003, 1, 7, 99, 1234, 5e6])
def test_axes_reach_what_is_drawn(most: float) -> None:
    assert steps(most)[-1] >= most * 0.999
    assert 2 <= len(steps(most)) <= 7
    assert inside(most)[-1] == pytest.approx(most, rel=0.01)
    assert tens(most / 3, most)[-1] >= most
