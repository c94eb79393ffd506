"""`redisson-py release`."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

import click

from redisson_py import LockLike, Redisson
from redisson_py._cli.commands.inspect import checked_key, lines, words
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import Found, Kind, printable
from redisson_py._cli.looks.kinds import Looker
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import answer, asynchronous, fail, json_option

#: Nobody held it.
NOT_HELD = 1

#: What frees what has no holder of its own.
_INSTEAD: dict[Kind, str] = {
    "semaphore": "permits of a dead client come back by themselves when its lease ends;"
    " `await semaphore.add_permits(n)` adds what Redisson's clients lost",
    "permit-expirable-semaphore": "`await semaphore.release(id)` gives one permit back;"
    " `redisson-py inspect` shows the ids",
    "latch": "`await latch.count_down(n)` or `await latch.delete()` opens it",
    "latch-or-semaphore": "of a latch `await latch.delete()` opens it; of a semaphore"
    " `await semaphore.add_permits(n)` adds permits",
    "barrier": "`await barrier.abort()` sends its parties away, `await barrier.reset()` mends it",
}
#: Holders that are shown.
_LISTED = 10
_LOCKS: tuple[Kind, ...] = ("lock", "fair-lock", "fenced-lock", "read-write-lock")


@click.command(short_help="Free a lock, whoever holds it.")
@click.argument("name")
@click.option("--force", is_flag=True, help="Required: another's lock is freed.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@servers_options
@click.option("--kind", type=click.Choice(_LOCKS), help="What it is, where its keys do not tell.")
@json_option
def release(
    *, name: str, force: bool, yes: bool, servers: Servers, kind: Kind | None, as_json: bool
) -> None:
    """Free the lock NAME, whoever holds it, and wake the next waiter.

    Its holder may be at work: it learns of the loss at its next renewal, after a third of its
    lease at most, and until then two may be at work. If the holder is dead, the lock is free when
    its lease ends, which `inspect NAME` shows.

    The holder is shown, and you are asked; if there is another holder when you have answered, you
    are asked again. Without a terminal, --yes is required.

    Of a read-write lock the side that is held is freed: all readers, or the writer with what it
    reads itself. For semaphores, latches and barriers the command says what to do instead.

    Exit status: 0 if it was held and is free now; 1 if nobody held it, or you said no; 2 without
    --force, or if it cannot ask; 69 if the server did not answer: it may be free then.
    """
    if not force:
        raise click.UsageError(
            "only its holder releases a lock; --force frees it although the holder may be at work"
        )
    if not (yes or _is_terminal()):
        raise click.UsageError("there is no terminal to ask at: give --yes")
    found = _look(servers, name, kind, as_json)
    asked = yes
    while not asked:
        click.echo("\n".join(lines(found)), err=as_json)
        if not click.confirm("Free it?", err=as_json):
            sys.exit(NOT_HELD)
        before, found = found, _look(servers, name, kind, as_json)
        asked = _owners(before) == _owners(found)
        if not asked:
            click.echo("It has another holder by now:", err=as_json)
    if not _free(servers, name, found):
        _not_freed(name, as_json, "nobody holds it any more")
    if as_json:
        answer({"name": name, "freed": True, "was": found.document(), "why": None})
    else:
        click.echo(f"{printable(name)}: the {words(found.kind)} is free now")


def _not_freed(name: str, as_json: bool, why: str) -> NoReturn:
    if as_json:
        answer({"name": name, "freed": False, "was": None, "why": why})
        sys.exit(NOT_HELD)
    fail(NOT_HELD, f"{printable(name)}: {why}")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _owners(found: Found) -> set[str]:
    return {holder.owner for holder in found.holders}


def _look(servers: Servers, name: str, kind: Kind | None, as_json: bool) -> Found:
    """Return the lock of this name that is held; else say what is there, and exit."""
    result: list[Found] = []

    async def look() -> None:
        async with servers.client() as connected:
            asker = Asker(connected)
            found, _ = await Looker(asker, _LISTED).inspect(checked_key(asker, name))
            result.extend(found)

    _run(look)
    for found in result:
        if found.is_lock and found.holders_total:
            if (alike := found.as_kind(kind)) is not None:
                return alike
            _not_freed(
                name, as_json, f"it is a {words(found.kind)}, and no {words(kind or 'lock')}"
            )
    for found in result:
        if found.kind in _INSTEAD:
            _not_freed(name, as_json, f"it is a {words(found.kind)}: {_INSTEAD[found.kind]}")
    _not_freed(name, as_json, "nobody holds a lock of this name")


def _free(servers: Servers, name: str, found: Found) -> bool:
    """Free a lock; return whether anybody held it."""
    freed = False

    async def free() -> None:
        nonlocal freed
        async with servers.client() as connected:
            freed = await _handle(connected, name, found).force_release()

    _run(free)
    return freed


def _handle(client: Redisson, name: str, found: Found) -> LockLike:
    match found.kind:
        case "fair-lock":
            return client.get_fair_lock(name)
        case "fenced-lock":
            return client.get_fenced_lock(name)
        case "read-write-lock":
            both = client.get_read_write_lock(name)
            writes = any(holder.mode == "write" for holder in found.holders)
            return both.write_lock() if writes else both.read_lock()
        case _:
            return client.get_lock(name)


def _run(step: Callable[[], Awaitable[None]]) -> None:
    """Run one step on an event loop of its own: nothing is connected while the user is asked."""
    try:
        asynchronous(step)()
    except SystemExit as end:
        if end.code:
            raise
