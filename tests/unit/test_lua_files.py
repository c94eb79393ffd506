"""Every Lua file keeps its own contract and the rules for scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.source import Script

ROOT = Path(__file__).parents[2]
SCRIPTS = source.load_all()

CALL = re.compile(r"redis\.p?call\(\s*(?P<command>[^,)]*)")
INDEX = re.compile(r"\b(KEYS|ARGV)\[([^\]]*)\]")


#: Commands that take as long as the database is large, stop the server, or block.
FORBIDDEN = re.compile(r"KEYS|\w*SCAN|FLUSH\w*|SORT|EVAL\w*|WAIT\w*|BL\w+|BZ\w+|RANDOMKEY|SELECT")


def every_script(rule: Callable[[Script], None]) -> Callable[[], None]:
    """Make a test of a rule: every script keeps it."""

    def test() -> None:
        for script in SCRIPTS:
            try:
                rule(script)
            except Exception as error:
                error.add_note(script.name)
                raise

    return test


def code(script: Script) -> str:
    """Return a script without comments and its `#!lua` line."""
    rows = script.wordings[Dialect.PLAIN].text.splitlines()
    return "\n".join(row.partition("--")[0].rstrip() for row in rows)


def indices(script: Script, array: str) -> set[str]:
    return {index for which, index in INDEX.findall(code(script)) if which == array}


@every_script
def test_the_indices_used_are_exactly_those_declared(script: Script) -> None:
    for array, names in (("KEYS", script.keys), ("ARGV", script.args)):
        single = [name for name in names if not name.endswith("...")]
        others = {index for index in indices(script, array) if not index.isdecimal()}
        used = {int(index) for index in indices(script, array) - others}
        assert used == {*range(1, len(single) + 1)}
        if len(single) < len(names):
            offset = f"i + {len(single)}" if single else "i"
            assert others == {offset} or f"ipairs({array})" in code(script)
        else:
            assert not others


@every_script
def test_no_command_takes_as_long_as_the_database_is_large(script: Script) -> None:
    for command in CALL.findall(code(script)):
        assert not FORBIDDEN.fullmatch(command.strip("'")), command


@every_script
def test_a_full_server_lets_go_and_keeps_but_grants_nothing(script: Script) -> None:
    takes = script.name.endswith(".acquire") or script.name.endswith(".inspect")
    assert script.text.startswith("#!lua flags=allow-oom\n--! ") != takes
    assert script.wordings[Dialect.PLAIN].text.startswith("--! script ")


@every_script
def test_time_is_the_servers(script: Script) -> None:
    assert "os." not in code(script)
    assert not any(name.startswith("now") for name in script.args)


@every_script
def test_every_script_is_loaded_by_exactly_one_module(script: Script) -> None:
    call = re.compile(rf'source\.load\(\s*"{re.escape(script.name)}"')
    modules = [
        path
        for path in (ROOT / "redisson_py").rglob("*.py")
        if call.search(path.read_text("utf-8"))
    ]
    assert len(modules) == 1, modules


def builds_keys(script: Script) -> bool:
    """Return whether a script makes the name of a key out of that of another."""
    keys = rf"(?:KEYS\[[^\]]*\]|\b(?:{'|'.join(map(re.escape, script.keys))})\b)"
    text = code(script)
    appended = re.search(rf"{keys}\s*\.\.|\.\.\s*{keys}", text)
    return bool(appended or "rwlock_timeout" in text or "redisson_py:" in text)


@every_script
def test_a_script_follows_ask_unless_it_builds_the_name_of_a_key(script: Script) -> None:
    # Where a slot is arriving, such a key may be missing and nothing says so.
    assert script.follows_ask is not builds_keys(script)


@every_script
def test_messages_of_a_sharded_text_are_sharded(script: Script) -> None:
    said = [CALL.findall(script.wordings[dialect].text) for dialect in Dialect]
    assert said[Dialect.PLAIN] == said[Dialect.MODERN]
    assert "'SPUBLISH'" not in said[Dialect.MODERN]
    exchanged = [c.replace("'PUBLISH'", "'SPUBLISH'") for c in said[Dialect.MODERN]]
    assert said[Dialect.SHARDED] == exchanged
    asked = script.text.count("local publish, missing = 'PUBLISH'")
    assert script.text.count("'PUBLISH'") == said[Dialect.MODERN].count("'PUBLISH'") + asked
