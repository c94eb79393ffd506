"""Every make command that a page or `make help` names runs what it says: seen by `make -n`."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import repository

MAKEFILE = repository.ROOT / "Makefile"
PAGES = [
    *repository.ROOT.glob("*.md"),
    *repository.of_kind(".md", "docs", "tests", "benchmarks", "lua"),
]
#: They tell of the past.
_HISTORY = {"CHANGELOG.md", "docs/track-record.md"}

#: What the commands that a stranger types first would run, and no more.
RUNS = {
    "make demo": ["python -m examples.demo"],
    "make demo CLUSTER=1": ["python -m examples.demo --cluster"],
    "make demo TOUR=1": ["python -m examples.tour"],
    "make demo ARGS=--help": ["python -m examples.demo --help"],
    "make demo TOUR=1 ARGS=--help": ["python -m examples.tour --help"],
    "make unit": ["python -m pytest -q tests/unit tests/house"],
    "make test-demos": [
        "make demo",
        "make demo CLUSTER=1",
        "make demo TOUR=1",
    ],
    "make test-stalled ARGS='--seed 7'": ["python -m tests.stalled --seed 7 make test"],
    "make jepsen ARGS=--list": ["python -m tests.jepsen --list"],
    "make interop REDISSON=3.27.2": ["python -m tests.legs interop --redisson=3.27.2"],
}

#: They need not be looked for.
_PYTHONS = ("PYTHON=python3", "NEWEST=python3")
_INLINE = re.compile(r"`(make(?: [^`\n]+)?)`")
_FENCED = re.compile(r"^ *(make [^#\n]+)", re.MULTILINE)
_SWITCH = re.compile(r'\b[A-Z]+=(?:"[^"]*"|[^\s,;:()]+)')


def make(*words: str) -> str:
    """Return what make prints, as if no other make had started it: that would pass switches on."""
    done = subprocess.run(
        ["make", "--no-print-directory", *words],
        cwd=repository.ROOT,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def named() -> Iterator[tuple[str, str]]:
    """Give each command that is named, and where."""
    for page in PAGES:
        name, text = repository.name(page), page.read_text("utf-8")
        if name in _HISTORY:
            continue
        fences = re.findall(r"^```sh\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        for code in [*fences, *re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)]:
            yield from ((found.strip(), name) for found in _FENCED.findall(code))
        yield from ((found, name) for found in _INLINE.findall(text) if " " in found)
    for row in make("help").splitlines():
        target, about = row.split(maxsplit=1)
        yield f"make {target}", "make help"
        yield from ((f"make {target} {switch}", "make help") for switch in _SWITCH.findall(about))


COMMANDS = dict(named())


@functools.cache
def runs(command: str, environment: Path) -> list[str]:
    """Return what a command would run in an environment that has everything, line by line."""
    for stamp in (".runtime", ".checks"):
        (environment / stamp).touch()
    bench = environment.with_name(f"{environment.name}-bench")
    bench.mkdir(exist_ok=True)
    (bench / ".bench").touch()
    _, *words = shlex.split(command)
    printed = make("-n", f"VENV={environment}", *_PYTHONS, *words)
    text = re.sub(rf"{environment}(?:-\w+)?/bin/", "", printed)
    text = text.replace("\\\n", " ").replace("make --no-print-directory ", "make ")
    rows = (re.sub(r"\s+", " ", row).strip() for row in text.splitlines())
    return [row for row in rows if row and not row.startswith(("#", "echo "))]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that make takes for an environment with everything installed."""
    return tmp_path_factory.mktemp("environment")


@pytest.mark.parametrize("command", RUNS)
def test_it_runs_this(command: str, environment: Path) -> None:
    assert runs(command, environment) == RUNS[command]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_named_runs_something(command: str, environment: Path) -> None:
    """Each switch has its effect: it is read by what runs, and changes it."""
    rows = runs(command, environment)
    assert rows, f"{COMMANDS[command]} names {command}"
    words = shlex.split(command)
    if switches := [word for word in words if "=" in word]:
        plain = shlex.join(word for word in words if word not in switches)
        assert rows != runs(plain, environment), f"{COMMANDS[command]}: no effect: {switches}"
    for module in re.findall(r"python -m ((?:tests|examples|benchmarks)[\w.]*)", "\n".join(rows)):
        path = repository.ROOT / module.replace(".", "/")
        assert path.with_suffix(".py").exists() or (path / "__main__.py").exists(), module
    of_pytest = "\n".join(row for row in rows if " pytest " in row)
    for path_of_tests in re.findall(r"(?<![\w=])tests/[\w/.]+", of_pytest):
        assert (repository.ROOT / path_of_tests).exists(), path_of_tests


@pytest.mark.parametrize(
    ("pythons", "taken"),
    [
        ({"python3": 0}, "python3"),
        ({"python3": 1, "python3.12": 0}, "python3.12"),
        # Then it is said what is needed.
        ({"python3": 1}, "false"),
        ({}, "false"),
    ],
)
def test_the_first_python_that_is_new_enough_makes_the_environment(
    pythons: dict[str, int], taken: str, tmp_path: Path
) -> None:
    """Each name is a program that says whether it is too old; others are not on the PATH."""
    for name, too_old in pythons.items():
        program = tmp_path / name
        program.write_text(f"#!/bin/sh\nexit {too_old}\n")
        program.chmod(0o755)
    for tool in ("make", "sh"):
        (tmp_path / tool).symlink_to(shutil.which(tool) or tool)
    done = subprocess.run(
        ["make", "-n", f"VENV={tmp_path}/none", "demo"],
        cwd=repository.ROOT,
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith(f"{taken} -c "), done.stdout


def test_ci_calls_the_test_command_of_the_readme() -> None:
    script = (repository.ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^make .*$", script, re.MULTILINE) == ["make test", "make test-more"]
