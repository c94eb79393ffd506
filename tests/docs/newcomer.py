"""A newcomer: an empty directory, an environment with the built wheel, and the pages to copy from.

The environment has nothing but what the `pip install` lines of the pages bring: pip takes that from
the package index, or from its cache.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import venv
from dataclasses import dataclass, replace
from pathlib import Path

from tests.support import repository

#: What pages say for "your server".
LOCAL = re.compile(r"redis://localhost(:6379)?(/0)?(?![\w:/,-])")
#: What pages call this package: its name, or a checkout.
_PACKAGE = re.compile(r"redisson-py|\./redisson_py")
_FENCE = re.compile(
    r"^```(?P<language>\w*)(?P<info>[^\n]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)
#: How a page names the file that a block is: title="name.py" behind the language, or # name.py.
_TITLE = re.compile(r'title="(?P<name>[^"]+)"|# (?P<first>\w+\.py)$', re.MULTILINE)


def block(
    page: str, language: str | None = "python", *, under: str = "", containing: str = ""
) -> str:
    """Return the first fenced block of a page.

    Args:
        page: Its name in the repository.
        language: What the fence says; None for whatever it says.
        under: The text of the heading above it; empty for the whole page.
        containing: Text that is in the block.
    """
    text = (repository.ROOT / page).read_text("utf-8")
    if under:
        text = _section(text, under, page)
    for found in _FENCE.finditer(text):
        if language in (None, found["language"]) and containing in found["code"]:
            return found["code"]
    raise AssertionError(f"{page} has no {language} block under {under!r} with {containing!r}")


def named_files(page: str) -> dict[str, str]:
    """Return the files that a page has the user write, by their names."""
    found: dict[str, str] = {}
    for fence in _FENCE.finditer((repository.ROOT / page).read_text("utf-8")):
        first, _, _ = fence["code"].partition("\n")
        if title := _TITLE.search(fence["info"]) or _TITLE.match(first):
            found[title["name"] or title["first"]] = fence["code"]
    return found


def _section(text: str, heading: str, page: str) -> str:
    """Return what is below a heading, up to the next one that is not below it."""
    # Comments of code blocks look like headings.
    code = [found.span() for found in _FENCE.finditer(text)]
    headings = [
        found
        for found in re.finditer(r"^(?P<depth>#+) (?P<text>.+)$", text, re.MULTILINE)
        if not any(first <= found.start() < end for first, end in code)
    ]
    for n, found in enumerate(headings):
        if found["text"] == heading:
            depth = len(found["depth"])
            others = [each for each in headings[n + 1 :] if len(each["depth"]) <= depth]
            return text[found.end() : others[0].start() if others else len(text)]
    raise AssertionError(f"{page} has no heading {heading!r}")


@dataclass(frozen=True)
class Newcomer:
    """Somebody with an empty directory.

    Attributes:
        home: The directory.
        environment: The virtual environment.
        wheel: The wheel that was built from the checkout.
        url: Their server.
    """

    home: Path
    environment: Path
    wheel: Path
    url: str

    @property
    def python(self) -> Path:
        """Their Python."""
        return self.environment / "bin" / "python"

    def write(self, name: str, code: str) -> None:
        """Save a file, as the page has it but for the address of the server."""
        (self.home / name).write_text(LOCAL.sub(self.url, code), encoding="utf-8")

    def type(self, row: str) -> subprocess.CompletedProcess[str]:
        """Type a line of a page, or a block, into a shell, with the own server and wheel."""
        row = LOCAL.sub(self.url, row)
        if row.startswith("pip install "):
            row = _PACKAGE.sub(str(self.wheel), row)
            pip = f"{shlex.quote(sys.executable)} -m pip --python {shlex.quote(str(self.python))}"
            row = row.replace("pip install", f"{pip} install --quiet", 1)
        variables = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "REDISSON", "VIRTUAL_ENV", "COV_", "COVERAGE"))
        }
        variables["PATH"] = f"{self.environment / 'bin'}{os.pathsep}{variables['PATH']}"
        return subprocess.run(
            row,
            shell=True,
            cwd=self.home,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def type_all(self, rows: str) -> str:
        """Type the lines of a block, each of which has to work; return what they printed."""
        printed = ""
        for row in rows.splitlines():
            if row.strip():
                done = self.type(row)
                assert done.returncode == 0, f"{row}\n{done.stdout}{done.stderr}"
                printed += done.stdout
        return printed


class Newcomers:
    """Newcomers, each with an environment that has what one line of a page installs.

    An environment is made once for each line. Who shares it shares the directory as well.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Newcomer] = {}

    def with_row(self, row: str, url: str) -> Newcomer:
        """Return somebody with a new environment, in which they have typed this line."""
        if row not in self._made:
            if not self._made:
                self._wheel = build_wheel(self._folder / "dist")
            folder = self._folder / str(len(self._made))
            home, environment = folder / "home", folder / "venv"
            home.mkdir(parents=True)
            venv.create(environment, symlinks=True)
            one = Newcomer(home, environment, self._wheel, url)
            one.type_all(row)
            self._made[row] = one
        return replace(self._made[row], url=url)


def build_wheel(folder: Path) -> Path:
    """Build the checkout's wheel, without looking for anything on the net."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel"]
    done = subprocess.run(
        [*command, "--directory", str(folder)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("*.whl")
    return wheel
