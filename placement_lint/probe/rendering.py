"""A slice as text: the parts that are removed, replaced, added and marked."""

from __future__ import annotations

import ast
import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import libcst as cst
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from placement_lint.probe.effects import effects_of
from placement_lint.probe.slicing import Slice
from placement_lint.probe.units import COMPOUND, Program, Unit, called
from placement_lint.rule import Line
from placement_lint.source.wording import source_text

TRAINING = {"backward", "step", "zero_grad"}
ITERATIONS = 2  # of a training loop
MOST_ROUNDS = 20
EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
MARK = "# <-- "
WATCHED = {"watched"}  # the list that all lines of a replay share

# A process group of this process alone.
ALONE = """\
import os
alone = dict(RANK="0", LOCAL_RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
os.environ |= {name: value for name, value in alone.items() if "RANK" not in os.environ}"""

# Where the ranks that a program starts find each other, unless it says so itself.
MEETING = """\
import os
import socket
if "MASTER_PORT" not in os.environ:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(free.getsockname()[1])}"""

STARTS_RANKS = {"spawn", "start_processes", "Process"}  # calls by which a program starts its own

Edits = Mapping[cst.CSTNode, str]


@dataclass
class Additions:
    """Lines to add around units, by unit, and the comments that mark units at the ends of their lines."""

    before: dict[Unit, list[Line]] = field(default_factory=lambda: defaultdict(list))
    after: dict[Unit, list[Line]] = field(default_factory=lambda: defaultdict(list))
    marks: dict[Unit, str] = field(default_factory=dict)

    @property
    def texts(self) -> Iterator[str]:
        for lines in (*self.before.values(), *self.after.values()):
            yield from (line.text for line in lines)


@dataclass(frozen=True)
class Rendered:
    """A slice as text, with the first and the last line of each statement; of a compound one, of its header.

    ``added`` are the lines at which added ones begin.
    """

    text: str
    units: Mapping[Unit, tuple[int, int]] = field(default_factory=dict)
    added: Mapping[Line, int] = field(default_factory=dict)


def rendered(piece: Slice, edits: Edits, additions: Additions, header: Sequence[str] = ()) -> Rendered:
    """The text of a slice. ``header`` are lines that go before everything but imports from the future."""
    renderer = _Renderer(piece, edits, additions)
    module = piece.program.module.visit(renderer)
    assert isinstance(module, cst.Module)
    future = [line for line in module.body if _is_future(line)]
    rest = module.with_changes(header=[], footer=[], body=[line for line in module.body if line not in future])
    needed = [line for line in _imports(rest.code, piece.program.names) if line not in rest.code.splitlines()]
    before = "\n".join([*(module.code_for_node(line).strip() for line in future), *needed, *header, ""])
    body = rest.code.lstrip("\n")
    offset = before.count("\n") - (rest.code.count("\n") - body.count("\n"))
    places = MetadataWrapper(rest, unsafe_skip_copy=True).resolve(PositionProvider)
    units = {
        unit: (places[node].start.line + offset, _last_line(node, places) + offset)
        for unit, node in renderer.placed.items()
        if node in places
    }
    added = {line: places[node].start.line + offset for line, node in renderer.added.items() if node in places}
    return Rendered(before + body, units, added)


def _last_line(statement: cst.CSTNode, places: Mapping[cst.CSTNode, CodeRange]) -> int:
    body = getattr(statement, "body", None)
    if isinstance(statement, cst.SimpleStatementLine) or not isinstance(body, cst.BaseSuite):
        return places[statement].end.line
    return max(places[statement].start.line, places[body].start.line - 1)


def filled(line: Line, program: Program, edits: Edits) -> str:
    """The text of a line, with the placeholders filled in as in the arm; empty if there is no value for one."""
    text = line.text
    if "{target}" in text and not isinstance(program.unit_of[line.node].small, cst.Assign):
        return ""
    if "{node}" in text:
        node = line.node.visit(_Editor(edits))
        assert isinstance(node, cst.CSTNode)
        text = text.replace("{node}", program.module.code_for_node(node).strip())
    if "{target}" in text:
        small = cst.ensure_type(program.unit_of[line.node].small, cst.Assign)
        text = text.replace("{target}", program.module.code_for_node(small.targets[0].target))
    return text if _is_python(text) else ""


