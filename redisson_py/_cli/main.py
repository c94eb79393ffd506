"""`redisson-py`: the group of all commands."""

from __future__ import annotations

import logging

import click

from redisson_py import __version__
from redisson_py._cli.commands.acl import acl
from redisson_py._cli.commands.inspect import inspect
from redisson_py._cli.commands.locks import locks
from redisson_py._cli.commands.ping import ping
from redisson_py._cli.commands.release import release
from redisson_py._cli.commands.scripts import scripts
from redisson_py._cli.commands.top import top


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="redisson-py")
@click.option("--verbose", "-v", is_flag=True, help="Print what the library logs.")
def cli(*, verbose: bool) -> None:
    """Locks and other synchronizers on Redis and Valkey, for shells and operators.

    Servers are named by --url, by REDISSON_URL, or by --config (a redisson.yml, TOML or JSON).
    """
    if verbose:
        logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    else:
        # A failure is one line, and that is the command's.
        logging.getLogger("redisson_py").addHandler(logging.NullHandler())


for _command in (acl, inspect, locks, ping, release, scripts, top):
    cli.add_command(_command)
