"""Configuration files for tests, in each format from the same tables."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from redisson_py._redis.config.read import read_config
from redisson_py._redis.url import Target

WRITTEN_BY_REDISSON = Path(__file__).parent / "redisson_files"

CLUSTER = {"clusterServersConfig": {"nodeAddresses": ["redis://a:1"]}}
SENTINEL = {"sentinelServersConfig": {"masterName": "orders", "sentinelAddresses": ["redis://a:1"]}}
SINGLE = {"singleServerConfig": {"address": "redis://a:1"}}
REPLICATED = {"replicatedServersConfig": {"nodeAddresses": ["redis://a:1", "redis://b:2"]}}


def need_yaml() -> None:
    if find_spec("yaml") is None:
        # A test that did not run must not look green where it counts.
        (pytest.fail if os.environ.get("CI") else pytest.skip)("PyYAML is not installed")


def with_section(table: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a table whose one section has more in it."""
    return {name: section | more for name, section in table.items()}


def write(folder: Path, table: dict[str, Any], name: str = "redisson.json") -> Path:
    """Write a table: YAML and JSON look the same."""
    path = folder / name
    path.write_text(json.dumps(table), "utf-8")
    return path


def read(
    folder: Path, table: dict[str, Any], name: str = "redisson.json", **options: Any
) -> tuple[Target, dict[str, Any]]:
    return read_config(write(folder, table, name), options)
