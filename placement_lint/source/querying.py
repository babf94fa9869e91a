"""Queries about a syntax tree that a few rules of the analysis depend on; layout and comments never matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import lru_cache

import libcst as cst

from placement_lint.source.remembered import remembered
from placement_lint.source.walking import children, fields_of, nodes_in, nodes_of

LOOPS = (cst.For, cst.While)
DEFINITIONS = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


@remembered
def names_in(node: cst.CSTNode) -> Set[str]:
    """The identifiers in a node: of variables, attributes, keywords and definitions."""
    return {each.value for each in nodes_of(cst.Name, node)}


@remembered
def words_in(node: cst.CSTNode) -> Set[str]:
    """The identifiers in a node, and the content of its strings."""
    words = (each for each in nodes_in(node) if isinstance(each, (cst.Name, cst.SimpleString, cst.FormattedStringText)))
    return {word.value.strip("\"'") for word in words}


@lru_cache(1024)
def _parsed(text: str) -> cst.CSTNode:
    try:
        return cst.parse_expression(text)
    except cst.ParserSyntaxError:
        return cst.SimpleString(repr(text))


def as_expression(source: str | cst.CSTNode) -> cst.CSTNode:
    """The program's text as a node; text that is not code becomes a string."""
    return _parsed(source) if isinstance(source, str) else source


def is_literal(node: cst.CSTNode, *values: object) -> bool:
    """Whether a node is a literal of one of these constants."""
    sign = 1
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        node, sign = node.expression, -1
    if isinstance(node, cst.Integer):
        written: object = sign * int(node.value, 0)
    elif isinstance(node, cst.SimpleString):
        written = node.value.strip("\"'")
    elif isinstance(node, cst.Name) and node.value in _CONSTANTS:
        written = _CONSTANTS[node.value]
    else:
        return False
    return any(type(written) is type(value) and written == value for value in values)


_CONSTANTS = {"None": None, "True": True, "False": False}


def last_comparison(node: cst.CSTNode) -> cst.Comparison | None:
    """The comparison in which a test ends: ``b > 1`` of ``a and b > 1``."""
    while isinstance(node, (cst.BooleanOperation, cst.UnaryOperation)):
        node = node.right if isinstance(node, cst.BooleanOperation) else node.expression
    return node if isinstance(node, cst.Comparison) else None


def names_after(node: cst.CSTNode, last: cst.CSTNode) -> list[str] | None:
    """The identifiers in a node that come after one of its inner nodes; None if that is not in it."""
    waiting = [node]
    after: list[str] | None = None
    while waiting:
        node = waiting.pop()
        if node is last:
            after = []
            continue
        if after is not None and isinstance(node, cst.Name):
            after.append(node.value)
        waiting.extend(reversed([*children(node)]))
    return after


def last_name(node: cst.CSTNode) -> str:
    """``c`` of ``a.b.c``; empty if a node is not a name."""
    if isinstance(node, cst.Attribute):
        return node.attr.value
    return node.value if isinstance(node, cst.Name) else ""


