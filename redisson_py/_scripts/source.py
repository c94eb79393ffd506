"""Lua scripts as files: finding them, and the contract in their headers.

A header is parsed, not decoration: the names in it are the names callers use, and a script
whose header does not say what it must is refused when it is loaded.
"""

from __future__ import annotations

import hashlib
import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from redisson_py._scripts.packing import Pack, head, packer

Arg = bytes | str | int

#: A block that several scripts share: `--! include lib.whole`, one function a file.
_INCLUDE = re.compile(r"^--! include lib\.(\w+)$", re.MULTILINE)

_FIELDS = ("script", "version", "keys", "args", "returns", "retry")


@dataclass(frozen=True)
class Script:
    """A Lua script and its contract, as the header of its file states it.

    Attributes:
        sha: The name under which Redis 7 and newer know it.
        plain_text: The text without its `#!lua` line, which Redis 6.2 cannot read.
        plain_sha: The name under which Redis 6.2 knows it.
        ints: Those of the arguments that are numbers; the others are bytes.
        head: What comes before the arguments of a call, and `plain_head` for Redis 6.2.
        bind: Takes the keys and arguments by the names in the header, all of them, and
            returns them packed for one call. `bind_packed` takes all but the numbers packed
            already. A script for batches has neither.
    """

    name: str
    version: int
    keys: tuple[str, ...]
    args: tuple[str, ...]
    retry: str
    text: str
    sha: str = field(init=False)
    plain_text: str = field(init=False)
    plain_sha: str = field(init=False)
    ints: frozenset[str] = frozenset()
    head: bytes = field(init=False)
    plain_head: bytes = field(init=False)
    bind: Pack = field(init=False, compare=False)
    bind_packed: Pack = field(init=False, compare=False)

    def __post_init__(self) -> None:
        first, _, rest = self.text.partition("\n")
        plain_text = rest if first.startswith("#!") else self.text
        # The dataclass is frozen for everybody else.
        object.__setattr__(self, "sha", _sha(self.text))
        object.__setattr__(self, "plain_text", plain_text)
        object.__setattr__(self, "plain_sha", _sha(plain_text))
        count = 1 + len(self.keys + self.args)
        object.__setattr__(self, "head", head(self.sha, count))
        object.__setattr__(self, "plain_head", head(self.plain_sha, count))
        if not self.is_batch:
            bind = packer(self.name, self.keys, self.args, self.ints)
            object.__setattr__(self, "bind", bind)
            bind = packer(self.name, self.keys, self.args, self.ints, packed=True)
            object.__setattr__(self, "bind_packed", bind)

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    @property
    def is_batch(self) -> bool:
        """Whether the last key and the last argument stand for any number of them."""
        return bool(self.keys and self.args) and self.keys[-1][-3:] == self.args[-1][-3:] == "..."

    def bind_batch(
        self, keys: list[bytes], values: dict[str, Arg], rest: Sequence[str | bytes]
    ) -> tuple[Arg, ...]:
        """Return the call of a script whose last key and last argument stand for many.

        Raises:
            TypeError: The script takes no batch, or the names are not those of the header.
        """
        if not self.is_batch:
            raise TypeError(f"{self.name} takes no batch")
        if not rest or len(keys) % len(rest):
            raise TypeError(f"{self.name} takes {len(keys)} keys for as many arguments, or a part")
        if tuple(values) != self.args[:-1]:
            raise TypeError(f"{self.name} takes {self.args[:-1]}, not {tuple(values)}")
        return (len(keys), *keys, *values.values(), *rest)


def script_root() -> Traversable:
    """Return the Lua folder: inside the package once installed, beside it in a checkout."""
    packaged = resources.files("redisson_py") / "_lua"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "lua"


def load(name: str) -> Script:
    """Return the script `folder.verb`, read from `folder/verb.lua`.

    Raises:
        ValueError: Its header is incomplete or says another name.
        FileNotFoundError: There is no such file.
    """
    folder, _, verb = name.partition(".")
    script = parse(_INCLUDE.sub(_included, _read(folder, verb)))
    if script.name != name:
        raise ValueError(f"{folder}/{verb}.lua says it is {script.name!r}")
    return script


def _read(folder: str, name: str) -> str:
    return (script_root() / folder / f"{name}.lua").read_text(encoding="utf-8")


def _included(directive: re.Match[str]) -> str:
    # One level only: an include that includes would hide what a script does.
    return _read("lib", directive[1]).rstrip("\n")


def load_all() -> list[Script]:
    """Return every script of the Lua folder, by name."""
    names = [
        f"{folder.name}.{file.name.removesuffix('.lua')}"
        for folder in script_root().iterdir()
        if folder.is_dir() and folder.name != "lib"
        for file in folder.iterdir()
        if file.name.endswith(".lua")
    ]
    return [load(name) for name in sorted(names)]


def parse(text: str) -> Script:
    """Return the script whose text this is.

    Raises:
        ValueError: A header field is missing, unknown, out of order or not readable.
    """
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        del lines[0]
    fields: dict[str, str] = {}
    for line in lines:
        if not line.startswith("--! "):
            break
        field, _, value = line.removeprefix("--! ").partition(" ")
        if field in fields:
            raise ValueError(f"a script header says {field!r} once")
        fields[field] = value.strip()
    if tuple(fields) != _FIELDS:
        raise ValueError(f"a script header has {', '.join(_FIELDS)}, not {', '.join(fields)}")
    if not fields["version"].isdecimal():
        raise ValueError(f"version must be a number, not {fields['version']!r}")
    if not fields["retry"].startswith("safe: "):
        raise ValueError("every script must be safe to repeat, and say why: 'retry safe: ...'")
    keys = _declared(fields["keys"], {"hash", "string", "list", "zset", "set"})
    args = _declared(fields["args"], {"int", "str"})
    if len({*keys, *args}) != len(keys) + len(args):
        raise ValueError(f"the names in a script header must differ: {*keys, *args}")
    return Script(
        name=fields["script"],
        version=int(fields["version"]),
        keys=tuple(keys),
        args=tuple(args),
        retry=fields["retry"],
        text=text,
        ints=frozenset(name for name, kind in args.items() if kind == "int"),
    )


def _declared(words: str, kinds: set[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for word in words.split():
        name, _, kind = word.partition(":")
        if not _is_name(name.removesuffix("...")) or kind not in kinds:
            raise ValueError(f"{word!r} is not name:kind with one of {', '.join(sorted(kinds))}")
        if name in names:
            raise ValueError(f"the names in a script header must differ: {name!r}")
        names[name] = kind
    return names


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text) and not text.startswith("_")


def _sha(text: str) -> str:
    # Redis names scripts by SHA-1; nothing here is protected by it.
    return hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


#: What clients send beside scripts.
OUTSIDE = {
    "client|setname",
    "del",
    "evalsha",
    "exists",
    "get",
    "hexists",
    "hget",
    "info",
    "ping",
    "pttl",
    "script|load",
    "select",
    "set",
    "subscribe",
    "unsubscribe",
}
#: A command in a script.
CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'")


def commands() -> list[str]:
    """Return the Redis commands a user of this library must be allowed, read from the scripts."""
    inside = {c.lower() for script in load_all() for c in CALL.findall(script.text)}
    return sorted(OUTSIDE | inside)
