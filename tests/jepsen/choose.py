"""Which plans a command line means: single runs, sweeps, the default round, runs for hours."""

from __future__ import annotations

import itertools
import random
from collections.abc import Collection, Iterator

from tests.jepsen.field import Need
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.nemeses.nemesis import Nemesis
from tests.jepsen.plan import Plan, needs_of
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.topologies import bears as topology_bears
from tests.jepsen.workloads import WORKLOADS

#: Longer runs are cut into rounds: a history is read into memory to be judged.
ROUND = 60.0

#: Of the default round: seconds of it, and those in which a run starts, ends and is judged.
FEW_MINUTES, AROUND = 300.0, 8.0
SHORTEST = 4.0

#: So many nemeses strike together in a run of the default round.
TOGETHER = 3

#: The servers of a workload that needs several, each for itself.
FIVE = "five"

#: What strikes where nothing else was named.
USUAL = ("kill", "pause")


class NoSuchName(Exception):
    """A name on the command line is none of ours, or does not go with another one."""


def named(text: str, known: Collection[str], what: str) -> list[str]:
    """Return the names in a text; `all` means every one.

    Raises:
        NoSuchName: One is not known.
    """
    if text == "all":
        return [*known]
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in known]:
        raise NoSuchName(f"no such {what}: {', '.join(unknown)}; there are: {', '.join(known)}")
    return names


def bears(workload: str, topology: str) -> bool:
    """Return whether a workload can run on a topology."""
    chosen = WORKLOADS[workload]
    if chosen.topology not in ("", topology):
        return False
    return (chosen.servers > 1) == (topology == FIVE)


def strike(nemeses: Collection[str], topology: str, workload: str = "") -> bool:
    """Return whether nemeses can strike together on a topology, and what a workload does there."""
    needs = needs_of(nemeses)
    if workload and needs & WORKLOADS[workload].without:
        return False
    return topology_bears(topology, needs)


def able_with(lacking: Collection[Need]) -> dict[str, Nemesis]:
    """Return the nemeses that can strike on a machine that lacks something."""
    return {name: each for name, each in NEMESES.items() if not each.needs & set(lacking)}


def sets(
    text: str, workload: str, topology: str, lacking: Collection[Need] = ()
) -> list[tuple[str, ...]]:
    """Return the nemeses of each run that is meant, of a workload on a topology.

    What this machine lacks leaves nemeses out, but for those that are named.

    Raises:
        NoSuchName: One is named that there is not, or that topology or workload cannot bear.
    """
    able = [name for name in able_with(lacking) if strike([name], topology, workload)]
    match text:
        case "none":
            return [()]
        case "all":
            return [tuple(able)]
        case "each":
            return [(name,) for name in able]
        case "pairs":
            return [pair for pair in itertools.combinations(able, 2) if strike(pair, topology)]
    names = tuple(named(text, NEMESES, "nemesis"))
    if not strike(names, topology, workload):
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
    plans = [
        Plan(each, chosen, place, length, seed + number)
        for each in named(workload, WORKLOADS, "workload")
        for place in _places(each, nemesis, topology)
        for chosen in sets(nemesis, each, place, lacking)
        for number, length in enumerate(_rounds(seconds))
    ]
    if not plans:
        raise NoSuchName(f"the workload {workload} does not run on the topology {topology}")
    return plans


def _places(workload: str, nemesis: str, topology: str) -> list[str]:
    """Return the topologies of a workload: those named, or the first one that can bear it all."""
    able = [name for name in TOPOLOGIES if bears(workload, name)]
    if topology:
        return [name for name in named(topology, TOPOLOGIES, "topology") if name in able]
    if nemesis in ("none", "all", "each", "pairs"):
        return able[:1]
    names = named(nemesis, NEMESES, "nemesis")
    places = [name for name in able if strike(names, name, workload)]
    if not places:
        raise NoSuchName(f"no topology of the workload {workload} bears {nemesis} together")
    return places[:1]


def _groups(lacking: Collection[Need]) -> list[tuple[str, ...]]:
    """Return every nemesis once, a few together that a topology of most workloads can bear.

    Those that break an assumption are not with others that do not: they would make figures of
    the verdicts over those.
    """
    places = [name for name in TOPOLOGIES if name != FIVE]
    groups: list[list[str]] = []
    for name, nemesis in able_with(lacking).items():
        for group in groups:
            like = NEMESES[group[0]].breaks == nemesis.breaks
            if like and len(group) < TOGETHER and any(strike([*group, name], p) for p in places):
                group.append(name)
                break
        else:
            groups.append([name])
    return [tuple(group) for group in groups]


def _all_places() -> list[tuple[str, str]]:
    """Return every workload with every topology on which it can run."""
    return [(each, place) for each in WORKLOADS for place in TOPOLOGIES if bears(each, place)]


def _rounds(seconds: float) -> list[float]:
    """Return the lengths of the rounds of a long run."""
    number = max(1, -int(-seconds // ROUND))
    return [seconds / number] * number


def default_round(
    seconds: float | None, seed: int, jobs: int, lacking: Collection[Need] = ()
) -> list[Plan]:
    """Return what says most: every workload, every nemesis and every topology at least once.

    Each nemesis strikes once, with two others that break the same assumptions; the workloads and
    topologies that bear them take turns. Workloads that have not run by then run under `kill` and
    `pause`. Without `seconds` of each run the whole takes a few minutes. Nemeses that need what
    this machine lacks are left out.
    """
    places = _all_places()
    chosen: list[tuple[str, tuple[str, ...], str]] = []
    ran: dict[str, int] = dict.fromkeys([*WORKLOADS, *TOPOLOGIES], 0)

    def add(nemeses: tuple[str, ...], able: list[tuple[str, str]]) -> None:
        workload, topology = min(able, key=lambda place: (ran[place[0]], ran[place[1]]))
        ran[workload] += 1
        ran[topology] += 1
        chosen.append((workload, nemeses, topology))

    for names in _groups(lacking):
        add(names, [place for place in places if strike(names, place[1], place[0])])
    usual = tuple(name for name in USUAL if name in NEMESES)
    for name in [*WORKLOADS, *TOPOLOGIES]:
        able = [place for place in places if name in place]
        if able and not ran[name]:
            add(usual, able)
    length = seconds or max(SHORTEST, FEW_MINUTES * jobs / len(chosen) - AROUND)
    return [
        Plan(workload, nemeses, topology, round(length, 1), seed + number)
        for number, (workload, nemeses, topology) in enumerate(chosen)
    ]


def endless(seed: int, lacking: Collection[Need] = ()) -> Iterator[Plan]:
    """Yield plans for hours: random combinations, the same for the same seed."""
    for number in itertools.count():
        chance = random.Random(f"{seed}/{number}")
        workload, topology = chance.choice(_all_places())
        chosen: list[str] = []
        most = chance.choice((1, 1, 2, 2, 3, len(NEMESES)))
        able = able_with(lacking)
        for name in chance.sample([*able], len(able)):
            if len(chosen) < most and strike([*chosen, name], topology, workload):
                chosen.append(name)
        yield Plan(workload, tuple(sorted(chosen)), topology, ROUND, seed + number)
