"""Full report of findings: each with its source code, and the steps of its trace."""

from __future__ import annotations

from typing import Literal, TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from placement_lint.finding import Finding, Severity, Step, Verdict
from placement_lint.report.frames import Excerpts, FrameLine, printable
from placement_lint.report.places import line_place, place
from placement_lint.report.results import Run
from placement_lint.report.style import Style
from placement_lint.report.summary import closing_lines, summary_line

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "bold yellow", Severity.INFO: "bold blue"}
INDENT = 2
UNCUT = 10_000  # columns, if no terminal limits them


def render(run: Run, stream: TextIO) -> None:
    console = Console(
        file=stream,
        force_terminal=run.style.colors(stream),
        no_color=not run.style.colors(stream),
        color_system=_color_system(run.style, stream),
        highlight=False,
        emoji=False,
        markup=False,
    )
    page = FullPage(console, Excerpts(run.texts), folded=stream.isatty())
    for finding in run.findings:
        page.show(finding)
    for line in closing_lines(run):
        style = ("bold" if run.findings else "bold green") if line == summary_line(run) else ""
        console.print(Text(printable(line), style=style), soft_wrap=True)


def _color_system(style: Style, stream: TextIO) -> Literal["auto", "standard"] | None:
    """The colours that the terminal supports; if colours are forced, the standard ones."""
    if not style.colors(stream):
        return None
    return "auto" if stream.isatty() else "standard"


class FullPage:
    """The report page; if ``folded``, text and code keep to the width of the terminal."""

    def __init__(self, console: Console, excerpts: Excerpts, folded: bool) -> None:
        self.console = console
        self.excerpts = excerpts
        self.folded = folded
        self.code_width = console.width if folded else UNCUT

    def show(self, finding: Finding) -> None:
        style = STYLES[finding.severity]
        self._line(_heading(finding, style))
        self._wrapped(Text(printable(finding.message)), INDENT)
        self._frame(finding, style)
        for number, step in enumerate(finding.trace, start=1):
            self._step(number, step)
        if finding.fix:
            advice = Text.assemble(("fix: ", "bold green"), printable(finding.fix.message))
            self._wrapped(advice, INDENT)
        if finding.verdict:
            self._wrapped(_verdict(finding.verdict), INDENT)
        if finding.saved and finding.saved.file:
            self._wrapped(Text.assemble(("slice: ", "bold green"), printable(finding.saved.file)), INDENT)
        self._line(Text())

    def _frame(self, finding: Finding, style: str) -> None:
        gutter = len(str(finding.range.end_line + 1)) + INDENT + 1
        for line in self.excerpts.frame(finding, self.code_width - gutter - 3):
            self._line(Text.assemble((f"{line.number:>{gutter}} │ ", "dim"), line.text))
            if line.is_marked:
                self._line(Text.assemble((f"{'':>{gutter}} │ ", "dim"), _underline(line, style)))

    def _step(self, number: int, step: Step) -> None:
        self._wrapped(
            Text.assemble((f"{number}. ", "bold"), (line_place(step), "cyan"), f"  {printable(step.message)}"),
            INDENT,
        )
        code = self.excerpts.line(step)
        indent = INDENT + len(f"{number}. ")
        if len(code) > self.code_width - indent:
            code = code[: self.code_width - indent - 1] + "…"
        self._line(Text(" " * indent + code, style="dim"))

    def _line(self, text: Text) -> None:
        self.console.print(text, soft_wrap=True)

    def _wrapped(self, text: Text, indent: int) -> None:
        """A paragraph, folded to the terminal's width and indented throughout."""
        if self.folded:
            self.console.print(Padding(text, (0, 0, 0, indent)))
        else:
            self._line(Text(" " * indent) + text)


def _heading(finding: Finding, style: str) -> Text:
    return Text.assemble(
        (finding.severity.value, style),
        " ",
        (f"{finding.code} {finding.name}", "bold"),
        "  ",
        (place(finding), "cyan"),
    )


def _verdict(verdict: Verdict) -> Text:
    return Text.assemble(
        ("probe: ", "bold green"),
        (verdict.words, "bold"),
        f" ({verdict.device}): {printable(verdict.observed)}",
    )


def _underline(line: FrameLine, style: str) -> Text:
    before, marked = line.text[: line.start], line.text[line.start : line.stop]
    return Text.assemble(" " * cell_len(before), ("^" * max(cell_len(marked), 1), style))
