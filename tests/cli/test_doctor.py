"""`redisson-py doctor` on one real server that has each fault."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from redisson_py import AcquiredEvent, Listener, Redisson, ReleasedEvent
from redisson_py._cli.checks.probes import LISTENING
from redisson_py._cli.checks.trial import try_lock
from redisson_py.testing import EmbeddedServer
from tests.cli.doctor_report import examine, printed
from tests.fixtures.redis_server import (
    PASSWORD,
    ServerFactory,
    documented_rules,
    url_of_user,
)
from tests.support.certificates import make_certificates
from tests.support.command_line import invoke

KINDS = ["valkey", "redis7", "redis62"]
SETTINGS = ["timeout", "keepalive", "buffers"]


async def allow(server: EmbeddedServer, *rules: str) -> str:
    """Make a user that may do what the rules say; return its URL."""
    await server.execute("ACL", "SETUSER", "app", "reset", "on", f">{PASSWORD}", *rules)
    return url_of_user(server.url, "app")


@pytest.mark.parametrize("kind", KINDS)
async def test_good_server_has_no_finding_but_ok(kind: str, server_factory: ServerFactory) -> None:
    server = await server_factory(kind, appendonly=True)
    report = await examine(server.url, "--strict")
    assert report.checks("ok") == {each["check"] for each in report.document["findings"]}
    assert {"connection", "permissions", "scripts", "eviction", "lock", "messages"} <= (
        report.checks("ok")
    )
    assert report.status == 0
    # A key without an end would be there for ever.
    keys = await server.execute("KEYS", "*")
    assert all([await server.execute("PTTL", key) > 0 for key in keys])


@pytest.mark.parametrize("kind", KINDS)
async def test_documented_permissions_are_enough(kind: str, server_factory: ServerFactory) -> None:
    server = await server_factory(kind, appendonly=True)
    report = await examine(await allow(server, *documented_rules()))
    assert report.status == 0
    assert report.checks("problem") == report.checks("warning") == set()
    assert report.level("permissions") == "ok"
    assert report.level("lock") == report.level("messages") == "ok"
    assert report.level("settings") == "not visible"
    assert report.one("settings")["todo"] == "allow +config|get to see them"
    assert not any(report.of(check) for check in SETTINGS)
    keys = await server.execute("KEYS", "*")
    assert all([await server.execute("PTTL", key) > 0 for key in keys])


@pytest.mark.parametrize(
    ("kind", "dry_run"),
    # Redis 6.2 has no ACL DRYRUN.
    [("valkey", False), ("valkey", True), ("redis7", False), ("redis7", True), ("redis62", False)],
)
@pytest.mark.parametrize("half", [0, 1])
async def test_each_missing_command_is_named(
    kind: str, dry_run: bool, half: int, server_factory: ServerFactory
) -> None:
    server = await server_factory(kind)
    rules = documented_rules()
    asked = [rule for rule in rules if rule[0] == "+" and rule[1:] not in LISTENING]
    # Not needed without a name and a database, and INFO tells whether scripts are those of 6.2.
    asked = [rule for rule in asked if rule not in ("+client|setname", "+select", "+info")]
    missing = sorted(asked[half::2])
    more = ["+acl|whoami", "+acl|dryrun"] if dry_run else []
    url = await allow(server, *(rule for rule in rules if rule not in missing), *more)
    report = await examine(url)
    assert report.status == 1
    named = set(report.found("permissions").partition("lacks ")[2].split())
    if kind == "redis62":
        # It names no subcommand.
        missing = [rule.partition("|")[0] for rule in missing]
        named = {rule.partition("|")[0] for rule in named}
    assert named == set(missing)
    assert "redisson-py acl" in report.one("permissions")["todo"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("rules", "lacks", "fails"),
    [
        (["resetchannels"], "&redisson*", "lock"),
        # Not those of single clients: nobody can be called, and the first two look.
        (["resetchannels", "&*}"], "&redisson*", "messages"),
        (["resetkeys", "~a:*"], "~ (keys)", "lock"),
    ],
)
async def test_missing_channel_and_keys_are_named(
    kind: str, rules: list[str], lacks: str, fails: str, server_factory: ServerFactory
) -> None:
    server = await server_factory(kind)
    report = await examine(await allow(server, *documented_rules(), *rules))
    assert report.status == 1
    assert report.found("permissions") == f"the user 'app' lacks {lacks}"
    assert report.checks("problem") == {"permissions", fails}


async def test_prefix_of_the_user_is_used(server_factory: ServerFactory) -> None:
    server = await server_factory("valkey", appendonly=True)
    url = await allow(server, *documented_rules("app:"))
    assert (await examine(url, "--prefix", "app:")).status == 0
    assert (await examine(url)).found("permissions").endswith("~ (keys)")


@pytest.mark.parametrize("kind", KINDS)
async def test_eviction_of_locks_is_a_problem(kind: str, server_factory: ServerFactory) -> None:
    config = {"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"}
    server = await server_factory(kind, config=config, appendonly=True)
    report = await examine(server.url)
    assert report.status == 1
    assert report.checks("problem") == {"eviction"}
    assert "allkeys-lru" in report.found("eviction")
    await server.execute("CONFIG", "SET", "maxmemory", 0)
    report = await examine(server.url)
    assert (report.status, report.level("eviction")) == (0, "warning")
    assert (await examine(server.url, "--strict")).status == 1
    await server.execute(*report.one("eviction")["todo"].split())
    assert (await examine(server.url)).level("eviction") == "ok"


async def test_full_server_is_a_problem(server_factory: ServerFactory) -> None:
    server = await server_factory("valkey", appendonly=True)
    await server.execute("CONFIG", "SET", "maxmemory", "100kb")
    report = await examine(server.url)
    assert report.status == 1
    assert report.checks("problem") == {"memory", "lock"}
    assert "OOM" in report.found("lock")


@pytest.mark.parametrize("kind", KINDS)
async def test_persistence_that_forgets_locks_is_a_warning(
    kind: str, server_factory: ServerFactory
) -> None:
    server = await server_factory(kind)
    report = await examine(server.url)
    assert (report.status, report.level("persistence")) == (0, "warning")
    assert report.found("persistence").startswith("none:")
    await server.execute("CONFIG", "SET", "save", "3600 1")
    assert (await examine(server.url)).found("persistence").startswith("snapshots only:")
    await server.execute(*report.one("persistence")["todo"].split())
    assert (await examine(server.url)).level("persistence") == "ok"


async def test_settings_that_cut_clients_off_are_warnings(server_factory: ServerFactory) -> None:
    limits = "pubsub 100kb 50kb 60"
    config = {"timeout": "9", "tcp-keepalive": "0", "client-output-buffer-limit": limits}
    server = await server_factory("valkey", config=config, appendonly=True)
    report = await examine(server.url)
    assert report.checks("warning") == set(SETTINGS)
    await server.execute("CONFIG", "SET", "timeout", 300)
    assert (await examine(server.url)).level("timeout") == "ok"


@pytest.mark.parametrize("kind", KINDS)
async def test_service_that_refuses_config_is_not_bad(
    kind: str, server_factory: ServerFactory
) -> None:
    server = await server_factory(kind, config={"rename-command": 'CONFIG ""'}, appendonly=True)
    report = await examine(server.url)
    assert report.status == 0
    assert report.checks("not visible") == {"settings"}
    assert "the service refuses CONFIG GET" in report.one("settings")["todo"]


async def test_server_that_does_not_answer_is_69(server_factory: ServerFactory) -> None:
    server = await server_factory("valkey")
    await server.pause()
    report = await examine(server.url, timeout=0.5)
    await server.resume()
    assert report.status == 69
    assert report.checks("problem") == {"connection"}
    await server.stop()
    report = await examine(server.url)
    assert report.status == 69
    assert report.one("connection")["todo"] == "check the server and the network"


async def test_wrong_password_is_69_and_reported(server_factory: ServerFactory) -> None:
    server = await server_factory("valkey", password="right")
    url = url_of_user(server.url, "default")
    report = await examine(url)
    assert report.status == 69
    assert "refused the credentials" in report.found("connection")
    assert report.one("connection")["todo"] == "correct the user, password or TLS settings"
    assert PASSWORD not in str(report.document).split()


async def test_tls_mistakes_are_69_and_reported(
    server_factory: ServerFactory, tmp_path: Path
) -> None:
    plain = await server_factory("valkey")
    report = await examine(plain.url.replace("redis://", "rediss://"))
    assert report.status == 69
    assert "does not speak TLS" in report.found("connection")
    certificates = make_certificates(tmp_path / "tls", "IP:127.0.0.1")
    # Valkey's wheel has no TLS.
    encrypted = await server_factory("redis7", tls=certificates.files)
    report = await examine(encrypted.url.replace("rediss://", "redis://"))
    assert report.status == 69
    assert "speaks TLS" in report.found("connection")


async def test_report_for_people_is_short_and_has_the_worst_first(
    server_factory: ServerFactory,
) -> None:
    config = {"maxmemory-policy": "allkeys-lru", "maxmemory": "100mb"}
    server = await server_factory("valkey", config=config)
    rows = (await printed(server.url)).splitlines()
    assert rows[0] == f"{server.address} (one server)"
    assert rows[2].split() == [
        "problem", "eviction", "allkeys-lru:", "a", "full", "server", "deletes", "locks", "that",
        "are", "held",
    ]  # fmt: skip
    assert rows[3].strip() == "-> CONFIG SET maxmemory-policy noeviction"
    assert rows[4].startswith("warning      persistence")
    assert rows[-1] == "1 problem, 1 warning, 13 ok"
    assert len(rows) < 25
    assert max(map(len, rows)) <= 100


@pytest.mark.parametrize("moment", ["acquired", "released"])
async def test_cancelled_trial_holds_nothing(moment: str, server_factory: ServerFactory) -> None:
    server = await server_factory("valkey")
    cancelled: list[str] = []

    class Canceller(Listener):
        """Cancels the trial when its first client has acquired, or released, the lock."""

        def acquired(self, event: AcquiredEvent, /) -> None:
            self.at("acquired")

        def released(self, event: ReleasedEvent, /) -> None:
            self.at("released")

        def at(self, now: str) -> None:
            if now == moment and not cancelled:
                cancelled.append(now)
                trial.cancel()

    def new_client(**options: Any) -> Redisson:
        return Redisson.from_url(server.url, **{"listener": Canceller(), **options})

    trial = asyncio.create_task(try_lock(new_client, 20))
    with pytest.raises(asyncio.CancelledError):
        await trial
    assert cancelled == [moment]
    assert await server.execute("KEYS", "redisson-py:doctor:*") == []


def test_no_servers_is_a_usage_error() -> None:
    result = invoke("doctor")
    assert result.exit_code == 2
    assert "no servers: pass --url or --config" in result.stderr
    for timeout in ("0", "31", "nan"):
        assert invoke("doctor", "--url", "redis://h", "--timeout", timeout).exit_code == 2


async def test_configuration_file_names_the_servers(
    server_factory: ServerFactory, tmp_path: Path
) -> None:
    server = await server_factory("valkey", appendonly=True)
    path = tmp_path / "redisson.json"
    path.write_text(f'{{"singleServerConfig": {{"address": "{server.url}"}}}}')
    result = await asyncio.to_thread(invoke, "doctor", "--config", str(path))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"{server.address} (one server)")
