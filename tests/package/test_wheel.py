"""What users install: the same from the tree and from the sdist, with every script, no tests."""

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

LUA = {
    path.relative_to(repository.ROOT / "lua").as_posix()
    for path in repository.of_kind(".lua", "lua")
}
LUA.add("manifest.txt")

#: What pytest loads; not a part of the package, which it must not import.
#: What pytest loads lies beside the package.
PLUGIN = "_redisson_py_pytest.py"

_LOAD_ALL = """
import pathlib, redisson_py
from redisson_py._scripts import source
package = pathlib.Path(redisson_py.__file__).parent
assert pathlib.Path(str(source.script_root())) == package / "_lua", source.script_root()
print(package, *(f"{script} {script.sha}" for script in source.load_all()), sep="\\n")
"""


@pytest.fixture(scope="module")
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


@pytest.fixture(scope="module")
def sdist(tree: Path) -> Path:
    return build("sdist", tree)


@pytest.fixture(scope="module")
def wheel_from_tree(tree: Path) -> Path:
    return build("wheel", tree)


@pytest.fixture(scope="module")
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


def test_a_wheel_has_every_script_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    packed = {
        name.removeprefix("redisson_py/_lua/")
        for name in wheel.namelist()
        if name.startswith("redisson_py/_lua/")
    }
    assert packed == LUA
    for name in LUA:
        assert (
            wheel.read(f"redisson_py/_lua/{name}") == (repository.ROOT / "lua" / name).read_bytes()
        )


def test_a_wheel_has_every_module_byte_for_byte(wheel: zipfile.ZipFile) -> None:
    modules = {
        repository.name(path).removeprefix("redisson_py/_beside/"): path
        for path in repository.of_kind(".py", "redisson_py")
    }
    assert {name for name in wheel.namelist() if name.endswith(".py")} == modules.keys()
    for name, path in modules.items():
        assert wheel.read(name) == path.read_bytes()


def test_a_wheel_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "redisson_py/py.typed" in wheel.namelist()


def test_a_wheel_has_the_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"redisson_py", PLUGIN}
    assert not [name for name in wheel.namelist() if "rubbish" in name or name.endswith(".pyc")]


def test_a_wheel_carries_the_licence_and_what_it_needs(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]
    (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
    lines = wheel.read(metadata).decode().splitlines()
    assert "Name: redisson-py" in lines
    assert "Requires-Python: >=3.11" in lines
    needed = {line for line in lines if line.startswith("Requires-Dist:") and "extra" not in line}
    assert {line.split()[1].split("<")[0].split(">")[0].split("[")[0] for line in needed} == {
        "anyio",
        "hiredis",
        "redis",
    }


def test_both_wheels_are_the_same(wheel_from_tree: Path, wheel_from_sdist: Path) -> None:
    with zipfile.ZipFile(wheel_from_tree) as one, zipfile.ZipFile(wheel_from_sdist) as other:
        assert {name: one.read(name) for name in one.namelist()} == {
            name: other.read(name) for name in other.namelist()
        }


def test_an_sdist_has_what_it_takes_to_test_and_to_build(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "tests/conftest.py"} <= names
    assert {f"lua/{name}" for name in LUA} <= names
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_installed_package_finds_its_own_scripts(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _LOAD_ALL],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    package, *scripts = done.stdout.splitlines()
    assert Path(package) == tmp_path / "redisson_py"
    rows = (repository.ROOT / "lua" / "manifest.txt").read_text().splitlines()[1:]
    assert scripts == [" ".join(row.split()[:3]) for row in rows]
