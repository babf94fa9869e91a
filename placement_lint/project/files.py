"""The files of a run: arguments, ``.gitignore``, excludes, links, and folders that cannot be listed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pathspec import GitIgnoreSpec

from placement_lint.errors import UsageError

EXCLUDED_FOLDERS = frozenset(
    {
        *(".bzr", ".direnv", ".eggs", ".git", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox"),
        *(".pytest_cache", ".pytype", ".ruff_cache", ".svn", ".tox", ".venv", ".vscode", "__pycache__"),
        *("__pypackages__", "_build", "build", "dist", "node_modules", "site-packages", "venv"),
    }
)
SOURCES = (".py", ".ipynb")


@dataclass
class Selection:
    """The files of a run in the order they will be reported, and the folders that could not be listed."""

    files: list[Path] = field(default_factory=list)
    unlistable: list[tuple[Path, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Patterns:
    """Ignore patterns in ``.gitignore`` syntax and the folder they are relative to."""

    base: Path
    spec: GitIgnoreSpec

    def verdict(self, path: Path, is_folder: bool) -> bool | None:
        """True to exclude the path, False to keep it, None if no pattern matches it."""
        if not path.is_relative_to(self.base) or path == self.base:
            return None
        relative = path.relative_to(self.base).as_posix()
        return self.spec.check_file(relative + "/" if is_folder else relative).include


def patterns(base: Path, lines: Iterable[str]) -> Patterns:
    try:
        return Patterns(base, GitIgnoreSpec.from_lines(lines))
    except ValueError as error:
        raise UsageError(f"bad pattern: {error}") from None


@dataclass(frozen=True)
class Excludes:
    """The exclusions below a folder: the patterns that apply there, and those of ``.gitignore`` if requested.

    Arguments are included whatever the patterns say, unless ``forced``.
    """

    patterns_at: Callable[[Path], Sequence[Patterns]]
    gitignore: bool = True
    forced: bool = False

    def refuse(self, argument: Path) -> bool:
        if not self.forced:
            return False
        path = Path(os.path.abspath(argument))
        found = self.patterns_at(path.parent)
        return _is_ignored(path, path.is_dir(), found) or any(_in_excluded_folder(path, each.base) for each in found)


def find_files(arguments: Sequence[str], excludes: Excludes) -> Selection:
    """Every named file, and every script and notebook below a named folder; each once."""
    selection = Selection()
    seen: set[str] = set()
    for argument in arguments:
        path = Path(argument)
        if not os.path.lexists(path):
            raise UsageError(f"{argument}: no such file or directory")
        if excludes.refuse(path):
            continue
        found = walk(path, excludes, selection) if path.is_dir() else [(path, os.path.realpath(path))]
        for file, identity in found:
            if identity not in seen:
                seen.add(identity)
                selection.files.append(file)
    return selection


def walk(root: Path, excludes: Excludes, selection: Selection) -> Iterator[tuple[Path, str]]:
    """Scripts and notebooks below a folder, sorted, and the real path of each.

    Links to folders are not followed, so no loop can arise.
    """
    absolute = Path(os.path.abspath(root))
    inherited = _gitignores_above(absolute) if excludes.gitignore else []
    # A folder that is an argument is included, even if the patterns around it would exclude it.
    if _is_ignored(absolute, True, inherited):
        inherited = []
    pending = [(root, absolute, inherited)]
    while pending:
        folder, absolute, rules = pending.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError as error:
            selection.unlistable.append((folder, error.strerror or str(error)))
            continue
        if excludes.gitignore:
            rules = [*rules, *_gitignore_of(absolute)]
        deciding = [each for each in (*rules, *excludes.patterns_at(absolute)) if len(each.spec)]
        real = os.path.realpath(folder)
        subfolders = []
        for entry in entries:
            path = absolute / entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in EXCLUDED_FOLDERS and not _is_ignored(path, True, deciding):
                    subfolders.append((folder / entry.name, path, rules))
            elif entry.name.endswith(SOURCES) and _is_source(entry) and not _is_ignored(path, False, deciding):
                identity = os.path.join(real, entry.name)
                yield folder / entry.name, os.path.realpath(identity) if entry.is_symlink() else identity
        pending.extend(reversed(subfolders))


def _in_excluded_folder(path: Path, base: Path) -> bool:
    return path.is_relative_to(base) and not EXCLUDED_FOLDERS.isdisjoint(path.relative_to(base).parts)


def _is_source(entry: os.DirEntry[str]) -> bool:
    """A regular file, or a broken link, which is reported instead of skipped."""
    try:
        return stat.S_ISREG(entry.stat().st_mode)
    except OSError:
        return True


def _is_ignored(path: Path, is_folder: bool, rules: Sequence[Patterns]) -> bool:
    """The innermost patterns that match the path decide."""
    verdicts = (patterns.verdict(path, is_folder) for patterns in reversed(rules))
    return next((verdict for verdict in verdicts if verdict is not None), False)


def _gitignores_above(folder: Path) -> list[Patterns]:
    """The ``.gitignore`` files between the repository's root and the folder, outermost first."""
    chain = (folder, *folder.parents)
    root = next((index for index, parent in enumerate(chain) if (parent / ".git").exists()), 0)
    return [found for parent in reversed(chain[1 : root + 1]) for found in _gitignore_of(parent)]


def _gitignore_of(folder: Path) -> list[Patterns]:
    try:
        lines = (folder / ".gitignore").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [patterns(folder, lines)]


def size_of(path: str) -> int:
    """The size of a file in bytes; 0 if the file no longer exists."""
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def displayed(path: Path, folder: str = os.curdir) -> str:
    """A path relative to the working directory, with POSIX separators."""
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # another drive
        return path.as_posix()
