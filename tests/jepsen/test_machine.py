"""What a machine lacks is found, and said; in CI it is a failure."""

from __future__ import annotations

import shutil
import signal
import sys
from pathlib import Path

import pytest

from tests.jepsen import machine
from tests.jepsen.__main__ import main
from tests.jepsen.machine import LackingError, lacking, to_do_without

FORBIDDEN = "unshare: unshare failed: Operation not permitted"


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with no program but `unshare`, which is forbidden; the folder of its programs."""
    program = tmp_path / "unshare"
    program.write_text(f"#!/bin/sh\necho '{FORBIDDEN}' >&2\nexit 1\n", "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    # Nothing that was found on the machine of these tests.
    monkeypatch.setattr(machine, "lacking", lacking.__wrapped__)
    return tmp_path


def test_what_is_forbidden_is_told_with_its_reason(bare: Path) -> None:
    found = machine.lacking()
    assert found == {"own network": FORBIDDEN, "disk": FORBIDDEN, "clock shim": "no compiler: cc"}
    (bare / "unshare").unlink()
    assert "No such file or directory: 'unshare'" in machine.lacking()["disk"]


@pytest.mark.usefixtures("bare")
def test_each_thing_that_is_missing_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(to_do_without()) == {"own network", "disk", "clock shim"}
    network, disk, clock = capsys.readouterr().out.splitlines()
    assert network.startswith(f"left out, as 'own network' is missing here ({FORBIDDEN}): ")
    assert network.endswith("drop, drop-up, drop-down, replica-partition, partition")
    assert disk.endswith(": disk-full")
    assert "clock-drift" in clock


@pytest.mark.usefixtures("bare")
def test_in_ci_nothing_is_left_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(LackingError, match="disk-full"):
        to_do_without()
    monkeypatch.setattr(sys, "argv", ["jepsen"])
    # The signals of this process stay as they are.
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert main() == 1
    assert "CI is set: no nemesis may be left out" in capsys.readouterr().out


def test_the_compiler_that_is_there_is_found() -> None:
    assert ("clock shim" in lacking()) is (shutil.which("cc") is None)
