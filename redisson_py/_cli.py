"""`python -m redisson_py`: for people who look after the scripts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from redisson_py._scripts import manifest, source

#: What clients of a cluster send beside what every client sends.
_CLUSTER = {"asking", "cluster|slots"}
#: What they send too unless `sharded_pubsub` is "off". Redis 6.2 knows none of them.
_SHARDED = {"pubsub|shardnumsub", "spublish", "ssubscribe", "sunsubscribe"}
_SYNC = {"wait"}
#: What is sent to sentinels.
_SENTINEL = {
    "ping",
    "sentinel|get-master-addr-by-name",
    "sentinel|master",
    "sentinel|sentinels",
    "subscribe",
}
_NOTHING = "resetkeys resetchannels -@all"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m redisson_py")
    commands = parser.add_subparsers(dest="command", required=True)
    scripts = commands.add_parser("scripts", help="print the manifest of the Lua scripts")
    scripts.add_argument("--write", type=Path, help="write it to this file instead")
    acl = commands.add_parser("acl", help="print the permissions a user of this library needs")
    acl.add_argument("--cluster", action="store_true", help="on the nodes of a cluster")
    acl.add_argument(
        "--sharded-pubsub",
        choices=("auto", "off"),
        default="auto",
        help="what the client says; off for every cluster of Redis 6.2",
    )
    acl.add_argument(
        "--sync",
        action="store_true",
        help="for clients with sync_replicas: all of clusters and of Sentinel, unless it is 0",
    )
    acl.add_argument(
        "--sentinel", action="store_true", help="on the sentinels; what they watch has its own user"
    )
    arguments = parser.parse_args(argv)
    if arguments.command == "scripts":
        return _scripts(arguments.write)
    if arguments.sentinel and (arguments.cluster or arguments.sync):
        acl.error("--sentinel prints what sentinels ask for: give it alone")
    if arguments.sentinel:
        return _acl_of_sentinels()
    more = _SYNC if arguments.sync else set()
    if arguments.cluster:
        more = more | _CLUSTER | (_SHARDED if arguments.sharded_pubsub == "auto" else set())
    return _acl(more)


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


def _acl(more: set[str]) -> int:
    words = [f"+{command}" for command in sorted({*source.commands(), *more})]
    # A name with braces of its own, as in its tokens' key, has no more put around it. Without a
    # prefix, ~* is all that is needed.
    keys = "~<prefix>* ~{<prefix>* ~redisson_*{<prefix>* ~redisson_*:<prefix>*"
    sys.stdout.write(f"{_NOTHING} {' '.join(words)} {keys} &redisson*\n")
    return 0


def _acl_of_sentinels() -> int:
    words = " ".join(f"+{command}" for command in sorted(_SENTINEL))
    sys.stdout.write(f"{_NOTHING} {words} &+switch-master\n")
    return 0
