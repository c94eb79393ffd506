"""`redisson-py scripts`."""

from __future__ import annotations

from pathlib import Path

import click

from redisson_py._cli.status import answer, fail, json_option
from redisson_py._dialect import Dialect
from redisson_py._scripts import manifest, source


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
    text = manifest.render(loaded)
    if write is None:
        click.echo(text, nl=False)
        return
    changed = manifest.unversioned(write.read_text(), loaded) if write.exists() else []
    if changed:
        fail(1, f"raise the version of {', '.join(changed)}: the text has changed")
    write.write_text(text)
