"""The evaluation of expressions and their effects, by node type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Many

import libcst as cst

from placement_lint.flow.api.bounds import MOST_ITEMS
from placement_lint.flow.api.torch_names import ITEM_TYPES
from placement_lint.flow.domain import folding, partial_text
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS, Condition
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    FALSE,
    NONE,
    TRUE,
    Choice,
    Const,
    Function,
    Kind,
    Loaded,
    Mapping,
    Object,
    Parameters,
    Role,
    Sequence,
    Slice,
    StateKey,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.interpreter import attributes, calls, iteration, methods, operators, subscripts
from placement_lint.flow.models import (
    checkpoints,
    gradients,
    lengths,
    named_parameters,
    optimizers,
    replica_losses,
    schedulers,
    shapes,
    state_keys,
)
from placement_lint.flow.models.gradients import NoGrad
from placement_lint.flow.state import extent, imports, options, texts
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import bind, lookup
from placement_lint.flow.state.program import Program
from placement_lint.source.abstract import meaning, words
from placement_lint.source.abstraction import by_kind, of_kind
from placement_lint.source.querying import reads_attribute
from placement_lint.source.wording import source_text

YIELDS = Slot("yields")


def evaluate(machine: Machine, node: cst.BaseExpression) -> Value:
    """The value of an expression on this path."""
    handler = _EVALUATE.get(type(node)) or operators.EVALUATE.get(type(node))
    if handler is None:
        return machine.fresh()
    value = handler(machine, node)
    if isinstance(value, Choice):
        value = machine.restrict(value)
    if machine.now[NoGrad].count and isinstance(value, Tensor) and value.leaf.computed:
        return gradients.severed(value)
    return value


# --- names and literals ----------------------------------------------------------------------------------------


_CONSTANTS = {"None": NONE, "True": TRUE, "False": FALSE}


def _name(machine: Machine, node: cst.Name) -> Value:
    constant = _CONSTANTS.get(node.value)
    return constant if constant is not None else gradients.as_asked(machine, lookup(machine, node.value, runs=True))


def _attribute(machine: Machine, node: cst.Attribute) -> Value:
    return attributes.read(machine, evaluate(machine, node.value), node.attr.value, node)


def _literal(machine: Machine, node: cst.Integer | cst.Float | cst.SimpleString) -> Value:
    value = meaning(node)
    names_accelerator = isinstance(value, str) and value.partition(":")[0] in ACCELERATORS
    # A literal of another file may be a default that the caller overrides.
    return Const(value, node) if names_accelerator and machine.at_home else Const(value)


def _formatted_string(machine: Machine, node: cst.FormattedString | cst.ConcatenatedString) -> Value:
    """An f-string; a per-replica loss with a format specification is used as a number."""
    prefix, constant = "", True
    values: list[Value] = []
    letters: list[str] = []
    for part in _string_parts(node):
        if isinstance(part, str):
            prefix, constant = (prefix + part, constant) if not values else (prefix, False)
            letters.append(part)
            continue
        value = evaluate(machine, part.expression)
        letters.append(partial_text.HOLE if part.format_spec or part.conversion else partial_text.letters(value))
        if part.format_spec:
            used_as_number(machine, value, part.expression, part)
        constant = constant and not part.format_spec and not part.conversion and part.equal is None
        values.append(value)
    if not values:
        return Const(prefix)
    if len(values) == 1 and isinstance(values[0], StateKey) and constant:
        return state_keys.prefixed(machine, prefix, values[0])
    if len(values) == 1 and isinstance(values[0], Const) and constant:
        text = folding.field(values[0].value)
        return (folding.joined((prefix, text)) if text is not None else None) or machine.fresh(type="str")
    made = partial_text.joined(letters)
    if len(values) == 1:
        return machine.lift(lambda value: methods.formatted(machine, prefix, (value,), made), values[0])
    return texts.made(machine, made, tuple(values))


def _string_parts(node: cst.BaseExpression) -> Iterator[str | cst.FormattedStringExpression]:
    for piece in _pieces(node):
        if isinstance(piece, cst.FormattedString):
            for part in piece.parts:
                if isinstance(part, cst.FormattedStringExpression):
                    if part.equal is not None:
                        yield f"{source_text(part.expression)}="
                    yield part
                elif isinstance(part, cst.FormattedStringText):
                    yield words(part, piece)
        elif isinstance(piece, cst.SimpleString):
            yield str(meaning(piece))


def _concatenated(machine: Machine, node: cst.ConcatenatedString) -> Value:
    """The value of implicitly concatenated strings."""
    pieces = list(_pieces(node))
    literals = [meaning(piece) for piece in pieces if isinstance(piece, cst.SimpleString)]
    if all(isinstance(literal, bytes) for literal in literals) and len(literals) == len(pieces):
        return Const(b"".join(literal for literal in literals if isinstance(literal, bytes)))
    strings = all(isinstance(piece, (cst.SimpleString, cst.FormattedString)) for piece in pieces)
    return _formatted_string(machine, node) if strings else machine.fresh()


def _pieces(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts of implicitly concatenated strings."""
    while isinstance(node, cst.ConcatenatedString):
        yield node.left
        node = node.right
    yield node


