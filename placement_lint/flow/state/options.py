"""Options: the parsers of argparse, configurations, and questions that the user of a program answers.

An option is unknown, as any value may be given, but its default is the value in most runs. The same holds for a setting
of a configuration once a file or the command line may override it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import Question
from placement_lint.flow.domain.values import (
    FALSE,
    NAMESPACE,
    NONE,
    TRUE,
    Class,
    Const,
    External,
    Function,
    Kind,
    Mapping,
    Object,
    Sequence,
    Symbol,
    Value,
    alternatives,
)
from placement_lint.flow.state.heap import MAPPING, Slot
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.names import names_of, value_of
from placement_lint.flow.state.program import Program
from placement_lint.source.abstract import meaning
from placement_lint.source.querying import dotted, last_name
from placement_lint.source.remembered import remembered
from placement_lint.source.tested_settings import is_only_tested
from placement_lint.source.walking import nodes_in

_PARSES = {"parse_args", "parse_intermixed_args"}
_PARSES_SOME = {"parse_known_args", "parse_known_intermixed_args"}
_GROUPS = {"add_argument_group", "add_mutually_exclusive_group"}
# Options with these actions have implicit defaults.
_DEFAULTS_OF_ACTIONS = {"store_true": FALSE, "store_false": TRUE, "count": NONE}

# The cell of a parser, or of its result, with the defaults of its options; that of a group with its parser.
_DEFAULTS = Slot("defaults")
_PARSER = Slot("parser")
# The cell of a result of ``parse_args`` with the first result of the same call.
_BEFORE = Slot("before")


# --- parsers -------------------------------------------------------------------------------------------------


def call(machine: Machine, parser: Symbol | Object, method: str, arguments: Arguments, node: cst.Call) -> Value | None:
    """The result of a method that may be one of a parser; None if it is another one."""
    if method in _PARSES | _PARSES_SOME:
        namespace = _namespace(machine, arguments, node)
        defaults = machine.read(parser.id, _DEFAULTS)
        if defaults is not None:
            machine.write(namespace.id, _DEFAULTS, defaults)
        return namespace if method in _PARSES else Sequence((namespace, machine.fresh(node)))
    if method == "add_argument":
        _declare(machine, parser, arguments)
    elif method == "set_defaults":
        _note(machine, parser, arguments.keywords)
    elif method in _GROUPS:
        group = machine.fresh(node)
        machine.write(group.id, _PARSER, Const(_parser(machine, parser)))
        return group
    return None


def handed_on(machine: Machine, given: Iterable[Value], call: cst.CSTNode) -> Symbol | None:
    """The parser of ``parser = add_options(parser)``: unknown code returns it, with more options."""
    line = machine.frame.line
    for statement in line.body if isinstance(line, cst.SimpleStatementLine) else ():
        if isinstance(statement, cst.Assign) and statement.value is call and len(statement.targets) == 1:
            before = value_of(machine, statement.targets[0].target)
            if isinstance(before, Symbol) and before.type != NAMESPACE and before in given:
                return before if machine.read(before.id, _DEFAULTS) is not None else None
    return None


def _namespace(machine: Machine, arguments: Arguments, node: cst.Call) -> Symbol:
    """A result of ``parse_args``. A program that parses its command line again gets the same options again."""
    key = "command line", node
    before = machine.known_part(machine.module_frame, key)
    if before is None:
        return machine.part(machine.module_frame, key, node, type=NAMESPACE)
    again = machine.fresh(node, NAMESPACE)
    if not arguments.values() and not arguments.spread:
        machine.write(again.id, _BEFORE, before)
    return again


def _parser(machine: Machine, owner: Symbol | Object) -> int:
    """The parser that a group of options belongs to, or itself."""
    known = machine.read(owner.id, _PARSER)
    return known.value if isinstance(known, Const) and isinstance(known.value, int) else owner.id


def _note(machine: Machine, owner: Symbol | Object, values: dict[str, Value]) -> None:
    parser = _parser(machine, owner)

    def more(known: Value) -> Value:
        return (known if isinstance(known, Mapping) else Mapping(())).with_items(values.items())

    machine.write(parser, _DEFAULTS, machine.lift(more, machine.read(parser, _DEFAULTS, unset=NONE)))


def _declare(machine: Machine, parser: Symbol | Object, arguments: Arguments) -> None:
    """``parser.add_argument("--lr", default=0.1)``"""
    flags = [given.value for given in arguments.positional if isinstance(given, Const)]
    texts = [flag for flag in flags if isinstance(flag, str)]
    named, action = arguments.keyword("dest"), arguments.keyword("action")
    if not texts or arguments.spread:
        return
    spelled = next((text for text in texts if text.startswith("--")), texts[0]).lstrip("-").replace("-", "_")
    name = named.value if isinstance(named, Const) and isinstance(named.value, str) else spelled
    implied = _DEFAULTS_OF_ACTIONS.get(str(action.value), NONE) if isinstance(action, Const) else NONE
    has_none = not texts[0].startswith("-") or arguments.keyword("required") == TRUE
    _note(machine, parser, {name: machine.fresh() if has_none else arguments.keyword("default") or implied})


def default(machine: Machine, namespace: Symbol, name: str) -> Const | None:
    """The value of an option unless the user gives another one, if that is a literal."""
    if namespace.type != NAMESPACE:
        return None
    known = alternatives(machine.read(namespace.id, _DEFAULTS, unset=NONE))
    values = {mapping.get(name) if isinstance(mapping, Mapping) else None for _, mapping in known}
    value = values.pop() if len(values) == 1 else None
    return value if isinstance(value, Const) else None


def option(machine: Machine, namespace: Symbol, name: str, text: str | cst.CSTNode) -> Value:
    """``args.name``: what the program assigned, or else the option, which the user may have given."""

    def given() -> Value:
        before = machine.read(namespace.id, _BEFORE)
        owner = before if isinstance(before, Symbol) else namespace
        return machine.part(owner.id, name, text, owner, preferred=default(machine, namespace, name))

    return machine.read(namespace.id, name, unset=given)


def shown(machine: Machine, value: Value) -> Symbol | None:
    """The result of ``parse_args`` whose attributes a dict shows: ``vars(args)``, ``args.__dict__``."""
    owner = owner_of(machine, value)
    return owner if isinstance(owner, Symbol) and owner.type == NAMESPACE else None


def owner_of(machine: Machine, value: Value) -> Symbol | Object | None:
    """Whose ``__dict__`` this is."""
    owner = value.parent if isinstance(value, Symbol) else None
    return owner if owner is not None and machine.known_part(owner.id, "__dict__") == value else None


def content(machine: Machine, namespace: Symbol) -> Mapping:
    """The options and attributes that a result of ``parse_args`` is known to have; it may have others."""
    declared = machine.read(namespace.id, _DEFAULTS)
    names = [name for name, _ in declared.items if isinstance(name, str)] if isinstance(declared, Mapping) else []
    assigned = (name for name in machine.store.variables(namespace.id) if name.isidentifier())
    called = (name for frame in reversed(machine.frames) for name in names_of(machine, frame.id, namespace))
    label = next(iter(called), machine.label(namespace))
    known = [(name, option(machine, namespace, name, f"{label}.{name}")) for name in dict.fromkeys((*names, *assigned))]
    return Mapping(tuple(known), machine.fresh())


# The cell of an unknown key of a dict with the known keys, which it is not.
_OTHER_THAN = Slot("other than")


def other_key(machine: Machine, known: Iterable[object]) -> Symbol:
    """A key of a dict that is none of the known ones."""
    key = machine.fresh()
    machine.write(key.id, _OTHER_THAN, Const(frozenset(known)))
    return key


def excluded(machine: Machine, name: Value | None) -> frozenset[object]:
    """The names that an unknown one is not."""
    known = machine.read(name.id, _OTHER_THAN) if isinstance(name, Symbol) else None
    return known.value if isinstance(known, Const) and isinstance(known.value, frozenset) else frozenset()


# Methods by which the configurations of dict, yacs, EasyDict and OmegaConf take over other values.
OVERRIDING = frozenset(
    {"update", "merge_from_file", "merge_from_list", "merge_from_other_cfg", "merge_with", "merge_with_dotlist"}
)


def overridden(machine: Machine, function: Function, arguments: Arguments) -> Iterator[Value]:
    """The values that a function that is not analysed may override: it assigns items or attributes of any name.

    These are its arguments, including the object whose method it is, or attributes of them.
    """
    names = _overridden_in(function.node.body)
    for place, parameter in enumerate(function.parameters if names else ()):
        for name in names:
            first, *attributes = name.split(".")
            value = arguments.get(place, first) if parameter.name.value == first else None
            for attribute in attributes:
                value = machine.read(value.id, attribute) if isinstance(value, (Object, Symbol)) else None
            if value is not None:
                yield value


@remembered
def _overridden_in(body: cst.CSTNode) -> tuple[str, ...]:
    """The names, such as ``cfg.MODEL``, whose items or attributes get other values under names not written out."""
    return tuple(dict.fromkeys(map(dotted, _owners_in(body))))


def _owners_in(body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for each in nodes_in(body):
        target = each.target if isinstance(each, cst.AssignTarget) else None
        if isinstance(target, cst.Subscript) and not _is_written_out(target):
            yield target.value
        if isinstance(each, cst.Attribute) and each.attr.value == "__dict__":
            yield each.value
        if isinstance(each, cst.Call) and isinstance(each.func, cst.Attribute) and each.func.attr.value in OVERRIDING:
            yield each.func.value
        if isinstance(each, cst.Call) and last_name(each.func) == "setattr" and len(each.args) > 1:
            owner, name, *_ = (argument.value for argument in each.args)
            if not isinstance(name, cst.SimpleString):
                yield owner


# The cell of a dict with what its display says, if that is at the top level of another file.
_SETTINGS = Slot("settings")


def note_display(machine: Machine, made: Object, content: Mapping) -> None:
    """Record that a dict is one of settings: another file than the program's own displays it at its top level."""
    if machine.frame.function is None and not machine.at_home:
        machine.write(made.id, _SETTINGS, content)


