"""Every code block of README.md and docs/ runs, as far as it can.

- `python` blocks of a page run in their order, with the names of `given.py`, on real servers, which
  stand in for redis://localhost and for the URLs of `stores.py`. A block with `title="name.py"` is
  a file instead, for the commands of the page; one with tests is run by pytest.
- `sh` blocks are checked by `shell.py`; those of a page with files are run beside them, and a
  `text` block that follows is what they must print.
- `sql` runs in SQLite where the page has made the table; `yaml`, `toml` and `json` are read.
- What cannot run is marked on the page, with the reason.
"""

from __future__ import annotations

import ast
import asyncio
import importlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import redis as redis_py
import yaml
from redis.asyncio import Redis

import redisson_py
from redisson_py import Redisson
from redisson_py._stores.client import StoreClient
from tests.docs import given, shell
from tests.docs.pages import PAGES, Block, blocks_of
from tests.docs.stores import StoreServers
from tests.fixtures.client import ClientFactory
from tests.fixtures.redis_server import unavailable
from tests.support import repository

pytestmark = pytest.mark.heart

LANGUAGES = {"python", "sh", "text", "sql", "yaml", "toml", "json", "java"}
#: Those that tests of their own look at.
ELSEWHERE = {"promql", "postgresql", "mysql"}
#: What pages say for "your server".
LOCAL = re.compile(r"redis://localhost(:6379)?(/0)?(?![\w:/,-])")
#: Seconds for one page: some of their leases end.
PATIENCE = 120

ALL = [block for page in PAGES for block in blocks_of(page)]


def pages_with(language: str) -> list[Any]:
    """Return the pages that have runnable blocks in a language."""
    return [
        pytest.param(page, id=repository.name(page))
        for page in PAGES
        if any(block.language == language and not block.not_run for block in blocks_of(page))
    ]


def is_recipe(block: Block) -> bool:
    """Whether it is included from examples/recipes, whose tests run it."""
    return block.code.startswith("--8<--")


def is_test(block: Block) -> bool:
    """Whether pytest has to run it."""
    return bool(re.search(r"^(async )?def test_", block.code, re.MULTILINE))


def is_program(block: Block) -> bool:
    """Whether it starts an event loop of its own."""
    return bool(re.search(r"^asyncio\.run\(", block.code, re.MULTILINE))


def compiled(block: Block, code: str) -> CodeType:
    """Compile a block, so that tracebacks name the line of the page."""
    tree = ast.parse(code, filename=str(block.page))
    ast.increment_lineno(tree, block.row - 1)
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    made: CodeType = compile(tree, str(block.page), "exec", flags=flags)
    return made


