"""The options that name the servers, and the client that is made of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import click

from redisson_py import Redisson, RedissonOptions


@dataclass(frozen=True, slots=True)
class Servers:
    """Where a command goes.

    Attributes:
        url: The URL, if there is one; it may hold a password.
        config: The configuration file, if there is no URL.
        prefix: Put before every name, or None for that of the file.
    """

    url: str | None
    config: Path | None
    prefix: str | None

    def client(self, **options: Unpack[RedissonOptions]) -> Redisson:
        """Return a client of the servers; nothing connects yet.

        Raises:
            click.UsageError: No servers are named, or what names them is not usable.
        """
        if self.prefix is not None:
            options["prefix"] = self.prefix
        try:
            if self.url is not None:
                return Redisson.from_url(self.url, **options)
            if self.config is not None:
                return Redisson.from_file(self.config, **options)
        except (OSError, ValueError, TypeError, ModuleNotFoundError) as error:
            raise click.UsageError(str(error)) from None
        raise click.UsageError(
            "no servers: pass --url or --config, or set REDISSON_URL or REDISSON_CONFIG"
        )


def servers_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --url, --config and --prefix to a command, which gets them as `servers`."""

    @click.option(
        "--url",
        envvar="REDISSON_URL",
        metavar="URL",
        help="The servers' URL, as for Redisson.from_url.  [env: REDISSON_URL]",
    )
    @click.option(
        "--config",
        envvar="REDISSON_CONFIG",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A redisson.yml, TOML or JSON; --url wins.  [env: REDISSON_CONFIG]",
    )
    @click.option("--prefix", help="The prefix of your services' clients.")
    @functools.wraps(command)
    def with_servers(
        *, url: str | None, config: Path | None, prefix: str | None, **options: Any
    ) -> Any:
        return command(servers=Servers(url, config, prefix), **options)

    return with_servers
