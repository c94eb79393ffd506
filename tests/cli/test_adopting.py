"""`redisson-py acquire` and `run --adopt`: a job goes on with a lock that was taken before."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from redis.asyncio import Redis

from redisson_py import Redisson
from tests.cli.processes import StartCommandLine
from tests.cli.test_run import NOBODY, words
from tests.support.command_line import invoke

#: What the job prints: owner, fencing token, and whether it still sees the token of `acquire`.
SHOW = 'echo "$REDISSON_PY_OWNER ${REDISSON_PY_TOKEN-none} ${REDISSON_PY_ADOPT-none}"'


@pytest.mark.parametrize("kind", ["", "--fair", "--fenced"])
async def test_a_job_goes_on_with_it(
    command_line: StartCommandLine, redis: Redis, client: Redisson, kind: str
) -> None:
    kinds = [kind] if kind else []
    took = await command_line("acquire", "k", "--lease", "600", "--json", *kinds)
    status, out, errors = await took.end()
    assert (status, errors) == (0, "")
    said = json.loads(out)
    assert 500_000 < await redis.pttl("k") <= 600_000
    assert await client.get_lock("k").try_acquire() is None
    adopts: Mapping[str, str] = {"REDISSON_PY_ADOPT": said["token"]}
    job = ("run", "k", "--adopt", "--", "sh", "-c", SHOW + "; read line")
    run = await command_line(*job, env=adopts)
    owner, fencing, token = (await run.read_row()).split()
    assert await redis.hgetall("k") == {owner.encode(): b"1"}
    assert (fencing, token) == (str(said["fencing_token"] or "none"), "none")
    second = await command_line("run", "k", "--adopt", "--", "true", env=adopts)
    status, out, errors = await second.end()
    assert (status, out) == (75, "")
    assert "already adopted" in errors
    assert await run.end("\n") == (0, "", "")
    assert not await redis.exists("k")


async def test_python_goes_on_with_it(command_line: StartCommandLine, client: Redisson) -> None:
    took = await command_line("acquire", "k", "--lease", "600")
    status, token, errors = await took.end()
    assert (status, errors) == (0, "")
    busy = await command_line("acquire", "k", "-n")
    status, out, errors = await busy.end()
    assert (status, out) == (75, "")
    async with await client.adopt(token, name="k"):
        pass


async def test_too_late(command_line: StartCommandLine, client: Redisson) -> None:
    took = await command_line("acquire", "k", "--lease", "600")
    _, token, _ = await took.end()
    await client.get_lock("k").force_release()
    late = await command_line(
        "run", "k", "--adopt", "--busy-exit", "7", "--", "true", env={"REDISSON_PY_ADOPT": token}
    )
    status, out, errors = await late.end()
    assert (status, out) == (7, "")
    assert "not on this server" in errors


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["acquire", ""], "name must not be empty"),
        (["acquire", "k", "--fair", "--fenced"], "cannot be combined"),
        (["acquire", "k", "-n", "--timeout", "3"], "cannot be combined"),
        (["acquire", "k", "--lease", "0"], "0 "),
        (["run", "k", "--adopt", "-n", "--", "true"], "does not wait"),
        (["run", "k", "--adopt", "--timeout", "3", "--", "true"], "does not wait"),
        (["run", "k", "--adopt", "--fenced", "--", "true"], "cannot be combined"),
        (["run", "k", "--adopt", "--", "true"], "no token of hand_over"),
    ],
    ids=words,
)
def test_wrong_usage(arguments: list[str], reason: str) -> None:
    env = {"REDISSON_URL": NOBODY, "REDISSON_PY_ADOPT": "secret"}
    result = invoke(*arguments, env=env)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "secret" not in result.stderr


def test_a_missing_token() -> None:
    env = {"REDISSON_URL": NOBODY, "REDISSON_PY_ADOPT": None}
    result = invoke("run", "k", "--adopt", "--", "true", env=env)  # type: ignore[arg-type]
    assert result.exit_code == 2
    assert "REDISSON_PY_ADOPT" in result.stderr