def setting(machine: Machine, source: cst.BaseExpression, value: Value) -> Value:
    """The option that ``config["mode"]`` is where the program tests it: its users edit the file that has the dict.

    The same holds for ``config.mode`` if the class of ``config`` has nothing but settings.
    """
    if isinstance(source, cst.Attribute) and isinstance(value, Const) and type(value.value) is str:
        return _setting_of_class(machine, source, value)
    if not isinstance(source, cst.Subscript) or not machine.at_home:
        return value
    if not isinstance(value, Const) or type(value.value) not in (bool, str):
        return value
    owner = _owner_of_item(machine, source)
    displayed = machine.read(owner.id, _SETTINGS) if owner is not None else None
    # What the program itself has put there is no setting.
    if owner is None or not isinstance(displayed, Mapping) or displayed.get(_key_of(source)) != value:
        return value
    return machine.part(owner.id, _key_of(source), source, preferred=value)


def _setting_of_class(machine: Machine, source: cst.Attribute, value: Const) -> Value:
    owner, name = value_of(machine, source.value), source.attr.value
    cls = owner.cls if isinstance(owner, Object) and owner.kind is Kind.INSTANCE else None
    if not isinstance(cls, Class) or not machine.at_home or cls.bases not in ((), (External("builtins.object"),)):
        return value
    written = _constants_of(machine.definition(cls)).get(name)
    if (
        written != value
        or machine.read(cls.id, name) != value
        or not is_only_tested(machine.notes[Program].module, source)
    ):
        return value
    return machine.part(cls.id, name, source, preferred=value)


