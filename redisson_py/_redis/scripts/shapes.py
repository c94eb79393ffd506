"""What the replies of scripts look like.

The header of a script says so for numbers and nil. Of an array it says only that it is one; what is
in it stands beside the function that decodes it, in `_redis/commands`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

#: Says whether one element of an array is what it should be.
Element = Callable[[Any], bool]
#: Says the same of an array.
Array = Callable[[list[Any]], bool]


class Shape(NamedTuple):
    """What a header says of the replies.

    Attributes:
        may_be_nil: A reply may be nil.
        literals: Numbers that a reply may be.
        least: A reply may be this number or a larger one; infinity if it may not.
        most: A reply may be this number or a smaller one; minus infinity if it may not.
        is_array: A reply is an array, or may be one.
        elements: The numbers are those of the elements of an array.
        is_anything: A reply may be anything.
    """

    may_be_nil: bool = False
    literals: frozenset[int] = frozenset()
    least: float = math.inf
    most: float = -math.inf
    is_array: bool = False
    elements: bool = False
    is_anything: bool = False


def read_shape(returns: str) -> Shape:
    """Return the shape of the replies that the line `returns` of a header describes.

    Raises:
        ValueError: It begins with neither `array` nor `any =`, and one of its parts not with
            `nil =`, `int =`, `int >= 0 =`, `int > 0 =`, `int <= -1 =`, `array =` or a number.
    """
    if returns.startswith("any ="):
        return Shape(is_anything=True)
    is_array = elements = returns == "array" or returns.startswith("array:")
    nil, least, most = False, math.inf, -math.inf
    literals: set[int] = set()
    if is_array and not returns.startswith("array: for each "):
        return Shape(is_array=True, elements=True)
    for part in re.sub(r"^array: for each \w+ ", "", returns).split(" | "):
        said = part.partition(" = ")[0].strip()
        if said == "nil":
            nil = True
        elif said == "int":
            least = -math.inf
        elif said == "array":
            is_array = True
        elif found := re.fullmatch(r"int (>=?) (\d+)", said):
            least = int(found[2]) + (found[1] == ">")
        elif found := re.fullmatch(r"int <= (-\d+)", said):
            most = int(found[1])
        elif re.fullmatch(r"-?\d+", said):
            literals.add(int(said))
        else:
            raise ValueError(f"a script header says what it returns, not {part!r}")
    return Shape(nil, frozenset(literals), least, most, is_array, elements)


def whole(least: float = -math.inf, most: float = math.inf) -> Element:
    """Return what takes an integer from `least` to `most`."""
    return lambda value: type(value) is int and least <= value <= most


def text(value: Any) -> bool:
    """Take a string."""
    return type(value) is bytes


def array(*first: Element, rows: tuple[Element, ...] = ()) -> Array:
    """Return what takes arrays of some elements, and rows of others after these."""

    def takes(reply: list[Any]) -> bool:
        others = reply[len(first) :]
        if len(reply) < len(first) or (len(others) % len(rows) if rows else others):
            return False
        if not all(is_right(value) for is_right, value in zip(first, reply, strict=False)):
            return False
        return all(rows[index % len(rows)](value) for index, value in enumerate(others))

    return takes
