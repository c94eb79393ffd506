"""A storm of lost replies: calls are executed, their answers lost, and asked for again.

    python -m tests.soak.lost_replies --lost 1000000

Each client stands behind a proxy that discards the server's replies and then breaks the
connection, so that all calls in flight lose theirs at once. Tasks do random things with locks,
give some of them up half-way, and have calls of earlier holds come once more, late. After each
step a model that knows what the step must have done is compared with the server, which is
asked over a connection that nothing disturbs. What differs is a finding: a double effect, a
missing one, or a wrong answer.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from redis.asyncio import Redis

from redisson_py import Redisson, _keys
from redisson_py._redis.commands.lock import TOKENS
from redisson_py.testing import FaultProxy, embedded_server
from tests.soak.walker import (
    FIRST_TOKEN,
    LEASE,
    SHORT_LEASE,
    Lock,
    Play,
    Walker,
    Witness,
    keep,
    operate,
)
from tests.soak.weather import CALLS, Losses, Weather
from tests.support.stragglers import Stragglers

WALKERS = 100  # of each client, on names of their own
CONTENDERS = 2  # of each client, on each name that both share
FEWEST = 5  # lost replies of every call, before a storm is over

Say = Callable[[str], object]


async def storm(
    url: str, target: int, *, seed: int = 1, fewest: int = FEWEST, say: Say = lambda row: None
) -> Play:
    """Lose `target` replies, and `fewest` of every call, on the empty server at `url`."""
    chance, losses = random.Random(seed), Losses()
    weathers: list[Weather] = []
    async with AsyncExitStack() as stack:
        redis = await stack.enter_async_context(Redis.from_url(url))
        stragglers = await stack.enter_async_context(Stragglers(url))
        play = Play(Witness(redis), stragglers, losses, chance)

        async def client(lease_time: float, crowd: int) -> Redisson:
            link = await stack.enter_async_context(FaultProxy.in_front_of(url))
            weathers.append(Weather(link, chance, crowd, losses))
            made = Redisson.from_url(link.url, lease_time=lease_time)
            return await stack.enter_async_context(made)

        walking = [await client(LEASE, WALKERS) for _ in range(2)]
        keeping = [await client(SHORT_LEASE, 1) for _ in range(4)]
        work = [part for n, each in enumerate(walking) for part in _walks(play, n, each)]
        work += [keep(play, each, each.get_lock(f"kept:{n}")) for n, each in enumerate(keeping)]
        for key, token in play.last_tokens.items():
            await redis.set(_keys.fencing_token(key), token + TOKENS - 1)
        async with asyncio.TaskGroup() as group:
            aside = [group.create_task(weather.blow()) for weather in weathers]
            aside.append(group.create_task(play.witness.run()))
            working = [group.create_task(part) for part in work]
            await _watch(play, target, fewest, say)
            play.ended = True
            await asyncio.wait(working)
            for task in aside:
                task.cancel()
        for weather in weathers:
            weather.end()
        # Answered after every undo and release that nobody waited for.
        await asyncio.gather(*(each.ping() for each in walking + keeping))
        play.findings += [f"a ghost: {key!r}" async for key in redis.scan_iter(_type="hash")]
        play.findings += [
            f"{key!r}: {len(owners)} holders lost it, {play.forced[key]} were freed by force"
            for key, owners in play.lost_owners.items()
            if len(owners) > play.forced[key]
        ]
    return play


def _walks(play: Play, number: int, client: Redisson) -> Iterator[Coroutine[Any, Any, None]]:
    """Yield the work of one of the two clients that do everything."""
    for n in range(WALKERS // 2):
        yield Walker(play, client.get_lock(f"own:{number}:{n}")).walk()
        fenced = client.get_fenced_lock(f"fenced:{number}:{n}")
        play.last_tokens[fenced.key] = FIRST_TOKEN
        yield Walker(play, fenced).walk()
    shared: list[Lock] = [client.get_lock("shared"), client.get_fenced_lock("fenced:shared")]
    forced: list[Lock] = [client.get_lock("forced"), client.get_fenced_lock("fenced:forced")]
    for _ in range(CONTENDERS):
        yield from (Walker(play, lock, shared=True).walk() for lock in shared)
        yield from (Walker(play, lock, shared=True, forced=True).walk() for lock in forced)
    yield operate(play, forced)


async def _watch(play: Play, target: int, fewest: int, say: Say) -> None:
    """Return when enough was lost; say how far it is now and then."""
    lost = play.losses.calls
    begun = said = time.monotonic()
    while lost.total() < target or min(lost[call] for call in CALLS) < fewest:
        await asyncio.sleep(0.05)
        present = time.monotonic()
        if present - said >= 5:
            said = present
            say(f"{present - begun:6.0f} s {lost.total():10,} lost, {len(play.findings)} wrong")


def figures(play: Play) -> dict[str, int]:
    """Return what a storm did, in the order in which to tell it."""
    return {call: play.losses.calls[call] for call in CALLS} | {
        "replies lost": play.losses.calls.total(),
        "connections broken": play.losses.cuts,
        "calls given up": play.given_up,
        "late duplicates": play.stragglers.delivered,
        "effects compared": play.compared,
        "double effects": len(play.findings),
    }


def main() -> int:
    """Run a storm on a server of its own; return how the process should end."""
    parser = argparse.ArgumentParser(description="A storm of lost replies.")
    parser.add_argument("--lost", type=int, default=1_000_000, help="how many replies to lose")
    parser.add_argument("--fewest", type=int, default=FEWEST, help="of each call at least")
    parser.add_argument("--seed", type=int, default=1, help="of what the tasks do")
    arguments = parser.parse_args()
    say = partial(print, flush=True)
    logging.getLogger("redisson_py").setLevel(logging.ERROR)  # each hold freed by force warns

    async def run() -> Play:
        async with embedded_server() as url:
            return await storm(
                url, arguments.lost, seed=arguments.seed, fewest=arguments.fewest, say=say
            )

    play = asyncio.run(run())
    for what, count in figures(play).items():
        say(f"{what:18}{count:>12,}")
    for finding in play.findings[:20]:
        say(f"  {finding}")
    return 1 if play.findings else 0


if __name__ == "__main__":
    sys.exit(main())
