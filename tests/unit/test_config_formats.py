"""YAML, TOML and JSON: what is read, what is replaced, and what is said of what cannot be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from redisson_py import Redisson
from redisson_py._redis.config import file
from redisson_py._redis.config.file import read_file
from tests.support import repository
from tests.unit.config_files import need_yaml


def parsed(folder: Path, name: str, text: str | bytes) -> dict[str, Any]:
    if name.lower().endswith((".yaml", ".yml")):
        need_yaml()
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path)


@pytest.mark.parametrize(
    ("name", "text", "table"),
    [
        ("a.yaml", "a: 0123\nb: yes\nc: 1e3\nd: 2026-01-01\n", "0123 yes 1e3 2026-01-01"),
        ("a.yml", "a: '~'\nb: \"null\"\nc: |\n  x\nd: ''\n", ["~", "null", "x\n", ""]),
        ("A.YAML", "a:\nb: null\nc: ~\nd: Null\n", [None] * 4),
        (
            "a.yaml",
            "a: [x, 1]\nb: {c: 1}\nc: &x [1]\nd: [1]\n",
            [["x", "1"], {"c": "1"}, ["1"], ["1"]],
        ),
        (
            "a.yaml",
            "a: !<org.redisson.A> {}\nb: !org.acme.B {x: 1}\nc: !!org.acme.C\nd: !!str x\n",
            [
                {"class": "org.redisson.A"},
                {"class": "org.acme.B", "x": "1"},
                {"class": "org.acme.C"},
                "x",
            ],
        ),
        ("a.json", '{"a": "0123", "b": true, "c": 3, "d": null}', ["0123", True, 3, None]),
        (
            "a.json",
            '\ufeff{"a": {"b": []}, "b": 1.5, "c": "ä", "d": ""}',
            [{"b": []}, 1.5, "ä", ""],
        ),
        ("a.toml", "a = '0123'\nb = true\nc = 3\nd = ['x']\n", ["0123", True, 3, ["x"]]),
        (
            "a.toml",
            f"a = {['10.0.0.1:1'] * 40}\nb = '{'.b' * 60}'\nc = 1.5 # {'.c' * 60}\nd = 1\n",
            [["10.0.0.1:1"] * 40, ".b" * 60, 1.5, 1],
        ),
    ],
)
def test_what_is_read(tmp_path: Path, name: str, text: str, table: Any) -> None:
    values = table.split() if isinstance(table, str) else table
    assert parsed(tmp_path, name, text) == dict(zip("abcd", values, strict=True))


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.yaml", "a: [canary\nb: 1", "line 2, column 2: not valid YAML"),
        ("a.yaml", "a: canary: b", "line 1, column 10: not valid YAML"),
        ("a.yaml", "a: *canary", "line 1, column 4: not valid YAML"),
        ("a.yaml", "a: 1\n--- \nb: canary", "line 2, column 1: not valid YAML"),
        ("a.yaml", "a: \x07canary", "not valid YAML"),
        ("a.yaml", "a: 1\na: canary", "line 2: a is set twice"),
        ("a.yaml", "b: {a: 1, a: canary}", "line 1: a is set twice"),
        ("a.yaml", "? [canary]\n: 1", "line 1: a name must be text"),
        ("a.yaml", "a: &a [*a]", "line 1: an alias refers to this value: repeat the value instead"),
        ("a.yaml", "a: 1\nb: &canary 2\nc: *canary\n", "line 2: an alias refers to this value"),
        ("a.toml", "a" + ".a" * 60 + " = 1", "values are nested too deeply"),
        ("a.toml", "a = '1'\n['a'" + '."b"' * 60 + "]", "values are nested too deeply"),
        ("a.toml", """x = {a = \'\'\'\n"\'\'\', b""" + ".b" * 60 + " = 1}", "values are nested"),
        ("a.json", " " * 2**20 + "{}", "the file is longer than 1,048,576 bytes"),
        ("a.yaml", "a: " + "[" * 100 + "]" * 100, "values are nested too deeply"),
        ("a.yaml", "", "the file must contain names and values"),
        ("a.yaml", "canary", "the file must contain names and values"),
        ("a.json", '"canary"', "the file must contain names and values"),
        ("a.json", '["canary"]', "the file must contain names and values"),
        ("a.json", '{"a": "canary}', "line 1, column 7: not valid JSON"),
        ("a.json", '{"a": 1, "b": {"c": 1, "c": "canary"}}', "c is set twice"),
        ("a.json", '{"canary-1": 1, "canary-1": 2}', "a name is set twice"),
        ("a.json", "[" * 100_000, "values are nested too deeply"),
        ("a.toml", "a = canary", "line 1, column 5: not valid TOML"),
        ("a.toml", "a = 'canary'\na = 'canary'", "not valid TOML"),
        ("a.toml", b"\xffcanary", "the file is not UTF-8"),
        ("a.yaml", b"a: \xffcanary", "the file is not UTF-8"),
        ("a.properties", "a=canary", "the file name must end in .yaml, .yml, .toml, .json"),
        ("redisson", "a=canary", "the file name must end in .yaml, .yml, .toml, .json"),
        (
            "a.json",
            '{"a": {"password": "${NO_SUCH_canary}x"}}',
            "a.password: a variable in it is not",
        ),
        (
            "a.json",
            '{"address": "redis://me:${NO_SUCH_canary}@h"}',
            "address: a variable in it is not",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, name: str, text: str | bytes, expected: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # compared below, as it is
        parsed(tmp_path, name, text)
    assert f"{tmp_path / name}: {expected}" in str(caught.value)
    assert "canary" not in str(caught.value)
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_what_cannot_be_opened_is_reported_as_python_does(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.json"):
        Redisson.from_file(tmp_path / "missing.json")
    path: Any = b"redisson.json"
    with pytest.raises(TypeError, match="path must be str or a path, not bytes"):
        Redisson.from_file(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("${A}", "1"),
        ("x${A}y${B:-2}", "x1y2"),
        ("${A:-2}", "1"),
        ("${EMPTY:-2}", ""),
        ("${B:-}", ""),
        ("${B:-a:-b}", "a:-b"),
        ("${NESTED}", "${A}"),
        ("${with.dot:-x}", "x"),
        ("$A {A} ${} ${-} ${A-B} ${A", "$A {A} ${} ${-} ${A-B} ${A"),
    ],
)
def test_variables_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, found: str
) -> None:
    for name, value in (("A", "1"), ("EMPTY", ""), ("NESTED", "${A}")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("B", raising=False)
    table = parsed(tmp_path, "a.toml", f"a = '{text}'\nb = [{{c = '{text}'}}]\n")
    assert table == {"a": found, "b": [{"c": found}]}


def test_a_variable_cannot_add_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are replaced when the file has been understood: a password is text, whatever it has."""
    monkeypatch.setenv("A", "1'\nb: 2\nc: [")
    assert parsed(tmp_path, "a.yaml", "a: ${A}\n") == {"a": "1'\nb: 2\nc: ["}


def test_yaml_is_not_needed_until_there_is_a_file_of_it(tmp_path: Path) -> None:
    """Nor imported for the others; without it, the extra is named."""
    script = """
import sys
sys.modules["yaml"] = None
from redisson_py import Redisson
from pathlib import Path
folder = Path(sys.argv[1])
(folder / "a.json").write_text('{"singleServerConfig": {"address": "redis://a:1"}}')
(folder / "a.yml").write_text("singleServerConfig: {address: redis://a:1}")
Redisson.from_file(folder / "a.json")
try:
    Redisson.from_file(folder / "a.yml")
except ModuleNotFoundError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a.yml: reading YAML needs PyYAML: pip install 'redisson-py[yaml]'" in done.stdout


def test_a_module_that_yaml_lacks_is_reported_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "yaml.py").write_text("import no_such_module_of_yaml")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "yaml", raising=False)
    with pytest.raises(ModuleNotFoundError, match="no_such_module_of_yaml"):
        file._yaml("a.yaml")
