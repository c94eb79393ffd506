"""What is mistyped, and what `--help` says of each option."""

from __future__ import annotations

import re

import click
import pytest

from redisson_py._cli.main import _COMMANDS, cli
from tests.cli.test_run import NOBODY, words
from tests.support.command_line import invoke


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["pign"], "No such command 'pign'. Did you mean 'ping'?"),
        (["lock"], "No such command 'lock'. Did you mean 'locks'?"),
        (["doktor", "--json"], "No such command 'doktor'. Did you mean 'doctor'?"),
        (["quite-another"], "No such command 'quite-another'."),
        (["--url", "redis://x", "ping"], "write redisson-py COMMAND --url"),
        (["ping", "--tiemout", "3"], "Did you mean"),
        (["release", "k", "--forc"], "Did you mean"),
    ],
    ids=words,
)
def test_what_is_mistyped_is_answered_with_what_there_is(arguments: list[str], reason: str) -> None:
    result = invoke(*arguments, env={"REDISSON_URL": NOBODY})
    assert result.exit_code == 2
    assert reason in result.stderr
    assert ("Did you mean" in reason) == ("Did you mean" in result.stderr)


#: Said of an option that takes seconds: the unit in its metavar or its help.
_UNIT = re.compile(r"SECONDS|[Ss]econds")


@pytest.mark.parametrize("name", _COMMANDS)
def test_the_help_of_each_option_says_what_it_does(name: str) -> None:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option):
            record = option.get_help_record(click.Context(command))
            assert record is not None
            words_of_it = re.sub(r"\[.*?\]", "", record[1]).split()
            assert len(words_of_it) > 1, f"{name} {record[0]}: {record[1]}"
            if "SECONDS" in record[0] or option.name in ("timeout", "interval", "seconds"):
                assert _UNIT.search(" ".join(record))
