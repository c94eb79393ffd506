"""A wheel from the tree and one from the sdist, as `make build` makes them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support import repository


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, with the rubbish that work leaves in a folder."""
    if find_spec("hatchling") is None:
        # A test that did not run must not look green where it counts.
        (pytest.fail if os.environ.get("CI") else pytest.skip)("hatchling is not installed")
    if not repository.tracked():
        pytest.skip("not a git checkout")
    copy = tmp_path_factory.mktemp("tree")
    for path in repository.tracked():
        target = copy / path.relative_to(repository.ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for rubbish in ("lua/__pycache__/x.pyc", "lua/lock/.coverage", "redisson_py/build/x.py"):
        (copy / rubbish).parent.mkdir(parents=True, exist_ok=True)
        (copy / rubbish).write_text("rubbish")
    return copy


@pytest.fixture(scope="session")
def sdist(tree: Path) -> Path:
    return build("sdist", tree)


@pytest.fixture(scope="session")
def wheel_from_tree(tree: Path) -> Path:
    return build("wheel", tree)


@pytest.fixture(scope="session")
def wheel_from_sdist(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (unpacked,) = folder.iterdir()
    return build("wheel", unpacked)


@pytest.fixture(params=["tree", "sdist"])
def wheel(request: pytest.FixtureRequest) -> Iterator[zipfile.ZipFile]:
    with zipfile.ZipFile(request.getfixturevalue(f"wheel_from_{request.param}")) as archive:
        yield archive


def build(kind: str, folder: Path) -> Path:
    """Build as `python -m build --no-isolation` does, without looking for anything on the net."""
    out = folder / "dist"
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", str(out)],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.tar.gz" if kind == "sdist" else "*.whl")
    return built
