"""A configuration file as tables of values: YAML, TOML or JSON, with ${NAME} replaced.

Any value in the file may be a password. Errors therefore name the file and a key or a line, never
a value, and are raised outside of `except`, so that no parser's error is attached to them.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from redisson_py._forks import no_fork

if TYPE_CHECKING:
    import yaml

__all__ = ["CLASS", "Part", "read_file"]

#: The name that holds the Java class of a value, as in Redisson's JSON; in YAML it is a tag.
CLASS = "class"

Table: TypeAlias = dict[str, Any]

_VARIABLE = re.compile(r"\$\{([\w.]+)(?::-(.*?))?\}", re.DOTALL)
_NULL = ("", "~", "null", "Null", "NULL")
_CORE_TAG = "tag:yaml.org,2002:"
_TOML_POSITION = re.compile(r"\(at (line \d+, column \d+)\)")
_MOST_LEVELS = 50

#: Bytes of a file, of which a parser makes many times as many. A thousand nodes need less than
#: a tenth of it.
LONGEST_FILE_BYTES = 2**20

#: The tokens of TOML, as far as they tell dots of keys from others.
_TOML_TOKEN = re.compile(
    r'''"""(?:\\.|(?!""").)*+(?:"{3,5})?|"(?:\\.|[^"\\\n])*+"?|#[^\n]*+|[\w-]++|[ \t]++|'''
    r"""'''(?:(?!''').)*+(?:'{3,5})?|'[^'\n]*+'?|.""",
    re.DOTALL,
)


@dataclass(frozen=True)
class _Wrong:
    """What is wrong with a file; returned, because no parser's error may be raised."""

    text: str


def read_file(path: str | os.PathLike[str]) -> Table:
    """Return the content of the file; every scalar of YAML becomes text.

    Raises:
        TypeError: The path is neither str nor a path.
        OSError: The file cannot be read.
        ModuleNotFoundError: It is YAML, and PyYAML is not installed.
        ValueError: It is too long or malformed, names something twice or a variable that is not
            set.
    """
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be str or a path, not {type(path).__name__}")
    file = str(os.fspath(path))
    kind = Path(file).suffix.lower()
    if kind not in _READERS:
        raise ValueError(f"{file}: the file name must end in {', '.join(_READERS)}")
    parse = _READERS[kind](file)
    with Path(file).open("rb") as opened:
        content = opened.read(LONGEST_FILE_BYTES + 1)
    if len(content) > LONGEST_FILE_BYTES:
        raise ValueError(f"{file}: the file is longer than {LONGEST_FILE_BYTES:,} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise ValueError(f"{file}: the file is not UTF-8")
    try:
        found = parse(text)
    except RecursionError:
        found = _Wrong("values are nested too deeply")
    except ValueError as error:
        if str(error).startswith(f"{file}: "):
            raise
        # We raise all other errors of a parser ourselves; the text of this one names no file.
        found = _Wrong("a number has too many digits")
    if isinstance(found, _Wrong):
        raise ValueError(f"{file}: {found.text}")
    if not isinstance(found, dict):
        raise ValueError(f"{file}: the file must contain names and values")
    table: Table = _expanded(file, (), found)
    return table


#: What the values of a switch look like.
_ON, _OFF = ("true", "yes", "on"), ("false", "no", "off")


@dataclass(frozen=True)
class Part:
    """The top of a file or a section in it, and how its values are read."""

    file: str
    where: str
    values: Table

    def error(self, name: str, text: str) -> ValueError:
        where = f"{self.where}.{name}" if self.where and name else self.where or name
        return ValueError(f"{self.file}: {where}{': ' if where else ''}{text}")

    def has(self, name: str) -> bool:
        return self.values.get(name) is not None

    def table(self, name: str) -> Part | None:
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, "must contain names and values")
        return Part(self.file, f"{self.where}.{name}" if self.where else name, value)

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(name, "must be text (quoted, in formats with quotes)")
        return value or None

    def texts(self, name: str) -> list[str]:
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.error(name, "must be a list of texts")
        return value

    def whole(self, name: str, least: int, most: int) -> int | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
            # Java's YAML parser reads 010 as 8.
            value = None if value[0] == "0" < value[1:] else int(value)
        if type(value) is not int or not least <= value <= most:
            raise self.error(name, f"must be a whole number from {least} to {most}")
        return value

    def switch(self, name: str) -> bool | None:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return value
        text = value.lower() if isinstance(value, str) else ""
        if text not in _ON + _OFF:
            raise self.error(name, "must be true or false")
        return text in _ON

    def one_of(self, name: str, known: Collection[str]) -> str | None:
        value = self.text(name)
        if value is not None and value not in known:
            raise self.error(name, f"must be one of {', '.join(known)}")
        return value

    def java_class(self, name: str) -> str | None:
        """Return the class of a value, without the package if that is Redisson's."""
        value = self.values.get(name)
        if value is None:
            return None
        found = value.get(CLASS) if isinstance(value, dict) else value
        if not isinstance(found, str):
            raise self.error(name, "must name a class")
        package, _, last = found.rpartition(".")
        return last if f"{package}.".startswith("org.redisson.") else found

    def check_names(self, taken: Collection[str], ignored: Collection[str]) -> list[str]:
        """Return the names in it that have no effect.

        Raises:
            ValueError: There is no such name.
        """
        for name in self.values:
            if name not in taken and name not in ignored:
                known = sorted({*taken, *ignored})
                close = get_close_matches(name, known, n=1)
                meant = f"did you mean {close[0]}?" if close else f"known are {', '.join(known)}"
                raise self.error(name, f"Redisson has no such setting here; {meant}")
        return [name for name in self.values if name in ignored and self.has(name)]


# Variables.


def _expanded(file: str, names: tuple[str, ...], value: Any) -> Any:
    """Return a value in which variables are replaced."""
    if len(names) > _MOST_LEVELS:
        raise ValueError(f"{file}: values are nested too deeply")
    match value:
        case str():
            return _expand(file, names, value)
        case dict():
            return {name: _expanded(file, (*names, name), each) for name, each in value.items()}
        case list():
            return [_expanded(file, (*names, ""), each) for each in value]
        case _:
            return value


def _expand(file: str, names: tuple[str, ...], text: str) -> str:
    parts: list[str] = []
    end = 0
    # Behind the last brace each beginning of a variable would be followed to the end of the text.
    for found in _VARIABLE.finditer(text, 0, text.rfind("}") + 1):
        name = found[1]
        value = os.environ.get(name)
        if value is None:
            value = found.group(2)
        if value is None:
            where = ".".join(filter(None, names))
            # What looks like the name of a variable may be part of a password.
            shown = f"variable {name}" if _is_shown(where, text, found) else "a variable in it"
            raise ValueError(f"{file}: {where}: {shown} is not set and has no default")
        parts += [text[end : found.start()], value]
        end = found.end()
    return "".join([*parts, text[end:]])


def _is_shown(where: str, text: str, found: re.Match[str]) -> bool:
    whole = found.group() == text
    return whole or not ("password" in where.lower() or "@" in text)


# Each kind of file: a function that reads its text, and that says what is wrong with it.


def _yaml(file: str) -> Callable[[str], object]:
    try:
        with no_fork():
            import yaml
    except ModuleNotFoundError as error:
        if error.name != "yaml":
            raise
        raise ModuleNotFoundError(
            f"{file}: reading YAML needs PyYAML: pip install 'redisson-py[yaml]'", name="yaml"
        ) from None

    def parse(text: str) -> object:
        where = ""
        try:
            # Not `yaml.load`: it keeps the last of two equal names, and reads 0123 as 83.
            return _of_node(file, yaml.compose(text, Loader=yaml.BaseLoader), set())
        except yaml.MarkedYAMLError as error:
            # Its text quotes the file.
            mark = error.problem_mark or error.context_mark
            if mark is not None:
                where = f"line {mark.line + 1}, column {mark.column + 1}: "
        except yaml.YAMLError:
            pass
        return _Wrong(f"{where}not valid YAML")

    return parse


def _of_node(file: str, node: yaml.Node | None, seen: set[int]) -> object:
    import yaml

    if node is not None and id(node) in seen:
        # A few lines of aliases of aliases are millions of values.
        row = node.start_mark.line + 1
        raise ValueError(
            f"{file}: line {row}: an alias refers to this value: repeat the value instead"
        )
    seen.add(id(node))
    match node:
        case yaml.ScalarNode():
            if name := _java_class(node):
                return {CLASS: name}
            # Only an unquoted scalar can be null.
            return None if node.style is None and node.value in _NULL else node.value
        case yaml.SequenceNode():
            return [_of_node(file, each, seen) for each in node.value]
        case yaml.MappingNode():
            table: Table = {CLASS: name} if (name := _java_class(node)) else {}
            for key, value in node.value:
                row = key.start_mark.line + 1
                if not isinstance(key, yaml.ScalarNode):
                    raise ValueError(f"{file}: line {row}: a name must be text")
                if key.value in table:
                    raise ValueError(f"{file}: line {row}: {_twice(key.value)}")
                table[key.value] = _of_node(file, value, seen)
            return table
        case _:
            return None


def _java_class(node: yaml.Node) -> str:
    name = node.tag.removeprefix(_CORE_TAG).lstrip("!")
    # str, map and the like have no package.
    return name if "." in name else ""


def _toml(_: str) -> Callable[[str], object]:
    def parse(text: str) -> object:
        # A key of n parts costs tomllib n * n.
        if _most_dots(text) > _MOST_LEVELS:
            return _Wrong("values are nested too deeply")
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            found = _TOML_POSITION.search(str(error))
        return _Wrong(f"{found[1] + ': ' if found else ''}not valid TOML")

    return parse


def _most_dots(text: str) -> int:
    """Return how many dots the longest key of TOML has."""
    most = dots = 0
    for token in _TOML_TOKEN.findall(text):
        if token == ".":
            dots += 1
            most = max(most, dots)
        elif not (token[0] in "\"'-_ \t" or token[0].isalnum()):
            dots = 0
    return most


def _json(_: str) -> Callable[[str], object]:
    def parse(text: str) -> object:
        twice: list[str] = []

        def table(pairs: list[tuple[str, object]]) -> Table:
            found = dict(pairs)
            if len(found) < len(pairs):
                twice.extend(
                    name for name, times in Counter(n for n, _ in pairs).items() if times > 1
                )
            return found

        try:
            found = json.loads(text, object_pairs_hook=table)
        except json.JSONDecodeError as error:
            return _Wrong(f"line {error.lineno}, column {error.colno}: not valid JSON")
        return _Wrong(_twice(twice[0])) if twice else found

    return parse


def _twice(name: str) -> str:
    # A text that is not the name of a setting may be a value in the wrong place.
    return f"{name} is set twice" if name.isascii() and name.isalpha() else "a name is set twice"


_READERS: Mapping[str, Callable[[str], Callable[[str], object]]] = {
    ".yaml": _yaml,
    ".yml": _yaml,
    ".toml": _toml,
    ".json": _json,
}
