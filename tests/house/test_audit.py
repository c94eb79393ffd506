"""The three outcomes of the look for vulnerabilities, and the list of licences."""

from __future__ import annotations

import json

import pytest

from tests.house.audit import check_licences, is_allowed, judge, licence, needed

CLEAN = {"name": "redis", "version": "8.1.0", "vulns": []}
BAD = {"name": "Hiredis", "version": "3.0", "vulns": [{"id": "CVE-1", "fix_versions": ["3.1"]}]}
SKIPPED = {"name": "anyio", "skip_reason": "Dependency not found on PyPI"}


def of(*rows: object) -> str:
    return json.dumps({"dependencies": rows, "fixes": []})


@pytest.mark.parametrize("required", [False, True])
def test_a_known_vulnerability_fails(required: bool) -> None:
    outcome = judge(of(CLEAN, BAD, SKIPPED), ["redis", "hiredis", "anyio"], required=required)
    assert outcome.failed
    assert outcome.text == "known vulnerabilities: hiredis 3.0: CVE-1"
    # What only tests need is not ours.
    assert not judge(of(CLEAN, BAD, SKIPPED), ["redis"], required=required).failed


@pytest.mark.parametrize(
    "report", ["", "Traceback", "[]", "{}", of(), of(SKIPPED), of(CLEAN, SKIPPED)]
)
def test_what_could_not_be_looked_up_is_said_and_fails_where_required(report: str) -> None:
    names = ["redis", "anyio"]
    outcome, strict = (judge(report, names, required=each) for each in (False, True))
    assert not outcome.failed
    assert strict.failed
    assert "could not look up" in outcome.text


def test_everything_at_run_time_is_found_with_what_it_needs_itself() -> None:
    packages = needed()
    assert {"redis", "hiredis", "anyio", "idna", "click", "rich", "opentelemetry-api"} <= {
        *packages
    }
    assert not {"ruff", "hypothesis", "redisson-py"} & {*packages}


def test_every_licence_of_what_we_need_is_on_the_list() -> None:
    said = {name: licence(each.metadata) for name, each in needed().items()}  # type: ignore[arg-type]
    outcome = check_licences(said)
    assert not outcome.failed, outcome.text


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ("MIT", True), ("BSD-3-Clause", True), ("Apache Software License", True), ("PSF-2.0", True),
        ("MPL-2.0", True), ("GPL-3.0-only", False), ("MIT, GNU General Public License v3", False),
        ("", False), ("Proprietary", False), ("LGPL-2.1", False), ("BUSL-1.1 or MIT later", False),
        ("LIMITED", False),
    ],
)  # fmt: skip
def test_which_licences_are_allowed(said: str, allowed: bool) -> None:
    assert is_allowed(said) == allowed
    assert check_licences({"x": said}).failed != allowed
