"""A network that can go silent, in a process of its own: `python -m tests.soak.hole REDIS_URL`.

Prints the URL to connect to, then does what the lines of its input say: `hole` loses every byte
while connections stay open, `pass` ends that, and either is answered with `done`. Ends with its
input.
"""

from __future__ import annotations

import asyncio
import sys
from functools import partial

from redisson_py.testing import FaultProxy

say = partial(print, flush=True)


async def main(url: str) -> None:
    """Stand in front of a server until the input ends."""
    async with FaultProxy.in_front_of(url) as link:
        say(link.url)
        while order := await asyncio.to_thread(sys.stdin.readline):
            match order.strip():
                case "hole":
                    link.black_hole()
                case "pass":
                    link.pass_through()
                    # TCP loses no bytes in the middle of a connection: these are broken.
                    link.cut()
            say("done")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
