"""Expressions, by node type: what each evaluates to, and what happens on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from placement_lint.flow import attributes, calls, optimizers, python, tensors
from placement_lint.flow.arguments import Arguments
from placement_lint.flow.condition import ALWAYS, Condition, Question, answered, any_of
from placement_lint.flow.containers import content
from placement_lint.flow.events import Operand, ReplicaLossUsed
from placement_lint.flow.machine import Machine
from placement_lint.flow.names import bind, lookup
from placement_lint.flow.values import (
    FALSE,
    NONE,
    TRUE,
    AtLeast,
    Choice,
    Const,
    Device,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Place,
    Sequence,
    Symbol,
    Tensor,
    Value,
    compare,
)
from placement_lint.flow.values import Comparison as Placed


def evaluate(machine: Machine, node: cst.BaseExpression) -> Value:
    """The value of an expression on this path."""
    handler = _EVALUATE.get(type(node))
    if handler is None:
        return machine.fresh()
    return machine.restrict(handler(machine, node))


# --- names and literals ----------------------------------------------------------------------------------------


_CONSTANTS = {"None": NONE, "True": TRUE, "False": FALSE}


def _name(machine: Machine, node: cst.Name) -> Value:
    constant = _CONSTANTS.get(node.value)
    return constant if constant is not None else lookup(machine, node.value)


def _attribute(machine: Machine, node: cst.Attribute) -> Value:
    return attributes.read(machine, evaluate(machine, node.value), node.attr.value, node)


def _integer(machine: Machine, node: cst.Integer) -> Value:
    return Const(node.evaluated_value)


def _float(machine: Machine, node: cst.Float) -> Value:
    return Const(node.evaluated_value)


def _string(machine: Machine, node: cst.SimpleString | cst.ConcatenatedString) -> Value:
    return Const(node.evaluated_value)


def _formatted_string(machine: Machine, node: cst.FormattedString) -> Value:
    """An f-string; a per-replica loss with a format specification is used as a number."""
    prefix, constant = "", True
    values: list[Value] = []
    for part in node.parts:
        if isinstance(part, cst.FormattedStringText):
            prefix, constant = (prefix + part.value, constant) if not values else (prefix, False)
            continue
        assert isinstance(part, cst.FormattedStringExpression)
        value = evaluate(machine, part.expression)
        if part.format_spec:
            _formats(machine, value, part.expression, part)
        values.append(value)
    if not values:
        return Const(prefix)
    if len(values) == 1 and isinstance(values[0], Const) and constant:
        return Const(f"{prefix}{values[0].value}")
    return (
        machine.lift(lambda *parts: python.formatted(machine, prefix, parts), *values)
        if len(values) == 1
        else machine.fresh("text")
    )


def _formats(machine: Machine, value: Value, expression: cst.BaseExpression, node: cst.CSTNode) -> None:
    def use(option: Value) -> Value:
        if isinstance(option, Tensor) and option.per_replica:
            label = machine.text(expression)
            machine.emit(ReplicaLossUsed(node, machine.scene, label, f"formatting {label}", option))
        return NONE

    machine.lift(use, value)


# --- displays and comprehensions ---------------------------------------------------------------------------------


def _items(machine: Machine, elements: tuple[cst.BaseElement, ...] | list[cst.BaseElement]) -> Sequence:
    items: list[Value] = []
    exact = True
    for element in elements:
        value = evaluate(machine, element.value)
        if isinstance(element, cst.StarredElement):
            inner = content(machine, value)
            items.extend(inner.items if inner is not None else ())
            exact = exact and inner is not None and inner.exact
        else:
            items.append(value)
    return Sequence(tuple(items), exact)


def _tuple(machine: Machine, node: cst.Tuple) -> Value:
    return _items(machine, list(node.elements))


def _list(machine: Machine, node: cst.List) -> Value:
    return machine.new_list(_items(machine, list(node.elements)), node)


def _set(machine: Machine, node: cst.Set) -> Value:
    return machine.new_list(replace(_items(machine, list(node.elements)), exact=False), node)


def _dict(machine: Machine, node: cst.Dict) -> Value:
    mapping = Mapping(())
    for element in node.elements:
        if isinstance(element, cst.DictElement):
            key, value = evaluate(machine, element.key), evaluate(machine, element.value)
            if isinstance(key, Const):
                mapping = mapping.with_item(key.value, value)
            else:
                mapping = replace(mapping, rest=value)
        else:
            mapping = _merged(machine, mapping, evaluate(machine, element.value))
    return new_dict(machine, mapping, node)


def _merged(machine: Machine, mapping: Mapping, other: Value) -> Mapping:
    if isinstance(other, Object) and other.kind is Kind.DICT:
        other = machine.read(other.id, "#map") or other
    if not isinstance(other, Mapping):
        return replace(mapping, rest=machine.fresh())
    for key, value in other.items:
        mapping = mapping.with_item(key, value)
    return replace(mapping, rest=mapping.rest or other.rest)


def new_dict(machine: Machine, mapping: Mapping, node: cst.CSTNode) -> Object:
    result = machine.new_object(Kind.DICT, External("builtins.dict"), node)
    machine.write(result.id, "#map", mapping)
    return result


def _comprehended(machine: Machine, loop: cst.CompFor, make: Callable[[], Value]) -> tuple[list[Value], bool]:
    """The values of a comprehension: one for each item where the items are known, else one that stands for all."""
    iterable = evaluate(machine, loop.iter)
    known = python.each(machine, iterable)
    items = known if known is not None else (python.element(machine, iterable, loop.iter),)
    results: list[Value] = []
    for item in items:
        assign(machine, loop.target, item, loop)
        if loop.inner_for_in is not None:
            results.extend(_comprehended(machine, loop.inner_for_in, make)[0])
            continue
        guard = _guard(machine, loop)
        if guard.possible:
            results.append(machine.fork(((guard, make),), asks=True))
    return results, known is not None and not loop.ifs and loop.inner_for_in is None


def _guard(machine: Machine, loop: cst.CompFor) -> Condition:
    guard = ALWAYS
    for test in loop.ifs:
        guard = guard & truth(machine, evaluate(machine, test.test), test.test)
    return guard


def _list_comprehension(machine: Machine, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Value:
    values, exact = _comprehended(machine, node.for_in, lambda: evaluate(machine, node.elt))
    return machine.new_list(Sequence(tuple(values), exact), node)


def _dict_comprehension(machine: Machine, node: cst.DictComp) -> Value:
    def pair() -> Value:
        return Sequence((evaluate(machine, node.key), evaluate(machine, node.value)))

    pairs, _ = _comprehended(machine, node.for_in, pair)
    mapping = Mapping(())
    for item in pairs:
        if not isinstance(item, Sequence):
            continue
        key, value = item.items
        mapping = (
            mapping.with_item(key.value, value) if isinstance(key, Const) else replace(mapping, rest=value)
        )
    return new_dict(machine, mapping, node)


# --- truth -------------------------------------------------------------------------------------------------


def truth(machine: Machine, value: Value, node: cst.CSTNode) -> Condition:
    """The condition under which a value is true."""
    if isinstance(value, Choice):
        conditions = []
        for guard, option in value.alternatives:
            with machine.assuming(guard):
                conditions.append(guard & truth(machine, option, node))
        return any_of(conditions)
    if isinstance(value, Tensor) and value.per_replica:
        text = machine.text(node)
        machine.emit(ReplicaLossUsed(node, machine.scene, text, f"testing `{text}`", value))
    if isinstance(value, Const):
        return ALWAYS if value.value else ALWAYS.negation
    if isinstance(value, AtLeast):
        return ALWAYS if value.bound > 0 else answered(machine.question(value), True)
    if isinstance(value, Sequence) and value.exact:
        return ALWAYS if value.items else ALWAYS.negation
    if isinstance(value, Object) and value.kind not in (Kind.LIST, Kind.DICT):
        return ALWAYS
    if isinstance(value, Symbol):
        return answered(machine.question(value, text=value.source or node), True)
    return answered(machine.opaque(text=node), True)


def _unary(machine: Machine, node: cst.UnaryOperation) -> Value:
    value = evaluate(machine, node.expression)
    if isinstance(node.operator, cst.Not):
        holds = truth(machine, value, node.expression)
        return machine.either(((holds, FALSE), (holds.negation, TRUE)))

    def apply(option: Value) -> Value:
        if isinstance(option, Const) and isinstance(option.value, (int, float)):
            return Const(-option.value) if isinstance(node.operator, cst.Minus) else machine.fresh()
        if isinstance(option, Tensor):
            return tensors.derive(option, "negation", node, option.scalar)
        return machine.fresh()

    return machine.lift(apply, value)


def _boolean(machine: Machine, node: cst.BooleanOperation) -> Value:
    """``a and b``: b is evaluated, and its answer counts, only where a did not decide."""
    left = evaluate(machine, node.left)
    holds = truth(machine, left, node.left)
    goes_on = holds if isinstance(node.operator, cst.And) else holds.negation
    return machine.fork(
        (
            (goes_on.negation, lambda: machine.restrict(left)),
            (goes_on, lambda: evaluate(machine, node.right)),
        ),
        asks=True,
    )


def _conditional(machine: Machine, node: cst.IfExp) -> Value:
    holds = truth(machine, evaluate(machine, node.test), node.test)
    return machine.fork(
        (
            (holds, lambda: evaluate(machine, node.body)),
            (holds.negation, lambda: evaluate(machine, node.orelse)),
        ),
        asks=True,
    )


# --- comparison ----------------------------------------------------------------------------------------------


_NEGATED = {
    cst.NotEqual: cst.Equal,
    cst.IsNot: cst.Is,
    cst.NotIn: cst.In,
    cst.LessThanEqual: cst.GreaterThan,
    cst.LessThan: cst.GreaterThanEqual,
}


def _comparison(machine: Machine, node: cst.Comparison) -> Value:
    target = node.comparisons[0]
    with machine.only_tested(_tests_for_none(target)):
        left = evaluate(machine, node.left)
    right = evaluate(machine, target.comparator)
    if len(node.comparisons) > 1:
        return machine.fresh(node)
    return machine.lift(lambda one, other: _compare(machine, one, other, node), left, right)


def _tests_for_none(target: cst.ComparisonTarget) -> bool:
    is_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
    return is_none and isinstance(target.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual))


def _compare(machine: Machine, left: Value, right: Value, node: cst.Comparison) -> Value:
    operator = type(node.comparisons[0].operator)
    positive = _NEGATED.get(operator, operator)
    answer = _decide(machine, left, right, positive)
    if answer is None:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return _compared_tensors(machine, left, right, node)
        asked = machine.ask(_question(machine, left, right, positive, node))
        return asked if positive is operator else _flipped(machine, asked)
    return Const(answer if positive is operator else not answer)


def _flipped(machine: Machine, value: Value) -> Value:
    return machine.lift(
        lambda option: Const(not option.value) if isinstance(option, Const) else option, value
    )


def _question(machine: Machine, left: Value, right: Value, operator: type, node: cst.Comparison) -> Question:
    text = node
    subject = (operator.__name__, left, right)
    if operator in (cst.Equal, cst.Is):
        return machine.question(
            subject, rivals=("equal", left) if isinstance(right, Const) else None, text=text
        )
    return machine.question(subject, text=text)


def _decide(machine: Machine, left: Value, right: Value, operator: type) -> bool | None:
    if operator in (cst.Is, cst.Equal):
        if isinstance(left, Const) and isinstance(right, Const):
            return left.value == right.value
        if isinstance(left, (Device, Symbol)) and isinstance(right, (Device, Symbol)):
            return True if left == right else _same_device(left, right)
        if NONE in (left, right):
            other = left if right == NONE else right
            return False if isinstance(other, (Object, Tensor, Device, Sequence, Function, AtLeast)) else None
        if isinstance(left, AtLeast) and isinstance(right, Const) and isinstance(right.value, int):
            return False if right.value < left.bound else None
        if isinstance(left, Device) and isinstance(right, Const):
            return False if left.kind in ("cpu", "cuda") and left.kind not in str(right.value) else None
        return None
    if operator in (cst.GreaterThan, cst.GreaterThanEqual):
        return _greater(left, right, strict=operator is cst.GreaterThan)
    if operator is cst.In and isinstance(left, Const):
        items = content(machine, right)
        if items is not None and items.exact and all(isinstance(item, Const) for item in items.items):
            return left in items.items
        if isinstance(right, Const) and isinstance(right.value, str) and isinstance(left.value, str):
            return left.value in right.value
    return None


def _same_device(left: Place, right: Place) -> bool | None:
    return False if compare(left, right) is Placed.DIFFERENT else None


def _greater(left: Value, right: Value, strict: bool) -> bool | None:
    if isinstance(left, Const) and isinstance(right, Const):
        one, other = left.value, right.value
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return one > other if strict else one >= other
    if isinstance(left, AtLeast) and isinstance(right, Const) and isinstance(right.value, int):
        return True if left.bound > right.value or (not strict and left.bound == right.value) else None
    if isinstance(right, AtLeast) and isinstance(left, Const) and isinstance(left.value, int):
        return False if right.bound > left.value or (strict and right.bound == left.value) else None
    return None


def _compared_tensors(machine: Machine, left: Value, right: Value, node: cst.Comparison) -> Value:
    if isinstance(node.comparisons[0].operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
        return machine.fresh(node)
    labels = (node.left, node.comparisons[0].comparator)
    operands = [
        Operand(label, value) for label, value in zip(labels, (left, right)) if isinstance(value, Tensor)
    ]
    result = tensors.operate(machine, "a comparison", operands, node)
    return replace(result, reduction=None) if result is not None else machine.fresh()


# --- arithmetic ------------------------------------------------------------------------------------------------


def _binary(machine: Machine, node: cst.BinaryOperation) -> Value:
    left, right = evaluate(machine, node.left), evaluate(machine, node.right)
    return machine.lift(
        lambda one, other: arithmetic(machine, one, other, node.operator, (node.left, node.right), node),
        left,
        right,
    )


_SYMBOLS: dict[type, str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.MatrixMultiply: "@", cst.Power: "**",
    cst.FloorDivide: "//", cst.Modulo: "%", cst.BitAnd: "&", cst.BitOr: "|", cst.BitXor: "^",
    cst.AddAssign: "+=", cst.SubtractAssign: "-=", cst.MultiplyAssign: "*=", cst.DivideAssign: "/=",
    cst.MatrixMultiplyAssign: "@=", cst.BitAndAssign: "&=", cst.BitOrAssign: "|=", cst.PowerAssign: "**=",
}  # fmt: skip


def arithmetic(
    machine: Machine,
    left: Value,
    right: Value,
    operator: cst.CSTNode,
    sources: tuple[cst.BaseExpression, cst.BaseExpression],
    node: cst.CSTNode,
) -> Value:
    """``left + right`` and its kind, of concrete values."""
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _tensor_arithmetic(machine, left, right, operator, sources, node)
    if isinstance(left, Const) and isinstance(right, Const):
        return _folded(machine, left.value, right.value, operator)
    if isinstance(operator, cst.Multiply):
        items = content(machine, left)
        if items is not None and isinstance(right, (Const, Symbol)):
            return machine.new_list(replace(items, exact=False), node)
    if isinstance(operator, (cst.Add, cst.AddAssign)):
        one, other = content(machine, left), content(machine, right)
        if one is not None and other is not None:
            joined = Sequence((*one.items, *other.items), one.exact and other.exact)
            return joined if isinstance(left, Sequence) else machine.new_list(joined, node)
        if isinstance(left, Const) and isinstance(left.value, str):
            return python.formatted(machine, left.value, (right,))
    if isinstance(operator, cst.Modulo) and isinstance(left, Const) and isinstance(left.value, str):
        return _percent(machine, left.value, right, sources[1], node)
    return machine.fresh(node)


def _tensor_arithmetic(
    machine: Machine,
    left: Value,
    right: Value,
    operator: cst.CSTNode,
    sources: tuple[cst.BaseExpression, cst.BaseExpression],
    node: cst.CSTNode,
) -> Value:
    sides = [
        Operand(source, value) for source, value in zip(sources, (left, right)) if isinstance(value, Tensor)
    ]
    symbol = _SYMBOLS.get(type(operator), "an operator")
    if len(sides) == 1:
        tensor = sides[0].tensor
        other = right if isinstance(left, Tensor) else left
        scalar = tensor.scalar if isinstance(other, (Const, Symbol, AtLeast)) else None
        derived = tensors.derive(tensor, f"`{symbol}`", node, scalar)
        return _scaled(machine, derived) if symbol in ("/", "/=", "*", "*=") else derived
    result = tensors.operate(machine, f"`{symbol}`", sides, node)
    if result is None:
        return machine.fresh()
    lost = next((tensors.derive(side.tensor, f"`{symbol}`", node).lost for side in sides), None)
    return replace(result, lost=lost)


def _scaled(machine: Machine, loss: Tensor) -> Tensor:
    """A loss that is divided (or weighted) is no longer a plain mean: the division may be the average itself."""
    if loss.reduced is not None:
        machine.divided.add(loss.reduced)
    return replace(loss, reduction=None) if loss.per_replica else loss


def _folded(machine: Machine, left: object, right: object, operator: cst.CSTNode) -> Value:
    """Arithmetic of constants, as far as devices and counts are computed with it."""
    if isinstance(left, str):
        if isinstance(right, str) and isinstance(operator, (cst.Add, cst.AddAssign)):
            return Const(left + right)
        if isinstance(right, (int, str)) and isinstance(operator, cst.Modulo):
            try:
                return Const(left % right)
            except (TypeError, ValueError):
                return machine.fresh()
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        if isinstance(operator, (cst.Add, cst.AddAssign)):
            return Const(left + right)
        if isinstance(operator, (cst.Subtract, cst.SubtractAssign)):
            return Const(left - right)
        if isinstance(operator, (cst.Multiply, cst.MultiplyAssign)):
            return Const(left * right)
    return machine.fresh()


def _percent(
    machine: Machine, text: str, right: Value, source: cst.BaseExpression, node: cst.CSTNode
) -> Value:
    """``"loss %.3f" % loss`` uses the loss as a number."""
    values = right.items if isinstance(right, Sequence) else (right,)
    if any(mark in text for mark in ("%f", "%.", "%d", "%g", "%e")):
        for value in values:
            _formats(machine, value, source, node)
    return python.formatted(machine, text.partition("%")[0], values)


# --- calls, items, and the rest ----------------------------------------------------------------------------------


def _call(machine: Machine, node: cst.Call) -> Value:
    machine.fuel -= 1
    callee = evaluate(machine, node.func)
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    spread = False
    for argument in node.args:
        value = evaluate(machine, argument.value)
        if argument.star == "*":
            items = content(machine, value)
            positional.extend(items.items if items is not None else ())
            spread = spread or items is None or not items.exact
        elif argument.star == "**":
            mapping = _merged(machine, Mapping(()), value)
            keywords.update({key: item for key, item in mapping.items if isinstance(key, str)})
            spread = spread or mapping.rest is not None
        elif argument.keyword is not None:
            keywords[argument.keyword.value] = value
        else:
            positional.append(value)
    if machine.dead:
        return NONE
    return calls.call(machine, callee, Arguments(tuple(positional), keywords, spread), node)


def _subscript(machine: Machine, node: cst.Subscript) -> Value:
    owner = evaluate(machine, node.value)
    return attributes.item(machine, owner, key_of(machine, node), node)


def key_of(machine: Machine, node: cst.Subscript) -> Value:
    """The value between the brackets; unknown for slices."""
    keys = [
        evaluate(machine, element.slice.value)
        if isinstance(element.slice, cst.Index)
        else _slice(machine, element.slice)
        for element in node.slice
    ]
    return keys[0] if len(keys) == 1 else Sequence(tuple(keys))


def _slice(machine: Machine, node: cst.BaseSlice) -> Value:
    if isinstance(node, cst.Slice):
        for bound in (node.lower, node.upper, node.step):
            if bound is not None:
                evaluate(machine, bound)
    return External("builtins.slice")


def _lambda(machine: Machine, node: cst.Lambda) -> Value:
    return Function(node, machine.frame.id, "lambda")


def _named(machine: Machine, node: cst.NamedExpr) -> Value:
    value = evaluate(machine, node.value)
    assign(machine, node.target, value, node)
    return value


def _await(machine: Machine, node: cst.Await) -> Value:
    return evaluate(machine, node.expression)


def _yield(machine: Machine, node: cst.Yield) -> Value:
    if node.value is not None:
        inner = node.value.item if isinstance(node.value, cst.From) else node.value
        value = evaluate(machine, inner)
        if isinstance(node.value, cst.From):
            value = python.element(machine, value, inner)
        if machine.read(machine.frame.id, "#yields") is None:
            machine.write(machine.frame.id, "#yields", value)
    return machine.fresh("sent")


def _starred(machine: Machine, node: cst.StarredElement) -> Value:
    return evaluate(machine, node.value)


# --- assignment ------------------------------------------------------------------------------------------------


def assign(machine: Machine, target: cst.BaseExpression, value: Value, node: cst.CSTNode) -> None:
    """Bind a target: a name, an attribute, an item, or a pattern of these; ``node`` is the statement."""
    if isinstance(target, cst.Name):
        before = machine.read(machine.frame.id, target.value)
        if before is not None:
            optimizers.succeeded(machine, target.value, before, value, node)
        bind(machine, target.value, value)
    elif isinstance(target, cst.Attribute):
        owner = evaluate(machine, target.value)
        attributes.write(machine, owner, target.attr.value, value, node, target)
    elif isinstance(target, cst.Subscript):
        owner, key = evaluate(machine, target.value), key_of(machine, target)
        attributes.write_item(machine, owner, key, value, node, target)
    elif isinstance(target, (cst.Tuple, cst.List)):
        _unpack(machine, list(target.elements), value, node)


def _unpack(machine: Machine, targets: list[cst.BaseElement], value: Value, node: cst.CSTNode) -> None:
    starred = next(
        (place for place, target in enumerate(targets) if isinstance(target, cst.StarredElement)), None
    )
    for place, target in enumerate(targets):
        if starred is not None and place >= starred:
            part: Value = machine.fresh()
        else:
            part = machine.lift(
                lambda option, place=place: _part(machine, option, place, len(targets), node), value
            )
        assign(machine, target.value, part, node)


def _part(machine: Machine, value: Value, place: int, count: int, node: cst.CSTNode) -> Value:
    if isinstance(value, Tensor):
        return replace(value, uid=machine.new_id())
    items = content(machine, value)
    if items is not None and items.items:
        if place < len(items.items):
            return items.items[place]
        return machine.fresh() if items.exact else items.items[-1]
    if isinstance(value, Symbol):
        return machine.part(value.id, ("part", place), "", None)
    return machine.fresh()


_EVALUATE: dict[type, Callable[..., Value]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Integer: _integer,
    cst.Float: _float,
    cst.SimpleString: _string,
    cst.ConcatenatedString: lambda machine, node: machine.fresh("text"),
    cst.FormattedString: _formatted_string,
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _set,
    cst.Dict: _dict,
    cst.ListComp: _list_comprehension,
    cst.SetComp: _list_comprehension,
    cst.GeneratorExp: _list_comprehension,
    cst.DictComp: _dict_comprehension,
    cst.UnaryOperation: _unary,
    cst.BooleanOperation: _boolean,
    cst.IfExp: _conditional,
    cst.Comparison: _comparison,
    cst.BinaryOperation: _binary,
    cst.Call: _call,
    cst.Subscript: _subscript,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.StarredElement: _starred,
}
