"""Texts parsed piece by piece: the same code, the same findings, after any edit."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import libcst as cst
import pytest

from placement_lint.checker import Job
from placement_lint.config import Settings
from placement_lint.server.analysis import Analyse
from placement_lint.server.splicing import Splicer
from placement_lint.server.worker import Worker
from placement_lint.source.parsing import parse
from placement_lint.source.text import Unreadable

PROGRAMS = sorted((Path(__file__).parents[2] / "fixtures" / "programs").glob("*.py"))
PIECES = [
    "x = 1\n", "# note\n", "    # deep note\n", "\n", "", "if a:\n    b\nelse:\n\tc\n", "@d\ndef f():\n  pass\n",
    "(", ")", "x; y\n", "a = \\\n  1\n", "\r\n", "\x0c", "import torch\n", "x.to('cuda')\n", "    ", "class A: pass\n",
    "'''\n",
]  # fmt: skip


def parsed(text: str, parser: Callable[[str], cst.Module]) -> cst.Module | tuple[str, int, int]:
    """The tree, or the error."""
    try:
        return parser(text)
    except Unreadable as error:
        return error.message, error.line, error.column


def bare(node: cst.CSTNode) -> object:
    """A tree without whitespace and comments, which may lie elsewhere."""
    children = [child for child in node.children if not isinstance(child, (cst.EmptyLine, cst.TrailingWhitespace))]
    return (type(node).__name__, getattr(node, "value", None) if not node.children else None, [*map(bare, children)])


def edits(text: str, seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    texts = [text]
    for _ in range(count):
        lines = texts[-1].splitlines(keepends=True)
        place = rng.randrange(len(lines) + 1)
        removed = rng.choice((0, 0, 1, 2))
        texts.append("".join([*lines[:place], rng.choice(PIECES), *lines[place + removed :]]))
        if rng.random() < 0.3:  # back to something that can be read
            texts.append(text)
    return texts


@pytest.mark.parametrize("path", PROGRAMS[::12], ids=lambda path: path.stem)
def test_the_tree_is_that_of_the_text(path: Path) -> None:
    splicer = Splicer()
    for text in edits(path.read_text(encoding="utf-8"), seed=len(path.name), count=25):
        whole, spliced = parsed(text, parse), parsed(text, splicer.parse)
        if isinstance(whole, tuple) or isinstance(spliced, tuple):
            assert whole == spliced
            continue
        assert spliced.code == whole.code
        assert bare(spliced) == bare(whole)
        nodes = list(all_nodes(spliced))
        assert len({id(node) for node in nodes}) == len(nodes), "no node stands in two places"


def all_nodes(node: cst.CSTNode) -> list[cst.CSTNode]:
    found, waiting = [], [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, (cst.BaseStatement, cst.BaseExpression, cst.BaseSmallStatement)):
            found.append(each)
        waiting.extend(each.children)
    return found


@pytest.mark.parametrize("path", PROGRAMS[5::30], ids=lambda path: path.stem)
def test_what_is_found_is_the_same_from_scratch(path: Path) -> None:
    worker, job = Worker(), Job(Settings())
    for text in edits(path.read_text(encoding="utf-8"), seed=3, count=8):
        request = Analyse("/project/train.py", text.encode(), job)
        assert worker.answer(request) == Worker().answer(request)


def test_only_what_is_new_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def noting(text: str) -> cst.Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("placement_lint.server.splicing.parse", noting)
    splicer = Splicer()
    splicer.parse("import a\nb = 1\nb = 1\n\n\ndef f():\n    pass\n")
    parsed.clear()
    splicer.parse("import a\nb = 1\nb = 1\n\n\ndef f():\n    return 2\n")
    assert parsed == ["\n\ndef f():\n    return 2\n"]
