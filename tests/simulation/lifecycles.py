"""Every lifecycle of the state machine, on a simulated server and in simulated time."""

from __future__ import annotations

from contextlib import AsyncExitStack
from contextvars import copy_context
from typing import Any

from redisson_py import Redisson
from tests.lifecycle.director import NAMES, WANTED, Director, Draw, bounded
from tests.lifecycle.play import Play
from tests.lifecycle.records import Mishap, Straggler
from tests.lifecycle.subjects import SUBJECTS
from tests.lifecycle.surroundings import OnRedis
from tests.simulation.look import Look
from tests.simulation.network import PATH, Network, Node, Path, Verdict
from tests.simulation.resp import commands_in, packed
from tests.simulation.simulation import PORT, Simulation

#: The steps of one lifecycle: as many as of the state machine.
STEPS = 35


class SimulatedLink:
    """Breaks the connections of one client."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pass_through(self) -> None:
        self.path.rule = None

    def cut(self) -> int:
        return self.path.cut()

    def cut_after_execution(self, match: Straggler) -> None:
        def rule(command: tuple[bytes, ...]) -> Verdict:
            if not match(packed(command)):
                return "pass"
            self.path.rule = None
            return "cut after"

        self.path.rule = rule


class SimulatedServers(OnRedis):
    """One simulated server, to which each client has a path of its own."""

    def __init__(self, network: Network, node: Node) -> None:
        self._network = network
        self._node = node
        self._links = 0
        self.redis: Any = Look(node)

    async def open(self, stack: AsyncExitStack) -> None:
        """Have a server: it is there."""

    def client(self, **options: Any) -> Redisson:
        host, port = self._node.address
        return Redisson.from_url(f"redis://{host}:{port}", **options)

    async def link(self) -> SimulatedLink:
        self._links += 1
        outside = self._network.loop.outside
        return SimulatedLink(self._network.new_path(outside, self._node, f"link {self._links}"))

    def behind(self, link: SimulatedLink, **options: Any) -> Redisson:
        context = copy_context()
        context.run(PATH.set, link.path)
        return context.run(lambda: self.client(**options))

    def set_memory(self, most: int) -> None:
        self._node.server.full = most > 0

    async def deliver(self, commands: list[bytes]) -> None:
        self._node.execute_late(commands_in(b"".join(commands)))


class Lifecycle:
    """One random lifecycle: what it draws, and its play."""

    def __init__(self, seed: int, kind: str) -> None:
        self.simulation = Simulation(seed)
        network = self.simulation.network
        self._chance = chance = self.simulation.chance("steps")
        node = network.add_node(PORT, chance.choice([1.0, 0.9901, 1.0099]))
        network.loop.outside.slowness = chance.choice([0.0, 0.00002])
        self.world = Play(SUBJECTS[kind], SimulatedServers(network, node))
        self._director = Director(self.world)
        self._director.ending = chance.choice(["leave", "leave", "close"])
        if chance.random() < 0.5:
            rare = NAMES[6:]
            self._director.spared = frozenset(chance.sample(rare, chance.randint(0, len(rare))))

    @property
    def grants(self) -> int:
        """How many leases were granted."""
        return len(self.world.grips)

    def run(self) -> None:
        """Play it to its end."""
        try:
            self.simulation.run(self._play)
        except BaseException as error:
            error.add_note("played:\n  " + "\n  ".join(self.world.played))
            raise

    async def _play(self) -> None:
        await bounded(self.world.open())
        for _ in range(STEPS):
            played = len(self.world.played)
            await self._director.play(self._draw())
            self.simulation.note("played", *self.world.played[played:])
        await self._director.end()
        await self.world.close()

    def _draw(self) -> Draw:
        chance = self._chance
        return Draw(
            what=chance.choice(WANTED),
            who=chance.randint(0, 5),
            which=chance.randint(0, 5),
            side=chance.randint(0, 5),
            lease_time=chance.choice([None, None, 0.05, 0.2, 60.0]),
            seconds=chance.choice([0.05, 0.2, 60.0]),
            units=chance.randint(1, 2),
            entered=chance.choice(["bare", "bare", "hold", "shared", "lease"]),
            stack=chance.random() < 0.5,
            once=chance.random() < 0.5,
            how=chance.choice(["end", "break", "error"]),
            iterations=chance.randint(1, 6),
            mishap=self._mishap(),
        )

    def _mishap(self) -> Mishap:
        chance = self._chance
        found: list[Mishap] = [
            None,
            None,
            None,
            (chance.randint(1, 4), chance.random() < 0.5),
            chance.randint(1, 12),
            "lost reply",
            "refused",
        ]
        return chance.choice(found)
