"""Lua scripts as files: finding them, and the contract in their headers.

Headers are parsed: callers use the names in them, and a script with an incomplete header is
refused when it is read.
"""

from __future__ import annotations

import hashlib
import keyword
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from redisson_py._redis.dialect import wordings
from redisson_py._redis.scripts.packing import Pack, head, packer
from redisson_py._redis.scripts.shapes import Array, Shape, read_shape

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

Arg = bytes | str | int

#: A block that several scripts share: `--! include lib.whole`, one function per file.
_INCLUDE = re.compile(r"^--! include lib\.(\w+)$", re.MULTILINE)

_FIELDS = ("script", "version", "keys", "args", "returns", "retry")
#: The keys whose names a script computes, so that it cannot declare them; most scripts have none.
_COMPUTES = "computes"


@dataclass(frozen=True, slots=True)
class Wording:
    """A script in one dialect.

    Attributes:
        text: What is loaded.
        sha: The name under which a server then knows it.
        head: What precedes the arguments of a call; equally long in each dialect.
    """

    text: str
    sha: str
    head: bytes


class Script:
    """A Lua script and its contract, as the header of its file states it.

    The file is read at first use: a service imports all scripts and uses a few of them.

    Args:
        name: Its folder and its verb, `folder.verb`.
        read: Returns its text.
        array: Says whether an array may be its reply; None: any may, if its replies are arrays.

    Attributes:
        keys: The names of its keys, and `args` those of its arguments.
        key_types: The types of its keys in Redis.
        ints: Those of the arguments that are numbers; the others are bytes.
        is_batch: The last key and the last argument stand for any number of them.
        retry: Why it is safe to repeat.
        may_be_nil: Its reply may be nil.
        least: Its reply may be a number from here on; infinity if it may not.
        most: Its reply may be a number up to here; minus infinity if it may not.
        literals: The other numbers that its reply may be.
        follows_ask: It declares every key that it touches, so in a cluster it may run on the node
            that a slot is moving to.
        wordings: What is sent to servers of each `Dialect`.
        text: The text of its file, in the dialect `MODERN`; `sha` and `head` belong to it.
        bind: Takes all keys and arguments by their names in the header, and returns them packed
            for one call. A script for batches has none.
    """

    version: int
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    args: tuple[str, ...]
    ints: frozenset[str]
    is_batch: bool
    retry: str
    may_be_nil: bool
    least: float
    most: float
    literals: frozenset[int]
    follows_ask: bool
    wordings: tuple[Wording, ...]
    text: str
    sha: str
    head: bytes
    bind: Pack

    def __init__(self, name: str, read: Callable[[], str], array: Array | None = None) -> None:
        self.name = name
        self._read = read
        self._array = array

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def __getattr__(self, attribute: str) -> Any:
        """Read the file when one of its attributes is first used."""
        if "text" in vars(self):
            raise AttributeError(f"{self.name} has no {attribute!r}", name=attribute, obj=self)
        self._fill(self._read())
        return getattr(self, attribute)

    def _fill(self, text: str) -> None:
        header = _parse(text)
        if header.name != self.name:
            raise ValueError(f"{self.name.replace('.', '/')}.lua says it is {header.name!r}")
        keys, args = header.keys, header.args
        count = 1 + len(keys + args)
        self.version, self.retry = header.version, header.retry
        self.keys, self.args, self.ints = keys, args, header.ints
        self.key_types = header.key_types
        self.is_batch = bool(keys and args) and keys[-1][-3:] == args[-1][-3:] == "..."
        shape = header.replies
        self._shape = shape
        self.may_be_nil, self.literals, self.least, self.most = shape[:4]
        if shape.elements:
            # The numbers are those of its elements.
            self.least, self.literals = math.inf, frozenset()
        elif shape.is_anything:
            self.may_be_nil, self.least = True, -math.inf
        self.follows_ask = not header.computes
        texts = wordings(text)
        # One object for each text: `Call.pack` compares heads by identity.
        spoken = {text: Wording(text, sha := _sha(text), head(sha, count)) for text in texts}
        self.wordings = tuple(spoken[text] for text in texts)
        self.sha, self.head = spoken[text].sha, spoken[text].head
        if not self.is_batch:
            self.bind = packer(self.name, keys, args, self.ints)
        self.text = text

    def bind_batch(
        self, keys: list[bytes], values: dict[str, Arg], arguments: Sequence[str | bytes]
    ) -> tuple[Arg, ...]:
        """Return the call of a script whose last key and last argument stand for many.

        Raises:
            TypeError: The script takes no batch, or the names are not those of the header.
        """
        if not self.is_batch:
            raise TypeError(f"{self.name} takes no batch")
        if not arguments or len(keys) % len(arguments):
            raise TypeError(f"{self.name} takes {len(keys)} keys for as many arguments, or a part")
        if tuple(values) != self.args[:-1]:
            raise TypeError(f"{self.name} takes {self.args[:-1]}, not {tuple(values)}")
        return (len(keys), *keys, *values.values(), *arguments)

    def fits(self, reply: object, args: object) -> bool:
        """Return whether this, neither nil nor a number, can be the reply to such a call."""
        shape = self._shape
        if type(reply) is not list or not shape.is_array:
            return shape.is_anything
        if not self.is_batch:
            return self._array is None or self._array(reply)
        if isinstance(args, tuple) and len(reply) != len(args) - args[0] - len(self.args):
            return False
        return all(type(each) is int and each in shape.literals for each in reply)


