"""An older version of the package, from the history of this repository, for a part of the workers.

Its scripts have other texts, and some have other arguments; the keys are the same.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from tempfile import mkdtemp

_ROOT = Path(__file__).resolve().parents[2]
#: Locks with `max_hold` and listeners, before one connection spoke to the nodes of a cluster.
COMMIT = "26b10501e5f00b63befa7bfdd6d2e55e78a4af2a"
_RUNNING = "JEPSEN_OLDER_VERSION"


@functools.cache
def is_there() -> bool:
    """Return whether this clone has the commit; if not, say so."""
    commit = f"{COMMIT}^{{commit}}"
    found = shutil.which("git") is not None and _git("cat-file", "-e", commit).returncode == 0
    if not found:
        sys.stderr.write(
            f"no workload `mixed`: this clone has no commit {COMMIT} (git fetch --unshallow)\n"
        )
    return found


def is_running() -> bool:
    """Return whether this process runs the older version."""
    return _RUNNING in os.environ


def run_instead(folder: Path, module: str, *arguments: str) -> None:
    """Go on as another program: a module of these tests, with the older version.

    The process stays the same, and so do its standard streams.
    """
    os.chdir(_unpacked(folder))
    # The working directory comes first: it has the package, but no tests.
    os.environ["PYTHONPATH"] = str(_ROOT)
    os.environ[_RUNNING] = COMMIT
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])


def _unpacked(folder: Path) -> Path:
    """Return the folder with the package and its scripts; several workers may ask at once."""
    target = folder / f"redisson_py-{COMMIT}"
    if not target.exists():
        archive = _git("archive", COMMIT, "redisson_py", "lua")
        archive.check_returncode()
        unpacked = Path(mkdtemp(dir=folder))
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(unpacked, filter="data")
        try:
            unpacked.rename(target)
        except OSError:  # another worker was faster
            shutil.rmtree(unpacked)
    return target


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, check=False)
