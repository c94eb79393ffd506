"""The layers of the package point down, as the contracts in pyproject.toml say."""

from __future__ import annotations

import tomllib
from typing import cast

import pytest

from tests.support import repository

PROJECT = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))
CONTRACTS = PROJECT["tool"]["importlinter"]["contracts"]


def test_every_module_has_a_layer() -> None:
    # What is inside `_redis` has a contract of its own, which is exhaustive.
    (layers,) = [
        each["layers"]
        for each in CONTRACTS
        if each["type"] == "layers" and "containers" not in each
    ]
    named = {module.strip(" ()") for layer in layers for module in layer.split("|")}
    package = repository.ROOT / "redisson_py"
    modules = {f"redisson_py.{path.stem}" for path in package.glob("[!_]*.py")}
    modules |= {f"redisson_py.{path.stem}" for path in package.glob("_[!_]*.py")}
    modules |= {f"redisson_py.{path.parent.name}" for path in package.glob("*/__init__.py")}
    # Helpers for users' tests stand beside the layers.
    assert modules - named == {"redisson_py.testing"}


@pytest.mark.parametrize("contract", CONTRACTS, ids=lambda contract: contract["name"])
def test_contracts_that_list_rooms_list_all_that_exist(contract: dict[str, object]) -> None:
    """A new family must not be outside of a rule that its neighbours keep."""
    listed = {*cast("list[str]", contract.get("source_modules", []))}
    package = repository.ROOT / "redisson_py"
    families = {f"redisson_py.{path.parent.name}" for path in package.glob("[!_]*/__init__.py")}
    # What uses the public client has rules of its own.
    families -= {"redisson_py.integrations", "redisson_py.sync", "redisson_py.testing"}
    if listed & families:
        assert families - listed == set()
