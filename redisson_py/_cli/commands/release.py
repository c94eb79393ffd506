"""`redisson-py release`."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from redisson_py import LockLike, Redisson
from redisson_py._cli.commands.inspect import checked_key, lines, words
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import Found, Kind, given, printable
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
    are asked again. A holder that comes between that second look and the release, a round trip
    later, is freed as well. Without a terminal, --yes is required.

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
    shown: Found | None = None
    while True:
        found, freed = _visit(servers, name, kind, shown, asks=not yes)
        lock = _held(found, kind)
        if lock is None:
            _not_freed(name, as_json, _why(found, kind))
        if freed is not None:
            break
        if shown is not None:
            click.echo("It has another holder by now:", err=as_json)
        click.echo("\n".join(lines(lock)), err=as_json)
        if not click.confirm("Free it?", err=as_json):
            sys.exit(NOT_HELD)
        shown = lock
    if not freed:
        _not_freed(name, as_json, "its holder has just released it")
    if as_json:
        answer({"name": name, "freed": True, "was": lock.document(), "why": None})
    else:
        click.echo(f"{printable(lock.name)}: the {words(lock.kind)} is free now")


def _not_freed(name: str, as_json: bool, why: str) -> NoReturn:
    if as_json:
        answer({"name": name, "freed": False, "was": None, "why": why})
        sys.exit(NOT_HELD)
    fail(NOT_HELD, f"{printable(name)}: {why}")


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _owners(found: Found) -> set[str]:
    return {holder.owner for holder in found.holders}


def _visit(
    servers: Servers, name: str, kind: Kind | None, shown: Found | None, *, asks: bool
) -> tuple[list[Found], bool | None]:
    """Look, and at once free the lock unless the user has to be asked first.

    Args:
        servers: Where it is.
        name: What it is called.
        kind: What the user says that it is.
        shown: The lock that the user agreed to free.
        asks: The user has to agree to each holder.

    Returns:
        What is there, and whether it was freed: None if that was not tried.
    """
    found: list[Found] = []
    freed: bool | None = None

    async def visit() -> None:
        nonlocal freed
        async with servers.client() as connected:
            asker = Asker(connected)
            there, _ = await Looker(asker, _LISTED).inspect(checked_key(asker, name))
            found.extend(there)
            lock = _held(found, kind)
            if lock is not None and (not asks or (shown and _owners(lock) <= _owners(shown))):
                freed = await _handle(connected, given(name), lock).force_release()

    try:
        # Nothing stays connected while the user is asked.
        asynchronous(visit)()
    except SystemExit as end:
        if end.code:
            raise
    return found, freed


def _held(found: list[Found], kind: Kind | None) -> Found | None:
    """Return the lock that is held, if it may be of the kind that the user says."""
    for each in found:
        if each.is_lock and each.holders_total:
            return each.as_kind(kind)
    return None


def _why(found: list[Found], kind: Kind | None) -> str:
    """Return why there is nothing to free."""
    for each in found:
        if each.is_lock and each.holders_total:
            return f"it is a {words(each.kind)}, and no {words(kind or 'lock')}"
    for each in found:
        if each.kind in _INSTEAD:
            return f"it is a {words(each.kind)}: {_INSTEAD[each.kind]}"
    return "nobody holds a lock of this name"


def _handle(client: Redisson, name: str | bytes, found: Found) -> LockLike:
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
