"""`redisson-py completion`, and what bash makes of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from redisson_py._cli.main import cli
from tests.fixtures.redis_server import unavailable
from tests.support.command_line import invoke

SHELLS = ["bash", "zsh", "fish"]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_asks_the_program_itself(shell: str) -> None:
    result = invoke("completion", shell)
    assert result.exit_code == 0
    assert f"_REDISSON_PY_COMPLETE={shell}_complete" in result.stdout


def test_the_command_of_a_run_is_completed_as_a_file() -> None:
    complete = BashComplete(cli, {}, "redisson-py", "_REDISSON_PY_COMPLETE")
    (item,) = complete.get_completions(["run", "k", "--"], "scri")
    assert (item.value, item.type) == ("scri", "file")


def test_other_shells_are_refused() -> None:
    assert invoke("completion", "csh").exit_code == 2


@pytest.fixture
def bash(tmp_path: Path) -> str:
    """A bash that finds `redisson-py` on its PATH."""
    found = shutil.which("bash")
    if found is None:
        unavailable("there is no bash")
    program = tmp_path / "redisson-py"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m redisson_py "$@"\n')
    program.chmod(0o755)
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["redisson-py", "ru"], {"run"}),
        (["redisson-py", "run", "k", "--busy"], {"--busy-exit"}),
        (["redisson-py", "completion", ""], {*SHELLS}),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else None,
)
def test_bash_completes(bash: str, tmp_path: Path, words: list[str], expected: set[str]) -> None:
    script = (
        'eval "$(redisson-py completion bash)"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))\n'
        '_redisson_py_completion redisson-py; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        [bash, "--norc", "-c", script, "bash", *words],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {*done.stdout.split()} == expected, done.stderr
