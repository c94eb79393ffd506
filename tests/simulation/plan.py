"""What a seed decides before a universe begins: who does what, and what goes wrong."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.kinds import KINDS

#: The names of faults and how often each is drawn. `faults.py` says what they are.
FAULTS = {
    "cut": 3,
    "losses": 5,
    "black hole": 3,
    "slow": 2,
    "dribble": 1,
    "refuse": 1,
    "server stops": 2,
    "server restarts": 2,
    "server loses data": 1,
    "pause": 3,
    "crash": 3,
    "scripts flushed": 1,
    "force release": 1,
}
#: The remainder by 8 of the seeds whose server is busy now and then.
_BUSY = 6
_WANTED = [name for name, often in FAULTS.items() for _ in range(often)]


#: Faults in which no connection breaks and nobody dies: each command is answered in the end.
_ANSWERED = ("force release", "scripts flushed", "server busy")


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong.

    Attributes:
        name: What; see `FAULTS`.
        begin: When, in seconds from the beginning.
        seconds: For how long.
        where: Draws the host or the server that it hits.
        level: How bad it is, from 0 to 1.
    """

    name: str
    begin: float
    seconds: float
    where: float
    level: float


@dataclass(frozen=True)
class Plan:
    """The plan of one universe.

    Attributes:
        kind: The name of what is used.
        tasks: How many tasks each process has.
        laps: How many times each task acquires.
        options: Options of the clients.
        rates: How fast the clock of each server runs.
        slowness: The usual length of a turn of an event loop, in seconds.
        delay: The usual delay of the network, in seconds.
        late: How late bytes of a closed connection may arrive.
        repeats: The share of lost replies whose command arrives again.
        cancels: The share of laps that are cancelled at some step.
        faults: What goes wrong.
    """

    seed: int
    kind: str
    tasks: tuple[int, ...]
    laps: int
    options: dict[str, Any]
    rates: tuple[float, ...]
    slowness: float
    delay: float
    late: float
    repeats: float
    cancels: float
    faults: tuple[Fault, ...] = field(default=())

    @property
    def lease_time(self) -> float:
        """The lease of the watchdog."""
        return float(self.options["lease_time"])

    @property
    def calm(self) -> bool:
        """Whether nothing goes wrong, and nobody is cancelled."""
        return not self.faults and not self.cancels

    @property
    def undisturbed(self) -> bool:
        """Whether nothing is in the way of a command and its answer."""
        return all(fault.name in ("force release", "scripts flushed") for fault in self.faults)

    @property
    def answered(self) -> bool:
        """Whether each command is answered in the end, though perhaps by a refusal."""
        return all(fault.name in _ANSWERED for fault in self.faults)

    def rows(self) -> list[str]:
        """Return it as text."""
        return [f"{name}: {value}" for name, value in vars(self).items() if name != "faults"] + [
            f"fault: {each}" for each in self.faults
        ]


def plan_of(seed: int, kind: str) -> Plan:
    """Return the plan of a seed."""
    chance = random.Random(f"{seed}: plan")
    lease_time = chance.choice([0.3, 0.6, 1.0, 3.0, 10.0])
    options = {
        "lease_time": lease_time,
        "command_timeout": chance.choice([0.5, 2.0, 10.0]),
        "turn": chance.choice([0, 0.05, 0.5]),
        "on_lost": chance.choice(["cancel", "cancel", "raise"]),
        "on_release_error": chance.choice(["log", "raise"]),
    }
    fault_count = chance.choice([0, 1, 1, 2, 3, 5])
    # Only some seeds draw this one, so that the plans of the kept seeds stay what they were.
    busy = seed % 8 == _BUSY
    horizon = lease_time * chance.choice([0.1, 0.5, 1.0, 2.0])
    faults = [
        Fault(
            name="server busy" if busy and number % 2 == 0 else chance.choice(_WANTED),
            begin=chance.random() * horizon,
            seconds=chance.random() * chance.choice([0.1, 0.5, 2.0]) * lease_time,
            where=chance.random(),
            level=chance.random(),
        )
        for number in range(fault_count)
    ]
    return Plan(
        seed=seed,
        kind=kind,
        tasks=tuple(chance.randint(1, 3) for _ in range(chance.choice([2, 2, 3, 4]))),
        laps=chance.randint(1, 4),
        options=options,
        rates=tuple(_rate(chance) for _ in range(KINDS[kind].servers)),
        slowness=chance.choice([0.0, 0.00002, 0.0002]),
        delay=chance.choice([0.00005, 0.0005, 0.005]),
        late=chance.choice([0.0, 0.01, 1.0, 5.0]) if fault_count else 0.0,
        repeats=chance.choice([0.0, 0.5, 1.0]) if fault_count else 0.0,
        cancels=chance.choice([0.0, 0.0, 0.2, 0.6]),
        faults=tuple(sorted(faults, key=lambda fault: fault.begin)),
    )


def _rate(chance: random.Random) -> float:
    """Return the rate of a server's clock: at most one per cent off, often just that."""
    return chance.choice([1.0, 0.9901, 1.0099, chance.uniform(0.9901, 1.0099)])
