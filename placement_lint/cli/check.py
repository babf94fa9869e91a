"""The whole of ``check``: from what was asked to reports and an exit status."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

import click

from placement_lint.cli.outputs import Output, destinations, write_report
from placement_lint.config.files import OWN_FILE, SHARED_FILE, Projects
from placement_lint.config.settings import Settings
from placement_lint.errors import UsageError, require_torch
from placement_lint.finding import Finding, Outcome, Severity
from placement_lint.report.results import Run, merged, only
from placement_lint.report.style import Style

if TYPE_CHECKING:
    from placement_lint.project.files import Excludes, Patterns, Selection
    from placement_lint.report.results import Job
    from placement_lint.run.baseline import Entry
    from placement_lint.run.cache import Cache
    from placement_lint.run.changes import Changes

CLEAN, FINDINGS, FAILURE = 0, 1, 2
STDIN = "-"
CONFINED, UNCONFINED = "confined", "unconfined"  # how the user lets a program be executed
MOST_NAMED = 5  # entries of a baseline
CLEAR_SCREEN = "\033[H\033[2J"


@dataclass(frozen=True)
class Request:
    """The command line of ``check``."""

    paths: tuple[str, ...] = ()
    select: tuple[str, ...] = ()
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    force_exclude: bool = False
    whole_project: bool = False
    severity: str = "info"
    fail_on: str | None = None
    formats: tuple[Output, ...] = ()
    output: str | None = None
    stdin_filename: str = "<stdin>"
    jobs: int | None = None
    statistics: bool = False
    baseline: str | None = None
    write_baseline: str | None = None
    diff_base: str | None = None
    watch: bool = False
    probe: str = "off"
    trust: str | None = None
    save_probe: str | None = None
    strict_probes: bool = False
    config: str | None = None
    isolated: bool = False
    exit_zero: bool = False
    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    show_files: bool = False
    fix: bool = False
    add_noqa: bool = False
    exit_non_zero_on_fix: bool = False
    unsafe_fixes: bool = False
    diff: bool = False
    show_fixes: bool = False
    no_cache: bool = False
    executor: str = "processes"
    shard: tuple[int, int] = (1, 1)
    parts: tuple[str, ...] = ()
    why_not: str | None = None
    timeline: str | None = None

    @property
    def narrows(self) -> bool:
        """Whether it asks for less than the project as such."""
        return bool(self.select or self.ignore or Severity(self.severity) > Severity.INFO)


NEEDED: Sequence[tuple[str, str]] = (
    ("show_fixes", "fix"),
    ("exit_non_zero_on_fix", "fix"),
    ("strict_probes", "probe"),
)
"""An option, and the one without which it has no effect."""

_REPORTING = ("fix", "formats", "output", "statistics", "write_baseline", "probe")
OVERRULED: Sequence[tuple[str, str]] = (
    ("config", "isolated"),
    ("baseline", "write_baseline"),
    ("jobs", "executor"),
    *((option, "exit_zero") for option in ("fail_on", "exit_non_zero_on_fix", "strict_probes")),
    ("add_noqa", "write_baseline"),
    *((option, "diff") for option in ("baseline", "add_noqa", *_REPORTING)),
    *((option, "show_files") for option in ("diff", "add_noqa", *_REPORTING)),
)
"""An option, and the one with which it has no effect."""


def check(request: Request) -> int:
    if not request.quiet:
        for warning in _without_effect(request):
            warn(warning)
    if request.diff_base is not None and (request.fix or request.diff):
        raise UsageError("--fix changes whole files and cannot be combined with --diff-base")
    if request.whole_project and (STDIN in request.paths or request.shard[1] > 1):
        raise UsageError("--whole-project checks the files of a folder, all at once: not with `-` or --shard")
    if request.add_noqa and STDIN in request.paths:
        raise UsageError("--add-noqa writes into the files that are checked: not with `-`")
    if request.why_not:
        return _explain_absence(request)
    if request.trust and request.probe == "off":
        raise UsageError("--trust lets --probe execute your program: say on what, as in `--probe auto --trust`")
    if request.trust == CONFINED:
        require_torch("--probe")
        from placement_lint.probe.sandbox import require_confinement

        require_confinement()
    if not request.watch:
        return Check(request).status()
    if STDIN in request.paths:
        raise UsageError("--watch waits for files to change, and standard input is none")
    from placement_lint.run.watch import repeat_on_change

    repeat_on_change(lambda: _check_again(request), lambda: _watched(request))
    return CLEAN


def warn(warning: str) -> None:
    click.echo(f"placement-lint: warning: {warning}", err=True)


def _without_effect(request: Request) -> Iterator[str]:
    """What to say of options that are given in vain."""
    given = {field.name for field in fields(request) if getattr(request, field.name) != field.default}
    for option, other in NEEDED:
        if option in given and other not in given:
            yield f"{_spelled(option)} has no effect without {_spelled(other)}"
    for option, other in OVERRULED:
        if option in given and other in given:
            yield f"{_spelled(option)} has no effect with {_spelled(other)}"
    if "stdin_filename" in given and STDIN not in request.paths:
        yield f"--stdin-filename has no effect without `{STDIN}` as a path"


def _spelled(option: str) -> str:
    return "--format" if option == "formats" else f"--{option.replace('_', '-')}"


def _explain_absence(request: Request) -> int:
    """Say why a rule reports nothing at a line."""
    from placement_lint.checking.debug import split_place, why_not

    if len(request.paths) != 1:
        raise UsageError("--why-not RULE takes one place: `check --why-not DPL503 train.py:21`")
    path, _ = split_place(request.paths[0])
    click.echo(why_not(str(request.why_not), request.paths[0], job_at(path, request)))
    return CLEAN


def job_at(path: str, request: Request | None = None) -> Job:
    """What a run is to look for in one file."""
    return Check(replace(request or Request(), paths=())).job_of(path)


class Check:
    """One run, with the settings as they are now."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.begun = time.perf_counter()
        self.projects = Projects(request.config, request.isolated, trusting=True)
        self.settings = self.projects.settings(Path.cwd())
        default = Output(self.settings.output_format)
        self.outputs = destinations(request.formats or (default,), request.output, request.statistics)

    def status(self) -> int:
        if self.request.show_files:
            return self._show_files()
        run = self._run()
        if self.request.diff:
            return self._ended(run, self._show_diff(run))
        if self.request.fix:
            run = self._fixed(run)
        run = self._without_known(run)
        if self._changes:
            run = self._changes.only(run)
        if self.request.add_noqa:
            run = self._suppressed(run)
        if self.request.timeline:
            self._draw(self.request.timeline)
        run = self._in_style(self._probed(run))
        for output in self.outputs:
            write_report(run, output, self.request.statistics)
        fixed = self.request.exit_non_zero_on_fix and bool(run.fixed)
        return self._ended(run, fixed or any(map(self._fails, run.findings)))

    def _in_style(self, run: Run) -> Run:
        """The run as reports show it, with the time that all of it took."""
        request = self.request
        style = Style(request.color, brief=request.quiet, unsafe=request.unsafe_fixes)
        if request.parts:
            return replace(run, style=style)
        return replace(run, style=style, summary=replace(run.summary, seconds=time.perf_counter() - self.begun))

    def _show_files(self) -> int:
        for path in sorted(os.path.abspath(file) for file in self._to_check(self._selected()).files):
            click.echo(path)
        return CLEAN

    def _say(self, text: str) -> None:
        """Print a line of ``--verbose``."""
        if self.request.verbose:
            click.echo(f"placement-lint: {text}", err=True)

    def candidates(self) -> Selection:
        """The files that the paths and the settings choose."""
        from placement_lint.project.files import find_files

        return find_files(self.request.paths or (".",), self._excludes)

    @property
    def _excludes(self) -> Excludes:
        from placement_lint.project.files import Excludes

        forced = self.request.force_exclude or self.settings.force_exclude
        return Excludes(self._patterns_at, self.settings.respect_gitignore, forced)

    def _run(self) -> Run:
        if self.request.parts:
            from placement_lint.report.part import whole

            return whole(self.request.parts)
        if STDIN in self.request.paths:
            return self._check_stdin()
        selection = self._selected()
        if not selection.files and not selection.unlistable and not self.request.quiet:
            paths = ", ".join(self.request.paths or (".",))
            click.echo(f"placement-lint: no Python files found under {paths}", err=True)
        return replace(self._check_files(selection), shard=self.request.shard)

    def _check_files(self, selection: Selection) -> Run:
        """What is found in the selected files, with all files of their projects checked if that is wanted."""
        from placement_lint.project.files import displayed

        run = self._check_all(self._to_check(selection))
        if not self.request.whole_project:
            return run
        return only(run, [displayed(path) for path in (*selection.files, *(path for path, _ in selection.unlistable))])

    def _to_check(self, selection: Selection) -> Selection:
        """The selection, with all other files of its projects if they are wanted."""
        if not self.request.whole_project:
            return selection
        from placement_lint.project.files import find_files

        roots = dict.fromkeys(self._settings_of(file).root for file in selection.files)
        return find_files([*map(str, selection.files), *map(str, roots)], self._excludes)

    def _selected(self) -> Selection:
        """The candidates that have changed, if only those count, and belong to this shard."""
        selection = self.candidates()
        if self._changes:
            selection.files = list(filter(self._changes.touch_file, selection.files))
        return _shard(selection, *self.request.shard)

    def _fixed(self, run: Run) -> Run:
        """The run after fixes, over again where files have changed; a fixed text takes standard output for itself."""
        from placement_lint.fix.fixing import fix_files

        if run.texts:
            self.outputs = [output for output in self.outputs if output.file]
        request = self.request
        after = fix_files(run, self.job_of, request.unsafe_fixes, request.show_fixes, request.quiet)
        return replace(self._run(), fixed=after.fixed) if after.fixed and not run.texts else after

    def _draw(self, file: str) -> None:
        from placement_lint.project.files import displayed
        from placement_lint.report.static_timeline import write_timeline

        paths = [displayed(path) for path in self._selected().files]
        write_timeline(paths, file, self._job(self.settings) if len(paths) != 1 else self.job_of(paths[0]))
        if not self.request.quiet:
            click.echo(f"wrote {os.path.abspath(file)}", err=True)

    def _suppressed(self, run: Run) -> Run:
        from placement_lint.fix.add_noqa import add_comments

        return add_comments(run, self.job_of, self.request.quiet)

    def _show_diff(self, run: Run) -> bool:
        from placement_lint.fix.fixing import show_diff

        return show_diff(run, self.job_of, self.request.unsafe_fixes)

    def _ended(self, run: Run, failing: bool) -> int:
        for crash in run.crashes:
            click.echo(str(crash), err=True)
        if run.crashes:
            return FAILURE
        return FINDINGS if failing and not self.request.exit_zero else CLEAN

    def _check_stdin(self) -> Run:
        from placement_lint.run.engine import check_text

        if len(self.request.paths) > 1:
            raise UsageError("`-` reads standard input and cannot be combined with paths")
        name = self.request.stdin_filename
        job = self.job_of(name)
        self.projects.check_rules()
        return check_text(sys.stdin.buffer.read(), name, job)

    def _check_all(self, selection: Selection) -> Run:
        from placement_lint.cli.progress import progress
        from placement_lint.run.engine import check_files

        parts = [(part, self._job(settings)) for settings, part in self._by_project(selection)]
        caches = [self._cache(job) for _, job in parts]
        if not all(cache and cache.has_run for cache in caches):
            self.projects.check_rules()
        request = self.request
        with progress(len(selection.files), wanted=not request.quiet) as advance:
            runs = [
                check_files(part, job, request.jobs, advance, cache, request.executor)
                for (part, job), cache in zip(parts, caches, strict=True)
            ]
        for run, (_, job), cache in zip(runs, parts, caches, strict=True):
            self._say_how(run, job, cache)
        return merged(runs)

    def _say_how(self, run: Run, job: Job, cache: Cache | None) -> None:
        """How the files of a project were checked."""
        if not self.request.verbose:
            return
        from placement_lint.registry import select
        from placement_lint.run.cache import folder

        sources = ", ".join(str(layer.path) for layer in self.projects.of(job.settings.root).layers)
        rules = select(job.select, job.ignore, job.extend_select)
        self._say(f"settings of {job.settings.root}: {sources or 'defaults'}; {len(rules)} rules are selected")
        cached = f"{run.summary.cached} of them from the cache in {folder()}" if cache else "the cache is disabled"
        self._say(f"{len(run.paths)} {'file is' if len(run.paths) == 1 else 'files are'} selected, {cached}")
        for checked in (checked for results in run.results.values() for checked in results):
            count = len(checked.findings)
            state = "skipped" if checked.skipped else f"{count} {'finding' if count == 1 else 'findings'}"
            self._say(f"{checked.path}: {state}")

    def _cache(self, job: Job) -> Cache | None:
        """What earlier runs found; none for a run that is told to forget."""
        if self.request.no_cache:
            return None
        from placement_lint.run.cache import Cache

        return Cache(job, self._warn_once)

    @cached_property
    def _warnings(self) -> set[str]:
        return set()

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.add(warning)
            warn(warning)

    def _by_project(self, selection: Selection) -> Sequence[tuple[Settings, Selection]]:
        """The files that share their settings together; without any file, those of the working directory."""
        from placement_lint.project.files import Selection

        parts = {self.settings.root: (self.settings, Selection())}
        for file in selection.files:
            settings = self._settings_of(file)
            parts.setdefault(settings.root, (settings, Selection()))[1].files.append(file)
        parts[self.settings.root][1].unlistable.extend(selection.unlistable)
        return list(parts.values())

    def _job(self, settings: Settings) -> Job:
        """A choice on the command line replaces the project's; what it ignores is ignored as well."""
        from placement_lint.report.results import Job

        request = self.request
        chosen = request.select
        return Job(
            settings=settings,
            select=chosen or settings.select,
            ignore=(*request.ignore, *(() if chosen else settings.ignored)),
            extend_select=(*request.extend_select, *(() if chosen else settings.extend_select)),
            severity=Severity(request.severity),
            roots=tuple(os.path.abspath(path) for path in request.paths or (".",) if os.path.isdir(path)),
            exclude=request.exclude,
        )

    def job_of(self, path: str) -> Job:
        return self._job(self._settings_of(path))

    def _settings_of(self, path: str | Path) -> Settings:
        return self.projects.settings(Path(os.path.abspath(path)).parent)

    def _probed(self, run: Run) -> Run:
        request = self.request
        mode = None if request.probe == "off" else request.probe
        if not run.findings or not (mode or request.save_probe):
            return run
        if mode:
            require_torch("--probe")
        from placement_lint.cli.progress import progress
        from placement_lint.probe.findings import Wanted, probed

        with progress(len(run.findings), "Probing", wanted=not request.quiet) as advance:
            wanted = Wanted(mode, bool(request.trust), request.trust != UNCONFINED, request.save_probe)
            return probed(run, wanted, self.job_of, advance)

    def _fails(self, finding: Finding) -> bool:
        """Whether it fails the run: it is severe enough, and no probe refuted it at either level."""
        refuted = finding.verdict is not None and finding.verdict.outcome is Outcome.REFUTED
        if refuted and not self.request.strict_probes:
            return False
        return finding.severity >= self._fails_on(finding.path)

    def _fails_on(self, path: str) -> Severity:
        asked = self.request.fail_on
        return Severity(asked) if asked else self._settings_of(path).fail_on

    def _patterns_at(self, folder: Path) -> list[Patterns]:
        from placement_lint.project.files import patterns

        settings = self.projects.settings(folder)
        if settings.root not in self._patterns:
            of_project = patterns(settings.root, settings.excluded)
            self._patterns[settings.root] = [of_project, patterns(Path.cwd(), self.request.exclude)]
        return self._patterns[settings.root]

    @cached_property
    def _patterns(self) -> dict[Path, list[Patterns]]:
        return {}

    @cached_property
    def _changes(self) -> Changes | None:
        if self.request.diff_base is None:
            return None
        from placement_lint.run.changes import Changes

        return Changes(self.request.diff_base)

    def _without_known(self, run: Run) -> Run:
        if name := self.request.write_baseline:
            from placement_lint.run.baseline import write_baseline

            entries = write_baseline(name, run.findings)
            if not self.request.quiet:
                click.echo(_written(name, len(run.findings), entries), err=True)
            return replace(run, findings=(), known=run.findings)
        name = self.request.baseline or self._own_baseline()
        if not name:
            return run
        from placement_lint.run.baseline import read_baseline

        run, gone = read_baseline(name).split(run)
        if gone and not self.request.narrows:
            click.echo(_gone(name, gone), err=True)
        return run

    def _own_baseline(self) -> str | None:
        named = self.settings.baseline
        return os.path.relpath(self.settings.root / named) if named else None


