"""The path of a newcomer: an empty directory, the wheel, and nothing but what the pages say.

Each step takes its code and its commands from README.md and docs/, so a page that is wrong fails
here. The first installs; the others need only that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import redis as redis_py

from redisson_py.testing import EmbeddedServer
from tests.docs.newcomer import Newcomer, Newcomers, block, named_files

README, DOCTOR = "README.md", "docs/doctor.md"
COMMANDS = "docs/command-line.md"
TESTING, TELEMETRY = "docs/testing.md", "docs/telemetry.md"


@pytest.fixture(scope="module")
def newcomer(newcomers: Newcomers, server: EmbeddedServer) -> Newcomer:
    """Somebody who has typed the first command of the README, with a wheel from this checkout."""
    # Whatever the fence says: this is the first line of all.
    rows = block(README, "sh", containing="pip install").splitlines()
    first = next(row for row in rows if row.startswith("pip install"))
    return newcomers.with_row(first, server.url)


@pytest.fixture
def plain(server: EmbeddedServer) -> Iterator[redis_py.Redis]:
    """To look at what is left in the server."""
    with redis_py.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


def test_package_comes_from_the_wheel(newcomer: Newcomer) -> None:
    command = "python -c 'import redisson_py; print(redisson_py.__file__)'"
    printed = newcomer.type_all(command)
    assert printed.startswith(str(newcomer.environment))


def test_first_example_runs_as_it_is_written(newcomer: Newcomer, plain: redis_py.Redis) -> None:
    code = named_files(README)["first.py"]
    assert "redis://localhost" in code
    newcomer.write("first.py", code)
    newcomer.type_all("python -W error first.py")
    # The permit is back, and nothing is held.
    assert plain.get("s") == "5"
    assert sorted(plain.scan_iter("orders:17")) == sorted(plain.scan_iter("k")) == []


def test_service_and_its_tests_run_without_a_conftest(newcomer: Newcomer) -> None:
    pages = named_files(TESTING)
    assert {"orders.py", "test_orders.py", "test_loss.py"} <= pages.keys()
    newcomer.type_all(block(TESTING, None, containing="pip install"))
    for name, code in pages.items():
        newcomer.write(name, code)
    names = sorted(name for name in pages if name.startswith("test_"))
    printed = newcomer.type_all(f"python -m pytest -q -p no:cacheprovider {' '.join(names)}")
    assert re.search(r"^\d+ passed", printed, re.MULTILINE), printed
    assert not (newcomer.home / "conftest.py").exists()


def test_traces_and_metrics_are_printed(newcomer: Newcomer) -> None:
    newcomer.type_all(block(TELEMETRY, "sh"))
    newcomer.write("traced.py", block(TELEMETRY))
    printed = newcomer.type_all("python traced.py")
    assert '"span_id"' in printed
    assert '"resource_metrics"' in printed


def test_live_view_shows_what_the_command_line_holds(newcomer: Newcomer) -> None:
    install, *rows = block(COMMANDS, "sh").splitlines()
    newcomer.type_all(install)
    assert "redisson-py, version" in newcomer.type_all("redisson-py --version")
    # What the page has the lock held for looks at it.
    newcomer.write("report.sh", "#!/bin/sh\nredisson-py top --once\n")
    newcomer.type_all("chmod +x report.sh")
    done = newcomer.type("\n".join(rows))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("PONG")
    assert re.search(r"^nightly-report +lock +held ", done.stdout, re.MULTILINE), done.stdout


def test_doctor_finds_nothing_wrong(newcomer: Newcomer) -> None:
    printed = newcomer.type_all(block(DOCTOR, "sh"))
    assert "lock          acquired, extended, handed over and released" in printed
    assert "problem" not in printed
    assert "warning" not in printed


def test_doctor_looks_as_its_page_says(newcomer: Newcomer, plain: redis_py.Redis) -> None:
    shown = block(DOCTOR, "text")
    plain.config_set("maxmemory", "100mb")
    plain.config_set("maxmemory-policy", "allkeys-lru")
    plain.config_set("appendonly", "no")
    done = newcomer.type("redisson-py doctor --url redis://localhost:6379/0")
    assert done.returncode == 1
    fault = [row for row in shown.splitlines() if row.startswith(("problem", "warning"))]
    assert len(fault) == 2
    assert [row for row in fault if row not in done.stdout.splitlines()] == []
    # What the page says to do about each, typed as it is.
    arrow = "-> "
    for row in done.stdout.splitlines():
        if row.strip().startswith(arrow):
            words = row.strip().removeprefix(arrow).split()
            plain.execute_command(*words)  # type: ignore[no-untyped-call]  # redis-py's
    assert "problem" not in newcomer.type_all("redisson-py doctor --url redis://localhost:6379/0")
