"""The board on which workers agree."""

from __future__ import annotations

import pytest

from tests.jepsen.board import Board


def test_each_word_that_is_left_is_taken_once() -> None:
    board = Board()
    assert board.answer("post", "roles", ["a", "b"]) == "ok"
    taken = [board.answer("take", "roles", []) for _ in range(3)]
    assert taken == ["a", "b", ""]


def test_a_member_that_joins_again_begins_a_new_round() -> None:
    board = Board()

    def join(member: str) -> str:
        return board.answer("join", "barrier", [member])

    assert [join("a"), join("b")] == ["0", "0"]
    # A new life of `a`; then `b` finds the barrier broken and goes where `a` is.
    assert [join("a"), join("b")] == ["1", "1"]
    assert [join("c"), join("b")] == ["1", "2"]


def test_what_is_no_step_is_refused() -> None:
    with pytest.raises(ValueError, match="not a step: leap x"):
        Board().answer("leap", "x", [])
