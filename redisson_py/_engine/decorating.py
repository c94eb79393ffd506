"""Holding something around every call of an async function, named after the call's arguments.

`@client.get_lock("report:{day}")` above `async def report(day)`: while `report("monday")`
runs, the lock `report:monday` is held. The name is a format string as `str.format` takes it;
its fields name parameters. A wrong format string or an unknown field is an error when the function
is decorated: a dry run of the formatting finds it, not a second parser.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, ParamSpec, Protocol, Self, TypeVar

from redisson_py._keys import Name

if sys.version_info >= (3, 14):
    from annotationlib import Format

    # Annotations are not evaluated: they may name what exists for type checkers only.
    _signature = functools.partial(inspect.signature, annotation_format=Format.FORWARDREF)
else:
    _signature = inspect.signature

P = ParamSpec("P")
R = TypeVar("R")

Fill = Callable[[Name], Name]
"""Makes a name of a format string, from the arguments of one call."""


class AroundCall(Protocol):
    """The block around a call: entered before the function runs, and left after it."""

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Decorated(Protocol):
    """An object that can be held around an async function, under formatted names."""

    @property
    def _names(self) -> Sequence[Name]:
        """The names that a decorator formats."""
        ...

    def _filled(self, fill: Fill) -> Self:
        """Return the object for one call: of the same kind, client and options."""
        ...


def decorate(
    names: Sequence[Name],
    func: Callable[P, Coroutine[Any, Any, R]],
    make_block: Callable[[Fill], AroundCall],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Return `func` inside a block that is made for each call, with names from its arguments.

    Raises:
        TypeError: `func` is not a coroutine function.
        ValueError: A name does not fit the parameters of `func`.
    """
    check_function(func)
    naming = Naming(names, func)

    @functools.wraps(func)
    async def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        async with make_block(naming.of_call(args, kwargs)):
            return await func(*args, **kwargs)

    return wrapper


class Naming:
    """Makes names from the arguments of the calls of one function.

    Args:
        names: Format strings, whose fields name parameters.
        func: The function.

    Raises:
        ValueError: A name does not fit the parameters of `func`.
    """

    def __init__(self, names: Sequence[Name], func: Callable[..., Any]) -> None:
        self._called = _called(func)
        self._signature = _signature(func)
        has_fields = [check_name(name, self._called, self._signature.parameters) for name in names]
        #: Whether the names depend on the arguments.
        self._by_arguments = any(has_fields)

    def of_call(self, args: tuple[object, ...], kwargs: dict[str, object]) -> Fill:
        """Return the function that formats names for one call.

        Raises:
            TypeError: The arguments do not fit the function.
        """
        arguments: Mapping[str, object] = {}
        if self._by_arguments:
            arguments = _arguments(self._called, self._signature, args, kwargs)
        return lambda name: fill(name, self._called, arguments)


def check_function(func: object) -> None:
    """Refuse everything but coroutine functions.

    Raises:
        TypeError: It is not a coroutine function; the text says what to do instead.
    """
    if inspect.iscoroutinefunction(func):
        return
    if isinstance(func, classmethod | staticmethod):
        above = f"@{type(func).__name__}"
        raise TypeError(f"put {above} above this decorator, not below it")
    if inspect.isasyncgenfunction(func):
        advice = "a generator would hold it between its steps; write `async with` in its body"
    elif inspect.isclass(func):
        advice = "decorate its methods"
    elif callable(func):
        advice = (
            "make it `async def`, or put this decorator below the one that hides its `async def`"
        )
    else:
        advice = "write @lock above an `async def`"
    raise TypeError(f"{_called(func)} is not a coroutine function: {advice}")


def check_name(name: Name, called: str, parameters: Collection[str]) -> bool:
    """Return whether a name has fields.

    Raises:
        ValueError: It is not a format string, or a field names no parameter.
    """
    if isinstance(name, bytes):
        return False
    fields = _DryRun(parameters)
    try:
        name.format_map(fields)
    except ValueError as error:
        raise ValueError(
            f"cannot format the name {name!r} with the arguments of"
            f" {called}({', '.join(parameters)}): {error}."
            " Fields name parameters; {{ and }} stand for braces"
        ) from None
    return fields.asked


def fill(name: Name, called: str, arguments: Mapping[str, object]) -> Name:
    """Return the name for a call with these arguments."""
    if isinstance(name, bytes):
        return name
    try:
        return name.format_map(arguments)
    except Exception as error:
        error.add_note(f"while formatting the name {name!r} with the arguments of {called}()")
        raise


def _arguments(
    called: str, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object]
) -> Mapping[str, object]:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        # The same text as Python's own error; nothing was sent.
        raise TypeError(f"{called}() {error}") from None
    bound.apply_defaults()
    return bound.arguments


def _called(func: object) -> str:
    return getattr(func, "__qualname__", None) or repr(func)


class _DryRun:
    """Stands for the arguments of any call, and records whether a name has fields."""

    def __init__(self, parameters: Collection[str]) -> None:
        self._parameters = parameters
        self.asked = False

    def __getitem__(self, field: str) -> _Anything:
        self.asked = True
        if field not in self._parameters:
            raise ValueError(f"there is no parameter {field!r}")
        return _Anything()


class _Anything:
    """Has every attribute and every item, and takes every format."""

    def __getattribute__(self, _: str) -> _Anything:
        return self

    def __getitem__(self, _: object) -> _Anything:
        return self

    def __format__(self, _: str) -> str:
        return ""
