"""`redisson-py ping`."""

from __future__ import annotations

import click

from redisson_py._cli.seconds import Seconds
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import answer, asynchronous, json_option
from redisson_py._time import now


@click.command(short_help="Check whether the servers answer.")
@servers_options
@click.option(
    "--timeout",
    type=Seconds(),
    default="5",
    show_default=True,
    help="Wait at most this long for an answer, connecting included.",
)
@json_option
@asynchronous
async def ping(*, servers: Servers, timeout: float, as_json: bool) -> None:
    """Check whether the servers answer. Exit status: 0 if they do, 69 if not."""
    began = now()
    async with servers.client() as client:
        await client.ping(timeout=timeout)
    took = now() - began
    if as_json:
        answer({"answered": True, "seconds": round(took, 6)})
    else:
        click.echo(f"PONG after {took * 1000:.1f} ms, connecting included")
