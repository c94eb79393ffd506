"""A process of a scene: `python -m examples.tour.process`, with what to do on standard input."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from examples.tour.me import Me
from redisson_py import Redisson


@dataclass(frozen=True, slots=True)
class Settings:
    """What a process is told at its start.

    Attributes:
        name: Its name, also of its connection.
        module: Where the function is that it runs.
        function: The function's name.
        arguments: What the function takes besides a `Me`.
        url: The server.
        prefix: What stands before all names in Redis.
        lease_time: What its watchdog keeps things for, in seconds.
        directory: Where the scene's files are.
    """

    name: str
    module: str
    function: str
    arguments: dict[str, Any]
    url: str
    prefix: str
    lease_time: float
    directory: str

    def to_bytes(self) -> bytes:
        """Return the settings as a line of JSON."""
        return json.dumps(asdict(self)).encode() + b"\n"


async def main() -> None:
    """Do what we are told, and leave."""
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    settings = Settings(**json.loads(await orders.readline()))
    function = getattr(import_module(settings.module), settings.function)
    async with Redisson.from_url(
        settings.url,
        prefix=settings.prefix,
        lease_time=settings.lease_time,
        client_name=settings.name,
    ) as client:
        await client.ping()
        me = Me(settings.name, client, settings.prefix, Path(settings.directory))
        me.tell("ready")
        listening = asyncio.create_task(me.listen(orders))
        await function(me, **settings.arguments)
        listening.cancel()


if __name__ == "__main__":
    # Ctrl-C reaches the whole foreground group; the tour ends its processes itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
