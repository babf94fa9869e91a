"""Abstract nodes: libcst's node types without layout, with the full meaning of a program at a fraction of the cost.

Code that reads an abstract node can treat it as a libcst node: ``isinstance`` holds, and the meaningful fields exist.
Whitespace, commas and parentheses are libcst's defaults. The source text remains available: each node keeps the text
and the node of Python's own tree from which it was made, which has lines and columns.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache, lru_cache
from typing import Any, TypeVar

import libcst as cst

from placement_lint.finding import Range
from placement_lint.source.layout import Layout, Span, Unplaced

Kind = TypeVar("Kind", bound=cst.CSTNode)


class Abstract:
    """The common base of abstract nodes: their origin, their kind, and the fields that they have."""

    __slots__ = ()

    layout: Layout
    origin: ast.AST
    kind: type[cst.CSTNode]
    kept: tuple[str, ...]
    later: Mapping[str, Callable[[Layout, Any], Any]]

    def __getattr__(self, name: str) -> Any:
        """The content of a field that is read for the first time."""
        if name not in self.later:
            raise AttributeError(name)
        content = self.later[name](self.layout, self.origin)
        setattr(self, name, content)
        return content

    def with_changes(self, **changes: Any) -> cst.CSTNode:
        """A libcst node with other content; abstract nodes in it keep their source text."""
        kept = {name: getattr(self, name) for name in self.kept}
        return self.kind(**_defaults(self.kind) | kept | (_PARENTHESES if is_grouped(self) else {}) | changes)

    def _codegen(self, state: Any, **_: Any) -> None:
        state.add_token(text_of(self))


_PARENTHESES = {"lpar": [cst.LeftParen()], "rpar": [cst.RightParen()]}

ABSTRACT: dict[type[cst.CSTNode], type[cst.CSTNode]] = {}
"""The types of the abstract nodes, by the libcst types that they stand for."""


# libcst's own nodes are frozen, by methods that Python would call to fill a field; these restore the defaults.
_OF_OBJECTS = {name: getattr(object, name) for name in ("__setattr__", "__delattr__", "__eq__", "__hash__")}


def maker(kind: type[Kind], *kept: str, **later: Callable[[Layout, Any], Any]) -> Callable[..., Kind]:
    """A constructor of abstract nodes of a kind, from a layout, an origin, and the content of the fields in ``kept``.

    It fills the slots of a node directly: libcst's constructors validate their arguments, which takes longer.
    The content of a field in ``later`` is computed from the layout and the origin when it is first read.
    """
    defaults = {name: value for name, value in _defaults(kind).items() if name not in {*kept, *later}}
    own = {"__slots__": ("layout", "origin"), "kind": kind, "kept": (*kept, *later), "later": later}
    abstract: Any = type(kind.__name__, (Abstract, kind), {**defaults, **own, **_OF_OBJECTS})
    ABSTRACT[kind] = abstract
    return _compiled(abstract, ("layout", "origin", *kept))


def _compiled(kind: Any, slots: Sequence[str]) -> Callable[..., Any]:
    """A function that fills the slots of a new node; generated per kind, as it runs for every node of every text."""
    scope: dict[str, Any] = {"new": object.__new__, "kind": kind}
    lines = [f"def make({', '.join(slots)}):", " node = new(kind)"]
    lines += [f" node.{slot} = {slot}" for slot in slots]
    exec("\n".join((*lines, " return node")), scope)
    make: Callable[..., Any] = scope["make"]
    return make


@cache
def _defaults(kind: type[cst.CSTNode]) -> dict[str, Any]:
    """The defaults of libcst for optional fields."""
    made = {each.name: each.default_factory() for each in fields(kind) if each.default_factory is not MISSING}
    return made | {each.name: each.default for each in fields(kind) if each.default is not MISSING}


def meaning(literal: cst.Integer | cst.Float | cst.SimpleString) -> object:
    """The value of a literal; Python has parsed it already if the literal is abstract."""
    origin = literal.origin if isinstance(literal, Abstract) else None
    return origin.value if isinstance(origin, ast.Constant) else _meaning(literal.value)


def words(part: cst.FormattedStringText, string: cst.FormattedString) -> str:
    """The text between the fields of an f-string, with its escapes resolved."""
    if isinstance(part, Abstract):
        return part.value
    text = part.value.replace("{{", "{").replace("}}", "}")
    return str(_meaning(f"{string.prefix.lower().replace('f', '')}{string.quote}{text}{string.quote}"))


@lru_cache(maxsize=8192)
def _meaning(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError):  # in syntax too new for this Python, whose literals are not checked
            return text


# --- source text ---------------------------------------------------------------------------------------------------


def text_of(node: Abstract) -> str:
    """The source text of a node, with the parentheses around it, as libcst would write it out."""
    try:
        return node.layout.written(_written(node))
    except Unplaced:
        return _worded(node)


def _worded(node: Any) -> str:
    """Code with its meaning, which may differ from the source text."""
    if isinstance(node, cst.Name):
        return node.value
    if issubclass(node.kind, cst.BaseExpression) and isinstance(node.origin, ast.expr):
        return ast.unparse(node.origin)
    return _MODULE.code_for_node(node.with_changes()).strip()


_MODULE = cst.Module([])


def places(module: Abstract, nodes: Sequence[cst.CSTNode], roughly: bool = False) -> dict[cst.CSTNode, Range]:
    """The positions of those nodes that belong to the module, as in libcst: without the parentheses around them.

    If Python's own tree has no position for a node, the result is the enclosing node's position if ``roughly``;
    otherwise :class:`Unplaced` is raised.
    """
    find, tree = _near if roughly else _bare, module.layout.tree
    return {
        node: node.layout.range(find(node)) for node in nodes if isinstance(node, Abstract) and node.layout.tree is tree
    }


def _near(node: Any) -> Span:
    try:
        return _bare(node)
    except Unplaced:
        span: Span = node.layout.nearest(node.origin)
        return span


def is_grouped(node: Abstract) -> bool:
    """Whether there are parentheses around it, as far as known."""
    try:
        return _written(node) != _bare(node)
    except Unplaced:
        return False


def _written(node: Any) -> Span:
    bare = _bare(node)
    if issubclass(node.kind, cst.BaseExpression):
        grouped: Span = node.layout.grouped(bare)
        return grouped
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.decorators:
        return _bare(node.decorators[0])[0], bare[1]
    return bare


def _bare(node: Any) -> Span:
    return _SPANS.get(node.kind, _of_origin)(node)


def _of_origin(node: Any) -> Span:
    span: Span = node.layout.span(node.origin)
    return span


def _unknown(node: Any) -> Span:
    raise Unplaced


def _of_attribute(node: Any) -> Span:
    return _of_origin(node) if isinstance(node.origin, ast.Attribute) else _unknown(node)


def _of_name(node: Any) -> Span:
    """A name is a node of its own, or the end of an attribute, or the beginning of a parameter or a keyword."""
    begin, end = _of_origin(node)
    if isinstance(node.origin, ast.Attribute):
        return end - len(node.value), end
    if isinstance(node.origin, (ast.arg, ast.keyword)):
        return begin, begin + len(node.value)
    return (begin, end) if isinstance(node.origin, (ast.Name, ast.Constant)) else _unknown(node)


def _of_param(node: Any) -> Span:
    begin, end = _of_name(node.name)
    return begin - len(node.star), end


def _of_group(node: Any) -> Span:
    """A tuple or a generator: Python's tree includes the parentheses."""
    if isinstance(node.origin, ast.Delete):
        return _written(node.elements[0].value)[0], _written(node.elements[-1].value)[1]
    span = _of_origin(node)
    first = node.elements[0] if isinstance(node, cst.Tuple) and node.elements else None
    if first is not None and _written(first)[0] == span[0]:
        return span
    inside: Span = node.layout.between(span)
    return inside


