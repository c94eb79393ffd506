"""Which plans a command line means: single runs, sweeps, the default round, runs for hours."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

from tests.jepsen.nemeses import NEMESES
from tests.jepsen.nemeses.nemesis import Need
from tests.jepsen.plan import Plan
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.workloads import WORKLOADS

#: Longer runs are cut into rounds: a history is read into memory to be judged.
ROUND = 60.0

#: Words that stand for several.
ALL, EACH, PAIRS, NONE = "all", "each", "pairs", "none"

#: What a topology has for nemeses that need it; what every one has is not named.
OFFERS: dict[str, frozenset[Need]] = {
    "sentinel": frozenset({"replicas", "sentinel"}),
    "cluster": frozenset({"replicas", "cluster"}),
}
ANYWHERE: frozenset[Need] = frozenset({"links", "clock shim", "own network", "disk"})

#: The servers of a workload that needs several, each for itself.
FIVE = "five"


class NoSuchName(Exception):
    """A name on the command line is none of ours, or does not go with another one."""


def workloads(text: str) -> list[str]:
    """Return the workloads that are meant."""
    return _names(text, WORKLOADS, "workload")


def topologies(text: str) -> list[str]:
    """Return the topologies that are meant."""
    return _names(text, TOPOLOGIES, "topology")


def _names(text: str, known: dict[str, object] | object, what: str) -> list[str]:
    assert isinstance(known, dict)
    if text == ALL:
        return [*known]
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise NoSuchName(f"no such {what}: {', '.join(unknown)}; there are {', '.join(known)}")
    return names


def bears(workload: str, topology: str) -> bool:
    """Return whether a workload can run on a topology."""
    return (WORKLOADS[workload].servers > 1) == (topology == FIVE)


def strikes(nemesis: str, topology: str) -> bool:
    """Return whether a topology has what a nemesis needs."""
    return NEMESES[nemesis].needs <= ANYWHERE | OFFERS.get(topology, frozenset())


def nemeses(text: str, topology: str) -> list[tuple[str, ...]]:
    """Return the nemeses of each run that is meant, on a topology.

    Raises:
        NoSuchName: One is named that there is not, or that the topology cannot bear.
    """
    able = [name for name in NEMESES if strikes(name, topology)]
    match text:
        case "none":
            return [()]
        case "all":
            return [tuple(able)]
        case "each":
            return [(name,) for name in able]
        case "pairs":
            return list(itertools.combinations(able, 2))
    names = tuple(_names(text, NEMESES, "nemesis"))
    if unable := [name for name in names if name not in able]:
        raise NoSuchName(f"{', '.join(unable)}: not on the topology {topology}")
    return [names]


def sweep(workload: str, nemesis: str, topology: str, seconds: float, seed: int) -> list[Plan]:
    """Return the plans of all combinations that can be run.

    Raises:
        NoSuchName: There is none.
    """
    plans = [
        Plan(each, chosen, place, length, seed + number)
        for each in workloads(workload)
        for place in topologies(topology)
        if bears(each, place)
        for chosen in nemeses(nemesis, place)
        for number, length in enumerate(_rounds(seconds))
    ]
    if not plans:
        raise NoSuchName(f"the workload {workload} does not run on the topology {topology}")
    return plans


def _rounds(seconds: float) -> Sequence[float]:
    number = max(1, round(seconds / ROUND + 0.49))
    return [seconds / number] * number


def default_round(seconds: float, seed: int) -> list[Plan]:
    """Return what says most: every workload, every nemesis and every topology at least once.

    Each nemesis strikes once alone; the workloads and topologies that bear it take turns.
    Workloads that have not run by then run under `kill` and `pause`.
    """
    places = [
        (workload, topology) for workload in WORKLOADS for topology in TOPOLOGIES
        if bears(workload, topology)
    ]  # fmt: skip
    plans: list[Plan] = []
    ran: dict[str, int] = dict.fromkeys([*WORKLOADS, *TOPOLOGIES], 0)

    def add(workload: str, nemeses: tuple[str, ...], topology: str) -> None:
        ran[workload] += 1
        ran[topology] += 1
        plans.append(Plan(workload, nemeses, topology, seconds, seed + len(plans)))

    for nemesis in NEMESES:
        able = [place for place in places if strikes(nemesis, place[1])]
        workload, topology = min(able, key=lambda place: (ran[place[0]], ran[place[1]]))
        add(workload, (nemesis,), topology)
    usual = tuple(name for name in ("kill", "pause") if name in NEMESES)
    for name in [*WORKLOADS, *TOPOLOGIES]:
        if not ran[name]:
            add(*next((w, usual, t) for w, t in places if name in (w, t)))
    return plans


def endless(seed: int, begun: int) -> Iterator[Plan]:
    """Yield plans for hours: random combinations, the same for the same seed.

    A run that is resumed goes on with other plans: `begun` is how many there were before it.
    """
    for number in itertools.count(begun):
        chance = random.Random(f"{seed}/{number}")
        topology = chance.choice([*TOPOLOGIES])
        workload = chance.choice([name for name in WORKLOADS if bears(name, topology)])
        able = [name for name in NEMESES if strikes(name, topology)]
        most = chance.choice((1, 1, 2, 2, 3, len(able)))
        chosen = tuple(sorted(chance.sample(able, min(most, len(able)))))
        yield Plan(workload, chosen, topology, ROUND, seed + number)
