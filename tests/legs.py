"""Run the tests in legs: `python -m tests.legs heart`, `python -m tests.legs cluster`.

A leg is one run of pytest: folders, what is taken of them, and the loop, server and Python it is
on. `make test` runs the legs of `HEART`, `make test-more` those of `MORE`, several at once; the
targets of the Makefile that run one leg pass their name on. Words that we do not know go to pytest.

A test that fails beside others is run once more when everything else has ended, alone: on a busy
machine a lease may end before its test gets its turn. If it passes then, the last line says so and
names it; more than `MOST_AGAIN` of those are a failure, and so is each failure in a leg that judges
what was recorded (`Leg.final`).
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

#: Where each run of pytest writes what became of its tests: tests/fixtures/legs.py.
_FOLDER = Path("build/tally")
#: How many tests may fail beside others and pass alone.
MOST_AGAIN = 3
#: The exit codes of a run of pytest that came to its end.
_ENDED = (0, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """One run of pytest, or of a make target.

    Attributes:
        about: What it shows, for `make legs`.
        folders: What it runs whole.
        marked: Folders of which it runs the tests that are marked `also(NAME)`.
        options: For pytest: server, loop, user, `-m`.
        environment: What the name of its environment ends with, if it has its own; make has a
            target of that name that installs it.
        make: The targets that it runs instead of pytest.
        final: A failure is not run again: what failed is in what was recorded.
    """

    about: str
    folders: str = ""
    marked: str = ""
    options: str = ""
    environment: str = ""
    make: str = ""
    final: bool = False


#: `make test`, the longest first.
HEART = {
    "heart-lives": Leg(about="whole lives", folders="tests/lifecycle", options="-m heart"),
    "heart-lua": Leg(about="the scripts", folders="tests/lua", options="-m heart"),
    "heart-units": Leg(about="no server", folders="tests/unit tests/house", options="-m heart"),
    "heart-stores": Leg(
        about="other stores, topologies, processes, threads",
        folders="tests/stores tests/topology tests/system tests/sync",
        options="-m heart",
    ),
    "heart-contract": Leg(about="each kind", folders="tests/contract", options="-m heart"),
    "heart-kinds": Leg(about="what is special", folders="tests/primitives", options="-m heart"),
    "heart-faults": Leg(
        about="faults, crowds, pages",
        folders="tests/faults tests/crowd tests/docs",
        options="-m heart",
    ),
}

#: `make test-more`, the longest first.
MORE = {
    "jepsen": Leg(
        about="every workload, nemesis and topology under attack, and a few sabotages",
        folders="tests/jepsen/test_a_round.py tests/jepsen/test_mutants.py",
        options="-s",
        final=True,
    ),
    "contract-stores": Leg(
        about="each kind of the other stores",
        folders="tests/contract",
        options="-m 'not heart and other_store'",
    ),
    "rest-stores": Leg(
        about="the other stores",
        folders="tests/stores",
        options="-m 'not heart' "
        + " ".join(
            f"--ignore=tests/stores/{x}" for x in ("etcd", "mysql", "postgres", "zookeeper")
        ),
    ),
    "interop": Leg(about="one lock for Java and Python", folders="tests/interop"),
    "rest-lives": Leg(
        about="long lives, faults", folders="tests/lifecycle tests/faults", options="-m 'not heart'"
    ),
    "uvloop": Leg(
        about="on uvloop",
        folders="tests/stream tests/contract tests/primitives",
        options="--loop=uvloop -m 'not other_store'",
    ),
    "rest-topology": Leg(
        about="clusters, Sentinel, replicas",
        folders="tests/topology tests/testing",
        options="-m 'not heart'",
    ),
    "cluster": Leg(
        about="on a cluster of Valkey, three masters with a replica each: each kind of lock from "
        "all sides",
        marked="tests/contract tests/primitives tests/faults tests/lifecycle",
        options="--server=cluster -m heart",
    ),
    "rest-system": Leg(
        about="several processes", folders="tests/system tests/soak", options="-m 'not heart'"
    ),
    "rest-crowd": Leg(
        about="the client queue under attack", folders="tests/crowd", options="-m 'not heart'"
    ),
    "rest-around": Leg(
        about="what stands around the locks",
        folders="tests/cli tests/docs tests/integrations tests/package tests/sync",
        options="-m 'not heart'",
    ),
    "rest-stores-own": Leg(
        about="what is special about each store",
        folders="tests/stores/etcd tests/stores/mysql tests/stores/postgres tests/stores/zookeeper",
        options="-m 'not heart'",
    ),
    "rest-kinds": Leg(
        about="what is long about each kind",
        folders="tests/contract tests/primitives tests/lua tests/stream tests/fuzz",
        options="-m 'not heart and not other_store'",
    ),
    "lifecycle-uvloop": Leg(
        about="whole lives on uvloop", folders="tests/lifecycle", options="--loop=uvloop -m heart"
    ),
    "redis62": Leg(
        about="on Redis 6.2, the oldest supported, with the documented permissions",
        folders="tests/lua tests/stream tests/faults",
        options="--server=redis62 --user=acl",
    ),
    "interop-older": Leg(
        about="an older Redisson on the oldest server still does as we do",
        marked="tests/interop",
        options="--server=redis62 --redisson=3.27.2",
    ),
    "newest": Leg(
        about="on the newest Python of this machine",
        folders="tests/unit tests/stream tests/faults",
        marked="tests/contract tests/sync",
        environment="newest",
    ),
    # What redis-py does for us: connecting, in all ways, its clients and its errors; and each kind
    # of lock once. The other legs are on the newest releases, those that pip installs.
    "floor": Leg(
        about="on the oldest releases of other packages that pyproject.toml allows",
        folders="tests/stream",
        marked="tests/cli tests/contract tests/faults tests/integrations tests/primitives "
        "tests/sync tests/topology tests/unit",
        environment="floor",
    ),
    "redis7": Leg(
        about="on the redis-server 7 on the PATH, with the documented permissions",
        folders="tests/lua tests/stream tests/primitives",
        marked="tests/faults",
        options="--server=redis7 --user=acl",
    ),
    "simulation": Leg(
        about="worlds of a seed each, in simulated time: they only calculate",
        folders="tests/simulation",
        final=True,
    ),
    # The rest waits for leases to end, or starts dozens of clients at once, for which a cluster of
    # a busy machine is too slow.
    "interop-cluster": Leg(
        about="what says most of Java and Python on a cluster, where both choose sharded pub/sub",
        marked="tests/interop",
        options="--server=cluster",
    ),
    "rest-jepsen": Leg(
        about="the parts of the attack",
        folders="tests/jepsen",
        options="--ignore=tests/jepsen/test_a_round.py --ignore=tests/jepsen/test_mutants.py",
    ),
    "stores-uvloop": Leg(
        about="the other stores on uvloop",
        marked="tests/contract tests/stores",
        options="--loop=uvloop -m 'other_store or not heart'",
    ),
    # Where replicas confirm grants, a release takes another connection than what it gives back:
    # what may come late, twice or not at all.
    "cluster+sync": Leg(
        about="on that cluster, with grants that a replica confirms",
        marked="tests/faults tests/lifecycle",
        options="--server=cluster+sync -m heart",
    ),
    "sentinel": Leg(
        about="on a master that sentinels name, found again when its connection breaks",
        marked="tests/contract tests/faults",
        options="--server=sentinel -m heart",
    ),
    "demos": Leg(about="each demo once", make="test-demos"),
    "check": Leg(about="lint, types, layers, spelling", make="check"),
}

#: Those that only their own target runs.
ALONE = {"stores": Leg(about="the other stores, all tests of them", folders="tests/stores")}

LEGS = HEART | MORE | ALONE

#: `make judge PART=fair`: what judges one part of the package, in a minute or two.
PARTS = {
    "lock": "-m heart tests/contract tests/primitives/test_lock.py tests/lua/test_lock_scripts.py"
    " tests/lua/test_golden_vectors.py -k 'lock and not (fair or fenced or read or write or multi"
    " or red or reentrant or permit or semaphore)'",
    "fair": "-m heart tests/contract tests/primitives tests/lua -k fair",
    "fenced": "-m heart tests/contract tests/primitives tests/lua -k fenced",
    "read-write": "-m heart tests/contract tests/primitives tests/lua"
    " -k 'read_lock or write_lock or read_write or writers'",
    "semaphores": "-m heart tests/contract tests/primitives tests/lua"
    " -k 'semaphore or permit or unit_queue'",
    "latch-barrier": "-m heart tests/primitives tests/lua tests/faults -k 'latch or barrier'",
    "multi-red": "-m heart tests/contract tests/primitives tests/faults -k 'multi or red_lock'",
    "holding": "tests/unit -k 'hold or schedule or watchdog or lost or lease'",
    "waiting": "tests/unit -k 'waiting or queue or wakeup or bus or listener'",
    "lives": "-m heart tests/lifecycle/test_state_machine.py tests/lifecycle/test_late_changes.py"
    " tests/lifecycle/test_blocks.py",
    "client-queue": "-m heart tests/lua tests/crowd -k 'client_queue or crowd'",
    "stream": "tests/stream",
    "lost-replies": "-m heart tests/faults -k 'lost_replies or late_duplicates'",
    "cluster": "tests/stream tests/topology/test_cluster_counts.py"
    " tests/topology/test_cluster_replies.py tests/topology/test_cluster_lifecycle.py -k cluster",
    "sentinel": "tests/topology/test_sentinel_choice.py tests/topology/test_sentinel_errors.py"
    " tests/topology/test_sentinel_lifecycle.py",
    "postgres": "tests/contract/test_acquire_release.py tests/contract/test_waiting.py"
    " tests/stores/test_databases.py tests/stores/test_client_ends.py -k postgres",
    "mysql": "tests/contract/test_acquire_release.py tests/contract/test_waiting.py"
    " tests/stores/test_databases.py tests/stores/test_client_ends.py -k mysql",
    "etcd": "tests/contract/test_acquire_release.py tests/contract/test_waiting.py"
    " tests/stores/etcd/test_store.py tests/stores/test_client_ends.py -k etcd",
    "zookeeper": "tests/contract/test_acquire_release.py tests/contract/test_waiting.py"
    " tests/stores/zookeeper/test_store.py tests/stores/test_client_ends.py -k zookeeper",
    "java": "tests/interop/test_same_steps.py tests/interop/test_exclusion.py"
    " tests/interop/test_same_counts.py",
    "sync": "tests/sync/test_same_api.py tests/sync/test_locks.py tests/sync/test_others.py",
    "cli": "tests/cli -k 'run or usage'",
    "tracing": "tests/integrations -k opentelemetry",
    "docs": "-m heart tests/docs",
    "house": "tests/house",
}


@dataclass(slots=True)
class Outcome:
    """What became of a leg.

    Attributes:
        leg: Its name.
        code: The exit code of its process.
        seconds: How long it took.
        outcomes: How many tests passed and failed.
        left_out: How many tests were left out, by the reason.
        failed: The tests that failed.
        ended: Whether it came to its end.
    """

    leg: str
    code: int
    seconds: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)
    ended: bool = True


def main() -> int:
    """Run what the command line names; return 1 if something failed."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.legs", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("name", choices=["heart", "more", "list", "judge", *LEGS], metavar="NAME")
    parser.add_argument("--part", choices=PARTS, help="what `judge` judges")
    parser.add_argument("--jobs", type=int, default=4, help="how many legs run at once")
    parser.add_argument("--called", default="", help="what to call it in the last line")
    arguments, options = parser.parse_known_args()
    name = arguments.name
    if name == "list":
        sys.stdout.writelines(f"{leg:<18}{each.about}\n" for leg, each in LEGS.items())
        return 0
    if name == "judge":
        if arguments.part is None:
            sys.stdout.write(f"the parts: {', '.join(PARTS)}\n")
            return 0
        words = [sys.executable, "-m", "pytest", "-q", *shlex.split(PARTS[arguments.part])]
        return subprocess.run([*words, *options], check=False).returncode
    if name in LEGS:
        return subprocess.run(_words(name, options), check=False).returncode
    began = time.monotonic()
    found = _all(HEART if name == "heart" else MORE, arguments.jobs, options)
    again = _run_again(found, options)
    row, good = verdict(arguments.called or name, round(time.monotonic() - began), found, again)
    sys.stdout.write(f"{row}\n")
    return not good


