"""Servers of each kind take the permissions that `python -m redisson_py acl` prints."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import redis as redis_py

from redisson_py.testing import EmbeddedServer, find_server, server_version
from redisson_py.testing._configuration import free_port
from redisson_py.testing._process import GuardedProcess, Probe
from tests.support.command_line import invoke
from tests.support.waiting import until

#: A call of each command that a plain server does not get, and what it is about.
CALLS = {
    "asking": ["ASKING"],
    "cluster|slots": ["CLUSTER", "SLOTS"],
    "pubsub|shardnumsub": ["PUBSUB", "SHARDNUMSUB", "redisson_sc:{x}"],
    "spublish": ["SPUBLISH", "redisson_sc:{x}", "1"],
    "ssubscribe": ["SSUBSCRIBE", "redisson_sc:{x}"],
    "sunsubscribe": ["SUNSUBSCRIBE", "redisson_sc:{x}"],
    "wait": ["WAIT", "1", "1"],
    "ping": ["PING"],
    "subscribe": ["SUBSCRIBE", "+switch-master"],
    "sentinel|master": ["SENTINEL", "MASTER", "orders"],
    "sentinel|sentinels": ["SENTINEL", "SENTINELS", "orders"],
    "sentinel|get-master-addr-by-name": ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "orders"],
}
KINDS: dict[str, tuple[list[str], set[str]]] = {
    "cluster": (
        ["--cluster"],
        {"asking", "cluster|slots", "pubsub|shardnumsub", "spublish", "ssubscribe", "sunsubscribe"},
    ),
    "cluster, sharded_pubsub off": (
        ["--cluster", "--sharded-pubsub=off"],
        {"asking", "cluster|slots"},
    ),
    "sync": (["--sync"], {"wait"}),
    "both": (["--cluster", "--sync", "--sharded-pubsub=off"], {"asking", "cluster|slots", "wait"}),
}


def printed(*arguments: str) -> list[str]:
    result = invoke("acl", *arguments)
    assert result.exit_code == 0
    return result.stdout.split()


def allowed(words: list[str]) -> set[str]:
    return {word[1:] for word in words if word.startswith("+")}


def ask(server: redis_py.Redis, *words: str) -> Any:
    untyped: Any = server
    return untyped.execute_command(*words)


def assert_exact(server: redis_py.Redis, rules: list[str], commands: set[str]) -> None:
    """Fail unless the server takes the rules, and each command needs its own rule."""
    ask(server, "ACL", "SETUSER", "whole", "reset", *rules)
    for command in sorted(commands):
        assert ask(server, "ACL", "DRYRUN", "whole", *CALLS[command]) in (b"OK", "OK")
        rest = [rule for rule in rules if rule != f"+{command}"]
        ask(server, "ACL", "SETUSER", "part", "reset", *rest)
        answer = ask(server, "ACL", "DRYRUN", "part", *CALLS[command])
        assert b"no permissions" in answer, (command, answer)


@pytest.mark.parametrize("kind", KINDS)
def test_what_more_is_printed_is_what_is_asked_for(kind: str) -> None:
    arguments, more = KINDS[kind]
    plain = printed()
    words = printed(*arguments)
    assert allowed(words) - allowed(plain) == more
    assert [word for word in words if word[0] != "+"] == [word for word in plain if word[0] != "+"]


def test_a_sentinel_gets_its_own_commands_only() -> None:
    words = printed("--sentinel")
    assert words[:3] == ["resetkeys", "resetchannels", "-@all"]
    assert words[-1] == "&+switch-master"
    assert allowed(words) == {command for command in CALLS if "sentinel" in command} | {
        "ping",
        "subscribe",
    }


@pytest.mark.parametrize("other", ["--cluster", "--sync"])
def test_the_users_of_sentinels_and_of_servers_are_different(other: str) -> None:
    result = invoke("acl", "--sentinel", other)
    assert result.exit_code == 2
    assert "cannot be combined" in result.stderr


@pytest.fixture
def kind(server_choice: str) -> str:
    if "://" in server_choice or server_choice == "container":
        pytest.skip("needs a binary")
    return server_choice


@pytest.fixture
def node(kind: str) -> Iterator[redis_py.Redis]:
    """A server that may be a node of a cluster."""
    server = EmbeddedServer(kind, config={"cluster-enabled": "yes"})
    server.start_blocking()
    try:
        with closing(redis_py.Redis.from_url(server.url)) as client:
            yield client
    finally:
        server.close_blocking()


@pytest_asyncio.fixture
async def sentinel(kind: str, tmp_path: Path) -> AsyncIterator[redis_py.Redis]:
    """A sentinel that watches nothing."""
    # Not one that the system gives to a connection meanwhile.
    port = free_port()
    config = tmp_path / "sentinel.conf"
    config.write_text(f"port {port}\nbind 127.0.0.1\n")
    command = [str(find_server(kind)), str(config), "--sentinel"]
    process = GuardedProcess(command, tmp_path / "sentinel.log")
    try:
        probe = Probe("127.0.0.1", port, pid=process.pid)
        await until(probe.is_ready)
        with closing(redis_py.Redis(port=port)) as client:
            yield client
    finally:
        process.kill()


@pytest.mark.parametrize("case", KINDS)
def test_a_node_takes_them(case: str, kind: str, node: redis_py.Redis) -> None:
    arguments, more = KINDS[case]
    rules = printed(*arguments)
    if server_version(find_server(kind)) >= (7, 0, 0):
        assert_exact(node, rules, more)
    elif "spublish" in more:
        with pytest.raises(redis_py.ResponseError, match="Unknown command"):
            ask(node, "ACL", "SETUSER", "whole", "reset", *rules)
    else:
        ask(node, "ACL", "SETUSER", "whole", "reset", *rules)


async def test_a_sentinel_takes_them(kind: str, sentinel: redis_py.Redis) -> None:
    rules = printed("--sentinel")
    if server_version(find_server(kind)) >= (7, 0, 0):
        assert_exact(sentinel, rules, allowed(rules))
    else:
        ask(sentinel, "ACL", "SETUSER", "whole", "reset", *rules)
