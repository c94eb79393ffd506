"""MultiLock: several things at once, in any order, without a deadlock."""

from __future__ import annotations

import asyncio
from pathlib import Path

from examples.tour.me import Me
from examples.tour.stage import Stage

TRANSFERS = 15
START = 1000


def balance(account: Path) -> int:
    """Return the last line of an account."""
    return int(account.read_text().split()[-1])


def book(account: Path, balance: int) -> None:
    """Add a line to an account."""
    with account.open("a") as file:
        file.write(f"{balance}\n")


async def bank(me: Me, *, from_to: dict[str, tuple[str, str]], cents: dict[str, int]) -> None:
    """Move money from one account to another, again and again."""
    source, target = from_to[me.name]
    lock = me.client.get_multi_lock(me.client.get_lock(source), me.client.get_lock(target))
    await me.hears("start")
    for _ in range(TRANSFERS):
        async with lock:
            have = {name: balance(me.directory / name) for name in (source, target)}
            await asyncio.sleep(0.005)
            book(me.directory / source, have[source] - cents[me.name])
            book(me.directory / target, have[target] + cents[me.name])
    me.tell("done")


async def scene(stage: Stage) -> None:
    """Two processes move money between two accounts, in opposite directions."""
    for account in ("alice", "bob"):
        book(stage.directory / account, START)
    from_to = {"bank-1": ("alice", "bob"), "bank-2": ("bob", "alice")}
    cents = {"bank-1": 7, "bank-2": 3}
    banks = await stage.start(bank, *from_to, from_to=from_to, cents=cents)
    stage.say(f"{banks[0].name} moves 7 from alice to bob, {TRANSFERS} times")
    stage.say(f"{banks[1].name} moves 3 from bob to alice, at the same time, as often")
    for each in banks:
        each.tell("start")
    for each in banks:
        await each.says("done")
    stage.say("both are done: no deadlock")
    alice, bob = (balance(stage.directory / account) for account in ("alice", "bob"))
    moved = TRANSFERS * (cents["bank-1"] - cents["bank-2"])
    stage.check(
        f"{moved} went from alice to bob in all, and nothing got lost",
        (alice, bob) == (START - moved, START + moved),
        f"alice has {alice}, bob {bob}, from {START} each",
    )
