"""Runs a command of the command line in this process."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner, Result

from redisson_py._cli.main import cli


def invoke(
    *arguments: str, answers: str | None = None, env: dict[str, str] | None = None
) -> Result:
    """Run `redisson-py` with these arguments; `answers` is what it reads."""
    # Without the environment of the shell that runs the tests.
    nothing = {"REDISSON_URL": None, "REDISSON_CONFIG": None}
    # Since click 8.2 they are always apart.
    apart: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
    runner = CliRunner(env=nothing, **apart)
    return runner.invoke(cli, arguments, input=answers, env=env, prog_name="redisson-py")
