"""Sources of settings: the configuration nearest to a file, and the ones that it extends."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from placement_lint.config.settings import KEYS, Settings, field_of
from placement_lint.errors import UsageError
from placement_lint.spelling import did_you_mean

OWN_FILE, SHARED_FILE = "placement-lint.toml", "pyproject.toml"
SECTION = "placement-lint"
EXTEND = "extend"
NAMES = (EXTEND, *KEYS)
RULE_KEYS = ("select", "extend-select", "ignore", "extend-ignore")
RULE_TABLE_KEYS = ("per-file-ignores", "extend-per-file-ignores")


@dataclass(frozen=True)
class Layer:
    """The settings in one file."""

    path: Path
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """The layers that apply to a folder; an extended file comes before the file that extends it.

    Settings in an extended file count as if they were in the file that extends it, so all patterns are relative to
    ``root``. An `extend-…` key adds to the same key of the layers below, any other one replaces it.
    """

    root: Path
    layers: tuple[Layer, ...] = ()

    @cached_property
    def settings(self) -> Settings:
        values: dict[str, Any] = {}
        for layer in self.layers:
            for key, value in layer.values.items():
                name = field_of(key)
                values[name] = _added(values.get(name), value) if key.startswith(EXTEND) else value
        return Settings(root=self.root, **values)

    def sources(self, key: str) -> list[Path]:
        """The files that determine a key's value; none if it is the default."""
        setting = [layer.path for layer in self.layers if key in layer.values]
        return setting if key.startswith(EXTEND) else setting[-1:]

    def check_rules(self) -> None:
        """Raise UsageError for rules that do not exist."""
        for layer in self.layers:
            for key, selector in _selectors(layer):
                _check_selector(layer, key, selector)


class Projects:
    """The configuration of each file of a run: the nearest, unless the command line names one or disables them.

    Rules that do not exist are rejected at once, or if ``trusting`` only when :meth:`check_rules` is called.
    """

    def __init__(self, config: str | None = None, isolated: bool = False, trusting: bool = False) -> None:
        self._trusting = trusting
        here = Path.cwd()
        self._default = Configuration(here)
        self._only = Configuration(here, tuple(_layers(Path(config).absolute()))) if config else None
        if isolated:
            self._only = self._default
        self._of_folder: dict[Path, Configuration] = {}
        if not trusting:
            self.check_rules()

    def of(self, folder: Path) -> Configuration:
        if self._only:
            return self._only
        if folder not in self._of_folder:
            self._of_folder[folder] = self._found(folder)
        return self._of_folder[folder]

    def settings(self, folder: Path) -> Settings:
        return self.of(folder).settings

    def check_rules(self) -> None:
        """Raise UsageError for rules that do not exist, in every configuration that was found."""
        for configuration in (self._only, *self._of_folder.values()):
            if configuration:
                configuration.check_rules()

    def _found(self, folder: Path) -> Configuration:
        if found := configuration_in(folder):
            if not self._trusting:
                found.check_rules()
            return found
        return self._default if folder == folder.parent else self.of(folder.parent)


def load_settings(folder: Path) -> Settings:
    """The settings of the nearest configuration at or above ``folder``; its rules are not checked."""
    found = (configuration_in(parent) for parent in (folder, *folder.parents))
    return next((configuration.settings for configuration in found if configuration), Settings(root=folder))


def configuration_in(folder: Path) -> Configuration | None:
    """The configuration in a folder itself."""
    own, shared = folder / OWN_FILE, folder / SHARED_FILE
    if own.is_file():
        return Configuration(folder, tuple(_layers(own)))
    if shared.is_file() and _section(shared) is not None:
        return Configuration(folder, tuple(_layers(shared)))
    return None


def _layers(path: Path, extending: tuple[Path, ...] = ()) -> Iterator[Layer]:
    if path in extending:
        raise UsageError(f"{path}: `{EXTEND}` leads back to this file")
    section = _section(path)
    if section is None:
        raise UsageError(f"{path}: there is no [tool.{SECTION}] in this file")
    layer = _layer(path, section)
    if EXTEND in section:
        yield from _layers(_extended(path, section[EXTEND]), (*extending, path))
    yield layer


def _extended(path: Path, value: object) -> Path:
    if not isinstance(value, str):
        raise UsageError(f"{path}: `{EXTEND}` must be the path of a file")
    return Path(os.path.normpath(path.parent / os.path.expandvars(os.path.expanduser(value))))


def _layer(path: Path, section: object) -> Layer:
    where = f" in [tool.{SECTION}]" if path.name == SHARED_FILE else ""
    if not isinstance(section, dict):
        raise UsageError(f"{path}: [tool.{SECTION}] must be a table")
    values: dict[str, Any] = {}
    for key, value in section.items():
        if key not in NAMES:
            raise UsageError(f"{path}: unknown key `{key}`{where}{did_you_mean(key, NAMES)}")
        if key in KEYS:
            try:
                values[key] = KEYS[key].read(value)
            except ValueError as error:
                raise UsageError(f"{path}: `{key}`{where} must be {error}") from None
    return Layer(path, values)


def _section(path: Path) -> Any:
    """Our part of a file: all of it, unless other tools share it. None if there is none."""
    content = _read_toml(path)
    if path.name != SHARED_FILE:
        return content
    tools = content.get("tool", {})
    return tools.get(SECTION) if isinstance(tools, dict) else None


def _read_toml(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from None


def _selectors(layer: Layer) -> Iterator[tuple[str, str]]:
    for key in RULE_KEYS:
        yield from ((key, selector) for selector in layer.values.get(key, ()))
    for key in RULE_TABLE_KEYS:
        tables = layer.values.get(key, {}).values()
        yield from ((key, selector) for selectors in tables for selector in selectors)


def _check_selector(layer: Layer, key: str, selector: str) -> None:
    from placement_lint.registry import check_selector

    try:
        check_selector(selector)
    except UsageError as error:
        raise UsageError(f"{layer.path}: `{key}`: {error}") from None


def _added(below: Any, value: Any) -> Any:
    """Lists are joined, and so are the tables of lists, pattern by pattern."""
    if below is None:
        return value
    if isinstance(value, dict):
        return below | {pattern: (*below.get(pattern, ()), *listed) for pattern, listed in value.items()}
    return (*below, *value)
