"""What a client can be told, with its defaults, and what it refuses to be told."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from redisson_py._options import Options, RedissonOptions, check_options
from redisson_py._time import LONGEST_LEASE_SECONDS


def options(**given: Any) -> Options:
    return check_options(**given)


def test_defaults_are_those_of_the_api() -> None:
    defaults = options()
    assert defaults.lease_time == 30.0
    assert defaults.on_lost == "cancel"
    assert defaults.turn == 0.01
    assert defaults.client_name is None
    assert (defaults.sharded_pubsub, defaults.sync_replicas) == ("auto", "auto")
    assert (defaults.sync_timeout, defaults.address_map) == (1.0, None)
    assert defaults.names.prefix == ""
    assert defaults.names.key("k") == b"k"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"lease_time": 0}, ValueError),
        ({"lease_time": -1}, ValueError),
        ({"lease_time": math.nan}, ValueError),
        ({"lease_time": math.inf}, ValueError),
        ({"lease_time": 0.0004}, ValueError),
        ({"lease_time": LONGEST_LEASE_SECONDS + 1}, ValueError),
        ({"lease_time": None}, TypeError),
        ({"lease_time": "30"}, TypeError),
        ({"lease_time": True}, TypeError),
        ({"turn": -0.001}, ValueError),
        ({"turn": math.nan}, ValueError),
        ({"turn": math.inf}, ValueError),
        ({"turn": None}, ValueError),
        ({"turn": "1"}, TypeError),
        ({"prefix": b"app:"}, TypeError),
        ({"prefix": None}, TypeError),
        ({"name_mapper": "app:"}, TypeError),
        ({"prefix": "app:", "name_mapper": str.upper}, ValueError),
        ({"on_lost": "ignore"}, ValueError),
        ({"on_lost": None}, ValueError),
        ({"sharded_pubsub": True}, ValueError),
        ({"sync_replicas": "all"}, TypeError),
        ({"sync_replicas": True}, TypeError),
        ({"sync_replicas": 1.0}, TypeError),
        ({"sync_replicas": -1}, ValueError),
        ({"sync_timeout": 0}, ValueError),
        ({"sync_timeout": "1"}, TypeError),
        ({"client_name": b"orders"}, TypeError),
        ({"client_name": 5}, TypeError),
        ({"client_name": "my service"}, ValueError),
        ({"client_name": "service\n"}, ValueError),
        ({"client_name": "Müller"}, ValueError),
        ({"retries": 5}, TypeError),
        ({"command_timeout": 0}, ValueError),
        ({"command_timeout": math.nan}, ValueError),
        ({"command_timeout": 30.001}, ValueError),
        ({"command_timeout": None}, TypeError),
        ({"acquire_timeout": -1}, ValueError),
        ({"acquire_timeout": math.nan}, ValueError),
        ({"acquire_timeout": "1"}, TypeError),
        ({"on_release_error": "ignore"}, ValueError),
        ({"on_release_error": None}, ValueError),
        ({"idle_lifetime": 30}, ValueError),
        ({"idle_lifetime": 0}, ValueError),
        ({"idle_lifetime": math.inf}, ValueError),
        ({"idle_lifetime": "60"}, TypeError),
    ],
    ids=str,
)
def test_bad_options_are_refused(given: dict[str, Any], error: type[Exception]) -> None:
    (wrong,) = given if len(given) == 1 else ("prefix",)
    with pytest.raises(error, match=wrong):
        options(**given)


def test_an_unknown_option_is_reported_with_all_that_there_are() -> None:
    with pytest.raises(TypeError) as caught:
        options(leas_time=3)
    text = str(caught.value)
    assert "'leas_time' (did you mean 'lease_time'?)" in text
    assert all(name in text for name in RedissonOptions.__annotations__)
    for other, ours in {"timeout": "acquire_timeout", "socket_timeout": "command_timeout"}.items():
        with pytest.raises(TypeError, match=f"'{other}' .did you mean '{ours}'"):
            options(**{other: 3})
    with pytest.raises(TypeError, match="there is no option 'zzz'; the options are acquire_"):
        options(zzz=1)


def test_every_option_that_is_listed_is_taken() -> None:
    for name in RedissonOptions.__annotations__:
        with pytest.raises((TypeError, ValueError)) as caught:
            options(**{name: object()})
        assert "there is no option" not in str(caught.value)


def test_what_is_idle_stays_forever_unless_set_otherwise() -> None:
    assert options().idle_ms == 0
    assert options(idle_lifetime=timedelta(days=1)).idle_ms == 86_400_000
    assert options(idle_lifetime=10, lease_time=1).idle_ms == 10_000


@pytest.mark.parametrize(("lease_time", "idle"), [(60, 60), (60, 59), (1, 9.9)])
def test_what_is_idle_stays_longer_than_a_lease_and_a_wait(lease_time: float, idle: float) -> None:
    with pytest.raises(ValueError, match="idle_lifetime must be longer than lease_time"):
        options(lease_time=lease_time, idle_lifetime=idle)


@pytest.mark.parametrize("lease_time", [1.0, 3.0, 10.0, 30.0, 3600.0])
def test_a_dead_connection_is_noticed_within_a_third_of_the_lease(lease_time: float) -> None:
    # A PING after one such silence, and one more until its answer is overdue.
    assert 2 * options(lease_time=lease_time).reply_timeout <= lease_time / 3
