"""Environments of users: what they install with pip, and nothing of ours beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest


def make(folder: Path, *requirements: str | Path) -> Path:
    """Return the Python of a new environment in which `requirements` are installed."""
    # Without a pip of its own, which takes seconds to install.
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "-q", *requirements],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        # Without an index nothing can be installed.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(done.stderr)
    return python


def run(folder: Path, *command: str | Path) -> str:
    """Return what a command prints, where nothing of this checkout can be imported."""
    hidden = ("PYTHON", "COV", "REDISSON")
    done = subprocess.run(
        command,
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith(hidden)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
