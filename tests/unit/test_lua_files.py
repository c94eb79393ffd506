"""Every Lua file keeps its own contract and the rules for scripts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from redisson_py._dialect import Dialect
from redisson_py._scripts import source
from redisson_py._scripts.source import Script, parse

ROOT = Path(__file__).parents[2]
SCRIPTS = source.load_all()

CALL = re.compile(r"redis\.p?call\(\s*(?P<command>[^,)]*)")
INDEX = re.compile(r"\b(KEYS|ARGV)\[([^\]]*)\]")
NAMING = re.compile(r"^local (?P<names>[\w, ]+) = (?P<values>.*\b(?:KEYS|ARGV)\[.*)$", re.MULTILINE)
LOOP = re.compile(r"\bfor\b(?P<head>.*)\bdo\b")
UNBOUNDED = re.compile(r"\b(while|repeat|goto)\b")
BOUNDED_BY = re.compile(r" \w+(, \w+)? (in ipairs\((?P<each>\w+)\)|= [^,]+, (?P<last>[#\w]+)) ")

#: What only the hash of a read-write lock knows: who reads, and how often (Redisson's layout).
READERS = {"readers", "reader_holds", "last", "2"}
#: And who waits for a fair lock: what a script takes off those behind it, it takes off each.
QUEUE = {"ahead", "behind", "dead", "late", "length", "living", "scores", "waiting"}
#: And how many units each holder of a semaphore has: to set or add to how many there are needs
#: their sum. And who holds, where their leases have vanished or are over.
HOLDERS = {"holdings", "owners"}
#: And how many clients wait for units, and were called: `lib/call_units`. Among the holders of a
#: crowd nobody looks: `lib/unrecorded`.
UNIT_QUEUE = {"waiting", "some", "notes", "gone", "holdings", "first", "2", "3"}
#: And how many rounds of a barrier are remembered: only a clock that stands still makes it look on.
ROUNDS = {"rounds"}

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
    lines = script.wordings[Dialect.PLAIN].text.splitlines()
    return "\n".join(line.partition("--")[0].rstrip() for line in lines)


def declared(script: Script, field: str) -> list[tuple[str, str]]:
    (line,) = re.findall(rf"^--! {field}\b(.*)$", script.text, re.MULTILINE)
    return [(name, kind) for name, _, kind in (word.partition(":") for word in line.split())]


def indices(script: Script, array: str) -> set[str]:
    return {index for which, index in INDEX.findall(code(script)) if which == array}


@every_script
def test_the_indices_used_are_exactly_those_declared(script: Script) -> None:
    for array, names in (("KEYS", script.keys), ("ARGV", script.args)):
        single = [name for name in names if not name.endswith("...")]
        rest = {index for index in indices(script, array) if not index.isdecimal()}
        used = {int(index) for index in indices(script, array) - rest}
        assert used == {*range(1, len(single) + 1)}
        if len(single) < len(names):
            offset = f"i + {len(single)}" if single else "i"
            assert rest == {offset} or f"ipairs({array})" in code(script)
        else:
            assert not rest


@every_script
def test_the_first_lines_of_code_give_arguments_the_names_of_the_header(script: Script) -> None:
    given: dict[str, str] = {}
    for match in NAMING.finditer(code(script)):
        values = [f"{array}[{index}]" for array, index in INDEX.findall(match["values"])]
        given |= dict(zip(values, match["names"].split(", "), strict=True))
    single = [
        (f"{array}[{place}]", name)
        for array, names in (("KEYS", script.keys), ("ARGV", script.args))
        for place, name in enumerate(names, 1)
        if not name.endswith("...")
    ]
    assert given == dict(single)
    for place, _ in single:
        assert code(script).count(place) == 1, f"{place} is used again below its name"


@every_script
def test_only_the_last_name_stands_for_many(script: Script) -> None:
    for names in (script.keys, script.args):
        assert not any(name.endswith("...") for name in names[:-1])
    many = [bool(names) and names[-1].endswith("...") for names in (script.keys, script.args)]
    assert many[0] == many[1]


@every_script
def test_integers_are_milliseconds_or_counts_or_the_version(script: Script) -> None:
    for name, kind in declared(script, "args"):
        if kind == "int" and name != "version":
            assert name.removesuffix("...").endswith(("_ms", "s")), name


@every_script
def test_commands_are_literal_and_in_capitals(script: Script) -> None:
    for command in CALL.findall(code(script)):
        assert re.fullmatch(r"'[A-Z]+'", command), command


@every_script
def test_no_command_takes_as_long_as_the_database_is_large(script: Script) -> None:
    for command in CALL.findall(code(script)):
        assert not FORBIDDEN.fullmatch(command.strip("'")), command


def bounds(script: Script) -> list[str]:
    """Return what the loops of a script run over; fail for a loop whose end cannot be seen."""
    text = code(script)
    assert not UNBOUNDED.search(text)
    heads = [match["head"] for match in LOOP.finditer(text)]
    assert len(heads) == len(re.findall(r"\bfor\b", text))
    found = [BOUNDED_BY.fullmatch(head) for head in heads]
    return [str(match["each"] or match["last"]) if match else "nothing" for match in found]


@every_script
def test_loops_are_bounded_by_an_argument(script: Script) -> None:
    allowed = {"KEYS", "ARGV", "#KEYS", "#ARGV", *script.args}
    if script.name.startswith(("read_", "write_")):
        # And who waits in the queue of clients.
        allowed |= READERS | {"ahead", "called", "dead", "first", "others", "silent"}
        allowed |= {"some", "waiting"}
    elif script.name.startswith("fair_lock."):
        allowed |= QUEUE
    elif script.name.startswith(("lock.", "fenced_lock.", "client_queue.")):
        # Of two that wait, or of all, some at a time: who does not hear its call is gone.
        allowed |= {"2", "waiting", "some"}
        allowed |= UNIT_QUEUE if script.name == "client_queue.leave_units" else set()
    elif script.name in ("semaphore.acquire", "semaphore.add", "semaphore.set"):
        allowed |= HOLDERS | UNIT_QUEUE
    elif script.name.startswith(("semaphore.", "expirable_semaphore.", "permit.")) and (
        script.name != "semaphore.inspect"
    ):
        allowed |= UNIT_QUEUE
    elif script.name == "semaphore.inspect":
        # What `expired` is told there: how many leases are over.
        allowed |= {"reclaims", "waiting"}
    elif script.name == "barrier.wait":
        allowed |= ROUNDS
    assert {*bounds(script)} <= allowed


@every_script
def test_every_script_is_safe_to_repeat_and_says_why(script: Script) -> None:
    reason = script.retry.removeprefix("safe: ")
    assert script.retry != reason
    assert reason.strip()


@every_script
def test_messages_are_decimal_integers(script: Script) -> None:
    # Redisson's listeners parse nothing else, and fail for all who share their connection.
    above_zero = "return permits > 0 and redis.call('PUBLISH'"  # lib.announce
    for message in re.findall(r"'S?PUBLISH', \w+, ([^)]+)\)", code(script)):
        numbers = {name for name, kind in declared(script, "args") if kind == "int"}
        computed = message == "string.format('%.0f', told" and above_zero in code(script)
        # Digits, or the sum of two numbers in digits, too small for Redisson to cut it.
        small = r"#found < 7 .*(\n.*)*local value = found == '0' and .* string\.format\('%d', "
        computed |= message == "value" and re.search(small, code(script)) is not None
        # What a counter says, if it is not too great for that.
        small = r"\bvalue > 0 and value <= 2147483647\s+and redis\.pcall\('S?PUBLISH', "
        bounded = re.search(small, code(script)) is not None
        computed |= message == "string.format('%d', value" and bounded
        # A zero before a number is for Redisson's clients alone: lib.wake_foreign.
        zeroed = "string.format('0%.0f', told"
        guarded = re.search(r"\b(told|permits) > 0", code(script)) is not None
        computed |= message == zeroed and guarded
        given = set(re.findall(r"wake_foreign\(clients, channel, ([^)]+)\)", code(script)))
        computed |= message == "message or '00'" and given <= {"message", "'00'", zeroed}
        assert re.fullmatch(r"'[0-9]+'", message) or message in numbers or computed


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


@every_script
def test_every_include_is_resolved(script: Script) -> None:
    assert "--! include" not in script.text


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
def test_a_header_that_says_otherwise_is_noticed(script: Script) -> None:
    text = re.sub(r"^--! computes .*\n", "", script.text, flags=re.MULTILINE)
    said = re.sub(r"(?m)^(--! retry .*\n)", "\\1--! computes some keys\n", text)
    for follows, changed in ((True, parse(text)), (False, parse(said))):
        assert changed.follows_ask is follows
        assert (changed.follows_ask is not builds_keys(changed)) == (follows is script.follows_ask)


@every_script
def test_messages_of_a_sharded_text_are_sharded(script: Script) -> None:
    said = [CALL.findall(script.wordings[dialect].text) for dialect in Dialect]
    assert said[Dialect.PLAIN] == said[Dialect.MODERN]
    assert "'SPUBLISH'" not in said[Dialect.MODERN]
    exchanged = [c.replace("'PUBLISH'", "'SPUBLISH'") for c in said[Dialect.MODERN]]
    assert said[Dialect.SHARDED] == exchanged
    asked = script.text.count("local publish, missing = 'PUBLISH'")
    assert script.text.count("'PUBLISH'") == said[Dialect.MODERN].count("'PUBLISH'") + asked


@every_script
def test_heads_are_equally_long(script: Script) -> None:
    # So that a packed call gets another head by one slice.
    assert {len(wording.head) for wording in script.wordings} == {len(script.head)}


QUEUE_OF_CLIENTS = {"busy", "join_queue", "may_take", "wake_foreign"}
# Both sides of a read-write lock.
QUEUE_OF_CLIENTS |= {"bring_readers", "busy_side", "join_sides", "may_enter", "pass_over"}
# Plain semaphores and those with ids.
QUEUE_OF_CLIENTS |= {"await_units", "sooner_units", "unrecorded"}


def test_a_block_is_shared_by_three_scripts_or_not_at_all() -> None:
    for block in (ROOT / "lua").glob("lib/*.lua"):
        assert "--!" not in block.read_text("utf-8"), "one level of includes, and no header"
        shared_by = [script.name for script in SCRIPTS if block.read_text("utf-8") in script.text]
        # Locks are the first whose clients wait in a queue; the other kinds come behind them.
        assert len(shared_by) >= (1 if block.stem in QUEUE_OF_CLIENTS else 3), block.name


def test_the_rules_can_fail() -> None:
    """The expressions above see what they are meant to see."""
    assert FORBIDDEN.fullmatch("HSCAN")
    assert FORBIDDEN.fullmatch("KEYS")
    assert not FORBIDDEN.fullmatch("HKEYS")
    assert not FORBIDDEN.fullmatch("EXISTS")
    header = SCRIPTS[0].text.partition("\n\n")[0]
    endless = parse(header + "\nfor i = 1, 1e9 do end")
    assert bounds(endless) == ["1e9"]
    assert {"EVAL", "X"} == {
        c.strip("'") for c in CALL.findall("redis.call('EVAL') redis.pcall('X'")
    }
