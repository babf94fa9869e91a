"""Operators: truth, comparison and arithmetic of abstract values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import TypeGuard

import libcst as cst

from placement_lint.flow.api.torch_names import NUMBER_TYPES, SIZE
from placement_lint.flow.domain import folding, partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, Condition, Question, answered, any_of
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    CPU,
    FALSE,
    NONE,
    TRUE,
    AtLeast,
    Bound,
    Choice,
    Class,
    Const,
    Device,
    External,
    Function,
    Kind,
    Loaded,
    Mapping,
    Object,
    Place,
    Role,
    Sequence,
    StateDict,
    StateKey,
    Symbol,
    Tensor,
    Value,
    alternatives,
    compare,
    is_option,
)
from placement_lint.flow.domain.values import Comparison as Placed
from placement_lint.flow.events.schema import DeviceNeverEqual, Operand
from placement_lint.flow.interpreter import attributes, cuda_guards, expressions, methods, narrowing
from placement_lint.flow.models import (
    checkpoints,
    device_choice,
    environment,
    gradient_paths,
    operations,
    registries,
    replica_losses,
    shapes,
    state_dicts,
    state_keys,
)
from placement_lint.flow.models.operations import Tensors
from placement_lint.flow.models.replica_losses import ReplicaLosses
from placement_lint.flow.state import extent, imports, options, texts
from placement_lint.flow.state.classes import wrapper_base
from placement_lint.flow.state.containers import content, depends, length
from placement_lint.flow.state.devices import Context, as_place, is_built, watched
from placement_lint.flow.state.heap import MAPPING
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.moment import Around
from placement_lint.flow.state.names import value_of
from placement_lint.source.abstraction import by_kind
from placement_lint.source.querying import mentions

# --- truth -------------------------------------------------------------------------------------------------


def condition(machine: Machine, test: cst.BaseExpression) -> Condition:
    """The condition under which a test holds."""
    return decision(machine, test)[0]


def decision(machine: Machine, test: cst.BaseExpression) -> tuple[Condition, cst.CSTNode | None]:
    """The same, and the test for CUDA that decides it, if one does."""
    with machine.as_written(test):
        value = expressions.evaluate(machine, test)
        holds = truth(machine, value, test)
    device_choice.assume_settings(machine, holds)
    return holds, cuda_guards.guard_in(value)


def truth(
    machine: Machine, value: Value, node: cst.CSTNode, unknown: Callable[[], Condition] | None = None
) -> Condition:
    """The condition under which a value is true; ``unknown``, if given, creates the one for an unknown value."""
    unknown = unknown or (lambda: answered(machine.opaque(text=node), True))
    if isinstance(value, Choice):
        # One question for all alternatives: a computed value has the same truth value in each of them.
        unknown = cache(unknown)
        ways = [(guard, _truth_under(machine, guard, option, node, unknown)) for guard, option in value.alternatives]
        return any_of(guard & holds for guard, holds in ways)
    if isinstance(value, Tensor):
        replica_losses.used_as_number(machine, value, "bool", f"testing `{machine.text(node)}`", node, node)
    value = options.setting(machine, node, value) if isinstance(node, cst.BaseExpression) else value
    if isinstance(value, Const):
        setting = device_choice.setting(machine, node, value)
        return setting or (ALWAYS if value.value else ALWAYS.negation)
    if isinstance(value, AtLeast):
        return ALWAYS if value.bound > 0 else answered(machine.question(value), True)
    if isinstance(value, Sequence) and value.exact:
        return ALWAYS if value.items else ALWAYS.negation
    if isinstance(value, Object) and _begins_empty(machine, value, node):
        # Code that is not analysed may fill it, with unknown items.
        return answered(machine.opaque(usual=False), True)
    if isinstance(value, Object) and value.kind is Kind.LIST:
        size = length(machine, value, node)
        if size is not None:
            return truth(machine, size, node)
    if isinstance(value, (Device, Function)):
        return ALWAYS
    if isinstance(value, Object) and value.kind not in (Kind.LIST, Kind.DICT):
        return ALWAYS
    if isinstance(value, Symbol):
        question = machine.question(value)
        question.word(value.source or node)
        return answered(question, True)
    if isinstance(value, Bound) or (isinstance(value, External) and not attributes.is_written(machine, value)):
        # An unknown value's ``cuda`` may be a method, but here it is a flag.
        return answered(machine.question(value, text=node), True)
    return unknown()


def _begins_empty(machine: Machine, value: Object, node: cst.CSTNode) -> bool:
    """Whether a value is a list or dict display that has no known items."""
    if value.kind is Kind.DICT:
        return isinstance(value.node, cst.Dict) and machine.read(value.id, MAPPING) == Mapping(())
    is_list = value.kind is Kind.LIST and isinstance(value.node, cst.List)
    return is_list and length(machine, value, node) == Const(0)


def _truth_under(
    machine: Machine, guard: Condition, value: Value, node: cst.CSTNode, unknown: Callable[[], Condition]
) -> Condition:
    """The truth of one of several alternatives; a constant needs no guard."""
    if isinstance(value, Const):
        return truth(machine, value, node)
    with machine.assuming(guard):
        return truth(machine, value, node, unknown)


def unary(machine: Machine, node: cst.UnaryOperation) -> Value:
    value = expressions.evaluate(machine, node.expression)
    if isinstance(node.operator, cst.Not):
        holds = truth(machine, value, node.expression)
        answer = machine.either(((holds, FALSE), (holds.negation, TRUE)))
        return cuda_guards.kept(answer, cuda_guards.guard_in(value))

    def apply(option: Value) -> Value:
        if isinstance(option, Const) and folding.is_number(option.value):
            negative = folding.negative(option.value) if isinstance(node.operator, cst.Minus) else None
            return negative or machine.fresh()
        if isinstance(option, Tensor):
            return shapes.same(option, operations.derive(option, "negation", node, option.scalar))
        return machine.fresh(node, option.type) if isinstance(option, Symbol) else machine.fresh()

    return machine.lift(apply, value)


def boolean(machine: Machine, node: cst.BooleanOperation) -> Value:
    """``a and b``: b is evaluated only on paths where a does not decide the result."""
    _note_asked_again(machine, node)
    left = expressions.evaluate(machine, node.left)
    holds = truth(machine, left, node.left)
    goes_on = holds if isinstance(node.operator, cst.And) else holds.negation
    # A setting of the script would decide with another value.
    turns = isinstance(left, Const) and left.value is isinstance(node.operator, cst.And)
    decided = Const(not left.value) if isinstance(left, Const) and turns else left
    with machine.as_written(node.right):
        return machine.fork(
            (
                (goes_on, lambda: _last_operand(machine, node.right)),
                (goes_on.negation, lambda: machine.restrict(decided)),
            ),
            asks=True,
        )


def _last_operand(machine: Machine, node: cst.BaseExpression) -> Value:
    """The value of ``b``: a setting of the script is true or false, whatever it is set to now."""
    value = expressions.evaluate(machine, node)
    setting = device_choice.setting(machine, node, value) if isinstance(value, Const) else None
    return value if setting is None else machine.either(((setting, TRUE), (setting.negation, FALSE)))


def _note_asked_again(machine: Machine, node: cst.BooleanOperation) -> None:
    """``d == "cpu" or d == torch.device("cpu")``: the program knows that ``d`` may be a text or a device."""
    operands = _operands(node)
    for one in operands:
        if not isinstance(one, cst.Comparison) or not isinstance(one.comparisons[0].comparator, cst.SimpleString):
            continue
        if any(other is not one and mentions(other, one.left) for other in operands):
            machine.notes[Tensors].asked_again.add(one)


def _operands(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    return [*_operands(node.left), *_operands(node.right)] if isinstance(node, cst.BooleanOperation) else [node]


@contextmanager
def following(machine: Machine, test: cst.BaseExpression) -> Iterator[None]:
    """In a branch that is taken where the test holds: if it asks for a tensor on a GPU, requests follow that tensor."""
    follows = any(_asks_where_a_tensor_is(machine, operand) for operand in _conjuncts(test))
    machine.now[Context].beside_gpu += follows
    try:
        yield
    finally:
        machine.now[Context].beside_gpu -= follows


def _conjuncts(test: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return [*_conjuncts(test.left), *_conjuncts(test.right)]
    return [test]


def _asks_where_a_tensor_is(machine: Machine, test: cst.BaseExpression) -> bool:
    """Whether it is ``x.is_cuda``, and no option of the command line."""
    if not isinstance(test, cst.Attribute) or test.attr.value != "is_cuda":
        return False
    owner = value_of(machine, test.value)
    asked = machine.known_part(owner.id, "is_cuda") if isinstance(owner, Symbol) else None
    return asked is None or not is_option(asked)


def conditional(machine: Machine, node: cst.IfExp) -> Value:
    (holds, guard), saw_gpu = watched(machine, lambda: decision(machine, node.test))
    machine.now[Around].guards.append(node.test)
    machine.now[Context].sure_of_gpu += saw_gpu

    def branch(answer: bool, expression: cst.BaseExpression, other: cst.BaseExpression) -> Value:
        follows = following(machine, node.test) if answer else nullcontext()
        with narrowing.narrowed(machine, node.test, answer), follows:
            if guard is None:
                return expressions.evaluate(machine, expression)
            cuda_guards.pass_over(machine, guard, other)
            return cuda_guards.left_on_host(expressions.evaluate(machine, expression), guard)

    with machine.as_written(node):
        value = machine.fork(
            (
                (holds, lambda: branch(True, node.body, node.orelse)),
                (holds.negation, lambda: branch(False, node.orelse, node.body)),
            ),
            asks=True,
        )
    machine.now[Context].sure_of_gpu -= saw_gpu
    machine.now[Around].guards.pop()
    return value


# --- comparison ----------------------------------------------------------------------------------------------


_NEGATED = {
    cst.NotEqual: cst.Equal,
    cst.IsNot: cst.Is,
    cst.NotIn: cst.In,
    cst.LessThanEqual: cst.GreaterThan,
    cst.LessThan: cst.GreaterThanEqual,
}


def comparison(machine: Machine, node: cst.Comparison) -> Value:
    around = machine.now[Around]
    target = node.comparisons[0]
    outer, around.testing = (
        around.testing,
        around.testing or _tests_for_none(target),
    )
    left = expressions.evaluate(machine, node.left)
    around.testing = outer
    left = options.setting(machine, node.left, left)
    right = expressions.evaluate(machine, target.comparator)
    if len(node.comparisons) > 1:
        return machine.fresh(node)
    asked = machine.notes[Tensors].devices_read.isdisjoint((node.left, target.comparator)) is False
    if (asked or _names_device(left) or _names_device(right)) and node not in machine.notes[Tensors].asked_again:
        machine.lift(lambda one, other: _check_devices(machine, one, other, node), left, right)
    filled = right == NONE and _is_filled_or_none(machine, left)
    answer = machine.lift(lambda one, other: _compare(machine, one, other, node, filled), left, right)
    return cuda_guards.of_comparison(left, right, answer, node)


def _is_filled_or_none(machine: Machine, value: Value) -> bool:
    """Whether None is one of several alternatives: the program assigns it on one path, so the others are not None."""
    restricted = machine.restrict(value)
    return isinstance(restricted, Choice) and NONE in (option for _, option in restricted.alternatives)


def _check_devices(machine: Machine, left: Value, right: Value, node: cst.Comparison) -> Value:
    """A tensor's device has an index and is not a string: ``x.device == "cuda"`` is false everywhere."""
    target = node.comparisons[0]
    identity = isinstance(target.operator, (cst.Is, cst.IsNot))
    if not identity and not isinstance(target.operator, (cst.Equal, cst.NotEqual)):
        return NONE
    sides = ((node.left, left, target.comparator, right), (target.comparator, right, node.left, left))
    for tested, device, other, value in sides:
        text = isinstance(value, Const) and _names_device(value)
        of_tensor = tested in machine.notes[Tensors].devices_read
        if (
            (of_tensor or (text and is_built(device)))
            and (text or (value == Device("cuda") and isinstance(value, Device) and value.written is not None))
            and other not in machine.notes[Tensors].devices_read
        ):
            spelled_out = isinstance(tested, cst.Call)
            machine.emit(DeviceNeverEqual(node, machine.scene, tested, other, text, identity, of_tensor, spelled_out))
    return NONE


