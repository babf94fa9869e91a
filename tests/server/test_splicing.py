"""Texts parsed in pieces have the same code, the same positions and the same findings after any edit."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import libcst as cst
import pytest
from training_file import training_file

from placement_lint.checking.checker import Checker, Job
from placement_lint.config.settings import Settings
from placement_lint.project.files import displayed
from placement_lint.server.analysis import Analyse, absolute
from placement_lint.server.splicing import Splicer, cut, recut
from placement_lint.server.worker import Worker
from placement_lint.source.parsing import parse
from placement_lint.source.positions import positions
from placement_lint.source.text import Unreadable

PROGRAMS = sorted((Path(__file__).parents[2] / "fixtures" / "programs").glob("*.py"))
TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in PROGRAMS[3::11]} | {"long": training_file(100)}
PIECES = [
    "x = 1\n", "# note\n", "    # deep note\n", "\n", "", "if a:\n    b\nelse:\n\tc\n", "@d\ndef f():\n  pass\n",
    "(", ")", "x; y\n", "a = \\\n  1\n", "\r\n", "\x0c", "import torch\n", "x.to('cuda')\n", "    ", "class A: pass\n",
    "'''\n", "@d\n", "else:\n", "else:\n    b\n", "d", "def g(\n  a): b\n", "a \\\n", "if a: b\n",
]  # fmt: skip


def parsed(text: str, parser: Callable[[str], cst.Module]) -> cst.Module | tuple[str, int, int]:
    """The tree, or the position and message of the error."""
    try:
        return parser(text)
    except Unreadable as error:
        return error.message, error.line, error.column


def bare(node: cst.CSTNode) -> object:
    """A tree without whitespace and comments, whose owners may differ."""
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
        if rng.random() < 0.3:  # return to a valid text
            texts.append(text)
    return texts


@pytest.mark.parametrize("path", PROGRAMS[::12], ids=lambda path: path.stem)
def test_the_tree_is_that_of_the_text(path: Path) -> None:
    splicer = Splicer()
    for text in edits(path.read_text(encoding="utf-8"), seed=len(path.name), count=25):
        whole, spliced = parsed(text, parse), parsed(text, lambda text: splicer.parse(text).module)
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


@pytest.mark.parametrize("name", TEXTS)
def test_everything_stands_where_it_does_in_the_whole(name: str) -> None:
    splicer, rng = Splicer(), random.Random(name)
    for text in edits(TEXTS[name], seed=len(name), count=12):
        whole = parsed(text, parse)
        if isinstance(whole, tuple):
            continue
        spliced = splicer.parse(text)
        nodes, expected = all_nodes(spliced.module), all_nodes(whole)
        spliced.place(rng.sample(nodes, len(nodes) // 3))
        places, right = spliced.place(nodes), positions(whole, expected)
        assert [places.get(node) for node in nodes] == [right.get(node) for node in expected]


def test_only_what_is_new_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_through: list[str] = []

    def noting(module: cst.Module, nodes: list[cst.CSTNode]) -> object:
        looked_through.append(module.code)
        return positions(module, nodes)

    monkeypatch.setattr("placement_lint.server.splicing.positions", noting)
    splicer = Splicer()
    for text in ("a = 1\nb = 2\n", "\na = 11\nb = 2\n", "\na = 11\n\nb = 2\n"):
        spliced = splicer.parse(text)
        spliced.place([*all_nodes(spliced.module), cst.Name("elsewhere")])
    assert looked_through == ["a = 1\n", "b = 2\n", "\na = 11\n", "\nb = 2\n"]


def test_a_statement_that_stays_is_the_same_object() -> None:
    """This holds if it moves together with the comments above it, for any changes to the text in between."""
    head, function, cls = "# what for\n\nimport a\n", "\n\n# about f\ndef f():\n    return 1\n", "\n@d\nclass A: ...\n"
    splicer = Splicer()
    one, two, three = before = splicer.parse(head + function + cls).module.body

    def staying(text: str) -> list[cst.CSTNode]:
        return [node for node in splicer.parse(text).module.body if node in before]

    assert staying(head + "x\n" + function + cls) == [one, two, three]
    assert isinstance(parsed(head + function + "x = (" + cls, lambda text: splicer.parse(text).module), tuple)
    assert staying(cls + function + head) == [three, two, one]
    assert staying(head + function.replace("1", "2") + cls) == [one, three]


FUNCTION = """\
def f(a):
    # first
    one = a + 1
    for b in a:
        if b:
            two(b)
        else:
            three(b)
    return one
"""
IF = """\
# why
if b:
    two(b)
