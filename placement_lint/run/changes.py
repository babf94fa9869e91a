"""Changes since a revision, as reported by git."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from placement_lint.errors import UsageError
from placement_lint.finding import Finding
from placement_lint.report.results import Run

HUNK = re.compile(r"@@ -\d+(?:,(?P<gone>\d+))? \+(?P<line>\d+)(?:,(?P<count>\d+))? @@")
NEW_NAME = "+++ "
EVERY_LINE = range(1, 2**31)
# Fixed options: the user's own git configuration must not change the format of the diff.
DIFF = (
    *("-c", "core.quotePath=true", "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--no-renames", "--src-prefix=a/", "--dst-prefix=b/"),
)


class Changes:
    """The lines that are new in each file since a revision; an untracked file is all new."""

    def __init__(self, revision: str) -> None:
        root = _git("rev-parse", "--show-toplevel").rstrip("\n")
        commit = _git("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}").strip()
        # Changes of the other branch are not changes of this one.
        base = _git("merge-base", commit, "HEAD", unless=commit).strip()
        diff = _git("-C", root, *DIFF, base, "--")
        unknown = _git("-C", root, "ls-files", "--others", "--exclude-standard", "-z").split("\0")
        lines = _new_lines(diff) | {name: [EVERY_LINE] for name in unknown if name}
        self._lines = {os.path.realpath(os.path.join(root, name)): new for name, new in lines.items()}

    def touch_file(self, path: Path) -> bool:
        return os.path.realpath(path) in self._lines

    def touch(self, finding: Finding) -> bool:
        """Whether a line of the finding is new. The lines of a cell are unknown to git: there the file counts."""
        ranges = self._lines.get(os.path.realpath(finding.path), [])
        if finding.cell:
            return bool(ranges)
        first, last = finding.range.line, finding.range.end_line
        return any(lines.start <= last and first < lines.stop for lines in ranges)

    def only(self, run: Run) -> Run:
        return replace(run, findings=tuple(filter(self.touch, run.findings)))


def _new_lines(diff: str) -> dict[str, list[range]]:
    found: dict[str, list[range]] = {}
    lines: list[range] = []
    removed = added = 0  # remaining lines of the current hunk, which cannot be headers
    for text in diff.split("\n"):
        if removed and text.startswith("-"):
            removed -= 1
        elif added and text.startswith("+"):
            added -= 1
        elif text.startswith(NEW_NAME):
            lines = found.setdefault(_name(text.removeprefix(NEW_NAME)), [])
        elif hunk := HUNK.match(text):
            start = int(hunk["line"])
            added = int(hunk["count"] or 1)
            removed = int(hunk["gone"] or 1)
            lines.append(range(start, start + added))
    return found


def _name(header: str) -> str:
    """A file's name as a diff writes it: with a tab after spaces, and quoted with escapes if it is unusual."""
    name = header.removesuffix("\t")
    if name.startswith('"'):
        name = os.fsdecode(ast.literal_eval(f"b{name}"))
    return name.removeprefix("b/")


def _git(*arguments: str, unless: str | None = None) -> str:
    """The output of git; if git fails, ``unless`` if that is given."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError as error:
        raise UsageError(f"--diff-base needs git: {error.strerror or error}") from None
    if done.returncode == 0:
        return os.fsdecode(done.stdout)
    if unless is not None:
        return unless
    said = done.stderr.decode(errors="replace").strip().splitlines()
    raise UsageError(f"--diff-base: {said[-1] if said else 'git refuses without a word'}")
