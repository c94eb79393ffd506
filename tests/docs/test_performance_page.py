"""docs/performance.md and its charts are what benchmarks/page.py makes of the committed results."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

from benchmarks import page
from tests.support import repository


def results() -> dict[str, object]:
    found: dict[str, object] = json.loads((repository.ROOT / page.RESULTS).read_text("utf-8"))
    return found


def test_committed_files_are_what_the_results_say() -> None:
    old = [
        str(path)
        for path, text in page.outputs(results()).items()
        if not (repository.ROOT / path).exists()
        or (repository.ROOT / path).read_text("utf-8") != text
    ]
    assert old == [], "run: python -m benchmarks.page"


def test_page_names_machine_and_commit() -> None:
    found = results()
    text = (repository.ROOT / page.PAGE).read_text("utf-8")
    for part, name in (("versions", "commit"), ("versions", "server"), ("machine", "processor")):
        value = found[part][name]  # type: ignore[index]
        assert value in text


def test_charts_are_drawings_with_a_bar_for_each_row() -> None:
    for chart in page.CHARTS:
        root = ET.fromstring(
            (repository.ROOT / page.IMAGES / f"{chart.name}.svg").read_text("utf-8")
        )
        bars = [each for each in root.iter() if each.tag.endswith("rect")]
        assert len(bars) == len(chart.rows)
        lengths = [int(each.attrib["width"]) for each in bars]
        assert max(lengths) > min(lengths)
