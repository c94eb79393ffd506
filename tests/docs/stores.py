"""The servers that the URLs of other stores than Redis stand for, on pages and in recipes."""

from __future__ import annotations

import re

from tests.stores.backends import Backend, started

#: What pages say for "your server", and the store that it is of.
URLS = {
    "postgresql://localhost/app": "postgres",
    "mysql://localhost/app": "mysql",
    "etcd://localhost:2379": "etcd",
    "zookeeper://localhost:2181": "zookeeper",
}
_URL = re.compile("|".join(map(re.escape, URLS)))


class StoreServers:
    """Starts the server of a store when a page first names it."""

    def __init__(self) -> None:
        self._running: dict[str, Backend] = {}

    def backend(self, name: str) -> Backend:
        """Return a store with a server that runs; the test is skipped where there is none."""
        if name not in self._running:
            self._running[name] = started(name)
        return self._running[name]

    def in_code(self, code: str) -> str:
        """Return the code of a page with URLs of servers that run."""
        return _URL.sub(lambda found: self.backend(URLS[found[0]]).url, code)

    def close(self) -> None:
        """End the servers."""
        for each in self._running.values():
            each.close()