def _shard(selection: Selection, number: int, count: int) -> Selection:
    """The files of a shard: each file's path decides alone, so that others may come and go."""
    from placement_lint.project.files import Selection, displayed

    if count == 1:
        return selection
    files = [file for file in selection.files if crc32(displayed(file).encode()) % count == number - 1]
    return Selection(files, selection.unlistable if number == 1 else [])


def _written(baseline: str, findings: int, entries: int) -> str:
    listed = f"{findings} {'finding' if findings == 1 else 'findings'}"
    as_entries = f" as {entries} {'entry' if entries == 1 else 'entries'}" if entries != findings else ""
    return f"placement-lint: wrote {listed}{as_entries} to {baseline}"


def _gone(baseline: str, entries: Sequence[Entry]) -> str:
    lines = [f"  {entry.rule} in {entry.path}: {entry.line}" for entry in entries[:MOST_NAMED]]
    if len(entries) > MOST_NAMED:
        lines.append(f"  and {len(entries) - MOST_NAMED} more")
    said = "1 entry no longer occurs" if len(entries) == 1 else f"{len(entries)} entries no longer occur"
    return "\n".join([f"placement-lint: warning: {baseline}: {said}; update it with --write-baseline", *lines])


def _check_again(request: Request) -> None:
    if sys.stdout.isatty():
        click.echo(CLEAR_SCREEN, nl=False)
    try:
        Check(request).status()
    except UsageError as error:
        click.echo(f"placement-lint: error: {error}", err=True)
    sys.stdout.flush()
    click.echo("Watching for changes; Ctrl-C ends.", err=True)


def _watched(request: Request) -> list[Path]:
    """The files to check and the ones that say how; the latter alone while they are broken."""
    here = Path.cwd()
    configurations = [folder / name for folder in (here, *here.parents) for name in (OWN_FILE, SHARED_FILE)]
    if request.config:
        configurations.append(Path(request.config))
    try:
        return [*Check(request).candidates().files, *configurations]
    except UsageError:
        return configurations
