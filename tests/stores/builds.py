"""Builds the programs of other languages that share locks with us, when their sources are newer."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

_HERE = Path(__file__).parent
_GO, _JAVA = _HERE / "etcd" / "worker", _HERE / "zookeeper" / "curator"
_JVM = ("-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class ProgramNotFoundError(Exception):
    """A program that builds or runs them is not on the PATH."""


def go() -> list[str]:
    """Return how to start `etcd/worker`; its arguments are an address and a session's seconds.

    Raises:
        ProgramNotFoundError: `go` is missing.
        subprocess.CalledProcessError: It could not be built.
    """
    _need("go", "to talk to Go's concurrency.Mutex")
    sources = (_GO / "go.mod", _GO / "go.sum", *_GO.glob("*.go"))
    _build(["go", "build", "-o", "build/worker", "."], _GO / "build", sources)
    return [str(_GO / "build" / "worker")]


def curator() -> list[str]:
    """Return how to start `Curator`; its arguments are an address and a session's milliseconds.

    Raises:
        ProgramNotFoundError: `java` or `mvn` is missing.
        subprocess.CalledProcessError: It could not be built.
    """
    for program in ("java", "mvn"):
        _need(program, "to talk to a real Curator")
    target = _JAVA / "target"
    _build(
        ["mvn", "-q", "-B", "compile"], target, (_JAVA / "pom.xml", *_JAVA.glob("src/**/*.java"))
    )
    return ["java", *_JVM, "-cp", f"{target}/classes:{target}/lib/*", "redisson_py.stores.Curator"]


def _need(program: str, purpose: str) -> None:
    if shutil.which(program) is None:
        raise ProgramNotFoundError(f"needs {program} on the PATH, {purpose}")


def _build(command: Sequence[str], into: Path, sources: Iterable[Path]) -> None:
    into.mkdir(exist_ok=True)
    built = into / "built"
    with (into / "lock").open("w") as lock:
        # Several test runs may start at once from one checkout.
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = max(source.stat().st_mtime for source in sources)
        if not built.exists() or built.stat().st_mtime < changed:
            subprocess.run(command, cwd=into.parent, check=True, stdin=subprocess.DEVNULL, stdout=2)
            built.touch()
