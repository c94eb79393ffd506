"""Headers of Lua files are contracts: read strictly, and bound by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import hiredis
import pytest

from redisson_py._redis.dialect import Dialect
from redisson_py._redis.scripts import source
from redisson_py._redis.scripts.source import Arg, load, parse

HEADER = """\
--! script   door.open
--! version  3
--! keys     door:hash hinge:zset
--! args     owner:str leaves:int
--! returns  nil = open
--! retry    safe: an open door stays open
"""
BODY = "\nlocal door, hinge = KEYS[1], KEYS[2]\nreturn nil\n"
BATCH = """\
--! script   door.oil
--! version  1
--! keys     doors...:hash
--! args     oil_ms:int owners...:str
--! returns  array
--! retry    safe: oil does no harm
"""


def rows_without(field: str) -> str:
    return "".join(row for row in HEADER.splitlines(True) if not row.startswith(f"--! {field} "))


def changed(old: str, new: str) -> str:
    assert old in HEADER
    return HEADER.replace(old, new) + BODY


def pack(*words: bytes | str | int) -> bytes:
    # The stubs of hiredis give this function one argument too few and no result.
    pack_command: Callable[..., bytes] = hiredis.pack_command
    return pack_command(words)


@pytest.mark.parametrize("field", ["script", "version", "keys", "args", "returns", "retry"])
def test_every_field_is_needed(field: str) -> None:
    with pytest.raises(ValueError, match="a script header has"):
        parse(rows_without(field) + BODY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        BODY,
        "\n" + HEADER + BODY,
        HEADER.replace("--! ", "--!") + BODY,
        HEADER.replace("--! ", "-- ") + BODY,
        HEADER + "--! author   me\n" + BODY,
        changed("--! version  3\n", "--! version  3\n-- a remark in between\n"),
        "--! version  3\n" + HEADER.replace("--! version  3\n", "") + BODY,
        changed("--! keys", "--! key"),
        changed("version  3", "version  3\n--! version  4"),
        changed("--! retry", "--! computes keys\n--! retry"),
        HEADER + "--! computes\n" + BODY,
        HEADER + "--! computes\n--! author me\n" + BODY,
        changed("version  3", "version"),
        changed("version  3", "version  three"),
        changed("version  3", "version  1.5"),
        changed("version  3", "version  -1"),
        changed("owner:str", "lambda:str"),
        changed("owner:str", "_number:str"),
        changed("safe: an open door stays open", "safe"),
        changed("safe: an open door stays open", "unsafe: it slams"),
        changed("safe: an open door stays open", ""),
        changed("door:hash", "door"),
        changed("door:hash", "door:"),
        changed("door:hash", ":hash"),
        changed("door:hash", "door:tree"),
        changed("door:hash", "the-door:hash"),
        changed("door:hash", "...:hash"),
        changed("door:hash", "1door:hash"),
        changed("owner:str", "owner:float"),
        changed("owner:str", "owner:hash"),
        changed("hinge:zset", "door:zset"),
        changed("owner:str", "door:str"),
        changed("owner:str", "leaves:str"),
    ],
)
def test_a_malformed_header_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"header|version|retry|name"):
        parse(text)


def test_arguments_are_bound_by_name_in_the_order_of_the_header() -> None:
    script = parse(HEADER + BODY)
    owner = b"\xff\r\n"
    packed = script.head + script.bind(leaves=20, hinge=b"%h", owner=owner, door=b"")
    assert packed == pack("EVALSHA", script.sha, 2, b"", b"%h", owner, 20)
    assert {wording.head for wording in script.wordings} == {script.head}, "the text has no #! line"


def test_a_batch_is_bound_to_many_keys() -> None:
    script = parse(BATCH)
    bound = script.bind_batch([b"a", b"b"], {"oil_ms": 5}, ["me", "you"])
    assert bound == (2, b"a", b"b", 5, "me", "you")


def test_redis_6_gets_the_text_without_its_first_row() -> None:
    script = parse("#!lua flags=allow-oom\n" + HEADER + BODY)
    assert script.text.startswith("#!lua")
    plain = script.wordings[Dialect.PLAIN]
    assert plain.text == HEADER + BODY
    assert plain.sha == hashlib.sha1((HEADER + BODY).encode()).hexdigest()
    assert plain.sha != script.sha


def test_a_cluster_with_sharded_messages_gets_its_own_text() -> None:
    body = "redis.call('PUBLISH', door, '0') -- PUBLISH\n"
    plain, modern, sharded = parse("#!lua\n" + HEADER + body).wordings
    assert sharded.text == "#!lua\n" + HEADER + "redis.call('SPUBLISH', door, '0') -- PUBLISH\n"
    assert len({plain.sha, modern.sha, sharded.sha}) == 3
    assert sharded.sha == hashlib.sha1(sharded.text.encode()).hexdigest()


def test_a_file_must_say_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "script_root", lambda: tmp_path)
    (tmp_path / "door").mkdir()
    (tmp_path / "door" / "open.lua").write_text(HEADER)
    (tmp_path / "door" / "close.lua").write_text(HEADER)
    assert load("door.open").version == 3
    with pytest.raises(ValueError, match=r"door/close\.lua says it is 'door\.open'"):
        _ = load("door.close").version


def test_an_included_block_becomes_part_of_the_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source, "script_root", lambda: tmp_path)
    for folder in ("door", "lib"):
        (tmp_path / folder).mkdir()
    (tmp_path / "door" / "open.lua").write_text(HEADER + "\n--! include lib.paint\n" + BODY)
    with pytest.raises(FileNotFoundError):
        _ = load("door.open").text
    (tmp_path / "lib" / "paint.lua").write_text("local paint = 'red'\n")
    red = load("door.open")
    assert red.text == HEADER + "\nlocal paint = 'red'\n" + BODY
    (tmp_path / "lib" / "paint.lua").write_text("local paint = 'green'\n")
    assert load("door.open").sha != red.sha


@pytest.mark.parametrize(
    ("header", "values"), [(HEADER, {}), (BATCH, {}), (BATCH, {"oil_ms": 1, "x": 1})]
)
def test_other_batches_than_that_of_the_header_are_refused(
    header: str, values: dict[str, Arg]
) -> None:
    with pytest.raises(TypeError, match=r"door\.\w+ takes"):
        parse(header + BODY).bind_batch([b"a"], values, ["me"])
