"""The results of one shard of a run, complete enough for ``placement-lint merge`` to report the whole run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from placement_lint import __version__
from placement_lint.errors import UsageError
from placement_lint.report.results import Checked, Run
from placement_lint.run.plain import plain, typed


def render(run: Run, stream: TextIO) -> None:
    results = {
        project: [plain(replace(result, reads=(), absent=())) for result in results]
        for project, results in run.results.items()
    }
    content = {
        "part": plain(run.shard),
        "tool": __version__,
        "seconds": run.summary.seconds,
        "cached": run.summary.cached,
        "results": results,
    }
    json.dump(content, stream, ensure_ascii=False)
    stream.write("\n")


def whole(files: Sequence[str]) -> Run:
    """The run that these files form together, as its parts."""
    from placement_lint.report.results import merged

    parts = [_read(file) for file in files]
    _require_all({tuple(part["part"]) for part in parts})
    projects: dict[str, list[Checked]] = {}
    for part in parts:
        for project, results in part["results"].items():
            projects.setdefault(project, []).extend(results)
    run = merged(_of_project(project, sorted(results, key=_path)) for project, results in projects.items())
    seconds, cached = (sum(part[name] for part in parts) for name in ("seconds", "cached"))
    return replace(run, summary=replace(run.summary, seconds=seconds, cached=cached))


def _of_project(project: str, results: Sequence[Checked]) -> Run:
    from placement_lint.config.files import load_settings
    from placement_lint.report.results import Job
    from placement_lint.run.engine import ImportedElsewhere, summarise

    job = Job(load_settings(Path(os.path.abspath(project))))
    return summarise(results, project, ImportedElsewhere(job, [result.path for result in results]))


def _path(result: Checked) -> str:
    return result.path


def _read(file: str) -> dict[str, Any]:
    try:
        content = json.loads(Path(file).read_text(encoding="utf-8"))
        if content["tool"] != __version__:
            raise UsageError(f"{file} is of placement-lint {content['tool']}; this is {__version__}")
        found = {
            project: [typed(Checked, result) for result in results] for project, results in content["results"].items()
        }
        number, count = content["part"]
        return {
            "part": (int(number), int(count)),
            "seconds": float(content["seconds"]),
            "cached": int(content["cached"]),
            "results": found,
        }
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UsageError(f"{file} was not written by `check --shard … --format part`") from None


def _require_all(parts: set[tuple[int, int]]) -> None:
    counts = {count for _, count in parts}
    if len(counts) != 1:
        raise UsageError("these are parts of different runs: they do not agree on how many shards there are")
    (count,) = counts
    if missing := sorted(set(range(1, count + 1)) - {number for number, _ in parts}):
        raise UsageError(f"of {count} shards these are missing: {', '.join(map(str, missing))}")
