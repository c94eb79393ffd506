"""`help(redisson_py)` is for users: its program runs, and what it names is there."""

from __future__ import annotations

import importlib
import inspect
import re
import textwrap

import redisson_py
from tests.support import repository

TEXT = inspect.cleandoc(redisson_py.__doc__ or "")


def test_its_program_runs(server_url: str) -> None:
    (program,) = re.findall(r"^    import asyncio\n(?:    .*\n|\n)+", f"{TEXT}\n", re.MULTILINE)
    code = textwrap.dedent(program).replace("redis://localhost:6379/0", server_url)
    assert server_url in code
    exec(compile(code, "help(redisson_py)", "exec"), {"__name__": "__main__"})


def test_what_it_names_is_there() -> None:
    names = [each for each in re.findall(r"`([\w.]+)`", TEXT) if each != "get_..."]
    assert {"Redisson", "redisson_py.sync", ".etcd"} <= {*names}
    for name in names:
        if name.startswith("redisson_py."):
            importlib.import_module(name)
        elif name.startswith("."):
            importlib.import_module(name, "redisson_py")
        elif not name.endswith("..."):
            assert name in redisson_py.__all__, name
    pages = re.findall(r"[\w/-]+\.md", TEXT)
    assert len(pages) == 4
    assert all((repository.ROOT / "docs" / page).is_file() for page in pages)
    assert not re.search(r"\b_\w+", TEXT), "private modules are docs/design.md's"
