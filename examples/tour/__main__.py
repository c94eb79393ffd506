"""Take the tour: `python -m examples.tour`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from examples.console import Console, Table, Text, labelled, range_of, say_verdict, standard_output
from examples.tour.actor import TourError
from examples.tour.scenes import SCENES
from examples.tour.stage import House, Stage, WrongError
from redisson_py import Redisson, RedissonError
from redisson_py.testing import ServerNotFoundError, ServerStartError, embedded_server

#: Seconds that a scene takes, and on a busy machine.
_SCENE, _BUSY_SCENE = 2.5, 5.0

_INTERRUPTED = 130
_FAILURES = (
    RedisError,
    RedissonError,
    ServerNotFoundError,
    ServerStartError,
    TourError,
    WrongError,
)


@dataclass(frozen=True, slots=True)
class _Played:
    """A scene that was played: what it is, what came of it, and how long it took."""

    name: str
    went_well: bool
    shown: int
    seconds: float


def main() -> int:
    """Play the scenes; return 0 if all went as they must."""
    arguments = _arguments()
    # What happens to connections is told by us.
    logging.getLogger("redisson_py").addHandler(logging.NullHandler())
    console = standard_output()
    names = list(dict.fromkeys(arguments.only or SCENES))
    console.print(_about(arguments, len(names)))
    began_at = time.monotonic()
    try:
        played = asyncio.run(_tour(arguments, names, console))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("interrupted; all processes are ended")
        return _INTERRUPTED
    except _FAILURES as error:
        console.print(Text("WRONG", "bold red").append(f": {_words(error)}", "not bold default"))
        wrong = ["the tour itself"]
    else:
        console.print("", _summary(played), "")
        wrong = [each.name for each in played if not each.went_well]
    say_verdict(console, time.monotonic() - began_at, ", ".join(wrong) if wrong else None)
    return 1 if wrong else 0


def _about(arguments: argparse.Namespace, scenes: int) -> str:
    """Return in a line what will be shown, where, and how long that takes."""
    where = "the given server" if arguments.url else "a server of our own"
    seconds = range_of(scenes * _SCENE, scenes * _BUSY_SCENE)
    what = f"{scenes} short scenes" if scenes > 1 else "one short scene"
    return (
        f"{what}, each with processes that share a lock, a semaphore or the like; some "
        f"are killed or stopped, on {where}: {seconds}."
    )


async def _tour(
    arguments: argparse.Namespace, names: Sequence[str], console: Console
) -> list[_Played]:
    me = asyncio.current_task()
    assert me is not None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, me.cancel)
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="redisson-py-")))
        url = arguments.url or await stack.enter_async_context(embedded_server())
        prefix = f"redisson-py-tour:{secrets.token_hex(4)}:"
        await _answers(url, arguments.patience)
        if arguments.url:
            stack.push_async_callback(_forget, url, prefix)
        apart = bool(arguments.sabotage)
        house = House(url, prefix, directory, arguments.patience, console, apart)
        return [
            await _play(house, name, f"{number} of {len(names)}")
            for number, name in enumerate(names, 1)
        ]


async def _play(house: House, name: str, number: str) -> _Played:
    scene = SCENES[name]
    began_at = time.monotonic()
    house.console.print()
    house.console.print(Text(scene.about, "bold"), Text(f"({number})", "dim"))
    house.console.print(f"  examples/tour/scenes/{name}.py", style="dim")
    went_well = True
    stage = Stage(house, name)
    try:
        async with stage:
            await scene.play(stage)
    except _FAILURES as error:
        house.console.print(labelled(Text("WRONG", "bold red"), f"{name}: {_words(error)}"))
        went_well = False
    return _Played(name, went_well, stage.shown, time.monotonic() - began_at)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _summary(played: Sequence[_Played]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("SCENE", no_wrap=True)
    for head in ("SHOWN", "SECONDS", "VERDICT"):
        table.add_column(head, no_wrap=True, justify="right")
    for each in played:
        verdict = Text("ok", "bold green") if each.went_well else Text("WRONG", "bold red")
        table.add_row(each.name, str(each.shown), f"{each.seconds:.1f}", verdict)
    return table


async def _answers(url: str, patience: float) -> None:
    async with Redisson.from_url(url) as client:
        try:
            async with asyncio.timeout(patience):
                await client.ping()
        except TimeoutError:
            raise TourError(f"no server answers within {patience:g} s") from None


async def _forget(url: str, prefix: str) -> None:
    """Delete what the tour left on a server that is not its own."""
    async with Redis.from_url(url) as redis:
        async for key in redis.scan_iter(match=f"*{prefix}*"):
            await redis.delete(key)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.tour",
        description="Each primitive at work between processes, some of which are struck.",
        epilog="\n".join(f"  {name:18}{scene.about}" for name, scene in SCENES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--url",
        default=os.environ.get("REDISSON_URL"),
        help="the server to use (default: REDISSON_URL, or else a server of our own)",
    )
    parser.add_argument(
        "--only", metavar="NAME", choices=SCENES, action="append", help="one scene; may be repeated"
    )
    parser.add_argument(
        "--patience",
        type=float,
        default=60.0,
        help="seconds after which what must happen counts as missing (default: 60)",
    )
    # For the test that every scene can go wrong.
    parser.add_argument("--sabotage", choices=("apart",), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.url:
        try:
            Redisson.from_url(arguments.url)
        except ValueError as error:
            parser.error(f"--url: {error}")
    if not 1 <= arguments.patience <= 3600:
        parser.error("--patience must be between 1 and 3600")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
