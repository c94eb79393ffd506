"""Clients of other stores: wrong arguments, missing drivers, and what a driver's errors mean."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from redisson_py._stores.mysql.failures import Progress, failure_of
from redisson_py.etcd import Etcd
from redisson_py.mysql import MySQL
from redisson_py.postgres import Postgres
from redisson_py.zookeeper import ZooKeeper

CLIENTS: list[Any] = [
    Postgres.from_url("postgresql://u@127.0.0.1:1/d"),
    MySQL.from_url("mysql://u@127.0.0.1:1/d"),
    Etcd.from_url("etcd://127.0.0.1:1"),
    ZooKeeper.from_url("zookeeper://127.0.0.1:1"),
]
GETTERS: list[Callable[..., Any]] = [
    getattr(client, name) for client in CLIENTS for name in dir(client) if name.startswith("get_")
]


@pytest.mark.parametrize("get", GETTERS, ids=lambda get: get.__qualname__)
def test_times_given_to_what_is_made(get: Callable[..., Any]) -> None:
    for args, given in (((10,), {}), ((), {"timeout": 10})):
        if args and get.__name__ == "get_semaphore":
            # There it is the number of permits.
            continue
        with pytest.raises(TypeError, match=r"timeout=, the time to wait, is an argument of"):
            get("k", *args, **given)
    with pytest.raises(TypeError, match=r"(lease_time|max_hold|keep)="):
        get("k", expire=10)


def test_a_campaign_takes_no_other_words() -> None:
    election = CLIENTS[2].get_election("k")
    with pytest.raises(TypeError, match="'ttl'"):
        election.campaign("me", ttl=5)


IMPORT = """
import sys
for name in {names!r}:
    sys.modules[name] = None
import redisson_py.{extra}
"""


@pytest.mark.parametrize(
    ("extra", "names", "package"),
    [
        ("postgres", ("asyncpg",), "asyncpg"),
        ("mysql", ("asyncmy",), "asyncmy"),
        ("etcd", ("google", "google.protobuf"), "protobuf"),
        ("etcd", ("grpc",), "grpcio"),
        ("zookeeper", ("kazoo", "kazoo.client"), "kazoo"),
    ],
)
def test_it_names_the_package_and_the_extra(
    extra: str, names: tuple[str, ...], package: str
) -> None:
    script = IMPORT.format(names=names, extra=extra)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: redisson_py.{extra} needs {package}, which is not installed:"
        f" pip install 'redisson-py[{extra}]'"
    )


CLOSED = "Transport does not expose socket instance"
MISSING = "'cryptography' package is required for sha256_password or caching_sha2_password"


@pytest.mark.parametrize(("text", "verdict"), [(CLOSED, "lost"), (MISSING, "wrong")])
def test_a_connection_that_was_closed_while_it_was_made_is_no_refusal(
    text: str, verdict: str
) -> None:
    """On uvloop the driver raises the first."""
    failure = failure_of(RuntimeError(text), Progress())
    assert failure.verdict == verdict
    assert not failure.maybe_done
