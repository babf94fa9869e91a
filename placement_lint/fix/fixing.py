"""``--fix`` and ``--diff``: write or show the files whose findings have been fixed in memory."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence

import click

from placement_lint.fix.fixes import Fixed, fix_findings, write
from placement_lint.report.places import place
from placement_lint.report.results import Job, Run


def fix_files(run: Run, job_of: Callable[[str], Job], unsafe: bool, show: bool, quiet: bool) -> Run:
    """Write the fixed files; returns the run afterwards. A text from standard input goes to standard output."""
    after, tried = fix_findings(run, job_of, unsafe)
    changed = [each for each in tried if each.fixed]
    new_texts = {each.path: each.after for each in changed}
    for path, text in run.texts.items():
        sys.stdout.buffer.write(new_texts.get(path, text))
    for each in changed:
        if each.path not in run.texts:
            write(each)
    if show and changed:
        click.echo(_listing(changed), err=True)
    if not quiet:
        _explain_withheld(tried)
    return after


def show_diff(run: Run, job_of: Callable[[str], Job], unsafe: bool) -> bool:
    """Print the changes that ``--fix`` would make; returns whether there are any."""
    after, tried = fix_findings(run, job_of, unsafe)
    for each in tried:
        click.echo(each.diff, nl=False)
    revealed = sum(len(each.revealed) for each in tried)
    others = f", and {revealed} that only these fixes reveal" if revealed else ""
    click.echo(f"placement-lint: would fix {len(after.fixed or ())} of {len(run.findings)} findings{others}", err=True)
    _explain_withheld(tried)
    return bool(after.fixed)


def _explain_withheld(tried: Sequence[Fixed]) -> None:
    for withheld in (withheld for each in tried for withheld in each.withheld):
        finding = withheld.finding
        click.echo(
            f"placement-lint: {place(finding)}: the fix of {finding.code} is not applied: {withheld.reason}", err=True
        )


def _listing(changed: Sequence[Fixed]) -> str:
    lines = ["Fixed:"]
    for each in changed:
        lines.append(f"- {each.path}:")
        counts = Counter((finding.code, finding.name) for finding in (*each.fixed, *each.revealed))
        lines.extend(f"    {number} × {code} ({name})" for (code, name), number in sorted(counts.items()))
    return "\n".join(lines)
