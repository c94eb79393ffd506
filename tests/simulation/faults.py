"""What goes wrong in a universe."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.network import Node, Path, Rule, Verdict
from tests.simulation.pipes import Road
from tests.simulation.plan import Fault

if TYPE_CHECKING:
    from tests.simulation.process import Process
    from tests.simulation.universe import Universe


class Faults:
    """Begins the faults of a plan, and ends them."""

    def __init__(self, universe: Universe) -> None:
        self._universe = universe
        self._acts: dict[str, Callable[[Fault], object]] = {
            "cut": self._cut,
            "losses": self._losses,
            "black hole": self._black_hole,
            "slow": self._slow,
            "dribble": self._dribble,
            "refuse": self._refuse,
            "server stops": self._server_stops,
            "server restarts": self._server_restarts,
            "server loses data": self._server_loses_data,
            "pause": self._pause,
            "crash": self._crash,
            "scripts flushed": self._scripts_flushed,
            "server busy": self._server_busy,
            "force release": self._force_release,
        }

    def begin(self, fault: Fault) -> None:
        """Have something go wrong now."""
        self._universe.note("fault:", fault.name, f"for {fault.seconds:.6f} s")
        self._acts[fault.name](fault)

    def _later(self, fault: Fault, end: Callable[[], object]) -> None:
        def ended() -> None:
            self._universe.note("over:", fault.name)
            end()

        loop = self._universe.loop
        loop.at(loop.time() + fault.seconds, ended)

    def _node(self, fault: Fault) -> Node:
        nodes = self._universe.nodes
        return nodes[int(fault.where * 7) % len(nodes)]

    def _process(self, fault: Fault) -> Process | None:
        alive = [each for each in self._universe.processes if each.alive]
        return alive[int(fault.where * len(alive))] if alive else None

    def _paths(self, fault: Fault) -> list[Path]:
        """Return the paths of one process, or those to one server."""
        network, node = self._universe.network, self._node(fault)
        if fault.where < 0.3:
            return [path for path in network.paths.values() if path.node is node]
        process = self._process(fault)
        return [] if process is None else [network.path(process.host, node)]

    # The network.

    def _cut(self, fault: Fault) -> None:
        for path in self._paths(fault):
            path.cut()

    def _losses(self, fault: Fault) -> None:
        chance = self._universe.chance(f"losses at {fault.begin}")
        for path in self._paths(fault):
            path.rule = losing(chance, 0.05 + 0.5 * fault.level**2)
            self._later(fault, partial(setattr, path, "rule", None))

    def _black_hole(self, fault: Fault) -> None:
        for path in self._paths(fault):
            roads = [path.up, path.down]
            if fault.level < 0.6:
                roads = roads[fault.level < 0.3 :][:1]
            for road in roads:
                road.close()
                self._later(fault, road.open)

    def _slow(self, fault: Fault) -> None:
        more = fault.level**2 * self._universe.plan.lease_time
        for path in self._paths(fault):
            for road in (path.up, path.down):
                road.spread += more
                self._later(fault, partial(_hurry, road, more))

    def _dribble(self, fault: Fault) -> None:
        for path in self._paths(fault):
            for road in (path.up, path.down):
                road.piece = 1 + int(fault.level * 60)
                self._later(fault, partial(setattr, road, "piece", 0))

    def _refuse(self, fault: Fault) -> None:
        for path in self._paths(fault):
            path.refusing = True
            path.cut()
            self._later(fault, partial(setattr, path, "refusing", False))

    # Servers.

    def _server_stops(self, fault: Fault) -> None:
        node = self._node(fault)
        node.stop()
        self._later(fault, node.go_on)

    def _server_restarts(self, fault: Fault, *, keep_data: bool = True) -> None:
        node = self._node(fault)
        if not keep_data:
            self._universe.data_lost(node)
        node.go_down(keep_data=keep_data)
        self._later(fault, node.come_up)

    def _server_loses_data(self, fault: Fault) -> None:
        # Nobody makes the permits of a semaphore again.
        self._server_restarts(fault, keep_data=self._universe.kind.subject.is_semaphore)

    def _server_busy(self, fault: Fault) -> None:
        server = self._node(fault).server
        server.busy = True
        self._later(fault, partial(setattr, server, "busy", False))

    def _scripts_flushed(self, fault: Fault) -> None:
        self._node(fault).execute_late([(b"SCRIPT", b"FLUSH")])

    # Processes.

    def _pause(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is not None:
            host = process.host
            host.paused = True
            self._later(fault, partial(setattr, host, "paused", False))

    def _crash(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is None:
            return
        self._universe.loop.crash(process.host)
        for (host, _), path in self._universe.network.paths.items():
            if host is process.host and fault.level < 0.7:
                # The kernel closes what it can still tell the server.
                for connection in list(path.connections):
                    connection.client_ended()
        if fault.level < 0.5:
            loop = self._universe.loop
            loop.at(loop.time() + fault.seconds, self._universe.add_process, 1)

    def _force_release(self, fault: Fault) -> None:
        process = self._process(fault)
        if process is not None:
            process.force_release(fault.level)


def _hurry(road: Road, less: float) -> None:
    """Have what travels on a road take less time."""
    road.spread -= less


def losing(chance: random.Random, share: float) -> Rule:
    """Return a rule that spoils a share of the commands, each in one of three ways."""

    def verdict(command: tuple[bytes, ...]) -> Verdict:
        draw = chance.random()
        if draw >= share:
            return "pass"
        draw /= share
        return "cut before" if draw < 0.3 else "cut after" if draw < 0.85 else "swallow"

    return verdict
