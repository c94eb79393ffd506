"""docs/performance.md and its charts are what benchmarks/page.py makes of the committed results."""

from __future__ import annotations

from benchmarks import page, page_crowd
from benchmarks.markdown import results
from tests.support import repository


def test_committed_files_are_what_the_results_say() -> None:
    old = [
        str(path)
        for path, text in page.outputs().items()
        if not (repository.ROOT / path).exists()
        or (repository.ROOT / path).read_text("utf-8") != text
    ]
    assert old == [], "run: python -m benchmarks.page"


def test_page_names_machine_commit_and_date_of_every_run() -> None:
    text = (repository.ROOT / page.PAGE).read_text("utf-8")
    runs = [page.RESULTS, page_crowd.BEFORE, page_crowd.CROWD]
    for path in [each for each in runs if (repository.ROOT / each).exists()]:
        found = results(path)
        for part, name in (
            *(("versions", "commit"), ("versions", "server"), ("versions", "python")),
            ("machine", "processor"),
        ):
            assert found[part][name] in text
        assert path == page.RESULTS or found["date"] in text
