"""`lua/manifest.txt`: the lock file of the scripts, which makes changes visible in review."""

from __future__ import annotations

from redisson_py._dialect import Dialect
from redisson_py._keys import LAYOUT
from redisson_py._scripts.source import Script


def render(scripts: list[Script]) -> str:
    """Return the manifest: the layout, then one row per script.

    A row has name, version, shas, keys and arguments. The first sha is that of the text in the
    file; the others name their dialect.
    """
    rows = [f"layout {LAYOUT}"]
    rows += [
        f"{script.name} v{script.version} {script.sha}"
        f" plain={script.wordings[Dialect.PLAIN].sha}"
        f" sharded={script.wordings[Dialect.SHARDED].sha}"
        f" keys={','.join(script.keys)} args={','.join(script.args)}"
        for script in scripts
    ]
    return "\n".join(rows) + "\n"


def unversioned(old: str, scripts: list[Script]) -> list[str]:
    """Return the names of scripts whose text changed although their version did not rise."""
    rows = [row.split() for row in old.splitlines()[1:]]
    known = {name: (int(version.removeprefix("v")), sha) for name, version, sha, *_ in rows}
    return [
        script.name
        for script in scripts
        if (before := known.get(script.name)) is not None
        and before[1] != script.sha
        and script.version <= before[0]
    ]
