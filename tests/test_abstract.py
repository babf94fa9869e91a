"""The abstract tree of a text has the same meaning, positions and source text as libcst's own tree."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import pytest
import shares
from libcst.metadata import MetadataWrapper, PositionProvider
from test_fixtures import FIXTURES, SINGLE

from placement_lint.checking.checker import Checker, Job, Reading
from placement_lint.config.settings import Settings
from placement_lint.finding import Range
from placement_lint.source.abstract import Abstract
from placement_lint.source.layout import Unplaced
from placement_lint.source.parsing import parse, read
from placement_lint.source.positions import positions
from placement_lint.source.remembered import forget
from placement_lint.source.text import decode
from placement_lint.source.walking import children
from placement_lint.source.wording import is_parenthesised, source_text

HERE = Path(__file__).parent
STDLIB = Path(sysconfig.get_path("stdlib"))
TEXTS = [
    *sorted((HERE.parent / "placement_lint").rglob("*.py"))[::24],
    *(STDLIB / name for name in ("argparse.py", "asyncio/tasks.py", "contextlib.py", "ast.py", "enum.py")),
    *(STDLIB / "test" / name for name in ("test_generators.py", "test_with.py", "test_buffer.py")),
]
Pair = tuple[Abstract, cst.CSTNode]


def pairs(abstract: Any, own: Any) -> Iterator[Pair]:
    """Each abstract node with libcst's node; fails if the trees differ in more than layout."""
    if isinstance(own, cst.BaseString) or isinstance(abstract, cst.BaseString):
        yield from _strings(abstract, own)
        return
    if not isinstance(abstract, Abstract):
        assert type(abstract) is type(own)  # an operator
        return
    assert abstract.kind is type(own)
    yield abstract, own
    for name in abstract.kept:
        one, other = getattr(abstract, name), getattr(own, name)
        if isinstance(one, (list, tuple)):
            assert len(one) == len(other), (name, source_text(own))
            for pair in zip(one, other, strict=True):
                yield from pairs(*pair)
        elif isinstance(one, cst.CSTNode):
            yield from pairs(one, other)
        elif isinstance(abstract, (cst.Integer, cst.Float, cst.Imaginary)):
            assert abstract.evaluated_value == own.evaluated_value
        else:
            assert one == other


def _strings(abstract: Any, own: Any) -> Iterator[Pair]:
    """Compare concatenated strings: Python's tree has one string, and its parts may be split differently."""
    if isinstance(abstract, cst.SimpleString):
        assert abstract.evaluated_value == own.evaluated_value
        return
    for pair in zip(list(_expressions(abstract)), list(_expressions(own)), strict=True):
        yield from pairs(*pair)


