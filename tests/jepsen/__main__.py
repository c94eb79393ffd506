"""Attack the locks and judge what was recorded.

make jepsen ARGS="--workload mutex --nemesis kill,pause --seconds 60 --seed 7"

Without a workload and a nemesis: a round of about five minutes, which has every workload, every
nemesis and every topology at least once.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import math
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from tempfile import mkdtemp

from tests.jepsen import choose, report, rounds
from tests.jepsen.checkers import CHECKERS
from tests.jepsen.history import say
from tests.jepsen.judge import judge
from tests.jepsen.machine import LackingError, to_do_without
from tests.jepsen.nemeses import NEMESES
from tests.jepsen.plan import Plan, is_kept
from tests.jepsen.result import Result
from tests.jepsen.topologies import ABOUT
from tests.jepsen.workloads import WORKLOADS

#: What Ctrl-C ends with, by the customs of shells.
INTERRUPTED = 130


def _positive(text: str) -> float:
    number = float(text)
    if not 0 < number < math.inf:
        raise ValueError(text)
    return number


def _at_least_one(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def arguments() -> argparse.ArgumentParser:
    """Return what the command line may say."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.jepsen",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--workload", help="names, or all", metavar="NAMES")
    add(
        "--nemesis", help="names, which strike together; or all, each, pairs, none", metavar="NAMES"
    )
    add("--topology", help="names, or all; else the first that can bear it", metavar="NAMES")
    add("--seconds", type=_positive, help="of each run; without names, of each run of the round")
    add("--hours", type=_positive, help="go on with random combinations for so long")
    add("--seed", type=int, default=1, help="of every choice")
    add("--jobs", type=_at_least_one, default=2, help="runs at the same time (2)")
    add("--keep", type=Path, metavar="FOLDER", help="keep all histories there")
    add("--check", type=Path, metavar="FOLDER", help="judge the histories there again")
    add("--list", action="store_true", help="list what can be named")
    return parser


def main() -> int:
    """Do what the command line says; return 0 if every checker is content."""
    parser = arguments()
    chosen = parser.parse_args()
    if chosen.list:
        listing()
        return 0
    # What a shell starts with `&` ignores SIGINT; ours is to end in order.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if chosen.check:
            results = [judge(folder) for folder in _kept(chosen.check)]
            say(report.HEADING)
            for result in results:
                _tell(result)
            return _end(results)
        return asyncio.run(_run(_plans(chosen), chosen))
    except choose.NoSuchName as error:
        parser.error(str(error))
    except LackingError as error:
        say(f"{error}\nCI is set: no nemesis may be left out")
        return 1
    except KeyboardInterrupt:
        say("interrupted; everything that was started has ended")
        return INTERRUPTED


def _plans(chosen: argparse.Namespace) -> Iterable[Plan]:
    if chosen.hours is not None:
        return _until(chosen.hours, choose.endless(chosen.seed, to_do_without()))
    if chosen.workload is None and chosen.nemesis is None and chosen.topology is None:
        return choose.default_round(chosen.seconds, chosen.seed, to_do_without())
    workload, seconds = chosen.workload or "mutex", chosen.seconds or 10
    nemesis = chosen.nemesis or ",".join(choose.USUAL)
    # What is named is tried: the run then says what is missing.
    lacking = to_do_without() if nemesis in ("all", "each", "pairs") else ()
    return choose.sweep(workload, nemesis, chosen.topology or "", seconds, chosen.seed, lacking)


def _until(hours: float, plans: Iterator[Plan]) -> Iterator[Plan]:
    end = time.monotonic() + 3600 * hours
    return itertools.takewhile(lambda _: time.monotonic() < end, plans)


def _kept(folder: Path) -> list[Path]:
    found = [each for each in (folder, *sorted(folder.glob("*"))) if is_kept(each)]
    if not found:
        raise choose.NoSuchName(f"no histories in {folder}")
    return found


async def _run(plans: Iterable[Plan], chosen: argparse.Namespace) -> int:
    folder = chosen.keep or Path(mkdtemp(prefix="jepsen-"))
    results: list[Result] = []
    say(report.HEADING)
    async with aclosing(
        rounds.several(plans, folder, chosen.jobs, keep=chosen.keep is not None)
    ) as finished:
        async for result in finished:
            results.append(result)
            _tell(result)
    if not any(folder.iterdir()):
        folder.rmdir()
    return _end(results)


def _tell(result: Result) -> None:
    say(report.row(result))
    if not result.ok:
        say(report.failure(result))


def _end(results: list[Result]) -> int:
    """Print what came out; return 0 if all is well."""
    say(report.whole(results))
    return 0 if results and all(result.ok for result in results) else 1


def listing() -> None:
    """Print what can be named, each in a line."""
    say("workloads:")
    for workload in WORKLOADS.values():
        say(f"  {workload.name:22} {workload.about}")
    say("nemeses:")
    for nemesis in NEMESES.values():
        breaks = f" (breaks: {', '.join(sorted(nemesis.breaks))})" if nemesis.breaks else ""
        say(f"  {nemesis.name:22} {nemesis.about}{breaks}")
    say("topologies:")
    for name, about in ABOUT.items():
        say(f"  {name:22} {about}")
    say("checkers:")
    for name, checker in CHECKERS.items():
        say(f"  {name:22} {(checker.__doc__ or '').strip().splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main())
