"""Without its driver, a store's module says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
