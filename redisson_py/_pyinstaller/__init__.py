"""Hooks for PyInstaller, which calls `get_hook_dirs`: see pyproject.toml. Nothing else is imported.

Without them a frozen program has no Lua scripts, and no commands of `redisson-py`.
"""

from __future__ import annotations

from pathlib import Path


def get_hook_dirs() -> list[str]:
    """Return the folder of the hooks."""
    return [str(Path(__file__).parent)]