def used_as_number(machine: Machine, value: Value, expression: cst.BaseExpression, node: cst.CSTNode) -> None:
    def use(option: Value) -> Value:
        if isinstance(option, Tensor):
            replica_losses.used_as_number(
                machine, option, "format", f"formatting {machine.text(expression)}", expression, node
            )
        return NONE

    machine.lift(use, value)


# --- displays and comprehensions ---------------------------------------------------------------------------------


def _items(machine: Machine, elements: Many[cst.BaseElement]) -> Sequence:
    items: list[Value] = []
    # the number of items before the first unpacked value of unknown length, and after the last
    before, behind = None, 0
    for element in elements:
        value = evaluate(machine, element.value)
        if type(element) in _STARRED:
            each = Sequence((value.listed(),), exact=False) if isinstance(value, Parameters) else None
            inner = each or content(machine, value)
            exact = inner is not None and inner.exact
            before = len(items) if before is None and not exact else before
            items.extend(inner.items if inner is not None else ())
            behind = behind if exact else len(items)
            if len(items) > MOST_ITEMS:
                return Sequence(tuple(items[:MOST_ITEMS]), exact=False)
        else:
            items.append(_one_of_several(value))
    return Sequence(tuple(items), before is None, None if before is None else (before, len(items) - behind))


_STARRED = of_kind(cst.StarredElement)


def _one_of_several(value: Value) -> Value:
    """An item without its literal: a use of the list is not a use of every device in it."""
    return Const(value.value) if isinstance(value, Const) and value.written is not None else value


def _tuple(machine: Machine, node: cst.Tuple) -> Value:
    items = _items(machine, node.elements)
    return replace(items, items=tuple([extent.reached(machine, item) for item in items.items]))


def _list(machine: Machine, node: cst.List) -> Value:
    items = _items(machine, node.elements)
    machine.signals.program.values_given_away(machine, items.items, node)
    return _new_list(machine, items, node)


def _set(machine: Machine, node: cst.Set) -> Value:
    return _new_list(machine, replace(_items(machine, node.elements), exact=False), node)


def _new_list(machine: Machine, items: Sequence, node: cst.CSTNode) -> Object:
    machine.signals.program.values_collected(machine, items.items)
    return machine.new_list(items, node)


def _dict(machine: Machine, node: cst.Dict) -> Value:
    mapping = Mapping(())
    pairs: list[tuple[Value, Value]] = []
    for element in node.elements:
        if isinstance(element, cst.DictElement):
            pairs.append((evaluate(machine, element.key), evaluate(machine, element.value)))
        else:
            mapping = _merged(machine, _with_pairs(mapping, pairs), evaluate(machine, element.value))
            pairs = []
    values = [value for _, value in pairs]
    machine.signals.program.values_given_away(machine, values, node)
    machine.signals.program.values_collected(machine, values)
    content = _with_pairs(mapping, pairs)
    made = new_dict(machine, content, node)
    options.note_display(machine, made, content)
    return made


def _with_pairs(mapping: Mapping, pairs: list[tuple[Value, Value]]) -> Mapping:
    """The content of a dict with more entries; the last value of an unknown key represents all of them."""
    unknown = [value for key, value in pairs if not isinstance(key, Const)]
    filled = mapping.with_items((key.value, value) for key, value in pairs if isinstance(key, Const))
    return replace(filled, rest=unknown[-1]) if unknown else filled


def _merged(machine: Machine, mapping: Mapping, other: Value) -> Mapping:
    if isinstance(other, Object) and other.kind is Kind.DICT:
        other = machine.read(other.id, MAPPING) or other
    namespace = options.shown(machine, other)
    if namespace is not None:
        other = options.content(machine, namespace)
    if not isinstance(other, Mapping):
        return replace(mapping, rest=machine.fresh())
    return replace(mapping.with_items(other.items), rest=mapping.rest or other.rest)


