"""Every block of docs/testing.md is a file, and runs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.integrations.suites import PATIENCE, STRICT, run
from tests.support import repository

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.timeout(500)]

_BLOCK = re.compile(r"^```python\n# (\w+\.py)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture
def written(pytester: pytest.Pytester) -> list[str]:
    """The files of the page, in the directory of the suite."""
    page = (repository.ROOT / "docs" / "testing.md").read_text()
    blocks = _BLOCK.findall(page)
    assert len(blocks) == page.count("```python")
    for name, text in blocks:
        (pytester.path / name).write_text(text)
    return [name for name, _ in blocks]


def test_the_suite_of_the_page_passes(pytester: pytest.Pytester, written: list[str]) -> None:
    assert written[0] == "orders.py"
    run(pytester, ini=STRICT).assert_outcomes(passed=5)


def test_the_program_of_the_page_runs(pytester: pytest.Pytester, written: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "servers.py"],
        cwd=pytester.path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert done.stdout.splitlines() == ["held, slowly", "held"]
