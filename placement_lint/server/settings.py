"""The settings of a file in an editor: those of its project, overridden by those of the editor itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from placement_lint.config.files import OWN_FILE, SHARED_FILE, Configuration, Layer, Projects
from placement_lint.config.settings import KEYS, Settings, switch
from placement_lint.errors import UsageError
from placement_lint.probe.devices import AUTO, MODES
from placement_lint.project.files import Excludes, Patterns, find_files, patterns
from placement_lint.report.results import Job
from placement_lint.spelling import did_you_mean

SECTION = "placement-lint"
CONFIGURATION_FILES = (OWN_FILE, SHARED_FILE)
EDITOR = Path("the editor's settings")


def probe_mode(value: object) -> str:
    if value not in MODES:
        raise ValueError(f"one of {', '.join(MODES)}")
    return str(value)


OWN_READERS = {"inlay-hints": switch, "probe": probe_mode}
"""The settings that only an editor can have."""

CLIENT_KEYS = frozenset({"interpreter", "path", "trace"})
"""Keys that clients keep in the same section and send as well; they concern starting and logging the server."""


@dataclass(frozen=True)
class EditorSettings:
    """Section ``placement-lint``: the keys of a configuration file, and two of its own."""

    inlay_hints: bool = True
    probe: str = AUTO
    project: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, section: object) -> EditorSettings:
        """The settings sent by an editor; ``UsageError`` names an invalid key."""
        if section is None:
            return cls()
        if not isinstance(section, dict):
            raise UsageError(f"{EDITOR}: `{SECTION}` must be a table of settings")
        readers = {**{name: key.read for name, key in KEYS.items()}, **OWN_READERS}
        values = {}
        for key, value in section.items():
            if key in CLIENT_KEYS:
                continue
            if key not in readers:
                raise UsageError(f"{EDITOR}: unknown key `{key}`{did_you_mean(key, tuple(readers))}")
            if value is None:  # not set
                continue
            try:
                values[key] = readers[key](value)
            except ValueError as error:
                raise UsageError(f"{EDITOR}: `{key}` must be {error}") from None
        project = {key: value for key, value in values.items() if key in KEYS}
        Configuration(Path.cwd(), (Layer(EDITOR, project),)).check_rules()
        return cls(values.get("inlay-hints", True), values.get("probe", AUTO), project)


class Configurations:
    """The settings of every file, for the open folders; replaced when any setting changes.

    A broken configuration raises ``UsageError`` when a file's settings are requested.
    """

    def __init__(self, folders: Mapping[str, EditorSettings]) -> None:
        self._projects = Projects()
        self._folders = {Path(path): settings for path, settings in folders.items()}
        self._patterns: dict[Path, list[Patterns]] = {}

    def editor(self, path: str) -> EditorSettings:
        """The editor's settings for the innermost of its folders around a file."""
        folder = self._folder_of(Path(path))
        return self._folders[folder] if folder is not None else EditorSettings()

    def settings(self, path: str) -> Settings:
        return self._settings_in(Path(path).parent)

    def job(self, path: str) -> Job:
        settings = self.settings(path)
        folder = self._folder_of(Path(path))
        roots = (str(folder),) if folder is not None else ()
        return Job(settings, settings.select, settings.ignored, settings.extend_select, roots=roots)

    def excludes(self, path: str) -> bool:
        """Whether the project excludes a file."""
        return Excludes(self._patterns_at, forced=True).refuse(Path(path))

    def files(self, folder: str) -> list[str]:
        """All files to check in a folder."""
        settings = self._settings_in(Path(folder))
        excludes = Excludes(self._patterns_at, settings.respect_gitignore, forced=False)
        return [os.path.abspath(file) for file in find_files([folder], excludes).files]

    def _settings_in(self, folder: Path) -> Settings:
        found = self._projects.of(folder)
        root = self._folder_of(folder)
        if root is None:
            return found.settings
        over = Layer(EDITOR, self._folders[root].project)
        return replace(found, root=found.root if found.layers else root, layers=(*found.layers, over)).settings

    def _folder_of(self, path: Path) -> Path | None:
        around = (folder for folder in self._folders if path.is_relative_to(folder))
        return max(around, key=lambda folder: len(folder.parts), default=None)

    def _patterns_at(self, folder: Path) -> list[Patterns]:
        settings = self._settings_in(folder)
        if settings.root not in self._patterns:
            self._patterns[settings.root] = [patterns(settings.root, settings.excluded)]
        return self._patterns[settings.root]
