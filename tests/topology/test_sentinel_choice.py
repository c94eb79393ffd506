"""Whom to believe when Sentinels name different masters."""

from __future__ import annotations

from itertools import permutations

import pytest

from redisson_py._redis.topology.choice import (
    MEMORY_SECONDS,
    Failure,
    Knowledge,
    Named,
    choose,
    not_found,
    read_named,
    read_sentinels,
    read_switch,
)
from redisson_py.errors import BackendError, ConnectionLostError

A, B, C = ("10.0.0.1", 6379), ("10.0.0.2", 6379), ("::1", 6380)


def test_the_highest_epoch_wins_in_any_order_of_answers() -> None:
    answers = [Named(A, 3), Named(A, 3), Named(B, 4), Named(C, 2)]
    for order in permutations(answers):
        assert choose(order) == Named(B, 4)


def test_the_epoch_is_a_number() -> None:
    assert choose([Named(A, 9), Named(B, 10)]) == Named(B, 10)


def test_the_leader_of_a_failover_knows_first() -> None:
    answers = [Named(A, 3), Named(A, 3), Named(B, 3, promoted=True)]
    for order in permutations(answers):
        assert choose(order) == Named(B, 3, promoted=True)


def test_of_the_same_epoch_the_one_that_more_name_wins() -> None:
    for order in permutations([Named(A, 0), Named(B, 0), Named(B, 0)]):
        assert choose(order) == Named(B, 0)


def test_no_answer_is_no_master() -> None:
    assert choose([]) is None
    assert Knowledge().learn([], 0.0) is None


def test_an_outdated_answer_does_not_undo_a_newer_one() -> None:
    knowledge = Knowledge()
    assert knowledge.learn([Named(A, 1)], 0.0) == Named(A, 1)
    assert knowledge.learn([Named(A, 1), Named(B, 2)], 1.0) == Named(B, 2)
    # The one that knew has died.
    assert knowledge.learn([Named(A, 1), Named(A, 1)], 2.0) == Named(B, 2)
    assert knowledge.learn([], 2.0) is None


def test_what_nobody_repeats_is_forgotten() -> None:
    """Sentinels that were set up anew begin at epoch 0."""
    knowledge = Knowledge()
    knowledge.learn([Named(B, 7)], 0.0)
    assert knowledge.learn([Named(B, 7)], 5.0) == Named(B, 7)
    assert knowledge.learn([Named(A, 0)], 4.9 + MEMORY_SECONDS) == Named(B, 7)
    assert knowledge.learn([Named(A, 0)], 5.1 + MEMORY_SECONDS) == Named(A, 0)
    assert knowledge.learn([Named(A, 1)], 5.2 + MEMORY_SECONDS) == Named(A, 1)


def test_only_a_later_failover_is_news() -> None:
    knowledge = Knowledge()
    assert knowledge.is_news(Named(A, 0))
    knowledge.learn([Named(A, 2)], 0.0)
    assert not knowledge.is_news(Named(B, 2))
    assert knowledge.is_news(Named(B, 3))


@pytest.mark.parametrize(
    "master",
    [
        {b"ip": b"10.0.0.1", b"port": b"6379", b"config-epoch": b"12"},
        [b"ip", b"10.0.0.1", b"port", b"6379", b"config-epoch", b"12"],
    ],
    ids=["RESP3", "RESP2"],
)
def test_answers_are_read(master: object) -> None:
    same = read_named(master, [b"10.0.0.1", b"6379"], "s:1")
    assert same == Named(A, 12, promoted=False, sentinel="s:1")
    promoted = read_named(master, [b"10.0.0.2", b"6379"], "s:1")
    assert promoted == Named(B, 12, promoted=True, sentinel="s:1")


@pytest.mark.parametrize(
    "address", [None, [], [b"10.0.0.1"], [b"", b"6379"], [b"h", b"x"], [b"h", b"70000"]]
)
def test_an_answer_without_an_address_names_nobody(address: object) -> None:
    assert read_named({b"config-epoch": b"1"}, address) is None


def test_other_sentinels_are_read() -> None:
    reply = [{b"ip": b"::1", b"port": b"6380"}, [b"ip", b"10.0.0.2", b"port", b"6379"], {}, None]
    assert read_sentinels(reply) == [C, B]
    assert read_sentinels(None) == []


def test_a_message_is_for_one_service() -> None:
    payload = b"main 10.0.0.1 6379 10.0.0.2 6379"
    assert read_switch(payload, "main") == B
    assert read_switch(payload, "mai") is None
    assert read_switch(b"main 10.0.0.1 6379 10.0.0.2", "main") is None
    assert read_switch(b"\xff", "main") is None


@pytest.mark.parametrize(("finals", "is_final"), [(0, False), (1, False), (2, True), (3, True)])
def test_an_error_is_final_when_most_say_so(finals: int, is_final: bool) -> None:
    error = not_found("no", [Failure(f"s{n}", n < finals) for n in range(3)])
    assert str(error) == "no: s0; s1; s2"
    assert isinstance(error, BackendError)
    assert isinstance(error, ConnectionLostError) is not is_final
