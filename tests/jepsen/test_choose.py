"""What a command line means."""

from __future__ import annotations

from itertools import islice

import pytest

from tests.jepsen import choose
from tests.jepsen.field import Need
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.plan import Plan
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.workloads import WORKLOADS


def test_the_default_round_leaves_nothing_out() -> None:
    plans = choose.default_round(None, 1, jobs=2)
    assert {plan.workload for plan in plans} == WORKLOADS.keys()
    assert {name for plan in plans for name in plan.nemeses} == NEMESES.keys()
    assert {plan.topology for plan in plans} == TOPOLOGIES.keys()
    assert all(choose.bears(plan.workload, plan.topology) for plan in plans)
    assert all(choose.strike(plan.nemeses, plan.topology, plan.workload) for plan in plans)
    assert len({plan.seed for plan in plans}) == len(plans)


@pytest.mark.parametrize("need", ["own network", "disk", "clock shim"])
def test_what_the_machine_lacks_leaves_nemeses_out(need: Need) -> None:
    without = {name for name, each in NEMESES.items() if need not in each.needs}
    assert without < NEMESES.keys()
    plans = choose.default_round(None, 1, 2, [need])
    assert {name for plan in plans for name in plan.nemeses} == without
    assert {plan.workload for plan in plans} == WORKLOADS.keys()
    assert {plan.topology for plan in plans} == TOPOLOGIES.keys()
    for words in ("all", "each", "pairs"):
        plans = choose.sweep("mutex", words, "all", 7, 4, [need])
        assert {name for plan in plans for name in plan.nemeses} == without
    plans = [*islice(choose.endless(5, [need]), 40)]
    assert {name for plan in plans for name in plan.nemeses} <= without
    # What is named is tried.
    named = next(name for name in NEMESES if name not in without)
    assert choose.sweep("mutex", named, "", 7, 4, [need])[0].nemeses == (named,)


def test_the_default_round_takes_its_time_or_the_time_that_is_given() -> None:
    plans = choose.default_round(None, 1, jobs=2)
    taken = sum(plan.seconds + choose.AROUND for plan in plans) / 2
    shortest = len(plans) * (choose.SHORTEST + choose.AROUND) / 2
    assert taken <= max(choose.FEW_MINUTES, shortest) + len(plans)
    assert {plan.seconds for plan in choose.default_round(3, 1, jobs=2)} == {3}


def test_one_plan_as_it_is_named() -> None:
    plans = choose.sweep("mutex", "kill, pause", "single", 7, 4)
    assert plans == [Plan("mutex", ("kill", "pause"), "single", 7, 4)]


def test_the_topology_is_the_first_that_can_bear_it() -> None:
    assert [plan.topology for plan in choose.sweep("mutex", "kill", "", 7, 4)] == ["single"]
    needy = next(name for name, each in NEMESES.items() if "cluster" in each.needs)
    assert [plan.topology for plan in choose.sweep("mutex", needy, "", 7, 4)] == ["cluster"]


def test_each_and_pairs_are_what_a_topology_can_bear() -> None:
    each = choose.sweep("mutex", "each", "single", 7, 4)
    assert all(len(plan.nemeses) == 1 for plan in each)
    able = {name for name in NEMESES if choose.strike([name], "single")}
    assert {plan.nemeses[0] for plan in each} == able
    pairs = choose.sweep("mutex", "pairs", "single", 7, 4)
    assert len(pairs) > len(each)
    assert all(choose.strike(plan.nemeses, "single") for plan in pairs)
    assert [plan.nemeses for plan in choose.sweep("mutex", "none", "single", 7, 4)] == [()]


def test_all_together_can_be_borne() -> None:
    for topology in TOPOLOGIES:
        for names in choose.sets("all", "mutex", topology):
            assert choose.strike(names, topology)


def test_a_long_run_is_cut_into_rounds_of_other_seeds() -> None:
    plans = choose.sweep("mutex", "kill", "single", 150, 4)
    assert [plan.seconds for plan in plans] == [50, 50, 50]
    assert [plan.seed for plan in plans] == [4, 5, 6]


@pytest.mark.parametrize(
    ("workload", "nemesis", "topology", "said"),
    [
        ("mutx", "kill", "single", "no such workload: mutx; there are: mutex, "),
        ("mutex", "kill,rain", "single", "no such nemesis: rain; there are: kill, "),
        ("mutex", "rain", "", "no such nemesis: rain"),
        ("mutex", "kill", "moon", "no such topology: moon; there are: single, "),
        ("mutex", "kill", "five", "the workload mutex does not run on the topology five"),
        (
            "mutex",
            "cluster-kill",
            "single",
            "the topology single cannot bear cluster-kill",
        ),
        ("mixed", "drop", "single", "mixed on the topology single cannot bear drop"),
        ("mutex", "cluster-kill,sentinel-kill", "", "no topology of the workload mutex bears"),
    ],
)
def test_what_is_refused(workload: str, nemesis: str, topology: str, said: str) -> None:
    with pytest.raises(choose.NoSuchName) as refused:
        choose.sweep(workload, nemesis, topology, 5, 1)
    assert said in str(refused.value)


def test_plans_for_hours_are_the_same_for_a_seed() -> None:
    plans = [*islice(choose.endless(5), 40)]
    assert plans == [*islice(choose.endless(5), 40)]
    assert plans != [*islice(choose.endless(6), 40)]
    assert all(choose.strike(plan.nemeses, plan.topology, plan.workload) for plan in plans)
    assert all(choose.bears(plan.workload, plan.topology) for plan in plans)
