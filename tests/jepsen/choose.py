"""Which plans a command line means: single runs, sweeps, the default round, runs for hours."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator

from tests.jepsen.field import Need
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.plan import Plan, needs_of
from tests.jepsen.topologies import PROVIDES, TOPOLOGIES
from tests.jepsen.workloads import WORKLOADS

#: Seconds of a run of the default round. What is shorter strikes too rarely.
SECONDS = 12.0

#: Longer runs are cut into rounds: a history is read into memory to be judged.
ROUND = 60.0

#: So many nemeses strike together in a run of the default round.
TOGETHER = 3

#: What strikes where nothing else was named.
USUAL = ("kill", "pause")


class NoSuchName(Exception):
    """A name on the command line is none of ours, or does not go with another one."""


def bears(workload: str, topology: str, nemeses: Collection[str] = ()) -> bool:
    """Return whether a workload can run on a topology while nemeses strike together."""
    chosen, needs = WORKLOADS[workload], needs_of(nemeses)
    fits = chosen.topology in ("", topology) and (chosen.servers > 1) == (topology == "five")
    return fits and not needs & chosen.without and needs <= set(PROVIDES[topology])


def _named(text: str, known: Collection[str], what: str) -> list[str]:
    """Return the names in a text; `all` means every one."""
    if text == "all":
        return [*known]
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise NoSuchName(f"no such {what}: {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


def _able(lacking: Collection[Need]) -> list[str]:
    """Return the nemeses that can strike on a machine that lacks something."""
    return [name for name, each in NEMESES.items() if not each.needs & set(lacking)]


def sets(
    text: str, workload: str, topology: str, lacking: Collection[Need] = ()
) -> list[tuple[str, ...]]:
    """Return the nemeses of each run that is meant, of a workload on a topology.

    What this machine lacks leaves nemeses out, but for those that are named.

    Raises:
        NoSuchName: One is named that there is not, or that topology or workload cannot bear.
    """
    able = [name for name in _able(lacking) if bears(workload, topology, [name])]
    match text:
        case "none":
            return [()]
        case "all":
            return [tuple(able)]
        case "each":
            return [(name,) for name in able]
        case "pairs":
            pairs = itertools.combinations(able, 2)
            return [pair for pair in pairs if bears(workload, topology, pair)]
    names = tuple(_named(text, NEMESES, "nemesis"))
    if not bears(workload, topology, names):
        raise NoSuchName(f"{workload} on the topology {topology} cannot bear {text}")
    return [names]


def sweep(
    workload: str,
    nemesis: str,
    topology: str,
    seconds: float,
    seed: int,
    lacking: Collection[Need] = (),
) -> list[Plan]:
    """Return the plans of all combinations that can be run; without a topology, of the first.

    Raises:
        NoSuchName: There is none.
    """
    number = max(1, -int(-seconds // ROUND))
    plans = [
        Plan(each, chosen, where, seconds / number, seed + again)
        for each in _named(workload, WORKLOADS, "workload")
        for where in _where(each, nemesis, topology)
        for chosen in sets(nemesis, each, where, lacking)
        for again in range(number)
    ]
    if not plans:
        raise NoSuchName(f"the workload {workload} does not run on the topology {topology}")
    return plans


def _where(workload: str, nemesis: str, topology: str) -> list[str]:
    """Return the topologies of a workload: those named, or the first one that can bear it all."""
    if topology:
        named = _named(topology, TOPOLOGIES, "topology")
        return [name for name in named if bears(workload, name)]
    several = nemesis in ("none", "all", "each", "pairs")
    names = [] if several else _named(nemesis, NEMESES, "nemesis")
    found = [name for name in TOPOLOGIES if bears(workload, name, names)]
    if not found:
        raise NoSuchName(f"no topology of the workload {workload} bears {nemesis} together")
    return found[:1]


def _groups(lacking: Collection[Need]) -> list[list[str]]:
    """Return every nemesis once, a few together that a topology of most workloads can bear.

    Those that break an assumption are not with others that do not: they would make figures of
    the verdicts over those.
    """
    groups: list[list[str]] = []
    for name in _able(lacking):
        for group in groups:
            like = NEMESES[group[0]].breaks == NEMESES[name].breaks
            together = [*group, name]
            if (
                like
                and len(group) < TOGETHER
                and any(bears("mutex", where, together) for where in TOPOLOGIES)
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


_ALL_PAIRS = [(each, where) for each in WORKLOADS for where in TOPOLOGIES if bears(each, where)]


def default_round(seconds: float | None, seed: int, lacking: Collection[Need] = ()) -> list[Plan]:
    """Return what says most: every workload, every nemesis and every topology at least once.

    Each nemesis strikes once, with two others that break the same assumptions; the workloads and
    topologies that bear them take turns. Workloads that have not run by then run under `kill` and
    `pause`. Nemeses that need what this machine lacks are left out.
    """
    plans: list[Plan] = []
    ran: dict[str, int] = dict.fromkeys([*WORKLOADS, *TOPOLOGIES], 0)

    def add(nemeses: Collection[str], name: str = "") -> None:
        able = [pair for pair in _ALL_PAIRS if bears(*pair, nemeses) and name in ("", *pair)]
        workload, topology = min(able, key=lambda pair: (ran[pair[0]], ran[pair[1]]))
        ran[workload] += 1
        ran[topology] += 1
        where = (tuple(nemeses), topology, seconds or SECONDS, seed + len(plans))
        plans.append(Plan(workload, *where))

    for names in _groups(lacking):
        add(names)
    for name in ran:
        if not ran[name]:
            add(USUAL, name)
    return plans


def endless(seed: int, lacking: Collection[Need] = ()) -> Iterator[Plan]:
    """Yield plans for hours: random combinations, the same for the same seed."""
    able = _able(lacking)
    for number in itertools.count():
        chance = random.Random(f"{seed}/{number}")
        workload, topology = chance.choice(_ALL_PAIRS)
        chosen: list[str] = []
        most = chance.choice((1, 1, 2, 2, 3, len(NEMESES)))
        for name in chance.sample(able, len(able)):
            if len(chosen) < most and bears(workload, topology, [*chosen, name]):
                chosen.append(name)
        yield Plan(workload, tuple(sorted(chosen)), topology, ROUND, seed + number)
