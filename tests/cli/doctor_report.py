"""Runs `redisson-py doctor` and reads its report."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.support.command_line import invoke


@dataclass(frozen=True)
class Report:
    """What `redisson-py doctor --json` printed, and how it ended."""

    status: int
    document: dict[str, Any]

    def of(self, check: str) -> list[dict[str, Any]]:
        return [each for each in self.document["findings"] if each["check"] == check]

    def one(self, check: str) -> dict[str, Any]:
        (finding,) = self.of(check)
        return finding

    def level(self, check: str) -> str:
        return str(self.one(check)["level"])

    def found(self, check: str) -> str:
        return str(self.one(check)["found"])

    def checks(self, level: str) -> set[str]:
        """Return the checks that have a finding of a level."""
        return {each["check"] for each in self.document["findings"] if each["level"] == level}


async def examine(url: str, *options: str, timeout: float = 20) -> Report:
    """Run the command in a thread: it has an event loop of its own."""
    result = await asyncio.to_thread(
        invoke, "doctor", "--json", "--url", url, "--timeout", str(timeout), *options
    )
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert result.stderr == ""
    return Report(result.exit_code, json.loads(result.stdout))


async def printed(url: str, *options: str) -> str:
    """Return what the command prints for people."""
    result = await asyncio.to_thread(invoke, "doctor", "--url", url, *options)
    return result.stdout
