"""The commands. They read arguments and print; the modules that do the work are imported when needed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from placement_lint import __version__
from placement_lint.cli.outputs import Output
from placement_lint.errors import UsageError, require_pygls, require_torch
from placement_lint.finding import Severity
from placement_lint.report.formats import FORMATS
from placement_lint.report.style import COLORS
from placement_lint.spelling import did_you_mean

FAILURE, INTERRUPTED, PIPE_CLOSED = 2, 130, 141
SEVERITIES = tuple(severity.value for severity in Severity)
TRUSTS = ("confined", "unconfined")
PROBE_MODES = ("auto", "simulated", "gpu")
# The kinds of accelerator that are simulated (`placement_lint/simulate/machine.py`, which imports torch).
DEVICES = ("cuda", "mps", "xpu")
TABLE_FORMATS = ("rich", "json", "markdown")
FORM = "Format of the output."
RULE_LISTS = {"text": "as_table", "markdown": "as_markdown_table", "json": "as_json"}

Command = TypeVar("Command", bound=Callable[..., Any])


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


class _Commands(click.Group):
    """Suggests the closest command, and ``check`` where a path is given in the place of a command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if self.get_command(ctx, word) is None and not word.startswith("-"):
            advice = did_you_mean(word, self.commands)
            if os.path.exists(word):
                advice = f". Did you mean `placement-lint check {word}`?"
            raise click.UsageError(f"There is no command `{word}`{advice}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="placement-lint")
def commands() -> None:
    """Find tensors, modules and optimizers that are in the wrong place in PyTorch code."""


def _words(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word.strip() for value in values for word in value.split(",") if word.strip())


def _outputs(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[Output, ...]:
    parts = (value.partition(":") for value in values)
    outputs = tuple(Output(form, file or None) for form, _, file in parts)
    for output in outputs:
        if output.form not in FORMATS:
            raise click.BadParameter(f"{output.form!r} is not one of {', '.join(FORMATS)}.")
    return outputs


def _shard(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int]:
    parts = (value or "1/1").split("/")
    if len(parts) != 2 or not all(part.isdecimal() for part in parts) or not 1 <= int(parts[0]) <= int(parts[1]):
        raise click.BadParameter(f"{value!r} is not one of 1/N to N/N.")
    return int(parts[0]), int(parts[1])


def _complete_format(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    return [form for form in FORMATS if form.startswith(begun)]


def words_option(*names: str, metavar: str, help: str) -> Callable[[Command], Command]:
    """An option that may be repeated, and takes several words with commas between them."""
    return click.option(*names, multiple=True, callback=_words, metavar=metavar, help=help)


format_option = click.option(
    *("--format", "--output-format", "formats"),
    multiple=True,
    callback=_outputs,
    shell_complete=_complete_format,
    metavar="NAME[:FILE]",
    help=f"How to show findings, and in which file; repeatable. NAME is one of {', '.join(FORMATS)}.",
)
output_option = click.option(
    *("--output", "--output-file", "-o"),
    type=click.Path(dir_okay=False),
    help="Write the report to this file.",
)


def report_options(command: Command) -> Command:
    """The options of commands that report findings."""
    for option in reversed(_REPORT_OPTIONS):
        command = option(command)
    return command


_REPORT_OPTIONS = (
    format_option,
    output_option,
    click.option("--severity", type=click.Choice(SEVERITIES), default="info", help="Minimum severity to report."),
    click.option("--fail-on", type=click.Choice(SEVERITIES), help="Minimum severity that fails.  [default: warning]"),
    click.option("--baseline", type=click.Path(dir_okay=False), help="Do not report the findings listed in this file."),
    click.option("--statistics", is_flag=True, help="Show how often each rule is found instead of the findings."),
    click.option("--exit-zero", "-e", is_flag=True, help="Exit with status 0 even if there are findings."),
    click.option("--quiet", "-q", is_flag=True, help="Print findings and errors, and nothing else."),
    click.option("--color", type=click.Choice(COLORS), default="auto", help="When to colour the output."),
)


class _Check(click.Command):
    """``--trust`` alone is a flag, and not followed by its value: click would take the next path for it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        options = [f"--trust={TRUSTS[0]}" if word == "--trust" else word for word in args[:end]]
        return super().parse_args(ctx, [*options, *args[end:]])


@commands.command(cls=_Check, short_help="Check files and folders.")
@click.argument("paths", nargs=-1)
@words_option("--select", metavar="RULES", help="Check only these rules (comma-separated).")
@words_option("--extend-select", metavar="RULES", help="Check these rules as well.")
@words_option("--ignore", "--extend-ignore", metavar="RULES", help="Do not check these rules.")
@words_option("--exclude", "--extend-exclude", metavar="PATTERNS", help="Exclude these files as well.")
@click.option("--force-exclude", is_flag=True, help="Exclude files even if they are named.")
@click.option("--whole-project", is_flag=True, help="Check all files of the project, and report on PATHS.")
@report_options
@click.option("--stdin-filename", default="<stdin>", help="Name of the text that `-` reads, in reports.")
@click.option("--no-cache", is_flag=True, help="Disable the cache.")
@click.option("--executor", default="processes", metavar="WHERE", help="Check on a Dask cluster: dask://HOST:PORT.")
@click.option("--shard", callback=_shard, metavar="I/N", help="Check the I-th of N parts of the files.")
@click.option("--jobs", type=click.IntRange(min=1), help="Number of processes.  [default: chosen automatically]")
@click.option("--show-files", is_flag=True, help="List the files that would be checked, and check none.")
@click.option("--fix/--no-fix", help="Apply safe fixes.")
@click.option("--unsafe-fixes/--no-unsafe-fixes", help="Include unsafe fixes in --fix, --diff and [*].")
@click.option("--diff", is_flag=True, help="Show what --fix would do, and do nothing.")
@click.option("--show-fixes/--no-show-fixes", help="With --fix, list what was fixed.")
@click.option("--exit-non-zero-on-fix", is_flag=True, help="With --fix, exit with status 1 if anything was fixed.")
@click.option("--add-noqa", is_flag=True, help="Add comments that suppress the present findings.")
@click.option("--write-baseline", type=click.Path(dir_okay=False), help="List the present findings in this file.")
@click.option("--diff-base", metavar="REV", help="Only findings on lines changed since this git revision.")
@click.option("--watch", "-w", is_flag=True, help="Check again whenever a file is saved.")
@click.option("--config", type=click.Path(dir_okay=False), help="Use this configuration file instead of the project's.")
@click.option("--isolated", is_flag=True, help="Use no configuration file.")
@click.option("--probe", type=click.Choice(("off", *PROBE_MODES)), default="off", help="Run each finding's experiment.")
@click.option(
    "--trust",
    type=click.Choice(TRUSTS),
    metavar="[=unconfined]",
    help="With --probe, execute the program, or the part of it that shows a finding. Linux confines it: it reads only "
    "Python, system libraries and its own folders, its changes are discarded, and it has no network, no other "
    "processes, and limits on memory and time. On a system that cannot confine it, nothing is executed. "
    "--trust=unconfined executes it with your permissions.",
)
@click.option(
    "--save-probe",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Write that part to a standalone file for each finding. Without --trust, nothing is executed.",
)
@click.option("--why-not", metavar="RULE", help="Explain why this rule reports nothing at a place: PATHS is FILE:LINE.")
@click.option("--timeline", type=click.Path(dir_okay=False), help="Draw where each tensor is, as an HTML page.")
@click.option("--strict-probes", is_flag=True, help="Fail on refuted findings as well.")
@click.option("--verbose", "-v", is_flag=True, help="Show which settings, files and cached results are used.")
def check(**options: Any) -> int:
    """Check files and folders (by default the current one); `-` reads standard input.

    RULES are codes (DPL301), prefixes (DPL3), families (state), names (unregistered-tensor-attribute) or ALL.

    Exit status: 0 no findings, 1 findings, 2 a usage or internal error.
    """
    from placement_lint.cli.check import Request
    from placement_lint.cli.check import check as run_check

    return run_check(Request(**options))


@commands.command(short_help="Show what the analysis knows at a line.")
@click.argument("place", metavar="FILE:LINE")
def debug(place: str) -> int:
    """Show what the analysis knows at a line: how it is reached, and where each value is."""
    from placement_lint.checking.debug import debugged, split_place
    from placement_lint.cli.check import job_at

    path, _ = split_place(place)
    click.echo(debugged(place, job_at(path)))
    return 0


@commands.command(short_help="Report the findings of all shards.")
@click.argument("parts", nargs=-1, required=True)
@report_options
def merge(**options: Any) -> int:
    """Report the findings of all shards, from the files of `check --shard I/N --format part:FILE`."""
    from placement_lint.cli.check import Request
    from placement_lint.cli.check import check as run_check

    return run_check(Request(**options))


@commands.command()
@click.argument("rule")
def explain(rule: str) -> int:
    """Show a rule's page, by code or name."""
    from placement_lint.cli.pages import as_markdown
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
@click.option("--format", "--output-format", "form", type=click.Choice(tuple(RULE_LISTS)), default="text", help=FORM)
def rules(form: str) -> int:
    """List all rules."""
    from placement_lint.cli import pages
    from placement_lint.registry import all_rules

    click.echo(getattr(pages, RULE_LISTS[form])(all_rules()))
    return 0


@commands.command()
@click.argument("path", default=".")
@click.option("--format", "--output-format", "form", type=click.Choice(("text", "json")), default="text", help=FORM)
def config(path: str, form: str) -> int:
    """Show the settings for a file or folder, and the origin of each."""
    from placement_lint.cli import config_view

    click.echo(config_view.RENDERERS[form](path))
    return 0


@commands.group()
def cache() -> None:
    """Manage the result cache."""


@cache.command("dir")
def cache_folder() -> int:
    """Show the folder of the cache."""
    from placement_lint.run.cache import folder

    click.echo(folder())
    return 0


@cache.command("clear")
def clear_cache() -> int:
    """Delete the cache."""
    from placement_lint.run.cache import clear, folder

    count = clear()
    click.echo(f"removed {count} {'file' if count == 1 else 'files'} from {folder()}")
    return 0


@commands.command(short_help="Run the rules' experiments on this machine.")
@click.argument("rules", nargs=-1)
@click.option("--probe", "mode", type=click.Choice(PROBE_MODES), default="auto", help="Devices to run on.")
@click.option("--format", "--output-format", "form", type=click.Choice(TABLE_FORMATS), default="rich", help=FORM)
def probe(rules: tuple[str, ...], mode: str, form: str) -> int:
    """Run the rules' own experiments and show which patterns this machine reproduces.

    RULES are codes, prefixes, families or names (default: all). Exit status: 1 if an experiment contradicts its rule.
    """
    require_torch("probe")
    from placement_lint.cli.progress import progress
    from placement_lint.probe.table import FORMATS, measure, rules_to_probe

    chosen = rules_to_probe(rules)
    with progress(len(chosen), "Probing") as advance:
        table = measure(chosen, mode, advance)
    click.echo(FORMATS[form](table))
    return int(table.surprises)


@commands.command()
@click.option("--stdio", is_flag=True, hidden=True, help="Accepted because many editors add it.")
def server(stdio: bool) -> int:
    """Start the language server on standard input and output."""
    require_pygls()
    from placement_lint.server.launch import launch

    worker = launch()
    from placement_lint.server.features import serve

    return serve(worker)


@commands.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--gpus", type=click.IntRange(min=0), help="How many GPUs to simulate.  [default: 2, or 1 of mps]")
@click.option(
    "--device",
    type=click.Choice(DEVICES),
    default=DEVICES[0],
    show_default=True,
    help="The kind of GPU to simulate. MPS has one.",
)
@click.option("--memory", metavar="SIZE", help="Memory of each GPU, such as 24GiB.  [default: 80GiB]")
@click.option("--ranks", type=click.IntRange(min=1), help="Start one process per rank, as torchrun does.")
@click.option("-m", "--module", is_flag=True, help="TARGET is a module's name, as for `python -m`.")
@click.option("--trace", is_flag=True, help="List the transfers between devices.")
@click.option("--timeline", type=click.Path(dir_okay=False), help="Draw where each tensor was, as an HTML page.")
@click.option("--trace-file", type=click.Path(dir_okay=False), help="Write the same as a trace that Perfetto opens.")
@click.argument("target")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(
    gpus: int | None,
    device: str,
    memory: str | None,
    ranks: int | None,
    module: bool,
    trace: bool,
    timeline: str | None,
    trace_file: str | None,
    target: str,
    arguments: tuple[str, ...],
) -> int:
    """Run a script on simulated GPUs; no GPU is needed."""
    require_torch("run")
    if not module and not os.path.exists(target):
        raise UsageError(f"{target}: there is no such script")
    from placement_lint.config.files import load_settings
    from placement_lint.simulate.runner import run_script

    if device == "mps" and gpus not in (None, 1):
        raise UsageError(f"--device mps: there is one MPS device, not {gpus}")
    count = 1 if device == "mps" else load_settings(Path.cwd()).gpus if gpus is None else gpus
    size = _size(memory)
    if ranks is not None:
        if timeline is not None or trace_file is not None:
            raise UsageError("--ranks cannot be combined with --timeline or --trace-file")
        machine = ["--device", device, "--gpus", str(count if device == "mps" else max(count, ranks))]
        return _run_ranks(ranks, machine, size, [*["--trace"] * trace, *["-m"] * module, target, *arguments])
    if timeline is None and trace_file is None:
        return run_script(target, list(arguments), count, module=module, trace=trace, memory=size, device=device)
    from placement_lint.cli.timelines import timeline_files, write_timeline_files
    from placement_lint.simulate.timeline import Timeline

    files, record = timeline_files(timeline, trace_file), Timeline(count, kind=device)
    status = run_script(
        target, list(arguments), count, module=module, trace=trace, journal=record, memory=size, device=device
    )
    write_timeline_files(files, record, target)
    return status


def _size(text: str | None) -> int | None:
    from placement_lint.simulate.memory import parse_size

    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        raise UsageError(f"--memory: {error}") from None


def _run_ranks(ranks: int, machine: list[str], memory: int | None, command: list[str]) -> int:
    from placement_lint.simulate.ranks import run_ranks

    return run_ranks(ranks, [*machine, *([] if memory is None else ["--memory", str(memory)]), *command])