@remembered
def _constants_of(definition: cst.ClassDef) -> dict[str, Const]:
    """The texts that a class sets, by their names; none if it has anything but constants."""
    found: dict[str, Const] = {}
    for line in definition.body.body:
        for each in line.body if isinstance(line, cst.SimpleStatementLine) else (line,):
            value = each.value if isinstance(each, (cst.Assign, cst.Expr)) else None
            if isinstance(each, cst.Assign) and isinstance(value, cst.SimpleString):
                found.update((dotted(one.target), Const(meaning(value))) for one in each.targets)
            elif not isinstance(each, (cst.Pass, cst.Assign, cst.Expr)):
                return {}
    return found


def _owner_of_item(machine: Machine, source: cst.Subscript) -> Object | None:
    owner = value_of(machine, source.value)
    if isinstance(source.value, cst.Subscript):
        outer = _owner_of_item(machine, source.value)
        content = machine.read(outer.id, MAPPING) if outer is not None else None
        owner = content.get(_key_of(source.value)) if isinstance(content, Mapping) else None
    return owner if isinstance(owner, Object) else None


def _key_of(source: cst.Subscript) -> str:
    """The key in ``config["mode"]``; empty if it is not written out."""
    index = source.slice[0].slice if len(source.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    return str(meaning(key)) if isinstance(key, cst.SimpleString) else ""


def _is_written_out(target: cst.Subscript) -> bool:
    indices = [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]
    return any(isinstance(index, (cst.SimpleString, cst.Integer)) for index in indices)


# --- options -------------------------------------------------------------------------------------------------


def switches(question: Question) -> frozenset[Value]:
    """The options that alone decide a question, tested as a flag or compared with literals; otherwise empty.

    A value computed from an option, or a part of it, is excluded: two questions about it may mean the same. A word of
    the command line, as in ``"--gpu" in sys.argv``, is an option.
    """
    parts = _compared(question)
    if looks_into_command_line(question):
        return frozenset(part for part in parts if isinstance(part, Const))
    options = frozenset(part for part in parts if _is_read_outright(part))
    return options if all(part in options or isinstance(part, Const) for part in parts) else frozenset()


def asks_for_kind_of_data(question: Question) -> bool:
    """Whether it tests if something is a tensor, an array, or of another kind of data, such as a list."""
    subject = question.subject
    if not isinstance(subject, tuple) or subject[0] != "isinstance":
        return False
    classes = subject[2].items if isinstance(subject[2], Sequence) else (subject[2],)
    names = [cls.name for cls in classes if isinstance(cls, External)]
    return any(name.startswith(_KINDS_OF_DATA) for name in names)


# The classes of data that programs tell apart, by the beginnings of their names.
_KINDS_OF_DATA = ("builtins.", "collections.", "typing.", "torch.Tensor", "numpy.ndarray")


def is_flag(question: Question) -> bool:
    """Whether it is a flag of the command line, on or off."""
    if isinstance(question.subject, Symbol):
        return question.subject.preferred in (TRUE, FALSE)
    return looks_into_command_line(question)


def looks_into_command_line(question: Question) -> bool:
    """Whether it is ``"--gpu" in sys.argv``."""
    subject = question.subject
    return isinstance(subject, tuple) and subject[0] == cst.In.__name__ and subject[-1] == _COMMAND_LINE


_COMMAND_LINE = External("sys.argv")


def preferred_answer(question: Question) -> bool | None:
    """The answer with all options at their defaults; None if it is unknown."""
    if looks_into_command_line(question):
        return False
    parts = _compared(question)
    known = [part.preferred if isinstance(part, Symbol) else part for part in parts]
    values = [part.value for part in known if isinstance(part, Const)]
    if not switches(question) or len(values) < len(parts):
        return None
    if len(values) == 1:
        return bool(values[0])
    compare = _COMPARISONS.get(question.subject[0]) if isinstance(question.subject, tuple) else None
    try:
        return bool(compare(*values)) if compare is not None else None
    except TypeError:
        return None


_COMPARISONS: dict[object, Callable[..., Any]] = {
    cst.Equal.__name__: operator.eq,
    cst.Is.__name__: operator.eq,
    cst.GreaterThan.__name__: operator.gt,
    cst.GreaterThanEqual.__name__: operator.ge,
    cst.In.__name__: lambda one, held: one in held,
}


def _compared(question: Question) -> list[Any]:
    """The subject of a question: a flag, or the two sides of a comparison."""
    subject = question.subject
    return [*subject[1:]] if isinstance(subject, tuple) else [subject]


def _is_read_outright(value: object) -> TypeGuard[Symbol]:
    if not isinstance(value, Symbol):
        return False
    return value.preferred is not None or (isinstance(value.parent, Symbol) and value.parent.type == NAMESPACE)
