"""The pytest plugin in suites that do not use it: it costs nothing, and says nothing."""

from __future__ import annotations

import pytest

from tests.integrations.suites import run

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.timeout(500)]


def test_a_suite_that_does_not_use_it_imports_and_sees_nothing_of_it(
    pytester: pytest.Pytester,
) -> None:
    pytester.makeconftest(
        """
        import sys
        from pathlib import Path

        def pytest_collection_finish(session):
            name = "with" if session.config.pluginmanager.hasplugin("redisson_py") else "without"
            Path(name).write_text("\\n".join(sorted(sys.modules)))
        """
    )
    pytester.makepyfile(
        test_plain="def test_it(): pass", test_user="def test_it(redisson_url): pass"
    )
    result = run(pytester, "test_plain.py")
    result.assert_outcomes(passed=1)
    assert "redisson" not in "\n".join(
        line for line in result.outlines if not line.startswith("plugins:")
    )
    assert not result.errlines
    off = run(pytester, "-p", "no:redisson_py")
    off.assert_outcomes(passed=1, errors=1)
    off.stdout.fnmatch_lines(["*fixture 'redisson_url' not found*"])
    modules = [set((pytester.path / name).read_text().splitlines()) for name in ("with", "without")]
    assert modules[0] - modules[1] == {"_redisson_py_pytest"}
    assert "redisson_py" not in modules[0]


def test_the_fixtures_are_listed_with_what_they_are(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--fixtures")
    result.stdout.fnmatch_lines_random(
        [f"redisson_{name} -- *" for name in ("url", "client", "proxy", "cluster", "sentinel")]
    )
