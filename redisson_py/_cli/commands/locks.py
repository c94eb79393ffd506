"""`redisson-py locks`."""

from __future__ import annotations

from contextlib import aclosing
from typing import Literal

import anyio
import click

from redisson_py import ConnectionLostError
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import Found
from redisson_py._cli.looks.keyspace import Names, Resource, resources
from redisson_py._cli.looks.kinds import Looker
from redisson_py._cli.looks.tables import print_table, row
from redisson_py._cli.seconds import FiniteRange
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import UNAVAILABLE, answer, asynchronous, json_option

#: Holders that are listed for each name.
_LISTED = 3

Stopped = Literal["limit", "time"]


@click.command(short_help="List held locks and their waiters.")
@click.argument("pattern", default="*")
@servers_options
@click.option(
    "--limit",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    help="Stop after this many resources.",
)
@click.option(
    "--seconds",
    type=FiniteRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="The most seconds that the search takes.",
)
@json_option
@asynchronous
async def locks(
    *, pattern: str, servers: Servers, limit: int, seconds: float, as_json: bool
) -> int:
    """List what has holders or waiters, and the rate limiters without units left.

    PATTERN matches names, as KEYS does: "orders:*". The search goes through all keys with SCAN, 500
    at a time, on each master of a cluster; the servers serve others in between. It reads one field
    of each hash whose name matches, and looks closer if that is a lock.

    A free lock has no key, so it is not listed. Latches, and semaphores without a recorded holder,
    are plain numbers that could be anybody's and are not listed either, nor are rate limiters of
    which each client has its own units: use `inspect NAME`.

    Exit status: 0, even if nothing is held, or if --limit or --seconds ended the search (a note
    says so); 69 if a server did not answer.
    """
    found: dict[Resource, Found] = {}
    away: dict[str, str] = {}
    async with servers.client() as connected:
        asker = Asker(connected)
        anchors = await asker.servers()
        looker = Looker(asker, _LISTED)
        names = Names(asker.prefix, pattern)
        with anyio.move_on_after(seconds) as search:
            for server, anchor in anchors.items():
                try:
                    await _search(asker, looker, anchor, names, found, limit)
                except ConnectionLostError as error:
                    away[server] = str(error)
        stopped: Stopped | None = "time" if search.cancelled_caught else None
        if len(found) > limit:
            stopped = "limit"
        working = [anchor for server, anchor in anchors.items() if server not in away]
        shown = sorted(list(found.values())[:limit], key=lambda each: (each.name, each.kind))
        shown = await looker.listeners(shown, working)
    if as_json:
        answer(
            {
                "found": [each.document() for each in shown],
                "complete": stopped is None and not away,
                "stopped": stopped,
                "away": away,
            }
        )
    else:
        if shown:
            print_table([row(each) for each in shown])
        else:
            click.echo("nothing is held")
        for note in notes(stopped, limit, seconds, away):
            click.echo(note, err=True)
    return UNAVAILABLE if away else 0


async def _search(
    asker: Asker,
    looker: Looker,
    anchor: bytes,
    names: Names,
    found: dict[Resource, Found],
    limit: int,
) -> None:
    """Add what one server has to `found`, until that is more than `limit`.

    Raises:
        ConnectionLostError: The server did not answer.
    """
    async with aclosing(resources(asker, anchor, names)) as batches:
        async for some in batches:
            if len(found) > limit:
                break
            there = await looker.look(sorted(some - found.keys()))
            found |= {each: it for each, it in there.items() if not it.is_free}


def notes(stopped: Stopped | None, limit: int, seconds: float, away: dict[str, str]) -> list[str]:
    """Return notes on what the list leaves out."""
    said = {
        None: [],
        "limit": [f"there is more: the search stopped at --limit {limit}"],
        "time": [f"there may be more: the search stopped after --seconds {seconds:g}"],
    }[stopped]
    return said + [f"{server} did not answer: {why}" for server, why in away.items()]