def _names_device(value: Value) -> bool:
    """Whether some alternative of a value is a text that names a device."""
    return any(
        isinstance(option, Const) and isinstance(option.value, str) and as_place(option) is not None
        for _, option in alternatives(value)
    )


def _tests_for_none(target: cst.ComparisonTarget) -> bool:
    is_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
    return is_none and isinstance(target.operator, (cst.Is, cst.IsNot, cst.Equal, cst.NotEqual))


def _compare(machine: Machine, left: Value, right: Value, node: cst.Comparison, filled: bool) -> Value:
    operator = type(node.comparisons[0].operator)
    positive = _NEGATED.get(operator, operator)
    if filled and isinstance(left, Symbol) and left.preferred is None and positive in (cst.Is, cst.Equal):
        return Const(positive is not operator)
    if right == NONE and positive in (cst.Is, cst.Equal) and _may_be_left_out(left):
        asked = machine.ask(machine.question(("left out", left.uid), text=_positive(node, positive)))
        return asked if positive is operator else _flipped(asked)
    if positive not in (cst.Is, cst.In):
        checkpoints.computed(machine, left, right)
    answer = _decide(machine, left, right, positive)
    if answer is None:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return _compared_tensors(machine, left, right, node)
        asked = machine.ask(_question(machine, left, right, positive, node))
        if positive is cst.In and isinstance(right, Object):
            asked = _has_key(machine, left, right, asked)
        if positive is cst.In and right == environment.ENVIRON and isinstance(left, Const):
            asked = environment.contains(machine, left, asked)
        return asked if positive is operator else _flipped(asked)
    return Const(answer if positive is operator else not answer)


