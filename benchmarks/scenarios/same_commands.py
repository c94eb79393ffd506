"""Whether the bare stream sends what ours sends: without that its ratios would mean nothing."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import urlsplit

from benchmarks.crew import Bench, Worker
from benchmarks.rivals import BARE, BARE_UVLOOP, OURS, OURS_UVLOOP

#: What MONITOR says of a command of a client, as opposed to one of a script.
_COMMAND = re.compile(r'\+\S+ \[\d+ (?!lua)\S+\] "(\w+)"(.*)')
_OWNER = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")

#: Seconds until the server has shown what was sent.
_PATIENCE = 10.0


async def check(bench: Bench) -> None:
    """Have both do one pair after another one, and compare what the server got.

    Raises:
        AssertionError: They differ; the message has both.
    """
    for sides in ((OURS, BARE), (OURS_UVLOOP, BARE_UVLOOP)):
        if all(side in bench.workers for side in sides):
            sent = {side: await _sent(bench.url, bench.workers[side][0]) for side in sides}
            mine, its = sent.values()
            assert mine == its, f"the bare stream sends something else: {sent}"
            return


async def _sent(url: str, one: Worker) -> list[str]:
    """Return the calls of scripts of a pair, with a word in the place of each owner."""
    name = "same commands"
    # Scripts are loaded with the first one.
    await one.do("pairs", tasks=1, seconds=0, prefix=name)
    server = urlsplit(url)
    reader, writer = await asyncio.open_connection(server.hostname, server.port or 6379)
    try:
        writer.write(b"MONITOR\r\n")
        await reader.readline()
        await one.do("pairs", tasks=1, seconds=0, prefix=name)
        return await _calls(reader, 2)
    finally:
        writer.close()
        await writer.wait_closed()


async def _calls(reader: asyncio.StreamReader, count: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(_PATIENCE):
        while len(found) < count:
            heard = _COMMAND.match((await reader.readline()).decode())
            if heard is not None and heard[1].upper() == "EVALSHA":
                found.append(_OWNER.sub("OWNER", heard[2].strip()))
    return found
