"""The report formats by name. Each is a module of the same name, which is imported on demand."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TextIO

from placement_lint.report.results import Run

FORMATS: Mapping[str, str] = {
    "full": "For people: each finding with its code, trace and fix.",
    "concise": "One line for each finding: `path:line:column: CODE severity: message`, with `[*]` if it is fixable.",
    "json": "For programs: one object, described below.",
    "sarif": (
        "For code scanning services: SARIF 2.1.0 with the rules' pages, traces as code flows, fixes, and fingerprints "
        "that survive moved lines."
    ),
    "github": "Annotations of a pull request, as GitHub Actions workflow commands.",
    "gitlab": "A GitLab code quality report.",
    "junit": "A test report: a test suite for each file, a failure for each finding.",
    "lsp": "The parameters of `textDocument/publishDiagnostics`, one JSON object and line for each file.",
    "part": "The input of `placement-lint merge`, which joins the reports of several shards.",
}
"""The formats with their descriptions in Markdown."""


def render(form: str, run: Run, stream: TextIO) -> None:
    import_module(f"placement_lint.report.{form}").render(run, stream)