@dataclass(frozen=True)
class _Header:
    """The content of the first lines of a script."""

    name: str
    version: int
    keys: tuple[str, ...]
    key_types: tuple[str, ...]
    args: tuple[str, ...]
    ints: frozenset[str]
    replies: Shape
    retry: str
    computes: bool


def script_root() -> Traversable:
    """Return the Lua folder: inside the package once installed, beside it in a checkout."""
    # Imported here: at the top it would be a tenth of the import time of this library.
    from importlib import resources

    packaged = resources.files("redisson_py") / "_lua"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "lua"


def load(name: str, array: Array | None = None) -> Script:
    """Return the script `folder.verb`, to be read from `folder/verb.lua` at its first use.

    `array` says whether an array may be its reply.

    The first use raises `ValueError` if the header is incomplete or has another name, and
    `FileNotFoundError` if there is no such file.
    """
    folder, _, verb = name.partition(".")
    return Script(name, lambda: _whole(_read(folder, verb)), array)


def _whole(text: str) -> str:
    """Return the text of a script with what it includes."""
    return _INCLUDE.sub(_included, text)


def _read(folder: str, name: str) -> str:
    return (script_root() / folder / f"{name}.lua").read_text(encoding="utf-8")


def _included(directive: re.Match[str]) -> str:
    # One level only: an include that includes would hide what a script does.
    return _read("lib", directive[1]).rstrip("\n")


def load_all() -> list[Script]:
    """Return every script of the Lua folder, by name, each read and checked."""
    names = [
        f"{folder.name}.{file.name.removesuffix('.lua')}"
        for folder in script_root().iterdir()
        if folder.is_dir() and folder.name != "lib"
        for file in folder.iterdir()
        if file.name.endswith(".lua")
    ]
    scripts = [load(name) for name in sorted(names)]
    for script in scripts:
        # Reads the file, and raises if something is wrong with it.
        _ = script.version
    return scripts


def parse(text: str) -> Script:
    """Return the script whose text this is; it too may include what is in `lib`.

    Raises:
        ValueError: A header field is missing, unknown, out of order or not readable.
    """
    return Script(_parse(text).name, lambda: _whole(text))


def _parse(text: str) -> _Header:
    rows = text.splitlines()
    if rows and rows[0].startswith("#!"):
        del rows[0]
    fields: dict[str, str] = {}
    for row in rows:
        if not row.startswith("--! "):
            break
        field, _, value = row.removeprefix("--! ").partition(" ")
        if field in fields:
            raise ValueError(f"a script header says {field!r} once")
        fields[field] = value.strip()
    names = tuple(fields)
    if names not in (_FIELDS, (*_FIELDS, _COMPUTES)):
        raise ValueError(f"a script header has {', '.join(_FIELDS)}, not {', '.join(fields)}")
    if not fields["version"].isdecimal():
        raise ValueError(f"version must be a number, not {fields['version']!r}")
    if fields.get(_COMPUTES) == "":
        raise ValueError(f"a script header says which keys it {_COMPUTES}, or has no such line")
    if not fields["retry"].startswith("safe: "):
        raise ValueError("every script must be safe to repeat, and say why: 'retry safe: ...'")
    keys = _declared(fields["keys"], {"hash", "string", "list", "zset", "set"})
    args = _declared(fields["args"], {"int", "str"})
    if len({*keys, *args}) != len(keys) + len(args):
        raise ValueError(f"the names in a script header must differ: {*keys, *args}")
    return _Header(
        fields["script"],
        int(fields["version"]),
        tuple(keys),
        tuple(keys.values()),
        tuple(args),
        frozenset(name for name, kind in args.items() if kind == "int"),
        read_shape(fields["returns"]),
        fields["retry"],
        _COMPUTES in fields,
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


#: A command in a script.
CALL = re.compile(r"redis\.p?call\(\s*'([A-Z]+)'")
