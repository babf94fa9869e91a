"""A result that stays valid after a change of a file it depends on equals the result of a new analysis."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle, pairwise
from pathlib import Path

import pytest
from test_imports import UNKNOWN, WAYS, with_sum

from placement_lint.checking.checker import Checker
from placement_lint.config.settings import Settings
from placement_lint.report.results import Job
from placement_lint.run.cache import Cache

pytestmark = pytest.mark.usefixtures("own_cache")

Files = Mapping[str, str]
PROJECTS = Path(__file__).parents[2] / "fixtures" / "projects"

# Changes of a name later in the text.
CHANGES = (
    "def change():\n    global {name}\n    {name} = 3",
    "{name} = None",
    "def change():\n    {name}.update(changed=1)",
)


def edits(text: str) -> Iterator[str]:
    """The text with a statement removed, swapped with another, or put into a branch; and with additions."""
    head, *parts = _statements(text)
    for place, part in enumerate(parts):
        before, after = parts[:place], parts[place + 1 :]
        if place % 2:
            yield "".join((head, *before, *after))
        elif before:
            yield "".join((head, *before[:-1], part, before[-1], *after))
        else:
            yield "".join((head, "if len(__file__):\n", _indented(part), *after))
    for name, change in zip(_names(text), cycle(CHANGES), strict=False):
        yield f"{text}\n\n{change.format(name=name)}\n"
    yield f"# a comment\n{text}"
    yield f"{text}\n__all__ = ['nothing']\n"
    yield f"{text}\nfrom torch import *\n"
    yield f"{text}\ndef broken(\n"
    yield f"{text}\nnested = {'(' * 500}1{')' * 500}\n"
    yield f"{text}\0"


def _statements(text: str) -> list[str]:
    """The text in pieces: the lines before the first statement, and each statement up to the start of the next."""
    lines = text.splitlines(keepends=True)
    firsts = [
        min(part.lineno for part in (each, *getattr(each, "decorator_list", []))) for each in ast.parse(text).body
    ]
    bounds = [0, *sorted({first - 1 for first in firsts}), len(lines)]
    return ["".join(lines[begin:end]) for begin, end in pairwise(bounds)]


def _indented(statement: str) -> str:
    return "".join(f"    {line}" for line in statement.splitlines(keepends=True))


def _names(text: str) -> Iterator[str]:
    for statement in ast.parse(text).body:
        yield from (node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _is_bound(node))
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            yield statement.name


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _speaking(files: Files) -> Files:
    """The files with a program that mentions tensors: otherwise the result depends on all files that it imports."""
    return {name: f"import torch\n{text}" if name.endswith("main.py") else text for name, text in files.items()}


def _fixture(folder: Path) -> Files:
    return {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*.py")}


KNOWN: Mapping[str, Files] = {
    **{name: _speaking(with_sum(files)) for name, files in {**WAYS, **UNKNOWN}.items() if name != "broken"},
    **{folder.name: _fixture(folder) for folder in PROJECTS.iterdir()},
}


@pytest.mark.parametrize("files", KNOWN.values(), ids=KNOWN)
def test_what_is_kept_is_what_would_be_found(files: Files, project: Path, write: Callable[..., Path]) -> None:
    for name, text in files.items():
        write(name, text)
    job = Job(Settings(root=project))
    checker = Checker(job)
    Cache(job, pytest.fail).keep([checker.check_file(name) for name in files])
    for changed, text in files.items():
        for edit in edits(text):
            write(changed, edit)
            cache = Cache(job, pytest.fail)
            for name in files:
                known = cache.get(name)
                if known is not None and str(project / changed) in known.contents:
                    assert known == checker.check_file(name), f"{name} after a change of {changed} to:\n{edit}"
        write(changed, text)
