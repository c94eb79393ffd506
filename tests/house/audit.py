"""What we depend on at run time: its licences, and its known vulnerabilities.

    python -m tests.house.audit

Vulnerabilities are looked up by `pip-audit`, which asks the package index and OSV. Where these
do not answer, nothing is known: that is said in one line, and is a failure with AUDIT=required.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT: Final = "redisson-py"

#: What stands in the metadata of a package, in part, for a licence that obliges users to nothing
#: but to name the authors. MPL-2.0 is about changes to its own files.
_ALLOWED: Final = re.compile(r"\b(MIT|BSD|Apache|PSF|Python Software|ISC|MPL|Mozilla)\b")

#: Said beside an allowed licence, these rule it out.
_REFUSED: Final = re.compile(r"GPL|General Public|SSPL|Commons Clause|BUSL|Proprietary")

_SECONDS: Final = 300.0

say = partial(print, flush=True)


@dataclass(frozen=True)
class Outcome:
    """What was found.

    Attributes:
        text: One line for people.
        failed: Whether `make check` fails.
    """

    text: str
    failed: bool


def needed(root: str = _ROOT) -> dict[str, Distribution]:
    """Return all that is installed of what a package needs at run time, its extras included."""
    found: dict[str, Distribution] = {}
    extras = tuple(distribution(root).metadata.get_all("Provides-Extra") or ())
    to_see: list[tuple[str, tuple[str, ...]]] = [(root, extras)]
    while to_see:
        name, wanted = to_see.pop()
        try:
            package = distribution(name)
        except PackageNotFoundError:
            # Of an extra that is not installed here.
            continue
        if name != root:
            found[canonicalize_name(name)] = package
        for row in package.requires or ():
            needs = Requirement(row)
            marker = needs.marker
            applies = marker is None or any(
                marker.evaluate({"extra": extra}) for extra in (*wanted, "")
            )
            if applies and canonicalize_name(needs.name) not in found:
                to_see.append((needs.name, tuple(needs.extras)))
    return found


def licence(metadata: Mapping[str, Any]) -> str:
    """Return what a package says of its licence: an expression, classifiers, or a first line."""
    fields: Any = metadata
    expression = str(fields.get("License-Expression") or "")
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in fields.get_all("Classifier") or ()
        if each.startswith("License :: ")
    ]
    text = str(fields.get("License") or "").strip().partition("\n")[0]
    return expression or ", ".join(classifiers) or text


def is_allowed(said: str) -> bool:
    """Return whether a licence is on our list."""
    return bool(_ALLOWED.search(said)) and not _REFUSED.search(said)


def check_licences(packages: Mapping[str, str]) -> Outcome:
    """Judge the licences of packages."""
    wrong = [
        f"{name} ({said or 'none'})" for name, said in packages.items() if not is_allowed(said)
    ]
    if wrong:
        return Outcome(f"licences that are not on our list: {', '.join(sorted(wrong))}", True)
    return Outcome(f"licences: {len(packages)} packages, all on our list", False)


def judge(report: str, names: Iterable[str], *, required: bool) -> Outcome:
    """Judge what `pip-audit` reported of packages; an empty report is none.

    A package that it could not look up is not known to be well.
    """
    wanted = set(names)
    seen: dict[str, dict[str, Any]]
    try:
        rows = json.loads(report)["dependencies"]
        seen = {str(canonicalize_name(row["name"])): row for row in rows}
    except (ValueError, KeyError, TypeError):
        seen = {}
    bad = [
        f"{name} {row.get('version')}: {', '.join(each['id'] for each in row['vulns'])}"
        for name, row in seen.items()
        if name in wanted and row.get("vulns")
    ]
    looked = [name for name in wanted if "vulns" in seen.get(name, {})]
    if bad:
        return Outcome(f"known vulnerabilities: {'; '.join(sorted(bad))}", True)
    if len(looked) == len(wanted):
        return Outcome(f"no known vulnerability in {len(looked)} packages", False)
    text = (
        f"vulnerabilities: could not look up {len(wanted) - len(looked)} of {len(wanted)} packages"
    )
    return Outcome(f"{text}{', and AUDIT=required' if required else ''}", required)


def report() -> str:
    """Return the report of `pip-audit` on what is installed here, or nothing if there is none."""
    command = (sys.executable, "-m", "pip_audit", "--progress-spinner", "off", "--format", "json")
    try:
        run = subprocess.run(
            (*command, "--skip-editable"),
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ""
    # A status of 1 also means that something was found: the report decides.
    return run.stdout


def main() -> int:
    """Check both; return how the process should end."""
    packages = needed()
    licences = {name: licence(package.metadata) for name, package in packages.items()}  # type: ignore[arg-type]
    required = os.environ.get("AUDIT") == "required"
    outcomes = (check_licences(licences), judge(report(), packages, required=required))
    for outcome in outcomes:
        say(f"{'FAILED: ' if outcome.failed else ''}{outcome.text}")
    return int(any(outcome.failed for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
