"""A tutorial, and the sample service, need what their `pip install` line names, and nothing else.

Each runs in an environment made from that line: no editable install, and nothing of the
environment that runs the tests.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from redisson_py.testing import EmbeddedServer
from tests.docs.newcomer import Newcomers
from tests.docs.pages import DOCS, blocks_of
from tests.docs.test_code_blocks import is_program
from tests.support import repository
from tests.system.test_service import PAID, gunicorn, pay

TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
INSTALL = re.compile(r"^ *(pip install .+)$", re.MULTILINE)

#: Runs what is given from line to line, with `await`, as the page means it.
PARTS = """
import ast, asyncio, inspect, pathlib, sys
from redisson_py import Redisson

async def main():
    client = Redisson.from_url(sys.argv[1])
    names = {"asyncio": asyncio, "Redisson": Redisson, "client": client}
    code = pathlib.Path("parts.txt").read_text()
    made = compile(code, "parts.txt", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    async with client:
        result = eval(made, names)
        if inspect.iscoroutine(result):
            await result

asyncio.run(main())
"""


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: str(page.stem))
def test_tutorial_runs_with_what_its_command_installs(
    page: Path, newcomers: Newcomers, server: EmbeddedServer
) -> None:
    blocks = [block for block in blocks_of(page) if not block.not_run]
    (row,) = INSTALL.findall("".join(block.code for block in blocks if block.language == "sh"))
    reader = newcomers.with_row(row, server.url)
    parts = ""
    for block in blocks:
        if block.title:
            reader.write(block.title, block.code)
        elif block.language == "python":
            assert not is_program(block)
            parts += block.code
    printed = ""
    for block in blocks:
        if block.language == "sh" and not block.code.startswith("docker "):
            done = reader.type(INSTALL.sub("", block.code))
            assert done.returncode == 0, f"{block.where}\n{done.stdout}{done.stderr}"
            printed = done.stdout
        elif block.language == "text":
            assert printed.strip() == block.code.strip(), block.where
    if parts:
        reader.write("parts.txt", parts)
        reader.write("parts.py", PARTS)
        reader.type_all(f"python -W error parts.py {server.url}")


async def test_service_runs_with_what_its_command_installs(
    newcomers: Newcomers, server: EmbeddedServer, tmp_path: Path
) -> None:
    service = repository.ROOT / "examples" / "service"
    (row,) = INSTALL.findall((service / "__init__.py").read_text("utf-8"))
    reader = newcomers.with_row(row, server.url)
    shutil.copytree(service, reader.home / "redisson_py" / "examples" / "service")
    folder = reader.home / "redisson_py"
    ledger = tmp_path / "ledger.sqlite"
    async with gunicorn(server.url, ledger, 1, reader.python, folder) as http:
        assert await pay(http, "17", "a key") == PAID
        assert (await http.get("/health")).json() == {"redis": "answers"}
    reader.type_all("uvicorn --version")