def dotted(node: cst.CSTNode) -> str:
    """``"a.b.c"`` of such a name; empty if a node is not a name."""
    if isinstance(node, cst.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return node.value if isinstance(node, cst.Name) else ""


def operators_in(node: cst.CSTNode) -> set[type[cst.CSTNode]]:
    """The kinds of the operators between two operands in a node."""
    return {type(each.operator) for each in nodes_of(cst.BinaryOperation, node)}


def attributes_read(node: cst.CSTNode, variable: str) -> Iterator[str]:
    """``x`` of each ``variable.x`` in a node, except assignment targets."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (cst.AssignTarget, cst.AnnAssign)) and isinstance(node.target, cst.Attribute):
            waiting.extend(child for child in children(node) if child is not node.target)
            node = node.target.value
        elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == variable:
            yield node.attr.value
        waiting.extend(children(node))


def assigns_none(node: cst.CSTNode, name: str) -> bool:
    """Whether ``self.name = None`` occurs in a node."""
    return any(
        _is_of_self(target, name) and isinstance(value, cst.Name) and value.value == "None"
        for target, value in assignments_in(node)
    )


def assignments_in(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    """What a node assigns to, each with the value if that is written: not for a loop's variable, or an item's."""
    for each in nodes_of(cst.Assign, node):
        for target in each.targets:
            yield from _bound(target.target, each.value)
    for single in nodes_of(cst.AnnAssign, node):
        if single.value is not None:
            yield single.target, single.value
    for loop in nodes_of(cst.For, node):
        yield from _bound(loop.target, None)
    for name in nodes_of(cst.AsName, node):
        yield from _bound(name.name, None)


def _bound(
    target: cst.BaseExpression, value: cst.BaseExpression | None
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    if not isinstance(target, (cst.Tuple, cst.List)):
        yield target, value
        return
    given = value.elements if isinstance(value, (cst.Tuple, cst.List)) else ()
    starred = any(isinstance(each, cst.StarredElement) for each in (*target.elements, *given))
    paired = len(given) == len(target.elements) and not starred
    for place, each in enumerate(target.elements):
        yield from _bound(each.value, given[place].value if paired else None)


def method_calls_in(node: cst.CSTNode) -> Iterator[tuple[cst.BaseExpression, str]]:
    """``x`` and ``cpu`` of each ``x.cpu()`` in a node."""
    for each in nodes_of(cst.Call, node):
        if isinstance(each.func, cst.Attribute):
            yield each.func.value, each.func.attr.value


@remembered
def assignments_to_self(node: cst.CSTNode) -> Sequence[tuple[str, cst.BaseExpression | None]]:
    """The names of ``self.name = value`` in a node, each with the value if that is written."""
    return [
        (target.attr.value, value)
        for target, value in assignments_in(node)
        if isinstance(target, cst.Attribute) and last_name(target.value) == "self"
    ]


def asks_if_unset(test: cst.BaseExpression, name: str) -> bool:
    """Whether a test holds if ``self.name`` is None, or if it does not exist: both leave it to be made."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        return asks_if_unset(test.left, name) or asks_if_unset(test.right, name)
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        call = test.expression
        named = isinstance(call, cst.Call) and last_name(call.func) == "hasattr" and len(call.args) == 2
        return (
            named
            and isinstance(call, cst.Call)
            and last_name(call.args[0].value) == "self"
            and is_literal(call.args[1].value, name)
        )
    if not isinstance(test, cst.Comparison) or len(test.comparisons) != 1 or not _is_of_self(test.left, name):
        return False
    target = test.comparisons[0]
    return isinstance(target.operator, (cst.Is, cst.Equal)) and last_name(target.comparator) == "None"


def asks_if_flag_is_unset(statement: cst.If, rest: Sequence[cst.CSTNode]) -> bool:
    """``if not self.ready:`` above assignments to attributes only, and among them ``self.ready = True``.

    Also to variables that ``rest``, the statements that follow, does not mention.
    """
    test, lines = statement.test, statement.body.body
    if not isinstance(test, cst.UnaryOperation) or not isinstance(test.operator, cst.Not) or statement.orelse:
        return False
    parts = [part for line in lines if isinstance(line, cst.SimpleStatementLine) for part in line.body]
    targets = [part.targets[0].target for part in parts if isinstance(part, cst.Assign) and len(part.targets) == 1]
    if len(targets) < len(parts) or not all(isinstance(line, cst.SimpleStatementLine) for line in lines):
        return False
    later = {name for line in rest for name in _variables_in(line)}
    own = all(
        (isinstance(target, cst.Attribute) and last_name(target.value) == "self")
        or (isinstance(target, cst.Name) and target.value not in later)
        for target in targets
    )
    return own and any(
        isinstance(part, cst.Assign) and same_code(part.targets[0].target, test.expression) and _is_true(part.value)
        for part in parts
    )


def _variables_in(node: cst.CSTNode) -> Iterator[str]:
    """The identifiers in a node, without those of attributes."""
    attributes = {each.attr for each in nodes_of(cst.Attribute, node)}
    return (each.value for each in nodes_of(cst.Name, node) if each not in attributes)


def _is_true(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Name) and node.value == "True"


def read_through(node: cst.CSTNode, name: str) -> Iterator[str]:
    """The attributes of ``self.name`` that are read in a node; an empty string for ``self.name`` itself."""
    if _is_of_self(node, name):
        yield ""
    elif isinstance(node, cst.Attribute) and _is_of_self(node.value, name):
        yield node.attr.value
    else:
        for child in children(node):
            yield from read_through(child, name)


def _is_of_self(node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == name and last_name(node.value) == "self"


@remembered
def called_in(node: cst.CSTNode) -> Set[str]:
    """The variables that a node calls, ``x`` of ``x(1)``."""
    return {each.func.value for each in nodes_of(cst.Call, node) if isinstance(each.func, cst.Name)}


# Calls that change nothing, and whose result says what the program was told to use, or could use.
_ASK = frozenset({"is_available", "device_count", "device", "getattr", "get", "getenv", "bool", "int", "str", "len"})
# The statements with which a program chooses, and says what it chose.
_CHOOSE = (cst.Assign, cst.AnnAssign, cst.If, cst.Pass, cst.Expr)
_SAY = frozenset({"print", "format"})


@remembered
def only_asks(node: cst.CSTNode) -> bool:
    """Whether an expression reads settings, and asks for the devices that there are, but does nothing."""
    return all(last_name(each.func) in _ASK for each in nodes_of(cst.Call, node))


@remembered
def only_chooses(node: cst.If) -> bool:
    """Whether the branches of a statement only give names values, as a conditional expression does."""
    for each in nodes_in(node):
        if isinstance(each, cst.Call) and last_name(each.func) not in _ASK | _SAY:
            return False
        if isinstance(each, (cst.BaseSmallStatement, cst.BaseCompoundStatement)) and not isinstance(each, _CHOOSE):
            return False
    return True


def reads_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether ``….name`` occurs in a node."""
    return any(each.attr.value == name for each in nodes_of(cst.Attribute, node))


def saves_to_attribute(node: cst.CSTNode, name: str) -> bool:
    """Whether ``….save(…, self.name)`` occurs in a node."""
    calls = (each for each in nodes_of(cst.Call, node) if isinstance(each.func, cst.Attribute))
    given = (one.value for call in calls if last_name(call.func) == "save" for one in call.args[1:])
    return any(isinstance(value, cst.Attribute) and value.attr.value == name for value in given)


def may_break(loop: cst.For | cst.While) -> bool:
    """Whether the body of a loop has a ``break`` of this loop, not of an inner one."""
    return any(_breaks(statement) for statement in loop.body.body)


def ends_at_once(loop: cst.While) -> bool:
    """Whether an iteration ends the loop unless it fails: its body, or the ``try`` there, ends in a jump."""
    last = loop.body.body[-1] if loop.body.body else None
    while isinstance(last, (cst.Try, cst.TryStar, cst.With)):
        suite = last.orelse if isinstance(last, cst.Try) and last.orelse is not None else last
        last = suite.body.body[-1] if suite.body.body else None
    return isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], (cst.Break, cst.Return))


def _last(block: cst.CSTNode) -> cst.CSTNode | None:
    """The last simple statement of a block, or what stands there."""
    statements = block.body if isinstance(block, (cst.IndentedBlock, cst.SimpleStatementLine)) else ()
    last = statements[-1] if statements else None
    return _last(last) if isinstance(last, cst.SimpleStatementLine) else last


def returns(block: cst.CSTNode) -> bool:
    """Whether a block ends in a ``return``."""
    return isinstance(_last(block), cst.Return)


def leaves(block: cst.CSTNode) -> bool:
    """Whether a block ends in a jump, or ends the program."""
    last = _last(block)
    if isinstance(last, cst.Expr) and isinstance(last.value, cst.Call):
        return last_name(last.value.func) in ("exit", "quit")
    return isinstance(last, (cst.Return, cst.Raise, cst.Continue, cst.Break))


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
    """Whether a ``raise`` occurs in a node, not counting definitions in it."""
    if isinstance(node, (*DEFINITIONS, cst.BaseExpression)):
        return False
    return isinstance(node, cst.Raise) or any(raises(child) for child in children(node))


def same_code(one: object, other: object) -> bool:
    """Whether two nodes, or the contents of a field of each, are equal apart from layout."""
    if type(one) is not type(other):
        return False
    if isinstance(one, cst.CSTNode):
        return all(same_code(getattr(one, name), getattr(other, name)) for name in fields_of(type(one)))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same_code, one, other))
    return one == other


def mentions(node: cst.CSTNode, part: cst.CSTNode) -> bool:
    """Whether a node contains code that is the same as ``part``."""
    return same_code(node, part) or any(mentions(child, part) for child in children(node))
