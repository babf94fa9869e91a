"""The table of what is true on this machine: each rule's own experiment, carried out."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from placement_lint.errors import UsageError
from placement_lint.finding import Outcome, Verdict
from placement_lint.probe.prober import Prober
from placement_lint.probe.sandbox import Sandbox
from placement_lint.registry import all_rules, select
from placement_lint.rule import Rule

VERSION = 1
WIDTH = 150  # columns, where there is no terminal to ask
HEADINGS = ("Rule", "Claim", "Flagged arm", "Control arm", "Verdict")
STYLES = {Outcome.REPRODUCED: "green", Outcome.REFUTED: "yellow", Outcome.INCONCLUSIVE: "red"}


@dataclass(frozen=True)
class Row:
    code: str
    name: str
    claim: str
    flagged: str
    control: str
    verdict: Verdict
    expected: Outcome


@dataclass(frozen=True)
class Table:
    torch: str
    device: str
    rows: tuple[Row, ...]

    @property
    def surprises(self) -> bool:
        """Whether an experiment said the opposite of what its rule says."""
        opposites = {Outcome.REPRODUCED, Outcome.REFUTED}
        return any({row.verdict.outcome, row.expected} == opposites for row in self.rows)


def rules_to_probe(words: Sequence[str]) -> list[Rule]:
    """The rules that the words select, all without any; only those that have an experiment."""
    file = next((word for word in words if word.endswith((".py", ".ipynb")) or os.sep in word), None)
    if file is not None:
        raise UsageError(f"`probe` takes rules; to probe a program, `placement-lint check --probe auto {file}`")
    chosen = [rule for rule in (select(words, ()) if words else all_rules()) if rule.experiment]
    if not chosen:
        raise UsageError(f"no rule with an experiment is selected by {', '.join(words)}")
    return chosen


def measure(rules: Sequence[Rule], mode: str, advance: Callable[[], None] = lambda: None) -> Table:
    rows = []
    with Sandbox() as sandbox:
        prober = Prober(mode, sandbox)
        for rule in rules:
            rows.append(_row(rule, prober))
            advance()
        return Table(prober.found.torch, prober.device, tuple(rows))


def _row(rule: Rule, prober: Prober) -> Row:
    experiment = rule.experiment
    assert experiment is not None
    trial = prober.trial(experiment, {})
    return Row(
        code=rule.code,
        name=rule.name,
        claim=experiment.claim,
        flagged=trial.flagged,
        control=trial.control,
        verdict=trial.verdict,
        expected=experiment.expects,
    )


# --- formats -----------------------------------------------------------------------------------------------


def as_json(table: Table) -> str:
    rows = [
        {
            "code": row.code,
            "name": row.name,
            "claim": row.claim,
            "flagged": row.flagged,
            "control": row.control,
            "level": row.verdict.level.value,
            "outcome": row.verdict.outcome.value,
            "device": row.verdict.device,
        }
        for row in table.rows
    ]
    told = {"version": VERSION, "torch": table.torch, "device": table.device, "rows": rows}
    return json.dumps(told, indent=2, ensure_ascii=False)


def as_markdown(table: Table) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{' --- |' * len(HEADINGS)}"]
    for row in table.rows:
        cells = (f"{row.code} `{row.name}`", row.claim, row.flagged, row.control, f"**{row.verdict.outcome.value}**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join((*lines, "", f"Run with torch {table.torch} on {table.device}."))


def as_rich(table: Table) -> str:
    """For a terminal; where there is none, without colours and as wide as it takes."""
    from rich.console import Console
    from rich.table import Column
    from rich.table import Table as Grid
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    columns = (Column(heading, overflow="fold") for heading in HEADINGS)
    grid = Grid(*columns, title=f"torch {table.torch}, {table.device}", show_lines=True)
    for row in table.rows:
        verdict = Text(row.verdict.outcome.value, style=STYLES[row.verdict.outcome])
        grid.add_row(*map(Text, (f"{row.code}\n{row.name}", row.claim, row.flagged, row.control)), verdict)
    with console.capture() as captured:
        console.print(grid)
    return captured.get().rstrip("\n")


FORMATS: dict[str, Callable[[Table], str]] = {"rich": as_rich, "json": as_json, "markdown": as_markdown}