def _has_key(machine: Machine, key: Value, owner: Object, unknown: Value) -> Value:
    """``key in cache``, which holds on the paths on which the program stored something under this key."""
    content = machine.read(owner.id, MAPPING)
    mapping = machine.restrict(content) if content is not None else None
    if not isinstance(key, Const) or not isinstance(mapping, Mapping) or mapping.rest is not None:
        return unknown
    # On the paths without an entry, a join of paths leaves an unknown value.
    return machine.lift(
        lambda held: unknown if held == NONE or isinstance(held, Symbol) else TRUE, mapping.get(key.value) or NONE
    )


def _may_be_left_out(value: Value) -> TypeGuard[Tensor]:
    """Whether a value is an argument of a forward that is only assumed to be a tensor: it may be None."""
    return isinstance(value, Tensor) and value.assumed and value.role is Role.INPUT and bool(value.uid)


def _flipped(value: Value) -> Value:
    if isinstance(value, Choice):
        return Choice(tuple((guard, _flipped(option)) for guard, option in value.alternatives))
    return Const(not value.value) if isinstance(value, Const) else value


def _as_flag(machine: Machine, left: Value, right: Value, operator: type) -> Question | None:
    """``args.cuda > 0`` and ``args.cuda == True`` ask the same question as ``if args.cuda``."""
    positive = operator is cst.GreaterThan and right == Const(0)
    true = operator in (cst.Equal, cst.Is) and isinstance(right, Const) and right.value is True
    return machine.question(left, text="") if isinstance(left, (Symbol, Bound)) and (positive or true) else None


