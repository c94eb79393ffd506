"""`redisson-py`: the group of all commands."""

from __future__ import annotations

import logging

import click

from redisson_py import __version__
from redisson_py._cli.commands.acl import acl
from redisson_py._cli.commands.completion import completion
from redisson_py._cli.commands.doctor import doctor
from redisson_py._cli.commands.inspect import inspect
from redisson_py._cli.commands.locks import locks
from redisson_py._cli.commands.ping import ping
from redisson_py._cli.commands.release import release
from redisson_py._cli.commands.run import run
from redisson_py._cli.commands.scripts import scripts
from redisson_py._cli.commands.top import top


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="redisson-py")
@click.option("--verbose", "-v", is_flag=True, help="Print what the library logs.")
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
    Exit statuses: 0 done, 2 wrong usage, 69 no answer from Redis, or a refusal, 75 busy.
    Those of `run` are in redisson-py run --help.
    """  # noqa: D301  # click's mark of lines that are not to be wrapped
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    else:
        # A failure is one line, and that is the command's.
        logging.getLogger("redisson_py").addHandler(logging.NullHandler())


for _command in (
    acl,
    completion,
    doctor,
    inspect,
    locks,
    ping,
    release,
    run,
    scripts,
    top,
):
    cli.add_command(_command)
