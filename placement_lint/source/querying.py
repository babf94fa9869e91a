"""Questions about a syntax tree that a few rules of the analysis hang on; layout and comments never answer them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from placement_lint.source.walking import children, fields_of

LOOPS = (cst.For, cst.While)
DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


def names_in(node: cst.CSTNode) -> Iterator[str]:
    """The identifiers in a node: of variables, attributes, keywords and definitions."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Name):
            yield node.value
        waiting.extend(children(node))


def called_in(node: cst.CSTNode) -> Iterator[str]:
    """The variables that a node calls, ``x`` of ``x(1)``."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
        yield node.func.value
    for child in children(node):
        yield from called_in(child)


def reads_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether ``….name`` stands somewhere in a node."""
    if isinstance(node, cst.Attribute) and node.attr.value == name:
        return True
    return any(reads_attribute(child, name) for child in children(node))


def saves_to_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether ``….save(…, self.name)`` stands somewhere in a node."""
    is_save = isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "save"
    given = node.args[1:] if is_save and isinstance(node, cst.Call) else ()
    if any(isinstance(one.value, cst.Attribute) and one.value.attr.value == name for one in given):
        return True
    return any(saves_to_attribute(child, name) for child in children(node))


def may_break(loop: cst.For | cst.While) -> bool:
    """Whether the body of a loop has a ``break`` of this loop, not of one inside."""
    return any(_breaks(statement) for statement in loop.body.body)


def ends_at_once(loop: cst.While) -> bool:
    """Whether a round ends the loop, unless it fails: its body, or the ``try`` there, ends in a jump."""
    last = loop.body.body[-1] if loop.body.body else None
    while isinstance(last, (cst.Try, cst.TryStar, cst.With)):
        suite = last.orelse if isinstance(last, cst.Try) and last.orelse is not None else last
        last = suite.body.body[-1] if suite.body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], (cst.Break, cst.Return))


def _breaks(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.Break):
        return True
    if isinstance(node, LOOPS):
        # A `break` in the `else` of an inner loop leaves the outer one.
        return node.orelse is not None and _breaks(node.orelse)
    if isinstance(node, (*DEFINITIONS, cst.BaseExpression)):
        return False
    return any(_breaks(child) for child in children(node))


def raises(node: cst.CSTNode) -> bool:
    """Whether a ``raise`` stands somewhere in a node, but for what is defined there."""
    if isinstance(node, (*DEFINITIONS, cst.BaseExpression)):
        return False
    return isinstance(node, cst.Raise) or any(raises(child) for child in children(node))


def same_code(one: object, other: object) -> bool:
    """Whether two nodes, or what a field of each has, are equal but for their layout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, cst.CSTNode):
        return all(same_code(getattr(one, name), getattr(other, name)) for name in fields_of(type(one)))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_code, one, other))
    return one == other
