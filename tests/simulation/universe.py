"""One universe: servers, processes and faults of a seed, from the beginning to the last key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.fair_order import FairOrder
from tests.simulation.faults import Faults
from tests.simulation.kinds import KINDS, PERMITS
from tests.simulation.meetings import Meetings
from tests.simulation.network import Node
from tests.simulation.oracle import LONGEST_LEASE, Oracle
from tests.simulation.plan import Plan, plan_of
from tests.simulation.process import Process
from tests.simulation.simulation import PORT, Simulation

#: Seconds after the last fault within which every task must have done its work. It is much: laps
#: follow each other, and a dead holder blocks all others for a lease.
LONGEST = 600.0

#: Seconds after which nothing may be left on a server: a tombstone lives for a minute, some keys
#: for two leases.
LONGEST_KEY = 120.0

#: Seconds in which a waiter gets what is free: where nothing goes wrong; and where messages may be
#: lost, which the safety poll makes good.
_CALM_HAND_OFF, _SLOW_HAND_OFF = 1.0, 8.0

#: Seconds between two attempts of a call that a server refuses for now.
_LONGEST_PAUSE = 1.0

#: Seconds after which no release is under way any more, beside a third of a lease, after which a
#: connection without an answer is given up.
_SETTLED = 4.0
_CALM_SETTLED = 0.1

#: Seconds beside a third of a lease within which a holder learns of its loss, where only that
#: goes wrong.
_NEWS = 0.2

#: Hexadecimal digits of a permit's id that are its client's.
_TELLING = 20

#: The beginnings of the keys that have no end.
_LASTING = (b"redisson_lock_token:", b"semaphore", b"{semaphore}:redisson_py:total")

#: Kinds whose tasks may acquire again what they hold.
REENTRANT = {"lock", "fair_lock", "fenced_lock", "read_write_lock", "multi_lock", "red_lock"}


class Universe:
    """What one seed makes of the package.

    Attributes:
        grants: How many leases were granted, or parties released, or counts confirmed.
        meetings: What is known of a latch or a barrier.
        order: What is known of the queue of a fair lock or an election, if it is one.
    """

    def __init__(self, seed: int, kind: str) -> None:
        self.plan: Plan = plan_of(seed, kind)
        self.kind = KINDS[kind]
        self.reentrant = kind in REENTRANT
        self.simulation = Simulation(seed)
        self.loop = self.simulation.loop
        self.network = self.simulation.network
        self.chance = self.simulation.chance
        self.note = self.simulation.note
        self.nodes = [
            self.network.add_node(PORT + n, rate) for n, rate in enumerate(self.plan.rates)
        ]
        self.oracle = Oracle(self.kind, self.nodes, self.loop.time, self.plan.lease_time)
        self.meetings = Meetings(self)
        self.processes: list[Process] = []
        queues = kind in ("fair_lock", "election")
        self.order = FairOrder(self.nodes[0], self.plan.lease_time) if queues else None
        self.grants = 0
        self._receipts: set[tuple[Node, bytes]] = set()
        if self.order is not None or any(each.name == "force release" for each in self.plan.faults):
            self.network.watch = self._watch
        self._begun_at = self.loop.time()
        self._unseen: list[str] = []

    def run(self) -> None:
        """Live through it."""
        self.loop.set_exception_handler(self._unhandled)
        try:
            self.simulation.run(self._live, self._after_step)
        except BaseException as error:
            error.add_note("\n".join(self.plan.rows()))
            raise

    def _after_step(self) -> None:
        self.oracle.check()
        self.meetings.check()
        if self._unseen:
            raise AssertionError(self._unseen.pop())

    def _unhandled(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._unseen.append(f"{context.get('message')}: {context.get('exception')!r}")

    def add_process(self, tasks: int, *, last: bool = False) -> None:
        """Start one more process; nobody disturbs the last one."""
        host = self.loop.add_host(f"p{len(self.processes)}", self.plan.slowness)
        for node in self.nodes:
            path = self.network.path(host, node)
            path.late, path.repeats = self.plan.late, self.plan.repeats
            for road in (path.up, path.down):
                road.delay = road.spread = self.plan.delay
        process = Process(self, host, tasks, last=last)
        self.processes.append(process)
        process.start()

    def data_lost(self, node: Node) -> None:
        """A server loses its data now."""
        self.oracle.data_lost(node)
        self.meetings.data_lost = True
        self._receipts.clear()
        if self.order is not None:
            self.order.forget()

    def _freed_by_force(self, node: Node, receipt: bytes, owners: set[str]) -> None:
        again = (node, receipt) in self._receipts
        self._receipts.add((node, receipt))
        if owners:
            assert not again, f"a repetition has freed it from {owners}"
            self.note("freed by force:", *sorted(owners))
            self.oracle.freed(node, owners)

    @contextmanager
    def _watch(self, node: Node, command: tuple[bytes, ...]) -> Iterator[None]:
        """Look at each script: whom it frees by force, and what it does with a fair queue."""
        # Otherwise the server does not know it yet, or refuses it: nothing happens.
        ran = command[1] in node.server.scripts and not node.server.busy
        name = self.simulation.trace.names[command[1]] if ran else ""
        forces = name.endswith(".force_release")
        before = set(self.kind.owners(node)) if forces else set[str]()
        yield
        if forces:
            self._freed_by_force(node, command[4], before - set(self.kind.owners(node)))
        if self.order is not None:
            self.order.executed(name, command)

    async def _live(self) -> None:
        if self.kind.subject.is_semaphore:
            self.nodes[0].execute_late([(b"SET", b"semaphore", str(PERMITS).encode())])
        self.meetings.set_latch()
        for tasks in self.plan.tasks:
            self.add_process(tasks)
        faults = Faults(self)
        for fault in self.plan.faults:
            self.loop.at(self._begun_at + fault.begin, faults.begin, fault)
        last = max([fault.begin + fault.seconds for fault in self.plan.faults], default=0.0)
        if self.plan.calm:
            self.oracle.expect_hand_offs(_CALM_HAND_OFF + 50 * self.plan.delay)
        if self.plan.undisturbed:
            self.oracle.expect_news(self.plan.lease_time / 3 + _NEWS + 50 * self.plan.delay)
        await asyncio.sleep(last + 0.001)
        if not self.plan.calm:
            # The dead in a fair queue are skipped a lease after they were last heard of.
            patience = _SLOW_HAND_OFF + self.plan.lease_time + self.plan.late
            if self.plan.answered and self.order is None:
                patience = _CALM_HAND_OFF + _LONGEST_PAUSE + 50 * self.plan.delay
            self.oracle.expect_hand_offs(patience)
        if self.kind.is_meeting:
            self.add_process(1, last=True)
        await self._until(lambda: all(each.worked for each in self.processes if each.alive))
        if not self.plan.faults:
            await asyncio.sleep(_CALM_SETTLED + 50 * self.plan.delay)
        else:
            await asyncio.sleep(_SETTLED + self.plan.late + self.plan.lease_time / 3)
        if any(fault.seconds > self.plan.lease_time / 2 for fault in self.plan.faults):
            # What was sent into a black hole may be granted when its undo was given up.
            await asyncio.sleep(self.plan.lease_time)
        self._check_nothing_is_held()
        if self.plan.faults:
            # Where nothing goes wrong the wait was shorter than a channel stays subscribed.
            self._check_nobody_listens()
        await self._close_all()
        await asyncio.sleep(LONGEST_KEY + LONGEST_LEASE * self.plan.lease_time)
        # Who comes after all leases finds it free, and tidies up what the dead have left.
        self.add_process(1, last=True)
        await self._until(lambda: self.processes[-1].worked)
        await self._close_all()
        await asyncio.sleep(LONGEST_KEY)
        self._check_nothing_is_left()
        self._check_nobody_is_connected()

    async def _close_all(self) -> None:
        for process in self.processes:
            process.close()
        await self._until(lambda: all(each.closed for each in self.processes if each.alive))
        self._check_nobody_is_left()

    async def _until(self, condition: Callable[[], bool]) -> None:
        end = self.loop.time() + LONGEST
        while not condition():
            for process in self.processes:
                if process.error is not None:
                    raise process.error
            if self.loop.time() > end:
                left = [each for each in self.processes if each.alive and not each.closed]
                raise AssertionError(f"waits for ever: {left}")
            await asyncio.sleep(0.05)

    def _check_nothing_is_held(self) -> None:
        """Fail if a server has a hold of a client that has nothing."""
        alive = [process for process in self.processes if process.alive]
        ours = [client.id for process in alive for client in process.clients]
        # The id of a permit begins as its client's does.
        ours += [each.replace("-", "")[:_TELLING] for each in ours]
        for node in self.nodes:
            left = [owner for owner in self.kind.owners(node) if owner.startswith(tuple(ours))]
            assert not left, f"{node} has {left}, and nobody knows"

    def _check_nobody_listens(self) -> None:
        """Fail if a server has a subscription of a process that waits for nothing."""
        for node in self.nodes:
            for connection in node.sessions:
                left = connection.session.subscribed if connection.session else []
                assert connection.host.crashed or not left, f"{connection} listens to {left}"

    def _check_nobody_is_connected(self) -> None:
        """Fail if a server has a connection of a process that has closed its clients."""
        for node in self.nodes:
            left = [each for each in node.sessions if not each.host.crashed]
            assert not left, f"{node} has {left}, which were closed"
            # A session without a connection is one that carries out what comes late.
            dead = [each.session for each in node.sessions]
            lost = [each for each in node.server.sessions.values() if each not in dead]
            assert not lost, f"{node} has sessions without connections: {lost}"

    def _check_nobody_is_left(self) -> None:
        """Fail if a closed client has left a task."""
        for host, reference in self.loop.tasks:
            task = reference()
            if task is not None and not task.done() and task is not asyncio.current_task():
                assert host.crashed, f"{task.get_name()} of {host} goes on"

    def _check_nothing_is_left(self) -> None:
        """Fail if a server has kept anything that should have expired."""
        for node in self.nodes:
            names = node.server.keys()
            kept = [key for key in names if not key.startswith(_LASTING)]
            assert not kept, f"{node} keeps {kept}"
