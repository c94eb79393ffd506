"""The servers of a run: one, five that do not know each other, replicas, Sentinel, a cluster."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from redisson_py.testing import (
    EmbeddedServer,
    running_cluster,
    running_replicas,
    running_sentinel,
)
from tests.fixtures.redis_server import documented_rules
from tests.jepsen.field import PASSWORD, USER, Field, Need
from tests.jepsen.history import Recorder
from tests.jepsen.nemeses.clocks import server_with_shim
from tests.jepsen.nemeses.network import small_disk

Topology = Callable[[Recorder, frozenset[Need], Path], AbstractAsyncContextManager[Field]]

_EVERYWHERE: tuple[Need, ...] = ("links", "clock shim", "user", "own network")
_ALONE: tuple[Need, ...] = (*_EVERYWHERE, "alone", "appendonly", "disk")
_REPLICATED: tuple[Need, ...] = (*_EVERYWHERE, "replicas")
#: What the nemeses may need of each topology, all at once: whatever would spoil the undoing of
#: another one waits for its turn.
PROVIDES: dict[str, tuple[Need, ...]] = {
    "single": _ALONE,
    "five": _ALONE,
    "replicas": (*_REPLICATED, "handover"),
    "sentinel": (*_REPLICATED, "elects", "sentinel"),
    "cluster": (*_REPLICATED, "elects", "cluster"),
}


@asynccontextmanager
async def _independent(
    count: int, record: Recorder, needs: frozenset[Need], folder: Path
) -> AsyncGenerator[Field]:
    """Run servers that know nothing of each other."""
    # A log is rewritten long before it fills the disk.
    config = {"auto-aof-rewrite-min-size": "8mb"}
    if "user" in needs:
        config["user"] = f"{USER} {_rules()}"
    keeps = bool(needs & {"appendonly", "disk"})
    async with AsyncExitStack() as stack:
        servers = []
        for _ in range(count):
            server = EmbeddedServer(_kind(needs, folder), config=config, appendonly=keeps)
            if "disk" in needs:
                stack.enter_context(small_disk(server.directory))
            stack.push_async_callback(server.close)
            await server.start()
            servers.append(server)
        urls = [server.url for server in servers]
        yield Field(record, servers, urls=urls, needs=needs, folder=folder, stack=stack)


@asynccontextmanager
async def _together(
    running: Callable[..., AbstractAsyncContextManager[Any]],
    flags: tuple[str, ...],
    record: Recorder,
    needs: frozenset[Need],
    folder: Path,
) -> AsyncGenerator[Field]:
    """Run servers of which one takes over from another."""
    users = {USER: _rules("--sync", *flags)} if "user" in needs else None
    own = "own network" in needs
    async with (
        running(_kind(needs, folder), users=users, own_addresses=own) as topology,
        AsyncExitStack() as stack,
    ):
        urls = [topology.url]
        yield Field(record, topology.nodes, topology, urls=urls, needs=needs, folder=folder,
                    stack=stack)  # fmt: skip


def _kind(needs: frozenset[Need], folder: Path) -> str | None:
    return str(server_with_shim(folder)) if "clock shim" in needs else None


def _rules(*flags: str) -> str:
    return f"on >{PASSWORD} {' '.join(documented_rules('', *flags))}"


TOPOLOGIES: dict[str, Topology] = {
    "single": partial(_independent, 1),
    "five": partial(_independent, 5),
    "replicas": partial(_together, running_replicas, ()),
    "sentinel": partial(_together, running_sentinel, ()),
    "cluster": partial(_together, running_cluster, ("--cluster",)),
}
#: What each is, in a line.
ABOUT = {
    "single": "one server",
    "five": "five servers that do not know each other; a worker has a client of each",
    "replicas": "a master with a replica that takes over only when it is told to",
    "sentinel": "a master, two replicas and three sentinels",
    "cluster": "three masters, each with a replica",
}