def new_dict(machine: Machine, mapping: Mapping, node: cst.CSTNode) -> Object:
    return machine.new_dict(mapping, node)


def _comprehended(
    machine: Machine, loop: cst.CompFor, make: Callable[[], Value], iterable: Value
) -> tuple[list[Value], bool]:
    """The values of a comprehension: one for each known item of what it goes over, or one for all unknown items.

    Also whether the values are complete.
    """
    known = iteration.each(machine, iterable)
    named = named_parameters.pairs(machine, iterable) if known is None and _asks_by_name(loop) else None
    results = _values(machine, loop, named, make) if named is not None else []
    if not results:
        # if no known name passes the tests, the program refers to names that the analysis does not know
        items = known if known is not None else (iteration.element(machine, iterable, loop.iter),)
        results = _values(machine, loop, items, make)
    all_known = iteration.items_of(machine, iterable)
    exact = all_known is not None and all_known.exact
    # Tests that are surely false for the item that represents all unknown ones leave nothing.
    exact = not results if loop.ifs else exact
    return results, exact and loop.inner_for_in is None


def _values(machine: Machine, loop: cst.CompFor, items: Iterable[Value], make: Callable[[], Value]) -> list[Value]:
    """The values of a comprehension over these items."""
    results: list[Value] = []
    for item in items:
        assign(machine, loop.target, item, loop)
        if loop.inner_for_in is not None:
            inner = evaluate(machine, loop.inner_for_in.iter)
            results.extend(_comprehended(machine, loop.inner_for_in, make, inner)[0])
            continue
        guard = _guard(machine, loop)
        if guard.possible:
            results.append(machine.fork(((guard, make),), asks=True))
    return results


def _asks_by_name(loop: cst.CompFor) -> bool:
    """Whether a comprehension over ``named_parameters()`` filters, and not by ``requires_grad``."""
    return bool(loop.ifs) and not any(reads_attribute(test, "requires_grad") for test in loop.ifs)


def _guard(machine: Machine, loop: cst.CompFor) -> Condition:
    guard = ALWAYS
    for test in loop.ifs:
        guard = guard & operators.truth(machine, evaluate(machine, test.test), test.test)
    return guard


