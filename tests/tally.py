"""Sum up the runs of a make target in one line: `python -m tests.tally test heart-lives ...`.

The target writes when it began, and then "failed" if something did, into a file of its name in
build/tally; its runs of pytest write what became of their tests beside it (`--tally`), into
RUN.json or RUN--PART.json. A run that wrote nothing has failed.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_FOLDER = Path("build/tally")


def main() -> int:
    """Print the line; return 1 if something failed."""
    target, *runs = sys.argv[1:]
    began, *failed = (_FOLDER / target).read_text("utf-8").split()
    tallies, silent = [], []
    for run in runs:
        found = [*_FOLDER.glob(f"{run}.json"), *_FOLDER.glob(f"{run}--*.json")]
        tallies += [json.loads(path.read_text("utf-8")) for path in found]
        if not found:
            silent.append(run)
    passed = (
        not failed and not silent and not any(each["outcomes"].get("failed") for each in tallies)
    )
    took = round(time.time() - int(began))
    line = verdict(f"make {target}", not passed, took, tallies)
    lost = "".join(f"; {run} did not come to its end" for run in silent)
    sys.stdout.write(f"{line}{lost}\n")
    return not passed


def verdict(command: str, failed: bool, seconds: int, tallies: Iterable[Mapping[str, Any]]) -> str:
    """Return the line: how it went, in which time, and what was left out for want of what.

    Args:
        command: What was run.
        failed: Whether a part of it failed.
        seconds: How long it took.
        tallies: What each run of pytest wrote.
    """
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for tally in tallies:
        outcomes.update(tally["outcomes"])
        reasons.update(tally["left out"])
    counts = [f"{outcomes['passed']} tests passed"]
    if outcomes["failed"]:
        counts.append(f"{outcomes['failed']} failed")
    counts.append(f"{reasons.total() or 'none'} left out")
    why = "".join(f"; {count}: {reason}" for reason, count in reasons.most_common())
    return (
        f"{command}: {'FAILED' if failed else 'OK'} after {seconds // 60} min {seconds % 60} s: "
        f"{', '.join(counts)}{why}"
    )


if __name__ == "__main__":
    sys.exit(main())
