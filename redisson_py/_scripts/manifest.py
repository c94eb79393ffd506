"""`lua/manifest.txt`: the lock file of the scripts, so that a change shows in review."""

from __future__ import annotations

from redisson_py._keys import LAYOUT
from redisson_py._scripts.source import Script


def render(scripts: list[Script]) -> str:
    """Return the manifest: layout, then name, version, sha, keys and arguments of each script."""
    rows = [f"layout {LAYOUT}"]
    rows += [
        f"{script.name} v{script.version} {script.sha}"
        f" keys={','.join(script.keys)} args={','.join(script.args)}"
        for script in scripts
    ]
    return "\n".join(rows) + "\n"


def unversioned(old: str, scripts: list[Script]) -> list[str]:
    """Return the names of scripts whose text changed although their version did not."""
    known = {tuple(row.split()[:2]): row.split()[2] for row in old.splitlines()[1:]}
    return [
        script.name
        for script in scripts
        if known.get((script.name, f"v{script.version}"), script.sha) != script.sha
    ]
