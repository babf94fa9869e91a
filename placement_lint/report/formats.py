"""The formats by name. Each lies in the module of its name, which is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TextIO

from placement_lint.results import Run

FORMATS = ("full", "concise", "json", "sarif", "github", "gitlab", "junit", "lsp", "part")


def render(form: str, run: Run, stream: TextIO) -> None:
    import_module(f"placement_lint.report.{form}").render(run, stream)
