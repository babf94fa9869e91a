"""``python -m tests.bench``: interleaved runs, medians, and a table in Markdown."""

from __future__ import annotations

import os
import statistics
import tempfile
from pathlib import Path

import click

from tests.bench.changed import EDITS, Change, changes
from tests.bench.measure import Costs, cost_of
from tests.bench.packages import PINNED, size, unpacked
from tests.bench.stages import stages
from tests.bench.tools import OURS, Tool, compile_ours, installed

# The number of files that ``--changed`` edits.
CHANGED = 25


@click.command()
@click.option("--folder", type=click.Path(path_type=Path), help="Keep the packages here, and take them from here.")
@click.option("--package", "packages", multiple=True, default=PINNED, show_default=True, help="NAME==VERSION")
@click.option("--sources", multiple=True, type=click.Path(exists=True, path_type=Path), help="Measure on this folder.")
@click.option("--rounds", type=click.IntRange(min=1), default=5, show_default=True)
@click.option("--tools", "search", help="Where to look for the peers first: the bin folder of an environment.")
@click.option("--without", multiple=True, help="Leave this peer out.")
@click.option("--profile", is_flag=True, help="Show where placement-lint's own time goes instead.")
@click.option("--changed", is_flag=True, help="Change one file after the other instead, and see what a run costs then.")
def bench(
    folder: Path | None,
    packages: tuple[str, ...],
    sources: tuple[Path, ...],
    rounds: int,
    search: str | None,
    without: tuple[str, ...],
    profile: bool,
    changed: bool,
) -> None:
    """Measure placement-lint and those of TorchFix, Fixit, pylint, flake8 and ruff that are installed."""
    with tempfile.TemporaryDirectory() as temporary:
        kept = folder or Path(temporary)
        places = [*sources] or [unpacked(package, kept) for package in packages]
        tools = [tool for tool in installed(search) if tool.name not in without]
        for place in places:
            files, lines = size(place)
            click.echo(f"\n{place.name}: {files:,} files, {lines:,} lines\n")
            if profile:
                click.echo(stage_table(stages(place), lines))
            elif changed:
                click.echo(change_table(changed_one_by_one(place)))
            else:
                click.echo(cost_table(compared(tools, place, rounds)))


def compared(tools: list[Tool], place: Path, rounds: int) -> dict[str, Costs]:
    """The costs of all tools, run in turn in each round, so that a slow minute of the machine affects all of them."""
    costs = {tool.name: Costs() for tool in tools}
    with tempfile.TemporaryDirectory() as cache:
        environment = {"XDG_CACHE_HOME": cache}
        compile_ours()
        for tool in tools:  # fill the caches
            if tool.name.endswith("warm"):
                cost_of(tool.on(place, Path(cache)), environment)
        for _ in range(rounds):
            for tool in tools:
                costs[tool.name].runs.append(cost_of(tool.on(place, Path(cache)), environment))
    return costs


def changed_one_by_one(place: Path) -> list[Change]:
    with tempfile.TemporaryDirectory() as scratch:
        return list(changes({tool.name: tool for tool in installed(None)}, place, CHANGED, Path(scratch)))


def change_table(found: list[Change]) -> str:
    rows = (change_row(edit, [one for one in found if one.edit == edit]) for edit in EDITS)
    return "\n".join(
        ("| edit | late | median of wall / limit | the late ones: wall s (limit) |", "|---|--:|--:|---|", *rows)
    )


def change_row(edit: str, runs: list[Change]) -> str:
    late = [one for one in runs if one.wall > one.limit]
    named = ", ".join(f"{one.file} {one.wall:.2f} ({one.limit:.2f})" for one in late)
    return f"| {edit} | {len(late)} of {len(runs)} | {statistics.median(one.share for one in runs):.2f} | {named} |"


def cost_table(costs: dict[str, Costs]) -> str:
    cold, warm = (costs[f"{OURS}, {state}"] for state in ("cold", "warm"))
    rows = [
        f"| {name} | {cost.wall:.2f} | {cost.cpu:.2f} | {cost.peak:.0f} | {cost.wall / cold.wall:.2f} "
        f"| {cost.wall / warm.wall:.2f} |"
        for name, cost in costs.items()
    ]
    head = (
        f"| {os.cpu_count()} cores | wall s | CPU s | largest process MiB | wall / ours cold | wall / ours warm |\n"
        "|---|--:|--:|--:|--:|--:|"
    )
    return "\n".join((head, *rows))


def stage_table(seconds: dict[str, float], lines: int) -> str:
    rows = [f"| {stage} | {spent:.2f} | {spent / lines * 1e6:.1f} |" for stage, spent in seconds.items()]
    return "\n".join(("| stage | CPU s | ms / 1,000 lines |", "|---|--:|--:|", *rows))


if __name__ == "__main__":
    bench()
