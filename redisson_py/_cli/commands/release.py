"""`redisson-py release`."""

from __future__ import annotations

import sys
from typing import NoReturn

import click

from redisson_py import LockLike, Redisson
from redisson_py._cli.commands.inspect import checked_key, texts, words
from redisson_py._cli.looks.asking import Asker
from redisson_py._cli.looks.found import Found, Kind, given, printable
from redisson_py._cli.looks.kinds import Looker
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import answer, asynchronous, fail, json_option
from redisson_py.locks.election import candidate_of

#: Nobody held it.
NOT_HELD = 1

#: What to do about a resource that is not a lock.
_INSTEAD: dict[Kind, str] = {
    "semaphore": "A dead client's permits return when its lease ends;"
    " `await semaphore.add_permits(n)` replaces permits that Redisson's clients lost",
    "permit-expirable-semaphore": "`await semaphore.release(id)` returns a permit;"
    " `redisson-py inspect` shows the ids",
    "latch": "`await latch.count_down(n)` or `await latch.delete()` opens a latch",
    "latch-or-semaphore": "`await latch.delete()` opens a latch;"
    " `await semaphore.add_permits(n)` adds permits to a semaphore",
    "rate-limiter": "`await limiter.delete()` forgets its rate and what was taken",
    "barrier": "`await barrier.abort()` breaks a barrier and wakes its parties,"
    " `await barrier.reset()` makes it usable again",
}
#: Holders that are shown.
_LISTED = 10
_LOCKS: tuple[Kind, ...] = (
    *("lock", "fair-lock", "fenced-lock", "read-write-lock"),
    "election",
    "once",
)


@click.command(short_help="Free a lock, whoever holds it.")
@click.argument("name")
@click.option("--force", is_flag=True, help="Required, because it takes the lock from its holder.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@servers_options
@click.option(
    "--kind", type=click.Choice(_LOCKS), help="What NAME is, if its keys leave that open."
)
@json_option
def release(
    *, name: str, force: bool, yes: bool, servers: Servers, kind: Kind | None, as_json: bool
) -> None:
    """Free the lock NAME, whoever holds it, and wake the next waiter.

    The holder may still be working. It learns of the loss at its next renewal, within a third of
    its lease; until then, two may work at once. If the holder is dead, the lock becomes free when
    its lease ends: `inspect NAME` shows when.

    release shows the holder and asks; if the holder has changed by the time you answer, it asks
    again. It also frees a holder that arrives between its last look and the release, one round trip
    later. Without a terminal, --yes is required.

    Of a read-write lock, release frees the side that is held: all readers, or the writer and its
    own reads. It works only on locks; for other resources it says what to do instead.

    Exit status: 0 if the lock was held and is now free; 1 if nobody held it, or you said no; 2
    without --force, or if it cannot ask; 69 if the server did not answer: the lock may be free.
    """
    if not force:
        raise click.UsageError("refusing without --force: the holder may still be working")
    if not (yes or _is_terminal()):
        raise click.UsageError("cannot ask without a terminal: pass --yes")
    shown: Found | None = None
    while True:
        found, freed = _visit(servers, name, kind, shown, asks=not yes)
        lock = _held(found, kind)
        if lock is None:
            _not_freed(name, as_json, _why(found, kind))
        if freed is not None:
            break
        if shown is not None:
            click.echo("The holder has changed:", err=as_json)
        click.echo("\n".join(texts(lock)), err=as_json)
        if not click.confirm("Free it?", err=as_json):
            sys.exit(NOT_HELD)
        shown = lock
    if not freed:
        _not_freed(name, as_json, "its holder has just released it")
    if as_json:
        answer({"name": name, "freed": True, "was": lock.document(), "why": None})
    else:
        click.echo(f"{printable(lock.name)}: {_freed(lock)}")


def _not_freed(name: str, as_json: bool, why: str) -> NoReturn:
    if as_json:
        answer({"name": name, "freed": False, "was": None, "why": why})
        sys.exit(NOT_HELD)
    fail(NOT_HELD, f"{printable(name)}: {why}")


def _freed(lock: Found) -> str:
    if lock.kind == "election":
        return "its leader was deposed"
    if lock.kind == "once":
        return "who ran it has lost it; the next one runs it"
    return f"the {words(lock.kind)} is free now"


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _owners(found: Found) -> set[str]:
    return {holder.owner for holder in found.holders}


def _visit(
    servers: Servers, name: str, kind: Kind | None, shown: Found | None, *, asks: bool
) -> tuple[list[Found], bool | None]:
    """Look, and free the lock at once unless the user must agree first.

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
        if each.is_lock and each.holders_total and (lock := each.as_kind(kind)):
            return lock
    return None


def _why(found: list[Found], kind: Kind | None) -> str:
    """Return why there is nothing to free."""
    for each in found:
        if each.is_lock and each.holders_total:
            return f"it is a {words(each.kind)}, not a {words(kind or 'lock')}"
    for each in found:
        if each.kind in _INSTEAD:
            what = f"it is a {words(each.kind)}"
            return f"{what}; `release` works only on locks. {_INSTEAD[each.kind]}"
    return "nobody holds a lock of this name"


def _handle(client: Redisson, name: str | bytes, found: Found) -> LockLike:
    match found.kind:
        case "fair-lock":
            return client.get_fair_lock(name)
        case "fenced-lock":
            return client.get_fenced_lock(name)
        case "election":
            return candidate_of(client.get_election(name))
        case "once":
            return client.get_once(name)
        case "read-write-lock":
            both = client.get_read_write_lock(name)
            writes = any(holder.mode == "write" for holder in found.holders)
            return both.write_lock() if writes else both.read_lock()
        case _:
            return client.get_lock(name)
