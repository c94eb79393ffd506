"""`python -m redisson_py`: for people who look after the scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from redisson_py._scripts import manifest, source


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m redisson_py")
    commands = parser.add_subparsers(dest="command", required=True)
    scripts = commands.add_parser("scripts", help="print the manifest of the Lua scripts")
    scripts.add_argument("--write", type=Path, help="write it to this file instead")
    commands.add_parser("acl", help="print the Redis commands a user of this library needs")
    arguments = parser.parse_args(argv)
    if arguments.command == "acl":
        return _acl()
    return _scripts(arguments.write)


def _scripts(target: Path | None) -> int:
    scripts = source.load_all()
    text = manifest.render(scripts)
    if target is None:
        sys.stdout.write(text)
        return 0
    changed = manifest.unversioned(target.read_text(), scripts) if target.exists() else []
    if changed:
        sys.stderr.write(f"raise the version of {', '.join(changed)}: the text has changed\n")
        return 1
    target.write_text(text)
    return 0


def _acl() -> int:
    words = [f"+{command}" for command in source.commands()]
    # A name with braces of its own, as in its tokens' key, has no more put around it. Without a
    # prefix, ~* is all that is needed.
    keys = "~<prefix>* ~{<prefix>* ~redisson_*{<prefix>* ~redisson_*:<prefix>*"
    sys.stdout.write(f"resetkeys resetchannels -@all {' '.join(words)} {keys} &redisson*\n")
    return 0
