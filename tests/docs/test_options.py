"""Every option has its default beside it, in every docstring and in docs/using.md."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from typing import Any

import pytest

import redisson_py
from redisson_py import sync
from redisson_py._options import check_options
from redisson_py._stores.mysql.address import Target
from redisson_py.etcd import Etcd
from redisson_py.mysql import MySQL
from redisson_py.postgres import Postgres, StoreOptions
from redisson_py.zookeeper import ZooKeeper
from tests.support import repository


def defaults_of(function: Any) -> dict[str, Any]:
    """Return the default of each argument that has one."""
    return {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
        if each.default is not each.empty
    }


ALL = defaults_of(check_options)
STORE = {name: ALL[name] for name in StoreOptions.__annotations__}
STORES = {
    "PostgreSQL": Postgres.from_url,
    "MySQL": MySQL.from_url,
    "etcd": Etcd.from_url,
    "ZooKeeper": ZooKeeper.from_url,
}
#: What describes options, and the default of each.
DESCRIBED: dict[str, tuple[Any, dict[str, Any]]] = {
    "Redisson": (redisson_py.Redisson, ALL),
    "RedissonOptions": (redisson_py.RedissonOptions, ALL),
    "sync.Redisson": (sync.Redisson, {**ALL, "on_lost": "raise"}),
    "sync.RedissonOptions": (sync.RedissonOptions, {**ALL, "on_lost": "raise"}),
    "StoreOptions": (StoreOptions, STORE),
    **{name: (make, {**defaults_of(make), **STORE}) for name, make in STORES.items()},
}


def items(described: Any) -> dict[str, str]:
    """Return what a docstring says of each argument or attribute, in one line."""
    text = inspect.cleandoc(described.__doc__)
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n|\n)+)", f"{text}\n", re.MULTILINE)
    assert section
    parts = re.split(r"^(\w+): ", textwrap.dedent(section[1]), flags=re.MULTILINE)[1:]
    return {
        name: " ".join(said.split()) for name, said in zip(parts[::2], parts[1::2], strict=True)
    }


def default_in(text: str) -> Any:
    said = re.search(r"[.)] Default: (\S+)$", text)
    assert said, f"{text!r} does not end with its default"
    return ast.literal_eval(said[1])


@pytest.mark.parametrize("name", DESCRIBED)
def test_each_option_ends_with_its_default(name: str) -> None:
    described, defaults = DESCRIBED[name]
    said = items(described)
    for other in ("client", "url"):
        said.pop(other, None)
    assert {option: default_in(text) for option, text in said.items()} == defaults


def test_an_option_is_described_alike_everywhere() -> None:
    """The words for stores differ where they are not Redis."""
    ours, stores = items(redisson_py.RedissonOptions), items(StoreOptions)
    described = items(redisson_py.Redisson)
    assert described.pop("client")
    assert described == ours
    ours["name_mapper"] = ours["name_mapper"].replace("Redis key", "key")
    assert stores == {option: ours[option] for option in STORE}
    for make in STORES.values():
        said = items(make)
        assert {option: said[option] for option in STORE} == stores


def test_arguments_of_a_url_end_with_their_defaults() -> None:
    text = inspect.cleandoc(MySQL.from_url.__doc__ or "")
    said = dict(re.findall(r"^ +- `(\w+)`: .*\. Default: (.+)$", text, re.MULTILINE))
    target = inspect.signature(Target).parameters
    for option in ("connections", "poll_interval"):
        assert ast.literal_eval(said.pop(option)) == target[option].default
    assert said == {
        "ssl": "false",
        "ssl_ca_certs": "the system's",
        "ssl_certfile": "None",
        "ssl_keyfile": "None",
    }
    assert target["tls"].default is None


def test_the_table_has_all_options() -> None:
    page = (repository.ROOT / "docs" / "using.md").read_text("utf-8")
    section = page.split("## Options\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| (\S+) \| \S+ \| `(.+?)` \| (.+) \|$", section, re.MULTILINE)
    found = {(of, option): ast.literal_eval(default) for option, of, default, _ in rows}
    assert len(found) == len(rows) == len(re.findall(r"^\| `", section, re.MULTILINE))
    expected = {("all" if name in STORE else "Redis", name): value for name, value in ALL.items()}
    for store, make in STORES.items():
        expected |= {(store, name): value for name, value in defaults_of(make).items()}
    assert found == expected
    assert all(len(words) < 100 for *_, words in rows)
