"""Suites of a user, run as pytest runs them: in a process and a directory of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

#: What a suite of pytest-asyncio has in its configuration; any warning is an error.
STRICT: Final = """
    [pytest]
    addopts = --strict-config --strict-markers
    asyncio_default_fixture_loop_scope = function
    filterwarnings = error
"""
AUTO: Final = STRICT + "    asyncio_mode = auto\n"
#: Seconds that a whole run may take on a busy machine.
PATIENCE: Final = 200


def run(pytester: pytest.Pytester, *args: str, ini: str = STRICT) -> pytest.RunResult:
    """Run the suite that was written; no test of ours lets it use the user's server."""
    pytester.makeini(ini)
    return pytester.runpytest_subprocess("-p", "no:cacheprovider", *args, timeout=PATIENCE)


def started(pytester: pytest.Pytester, *args: str) -> subprocess.Popen[bytes]:
    """Start the suite that was written."""
    pytester.makeini(STRICT)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    return subprocess.Popen(command, cwd=pytester.path, start_new_session=True)


def interrupt(process: subprocess.Popen[bytes]) -> int:
    """Do what Ctrl-C does, and return the exit status."""
    os.killpg(process.pid, signal.SIGINT)
    return process.wait(PATIENCE)


#: A helper for suites: `note(url)` writes down which servers there are.
NOTE: Final = """
    from pathlib import Path
    from urllib.parse import urlsplit

    def note(*urls):
        places = [place for url in urls for place in urlsplit(url).netloc.split(",")]
        Path("noted.part").write_text(" ".join(places))
        Path("noted.part").rename("noted")
"""


def noted(directory: Path) -> list[tuple[str, int]]:
    """Return host and port of the servers that a suite has written down."""
    file = directory / "noted"
    addresses = file.read_text().split() if file.exists() else []
    pairs = [address.rpartition(":") for address in addresses]
    return [(host, int(port)) for host, _, port in pairs]
