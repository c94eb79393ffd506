"""Runs a command of the command line in this process."""

from __future__ import annotations

from click.testing import CliRunner, Result

from redisson_py._cli.main import cli


def invoke(
    *arguments: str, answers: str | None = None, env: dict[str, str] | None = None
) -> Result:
    """Run `redisson-py` with these arguments; `answers` is what it reads."""
    # Without the environment of the shell that runs the tests.
    nothing = {"REDISSON_URL": None, "REDISSON_CONFIG": None}
    runner = CliRunner(env=nothing)
    return runner.invoke(cli, arguments, input=answers, env=env, prog_name="redisson-py")
