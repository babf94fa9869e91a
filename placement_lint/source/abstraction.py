"""From Python's own tree of a text to abstract nodes of libcst's types.

Rare syntax has no entry here (``match``, ``except*``, type parameters): libcst parses texts that contain it. The nodes
in a function are made on first access: most functions of a text are never run.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

import libcst as cst

from placement_lint.source.abstract import ABSTRACT, maker
from placement_lint.source.layout import Layout, SparingLayout, Unplaced

Handler = TypeVar("Handler")


def by_kind(table: Mapping[type, Handler]) -> dict[type, Handler]:
    """A table whose keys are libcst types, extended with the abstract types."""
    return {**table, **{ABSTRACT[kind]: handler for kind, handler in table.items() if kind in ABSTRACT}}


@cache
def of_kind(*kinds: type) -> frozenset[type]:
    """The node types of these kinds: a lookup in the set is cheaper than ``isinstance``."""
    return frozenset(by_kind(dict.fromkeys(kinds)))


def abstracted(tree: ast.Module, text: str, statements: Sequence[int], sparing: bool = False) -> cst.Module:
    """The abstract tree of a text, from Python's own tree, which must contain only these :data:`KINDS`.

    ``statements`` are the lines on which statements begin.
    """
    layout = SparingLayout(text, tree, statements) if sparing else Layout(text, tree, statements)
    return _MODULE(layout, tree, _lines(layout, tree.body))


def _expression(layout: Layout, node: ast.AST) -> Any:
    return _EXPRESSIONS[type(node)](layout, node)


def _optional(layout: Layout, node: ast.AST | None) -> Any:
    return _expression(layout, node) if node is not None else None


def _all(layout: Layout, nodes: Iterable[ast.AST]) -> list[Any]:
    return [_expression(layout, node) for node in nodes]


# --- names and literals --------------------------------------------------------------------------------------------

_NAME = maker(cst.Name, "value")
_ATTRIBUTE = maker(cst.Attribute, "value", "attr")
_STRING = maker(cst.SimpleString, value=lambda _, node: repr(node.value))
_LITERALS: dict[type, Callable[..., cst.BaseExpression]] = {
    int: maker(cst.Integer, "value"),
    float: maker(cst.Float, "value"),
    complex: maker(cst.Imaginary, "value"),
    bool: _NAME,
    type(None): _NAME,
}
_ELLIPSIS = maker(cst.Ellipsis)
_FORMATTED = maker(cst.FormattedString, "parts")
_FORMATTED_TEXT = maker(cst.FormattedStringText, "value")
_FORMATTED_VALUE = maker(cst.FormattedStringExpression, "expression", "conversion", "format_spec")
_INFINITE = "inf"


def _name(layout: Layout, node: ast.Name) -> cst.Name:
    return _NAME(layout, node, node.id)


def _attribute(layout: Layout, node: ast.Attribute) -> cst.Attribute:
    return _ATTRIBUTE(layout, node, _expression(layout, node.value), _NAME(layout, node, node.attr))


def _dotted(layout: Layout, node: ast.AST, path: str) -> cst.Attribute | cst.Name:
    before, _, last = path.rpartition(".")
    name = _NAME(layout, node, last)
    return _ATTRIBUTE(layout, node, _dotted(layout, node, before), name) if before else name


def _constant(layout: Layout, node: ast.Constant) -> cst.BaseExpression:
    if isinstance(node.value, (str, bytes)):
        return _STRING(layout, node)
    if node.value is ...:
        return _ELLIPSIS(layout, node)
    try:
        text = repr(node.value)
    except ValueError:  # a number too long to be written in decimals
        text = format(node.value, "#x")
    return _LITERALS[type(node.value)](layout, node, text.replace(_INFINITE, "1e999") if _is_number(node) else text)


def _is_number(node: ast.Constant) -> bool:
    return isinstance(node.value, (float, complex))


def _formatted(layout: Layout, node: ast.JoinedStr) -> cst.FormattedString:
    return _FORMATTED(layout, node, _parts(layout.inside(node), node))


def _parts(layout: Layout, node: ast.JoinedStr) -> list[cst.BaseFormattedStringContent]:
    return [_part(layout, each) for each in node.values]


def _part(layout: Layout, node: ast.expr) -> cst.BaseFormattedStringContent:
    if isinstance(node, ast.Constant):
        return _FORMATTED_TEXT(layout, node, node.value)
    assert isinstance(node, ast.FormattedValue)
    specification = _parts(layout, node.format_spec) if isinstance(node.format_spec, ast.JoinedStr) else None
    conversion = chr(node.conversion) if node.conversion >= 0 else None
    return _FORMATTED_VALUE(layout, node, _expression(layout, node.value), conversion, specification)


# --- displays and comprehensions -----------------------------------------------------------------------------------

_ELEMENT = maker(cst.Element, "value")
_STARRED = maker(cst.StarredElement, "value")
_PAIR = maker(cst.DictElement, "key", "value")
_STARRED_PAIR = maker(cst.StarredDictElement, "value")
_DICT = maker(cst.Dict, "elements")
_TUPLE = maker(cst.Tuple, "elements")
_DISPLAYS: dict[type[ast.AST], Callable[..., cst.BaseExpression]] = {
    ast.Tuple: _TUPLE,
    ast.List: maker(cst.List, "elements"),
    ast.Set: maker(cst.Set, "elements"),
}
_LOOP = maker(cst.CompFor, "target", "iter", "ifs", "inner_for_in", "asynchronous")
_TEST = maker(cst.CompIf, "test")
_ASYNCHRONOUS = cst.Asynchronous()
_COMPREHENSIONS: dict[type[ast.AST], Callable[..., cst.BaseExpression]] = {
    ast.ListComp: maker(cst.ListComp, "elt", "for_in"),
    ast.SetComp: maker(cst.SetComp, "elt", "for_in"),
    ast.GeneratorExp: maker(cst.GeneratorExp, "elt", "for_in"),
}
_DICT_COMPREHENSION = maker(cst.DictComp, "key", "value", "for_in")


def _display(layout: Layout, node: ast.Tuple | ast.List | ast.Set) -> cst.BaseExpression:
    return _DISPLAYS[type(node)](layout, node, [_element(layout, each) for each in node.elts])


def _element(layout: Layout, node: ast.expr) -> cst.BaseElement:
    value = _expression(layout, node)
    return value if isinstance(node, ast.Starred) else _ELEMENT(layout, node, value)


def _starred(layout: Layout, node: ast.Starred) -> cst.StarredElement:
    return _STARRED(layout, node, _expression(layout, node.value))


def _dict(layout: Layout, node: ast.Dict) -> cst.Dict:
    pairs = zip(node.keys, node.values, strict=True)
    return _DICT(layout, node, [_pair(layout, key, value) for key, value in pairs])


def _pair(layout: Layout, key: ast.expr | None, value: ast.expr) -> cst.BaseDictElement:
    item = _expression(layout, value)
    return _STARRED_PAIR(layout, value, item) if key is None else _PAIR(layout, value, _expression(layout, key), item)


def _comprehension(layout: Layout, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> cst.BaseExpression:
    return _COMPREHENSIONS[type(node)](layout, node, _expression(layout, node.elt), _loops(layout, node.generators))


def _dict_comprehension(layout: Layout, node: ast.DictComp) -> cst.DictComp:
    key, value = _expression(layout, node.key), _expression(layout, node.value)
    return _DICT_COMPREHENSION(layout, node, key, value, _loops(layout, node.generators))


def _loops(layout: Layout, loops: Sequence[ast.comprehension]) -> cst.CompFor | None:
    """Each loop of a comprehension holds the next."""
    if not loops:
        return None
    first, *others = loops
    tests = [_TEST(layout, test, _expression(layout, test)) for test in first.ifs]
    target, items = _expression(layout, first.target), _expression(layout, first.iter)
    return _LOOP(layout, first, target, items, tests, _loops(layout, others), _asynchronous(bool(first.is_async)))


def _asynchronous(is_so: bool) -> cst.Asynchronous | None:
    return _ASYNCHRONOUS if is_so else None


# --- operators -----------------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], cst.CSTNode] = {
    ast.Add: cst.Add(),
    ast.Sub: cst.Subtract(),
    ast.Mult: cst.Multiply(),
    ast.MatMult: cst.MatrixMultiply(),
    ast.Div: cst.Divide(),
    ast.FloorDiv: cst.FloorDivide(),
    ast.Mod: cst.Modulo(),
    ast.Pow: cst.Power(),
    ast.LShift: cst.LeftShift(),
    ast.RShift: cst.RightShift(),
    ast.BitOr: cst.BitOr(),
    ast.BitAnd: cst.BitAnd(),
    ast.BitXor: cst.BitXor(),
    ast.And: cst.And(),
    ast.Or: cst.Or(),
    ast.Not: cst.Not(),
    ast.USub: cst.Minus(),
    ast.UAdd: cst.Plus(),
    ast.Invert: cst.BitInvert(),
    ast.Eq: cst.Equal(),
    ast.NotEq: cst.NotEqual(),
    ast.Lt: cst.LessThan(),
    ast.LtE: cst.LessThanEqual(),
    ast.Gt: cst.GreaterThan(),
    ast.GtE: cst.GreaterThanEqual(),
    ast.Is: cst.Is(),
    ast.IsNot: cst.IsNot(),
    ast.In: cst.In(),
    ast.NotIn: cst.NotIn(),
}
_UPDATES: dict[type[ast.AST], cst.BaseAugOp] = {
    ast.Add: cst.AddAssign(),
    ast.Sub: cst.SubtractAssign(),
    ast.Mult: cst.MultiplyAssign(),
    ast.MatMult: cst.MatrixMultiplyAssign(),
    ast.Div: cst.DivideAssign(),
    ast.FloorDiv: cst.FloorDivideAssign(),
    ast.Mod: cst.ModuloAssign(),
    ast.Pow: cst.PowerAssign(),
    ast.LShift: cst.LeftShiftAssign(),
    ast.RShift: cst.RightShiftAssign(),
    ast.BitOr: cst.BitOrAssign(),
    ast.BitAnd: cst.BitAndAssign(),
    ast.BitXor: cst.BitXorAssign(),
}
_BINARY = maker(cst.BinaryOperation, "left", "operator", "right")
_UNARY = maker(cst.UnaryOperation, "operator", "expression")
_BOOLEAN = maker(cst.BooleanOperation, "left", "operator", "right")
_COMPARISON = maker(cst.Comparison, "left", "comparisons")
_COMPARED = maker(cst.ComparisonTarget, "operator", "comparator")
_CHOICE = maker(cst.IfExp, "test", "body", "orelse")
_NAMED = maker(cst.NamedExpr, "target", "value")


def _binary(layout: Layout, node: ast.BinOp) -> cst.BinaryOperation:
    left, right = _expression(layout, node.left), _expression(layout, node.right)
    return _BINARY(layout, node, left, _OPERATORS[type(node.op)], right)


def _unary(layout: Layout, node: ast.UnaryOp) -> cst.UnaryOperation:
    return _UNARY(layout, node, _OPERATORS[type(node.op)], _expression(layout, node.operand))


def _boolean(layout: Layout, node: ast.BoolOp) -> cst.BaseExpression:
    """``a and b and c`` is one operation in Python's tree, and two in libcst's."""
    operator = _OPERATORS[type(node.op)]
    joined, *others = _all(layout, node.values)
    for other in others:
        joined = _BOOLEAN(layout, node, joined, operator, other)
    result: cst.BaseExpression = joined
    return result


def _comparison(layout: Layout, node: ast.Compare) -> cst.Comparison:
    targets = [
        _COMPARED(layout, each, _OPERATORS[type(operator)], _expression(layout, each))
        for operator, each in zip(node.ops, node.comparators, strict=True)
    ]
    return _COMPARISON(layout, node, _expression(layout, node.left), targets)


def _choice(layout: Layout, node: ast.IfExp) -> cst.IfExp:
    test, body = _expression(layout, node.test), _expression(layout, node.body)
    return _CHOICE(layout, node, test, body, _expression(layout, node.orelse))


def _named(layout: Layout, node: ast.NamedExpr) -> cst.NamedExpr:
    return _NAMED(layout, node, _expression(layout, node.target), _expression(layout, node.value))


# --- calls and items -----------------------------------------------------------------------------------------------

_CALL = maker(cst.Call, "func", "args")
_ARGUMENT = maker(cst.Arg, "value", "keyword", "star")
_SUBSCRIPT = maker(cst.Subscript, "value", "slice")
_ITEM = maker(cst.SubscriptElement, "slice")
_INDEX = maker(cst.Index, "value", "star")
_SLICE = maker(cst.Slice, "lower", "upper", "step")
_LAMBDA = maker(cst.Lambda, "params", "body")
_AWAIT = maker(cst.Await, "expression")
_YIELD = maker(cst.Yield, "value")
_FROM = maker(cst.From, "item")


def _call(layout: Layout, node: ast.Call) -> cst.Call:
    return _CALL(layout, node, _expression(layout, node.func), _arguments(layout, node.args, node.keywords))


def _arguments(layout: Layout, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> list[cst.Arg]:
    """The arguments in source order: one with a star may follow a keyword."""
    made = [_argument(layout, each) for each in positional] + [_keyword(layout, each) for each in keywords]
    if keywords and any(isinstance(each, ast.Starred) for each in positional):
        written: list[ast.expr | ast.keyword] = [*positional, *keywords]
        places = [(node.lineno, node.col_offset) for node in written]
        return [made[index] for index in sorted(range(len(made)), key=places.__getitem__)]
    return made


def _argument(layout: Layout, node: ast.expr) -> cst.Arg:
    if isinstance(node, ast.Starred):
        return _ARGUMENT(layout, node, _expression(layout, node.value), None, "*")
    return _ARGUMENT(layout, node, _expression(layout, node), None, "")


def _keyword(layout: Layout, node: ast.keyword) -> cst.Arg:
    value = _expression(layout, node.value)
    if node.arg is None:
        return _ARGUMENT(layout, node, value, None, "**")
    return _ARGUMENT(layout, node, value, _NAME(layout, node, node.arg), "")


def _subscript(layout: Layout, node: ast.Subscript) -> cst.Subscript:
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) and not _is_one(layout, node.slice) else [node.slice]
    return _SUBSCRIPT(layout, node, _expression(layout, node.value), [_item(layout, each) for each in parts])


def _is_one(layout: Layout, node: ast.Tuple) -> bool:
    """Whether a tuple between brackets is in parentheses of its own: ``x[(1, 2)]``, not ``x[1, 2]``."""
    if not node.elts:
        return True
    try:
        begin, _ = layout.span(node)
        return layout.text[begin] == "(" and layout.grouped(layout.span(node.elts[0]))[0] > begin
    except Unplaced:  # in an f-string, where both mean the same
        return False


def _item(layout: Layout, node: ast.expr) -> cst.SubscriptElement:
    if isinstance(node, ast.Slice):
        bounds = (_optional(layout, bound) for bound in (node.lower, node.upper, node.step))
        return _ITEM(layout, node, _SLICE(layout, node, *bounds))
    if isinstance(node, ast.Starred):
        return _ITEM(layout, node, _INDEX(layout, node, _expression(layout, node.value), "*"))
    return _ITEM(layout, node, _INDEX(layout, node, _expression(layout, node), None))


def _lambda(layout: Layout, node: ast.Lambda) -> cst.Lambda:
    return _LAMBDA(layout, node, _parameters(layout, node.args), _expression(layout, node.body))


def _await(layout: Layout, node: ast.Await) -> cst.Await:
    return _AWAIT(layout, node, _expression(layout, node.value))


def _yield(layout: Layout, node: ast.Yield) -> cst.Yield:
    return _YIELD(layout, node, _optional(layout, node.value))


def _yield_from(layout: Layout, node: ast.YieldFrom) -> cst.Yield:
    return _YIELD(layout, node, _FROM(layout, node, _expression(layout, node.value)))


_EXPRESSIONS: dict[type[ast.AST], Callable[[Layout, Any], cst.CSTNode]] = {
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Constant: _constant,
    ast.JoinedStr: _formatted,
    ast.Tuple: _display,
    ast.List: _display,
    ast.Set: _display,
    ast.Starred: _starred,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _boolean,
    ast.Compare: _comparison,
    ast.IfExp: _choice,
    ast.NamedExpr: _named,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.Lambda: _lambda,
    ast.Await: _await,
    ast.Yield: _yield,
    ast.YieldFrom: _yield_from,
}


# --- definitions ---------------------------------------------------------------------------------------------------

_PARAMETERS = maker(cst.Parameters, "params", "star_arg", "kwonly_params", "star_kwarg", "posonly_params")
_PARAMETER = maker(
    cst.Param,
    "name",
    "default",
    "star",
    annotation=lambda layout, node: _annotation(layout, node.annotation),
)
_ANNOTATION = maker(cst.Annotation, "annotation")
_BARE_STAR = cst.ParamStar()
_FUNCTION = maker(
    cst.FunctionDef,
    "name",
    "decorators",
    "asynchronous",
    params=lambda layout, node: _parameters(layout, node.args),
    returns=lambda layout, node: _annotation(layout, node.returns),
    body=lambda layout, node: _block(layout, layout.body_of(node)),
)
_CLASS = maker(cst.ClassDef, "name", "body", "bases", "keywords", "decorators")
_DECORATOR = maker(cst.Decorator, "decorator")


def _parameters(layout: Layout, given: ast.arguments) -> cst.Parameters:
    positional = [*given.posonlyargs, *given.args]
    defaults = [*[None] * (len(positional) - len(given.defaults)), *given.defaults]
    made = [_parameter(layout, each, default) for each, default in zip(positional, defaults, strict=True)]
    named = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    first = len(given.posonlyargs)
    star: cst.Param | cst.ParamStar | cst.MaybeSentinel = cst.MaybeSentinel.DEFAULT
    if given.vararg is not None:
        star = _parameter(layout, given.vararg, None, "*")
    elif given.kwonlyargs:
        star = _BARE_STAR
    return _PARAMETERS(
        layout,
        given,
        made[first:],
        star,
        [_parameter(layout, each, default) for each, default in named],
        _parameter(layout, given.kwarg, None, "**") if given.kwarg is not None else None,
        made[:first],
    )


def _parameter(layout: Layout, node: ast.arg, default: ast.expr | None, star: str = "") -> cst.Param:
    return _PARAMETER(layout, node, _NAME(layout, node, node.arg), _optional(layout, default), star)


def _annotation(layout: Layout, node: ast.expr | None) -> cst.Annotation | None:
    return _ANNOTATION(layout, node, _expression(layout, node)) if node is not None else None


def _function(layout: Layout, node: ast.FunctionDef | ast.AsyncFunctionDef) -> cst.FunctionDef:
    layout.let_go_of_body(node)
    return _FUNCTION(
        layout,
        node,
        _NAME(layout, node, node.name),
        _decorators(layout, node.decorator_list),
        _asynchronous(isinstance(node, ast.AsyncFunctionDef)),
    )


def _class(layout: Layout, node: ast.ClassDef) -> cst.ClassDef:
    arguments = _arguments(layout, node.bases, node.keywords)
    return _CLASS(
        layout,
        node,
        _NAME(layout, node, node.name),
        _block(layout, node.body),
        [each for each in arguments if each.keyword is None and each.star != "**"],
        [each for each in arguments if each.keyword is not None or each.star == "**"],
        _decorators(layout, node.decorator_list),
    )


def _decorators(layout: Layout, nodes: Sequence[ast.expr]) -> list[cst.Decorator]:
    return [_DECORATOR(layout, node, _expression(layout, node)) for node in nodes]


# --- blocks --------------------------------------------------------------------------------------------------------

_MODULE = maker(cst.Module, "body")
_LINE = maker(cst.SimpleStatementLine, "body")
_BLOCK = maker(cst.IndentedBlock, "body")
_SUITE = maker(cst.SimpleStatementSuite, "body")


def _block(layout: Layout, body: Sequence[ast.stmt]) -> cst.BaseSuite:
    """Statements that are indented, or that follow the colon on its line."""
    if layout.begins_line(body[0].lineno, body[0].col_offset):
        return _BLOCK(layout, body[0], _lines(layout, body))
    return _SUITE(layout, body[0], [_statement(layout, each) for each in body])


def _lines(layout: Layout, body: Sequence[ast.stmt]) -> list[Any]:
    """The statements of a block: libcst groups simple ones that share a line."""
    made: list[Any] = []
    shared: list[cst.CSTNode] = []
    for number, node in enumerate(body):
        statement = _statement(layout, node)
        if type(node) in _BLOCKS:
            made.append(statement)
            continue
        if not shared:
            made.append(_LINE(layout, node, shared))
        shared.append(statement)
        if number + 1 == len(body) or body[number + 1].lineno != node.end_lineno:
            shared = []
    return made


def _statement(layout: Layout, node: ast.stmt) -> cst.CSTNode:
    return _STATEMENTS[type(node)](layout, node)


_ELSE = maker(cst.Else, "body")
_FINALLY = maker(cst.Finally, "body")
_IF = maker(cst.If, "test", "body", "orelse")
_FOR = maker(cst.For, "target", "iter", "body", "orelse", "asynchronous")
_WHILE = maker(cst.While, "test", "body", "orelse")
_TRY = maker(cst.Try, "body", "handlers", "orelse", "finalbody")
_HANDLER = maker(cst.ExceptHandler, "body", "type", "name")
_WITH = maker(cst.With, "items", "body", "asynchronous")
_WITH_ITEM = maker(cst.WithItem, "item", "asname")
_AS_NAME = maker(cst.AsName, "name")


def _if(layout: Layout, node: ast.If) -> cst.If:
    test = _expression(layout, node.test)
    return _IF(layout, node, test, _block(layout, node.body), _otherwise(layout, node))


def _otherwise(layout: Layout, node: ast.If) -> cst.If | cst.Else | None:
    """An ``elif`` has the column of its ``if``; an ``if`` in an ``else`` is indented."""
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and node.orelse[0].col_offset == node.col_offset:
        return _if(layout, node.orelse[0])
    return _else(layout, node.orelse)


def _else(layout: Layout, body: Sequence[ast.stmt]) -> cst.Else | None:
    return _ELSE(layout, body[0], _block(layout, body)) if body else None


def _for(layout: Layout, node: ast.For | ast.AsyncFor) -> cst.For:
    return _FOR(
        layout,
        node,
        _expression(layout, node.target),
        _expression(layout, node.iter),
        _block(layout, node.body),
        _else(layout, node.orelse),
        _asynchronous(isinstance(node, ast.AsyncFor)),
    )


def _while(layout: Layout, node: ast.While) -> cst.While:
    test, body = _expression(layout, node.test), _block(layout, node.body)
    return _WHILE(layout, node, test, body, _else(layout, node.orelse))


def _try(layout: Layout, node: ast.Try) -> cst.Try:
    return _TRY(
        layout,
        node,
        _block(layout, node.body),
        [_handler(layout, each) for each in node.handlers],
        _else(layout, node.orelse),
        _FINALLY(layout, node.finalbody[0], _block(layout, node.finalbody)) if node.finalbody else None,
    )


def _handler(layout: Layout, node: ast.ExceptHandler) -> cst.ExceptHandler:
    name = _AS_NAME(layout, node, _NAME(layout, node, node.name)) if node.name else None
    return _HANDLER(layout, node, _block(layout, node.body), _optional(layout, node.type), name)


def _with(layout: Layout, node: ast.With | ast.AsyncWith) -> cst.With:
    items = [_with_item(layout, each) for each in node.items]
    return _WITH(layout, node, items, _block(layout, node.body), _asynchronous(isinstance(node, ast.AsyncWith)))


def _with_item(layout: Layout, item: ast.withitem) -> cst.WithItem:
    bound = item.optional_vars
    name = _AS_NAME(layout, bound, _expression(layout, bound)) if bound is not None else None
    return _WITH_ITEM(layout, item.context_expr, _expression(layout, item.context_expr), name)


# --- simple statements ---------------------------------------------------------------------------------------------

_EXPRESSION = maker(cst.Expr, "value")
_ASSIGN = maker(cst.Assign, "targets", "value")
_TARGET = maker(cst.AssignTarget, "target")
_ANNOTATED = maker(cst.AnnAssign, "target", "annotation", "value")
_UPDATE = maker(cst.AugAssign, "target", "operator", "value")
_RETURN = maker(cst.Return, "value")
_RAISE = maker(cst.Raise, "exc", "cause")
_ASSERT = maker(cst.Assert, "test", "msg")
_DELETE = maker(cst.Del, "target")
_NAMED_ITEM = maker(cst.NameItem, "name")
_DECLARATIONS: dict[type[ast.AST], Callable[..., cst.CSTNode]] = {
    ast.Global: maker(cst.Global, "names"),
    ast.Nonlocal: maker(cst.Nonlocal, "names"),
}
_WORDS: dict[type[ast.AST], Callable[..., cst.CSTNode]] = {
    ast.Pass: maker(cst.Pass),
    ast.Break: maker(cst.Break),
    ast.Continue: maker(cst.Continue),
}
_IMPORT = maker(cst.Import, "names")
_IMPORT_FROM = maker(cst.ImportFrom, "module", "names", "relative")
_ALIAS = maker(cst.ImportAlias, "name", "asname")
_STAR = cst.ImportStar()
_DOT = cst.Dot()


def _expression_statement(layout: Layout, node: ast.Expr) -> cst.Expr:
    return _EXPRESSION(layout, node, _expression(layout, node.value))


def _assign(layout: Layout, node: ast.Assign) -> cst.Assign:
    targets = [_TARGET(layout, target, _expression(layout, target)) for target in node.targets]
    return _ASSIGN(layout, node, targets, _expression(layout, node.value))


def _annotated(layout: Layout, node: ast.AnnAssign) -> cst.AnnAssign:
    target, annotation = _expression(layout, node.target), _annotation(layout, node.annotation)
    return _ANNOTATED(layout, node, target, annotation, _optional(layout, node.value))


def _update(layout: Layout, node: ast.AugAssign) -> cst.AugAssign:
    target, value = _expression(layout, node.target), _expression(layout, node.value)
    return _UPDATE(layout, node, target, _UPDATES[type(node.op)], value)


def _return(layout: Layout, node: ast.Return) -> cst.Return:
    return _RETURN(layout, node, _optional(layout, node.value))


def _raise(layout: Layout, node: ast.Raise) -> cst.Raise:
    cause = _FROM(layout, node.cause, _expression(layout, node.cause)) if node.cause is not None else None
    return _RAISE(layout, node, _optional(layout, node.exc), cause)


def _assert(layout: Layout, node: ast.Assert) -> cst.Assert:
    return _ASSERT(layout, node, _expression(layout, node.test), _optional(layout, node.msg))


def _delete(layout: Layout, node: ast.Delete) -> cst.Del:
    if len(node.targets) == 1:
        return _DELETE(layout, node, _expression(layout, node.targets[0]))
    return _DELETE(layout, node, _TUPLE(layout, node, [_element(layout, each) for each in node.targets]))


def _declaration(layout: Layout, node: ast.Global | ast.Nonlocal) -> cst.CSTNode:
    names = [_NAMED_ITEM(layout, node, _NAME(layout, node, name)) for name in node.names]
    return _DECLARATIONS[type(node)](layout, node, names)


def _word(layout: Layout, node: ast.Pass | ast.Break | ast.Continue) -> cst.CSTNode:
    return _WORDS[type(node)](layout, node)


def _import(layout: Layout, node: ast.Import) -> cst.Import:
    return _IMPORT(layout, node, [_alias(layout, each) for each in node.names])


def _import_from(layout: Layout, node: ast.ImportFrom) -> cst.ImportFrom:
    module = _dotted(layout, node, node.module) if node.module else None
    names = _STAR if node.names[0].name == "*" else [_alias(layout, each) for each in node.names]
    return _IMPORT_FROM(layout, node, module, names, [_DOT] * node.level)


def _alias(layout: Layout, node: ast.alias) -> cst.ImportAlias:
    name = _AS_NAME(layout, node, _NAME(layout, node, node.asname)) if node.asname else None
    return _ALIAS(layout, node, _dotted(layout, node, node.name), name)


_BLOCKS: dict[type[ast.AST], Callable[[Layout, Any], cst.CSTNode]] = {
    ast.If: _if,
    ast.For: _for,
    ast.AsyncFor: _for,
    ast.While: _while,
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
}
_STATEMENTS: dict[type[ast.AST], Callable[[Layout, Any], cst.CSTNode]] = {
    **_BLOCKS,
    ast.Expr: _expression_statement,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _update,
    ast.Return: _return,
    ast.Raise: _raise,
    ast.Assert: _assert,
    ast.Delete: _delete,
    ast.Global: _declaration,
    ast.Nonlocal: _declaration,
    ast.Pass: _word,
    ast.Break: _word,
    ast.Continue: _word,
    ast.Import: _import,
    ast.ImportFrom: _import_from,
}

KINDS = frozenset(
    {
        *_EXPRESSIONS,
        *_STATEMENTS,
        ast.ExceptHandler,
        ast.FormattedValue,
        ast.Module,
        ast.Slice,
        ast.alias,
        ast.arg,
        ast.arguments,
        ast.comprehension,
        ast.keyword,
        ast.withitem,
    }
)
"""The node types of Python's own trees that are not left to libcst."""