def _is_python(text: str) -> bool:
    """Whether the label of something, which may be words, has left a line that can be run."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def shadowed(program: Program, edits: Edits, additions: Additions) -> set[str]:
    """Names that the program has for something of its own, and what is added to it for an observer."""
    texts = [*additions.texts, *(name for node, text in edits.items() for name in _new_names(node, text))]
    return {*_called_observers(texts), *(WATCHED & _names_in(texts))} & program.names


def _imports(text: str, own: set[str]) -> list[str]:
    """``own`` are the program's names for other things."""
    lines = ["import torch"]
    if "islice(" in text:
        lines.append("from itertools import islice")
    if "watched" in text and "watched" not in own:
        lines.append("watched = []")
    if re.search(r"\b(init_process_group|init_device_mesh)\(", text):
        lines.append(MEETING if starts_ranks(text) else ALONE)
    return [*lines, *(source for name, source in _called_observers([text]).items() if name not in own)]


def starts_ranks(text: str) -> bool:
    """Whether a program starts processes itself, instead of being launched once a rank."""
    tree = _parsed(text)
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    names = {call.attr if isinstance(call, ast.Attribute) else getattr(call, "id", "") for call in calls}
    return not STARTS_RANKS.isdisjoint(names)


def _called_observers(texts: Iterable[str]) -> dict[str, str]:
    """By name the source of the observers that texts call, and of those that they call."""
    found: set[str] = set()
    waiting = [*texts]
    while waiting:
        new = (_names_in([waiting.pop()]) & _observers().keys()) - found
        found |= new
        waiting += [_observers()[name] for name in new]
    return {name: source for name, source in _observers().items() if name in found}


