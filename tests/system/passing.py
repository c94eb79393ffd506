"""A process that gives the fenced lock `k` to others, and takes it from them.

Run as `python -m tests.system.passing URL LEASE_TIME`. Each row that it reads is a command:
`acquire`, `give`, `adopt TOKEN`, `release`, `work`, and `enter MIN_HOLD` and `leave` for a block;
each has a row of JSON for an answer, with the `error` if there was one.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from redisson_py import Lease, Redisson, RedissonError


class Passing:
    """One process's part."""

    def __init__(self, client: Redisson) -> None:
        self._client = client
        self._lease: Lease | None = None

    async def __call__(self, command: str, *arguments: str) -> dict[str, Any]:
        """Carry out a command; return the answer."""
        if command == "acquire":
            self._lease = await self._client.get_fenced_lock("k").acquire()
        elif command == "adopt":
            self._lease = await self._client.adopt(*arguments)
        elif command == "enter":
            self._block = self._client.get_fenced_lock("k").hold(min_hold=float(*arguments))
            self._lease = await self._block.__aenter__()
        assert self._lease is not None
        if command == "give":
            return {"token": await self._lease.hand_over()}
        if command == "release":
            await self._lease.release()
        if command == "leave":
            await self._block.__aexit__(None, None, None)
        return {"fencing": self._lease.token, "lost": self._lease.lost, "owner": self._lease.owner}


async def main(url: str, lease_time: float) -> None:
    async with Redisson.from_url(url, lease_time=lease_time) as client:
        passing = Passing(client)
        while row := (await asyncio.to_thread(sys.stdin.readline)).split():
            try:
                answer = await passing(*row)
            except RedissonError as error:
                answer = {"error": type(error).__name__}
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2])))
