"""Builds the Java driver and tells how to start it."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

DRIVER = Path(__file__).parent / "driver"
#: The release of Redisson that the protocol was read from.
RELEASE = "4.7.0"


class JavaNotFoundError(Exception):
    """There is no `java` or no `mvn` on the PATH."""


def command(release: str = RELEASE, *options: str, main: str = "Driver") -> list[str]:
    """Build the driver with that release of Redisson, if need be; return how to start it.

    Args:
        release: A version of `org.redisson:redisson`.
        options: Options of the Java machine.
        main: The class to start.

    Raises:
        JavaNotFoundError: `java` or `mvn` is missing.
        subprocess.CalledProcessError: Maven failed; its words are on the standard error.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise JavaNotFoundError(f"needs {program} on the PATH, to talk to a real Redisson")
    target = DRIVER / "target" / release
    built = target / "built"
    target.mkdir(parents=True, exist_ok=True)
    with (DRIVER / "target" / "lock").open("w") as lock:
        # Several test runs may start at once from one checkout.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists() or built.stat().st_mtime < _changed():
            subprocess.run(
                ["mvn", "-q", "-B", "compile", f"-Dredisson.version={release}"],
                cwd=DRIVER,
                check=True,
                stdin=subprocess.DEVNULL,
                # Maven complains on its standard output, which may be a caller's answers.
                stdout=2,
            )
            built.touch()
    path = f"{target}/classes:{target}/lib/*"
    return ["java", *options, "-cp", path, f"redisson_py.interop.{main}"]


def _changed() -> float:
    sources = [DRIVER / "pom.xml", *DRIVER.glob("src/**/*.java")]
    return max(source.stat().st_mtime for source in sources)