else:
    three(b)"""


@pytest.mark.parametrize(
    ("before", "after", "new"),
    [
        ("two(b)", "four(b)", ["def f(a):", "for b in a:", "if b:", "four(b)"]),
        ("three(b)", "four(b)", ["def f(a):", "for b in a:", "if b:", "four(b)"]),
        ("one = a + 1\n", "one = a + 1\n    two(a)\n", ["def f(a):", "two(a)"]),
        ("    # first\n    one = a + 1\n", "", ["def f(a):"]),
        ("# first", "# last", ["def f(a):", "# last\none = a + 1"]),
        ("def f(a)", "def g(a)", ["def g(a):"]),
        ("if b:", "if c:", ["def f(a):", "for b in a:", "if c:"]),
        ("return one\n", "return one\n\nend = 1\n", ["end = 1"]),
        ("two(b)\n        else:\n            ", "", ["def f(a):", "for b in a:", "if b:", "three(b)"]),
        ("        if b:\n            two(b)\n        else:\n    ", "    ", ["def f(a):", "for b in a:", "three(b)"]),
        ("        if", "        # why\n        if", ["def f(a):", "for b in a:", IF]),
        ("    return", "        # end\n    return", ["def f(a):", "for b in a:"]),
    ],
)
def test_in_a_statement_that_changes_all_others_stay(before: str, after: str, new: list[str]) -> None:
    splicer = Splicer()
    old = set(all_nodes(splicer.parse(FUNCTION).module))
    changed = splicer.parse(FUNCTION.replace(before, after)).module
    lines = [node for node in all_nodes(changed) if isinstance(node, cst.BaseStatement) and node not in old]
    heads = [changed.code_for_node(node).strip() for node in lines]
    assert [head if head.startswith("#") else head.partition("\n")[0] for head in heads] == new


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_cut_as_if_nothing_were_known_of_it(name: str) -> None:
    pieces: list[str] = []
    for text in edits(TEXTS[name], seed=len(name), count=60):
        assert recut(text, pieces) == cut(text)
        pieces = cut(text) or pieces


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1foo"),
        ("x = 1\n", "fox = 1\n"),
        ("a\nb\nc\nd\n", "a\nb\n'''\nc\nd\n"),
        ("a\nb\n'''c'''\nd\n", "a\nb; '''\n'''c'''\nd\n"),
        ("a\nb\n'''c'''\nd\n", "a\nb; '''\nc'''\nd\n"),
        ("if a:\n  b\nc\nd\n", "if a:\n  b\nelse:\n  b\nc\nd\n"),
        ("a\nb\nb\nc\n", "a\nb\nc\n"),
        ("a\nb\n# c\n", "a\nb\n"),
        ("a\nb\nc\n", ""),
        ("a\nb\nc\n", "a\nb\\\nc\n"),
        ("a\nb\nc\n", "a\n@b\nc\n"),
    ],
)
def test_an_edit_may_reach_beyond_its_piece(before: str, after: str) -> None:
    assert recut(after, cut(before)) == cut(after)


def test_blocks_alone_say_how_far_a_text_is_indented() -> None:
    assert len(Splicer().parse("print(\n    1,\n)\nif a:\n  b\nif a: b\n").parts) == 3


def test_what_is_refused_is_named_by_its_line_in_the_whole() -> None:
    text = "x = 1\n\ny = x" + ".x" * 1600 + "\n"
    refused = parsed(text, parse)
    assert isinstance(refused, tuple)
    assert refused == parsed(text, lambda text: Splicer().parse(text).module)


@pytest.mark.parametrize("path", PROGRAMS[5::30], ids=lambda path: path.stem)
def test_what_is_found_is_the_same_from_scratch(path: Path) -> None:
    worker, job = Worker(), Job(Settings())
    for text in edits(path.read_text(encoding="utf-8"), seed=3, count=8):
        request = Analyse("/project/train.py", text.encode(), job)
        answer = worker.answer(request)
        assert answer == Worker().answer(request)
        checker = Checker(replace(job, folder=os.getcwd()))
        assert answer.checked == absolute(checker.check_bytes(text.encode(), displayed(Path("/project/train.py"))))


def test_only_what_is_new_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []

    def noting(text: str) -> cst.Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr("placement_lint.server.splicing.parse", noting)
    monkeypatch.setattr("placement_lint.server.amending.parse", noting)
    splicer = Splicer()
    text = "import a\nb = 1\nb = 1\n\n\n" + FUNCTION
    splicer.parse(text)
    for before, after, new in (
        ("two(b)", "four(b)", "if 1:\n    if 1:\n        if 1:\n            four(b)\n"),
        ("one = a + 1\n", "one = a + 1\n    two(a)\n", "if 1:\n    two(a)\n"),
        ("def f(a)", "def g(a)", "\n\n" + FUNCTION.replace("def f(a)", "def g(a)")),
        ("b = 1\n", "b = 1\nc = 2\n", "c = 2\n"),
    ):
        splicer.parse(text)
        parsed.clear()
        splicer.parse(text.replace(before, after, 1))
        assert parsed == [new]
