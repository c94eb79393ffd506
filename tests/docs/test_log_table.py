"""docs/operations.md explains every record that the library logs, and none that it does not."""

from __future__ import annotations

import pytest

from tests.docs.log_calls import HOLE, LogCall, Row, all_strings, log_calls, pattern, rows

CALLS = log_calls()
ROWS = rows()

#: Calls whose text is that of an error, and what the errors say.
ERRORS = {
    "redisson_py/_engine/block.py:exit": ["the release of "],
    "redisson_py/_stream/outage.py:refused": [
        "Redis at {} refused the credentials: ",
        "TLS with Redis at {} failed: ",
        "the server at {} does not speak RESP3 ",
        "cannot use Redis at {}: ",
        "Redis at {} refused the connection: ",
        "no Sentinel names the master of ",
        "no master found",
    ],
    "redisson_py/_topology/cluster.py:redirected": [
        "address_map failed for ",
        "address_map must return (host, port)",
        "a node of the cluster sent an invalid answer: ",
    ],
    "redisson_py/_topology/finder.py:_switched": [
        "the master is now {}, according to Sentinel at {}"
    ],
    "redisson_py/composite/_quorum_rounds.py:_join": ["{} at {} and {} at {} are "],
}


def explaining(call: LogCall) -> list[Row]:
    return [row for row in ROWS if any(pattern(text).fullmatch(call.text) for text in row.texts)]


def test_the_log_calls_and_the_rows_are_found() -> None:
    assert len(CALLS) > 30
    assert len(ROWS) > 20


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.place.removeprefix("redisson_py/"))
def test_record_is_explained(call: LogCall) -> None:
    if call.text == HOLE:
        starts = ERRORS[call.place]
        known = all_strings()
        for start in starts:
            text = start.replace("{}", HOLE)
            found = [each for each in known if each.startswith(text)]
            assert found, f"no error says {start!r} any more"
            assert any(
                pattern(each).fullmatch(error)
                for row in ROWS
                for each in row.texts
                for error in found
            ), f"no row has {start!r}"
        return
    found_rows = explaining(call)
    assert found_rows, f"no row of the table has {call.text.replace(HOLE, '…')!r}"
    told = frozenset[str]().union(*(row.levels for row in found_rows))
    assert told & call.levels, f"the table says {sorted(told)}, it is {sorted(call.levels)}"


def test_every_row_is_about_something_that_is_said() -> None:
    said = all_strings() | {call.text for call in CALLS}
    stale = [
        text
        for row in ROWS
        for text in row.texts
        if not any(pattern(text).fullmatch(each) for each in said)
    ]
    assert stale == []
