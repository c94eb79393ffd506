"""What a check says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

#: `problem`: locks can be lost or refused in normal operation. `warning`: they can be, or somebody
#: waits longer than necessary, when something else fails. `not visible`: this user may not see it.
Level = Literal["ok", "warning", "problem", "not visible"]

LEVELS: tuple[Level, ...] = ("problem", "warning", "not visible", "ok")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: What was looked at.
        level: How bad it is.
        found: What was found.
        todo: What to do about it; empty if nothing.
        where: The servers it is about; empty if it is about all of them together.
    """

    check: str
    level: Level
    found: str
    todo: str = ""
    where: tuple[str, ...] = ()


def ok(check: str, found: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(check, "ok", found)


def warning(check: str, found: str, todo: str) -> Finding:
    """Return a finding that matters when something else fails."""
    return Finding(check, "warning", found, todo)


def problem(check: str, found: str, todo: str) -> Finding:
    """Return a finding that matters now."""
    return Finding(check, "problem", found, todo)


def hidden(check: str, what: str, why: str) -> Finding:
    """Return that something cannot be seen, and what would show it."""
    return Finding(check, "not visible", f"{what} cannot be seen", why)


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings with those that differ in the server only made one, in their order."""
    merged: dict[Finding, tuple[str, ...]] = {}
    for finding in findings:
        same = replace(finding, where=())
        merged[same] = merged.get(same, ()) + finding.where
    return [replace(finding, where=where) for finding, where in merged.items()]


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings, problems first."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))
