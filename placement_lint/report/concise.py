"""One line per finding, for terminals, editors and grep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

import click

from placement_lint.finding import Finding, Severity
from placement_lint.report.places import place, with_verdict
from placement_lint.report.results import Run
from placement_lint.report.style import Style
from placement_lint.report.summary import closing_lines, is_fixable

COLORS: Mapping[Severity, str] = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "blue"}


def render(run: Run, stream: TextIO) -> None:
    colors = run.style.colors(stream)
    for finding in run.findings:
        line = _line(finding, run.style)
        print(line if colors else click.unstyle(line), file=stream)
    for text in closing_lines(run):
        print(text, file=stream)


def _line(finding: Finding, style: Style) -> str:
    """``train.py:5:1: DPL501 [*] error: message``"""
    where = click.style(f"{place(finding)}:", bold=True)
    code = click.style(finding.code, fg=COLORS[finding.severity], bold=True)
    fix = f" {click.style('[*]', fg='green')}" if is_fixable(finding, style) else ""
    severity = click.style(f"{finding.severity.value}:", fg=COLORS[finding.severity])
    return f"{where} {code}{fix} {severity} {' '.join(with_verdict(finding).split())}"
