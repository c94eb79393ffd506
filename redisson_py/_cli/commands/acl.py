"""`redisson-py acl`."""

from __future__ import annotations

from typing import Literal

import click

from redisson_py._cli.status import answer, json_option
from redisson_py._redis.scripts import source

#: What every client sends beside what the scripts call.
OUTSIDE = {
    "client|setname",
    "del",
    "evalsha",
    "exists",
    "get",
    "hexists",
    "hget",
    "info",
    "ping",
    "pttl",
    "script|load",
    "select",
    "set",
    "subscribe",
    "type",
    "unsubscribe",
}
#: What clients of a cluster send beside what every client sends.
_CLUSTER = {"asking", "cluster|slots"}
#: What they send too unless `sharded_pubsub` is "off". Redis 6.2 knows none of them.
_SHARDED = {"pubsub|shardnumsub", "spublish", "ssubscribe", "sunsubscribe"}
_SYNC = {"wait"}
#: What `inspect`, `locks`, `top` and `release` send beside what services send.
_OPERATOR = {"getrange", "hrandfield", "hscan", "pubsub|numsub", "scan"}
#: What is sent to sentinels.
_SENTINEL = {
    "ping",
    "sentinel|get-master-addr-by-name",
    "sentinel|master",
    "sentinel|sentinels",
    "subscribe",
}
_NOTHING = ["resetkeys", "resetchannels", "-@all"]


def commands() -> list[str]:
    """Return the Redis commands that a user needs permission for, read from the scripts."""
    inside = {c.lower() for script in source.load_all() for c in source.CALL.findall(script.text)}
    return sorted(OUTSIDE | inside)


@click.command(short_help="Print the permissions the library needs.")
@click.option("--cluster", is_flag=True, help="For the nodes of a cluster.")
@click.option(
    "--sharded-pubsub",
    type=click.Choice(["auto", "off"]),
    default="auto",
    show_default=True,
    help="The clients' setting; off for a cluster of Redis 6.2.",
)
@click.option(
    "--sync",
    is_flag=True,
    help="For clients with sync_replicas (the default with a cluster or Sentinel).",
)
@click.option(
    "--sentinel", is_flag=True, help="For the Sentinels; the servers they watch need another user."
)
@click.option(
    "--operator",
    is_flag=True,
    help="For operators: also what inspect, locks, top and release send.",
)
@json_option
def acl(
    *,
    cluster: bool,
    sharded_pubsub: Literal["auto", "off"],
    sync: bool,
    sentinel: bool,
    operator: bool,
    as_json: bool,
) -> None:
    """Print the permissions that this library's user needs, as arguments of ACL SETUSER."""
    if sentinel and (cluster or sync or operator):
        raise click.UsageError("--sentinel cannot be combined with --cluster, --sync or --operator")
    rules = permissions(
        cluster=cluster,
        sharded=sharded_pubsub == "auto",
        sync=sync,
        sentinel=sentinel,
        operator=operator,
    )
    if as_json:
        answer(rules)
    else:
        click.echo(" ".join(rules))


def permissions(
    *, cluster: bool, sharded: bool, sync: bool, sentinel: bool = False, operator: bool = False
) -> list[str]:
    """Return the rules of a user, in the words of ACL SETUSER."""
    if sentinel:
        return [*_NOTHING, *(f"+{command}" for command in sorted(_SENTINEL)), "&+switch-master"]
    more = _SYNC if sync else set[str]()
    if operator:
        more = more | _OPERATOR
    if cluster:
        more = more | _CLUSTER | (_SHARDED if sharded else set())
    words = [f"+{command}" for command in sorted({*commands(), *more})]
    # A name with braces of its own, as in its tokens' key, has no more put around it. Without a
    # prefix, ~* is all that is needed.
    keys = ["~<prefix>*", "~{<prefix>*", "~redisson_*{<prefix>*", "~redisson_*:<prefix>*"]
    return [*_NOTHING, *words, *keys, "&redisson*"]
