"""`redisson-py doctor`."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import asdict, replace

import click

from redisson_py._cli.checks.examination import examine
from redisson_py._cli.checks.facts import Facts
from redisson_py._cli.checks.finding import LEVELS, Finding, Level, worst_first
from redisson_py._cli.seconds import FiniteRange
from redisson_py._cli.servers import Servers, servers_options
from redisson_py._cli.status import UNAVAILABLE, answer, asynchronous, json_option

_COLOURS: dict[Level, str] = {
    "problem": "bold red",
    "warning": "yellow",
    "not visible": "dim",
    "ok": "green",
}
_TOPOLOGIES = {
    "single": "one server",
    "replicated": "a list of servers",
    "sentinel": "Sentinel",
    "cluster": "a cluster",
}


@click.command(short_help="Check whether locks are safe on these servers.")
@servers_options
@click.option(
    "--timeout",
    type=FiniteRange(min=0, min_open=True, max=30),
    default=5.0,
    show_default=True,
    help="Seconds that a server may take for an answer.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 on warnings, too.")
@json_option
@asynchronous
async def doctor(*, servers: Servers, timeout: float, strict: bool, as_json: bool) -> int:
    """Check whether locks are safe on these servers, and say what to do.

    It reads settings and permissions, and uses a real lock under a random name. It changes no
    setting. A setting that your user may not read is "not visible", which is not a problem.
    Exit status: 0 without problems, 1 with problems, 69 if no server answers.
    """
    facts = await _facts(servers, timeout)
    findings = examine(facts)
    if as_json:
        answer(_document(facts, findings))
    elif sys.stdout.isatty():
        _print_rich(facts, findings)
    else:
        _print_plain(facts, findings)
    if not any(server.answered for server in facts.servers):
        return UNAVAILABLE
    bad = ("problem", "warning") if strict else ("problem",)
    return int(any(finding.level in bad for finding in findings))


async def _facts(servers: Servers, timeout: float) -> Facts:
    # redis-py is not imported for --help.
    from redisson_py._cli.checks.asking import target_of
    from redisson_py._cli.checks.reading import read, read_again
    from redisson_py._cli.checks.trial import try_lock

    target = target_of(servers, timeout)
    facts = await read(target)
    if not facts.masters:
        return facts
    facts = replace(facts, trial=await try_lock(servers.client, timeout))
    return await read_again(facts, target)


def _document(facts: Facts, findings: list[Finding]) -> dict[str, object]:
    counted = Counter(finding.level for finding in findings)
    return {
        "topology": facts.topology,
        "servers": facts.where,
        "findings": [asdict(finding) for finding in findings],
        "count": {level: counted[level] for level in LEVELS},
    }


def _title(facts: Facts) -> str:
    return f"{facts.where} ({_TOPOLOGIES[facts.topology]})"


def _summary(findings: list[Finding]) -> str:
    counted = Counter(finding.level for finding in findings)
    words = {"problem": "problems", "warning": "warnings"}
    parts = [
        f"{counted[level]} {level if counted[level] == 1 else words.get(level, level)}"
        for level in LEVELS
        if counted[level]
    ]
    return ", ".join(parts)


def _found(finding: Finding, facts: Facts) -> str:
    """Return what was found, with the servers where not all of them say the same."""
    where = set(finding.where)
    groups = [facts.servers, [each for each in facts.servers if each.answered], facts.masters]
    if not where or any(where == {each.where for each in group} for group in groups):
        return finding.found
    if all(each in finding.found for each in where):
        return finding.found
    if len(finding.where) > 3:
        return f"{finding.found} (on {len(finding.where)} of {len(facts.servers)} servers)"
    return f"{finding.found} ({', '.join(finding.where)})"


def _print_plain(facts: Facts, findings: list[Finding]) -> None:
    click.echo(f"{_title(facts)}\n")
    for finding in worst_first(findings):
        click.echo(f"{finding.level:<11}  {finding.check:<12}  {_found(finding, facts)}")
        if finding.todo:
            click.echo(f"{'':<11}  {'':<12}  -> {finding.todo}")
    click.echo(f"\n{_summary(findings)}")


def _print_rich(facts: Facts, findings: list[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for finding in worst_first(findings):
        text = Text(_found(finding, facts))
        if finding.todo:
            text.append(f"\n-> {finding.todo}", style="cyan")
        style = _COLOURS[finding.level]
        table.add_row(Text(finding.level, style=style, no_wrap=True), finding.check, text)
    console = Console(highlight=False)
    console.print(Text(_title(facts), style="bold"), "", table, "", _summary(findings), sep="\n")
