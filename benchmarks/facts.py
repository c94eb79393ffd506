"""What a figure depends on beside the code: the machine, and the versions of all that took part."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.interop.driver_build import RELEASE

_RUEIDISLOCK = Path(__file__).parent / "rivals" / "rueidislock_go"

_PACKAGES = (
    *("redisson-py", "redis", "hiredis", "uvloop"),
    *("python-redis-lock", "pottery", "aioredlock", "aioredis", "py-redis-semaphore"),
    *("limits", "pyrate-limiter", "aiolimiter"),
    *("asyncpg", "asyncmy", "grpcio", "kazoo", "aetcd", "tooz"),
)


def machine() -> dict[str, Any]:
    """Return what is known of this machine, without naming it."""
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "load before": os.getloadavg()[0],
    }


def versions(server: Path, version: tuple[int, int, int]) -> dict[str, str]:
    """Return the versions of all that takes part."""
    found = {
        "python": sys.version.split()[0],
        "server": f"{server.name} {'.'.join(map(str, version))}",
        "commit": _commit(),
    }
    for package in _PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["java"] = _java()
    found["Redisson"] = RELEASE
    found["go"] = _go()
    found["rueidis"] = _rueidis()
    return found


def _processor() -> str:
    try:
        rows = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        rows = []
    names = [row.partition(":")[2].strip() for row in rows if row.startswith("model name")]
    return names[0] if names else platform.processor()


def _java() -> str:
    try:
        done = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not installed"
    # It tells on the standard error, and its full version last.
    return done.stderr.splitlines()[-1]


def _go() -> str:
    try:
        done = subprocess.run(["go", "version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "not installed"
    return done.stdout.split()[2].removeprefix("go")


def _rueidis() -> str:
    """Return the version that the Go program is built with."""
    rows = (_RUEIDISLOCK / "go.mod").read_text(encoding="utf-8").splitlines()
    return next(row.split()[-1] for row in rows if "rueidis v" in row)


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return done.stdout.strip()
