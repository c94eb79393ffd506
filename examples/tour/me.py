"""What a process of a scene knows of itself, and how it talks with the tour.

Orders come as JSON lines on standard input, reports leave the same way on standard output. When
the input ends, the tour is gone, and the process goes too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from redisson_py import Redisson


class Me:
    """This process, as the function that runs in it sees it.

    Attributes:
        name: Its name.
        client: Its client.
        prefix: What stands before all names in Redis, for clients of one's own.
        directory: Where the processes of a scene keep their files.
    """

    def __init__(self, name: str, client: Redisson, prefix: str, directory: Path) -> None:
        self.name = name
        self.client = client
        self.prefix = prefix
        self.directory = directory
        self._orders: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)

    def tell(self, what: str, **more: Any) -> None:
        """Report something to the tour, with the time; all processes of a machine share it."""
        print(json.dumps({"what": what, "at": time.monotonic(), **more}), flush=True)

    async def hears(self, what: str) -> None:
        """Return when the tour has given this order."""
        await self._orders[what].wait()

    async def listen(self, orders: asyncio.StreamReader) -> None:
        """Take orders until the tour is gone."""
        async for row in orders:
            self._orders[json.loads(row)].set()
        sys.exit("the tour is gone")