def _positive(node: cst.Comparison, operator: type) -> cst.Comparison:
    """The comparison in positive form: ``a != b`` asks whether ``a == b``."""
    target = node.comparisons[0]
    if isinstance(target.operator, operator):
        return node
    return node.with_changes(comparisons=[target.with_changes(operator=operator())])


def _question(machine: Machine, left: Value, right: Value, operator: type, node: cst.Comparison) -> Question:
    flag = _as_flag(machine, left, right, operator)
    text = _positive(node, operator)
    subject = (operator.__name__, left, right)
    if flag is not None:
        question = flag
        flag.word(text)
    elif operator in (cst.Equal, cst.Is):
        question = machine.question(subject, rivals=("equal", left) if isinstance(right, Const) else None, text=text)
    else:
        question = machine.question(subject, text=text)
    if isinstance(right, Const) and isinstance(right.value, (int, float)) and not isinstance(right.value, bool):
        _measure(question, left, right.value, operator)
        if flag is None and isinstance(left, Symbol):
            machine.question(left, text="").is_number(left)
    if right == Const("") and operator is cst.Equal and isinstance(left, Symbol):
        # A text is true unless it is this one, as a length is true unless it is 0.
        question.measure(left, (0, 0), (0, 1))
        machine.question(left, text="").measure(left, (0, 1))
    return question


def _measure(question: Question, left: Value, bound: float, operator: type) -> None:
    """``n > 1`` is never true together with ``n <= 1``, ``n < 1`` or ``n == 0``."""
    if operator is cst.GreaterThan:
        question.measure(left, (bound, 1))
    elif operator is cst.GreaterThanEqual:
        question.measure(left, (bound, 0))
    elif operator is cst.Equal and question.rivals is not None:
        question.measure(left, (bound, 0), (bound, 1))


