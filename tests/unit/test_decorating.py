"""Names made from the arguments of a call, and what a decorated function looks like."""

from __future__ import annotations

import datetime
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine
from types import SimpleNamespace
from typing import Any, Self

import pytest

from redisson_py._engine.decorating import Fill, decorate
from redisson_py._keys import Name


class FakeLock:
    """Writes down what was entered and left, under all its names."""

    def __init__(self, name: Name, notes: list[str] | None = None) -> None:
        self._name = name
        self.notes: list[str] = [] if notes is None else notes

    def __call__(
        self, func: Callable[..., Coroutine[Any, Any, Any]]
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        return decorate(self._names, func, self._filled)

    @property
    def _names(self) -> tuple[Name, ...]:
        return (self._name,)

    def _filled(self, fill: Fill) -> Self:
        return type(self)(fill(self._name), self.notes)

    async def __aenter__(self) -> object:
        self.notes.append(f"enter {self._name!r}")
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        self.notes.append(f"leave {self._name!r} {type(error).__name__}")


async def name_for(template: Name, func: Callable[..., Any], *args: object, **kwargs: Any) -> str:
    """Return the name under which a call is made."""
    lock = FakeLock(template)
    await lock(func)(*args, **kwargs)
    return lock.notes[0].removeprefix("enter ")


async def report(day: str, part: int = 1, *, fast: bool = False) -> str:
    """Return the report of a day."""
    return f"{day}/{part}/{fast}"


class TestNames:
    @pytest.mark.parametrize(
        ("args", "kwargs"),
        [(("monday",), {}), (("monday", 1), {}), ((), {"part": 1, "day": "monday"})],
    )
    async def test_it_does_not_matter_how_an_argument_is_given(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        assert await name_for("{day}:{part}:{fast}", report, *args, **kwargs) == "'monday:1:False'"

    async def test_names_are_formatted_as_str_format_does(self) -> None:
        async def work(user: object, when: object, table: object, width: object) -> None: ...

        user = SimpleNamespace(id=7, role=SimpleNamespace(name="admin"))
        table = {"a": [1, 2]}
        args = (user, datetime.date(2026, 8, 21), table, 5)
        template = "{user.id:03}:{user.role.name!r}:{when:%Y}:{table[a][1]}:{user.id:>{width}}"
        expected = template.format(user=user, when=args[1], table=table, width=5)
        assert expected == "007:'admin':2026:2:    7"
        assert await name_for(template, work, *args) == repr(expected)

    async def test_positional_only_parameters_have_names_too(self) -> None:
        async def work(day: str, /) -> None: ...

        assert await name_for("k:{day}", work, "monday") == "'k:monday'"

    async def test_bytes_are_never_formatted(self) -> None:
        assert await name_for(b"{day}{{", report, "monday") == "b'{day}{{'"


class TestRefusals:
    @pytest.mark.parametrize(
        ("template", "reason"),
        [
            ("{night}", "there is no parameter 'night'"),
            ("{day}:{night.x}", "there is no parameter 'night'"),
            ("{day:{night}}", "there is no parameter 'night'"),
            ("{ day}", "there is no parameter ' day'"),
            ("{}", "positional"),
            ("{0}", "positional"),
            ("{.x}", "positional"),
            ("{day", "expected '}'"),
            ("{day:{part}", "unmatched '{'"),
            ("day}", "Single '}'"),
            ("{day.}", "Empty attribute"),
            ("{day[}", "expected '}'"),
            ("{day[0}", "expected '}'"),
            ("{day[0]x}", "Only '.' or '\\['"),
            ("{day!x}", "conversion"),
            ("{day!r:%Y}", "format specifier"),
            ("{day:{part:{fast}}}", "recursion"),
        ],
    )
    def test_a_name_that_cannot_be_made_is_refused_when_decorating(
        self, template: str, reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason) as caught:
            FakeLock(template)(report)
        assert repr(template) in str(caught.value)
        assert "report(day, part, fast)" in str(caught.value)

    async def test_the_dry_run_takes_whatever_a_call_could(self) -> None:
        for template in ("{day.a[b].c!s:>9}", "{day:%Y|odd}", "{day:{part}.{fast}}", "{day.__x__}"):
            assert inspect.iscoroutinefunction(FakeLock(template)(report))

    @pytest.mark.parametrize("template", ["k", "{day}"])
    def test_what_is_no_coroutine_function_is_refused_with_advice(self, template: str) -> None:
        def sync(day: str) -> None: ...

        async def steps(day: str) -> AsyncIterator[str]:
            yield day

        async def logged(owner: object, /) -> None: ...

        class Awaited:
            async def __call__(self, day: str) -> None: ...

        refused: list[tuple[Any, str]] = [
            (sync, "sync is not a coroutine function: make it `async def`"),
            (lambda day: report(day), "make it `async def`"),
            (Awaited(), "make it `async def`"),
            (steps, "steps is not a coroutine function: .* `async with` in its body"),
            (Awaited, "Awaited is not a coroutine function: decorate its methods"),
            (classmethod(logged), "put @classmethod above this decorator"),
            (staticmethod(logged), "put @staticmethod above this decorator"),
            ("monday", "'monday' is not a coroutine function: write @lock"),
            (None, "None is not a coroutine function"),
        ]
        for func, advice in refused:
            with pytest.raises(TypeError, match=advice):
                FakeLock(template)(func)

    async def test_a_field_that_an_argument_does_not_have_names_the_template(self) -> None:
        lock = FakeLock("k:{day.year}")
        with pytest.raises(AttributeError, match="year") as caught:
            await lock(report)("monday")
        assert "'k:{day.year}'" in caught.value.__notes__[0]
        assert "report()" in caught.value.__notes__[0]
        assert lock.notes == []

    async def test_a_call_with_wrong_arguments_enters_nothing(self) -> None:
        lock = FakeLock("{day}")
        work: Callable[..., Any] = lock(report)
        for call in (work(), work("a", 1, True), work("a", night="b")):
            with pytest.raises(TypeError, match=r"^report\(\) "):
                await call
        assert lock.notes == []


class TestManners:
    def test_the_wrapper_looks_like_the_function(self) -> None:
        wrapped = FakeLock("{day}")(report)
        assert wrapped.__name__ == wrapped.__qualname__ == "report"
        assert wrapped.__doc__ == report.__doc__
        assert wrapped.__module__ == report.__module__
        assert wrapped.__wrapped__ is report  # type: ignore[attr-defined]
        assert inspect.signature(wrapped) == inspect.signature(report)
        assert inspect.iscoroutinefunction(wrapped)
