"""Histories of perfect objects, made up with a seed: what a checker must find nothing in.

Each is made from the order of things in an imaginary server, which no client sees: clients record
when they asked and when they were answered.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.jepsen.history import History, Op, Outcome

MS = 1_000_000
LEASE = 1000 * MS
#: How much sooner than the server a holder takes its lease for lost.
DRIFT = 10 * MS


@dataclass
class World:
    """The operations of one simulated run.

    Attributes:
        chance: Its random choices.
        tasks: How many tasks there are, two in a process.
        ops: What they recorded.
        free: When each task may do the next thing.
    """

    chance: random.Random
    tasks: int = 6
    ops: list[Op] = field(default_factory=list)
    free: dict[int, int] = field(default_factory=dict)

    def task(self) -> int:
        """Choose a task."""
        return self.chance.randrange(self.tasks)

    def asks(self, task: int) -> int:
        """Return when a task does its next thing."""
        return self.free.get(task, 0) + self.some()

    def some(self, most: int = 5 * MS) -> int:
        """Return a short time."""
        return self.chance.randint(1, most)

    def add(self, task: int, op: str, obj: str, t0: int, t1: int | None, out: Outcome = "ok",
            **facts: Any) -> None:  # fmt: skip
        """Record an operation of a task."""
        process, handle = f"w{task // 2}", f"w{task // 2}.{task % 2}"
        self.ops.append(Op(process, handle, op, obj, t0, t1, out, **facts))
        if t1 is not None:
            self.free[task] = max(t1, self.free.get(task, 0))

    def note(self, process: str, op: str, obj: str, moment: int, **facts: Any) -> None:
        """Record what took no time."""
        self.ops.append(Op(process, process, op, obj, moment, moment, "ok", **facts))


def lock(seed: int, sections: int = 60, *, losses: float = 0.15, depth: int = 1) -> History:
    """Return a history of a fenced lock that protects a resource.

    Args:
        seed: Of its choices.
        sections: How many holds there are.
        losses: How likely a hold is lost, or its holder killed.
        depth: How often a task enters at most.
    """
    world = World(random.Random(seed))
    free = token = value = 0
    passing: tuple[int, str] | None = None
    for number in range(sections):
        task = world.task()
        if passing is not None and passing[0] // 2 != task // 2:
            passing = None
        rid, owner = f"s{number}", passing[1] if passing else f"o{number}"
        asked = world.asks(task)
        grant = max(asked, free) + world.some()
        token += world.chance.randint(1, 3)
        end, deadline = grant + LEASE, grant + LEASE - DRIFT
        world.note("resource", "ask", "x", asked - 1, rid=rid)
        world.add(task, "acquire", "x", asked, grant + world.some(), rid=rid, owner=owner,
                  fence=token, n=1, deadline=deadline)  # fmt: skip
        entered = world.chance.randint(1, depth) - 1
        for count in range(2, entered + 2):
            moment = world.asks(task)
            world.add(task, "reenter", "x", moment, moment + world.some(), rid=rid, owner=owner,
                      fence=token, n=count, value=count)  # fmt: skip
        begun = world.asks(task)
        world.note("resource", "begin", "x", begun, rid=rid, owner=owner, fence=token)
        world.free[task] = begun + 1
        for _ in range(world.chance.randint(0, 3)):
            renewed = world.asks(task) + world.some(LEASE // 3)
            end, deadline = renewed + LEASE, renewed + LEASE - DRIFT
            looked = renewed + world.some()
            world.add(task, "check", "x", looked, looked, rid=rid, deadline=deadline)
            world.note("probe", "probe", "x", looked + 1, rid="lease", owner=owner,
                       n=(end - looked - 1) // MS)  # fmt: skip
            world.free[task] = looked + 2
        wrote = world.asks(task)
        world.free[task], value = wrote + 1, value + 1
        world.note("resource", "write", "x", wrote, rid=rid, fence=token, value=value)
        for count in range(entered, 0, -1):
            moment = world.asks(task)
            world.add(task, "leave", "x", moment, moment + world.some(), rid=rid, n=count,
                      value=count)  # fmt: skip
        if world.chance.random() < losses:
            free, passing = _lose(world, task, rid, owner, end, deadline), None
            continue
        begin = world.asks(task)
        given = begin + world.some()
        out: Outcome = "info" if world.chance.random() < losses else "ok"
        world.add(task, "release", "x", begin, given + world.some(), out, rid=rid, n=0)
        free = given
        passing = (task, owner) if out == "ok" and world.chance.random() < 0.3 else None
    return History(world.ops)


def _lose(world: World, task: int, rid: str, owner: str, end: int, deadline: int) -> int:
    """Lose a hold, or kill its holder; return from when on the server lets others in."""
    if world.chance.random() < 0.5:
        struck = world.asks(task)
        world.ops.append(Op("nemesis", "nemesis", "nemesis", f"w{task // 2}", struck,
                            struck + world.some(), "info", rid="kill worker"))  # fmt: skip
        world.free[task] = struck + world.some()
        return end
    told = deadline + world.some(DRIFT // 2)
    world.note(f"w{task // 2}-told", "told", "x", told, owner=owner, err="expired")
    world.add(task, "check", "x", told + 1, told + 1, "fail", rid=rid)
    world.add(task, "release", "x", told + 2, told + 3, "info", rid=rid)
    return end


def semaphore(seed: int, limit: int = 5, sections: int = 60) -> History:
    """Return a history of a semaphore, with one request for one to three units a section."""
    world = World(random.Random(seed))
    out: list[tuple[int, int]] = []
    grant = 0
    for number in range(sections):
        task, units = world.task(), world.chance.randint(1, min(3, limit))
        asked = world.asks(task)
        grant = max(asked, grant) + world.some()
        while sum(n for given, n in out if given > grant) + units > limit:
            grant = min(given for given, _ in out if given > grant)
        rid = f"s{number}"
        world.add(task, "acquire", "s", asked, grant + world.some(), rid=rid, owner=f"o{number}",
                  n=units, deadline=grant + LEASE)  # fmt: skip
        begin = world.asks(task) + world.some(20 * MS)
        given = begin + world.some()
        world.add(task, "release", "s", begin, given + world.some(), rid=rid, n=units)
        out.append((given, units))
    end = max(given for given, _ in out) + LEASE
    world.ops.append(Op("probe", "quiet", "probe", "s", end, end, "ok", rid="available", n=limit))
    return History(world.ops)


def read_write(seed: int, sections: int = 60) -> History:
    """Return a history of a read-write lock."""
    world = World(random.Random(seed))
    read = written = 0
    for number in range(sections):
        task, mode = world.task(), world.chance.choice(["read", "read", "write"])
        asked = world.asks(task)
        grant = max(asked, written if mode == "read" else max(read, written)) + world.some()
        rid = f"s{number}"
        world.add(task, "acquire", "rw", asked, grant + world.some(), rid=rid, owner=f"o{number}",
                  deadline=grant + LEASE, value=mode)  # fmt: skip
        begin = world.asks(task) + world.some(20 * MS)
        given = begin + world.some()
        world.add(task, "release", "rw", begin, given + world.some(), rid=rid)
        if mode == "read":
            read = max(read, given)
        else:
            written = given
    return History(world.ops)


def fair(seed: int, sections: int = 60) -> History:
    """Return a history of a fair lock: requests reach the server in order, and are granted so."""
    world = World(random.Random(seed))
    queued = free = 0
    for number in range(sections):
        task, rid = world.task(), f"s{number}"
        asked = world.asks(task)
        queued = max(asked, queued) + world.some(MS)
        free = max(free, queued) + world.some(MS)
        world.add(task, "ticket", "f", asked, queued + world.some(MS), rid=rid)
        world.free[task] = asked
        granted = max(free, queued) + world.some(MS)
        world.add(task, "acquire", "f", asked, granted, rid=rid, deadline=granted + LEASE)
        free = granted + world.some(10 * MS)
        world.add(task, "release", "f", free, free + world.some(MS), rid=rid)
        free += MS
    return History(world.ops)


def latches(seed: int, generations: int = 20, counters: int = 3) -> History:
    """Return a history of latches, each of which is used once."""
    world = World(random.Random(seed))
    for generation in range(generations):
        obj = f"latch-{generation}"
        opens = 0
        for task in range(counters):
            asked = world.asks(task)
            opens = max(opens, asked + world.some())
            world.add(task, "count_down", obj, asked, opens + world.some(), rid=f"{obj}-{task}")
        for task in range(counters, world.tasks):
            asked = world.asks(task)
            if asked < opens and world.chance.random() < 0.3:
                world.add(task, "await", obj, asked, asked + 1, "fail", value=counters)
            asked = world.asks(task)
            until = max(asked, opens) + world.some()
            world.add(task, "await", obj, asked, until, value=counters)
    return History(world.ops)


def barriers(seed: int, generations: int = 20) -> History:
    """Return a history of a barrier of all six tasks."""
    world = World(random.Random(seed))
    for generation in range(generations):
        asked = {task: world.asks(task) for task in range(world.tasks)}
        trips = max(asked.values()) + 1
        for task, moment in asked.items():
            world.add(task, "arrive", "b", moment, trips + world.some(), n=generation)
    return History(world.ops)


def set_adds(seed: int, elements: int = 60) -> History:
    """Return a history of a set under a lock, with its last read."""
    world = World(random.Random(seed))
    there: list[int] = []
    free = 0
    for number in range(elements):
        task = world.task()
        asked = max(world.asks(task), free)
        free = asked + world.some()
        chance = world.chance.random()
        out: Outcome = "ok" if chance < 0.8 else "info" if chance < 0.9 else "fail"
        if out == "ok" or (out == "info" and world.chance.random() < 0.5):
            there.append(number)
        world.add(task, "add", "set", asked, free, out, value=number)
    world.note("w0", "read", "set", free + MS, value=there)
    return History(world.ops)


def register(seed: int, calls: int = 60) -> History:
    """Return a history of a register that tasks read and write as they like."""
    world = World(random.Random(seed))
    value = moment = 0
    for number in range(1, calls + 1):
        task = world.task()
        asked = world.asks(task)
        moment = max(asked, moment) + world.some(MS)
        if world.chance.random() < 0.5:
            value = number
            world.add(task, "write", "r", asked, moment + world.some(), value=value)
        else:
            world.add(task, "read", "r", asked, moment + world.some(), value=value)
    return History(world.ops)
