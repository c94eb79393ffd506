"""The files of the project, for tests that look at all of them."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FOLDERS = ("redisson_py", "lua", "tests", "examples", "benchmarks")


def of_kind(suffix: str, *folders: str) -> list[Path]:
    """Return the files with a suffix in the project's folders, new ones too."""
    return sorted(
        path
        for folder in folders or _FOLDERS
        for path in (ROOT / folder).rglob(f"*{suffix}")
        if not any(part.startswith((".", "__pycache__")) for part in path.relative_to(ROOT).parts)
    )


def name(path: Path) -> str:
    """Return what a file is called inside the project."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def tracked() -> list[Path]:
    """Return the files that git has, or will have; none outside of a checkout."""
    if not (ROOT / ".git").exists():
        return []
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    ).stdout
    paths = [ROOT / each for each in listed.decode().split("\0") if each]
    return [path for path in paths if path.is_file() and not path.is_symlink()]
