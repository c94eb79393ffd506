"""What people and their users type: names, URLs, files, arguments of the command line."""

from __future__ import annotations

import logging
from pathlib import Path
from random import Random
from typing import Any, Final

from click.testing import CliRunner

from redisson_py import Redisson
from redisson_py._cli.main import cli

#: Nothing listens there, so that a URL that happens to be right leads nowhere.
_NOWHERE: Final = "127.0.0.1:1"

_PIECES: Final = (
    "redis://", "rediss://", "redis+cluster://", "redis+sentinel://", "unix://", "valkey://",
    "http:", "//", "/", "0", "15", "99999999999", "?", "&", "=", "#", "@", ":", ",", "[", "]",
    "[::1]", "%", "%00", "%zz", "%40", "user", "secret", _NOWHERE, "ssl=true",
    "ssl_cert_reqs=none", "db=1", "protocol=2", "socket_timeout=nan", "client_name=", "service",
    "\n", "\0", "é", "\ud800", "\t", "localhost", "a" * 300, "..", " ", "sentinel_ssl=1", "inf",
    "-1",
)  # fmt: skip
_SCALARS: Final = (
    "null", "~", "1", "-1", "1e999", "nan", "true", '""', '"redis://127.0.0.1:1"', "[]", "{}",
    "[1]", '"${HOME}"', '"${"', "!!python/object:os.system x", "&a [*a]", '"\\ud800"', "9" * 5000,
)  # fmt: skip
_NAMES: Final = (
    "singleServerConfig", "clusterServersConfig", "sentinelServersConfig", "address",
    "nodeAddresses", "sentinelAddresses", "masterName", "password", "username", "database",
    "timeout", "lockWatchdogTimeout", "lease_time", "url", "command_timeout", "codec", "threads",
    "__class__", "class", "",
)  # fmt: skip
_ARGUMENTS: Final = (
    "run", "ping", "acl", "locks", "inspect", "release", "doctor", "scripts", "top", "completion",
    "--help", "--url", "--config", "--json", "--timeout", "--lease", "--", "-v", "k", "", "-",
    "--kind", "1", "-1", "nan", "inf", "1e999", "\udcff", "\0", "é" * 300, "true", "--wait",
    "--force", "--cluster", "--sentinel", "bash", "/nowhere.yaml", f"redis://{_NOWHERE}",
    "redis://", "%",
)  # fmt: skip


def name(random: Random) -> str | bytes:
    """Return a name as somebody may choose it."""
    kind = random.randrange(4)
    if kind == 0:
        return random.randbytes(random.randrange(600))
    alphabet = "{}:a%\r\n\0*?[]\\ é\ud800\u202e" if kind == 1 else "ab{}:"
    return "".join(random.choices(alphabet, k=random.randrange(40)))


def url(random: Random) -> str:
    """Return a URL, or what may be one."""
    start = random.choice(("", f"redis://{_NOWHERE}", "redis+sentinel://", "rediss://u:p@"))
    return start + "".join(random.choices(_PIECES, k=random.randrange(8)))


def read_url(random: Random) -> None:
    """Make a client of a URL; only ValueError and TypeError, and no word of the password."""
    said = url(random)
    try:
        Redisson.from_url(said)
    except ValueError as raised:
        refusal = str(raised)
    else:
        return
    assert "secret" not in refusal, refusal


def read_file(random: Random, folder: Path) -> None:
    """Make a client of a file; only errors that say which file."""

    def table(depth: int) -> str:
        rows = []
        for _ in range(random.randrange(5)):
            deeper = depth < 3 and random.random() < 0.4
            said = table(depth + 1) if deeper else random.choice(_SCALARS)
            rows.append(f'"{random.choice(_NAMES)}": {said}')
        return "{" + ", ".join(rows) + "}"

    text = table(0)
    if random.random() < 0.3:
        cut = random.randrange(len(text) + 1)
        text = text[:cut] + chr(random.randrange(1, 300)) + text[cut:]
    if random.random() < 0.05:
        text = "[" * 100_000
    path = folder / f"c{random.choice(('.json', '.yaml', '.toml'))}"
    path.write_text(text, "utf-8", errors="replace")
    try:
        Redisson.from_file(path)
    except (ValueError, TypeError) as raised:
        refusal = str(raised)
    else:
        return
    assert path.name in refusal, refusal


def run_command(random: Random) -> int:
    """Run the command line; return its status. It never ends by a traceback."""
    arguments = random.choices(_ARGUMENTS, k=random.randrange(1, 6))
    if "top" in arguments or "run" in arguments:
        # `top` goes on until it is stopped; `run` would run what stands there.
        arguments = [random.choice(("top", "run")), "--url", *arguments, "--help"]
    # What an environment can have: no NUL, and no other surrogates than those of bytes.
    said = url(random).replace("\0", "").replace("\ud800", "\udcff")
    environment = {"REDISSON_URL": random.choice((None, said, f"redis://{_NOWHERE}"))}
    result = CliRunner(env=environment).invoke(cli, arguments)
    error: Any = result.exception
    assert error is None or isinstance(error, SystemExit), (arguments, environment, repr(error))
    assert result.exit_code in (0, 1, 2, 69, 75), (arguments, result.exit_code)
    return result.exit_code


def quiet() -> None:
    """Log nothing: what is warned of here is meant to be wrong."""
    logging.getLogger("redisson_py").setLevel(logging.CRITICAL)