def _list_comprehension(machine: Machine, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> Value:
    iterable = evaluate(machine, node.for_in.iter)
    values, exact = _comprehended(machine, node.for_in, lambda: evaluate(machine, node.elt), iterable)
    filtered = any(reads_attribute(test, "requires_grad") for test in node.for_in.ifs)
    if isinstance(iterable, Parameters) and filtered and _is_parameter(iterable, node):
        values = [replace(iterable.listed(), named=False, trainable=True)]
    made = _new_list(machine, Sequence(tuple(values), exact), node)
    if isinstance(node, cst.GeneratorExp):
        return gradients.over(machine, made, iterable)
    gradients.consume(machine, iterable, node)
    return made


def _is_parameter(parameters: Parameters, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> bool:
    """Whether a comprehension over parameters yields the parameters themselves: `p`, not `p.sum()`."""
    bound: cst.CSTNode = node.for_in.target
    if parameters.named and isinstance(bound, cst.Tuple) and len(bound.elements) == 2:
        bound = bound.elements[1].value
    elif parameters.named:
        return False
    return isinstance(bound, cst.Name) and isinstance(node.elt, cst.Name) and bound.value == node.elt.value


def _dict_comprehension(machine: Machine, node: cst.DictComp) -> Value:
    def pair() -> Value:
        key = evaluate(machine, node.key)
        if isinstance(key, StateKey) and not state_keys.is_for_all(machine, key):
            key = machine.fresh(node.key)
        return Sequence((key, evaluate(machine, node.value)))

    def filled(iterable: Value) -> Value:
        pairs, _ = _comprehended(machine, node.for_in, pair, iterable)
        known = [(item.items[0], item.items[1]) for item in pairs if isinstance(item, Sequence)]
        machine.signals.program.values_collected(machine, [value for _, value in known])
        renamed = state_keys.put(machine, Mapping(()), *known[0]) if len(known) == 1 else None
        return new_dict(machine, renamed or _with_pairs(Mapping(()), known), node)

    iterable = evaluate(machine, node.for_in.iter)
    # One of the alternatives may hold the entries of a file or a state dict.
    differ = len({iteration.items_of(machine, option) for _, option in alternatives(iterable)}) > 1
    made = machine.lift(filled, iterable) if differ else filled(iterable)
    gradients.consume(machine, iterable, node)
    return made


# --- calls, items, and the rest ----------------------------------------------------------------------------------


def _call(machine: Machine, node: cst.Call) -> Value:
    machine.spend()
    callee = evaluate(machine, node.func)
    values = [evaluate(machine, argument.value) for argument in node.args]
    if machine.dead:
        return NONE
    machine.note_site(node)
    imports.note_use(machine, callee, node)
    # One of several dicts may have keywords that the others lack.
    unpacked = [value for argument, value in zip(node.args, values, strict=True) if argument.star == "**"]
    return machine.lift(
        lambda *chosen: calls.call(machine, callee, _given(machine, node, values, chosen), node), *unpacked
    )


def _given(machine: Machine, node: cst.Call, values: Many[Value], unpacked: Many[Value]) -> Arguments:
    """The arguments of a call, of these values; the dicts that it unpacks are ``unpacked``."""
    positional: list[Value] = []
    keywords: dict[str, Value] = {}
    spread = False
    dicts = iter(unpacked)
    for argument, value in zip(node.args, values, strict=True):
        if argument.star == "*":
            items = content(machine, value)
            taken = extent.joined(Sequence(tuple(positional)), items or Sequence((), exact=False))
            positional, spread = list(taken.items), spread or not taken.exact
        elif argument.star == "**":
            mapping = _merged(machine, Mapping(()), next(dicts))
            keywords.update({key: item for key, item in mapping.items if isinstance(key, str)})
            spread = spread or mapping.rest is not None
        elif argument.keyword is not None:
            keywords[argument.keyword.value] = value
        else:
            positional.append(value)
    return Arguments(tuple(positional), keywords, spread)


def _subscript(machine: Machine, node: cst.Subscript) -> Value:
    owner, key = evaluate(machine, node.value), key_of(machine, node)
    if isinstance(owner, StateKey):
        return state_keys.item(machine, owner, key)
    return subscripts.read(machine, owner, key, node)


def key_of(machine: Machine, node: cst.Subscript) -> Value:
    """The value of the subscript."""
    keys = [
        evaluate(machine, element.slice.value)
        if isinstance(element.slice, cst.Index)
        else _slice(machine, element.slice)
        for element in node.slice
    ]
    return keys[0] if len(keys) == 1 else Sequence(tuple(keys))


def _slice(machine: Machine, node: cst.BaseSlice) -> Value:
    if not isinstance(node, cst.Slice):
        return Slice()
    values = [evaluate(machine, bound) if bound is not None else NONE for bound in (node.lower, node.upper, node.step)]
    bounds = tuple(value.value for value in values if isinstance(value, Const))
    return Slice(bounds if len(bounds) == len(values) else None)


def _ellipsis(machine: Machine, node: cst.Ellipsis) -> Value:
    return Const(...)


def _lambda(machine: Machine, node: cst.Lambda) -> Value:
    return Function(node, machine.enclose(), "lambda")


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
            value = iteration.element(machine, value, inner)
        if machine.read(machine.frame.id, YIELDS) is None:
            machine.write(machine.frame.id, YIELDS, value)
    return machine.fresh("sent")


def _starred(machine: Machine, node: cst.StarredElement) -> Value:
    return evaluate(machine, node.value)


# --- assignment ------------------------------------------------------------------------------------------------


def assign(machine: Machine, target: cst.BaseExpression, value: Value, node: cst.CSTNode) -> None:
    """Bind a target: a name, an attribute, an item, or a nested pattern of these; ``node`` is the statement."""
    handler = _ASSIGN.get(type(target))
    if handler is not None:
        handler(machine, target, value, node)
    if machine.log is not None and machine.at_home and isinstance(target, (cst.Name, cst.Attribute)):
        machine.log.assigned(machine, target, value, node)


def _assign_name(machine: Machine, target: cst.Name, value: Value, node: cst.CSTNode) -> None:
    before = machine.read(machine.frame.id, target.value)
    # The variable of a loop goes over several models, of which none replaces another.
    if before is not None and not isinstance(node, (cst.For, cst.CompFor)):
        optimizers.succeeded(machine, target.value, before, value, node)
    bind(machine, target.value, value)
    at_top = machine.frame.id == machine.module_frame
    if value == NONE and at_top and target.value in machine.notes[Program].left_unset:
        machine.override(machine.frame.id, target.value, target.value, NONE)
    schedulers.succeeded(machine, target.value, before, value, node)


def _assign_attribute(machine: Machine, target: cst.Attribute, value: Value, node: cst.CSTNode) -> None:
    owner = evaluate(machine, target.value)
    attributes.write(machine, owner, target.attr.value, value, node, target)


def _assign_item(machine: Machine, target: cst.Subscript, value: Value, node: cst.CSTNode) -> None:
    owner, key = evaluate(machine, target.value), key_of(machine, target)
    if any(_is_batch(option) for _, option in alternatives(owner)):
        owner = machine.lift(lambda option: _opened(machine, option, key, node), owner)
        assign(machine, target.value, owner, node)
    subscripts.write(machine, owner, key, value, node, target)


def _is_batch(value: Value) -> bool:
    """Whether a value is a loader's batch, with known fields or not: it has no cells for assigned items."""
    return isinstance(value, Sequence) or (isinstance(value, Tensor) and value.role is Role.BATCH)


def _opened(machine: Machine, batch: Value, key: Value, node: cst.CSTNode) -> Value:
    """A batch as a list or dict, once the program assigns an item: its fields may then differ in device."""
    if isinstance(batch, Sequence):
        return machine.new_list(batch, node)
    if not _is_batch(batch):
        return batch
    named = isinstance(key, Const) and isinstance(key.value, str)
    return machine.new_dict(Mapping((), rest=batch), node) if named else machine.fresh(node)


def _unpack(machine: Machine, pattern: cst.Tuple | cst.List, value: Value, node: cst.CSTNode) -> None:
    targets = pattern.elements
    starred = next((place for place, target in enumerate(targets) if type(target) in _STARRED), None)
    # the number of items, if known
    count = len(targets) if starred is None else 0
    for place, target in enumerate(targets):
        if starred is not None and place >= starred:
            part: Value = machine.fresh()
        else:
            part = machine.lift(lambda option, place=place: _part(machine, option, place, count), value)
            part = lengths.given_back(machine, part, target.value, node)
        assign(machine, target.value, part, node)


_ASSIGN: dict[type, Callable[..., None]] = by_kind(
    {
        cst.Name: _assign_name,
        cst.Attribute: _assign_attribute,
        cst.Subscript: _assign_item,
        cst.Tuple: _unpack,
        cst.List: _unpack,
    }
)


def _part(machine: Machine, value: Value, place: int, count: int) -> Value:
    if isinstance(value, Tensor):
        kept = value
        if value.role is not Role.BATCH:
            kept = shapes.row(value, replace(shapes.split_along(value, None), rows=frozenset(), literal=False))
        return replace(kept, replica=replace(kept.replica, padded=None), uid=machine.new_id())
    if isinstance(value, Loaded):
        checkpoints.used(machine, value)
    items = content(machine, value)
    if items is not None and items.around is not None:
        known = next((at for at in (place, place - count) if items.has_in_place(at)), None)
        return items.items[known] if known is not None else machine.fresh()
    if items is not None and items.items:
        if place < len(items.items):
            return items.items[place]
        return machine.fresh() if items.exact else items.items[-1]
    if isinstance(value, Symbol) and value.scattered:
        return machine.fresh("", ITEM_TYPES.get(value.type, ""), place == 0)
    if isinstance(value, Symbol):
        return machine.part(value.id, ("part", place), "", None, ITEM_TYPES.get(value.type, ""))
    return machine.fresh()


_TABLE: dict[type, Callable[..., Value]] = {
    cst.Name: _name,
    cst.Attribute: _attribute,
    cst.Ellipsis: _ellipsis,
    cst.Integer: _literal,
    cst.Float: _literal,
    cst.SimpleString: _literal,
    cst.ConcatenatedString: _concatenated,
    cst.FormattedString: _formatted_string,
    cst.Tuple: _tuple,
    cst.List: _list,
    cst.Set: _set,
    cst.Dict: _dict,
    cst.ListComp: _list_comprehension,
    cst.SetComp: _list_comprehension,
    cst.GeneratorExp: _list_comprehension,
    cst.DictComp: _dict_comprehension,
    cst.Call: _call,
    cst.Subscript: _subscript,
    cst.Lambda: _lambda,
    cst.NamedExpr: _named,
    cst.Await: _await,
    cst.Yield: _yield,
    cst.StarredElement: _starred,
}
_EVALUATE = by_kind(_TABLE)
