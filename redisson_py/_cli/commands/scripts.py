"""`redisson-py scripts`: the manifest, which makes changes of scripts visible in review."""

from __future__ import annotations

from pathlib import Path

import click

from redisson_py._cli.status import answer, fail, json_option
from redisson_py._keys import LAYOUT
from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts import source


@click.command(short_help="Print the manifest of the Lua scripts.")
@click.option(
    "--write",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the manifest to this file.",
)
@json_option
def scripts(*, write: Path | None, as_json: bool) -> None:
    """Print the manifest of the Lua scripts: name, version, shas, keys, arguments.

    --write refuses a script whose text has changed under an old version.
    """
    loaded = source.load_all()
    if as_json:
        answer(
            [
                {
                    "name": script.name,
                    "version": script.version,
                    "shas": {each.name.lower(): script.wordings[each].sha for each in Dialect},
                    "keys": list(script.keys),
                    "arguments": list(script.args),
                }
                for script in loaded
            ]
        )
        return
    text = render(loaded)
    if write is None:
        click.echo(text, nl=False)
        return
    changed = unversioned(write.read_text(), loaded) if write.exists() else []
    if changed:
        fail(1, f"raise the version of {', '.join(changed)}: the text has changed")
    write.write_text(text)


def render(scripts: list[source.Script]) -> str:
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


def unversioned(old: str, scripts: list[source.Script]) -> list[str]:
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
