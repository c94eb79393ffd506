"""`redisson-py inspect`."""

from __future__ import annotations

import math

import click

from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import (
    KINDS,
    Found,
    Kind,
    Party,
    client,
    given,
    left,
    plural,
    printable,
    summary,
    text,
)
from redisson_py._cli.looks.kinds import Looker
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import answer, asynchronous, json_option

#: Nothing of this library is there.
NOTHING = 1

#: What holders are called, where they are no holders.
_HOLDER: dict[Kind, str] = {"barrier": "waits", "election": "leader", "once": "runs"}
#: The most characters that are shown of what a leader published.
_LONGEST_VALUE = 200

kind_option = click.option(
    "--kind", type=click.Choice(KINDS), help="What NAME is, if its keys leave that open."
)


@click.command(short_help="Show who holds a name and who waits.")
@click.argument("name")
@servers_options
@kind_option
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="The most holders, and the most waiters, that are listed.",
)
@json_option
@asynchronous
async def inspect(
    *, name: str, servers: Servers, kind: Kind | None, limit: int, as_json: bool
) -> int:
    """Show who holds NAME, who waits for it, and its keys.

    NAME may be of any kind; a lock and a barrier can share a name, because they use different keys.
    A latch and a semaphore both store a number: that is shown as "latch or semaphore" unless
    --kind says which it is.

    inspect only reads. Exit status: 0 if it found something, held or free; 1 if it found nothing (a
    free lock has no key) or only a key of another application; 69 if a server did not answer.
    """
    async with servers.client() as connected:
        asker = Asker(connected)
        key = checked_key(asker, name)
        anchors = (await asker.servers()).values()
        looker = Looker(asker, limit)
        found, kind_of_key = await looker.inspect(key, kind)
        found = await looker.listeners(found, anchors)
    foreign = kind_of_key if is_foreign(found, key, kind_of_key) else None
    if as_json:
        answer(
            {
                "name": name,
                "key": text(key),
                "found": [each.document() for each in found],
                "other_type": foreign,
            }
        )
        return 0 if found else NOTHING
    for each in found:
        click.echo("\n".join(texts(each)))
    if not found or foreign is not None:
        click.echo(_nothing(text(key), kind, kind_of_key))
    return 0 if found else NOTHING


def checked_key(asker: Asker, name: str) -> bytes:
    """Return the key of a name.

    Raises:
        click.UsageError: No resource can have this name.
    """
    try:
        return asker.key(given(name))
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def is_foreign(found: list[Found], key: bytes, kind_of_key: str) -> bool:
    """Whether there is a key with this name, and nothing that was found uses it."""
    return kind_of_key != "none" and not any(key in each.keys for each in found)


def _nothing(key: str, kind: Kind | None, kind_of_key: str) -> str:
    key = printable(key)
    if kind_of_key == "none":
        what = "nothing" if kind is None else f"no {words(kind)}"
        return f"{key}: {what} found (a free lock has no key)"
    what = "something this library uses" if kind is None else f"a {words(kind)}"
    return f"{key}: a key of type {kind_of_key}, not {what}"


def words(kind: Kind) -> str:
    """Return a kind as people say it."""
    return {
        "permit-expirable-semaphore": "permit-expirable semaphore",
        "read-write-lock": "read-write lock",
        "latch-or-semaphore": "latch or semaphore",
    }.get(kind, kind.replace("-", " "))


def texts(found: Found) -> list[str]:
    """Return what was found as lines of text."""
    head = f"{printable(found.name)}: {words(found.kind)}, {summary(found)}"
    rows = [(_HOLDER.get(found.kind, "holder"), _holder(p, found.kind)) for p in found.holders]
    if (more := found.holders_total - len(found.holders)) > 0:
        rows.append(("", f"and {more} more"))
    for number, waiter in enumerate(found.waiters, 1):
        rows.append(("waits", f"{number}. {_who(waiter)}{_since(waiter)}"))
    if (more := (found.waiters_total or 0) - len(found.waiters)) > 0:
        rows.append(("", f"and {more} more"))
    if found.value is not None:
        rows.insert(1, ("value", printable(found.value[:_LONGEST_VALUE])))
    if found.token is not None:
        rows.append(("token", f"{found.token} was the last one issued"))
    count = "unknown (PUBSUB is not permitted, or a server is down)"
    if found.listeners is not None:
        count = plural(found.listeners, "connection")
    rows.append(("listening", f"{count} on {printable(text(found.channel))}"))
    rows += [
        ("" if number else "keys", printable(text(key))) for number, key in enumerate(found.keys)
    ]
    return [head, *(f"  {label:<10}{value}" for label, value in rows)]


def _holder(party: Party, kind: Kind) -> str:
    unit = "permit" if kind == "semaphore" else "hold"
    what = [plural(party.holds, unit)] if party.holds != 1 else []
    if party.mode is not None:
        what.insert(0, {"read": "reads", "write": "writes"}[party.mode])
    lease = left(party.seconds_left)
    what.append(f"{lease} left" if math.isfinite(party.seconds_left or 0) else lease)
    if party.permit is not None and party.permit != party.owner:
        what.append(f"permit {party.permit}")
    return f"{_who(party)}, {', '.join(what)}"


def _since(waiter: Party) -> str:
    waited = "" if waiter.waited is None else f", for {waiter.waited:.1f} s"
    return waited + ("" if waiter.called is None else f", called {waiter.called:.1f} s ago")


def _who(party: Party) -> str:
    where = client(party)
    return printable(party.owner) + (f" ({where})" if where else "")