def _decide(machine: Machine, left: Value, right: Value, operator: type) -> bool | None:
    if operator in (cst.Is, cst.Equal):
        if isinstance(left, Const) and isinstance(right, Const):
            return left.value == right.value
        if isinstance(left, (Class, External)) and isinstance(right, (Class, External)):
            return True if left == right else False if _are_other_types(left, right) else None
        if isinstance(left, (Device, Symbol)) and isinstance(right, (Device, Symbol)):
            return True if left == right else _same_device(left, right)
        if NONE in (left, right):
            other = left if right == NONE else right
            number = isinstance(other, Symbol) and other.type in NUMBER_TYPES
            return False if number or isinstance(other, (Object, Tensor, Device, Sequence, Function, AtLeast)) else None
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            return False if _differ(machine, left, right) else None
        for count, other in ((left, right), (right, left)):
            if isinstance(other, Const) and isinstance(other.value, int) and (bound := _bound(count)) is not None:
                return False if other.value < bound else None
        if isinstance(left, Device) and isinstance(right, Const) and type(right.value) is int:
            return _has_number(left, right.value)
        if is_built(left) and isinstance(right, Const) and isinstance(right.value, str):
            return False
        if isinstance(left, Device) and isinstance(right, Const):
            known = left == CPU or left.kind in ACCELERATORS
            return False if known and left.kind not in str(right.value) else None
        return None
    if operator in (cst.GreaterThan, cst.GreaterThanEqual):
        strict = operator is cst.GreaterThan
        if isinstance(left, Device) and left.kind in ACCELERATORS and right == Const(-1 if strict else 0):
            return True
        return _greater(left, right, strict)
    if operator is cst.In and isinstance(right, (Loaded, StateDict)) and _may_name_the_wrapped(left):
        state_dicts.keys_used(machine, right)
    items = content(machine, right) if operator is cst.In and isinstance(left, (Const, Class, External)) else None
    if items is not None:
        found = [_decide(machine, left, item, cst.Equal) for item in items.items]
        return True if True in found else False if items.exact and None not in found else None
    if operator is cst.In and isinstance(left, Const):
        if (classes := registries.classes_in(machine, right)) is not None:
            return left.value in classes
        if isinstance(right, Const) and isinstance(right.value, str) and isinstance(left.value, str):
            return left.value in right.value
        if isinstance(right, Symbol) and isinstance(left.value, str) and partial_text.surely_has(right, left.value):
            return True
        if isinstance(right, Device) and isinstance(left.value, str):
            return _names_kind(right, left.value)
    return None


def _names_kind(device: Device, text: str) -> bool | None:
    """``"cuda" in str(device)``, where the text has no index."""
    known = device.kind in ACCELERATORS or device == CPU
    return text in device.kind if known and text.isalpha() else None


def _has_number(device: Device, number: int) -> bool | None:
    """Whether ``x.get_device()`` equals a number; for a GPU, it is never negative."""
    if number < 0 or not isinstance(device.index, int):
        return False if number < 0 and device.kind in ACCELERATORS else None
    return device.index == number


def _differ(machine: Machine, left: Sequence, right: Sequence) -> bool:
    """Whether two sequences certainly differ in some item."""
    pairs = zip(left.items, right.items, strict=False) if left.exact and right.exact else ()
    return any(_decide(machine, one, other, cst.Equal) is False for one, other in pairs)


def _are_other_types(left: Class | External, right: Class | External) -> bool:
    """Whether two types certainly differ: a list is not a tensor, but two names of one library may be aliases."""
    if isinstance(left, Class) and isinstance(right, Class):
        return True
    roots = {"" if isinstance(one, Class) else one.name.partition(".")[0] for one in (left, right)}
    if roots == {"torch"}:
        return wrapper_base(left) != wrapper_base(right) or _are_layers(left, right)
    return len(roots) == 2 and ("builtins" in roots or roots == {"numpy", "torch"} or roots == {"", "torch"})


def _are_layers(*classes: Value) -> bool:
    """Whether all are known classes of torch.nn, which have one name each; an instance of Module may be any of them."""
    names = [one.name for one in classes if isinstance(one, External)]
    return len(names) == len(classes) and all(
        name.startswith("torch.nn.") and name != "torch.nn.Module" for name in names
    )


def _may_name_the_wrapped(key: Value) -> bool:
    """Whether a key may have a wrapper's prefix; ``"state_dict" in checkpoint`` cannot."""
    return not isinstance(key, Const) or "module." in str(key.value)