def _expressions(string: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    if isinstance(string, cst.ConcatenatedString):
        yield from _expressions(string.left)
        yield from _expressions(string.right)
    elif isinstance(string, cst.FormattedString):
        yield from _among(string.parts)


def _among(parts: Any) -> Iterator[cst.BaseExpression]:
    for part in parts:
        if isinstance(part, cst.FormattedStringExpression):
            yield part.expression
            yield from _among(part.format_spec or ())


@pytest.mark.parametrize("sparing", [False, True])
@pytest.mark.parametrize("path", [path for path in TEXTS if path.exists()], ids=lambda path: path.name)
def test_means_what_libcst_reads(path: Path, sparing: bool) -> None:
    _same_meaning(decode(path.read_bytes()), sparing)


@pytest.mark.parametrize("sparing", [False, True])
def test_keywords_as_names_mean_what_libcst_reads(sparing: bool) -> None:
    _same_meaning(
        "def f(x, async=1):\n    return x.await.cuda('é', async=async), \\\n        b\nf(y, async=2)\n", sparing
    )


def _same_meaning(text: str, sparing: bool) -> None:
    abstract, own = read(text, sparing), MetadataWrapper(parse(text), unsafe_skip_copy=True)
    assert isinstance(abstract, Abstract)
    expected = own.resolve(PositionProvider)
    for one, other in pairs(abstract, own.module):
        try:
            (place,) = positions(abstract, [one]).values()
        except Unplaced:
            assert _is_part_of_another(one) or one.layout is not abstract.layout
            continue
        start, end = expected[other].start, expected[other].end
        assert place == Range(start.line, start.column + 1, end.line, end.column + 1), source_text(other)
        if isinstance(one, cst.BaseExpression) and not isinstance(one, cst.StarredElement):
            assert source_text(one) == source_text(other)
            assert is_parenthesised(one) == is_parenthesised(other)
    forget()


def _is_part_of_another(node: Abstract) -> bool:
    """Whether a node is neither a node of Python's tree nor a possible subject of a finding."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return not isinstance(node.origin, (ast.Name, ast.Attribute, ast.arg, ast.keyword, ast.Constant))
    return not isinstance(node, (cst.BaseExpression, cst.BaseSmallStatement, cst.FunctionDef, cst.ClassDef, cst.For))


class WithAllLayout(Reading):
    def read(self, text: str) -> cst.Module:
        return parse(text)


def test_a_text_that_libcst_cannot_parse_is_read_by_python(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import torch\n\nx = torch.zeros(3)\nx.cuda()\n"
    job = Job(Settings(root=HERE))
    expected = Checker(job).check_bytes(text.encode(), "a.py")
    assert expected.findings

    def refuse(_: str) -> cst.Module:
        raise ValueError("no such syntax")

    monkeypatch.setattr(cst, "parse_module", refuse)
    assert Checker(job, WithAllLayout()).check_bytes(text.encode(), "a.py") == expected


def test_the_findings_are_those_of_a_tree_with_all_layout() -> None:
    job = Job(Settings(root=FIXTURES))
    quick, thorough = Checker(job), Checker(job, WithAllLayout())
    for path in filter(lambda path: shares.runs(path.name), SINGLE):
        assert quick.check_file(str(path)) == thorough.check_file(str(path)), path


@pytest.mark.parametrize(
    "text",
    [
        "print(f'{a!r:>{width}} {(b)}' f\"{c['k']}\", d)\n",
        "x = (\n    f'{a} {a}'\n    f'{a.b(c)} {{a}} {a.b}'\n)\n",
        "f'{x=}'; rf'{a}\\d'\n",
        "f'{a[b, c]}'\n",
    ],
)
def test_the_expressions_in_strings_are_worded_as_they_are(text: str) -> None:
    for one, other in pairs(read(text), parse(text)):
        if isinstance(one, cst.BaseExpression):
            assert source_text(one) == source_text(other)


def test_what_python_misplaces_in_a_string_is_where_the_string_is() -> None:
    module = read("print('é', f'{3,}')\n")
    (pair,) = (node for node in _below(module) if isinstance(node, cst.Tuple))
    assert source_text(pair) in ("(3,)", "3,")
    (near,) = positions(module, [pair], roughly=True).values()
    assert near in (Range(1, 12, 1, 19), Range(1, 15, 1, 17))  # the position of the string before Python 3.12


def _below(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in children(node):
        yield from _below(child)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_places_count_characters(newline: str) -> None:
    module = read(newline.join(["s = '''é", "\U0001f600'''; (bad(", "\t1))", ""]))
    call = module.body[0].body[1].value
    assert isinstance(call, Abstract)
    assert positions(module, [call]) == {call: Range(2, 8, 3, 4)}
    assert source_text(call) == f"(bad({newline}\t1))"


@pytest.mark.parametrize(
    "text",
    [
        "match x:\n    case 1:\n        pass\n",
        "def f():\n    match x:\n        case 1:\n            pass\n",
        "try:\n    pass\nexcept* E:\n    pass\n",
        "\ufeffx = 1\n",
    ],
)
def test_what_is_rare_is_left_to_libcst(text: str) -> None:
    assert not isinstance(read(text), Abstract)


def test_a_number_is_read_that_is_too_long_for_decimals() -> None:
    text = f"x = 0x{'f' * 5000}\n"
    assert list(pairs(read(text), parse(text)))


def test_what_is_in_a_function_is_made_once() -> None:
    function = read("def f():\n    pass\n").body[0]
    assert function.body is function.body
    assert not hasattr(function, "bodies")


@pytest.mark.parametrize(
    "text",
    [
        "@a\ndef f(): return 1; x = 2\n",
        "class A:\n\tasync def f(self):\n\t\tdef g():\n\t\t\tyield\n\t\tawait g\n",
        "\fdef f():\n    '''\nclass B:\n'''\n    return {\n  1}\n",
        "if x:\r\n    def f():\r\n        return '''a\r\nb'''\r\n",
    ],
)
def test_what_is_in_a_function_is_the_same_when_it_is_read_again(text: str) -> None:
    for one, other in pairs(read(text, sparing=True), parse(text)):
        if isinstance(one, cst.BaseExpression):
            assert source_text(one) == source_text(other)


def test_what_libcst_alone_refuses_is_read_all_the_same() -> None:
    assert isinstance(read("x = 1\n(y): int\n"), Abstract)


def test_a_node_of_another_text_has_no_place_in_this_one() -> None:
    one, other = read("x = 1\n"), read("y = 1\n")
    assert positions(one, [other.body[0]]) == {}


@pytest.mark.parametrize(
    ("text", "worded"),
    [
        ("f((a), b)", "(a)"),
        ("f(a)", "a"),
        ("(  # why\n    a\n).b", "(  # why\n    a\n)"),
        ("return_(a)", "a"),
        ("[(a) for b in c]", "(a)"),
        ("not (a)", "(a)"),
        ("('s' (a))", "a"),
        ("((a)) + b", "((a))"),
    ],
)
def test_the_parentheses_around_a_node_are_told_from_those_of_a_call(text: str, worded: str) -> None:
    (name,) = (node for node in _below(read(text)) if isinstance(node, cst.Name) and node.value == "a")
    assert source_text(name) == worded


@pytest.mark.parametrize(
    "block",
    [
        "if a:",
        "if a:\n        pass\nelif b:",
        "for a in b:\n        pass\nelse:",
        "try:\n        pass\nexcept E:",
        "try:\n        pass\nfinally:",
        "@decorator\ndef f(): # why",
    ],
)
def test_what_goes_on_in_other_lines_is_worded_as_if_it_were_not_in_a_block(block: str) -> None:
    text = f"{block}\n    call(\n        '#', (a  # why\n        ))\n"
    (call,) = (node for node in _below(read(text)) if isinstance(node, cst.Call))
    assert source_text(call) == "call(\n    '#', (a  # why\n    ))"
    assert source_text(call.args[1].value) == "(a  # why\n    )"


def test_a_changed_node_keeps_the_words_of_the_rest() -> None:
    comparison = read("f( a ) != 'b'").body[0].body[0].value
    equal = cst.ComparisonTarget(cst.Equal(), comparison.comparisons[0].comparator)
    assert source_text(comparison.with_changes(comparisons=[equal])) == "f( a ) == 'b'"


def test_a_changed_node_keeps_its_parentheses() -> None:
    call = read("(a - b).mean()").body[0].body[0].value
    difference = call.func.value.with_changes(operator=cst.Add())
    assert source_text(call.with_changes(func=call.func.with_changes(value=difference))) == "(a + b).mean()"
