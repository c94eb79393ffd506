"""The report as one page of HTML, which needs nothing but itself: no network, no script."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from tests.jepsen.report import costs, plots, text
from tests.jepsen.report.series import quantile
from tests.jepsen.report.timeline import timeline
from tests.jepsen.result import Result, Ruling
from tests.jepsen.totals import Totals

_STYLE = Path(__file__).with_name("style.css")
_QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}

_KEY = """
<div class="key"><span class="k-ok">happened</span><span class="k-fail">refused</span>
<span class="k-info">nobody knows</span><span class="k-held">could be relied on</span>
<span class="k-strike">a nemesis acts</span><span class="k-overlap">held twice</span></div>
"""


def page(results: Sequence[Result]) -> str:
    """Return the report of runs."""
    failed = [result for result in results if not result.ok]
    what = "every rule held" if not failed else f"{len(failed)} of {len(results)} runs failed"
    parts = [
        f"<h1>redisson_py under attack: {what}</h1>",
        f'<p class="said">{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, Python '
        f"{sys.version.partition(' ')[0]}: {escape(text.summary(results))}</p>",
        "<h2>Runs</h2>",
        _runs(results),
        '<p class="said">ok: the rule held, with what it was applied to. figure: the nemesis broke'
        " an assumption of the rule, so that violations are counted and published. -: the rule is"
        " not one of this workload. nothing: it had nothing to look at.</p>",
        *(["<h2>Failures</h2>", _KEY] if failed else []),
        *(_failure(result) for result in failed),
        "<h2>Hand-offs</h2>",
        "<p>Milliseconds from a release that somebody waited for to the next grant.</p>",
        _handoffs(results),
        *(_published(*each) for each in Totals.of(results).published()),
        "<h2>Over time</h2>",
        "<p>Shaded: a nemesis acts. Blue is the median, brown the 99th percentile.</p>",
        *(_details(number, result) for number, result in enumerate(results)),
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>redisson_py under attack</title><style>{_STYLE.read_text('utf-8')}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def _table(heading: Sequence[str], rows: Iterable[str], numbers: int) -> str:
    """Return a table; so many of its columns, from the third on, are numbers."""
    cells = [
        f'<th class="number">{escape(name)}</th>' if 3 <= place < 3 + numbers
        else f"<th>{escape(name)}</th>"
        for place, name in enumerate(heading)
    ]  # fmt: skip
    head = f"<thead><tr>{''.join(cells)}</tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{"".join(rows)}</tbody></table></div>'


def _named(number: int, result: Result) -> str:
    plan = result.plan
    link = f'<a href="#run-{number}">{escape(plan.workload)}</a>'
    nemesis = escape(plan.nemesis)
    return (
        f'<td>{link}</td><td class="wide" title="{nemesis}">{nemesis}</td>'
        f"<td>{escape(plan.topology)}</td>"
    )


def _runs(results: Sequence[Result]) -> str:
    names = sorted({name for result in results for name in result.rulings})
    rows = [
        f"<tr>{_named(number, result)}"
        f'<td class="number">{result.operations:,}</td>'
        f'<td class="number">{len(result.handoffs.taken):,}</td>'
        f"<td>{'<span class=BROKEN>yes</span>' if result.trouble else '-'}</td>"
        + "".join(_cell(result.rulings.get(name)) for name in names)
        + "</tr>"
        for number, result in enumerate(results)
    ]
    heading = ["workload", "nemesis", "topology", "operations", "hand-offs", "trouble", *names]
    return _table(heading, rows, 2)


def _cell(ruling: Ruling | None) -> str:
    if ruling is None:
        return '<td class="nothing">-</td>'
    count = f" {ruling.looked_at:,}" if ruling.state == "ok" else ""
    found = f" {ruling.found:,}" if ruling.found else ""
    figures = "; ".join(f"{name}: {value}" for name, value in ruling.figures.items())
    return f'<td class="{ruling.state}" title="{escape(figures)}">{ruling.state}{count}{found}</td>'


def _failure(result: Result) -> str:
    plan = result.plan
    parts = [
        f"<h3>{escape(plan.workload)} under {escape(plan.nemesis)}, {escape(plan.topology)}</h3>",
        f"<p>Repeat it: <code>{escape(plan.command)}</code></p>",
        *(f"<pre>{escape(each)}</pre>" for each in result.trouble),
    ]
    for name in result.broken:
        ruling = result.rulings[name]
        parts.append(f"<p><b>{escape(name)}</b>: {ruling.found:,} violations</p>")
        for violation in ruling.shown:
            start = min((op.t0 for op in violation.ops), default=0)
            listed = "\n".join(text.operation(op, start) for op in violation.ops)
            drawn = timeline(violation.ops, result.spans, result.began) if violation.ops else ""
            parts.append(
                f'<div class="violation"><p>{escape(violation.rule)}</p>{drawn}'
                f"<details><summary>The operations</summary><pre>{escape(listed)}</pre></details>"
                "</div>"
            )
    return "".join(parts)


def _handoffs(results: Sequence[Result]) -> str:
    rows: list[str] = []
    for number, result in enumerate(results):
        if taken := result.handoffs.taken:
            found = (quantile(taken, part) for part in _QUANTILES.values())
            cells = "".join(f'<td class="number">{each:,.2f}</td>' for each in found)
            rows.append(
                f'<tr>{_named(number, result)}<td class="number">{len(taken):,}</td>{cells}</tr>'
            )
    heading = ["workload", "nemesis", "topology", "hand-offs", *_QUANTILES]
    return _table(heading, rows, 5) if rows else "<p>There were none.</p>"


def _published(table: costs.Table, rows: Mapping[str, costs.Row]) -> str:
    """Return a table of what each nemesis cost, with its heading."""
    names = ["runs", *table.columns]
    head = "".join(f'<th class="number">{escape(name)}</th>' for name in names)
    body = "".join(
        f"<tr><td>{escape(nemesis)}</td>"
        + "".join(f'<td class="number">{costs.shown(name, row[name])}</td>' for name in names)
        + "</tr>"
        for nemesis, row in rows.items()
    )
    return (
        f"<h2>{escape(table.title)}</h2><p>{escape(table.about)}</p>"
        f'<div class="scroll"><table><thead><tr><th>nemesis</th>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _details(number: int, result: Result) -> str:
    plan = result.plan
    drawn = [plots.speed(result), plots.latency(result)] if result.bins else []
    if result.handoffs.taken:
        drawn.append(plots.handoffs(result))
    counted = ", ".join(f"{name} {count:,}" for name, count in result.tally.items())
    figures = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(str(each))}</td><td>{escape(str(value))}</td></tr>"
        for name, ruling in result.rulings.items()
        for each, value in ruling.figures.items()
    )
    state = "ok" if result.ok else "BROKEN"
    return (
        f'<details id="run-{number}"{" open" if number == 0 else ""}>'
        f'<summary><span class="{state}">●</span> {escape(plan.workload)} under'
        f" {escape(plan.nemesis)}, {escape(plan.topology)}: {result.operations:,} operations"
        f'</summary><div class="plots">{"".join(f"<div>{each}</div>" for each in drawn)}</div>'
        f'<p class="said">{escape(counted)}</p><table>{figures}</table>'
        f"<p><code>{escape(plan.command)}</code></p></details>"
    )