def _same_device(left: Place, right: Place) -> bool | None:
    return False if compare(left, right) is Placed.DIFFERENT else None


def _greater(left: Value, right: Value, strict: bool) -> bool | None:
    if (asked := _numbers(right)) is not None and left == _VERSION:
        return True if asked <= imports.PYTHON else None
    if (asked := _numbers(left)) is not None and right == _VERSION:
        return False if asked <= imports.PYTHON else None
    if isinstance(left, Const) and isinstance(right, Const):
        one, other = left.value, right.value
        if isinstance(one, (int, float)) and isinstance(other, (int, float)):
            return one > other if strict else one >= other
    if (bound := _bound(left)) is not None and isinstance(right, Const) and isinstance(right.value, int):
        return True if bound > right.value or (not strict and bound == right.value) else None
    if (bound := _bound(right)) is not None and isinstance(left, Const) and isinstance(left.value, int):
        return False if bound > left.value or (strict and bound == left.value) else None
    return None


_VERSION = External(imports.VERSION)


def _numbers(value: Value) -> tuple[int, ...] | None:
    """The numbers of a tuple, if all are known."""
    items = value.items if isinstance(value, Sequence) and value.exact else ()
    numbers = tuple(item.value for item in items if isinstance(item, Const) and type(item.value) is int)
    return numbers if numbers and len(numbers) == len(items) else None


def _bound(value: Value) -> int | None:
    """The lower bound of an unknown integer, if known."""
    if isinstance(value, AtLeast):
        return value.bound
    return 0 if isinstance(value, Symbol) and value.type == SIZE else None


def _compared_tensors(machine: Machine, left: Value, right: Value, node: cst.Comparison) -> Value:
    if isinstance(node.comparisons[0].operator, (cst.Is, cst.IsNot, cst.In, cst.NotIn)):
        return machine.fresh(node)
    labels = (node.left, node.comparisons[0].comparator)
    operands = [
        Operand(label, value) for label, value in zip(labels, (left, right), strict=False) if isinstance(value, Tensor)
    ]
    result = operations.operate(machine, "a comparison", operands, node)
    return replace(result, loss=replace(result.loss, reduction=None)) if result is not None else machine.fresh()


# --- arithmetic ------------------------------------------------------------------------------------------------


def binary(machine: Machine, node: cst.BinaryOperation) -> Value:
    newest = machine.newest
    left, right = expressions.evaluate(machine, node.left), expressions.evaluate(machine, node.right)
    if type(node.operator) is cst.Multiply:
        machine.signals.program.sequence_repeated(machine, node, left, right, newest)
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


_ADDING = (cst.Add, cst.AddAssign)


def arithmetic(
    machine: Machine,
    left: Value,
    right: Value,
    operator: cst.CSTNode,
    sources: tuple[cst.BaseExpression, cst.BaseExpression],
    node: cst.CSTNode,
) -> Value:
    """``left + right`` and other binary operations on single alternatives."""
    kind = type(operator)
    checkpoints.computed(machine, left, right)
    if kind is cst.Modulo and isinstance(left, Const) and isinstance(left.value, str) and not isinstance(right, Const):
        return _percent(machine, left.value, right, sources[1], node)
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _tensor_arithmetic(machine, left, right, operator, sources, node)
    if isinstance(left, Const) and isinstance(right, Const):
        return _folded(machine, left.value, right.value, kind)
    if kind is cst.Multiply:
        listed, times = (left, right) if content(machine, left) is not None else (right, left)
        items = content(machine, listed)
        if items is not None and isinstance(times, (Const, Symbol)):
            return machine.new_list(replace(items, exact=False), node)
    if kind in _ADDING:
        one, other = content(machine, left), content(machine, right)
        if one is not None and other is not None:
            joined = extent.joined(one, other)
            return joined if isinstance(left, Sequence) else machine.new_list(joined, node)
        if isinstance(left, Const) and isinstance(left.value, str):
            if isinstance(right, StateKey):
                return state_keys.prefixed(machine, left.value, right)
            return methods.formatted(machine, left.value, (right,), partial_text.concatenated((left, right)))
        if partial_text.is_text(left) or partial_text.is_text(right):
            return texts.made(machine, partial_text.concatenated((left, right)), texts.unknown((left, right)), node)
    if kind is cst.Divide and partial_text.is_text(right):
        return texts.made(machine, partial_text.path((left, right)), texts.unknown((left, right)), node, "")
    type_ = "number" if _is_number(left) and _is_number(right) else ""
    return machine.fresh(node, type_, depends(machine, left, right))


