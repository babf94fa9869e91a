"""The commands. They read arguments and print; what they do lies in other rooms, imported when needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from placement_lint import __version__
from placement_lint.errors import UsageError
from placement_lint.finding import Severity

if TYPE_CHECKING:
    from placement_lint.checker import Job
    from placement_lint.config import Settings
    from placement_lint.results import Run

FINDINGS, FAILURE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141
FORMATS = ("full", "concise", "json")
SEVERITIES = tuple(severity.value for severity in Severity)
STDIN = "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and give the exit status, whatever happens."""
    try:
        status = commands.main(arguments, prog_name="placement-lint", standalone_mode=False)
        sys.stdout.flush()
        return int(status or 0)
    except click.ClickException as error:
        error.show()
        return FAILURE
    except UsageError as error:
        click.echo(f"placement-lint: error: {error}", err=True)
        return FAILURE
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has left; what is still buffered must not raise again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="placement-lint")
def commands() -> None:
    """Find tensors, modules and optimizers that are in the wrong place in PyTorch code."""


@commands.command()
@click.argument("paths", nargs=-1)
@click.option("--select", multiple=True, metavar="RULES", help="Check only these rules (comma-separated).")
@click.option("--ignore", multiple=True, metavar="RULES", help="Leave these rules out (comma-separated).")
@click.option("--severity", type=click.Choice(SEVERITIES), default="info", help="Show this and worse.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="full", help="How to show findings.")
@click.option("--output", type=click.Path(dir_okay=False), help="Write the report to this file.")
@click.option("--stdin-filename", default="<stdin>", help="The name to report for what `-` reads.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: as many as pay]")
@click.option("--statistics", is_flag=True, help="Show how often each rule is found, not the findings.")
def check(
    paths: tuple[str, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    severity: str,
    form: str,
    output: str | None,
    stdin_filename: str,
    jobs: int | None,
    statistics: bool,
) -> int:
    """Check files and folders (by default the current one); `-` reads standard input.

    RULES are codes (DPL301), prefixes (DPL3), families (state), names (plain-tensor-attribute) or ALL.

    Exit status: 0 nothing to report, 1 findings, 2 the tool could not do its work.
    """
    if statistics and form == "json":
        raise UsageError("--statistics counts findings for people; with --format json, count them yourself")
    settings = _settings()
    job = _job(settings, select, ignore, severity)
    text = _read_stdin(paths)
    run = (
        _check_text(text, stdin_filename, job)
        if text is not None
        else _check_paths(paths or (".",), job, jobs)
    )
    with _opened(output) as stream:
        _report(run, "statistics" if statistics else form, stream, {stdin_filename: text} if text else {})
    for crash in run.crashes:
        click.echo(str(crash), err=True)
    return _status(run, settings.fail_on)


@commands.command()
@click.argument("rule")
def explain(rule: str) -> int:
    """Show a rule's page, by code or name."""
    from placement_lint.pages import as_markdown
    from placement_lint.registry import find_rule

    page = as_markdown(find_rule(rule))
    if not sys.stdout.isatty():
        click.echo(page)
        return 0
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(page))
    return 0


@commands.command()
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text")
def rules(form: str) -> int:
    """List all rules."""
    from placement_lint import pages
    from placement_lint.registry import all_rules

    click.echo(pages.as_json(all_rules()) if form == "json" else pages.as_table(all_rules()))
    return 0


@commands.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--gpus", type=click.IntRange(min=0), help="How many GPUs to simulate.  [default: 2]")
@click.option("-m", "--module", is_flag=True, help="TARGET is a module's name, as for `python -m`.")
@click.option("--trace", is_flag=True, help="Say what moves between devices.")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(gpus: int | None, module: bool, trace: bool, target: str, arguments: tuple[str, ...]) -> int:
    """Run a script on simulated GPUs; no GPU is needed."""
    from importlib.util import find_spec

    if find_spec("torch") is None:
        raise UsageError("`run` needs PyTorch: pip install 'placement-lint[probe]'")
    from placement_lint.simulate.runner import run_script

    count = _settings().gpus if gpus is None else gpus
    return run_script(target, list(arguments), count, module=module, trace=trace)


def _settings() -> Settings:
    from placement_lint.config import load_settings

    return load_settings(Path.cwd())


def _job(settings: Settings, select: Sequence[str], ignore: Sequence[str], severity: str) -> Job:
    """A choice on the command line replaces the project's; what it ignores is ignored as well."""
    from placement_lint.checker import Job

    chosen = _words(select)
    return Job(
        settings=settings,
        select=chosen or settings.select,
        ignore=(*_words(ignore), *(() if chosen else settings.ignore)),
        severity=Severity(severity),
    )


def _words(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _read_stdin(paths: Sequence[str]) -> bytes | None:
    if STDIN not in paths:
        return None
    if len(paths) > 1:
        raise UsageError("`-` reads standard input and cannot be combined with paths")
    return sys.stdin.buffer.read()


def _check_text(text: bytes, name: str, job: Job) -> Run:
    from placement_lint.engine import check_text

    return check_text(text, name, job)


def _check_paths(paths: Sequence[str], job: Job, jobs: int | None) -> Run:
    from placement_lint.engine import check_files
    from placement_lint.files import find_files, patterns
    from placement_lint.progress import progress

    selection = find_files(paths, patterns(job.settings.root, job.settings.exclude))
    if not selection.files and not selection.unlistable:
        click.echo(f"placement-lint: no Python files found under {', '.join(paths)}", err=True)
    with progress(len(selection.files)) as advance:
        return check_files(selection, job, jobs, advance)


@contextmanager
def _opened(output: str | None) -> Iterator[TextIO]:
    if output is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")
        yield sys.stdout
        return
    try:
        stream = open(output, "w", encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    with stream:
        yield stream


def _report(run: Run, form: str, stream: TextIO, texts: dict[str, bytes]) -> None:
    if form == "full":
        from placement_lint.report import full

        full.render(run, stream, texts)
    elif form == "json":
        from placement_lint.report import json

        json.render(run, stream)
    elif form == "statistics":
        from placement_lint.report import statistics

        statistics.render(run, stream)
    else:
        from placement_lint.report import concise

        concise.render(run, stream)


def _status(run: Run, fail_on: Severity) -> int:
    if run.crashes:
        return FAILURE
    return FINDINGS if any(finding.severity >= fail_on for finding in run.findings) else 0
