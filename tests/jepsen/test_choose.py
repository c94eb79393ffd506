"""What a command line means, and what of it this machine cannot do."""

from __future__ import annotations

import signal
import sys
from itertools import islice
from pathlib import Path

import pytest

from tests.jepsen import choose, machine
from tests.jepsen.__main__ import main
from tests.jepsen.field import Need
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.plan import Plan
from tests.jepsen.topologies import TOPOLOGIES
from tests.jepsen.workloads import WORKLOADS

NEEDS: tuple[tuple[Need, ...], ...] = ((), ("own network", "disk", "clock shim"))


@pytest.mark.parametrize("lacking", NEEDS, ids=["everything", "a bare machine"])
def test_nothing_is_left_out_that_can_be_run(lacking: tuple[Need, ...]) -> None:
    able = {name for name, each in NEMESES.items() if not each.needs & set(lacking)}
    plans = choose.default_round(None, 1, lacking)
    assert {plan.workload for plan in plans} == WORKLOADS.keys()
    assert {name for plan in plans for name in plan.nemeses} == able
    assert {plan.topology for plan in plans} == TOPOLOGIES.keys()
    assert len({plan.seed for plan in plans}) == len(plans)
    for words in ("all", "each", "pairs"):
        swept = choose.sweep("mutex", words, "all", 7, 4, lacking)
        assert {name for plan in swept for name in plan.nemeses} == able
        plans += swept
    hours = [*islice(choose.endless(5, lacking), 40)]
    assert hours == [*islice(choose.endless(5, lacking), 40)]
    assert {name for plan in hours for name in plan.nemeses} <= able
    for plan in [*plans, *hours]:
        assert choose.bears(plan.workload, plan.topology, plan.nemeses)


def test_plans_as_they_are_named() -> None:
    plans = choose.sweep("mutex", "kill, pause", "", 150, 4)
    # A long run is cut; the topology is the first that can bear it.
    named = ("mutex", ("kill", "pause"), "single", 50)
    assert plans == [Plan(*named, seed) for seed in (4, 5, 6)]
    assert f'make jepsen ARGS="{words(plans[0])}"' == plans[0].command
    # What is named is tried, whatever is missing.
    (plan,) = choose.sweep("mutex", "migrate", "", 7, 4, ["cluster"])
    assert (plan.nemeses, plan.topology) == (("migrate",), "cluster")
    assert [plan.nemeses for plan in choose.sweep("mutex", "none", "single", 7, 4)] == [()]


def words(plan: Plan) -> str:
    return (
        f"--workload {plan.workload} --nemesis kill,pause --topology single"
        f" --seconds {plan.seconds:g} --seed {plan.seed}"
    )


@pytest.mark.parametrize(
    ("workload", "nemesis", "topology", "said"),
    [
        ("mutx", "kill", "single", "no such workload: mutx; there are: mutex, "),
        ("mutex", "kill,rain", "", "no such nemesis: rain; there are: kill, "),
        ("mutex", "kill", "moon", "no such topology: moon; there are: single, "),
        ("mutex", "kill", "five", "the workload mutex does not run on the topology five"),
        ("mutex", "cluster-kill", "single", "the topology single cannot bear cluster-kill"),
        ("mixed", "drop", "single", "mixed on the topology single cannot bear drop"),
        ("mutex", "cluster-kill,sentinel-kill", "", "no topology of the workload mutex bears"),
    ],
)
def test_what_is_refused(workload: str, nemesis: str, topology: str, said: str) -> None:
    with pytest.raises(choose.NoSuchName) as refused:
        choose.sweep(workload, nemesis, topology, 5, 1)
    assert said in str(refused.value)


def test_what_a_machine_lacks_is_reported_and_a_failure_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'not permitted' >&2\nexit 1\n", "utf-8")
    unshare.chmod(0o755)
    # There is no other program; nothing counts that was found on the machine of these tests.
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(machine, "lacking", machine.lacking.__wrapped__)
    assert set(machine.to_do_without()) == {"own network", "disk", "clock shim"}
    network, disk, clock = capsys.readouterr().out.splitlines()
    assert network.startswith("left out, as 'own network' is missing here (not permitted): drop, ")
    assert disk.endswith(": disk-full")
    assert "(no compiler: cc): clock-step" in clock
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(sys, "argv", ["jepsen"])
    # The signals of this process stay as they are.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main() == 1
    assert "CI is set: no nemesis may be left out" in capsys.readouterr().out