def _is_number(value: Value) -> bool:
    known = isinstance(value, Const) and isinstance(value.value, (int, float))
    return known or isinstance(value, AtLeast) or (isinstance(value, Symbol) and value.type in NUMBER_TYPES)


def _tensor_arithmetic(
    machine: Machine,
    left: Value,
    right: Value,
    operator: cst.CSTNode,
    sources: tuple[cst.BaseExpression, cst.BaseExpression],
    node: cst.CSTNode,
) -> Value:
    sides = [
        Operand(source, value)
        for source, value in zip(sources, (left, right), strict=False)
        if isinstance(value, Tensor)
    ]
    in_place = isinstance(operator, cst.BaseAugOp) and isinstance(left, Tensor)
    symbol = _SYMBOLS.get(type(operator), "an operator")
    if len(sides) == 1:
        tensor = sides[0].tensor
        other = right if isinstance(left, Tensor) else left
        scalar = tensor.scalar if isinstance(other, (Const, Symbol, AtLeast)) else None
        derived = operations.derive(tensor, f"`{symbol}`", node, scalar)
        if symbol != "@":
            derived = shapes.same(tensor, derived)
        derived = replace(derived, scattered=depends(machine, left, right))
        derived = gradient_paths.accompanied(machine, derived, other)
        if isinstance(other, Symbol) and tensor.place == CPU and tensor.scalar is not False and not in_place:
            # If the other operand is a CUDA tensor, the result of a 0-dim CPU tensor is on the GPU.
            derived = replace(derived, place=machine.fresh())
        return _scaled(machine, derived) if symbol in ("/", "/=", "*", "*=") else derived
    if in_place:
        sides = [replace(sides[0], output=True), *sides[1:]]
    if symbol in ("@", "@="):
        sides = operations.with_dimensions("matmul", sides)
    result = operations.operate(machine, f"`{symbol}`", sides, node)
    if result is None:
        return machine.fresh()
    lost = next((operations.derive(side.tensor, f"`{symbol}`", node).lost for side in sides), None)
    if symbol == "@":
        result = shapes.combined("matmul", result, list(enumerate(side.tensor for side in sides)), Arguments())
        return replace(shapes.split_along(result, sides[0].tensor.replica.split), lost=lost)
    gathered = next((side.tensor.loss.gathered for side in sides if side.tensor.loss.gathered is not None), None)
    return replace(result, lost=lost, loss=replace(result.loss, gathered=gathered))


def _scaled(machine: Machine, loss: Tensor) -> Tensor:
    """A divided or weighted loss is no longer a plain mean: the division may compute the average."""
    if loss.loss.reduced is not None:
        machine.notes[ReplicaLosses].divided.add(loss.loss.reduced)
    return replace(loss, loss=replace(loss.loss, reduction=None)) if loss.loss.per_replica else loss


def _folded(machine: Machine, left: object, right: object, operator: type) -> Value:
    """Arithmetic of constants, for computed devices and counts."""
    symbol = _SYMBOLS.get(operator, "").removesuffix("=")
    numbers = folding.is_number(left) and folding.is_number(right)
    return folding.arithmetic(left, symbol, right) or machine.fresh(type="number" if numbers else "")


def _percent(machine: Machine, text: str, right: Value, source: cst.BaseExpression, node: cst.CSTNode) -> Value:
    """``"loss %.3f" % loss``, which uses the loss as a number."""
    values = right.items if isinstance(right, Sequence) else (right,)
    sources = [element.value for element in source.elements] if isinstance(source, cst.Tuple) else [source]
    if any(mark in text for mark in ("%f", "%.", "%d", "%g", "%e")):
        for value, written in zip(values, sources, strict=False):
            expressions.used_as_number(machine, value, written, node)
    return methods.formatted(machine, text.partition("%")[0], tuple(values), partial_text.percent(text, values))


_TABLE: dict[type, Callable[..., Value]] = {
    cst.UnaryOperation: unary,
    cst.BooleanOperation: boolean,
    cst.IfExp: conditional,
    cst.Comparison: comparison,
    cst.BinaryOperation: binary,
}
EVALUATE = by_kind(_TABLE)
