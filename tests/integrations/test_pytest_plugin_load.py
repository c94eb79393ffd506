"""The pytest plugin in suites that do not use it: it costs nothing, and says nothing."""

from __future__ import annotations

import pytest

from tests.integrations.suites import run

pytest_plugins = ["pytester"]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def test_loading_it_imports_one_module(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import sys
        from pathlib import Path

        def pytest_collection_finish(session):
            name = "with" if session.config.pluginmanager.hasplugin("redisson_py") else "without"
            Path(name).write_text("\\n".join(sorted(sys.modules)))
        """
    )
    pytester.makepyfile("def test_it(): pass")
    run(pytester, "--collect-only")
    run(pytester, "--collect-only", "-p", "no:redisson_py")
    modules = [set((pytester.path / name).read_text().splitlines()) for name in ("with", "without")]
    assert modules[0] - modules[1] == {"_redisson_py_pytest"}
    assert "redisson_py" not in modules[0]


def test_a_suite_that_does_not_use_it_sees_nothing_of_it(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(): pass")
    outputs = [run(pytester, *args) for args in ((), ("-p", "no:redisson_py"))]
    for result in outputs:
        result.assert_outcomes(passed=1)
        assert "redisson" not in "\n".join(
            line for line in result.outlines if not line.startswith("plugins:")
        )
    assert not outputs[0].errlines


def test_it_can_be_switched_off(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(redisson_url): pass")
    result = run(pytester, "-p", "no:redisson_py")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*fixture 'redisson_url' not found*"])


def test_the_fixtures_are_listed_with_what_they_are(pytester: pytest.Pytester) -> None:
    result = run(pytester, "--fixtures")
    result.stdout.fnmatch_lines_random(
        [f"redisson_{name} -- *" for name in ("url", "client", "proxy", "cluster", "sentinel")]
    )
