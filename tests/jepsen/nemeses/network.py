"""A network and mounts of the tool's own, in whose kernel packets disappear and a disk is small."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from redisson_py.testing import EmbeddedCluster
from redisson_py.testing._network import NETWORK_VARIABLE, _ip
from tests.jepsen.field import Field, Need
from tests.jepsen.nemeses.nemesis import Nemesis, any_replica, finish

#: The variable that is set inside.
VARIABLE = "JEPSEN_ENCLOSED"
#: Bytes of a disk that a nemesis can fill.
_SMALL = 128 << 20

# The table of local addresses is moved, so that rules can come before it.
_SET_UP = (
    "ip link set lo up && ip rule add pref 100 lookup local && ip rule del pref 0 &&"
    f' {VARIABLE}=1 {NETWORK_VARIABLE}=1 exec "$@"'
)


def enclosing(needs: Iterable[Need]) -> list[str]:
    """Return what the command of the tool must begin with, if nemeses need these; else nothing."""
    if not {"own network", "disk"} & set(needs) or enclosed():
        return []
    return ["unshare", "-Urmn", "sh", "-c", _SET_UP, "enclosure"]


def enclosed() -> bool:
    """Whether this process has a network and mounts of its own."""
    return os.environ.get(VARIABLE) == "1"


@contextmanager
def small_disk(folder: Path) -> Generator[None]:
    """Put a disk of its own under a folder, which must be empty."""
    if not enclosed():
        raise RuntimeError("a small disk can only be mounted inside the enclosure")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "jepsen", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)
        folder.rmdir()


#: Before the table of local addresses.
_PREFERENCE = 20
#: Seconds until another master must be there.
_TAKEOVER_SECONDS = 20.0


def _dropping(name: str, about: str, ways: Sequence[str]) -> Nemesis:
    """Return a nemesis that drops packets between a server and some workers."""

    async def strike(field: Field, chance: random.Random) -> None:
        server = chance.choice(field.servers)
        workers = chance.sample(field.workers, chance.randint(1, len(field.workers)))
        rules = []
        for worker in workers:
            source = worker.spec.source
            up = f"from {source} to {server.host} ipproto tcp dport {server.port}"
            down = f"from {server.host} to {source} ipproto tcp sport {server.port}"
            rules += [{"up": up, "down": down}[way] for way in ways]
        # Two nemeses may want the same rule: each has those of its own.
        number = _PREFERENCE + _NUMBERS.index(name)
        rows = [f"pref {number} {rule} blackhole" for rule in rules]
        with field.struck(name, f"{' '.join(each.name for each in workers)} {server.address}"):
            try:
                await finish(_ip(f"rule add {row}" for row in rows))
                await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
            finally:
                await finish(_ip(f"rule del {row}" for row in rows))

    return Nemesis(name, about, strike, needs=frozenset({"own network"}))


_NUMBERS = ("drop", "drop-up", "drop-down")


async def _split(field: Field, chance: random.Random) -> None:
    """Cut a master and some workers off from everybody else."""
    key = field.some_key(chance)
    async with field.topology_alone("partition") as is_to_strike:
        if not is_to_strike:
            return
        in_cluster = isinstance(field.topology, EmbeddedCluster)
        where = (key,) if in_cluster else ()
        workers = chance.sample(field.workers, chance.randint(0, len(field.workers)))
        names = " ".join(worker.name for worker in workers)
        with field.struck("partition", names):
            master = await (
                field.topology.master_of(key) if in_cluster else field.topology.master()
            )
            inside = [worker.spec.source for worker in workers]
            try:
                await finish(field.topology.partition([master, *inside]))
                await field.topology.wait_master(
                    *where, other_than=master, timeout=_TAKEOVER_SECONDS
                )
                await asyncio.sleep(chance.uniform(0, 2) * field.lease_time)
            finally:
                await finish(field.topology.heal())
            await field.topology.wait_healthy()


async def _replica_gone(field: Field, chance: random.Random) -> None:
    """Freeze a replica and drop what is sent to it: else the kernel would keep it."""
    async with field.topology_alone("replica-partition") as is_to_strike:
        if not is_to_strike:
            return
        with field.struck("replica-partition"):
            replica = await any_replica(field, chance)
            await replica.pause()
            try:
                await finish(field.topology.partition([replica]))
                await asyncio.sleep(chance.uniform(0.1, 3) * field.lease_time)
            finally:
                await finish(field.topology.heal())
                await replica.resume()
            await field.topology.wait_healthy()


DROP = _dropping(
    "drop", "the kernel drops all packets between a server and some workers", ("up", "down")
)
DROP_UP = _dropping("drop-up", "the kernel drops the packets of some workers to a server", ("up",))
DROP_DOWN = _dropping(
    "drop-down", "the kernel drops the packets of a server to some workers", ("down",)
)
PARTITION = Nemesis(
    "partition",
    "a master and some workers are cut off from the rest, which replaces the master",
    _split,
    breaks=frozenset({"data"}),
    needs=frozenset({"own network", "replicas", "elects"}),
    pause=(0.5, 2),
)
REPLICA_PARTITION = Nemesis(
    "replica-partition",
    "SIGSTOP of a replica whose packets are dropped, for 0.1 to 3 leases",
    _replica_gone,
    needs=frozenset({"own network", "replicas"}),
    pause=(0.5, 2),
)
