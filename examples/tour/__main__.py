"""Take the tour: `python -m examples.tour`; see the package."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import signal
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from examples.tour.actor import TourError
from examples.tour.scenes import SCENES, Scene
from examples.tour.stage import House, Stage, WrongError
from redisson_py import Redisson, RedissonError
from redisson_py.testing import ServerNotFoundError, ServerStartError, embedded_server

_INTERRUPTED = 130
_FAILURES = (
    RedisError,
    RedissonError,
    ServerNotFoundError,
    ServerStartError,
    TourError,
    WrongError,
)


def main() -> int:
    """Play the scenes; return 0 if all went as they must."""
    arguments = _arguments()
    began_at = time.monotonic()
    try:
        wrong = asyncio.run(_tour(arguments))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("interrupted; all processes are ended")
        return _INTERRUPTED
    except _FAILURES as error:
        print(f"WRONG: {type(error).__name__}: {error}")
        wrong = ["the tour itself"]
    took = f"after {time.monotonic() - began_at:.0f} s"
    print(f"FAILED {took}: {', '.join(wrong)}" if wrong else f"OK {took}")
    return 1 if wrong else 0


async def _tour(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the scenes that went wrong."""
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
        house = House(url, prefix, directory, arguments.patience, bool(arguments.sabotage))
        names = arguments.only or list(SCENES)
        return [name for name in names if not await _goes_well(house, name, SCENES[name])]


async def _goes_well(house: House, name: str, scene: Scene) -> bool:
    print(f"\n{scene.about}\n  examples/tour/scenes/{name}.py", flush=True)
    try:
        async with Stage(house, name) as stage:
            await scene.play(stage)
    except _FAILURES as error:
        print(f"   WRONG  {name}: {type(error).__name__}: {error}", flush=True)
        return False
    return True


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
        default=15.0,
        help="seconds after which what is to happen counts as missing (default: 15)",
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
