"""What is mistyped, what `--help` says of each option, and what bash completes."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import BashComplete

from redisson_py._cli.main import _COMMANDS, cli
from tests.cli.test_run import NOBODY, words
from tests.fixtures.redis_server import unavailable
from tests.support.command_line import invoke


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["pign"], "No such command 'pign'. Did you mean 'ping'?"),
        (["lock"], "No such command 'lock'. Did you mean 'locks'?"),
        (["doktor", "--json"], "No such command 'doktor'. Did you mean 'doctor'?"),
        (["quite-another"], "No such command 'quite-another'."),
        (["--url", "redis://x", "ping"], "write redisson-py COMMAND --url"),
        (["ping", "--tiemout", "3"], "Did you mean"),
        (["release", "k", "--forc"], "Did you mean"),
    ],
    ids=words,
)
def test_what_is_mistyped_is_answered_with_what_there_is(arguments: list[str], reason: str) -> None:
    result = invoke(*arguments, env={"REDISSON_URL": NOBODY})
    assert result.exit_code == 2
    assert reason in result.stderr
    assert ("Did you mean" in reason) == ("Did you mean" in result.stderr)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["inspect", ""], "name must not be empty"),
        (["inspect", "k" * 5000], "at most 4096 bytes"),
        (["inspect", "k", "--kind", "mutex"], "mutex"),
        (["inspect", "k", "--limit", "0"], "--limit"),
        (["locks", "--limit=0"], "--limit"),
        (["locks", "--seconds=0"], "0.0 is not in the range"),
        (["locks", "--seconds=inf"], "inf is not a finite number"),
        (["top", "--interval=nan"], "nan is not a finite number"),
        (["top", "--limit=0"], "--limit"),
        (["top", "--rate=1"], "--rate"),
        (["top", "--rate=nan"], "--rate"),
        (["ping", "--timeout", "nan"], "nan is not a number of seconds"),
        (["completion", "csh"], "csh"),
    ],
)
def test_bad_input_is_refused_before_anything_connects(arguments: list[str], reason: str) -> None:
    result = invoke(*arguments, env={"REDISSON_URL": NOBODY})
    assert (result.exit_code, reason in result.stderr) == (2, True), result.output


@pytest.mark.parametrize(
    "arguments", [["inspect", "k"], ["locks"], ["release", "--force", "--yes", "k"]], ids=words
)
def test_a_server_that_is_away_is_69(arguments: list[str]) -> None:
    result = invoke(*arguments, "--url", f"{NOBODY}?socket_timeout=1")
    assert result.exit_code == 69
    assert len(result.stderr.splitlines()) == 1


#: Said of an option that takes seconds: the unit in its metavar or its help.
_UNIT = re.compile(r"SECONDS|[Ss]econds")


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_help_of_each_option_says_what_it_does(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option):
            record = option.get_help_record(click.Context(command))
            assert record is not None
            words_of_it = re.sub(r"\[.*?\]", "", record[1]).split()
            assert len(words_of_it) > 1, f"{name} {record[0]}: {record[1]}"
            if "SECONDS" in record[0] or option.name in ("timeout", "interval", "seconds"):
                assert _UNIT.search(" ".join(record))


# Completion.

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
