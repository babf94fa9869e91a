"""The settings that hold for a path, and where each comes from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from placement_lint.config.files import Configuration, Projects
from placement_lint.config.settings import KEYS, field_of
from placement_lint.errors import UsageError

DEFAULT = "default"


def as_text(path: str) -> str:
    """TOML that could be pasted into a configuration, with the sources as comments."""
    configuration = _configuration(path)
    settings = [(f"{key} = {_toml(value)}", sources) for key, value, sources in _settings(configuration)]
    width = max(len(text) for text, _ in settings)
    lines = (f"{text:<{width}}  # {' and '.join(sources) or DEFAULT}" for text, sources in settings)
    return "\n".join([f"# patterns and paths are relative to {configuration.root}", *lines])


def as_json(path: str) -> str:
    configuration = _configuration(path)
    settings = {key: {"value": value, "sources": sources} for key, value, sources in _settings(configuration)}
    return json.dumps({"root": str(configuration.root), "settings": settings}, indent=2)


RENDERERS: Mapping[str, Callable[[str], str]] = {"text": as_text, "json": as_json}


def _configuration(path: str) -> Configuration:
    there = Path(os.path.abspath(path))
    if not there.exists():
        raise UsageError(f"{path}: no such file or directory")
    return Projects().of(there if there.is_dir() else there.parent)


def _settings(configuration: Configuration) -> Iterator[tuple[str, Any, list[str]]]:
    for key in KEYS:
        value = getattr(configuration.settings, field_of(key))
        sources = [os.path.relpath(source) for source in configuration.sources(key)]
        yield key, value.value if isinstance(value, Enum) else value, sources


def _toml(value: Any) -> str:
    """A value as TOML writes it; of strings, numbers, switches and lists, JSON writes the same."""
    if isinstance(value, Mapping):
        items = (f"{json.dumps(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{ {', '.join(items)} }}" if value else "{}"
    return '""' if value is None else json.dumps(value)
