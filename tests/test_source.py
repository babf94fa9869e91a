"""Decoding, parsing, positions and the lexical scan."""

from __future__ import annotations

import ast
import codecs
import json
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import libcst as cst
import pytest
from libcst.metadata import MetadataWrapper, PositionProvider

from placement_lint.checking.stack import with_deep_stack
from placement_lint.finding import Range
from placement_lint.source.parsing import check_syntax, keyword_as_name, parse, python_tree, read
from placement_lint.source.positions import positions
from placement_lint.source.scan import Scan, words_of
from placement_lint.source.text import Unreadable, decode
from placement_lint.source.walking import children

HERE = Path(__file__).parent
STDLIB = Path(sysconfig.get_path("stdlib"))
REAL_FILES = [
    *sorted((HERE.parent / "placement_lint").rglob("*.py"))[:12],
    *(STDLIB / name for name in ("dataclasses.py", "argparse.py", "asyncio/tasks.py", "contextlib.py", "ast.py")),
    *(STDLIB / "test" / name for name in ("test_fstring.py", "test_patma.py", "test_with.py")),
]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"x = 1\r\ny = 2\r\n", "x = 1\r\ny = 2\r\n"),
        (codecs.BOM_UTF8 + b"x = 1\n", "x = 1\n"),
        (codecs.BOM_UTF8 + "é = 1\n".encode(), "é = 1\n"),
        (b"# -*- coding: latin-1 -*-\ns = '\xe9'\n", "# -*- coding: latin-1 -*-\ns = 'é'\n"),
        ("# coding: cp1251\ns = 'ы'\n".encode("cp1251"), "# coding: cp1251\ns = 'ы'\n"),
    ],
)
def test_decodes_as_python_does(data: bytes, text: str) -> None:
    assert decode(data) == text


@pytest.mark.parametrize(
    ("data", "words", "place"),
    [
        (b"x = 1\ny = '\0'\n", "null byte", (2, 6)),
        (b"# coding: nonsense\n", "unknown encoding", (1, 1)),
        (b"# coding: rot13\nx = 1\n", "rot13", (1, 1)),
        (b"x = 1\ns = 'ab\xff'\n", "0xff is not valid utf-8", (2, 8)),
        (b"\xff\n", "0xff is not valid utf-8", (1, 1)),
        ("x = 1\n".encode("utf-16"), "UTF-16", (1, 1)),
        (codecs.BOM_UTF8 + b"# coding: latin-1\n", "encoding problem", (1, 1)),
    ],
)
def test_says_why_bytes_are_no_source(data: bytes, words: str, place: tuple[int, int]) -> None:
    with pytest.raises(Unreadable, match=words) as caught:
        decode(data)
    assert (caught.value.line, caught.value.column) == place


@pytest.mark.parametrize("read", [parse, check_syntax])
@pytest.mark.parametrize(
    ("text", "words", "line"),
    [
        ("x = 1\ndef f(:\n", "invalid syntax", 2),
        ("import torch\nprint 'hello'\n", "print", 2),
        ("x = (\n", "never closed", 1),
        ("if x:\npass\n", "indented block", 2),
        ("x = " + "(" * 5000 + "1" + ")" * 5000, "5,000 deep", 1),
        ("x = 1\n" + "[" * 5000, "5,000 deep", 2),
    ],
)
def test_says_where_a_text_is_no_python(read, text: str, words: str, line: int) -> None:
    with pytest.raises(Unreadable, match=words) as caught:
        read(text)
    assert caught.value.line == line


DEEP = "-" * 1600


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"x = 1\nx = {DEEP}1\n", 2),
        (f"@a{'.b' * 1600}\ndef f(): pass\n", 1),
        (f"def f(\n    a={DEEP}1\n): pass\n", 2),
        (f"class A:\n    def f(self):\n        while {DEEP}x: pass\n", 3),
        (f"try:\n    pass\nexcept {DEEP}E:\n    pass\n", 3),
        (f"match x:\n    case 1:\n        y = {DEEP}1\n", 3),
        ("if a: pass\n" + "elif b: pass\n" * 1600, 1601),
        ("if a: pass\n" + "elif b: pass\n" * 1000 + f"elif {'-' * 600}b: pass\n", 1002),
    ],
)
def test_refuses_what_is_nested_too_deeply_wherever_it_stands(text: str, line: int) -> None:
    with pytest.raises(Unreadable, match="nested too deeply") as caught:
        read(text)
    assert caught.value.line == line


@pytest.mark.parametrize(
    "text", [f"x = {'-' * 1400}1\n", f"x = [{'-' * 900}1,\n{'-' * 900}1]\n", '"""' + DEEP + '"""\n']
)
def test_reads_what_is_long_or_less_deep(text: str) -> None:
    assert with_deep_stack(lambda: read(text)).body


def test_brackets_in_strings_and_comments_do_not_nest() -> None:
    parse(f"s = '''{'(' * 5000}'''  # {'[' * 5000}\nt = \"\\\"{'{' * 5000}\"\n")