def verdict(
    called: str, seconds: int, found: Sequence[Outcome], again: Iterable[str] = ()
) -> tuple[str, bool]:
    """Return the last line, and whether everything passed.

    Args:
        called: What was run.
        seconds: How long it took.
        found: What became of each leg.
        again: The tests that failed there and passed alone.
    """
    again = list(again)
    outcomes = sum((each.outcomes for each in found), Counter[str]())
    reasons = sum((each.left_out for each in found), Counter[str]())
    failed = [test for each in found for test in each.failed if test not in again]
    broken = [each.leg for each in found if not each.ended]
    good = not failed and not broken and len(again) <= MOST_AGAIN
    said = [f"{outcomes['passed'] + len(again)} tests passed"]
    if failed:
        said.append(f"{len(failed)} failed")
    said.append(f"{reasons.total() or 'none'} left out")
    notes = [f"; {count}: {reason}" for reason, count in reasons.most_common()]
    if again:
        notes.append(f"; {len(again)} of the passed failed beside others and passed alone: ")
        notes.append(", ".join(again))
    notes += [f"; {leg} did not come to its end" for leg in broken]
    return (
        f"{called}: {'OK' if good else 'FAILED'} after {seconds // 60} min {seconds % 60} s: "
        f"{', '.join(said)}{''.join(notes)}",
        good,
    )