@pytest.mark.parametrize("page", pages_with("python"))
async def test_python_runs(
    page: Path,
    server_url: str,
    clients: ClientFactory,
    redis: Redis,
    stores: StoreServers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = given.names(clients(), server_url)
    names["__name__"] = "page"
    (tmp_path / "redisson.yml").write_text(
        "singleServerConfig:\n  address: redis://localhost:6379\n"
    )
    (tmp_path / "redisson.toml").write_text(
        '[singleServerConfig]\naddress = "redis://localhost:6379"\n'
    )
    monkeypatch.chdir(tmp_path)
    try:
        async with asyncio.timeout(PATIENCE):
            for block in blocks_of(page):
                if block.language == "python" and not (block.title or block.not_run):
                    await run_python(block, names, server_url, tmp_path, stores)
    finally:
        for each in list(names.values()):
            if isinstance(each, Redisson | StoreClient):
                await each.aclose()
            elif type(each).__module__.startswith("redisson_py.sync") and hasattr(each, "close"):
                await asyncio.to_thread(each.close)
        # Semaphores stay in Redis for ever.
        await redis.flushdb()


async def run_python(
    block: Block, names: dict[str, Any], url: str, folder: Path, stores: StoreServers
) -> None:
    code = stores.in_code(LOCAL.sub(url, block.code))
    if is_test(block):
        (folder / "test_page.py").write_text(code)
        await asyncio.to_thread(run_tests, folder, block)
    elif is_program(block):
        (folder / "program.py").write_text(code)
        await asyncio.to_thread(run_there, "python program.py", folder, url, block)
    else:
        made = compiled(block, code)
        if made.co_flags & inspect.CO_COROUTINE:
            if not isinstance(names["client"], Redisson):
                # A page about threads goes on with the async client.
                names["client for threads"] = names["client"]
                names["client"] = Redisson.from_url(url)
            await eval(made, names)
        else:
            # Code without `await` may be for threads, which have no event loop.
            await asyncio.to_thread(exec, made, names)


def run_there(command: str, folder: Path, url: str, block: Block) -> str:
    """Run a command beside the files of a page; return what it printed."""
    binaries = str(Path(sys.executable).parent)
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{binaries}:{os.environ['PATH']}",
            "PYTHONPATH": str(repository.ROOT),
            "REDISSON_URL": url,
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, f"{block.where}: {done.stdout}{done.stderr}"
    return done.stdout


def run_tests(folder: Path, block: Block) -> None:
    """Have pytest run the tests of a block with the plugin of this package."""
    run_there(f"python -m pytest -q {plugin_arguments()} .", folder, "", block)


def plugin_arguments() -> str:
    """Return the arguments that load the plugin, where installing the package has not."""
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    module = project["entry-points"]["pytest11"]["redisson_py"]
    if importlib.util.find_spec(module) is None:
        unavailable(f"the pytest plugin {module} is missing")
    registered = [each.value for each in entry_points(group="pytest11")]
    usual = "-p no:cacheprovider -o asyncio_mode=auto"
    return usual if module in registered else f"{usual} -p {module}"


@pytest.mark.parametrize("page", pages_with("sh"))
def test_commands_are_as_the_page_says(page: Path, server_url: str, tmp_path: Path) -> None:
    blocks = [block for block in blocks_of(page) if not block.not_run]
    named = [block for block in blocks if block.title and not is_recipe(block)]
    for block in named:
        (tmp_path / block.title).write_text(LOCAL.sub(server_url, block.code))
    tests = [block for block in named if block.title.startswith("test_")]
    printed = commands = ""
    for block in blocks:
        if block.language == "sh":
            commands += block.code
            if shell.needs_files(block.code, [each.title for each in named]):
                command = re.sub(
                    r"^pytest", f"pytest {plugin_arguments()}", block.code, flags=re.MULTILINE
                )
                printed = run_there(command, tmp_path, server_url, block)
            else:
                shell.check(block.code, server_url, block.where)
        elif block.language == "text" and named:
            assert printed.strip() == block.code.strip(), (
                f"{block.where}: the output is another one"
            )
    if tests and not re.search("^pytest", commands, re.MULTILINE):
        run_tests(tmp_path, tests[0])
    with redis_py.Redis.from_url(server_url) as look:
        # Semaphores stay in Redis for ever.
        look.flushdb()
    unused = [each.title for each in named if not tests and each.title not in commands]
    assert not unused, "no command of the page uses these files"


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(block, id=block.where)
        for block in ALL
        if block.language in ("yaml", "toml", "json", "sql") and not block.not_run
    ],
)
def test_data_can_be_read(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_PASSWORD", "secret")
    match block.language:
        case "yaml":
            assert yaml.safe_load(block.code)
            path = tmp_path / "redisson.yml"
            path.write_text(block.code)
            if "ServersConfig" in block.code or "ServerConfig" in block.code:
                Redisson.from_file(path)
        case "toml":
            assert tomllib.loads(block.code)
        case "json":
            assert json.loads(block.code)
        case _:
            shell.check_sql(block.code)


@pytest.mark.parametrize("block", [pytest.param(block, id=block.where) for block in ALL])
def test_block_says_what_it_is(block: Block) -> None:
    assert block.language in LANGUAGES | ELSEWHERE
    if block.not_run:
        assert len(block.not_run) > 10
    elif block.language == "java":
        pytest.fail("Java is not run here: say so in the line before, with the reason")


def test_few_blocks_are_not_run() -> None:
    """A page is no place for code that nobody runs."""
    left_out = [block.where for block in ALL if block.not_run]
    assert len(left_out) <= len(ALL) // 10, left_out


# README.md and `help(redisson_py)`.


def test_the_first_screen_of_the_readme_has_a_program_and_the_two_commands() -> None:
    screen = "\n".join(PAGES[0].read_text("utf-8").splitlines()[:50])
    for each in ("asyncio.run(main())", "git clone", "\nmake demo\n", "\nmake test\n"):
        assert each in screen


def test_the_first_example_has_the_rows_that_stay() -> None:
    first = blocks_of(PAGES[0])[0].code
    for row in (
        'async with client.get_lock("k")',
        'await client.get_semaphore("s", 5).acquire()',
        'await client.get_latch("job").wait()',
    ):
        assert row in first


HELP = inspect.cleandoc(redisson_py.__doc__ or "")


def test_the_program_of_the_help_runs(server_url: str) -> None:
    (program,) = re.findall(r"^    import asyncio\n(?:    .*\n|\n)+", f"{HELP}\n", re.MULTILINE)
    code = textwrap.dedent(program).replace("redis://localhost:6379/0", server_url)
    assert server_url in code
    exec(compile(code, "help(redisson_py)", "exec"), {"__name__": "__main__"})


def test_what_the_help_names_is_there() -> None:
    names = [each for each in re.findall(r"`([\w.]+)`", HELP) if each != "get_..."]
    assert {"Redisson", "redisson_py.sync", ".etcd"} <= {*names}
    for name in names:
        if name.startswith("redisson_py."):
            importlib.import_module(name)
        elif name.startswith("."):
            importlib.import_module(name, "redisson_py")
        elif not name.endswith("..."):
            assert name in redisson_py.__all__, name
    pages = re.findall(r"[\w/-]+\.md", HELP)
    assert len(pages) == 4
    assert all((repository.ROOT / "docs" / page).is_file() for page in pages)
    assert not re.search(r"\b_\w+", HELP), "private modules are docs/design.md's"