@pytest.mark.parametrize(
    "text", ["", "\n", "x = 1", "x = 1\r\ny = 2\r\n", "\ufeffx = 1\n", "type X = int\n", 'f"{x["a"]}"\n']
)
def test_odd_but_right_texts_are_read(text: str) -> None:
    check_syntax(text)
    assert parse(text).code == text.removeprefix("\ufeff")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("x = 'async'\nx.cuda(0, async=True)\n", (2, 11)),
        ("async = 3\n", (1, 1)),
        ("x = 1\nf(await=async)  # await\n", (2, 3)),
        ("import a.async\n", (1, 10)),
        ("async def f():\n    await x\n", None),
        ("async def f():\n    pass\nx.cuda(async=True)\n", None),
        ("await x\n", None),
        ("x.cuda(async=True\n", None),
    ],
)
def test_keywords_that_were_names_keep_their_places(text: str, place: tuple[int, int] | None) -> None:
    error = keyword_as_name(text)
    assert (error and (error.line, error.column)) == place
    if place is not None:
        check_syntax(text)
        assert parse(text).code == text
        assert {"async", "await"}.intersection(words_of(ast.dump(python_tree(text))))


def test_a_text_that_only_libcst_refuses_is_placed() -> None:
    with pytest.raises(Unreadable, match="libcst cannot parse") as caught:
        parse("x = 1\n(y): int\n")
    assert caught.value.line == 2


def all_nodes(module: cst.Module) -> list[cst.CSTNode]:
    nodes, pending = [], [module]
    while pending:
        node = pending.pop()
        nodes.append(node)
        pending.extend(node.children)
    return nodes


@pytest.mark.parametrize("path", [path for path in REAL_FILES if path.exists()], ids=lambda path: path.name)
def test_positions_agree_with_the_provider_on_every_node(path: Path) -> None:
    module = parse(decode(path.read_bytes()))
    expected = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    found = positions(module, list(expected))
    assert found.keys() == expected.keys()
    for node, place in expected.items():
        start, end = place.start, place.end
        assert found[node] == Range(start.line, start.column + 1, end.line, end.column + 1), node


def test_positions_of_one_node_do_not_depend_on_the_others() -> None:
    module = parse((HERE / "conftest.py").read_text())
    together = positions(module, all_nodes(module))
    for node in all_nodes(module)[::37]:
        if node in together:
            assert positions(module, [node]) == {node: together[node]}


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_positions_count_characters(newline: str) -> None:
    module = parse(newline.join(["s = '''é", "\U0001f600'''; (bad(", "\t1))", ""]))
    call = module.body[0].body[1].value
    assert positions(module, [call]) == {call: Range(2, 8, 3, 4)}


def test_comments_are_told_from_strings() -> None:
    text = "#!x\n\n  # top\n'''doc # no'''\nx = '#no'  # yes\n"
    text += "y = [  # in\n  1, \"it's # no\" # out\n]\nz = r'\\' # raw'\n"
    found = [(comment.text, comment.line, comment.column, comment.leading) for comment in Scan(text).comments()]
    assert found == [
        ("#!x", 1, 1, True),
        ("# top", 3, 3, True),
        ("# yes", 5, 12, False),
        ("# in", 6, 8, False),
        ("# out", 7, 18, False),
    ]


def test_logical_lines_join_what_brackets_strings_and_backslashes_span() -> None:
    text = "a = 1\nb = f(\n  1,\n)\nc = '''\n'''\nd = 1 + \\\n  2\ne = 1\n"
    assert Scan(text).logical_lines == {
        2: (2, 4), 3: (2, 4), 4: (2, 4), 5: (5, 6), 6: (5, 6), 7: (7, 8), 8: (7, 8),
    }  # fmt: skip


def test_the_scan_survives_any_text() -> None:
    for text in ("'", '"""', "\\", "x = '\\", ")))", "#", json.dumps({"a": "'"}), "'''\\"):
        scan = Scan(text)
        assert list(scan.comments()) in ([], list(scan.comments()))
        assert scan.depth[0] >= 0
        assert scan.logical_lines is not None


BLANKS = (cst.BaseParenthesizableWhitespace, cst.Newline, cst.Comment, cst.EmptyLine, cst.TrailingWhitespace)


def test_walking_leaves_out_nothing_but_blanks() -> None:
    module = cst.parse_module(
        (HERE.parent / "placement_lint" / "flow" / "interpreter" / "library.py").read_text(encoding="utf-8")
    )
    walked = set(_below(module, children))
    everything = set(_below(module, lambda node: node.children))
    assert walked < everything
    assert all(isinstance(node, BLANKS) for node in everything - walked)


def _below(node: cst.CSTNode, inside: Callable[[cst.CSTNode], Iterable[cst.CSTNode]]) -> Iterator[cst.CSTNode]:
    for child in inside(node):
        yield child
        yield from _below(child, inside)