def _all(legs: Iterable[str], jobs: int, options: Sequence[str]) -> list[Outcome]:
    """Run legs, so many at once; each prints what it has when it ends."""

    def run(name: str) -> Outcome:
        return _run(name, [*options, f"--tally={_tally(name)}"])

    _FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(jobs) as threads:
        return list(threads.map(run, legs))


def _run_again(found: Iterable[Outcome], options: Sequence[str]) -> list[str]:
    """Run the tests that failed once more, one leg after the other; return those that pass."""
    failed = [each for each in found if each.ended and each.failed and not LEGS[each.leg].final]
    if sum(len(each.failed) for each in failed) > MOST_AGAIN:
        return []
    passed: list[str] = []
    for each in failed:
        tally = _tally(f"{each.leg}-again")
        outcome = _run(each.leg, [*options, f"--tally={tally}"], each.failed)
        if outcome.ended and not outcome.failed:
            passed += each.failed
    return passed


def _run(name: str, options: Sequence[str], tests: Sequence[str] = ()) -> Outcome:
    """Run a leg, or these tests of it, and print what it printed when it has ended."""
    tally = next(Path(each.partition("=")[2]) for each in options if each.startswith("--tally="))
    tally.unlink(missing_ok=True)
    began = time.monotonic()
    if (install := LEGS[name].environment) and not tests:
        made = subprocess.run(
            _make(f"{install}-environment"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        if made.returncode:
            sys.stdout.buffer.write(made.stdout)
            return Outcome(name, made.returncode, ended=False)
    words = _words(name, options, tests)
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    outcome = Outcome(name, done.returncode, round(time.monotonic() - began))
    if LEGS[name].make:
        outcome.ended = not done.returncode
    elif tally.exists() and done.returncode in _ENDED:
        written = json.loads(tally.read_text("utf-8"))
        outcome.outcomes = Counter(written["outcomes"])
        outcome.left_out = Counter(written["left out"])
        outcome.failed = written["failed"]
        # The run failed, and no test of it.
        outcome.ended = bool(outcome.failed) == bool(done.returncode)
    else:
        outcome.ended = False
    text = done.stdout.decode("utf-8", "replace").rstrip()
    sys.stdout.write(f"{name}, {outcome.seconds} s: {' '.join(words)}\n{text}\n")
    sys.stdout.flush()
    return outcome


def _words(name: str, options: Sequence[str], tests: Sequence[str] = ()) -> list[str]:
    """Return the command of a leg, or of some tests of it."""
    leg = LEGS[name]
    if leg.make:
        return _make(*leg.make.split())
    python = sys.executable
    if leg.environment:
        python = f"{os.environ['VENV']}-{leg.environment}/bin/python"
    chosen = [f"--leg={name}"] if leg.marked else []
    paths = tests or [*leg.folders.split(), *leg.marked.split()]
    return [python, "-m", "pytest", "-q", *chosen, *shlex.split(leg.options), *options, *paths]


def _make(*targets: str) -> list[str]:
    return ["make", "--no-print-directory", *targets]


def _tally(name: str) -> Path:
    return _FOLDER / f"{name}.json"


if __name__ == "__main__":
    sys.exit(main())
