"""What users install: the same from the tree and from the sdist, with every script, no tests."""

from __future__ import annotations

import email
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.support import repository

LUA = {
    path.relative_to(repository.ROOT / "lua").as_posix()
    for path in repository.of_kind(".lua", "lua")
}
LUA.add("manifest.txt")

#: What pytest loads lies beside the package.
PLUGIN = "_redisson_py_pytest.py"

_LOAD_ALL = """
import pathlib, redisson_py
from redisson_py._redis.scripts import source
package = pathlib.Path(redisson_py.__file__).parent
assert pathlib.Path(str(source.script_root())) == package / "_lua", source.script_root()
print(package, *(f"{script} {script.sha}" for script in source.load_all()), sep="\\n")
"""


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
    rows = wheel.read(metadata).decode().splitlines()
    assert "Name: redisson-py" in rows
    assert "Requires-Python: >=3.11" in rows
    needed = {row for row in rows if row.startswith("Requires-Dist:") and "extra" not in row}
    assert {row.split()[1].split("<")[0].split(">")[0].split("[")[0] for row in needed} == {
        "anyio",
        "hiredis",
        "redis",
    }


def test_the_page_of_an_index_has_no_dead_link(wheel: zipfile.ZipFile) -> None:
    (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
    message = email.message_from_bytes(wheel.read(metadata))
    page = message.get_payload()
    assert isinstance(page, str)
    readme = (repository.ROOT / "README.md").read_text("utf-8")
    assert page.splitlines()[0] == readme.splitlines()[0]
    prose = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    links = re.findall(
        r"\]\(([^)]*)\)|^\[[^]]+\]:\s*(\S+)|(?:href|src)=\"([^\"]*)", prose, re.MULTILINE
    )
    targets = ["".join(each) for each in links]
    assert targets
    assert [each for each in targets if not each.startswith("https://")] == []
    # A file is named in place of a link to it.
    assert "(`docs/safety.md`)" in page
    # No home is known yet.
    assert message.get_all("Project-URL") is None


def test_an_index_takes_both(wheel_from_tree: Path, sdist: Path) -> None:
    """`make build` checks the same."""
    done = subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", wheel_from_tree, sdist],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_nothing_of_this_machine_is_packed(wheel_from_tree: Path, sdist: Path) -> None:
    packed: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel_from_tree) as archive:
        packed |= {name: archive.read(name) for name in archive.namelist()}
    with tarfile.open(sdist) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            packed[member.name] = b"" if content is None else content.read()
    parts = {part for name in packed for part in name.split("/")}
    assert not parts & {"__pycache__", ".venv", ".git", ".hypothesis", ".mypy_cache", "target"}
    here = [str(each).encode() for each in (repository.ROOT, sys.prefix, Path.home() / ".pyenv")]
    assert [name for name, text in packed.items() if any(each in text for each in here)] == []


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