def _of_value(node: Any) -> Span:
    return _of_origin(node) if isinstance(node.origin, (ast.keyword, ast.Starred)) else _written(node.value)


def _of_operands(node: cst.BooleanOperation) -> Span:
    return _written(node.left)[0], _written(node.right)[1]


def _of_pair(node: cst.DictElement) -> Span:
    return _written(node.key)[0], _written(node.value)[1]


def _of_block(node: Any) -> Span:
    return _bare(node.body[0])[0], _bare(node.body[-1])[1]


def _of_decorator(node: Any) -> Span:
    begin, end = _written(node.decorator)
    return node.layout.text.rindex("@", 0, begin), end


def _of_loop(node: Any) -> Span:
    """The span of a comprehension's loop, which for libcst begins where the expression before it ends."""
    begin, _ = _written(node.target)
    last = node.inner_for_in or (node.ifs[-1].test if node.ifs else node.iter)
    word = "async" if node.asynchronous else "for"
    return node.layout.before_blank(node.layout.text.rindex(word, 0, begin)), _written(last)[1]


def _of_replacement(node: Any) -> Span:
    span: Span = node.layout.in_braces(_written(node.expression))
    return span


def _of_target(node: cst.AssignTarget) -> Span:
    return _written(node.target)


def _of_with_item(node: cst.WithItem) -> Span:
    begin, end = _written(node.item)
    return begin, _written(node.asname.name)[1] if node.asname is not None else end


_SPANS: dict[type[cst.CSTNode], Callable[[Any], Span]] = {
    cst.Name: _of_name,
    cst.Attribute: _of_attribute,
    cst.Param: _of_param,
    cst.Tuple: _of_group,
    cst.GeneratorExp: _of_group,
    cst.Arg: _of_value,
    cst.Element: _of_value,
    cst.Index: _of_value,
    cst.BooleanOperation: _of_operands,
    cst.DictElement: _of_pair,
    cst.SimpleStatementLine: _of_block,
    cst.SimpleStatementSuite: _of_block,
    cst.IndentedBlock: _of_block,
    cst.Decorator: _of_decorator,
    cst.CompFor: _of_loop,
    cst.FormattedStringExpression: _of_replacement,
    cst.AssignTarget: _of_target,
    cst.WithItem: _of_with_item,
    **dict.fromkeys(
        (
            cst.AsName,
            cst.CompIf,
            cst.ComparisonTarget,
            cst.Else,
            cst.Finally,
            cst.FormattedStringText,
            cst.From,
            cst.Module,
            cst.NameItem,
            cst.Parameters,
            cst.StarredDictElement,
            cst.SubscriptElement,
        ),
        _unknown,
    ),
}