def _names_in(texts: Iterable[str]) -> set[str]:
    trees = [_parsed(text) for text in texts]
    return {node.id for tree in trees if tree for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _new_names(node: cst.CSTNode, text: str) -> Iterator[str]:
    """The names that a new text for a node uses more often than the program's own text does."""
    before, after = (
        Counter(part.id for part in ast.walk(tree) if isinstance(part, ast.Name)) if tree else Counter[str]()
        for tree in (_parsed(source_text(node)), _parsed(text))
    )
    return (name for name in after if after[name] > before[name])


def _parsed(text: str) -> ast.AST | None:
    """A program, or some of the arguments of a call."""
    for form in (text, f"_({text})"):
        with contextlib.suppress(SyntaxError):
            return ast.parse(form)
    return None


def observing(text: str) -> Iterator[int]:
    """The lines of a program in which observers are defined; none if it is not Python."""
    tree = _parsed(text)
    for node in tree.body if isinstance(tree, ast.Module) else ():
        if isinstance(node, ast.FunctionDef) and node.name in _observers():
            yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


@cache
def _observers() -> dict[str, str]:
    """The source of each observer by name, without its types; read and not imported because importing takes PyTorch."""
    tree = ast.parse(Path(__file__).with_name("observers.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {function.name: f"\n{ast.unparse(untyped(function))}\n" for function in functions}


def untyped(tree: ast.AST) -> ast.AST:
    """The tool's own source without its types, as it is copied into a slice."""
    changed: ast.AST = _Untyped().visit(tree)
    return changed


class _Untyped(ast.NodeTransformer):
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None
        return ast.Assign([node.target], node.value, lineno=node.lineno)


def _is_future(line: cst.CSTNode) -> bool:
    if not isinstance(line, cst.SimpleStatementLine) or not isinstance(line.body[0], cst.ImportFrom):
        return False
    module = line.body[0].module
    return isinstance(module, cst.Name) and module.value == "__future__"


class _Renderer(cst.CSTTransformer):
    def __init__(self, piece: Slice, edits: Edits, additions: Additions) -> None:
        self.piece = piece
        self.program = piece.program
        self.edits = edits
        self.additions = additions
        self.effects = effects_of(piece.program)
        self.unwrapped = {
            outer
            for unit in (*piece.criteria, *piece.calls)
            for outer in unit.above
            if isinstance(outer.node, (cst.Try, cst.TryStar)) and not self.effects.deals_with_errors(outer)
        }
        self.cut = set() if piece.verbatim else set(_loops_to_cut(piece))
        self.placed: dict[Unit, cst.CSTNode] = {}  # the statement of each unit, as it is in the end
        self.added: dict[Line, cst.CSTNode] = {}
        self._changed: dict[cst.CSTNode, cst.CSTNode] = {}

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        if original_node in self.edits:
            updated_node = like(original_node, self.edits[original_node])
            if not isinstance(original_node, cst.BaseSmallStatement):
                return updated_node
        if isinstance(original_node, cst.BaseSmallStatement):
            self._changed[original_node] = updated_node
            return updated_node
        if isinstance(original_node, cst.SimpleStatementLine):
            return cst.FlattenSentinel(self._lines(original_node, original_node.leading_lines))
        if isinstance(original_node, cst.SimpleStatementSuite):
            return cst.IndentedBlock(self._lines(original_node))
        if isinstance(original_node, COMPOUND):
            return self._leave_compound(self.program.unit_of[original_node], updated_node)
        if isinstance(original_node, cst.Else) and _is_empty(updated_node.body):
            return cst.RemoveFromParent()
        if isinstance(original_node, cst.ExceptHandler):
            return updated_node
        return super().on_leave(original_node, updated_node)

    def _lines(
        self, original: cst.SimpleStatementLine | cst.SimpleStatementSuite, leading: Sequence[cst.EmptyLine] = ()
    ) -> list[cst.BaseStatement]:
        """Each statement of a line on a line of its own, with what is added to it."""
        lines: list[cst.BaseStatement] = []
        for node in original.body:
            unit = self.program.unit_of[node]
            if unit not in self.piece.kept:
                continue
            small = self._changed[node]
            if unit in self.piece.calls:
                small = cst.Expr(self.edits_in(self.piece.calls[unit]))
            assert isinstance(small, cst.BaseSmallStatement)
            line = cst.SimpleStatementLine(
                [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
                leading_lines=() if lines else leading,
                trailing_whitespace=original.trailing_whitespace,
            )
            lines += self._with_additions(unit, line)
        return lines

    def _with_additions(self, unit: Unit, statement: cst.BaseStatement) -> list[cst.BaseStatement]:
        mark = self.additions.marks.get(unit, "")
        if mark or not self.piece.verbatim:
            statement = _commented(statement, mark)
        self.placed[unit] = statement
        before = [self._parsed(line) for line in self.additions.before.get(unit, ())]
        after = [self._parsed(line) for line in self.additions.after.get(unit, ())]
        return [*before, statement, *after]

    def _leave_compound(self, unit: Unit, updated):  # type: ignore[no-untyped-def]
        if unit not in self.piece.kept:
            return cst.RemoveFromParent()
        if not self.piece.verbatim:
            if isinstance(updated, (cst.Try, cst.TryStar)) and self._is_unwrapped(unit):
                parts = (updated.body, getattr(updated.orelse, "body", None), getattr(updated.finalbody, "body", None))
                return cst.FlattenSentinel([line for part in parts if part is not None for line in part.body])
            if unit in self.cut:
                updated = _cut(updated, _rounds(self.piece, unit))
            if isinstance(updated, cst.FunctionDef):
                updated = updated.with_changes(returns=None)
        if isinstance(updated, (cst.If, cst.For, cst.While)) and _is_empty_else(updated):
            updated = updated.with_changes(orelse=None)
        lines = self._with_additions(unit, updated)
        if unit.is_elif:
            return lines[0] if len(lines) == 1 else cst.Else(cst.IndentedBlock(lines))
        return cst.FlattenSentinel(lines)

    def _parsed(self, line: Line) -> cst.BaseStatement:
        statement = cst.parse_statement(filled(line, self.program, self.edits))
        self.added[line] = statement
        return statement

    def edits_in(self, node: cst.BaseExpression) -> cst.BaseExpression:
        visited = node.visit(_Editor(self.edits))
        assert isinstance(visited, cst.BaseExpression)
        return visited

    def _is_unwrapped(self, unit: Unit) -> bool:
        """A try around the finding would hide it; one without its handlers does not."""
        return unit in self.unwrapped or not any(child.handler and child in self.piece.kept for child in unit.children)

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node if self.piece.verbatim else updated_node.with_changes(annotation=None)


class _Editor(cst.CSTTransformer):
    def __init__(self, edits: Edits) -> None:
        self.edits = edits

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]
        return like(original_node, self.edits[original_node]) if original_node in self.edits else updated_node


class _Verbatim(cst.Name):
    """Text that stands where an expression stood."""

    def _validate(self) -> None:
        pass

    def _visit_and_replace_children(self, visitor: cst.CSTVisitorT) -> _Verbatim:
        return self


def like(node: cst.CSTNode, text: str) -> cst.CSTNode:
    """The text in the place of a node; parentheses around an expression stay."""
    if isinstance(node, cst.BaseExpression):
        return _Verbatim(text, lpar=node.lpar, rpar=node.rpar)
    if isinstance(node, cst.Arg):
        keyword, equal, value = text.partition("=")
        if equal and keyword.isidentifier():
            return cst.Arg(_Verbatim(value), cst.Name(keyword), EQUAL, comma=node.comma)
        return cst.Arg(_Verbatim(text), comma=node.comma)
    assert isinstance(node, cst.BaseSmallStatement)
    return cst.Expr(_Verbatim(text), semicolon=node.semicolon)


def _is_empty(block: cst.CSTNode) -> bool:
    return isinstance(block, cst.IndentedBlock) and not block.body


def _is_empty_else(node: cst.CSTNode) -> bool:
    otherwise = getattr(node, "orelse", None)
    return isinstance(otherwise, cst.Else) and _is_empty(otherwise.body)


def _commented(node, mark: str):  # type: ignore[no-untyped-def]
    """A unit with its mark in place of its own comments."""
    comment = cst.Comment(f"{MARK}{' '.join(mark.split())}") if mark else None  # code in a message may take lines
    space = cst.SimpleWhitespace("  " if mark else "")
    if isinstance(node, cst.SimpleStatementLine):
        ending = node.trailing_whitespace.with_changes(comment=comment, whitespace=space)
        return node.with_changes(trailing_whitespace=ending)
    body = getattr(node, "body", None)
    if isinstance(body, cst.IndentedBlock):
        ending = body.header.with_changes(comment=comment, whitespace=space)
        return node.with_changes(body=body.with_changes(header=ending))
    return node


# --- loops ---------------------------------------------------------------------------------------------------


def _loops_to_cut(piece: Slice) -> list[Unit]:
    """The loops that train: those around what the slice is about, and whatever goes back or steps in them."""
    training = {unit for unit in piece.kept if any(called(call) in TRAINING for call in unit.calls)}
    loops = {loop for unit in (*piece.calls, *piece.criteria, *training) for loop in _loops_around(unit)}
    return [
        loop for loop in loops if loop in piece.kept and (_counts(loop) or any(unit in training for unit in loop.below))
    ]


def _loops_around(unit: Unit) -> list[Unit]:
    """Those of them that run for training: not while an object is made."""
    if unit.function is not None and unit.function.name == "__init__":
        return []
    return [outer for outer in unit.above if isinstance(outer.node, (cst.For, cst.While))]


def _counts(loop: Unit) -> bool:
    """Whether a loop counts its rounds, or goes over what may be data; not over the parts of something."""
    if not isinstance(loop.node, cst.For):
        return True
    source = loop.node.iter
    if isinstance(source, cst.Call):
        return called(source) in ("range", "enumerate", "count", "tqdm", "trange")
    return any(word in source_text(source).lower() for word in ("load", "batch", "data", "set"))


def _rounds(piece: Slice, loop: Unit) -> int:
    """As many as it takes to come by what happens in a certain round."""
    counters = _names(loop.node.target) if isinstance(loop.node, cst.For) else set()
    found = [ITERATIONS]
    for unit in loop.below:
        test = unit.node.test if isinstance(unit.node, cst.If) and unit in piece.kept else None
        if isinstance(test, cst.Comparison) and source_text(test.left) in counters:
            number = piece.program.number(test.comparisons[0].comparator)
            found.append(number + 2 if number is not None and number < MOST_ROUNDS else 0)
    return max(found)


def _names(target: cst.CSTNode) -> set[str]:
    """Those that a target binds."""
    if isinstance(target, cst.Name):
        return {target.value}
    return {name for child in target.children for name in _names(child)}


def _cut(node: cst.CSTNode, rounds: int) -> cst.CSTNode:
    if isinstance(node, cst.For):
        # one that is short already stays as it is
        if isinstance(node.iter, cst.Call) and called(node.iter) == "range" and len(node.iter.args) == 1:
            count = node.iter.args[0].value
            if isinstance(count, cst.Integer) and count.evaluated_value <= rounds:
                return node
        few = cst.parse_expression(f"islice(_, {rounds})")
        assert isinstance(few, cst.Call)
        return node.with_changes(iter=few.with_changes(args=[few.args[0].with_changes(value=node.iter), few.args[1]]))
    assert isinstance(node, cst.While)
    over = cst.If(
        test=cst.UnaryOperation(cst.Not(), _enclosed(node.test)),
        body=cst.IndentedBlock([cst.SimpleStatementLine([cst.Break()])]),
    )
    return cst.For(
        target=cst.Name("_"),
        iter=cst.parse_expression(f"range({ITERATIONS})"),
        body=node.body.with_changes(body=[over, *node.body.body]),
        leading_lines=node.leading_lines,
    )


def _enclosed(node: cst.BaseExpression) -> cst.BaseExpression:
    return node if node.lpar else node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
