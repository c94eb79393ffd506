"""`redisson-py`: the group of all commands."""

from __future__ import annotations

import importlib
import logging
from difflib import get_close_matches
from typing import Final

import click

from redisson_py import __version__

#: Modules of `commands`, each with a command of its name.
_COMMANDS: Final = (
    "acl",
    "acquire",
    "completion",
    "doctor",
    "inspect",
    "locks",
    "ping",
    "release",
    "run",
    "scripts",
    "top",
)


class _Commands(click.Group):
    """Imports a command when it is asked for: `run` does not wait for the tables of `top`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return [*_COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, or None if there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"redisson_py._cli.commands.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; it says where an option of a command goes."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            ctx.fail(
                f"No such option '{error.option_name}' before the command. Only --verbose,"
                f" --version and --help go there: write redisson-py COMMAND {error.option_name}"
            )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, which suggests options but no commands."""
        near = get_close_matches(args[0], [*_COMMANDS], 1)
        if near and args[0] not in _COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="redisson-py")
@click.option("--verbose", "-v", is_flag=True, help="Print the library's log.")
def cli(*, verbose: bool) -> None:
    """Locks and other synchronizers on Redis and Valkey, for shells and operators.

    \b
    export REDISSON_URL=redis://localhost:6379/0
    redisson-py ping                         do the servers answer?
    redisson-py run nightly -- ./report.sh   hold a lock while a command runs

    \b
    Servers, for every command that talks to them:
      --url or REDISSON_URL         redis:// rediss:// redis+cluster:// redis+sentinel:// ...
      --config or REDISSON_CONFIG   a file: redisson.yml as for Java, TOML or JSON

    \b
    Exit statuses: 0 done, 2 wrong usage, 69 Redis did not answer or refused, 75 busy.
    For those of `run`, see redisson-py run --help.
    """  # noqa: D301  # click's mark of lines that are not to be wrapped
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    else:
        # A failure is one line, and that is the command's.
        logging.getLogger("redisson_py").addHandler(logging.NullHandler())
