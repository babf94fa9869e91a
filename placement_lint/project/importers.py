"""Imports of a project's files by files outside the run."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path

from placement_lint.project.files import Excludes, Selection, patterns, walk
from placement_lint.project.finder import INIT, Surroundings, read_from_disk
from placement_lint.report.results import Job
from placement_lint.source.notebook import NOTEBOOK, OtherLanguage, read_notebook
from placement_lint.source.text import Unreadable, decode

# In a larger folder, any file counts as imported: it may be a home folder, and searching it takes minutes.
MOST_FILES = 20_000


class Everything(Container[str]):
    """Contains every path."""

    def __contains__(self, path: object) -> bool:
        return True


class Importers:
    """The files of a job's project that import others, for a run over ``paths``."""

    def __init__(self, job: Job, paths: Collection[str]) -> None:
        self._job = job
        self._checked = frozenset(map(job.absolute, paths))
        self._around = Surroundings("", (str(job.settings.root), *job.roots))
        self._imports: dict[str, frozenset[str]] = {}

    def are_outside(self, path: str) -> bool:
        """Whether a file outside the run imports the file at ``path``, directly or through others."""
        if len(self._texts) > MOST_FILES:
            return True
        waiting = [self._job.absolute(path)]
        seen = set(waiting)
        while waiting:
            for importer in self._importing(waiting.pop()):
                if importer not in self._checked:
                    return True
                if importer not in seen:
                    seen.add(importer)
                    waiting.append(importer)
        return False

    def _importing(self, path: str) -> Iterator[str]:
        """The files that import a file directly. Only those that mention its name are parsed."""
        file = Path(path)
        # `from . import x` imports a package without its name.
        name = "" if file.name == INIT else file.stem
        for importer, text in self._texts.items():
            if name in text and path in self._imported_by(importer, text):
                yield importer

    def _imported_by(self, importer: str, text: str) -> frozenset[str]:
        if importer not in self._imports:
            self._imports[importer] = frozenset(unit.path for unit in self._around.imported_by(importer, text))
        return self._imports[importer]

    @cached_property
    def _texts(self) -> dict[str, str]:
        """The programs of the project, by their paths."""
        settings = self._job.settings
        excluded = [patterns(settings.root, settings.excluded), patterns(Path(self._job.folder), self._job.exclude)]
        excludes = Excludes(lambda _: excluded, settings.respect_gitignore)
        files = islice(walk(settings.root, excludes, Selection()), MOST_FILES + 1)
        return {str(file): _program(str(file)) for file, _ in files}


def _program(path: str) -> str:
    """The text of a script, or of the code cells of a notebook; empty if it cannot be read."""
    data = read_from_disk(path)
    try:
        if data is None:
            return ""
        return read_notebook(data).program if path.endswith(NOTEBOOK) else decode(data)
    except (OtherLanguage, Unreadable):
        return ""
