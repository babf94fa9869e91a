"""Entry points: each class and function that nothing calls, analysed by itself with unknown arguments.

Triage skips definitions that cannot cause a finding, such as most definitions of a model library.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Many
from contextlib import contextmanager
from functools import partial

import libcst as cst

from placement_lint.flow.api.torch_names import MODULE_MOVES
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.path_condition import ALWAYS
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import (
    ACCELERATORS,
    OWN,
    Class,
    Device,
    Function,
    Kind,
    Object,
    Placed,
    Role,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.incremental.definition_memo import Definition, Outcomes
from placement_lint.flow.interpreter import calls
from placement_lint.flow.models import checkpoints, frameworks, lightning, modules, visible_devices
from placement_lint.flow.observers import alloc_in_forward, stale_forward_state
from placement_lint.flow.state.accesses import Accesses
from placement_lint.flow.state.budget import ABROAD_FOR_UNCALLED
from placement_lint.flow.state.classes import find, has_base, has_unknown_base, methods
from placement_lint.flow.state.containers import content, entries
from placement_lint.flow.state.machine import Machine
from placement_lint.flow.state.module_notes import ModuleNotes
from placement_lint.flow.state.moment import Calls
from placement_lint.flow.state.program import Program
from placement_lint.flow.triage.entry_filter import Prospects
from placement_lint.rule import Note
from placement_lint.source.querying import assignments_to_self, attributes_read

# The budget of calls for each entry point.
_FUEL_EACH = 2_000


def look_at_the_uncalled(machine: Machine, outcomes: Outcomes | None = None, thorough: bool = False) -> None:
    """Analyse the definitions that the program never calls; ``outcomes`` are those of an editor's last text.

    A ``thorough`` analysis skips nothing, even if triage expects no finding.
    """
    machine.now[Calls].standalone = True
    machine.budget.abroad, machine.budget.spent = ABROAD_FOR_UNCALLED, 0
    visible_devices.forget_script(machine)
    look = outcomes.begin() if outcomes is not None else _look
    prospects = Prospects(machine)
    for definition, values, work in _uncalled(machine):
        if thorough or prospects.promising(values):
            look(machine, definition, values, partial(work, machine, *values))
        elif outcomes is not None:
            outcomes.pass_over(definition)
    if outcomes is not None:
        outcomes.end()


def _uncalled(machine: Machine) -> Iterator[tuple[Definition, Many[Class | Function], Callable[..., None]]]:
    """The uncalled definitions, each with its values and its analysis: for a class, its methods that nothing calls.

    The analysis of one definition may call others, which are then not entry points.
    """
    program = machine.notes[Program]
    demonstrated = _demonstrated(program)
    for cls in list(program.classes):
        if cls.module:
            program.called -= demonstrated.intersection(method.node for method in _methods(machine, cls))
        uncalled = _uncalled_methods(machine, cls)
        if uncalled:
            yield machine.definition(cls), (cls, *uncalled), _look_at_class
    for node, function in list(program.functions.items()):
        if node not in program.called and isinstance(node, cst.FunctionDef):
            yield node, (function,), _look_at_function


def _demonstrated(program: Program) -> set[cst.CSTNode]:
    """The definitions that a script calls if it calls none of its functions: it demonstrates the use of its classes."""
    return program.called_by_script if program.called_by_script.isdisjoint(program.functions) else set()


def _look(_machine: Machine, _definition: Definition, _values: Many[Value], look: Callable[[], None]) -> None:
    look()


@contextmanager
def _by_itself(machine: Machine, entry: cst.CSTNode) -> Iterator[None]:
    """Run in the state after the module's top-level statements, and roll back the store afterwards."""
    machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS
    machine.now[Calls].entry = (entry,)
    machine.budget.begin(_FUEL_EACH)
    machine.store.begin()
    try:
        yield
    finally:
        machine.store.roll_back()
        machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS


def _look_at_function(machine: Machine, function: Function) -> None:
    with _by_itself(machine, _name(function)):
        arguments = calls.unknown_arguments(machine, function, skip_first=False)
        result = calls.call_function(machine, function, arguments, _name(function))
        checkpoints.used(machine, result)


def _name(function: Function) -> cst.CSTNode:
    """The call site of an uncalled function: it stays the same when the body is edited."""
    return function.node.name if isinstance(function.node, cst.FunctionDef) else function.node


def _uncalled_methods(machine: Machine, cls: Class) -> list[Function]:
    """The uncalled methods of a class; if there are none, the class is not analysed by itself."""
    return [method for method in _methods(machine, cls) if method.node not in machine.notes[Program].called]


def _methods(machine: Machine, cls: Class) -> list[Function]:
    """The methods that the class itself defines."""
    values = [machine.read(cls.id, name) for name in machine.store.names(cls.id)]
    return [value for value in values if isinstance(value, Function) and value.owner == cls]


def _look_at_class(machine: Machine, cls: Class, *uncalled: Function) -> None:
    with _by_itself(machine, machine.definition(cls).name):
        instance = _bare_instance(machine, cls)
        for method in uncalled:
            if method.node not in machine.notes[Program].called and method.name != "__init__":
                _look_at_method(machine, instance, method)


def _bare_instance(machine: Machine, cls: Class) -> Object:
    """An instance after ``__init__`` with unknown arguments."""
    initialiser, node = find(machine, cls, "__init__"), machine.definition(cls).name
    arguments = Arguments(spread=True)
    if isinstance(initialiser, Function):
        arguments = calls.unknown_arguments(machine, initialiser, skip_first=True)
    instance = calls.construct(machine, cls, arguments, node)
    machine.dead = False
    machine.notes[Program].labels[instance.id] = "self"
    lightning.takes_over(machine, cls)
    if cls.module:
        note = Note(node, "wherever the module is")
        for part in modules.reachable(machine, instance).values():
            machine.write(part.id, modules.PLACE, Placed(OWN, note))
        modules.settle_tensors(machine, instance, OWN)
        _forget_moved_by_overrides(machine, instance)
    else:
        _forget_unmoved(machine, instance)
    return instance


_TEST_CASES = frozenset({"unittest.TestCase", "unittest.IsolatedAsyncioTestCase"})


def _set_up(machine: Machine, instance: Object) -> None:
    """Run what unittest runs before each test, on an instance of its own."""
    if not isinstance(instance.cls, Class):
        return
    for name, receiver in (("setUpClass", instance.cls), ("setUp", instance)):
        method = find(machine, instance.cls, name)
        if isinstance(method, Function):
            calls.call_function(machine, method, Arguments(), _name(method), receiver)


def _forget_unmoved(machine: Machine, instance: Object) -> None:
    """Forget the unplaced parts: between ``__init__`` and an uncalled method, the program may have moved them."""
    may_be_module = isinstance(instance.cls, Class) and has_unknown_base(instance.cls)
    for name in machine.store.names(instance.id):
        value = machine.read(instance.id, name)
        if may_be_module and value is not None:
            machine.write(instance.id, name, machine.lift(partial(_moved_parameter, machine), value))
        for _, held in alternatives(value) if value is not None else ():
            if (
                isinstance(held, Object)
                and modules.is_module(machine, held)
                and held.id not in machine.notes[ModuleNotes].moved
            ):
                for part in modules.reachable(machine, held).values():
                    machine.write(part.id, modules.PLACE, machine.fresh())
                modules.settle_tensors(machine, held, machine.fresh())


def _moved_parameter(machine: Machine, value: Value) -> Value:
    is_parameter = isinstance(value, Tensor) and value.role is Role.PARAMETER
    return replace(value, place=machine.fresh()) if is_parameter else value


def _may_be_moved(machine: Machine, instance: Object, name: str) -> bool:
    """Whether it is a tensor that another method may have moved: plain ones of modules on the CPU are a fault."""
    held = machine.read(instance.id, name)
    on_gpu = isinstance(held, Tensor) and isinstance(held.place, Device) and held.place.kind in ACCELERATORS
    return on_gpu or (isinstance(held, Tensor) and not modules.is_module(machine, instance))


def _is_container(machine: Machine, instance: Object, name: str) -> bool:
    held = machine.read(instance.id, name)
    return isinstance(held, Object) and held.kind in (Kind.LIST, Kind.DICT)


def _forget_replaced(machine: Machine, instance: Object, method: Function) -> None:
    """Forget attributes that other methods assign, which may run before the method.

    These are tensors, and lists and dicts that another method replaces by something else.
    """
    if not isinstance(instance.cls, Class):
        return
    for name in machine.store.variables(instance.id):
        is_tensor, is_container = _may_be_moved(machine, instance, name), _is_container(machine, instance, name)
        if not (is_tensor or is_container):
            continue
        for other in methods(machine, instance.cls):
            if other.node is method.node or other.name == "__init__":
                continue
            values = [value for named, value in assignments_to_self(other.node) if named == name]
            if values and (is_tensor or not all(isinstance(value, _DISPLAYS) for value in values)):
                machine.write(instance.id, name, machine.fresh(name))
                break


# Expressions for a new list or dict.
_DISPLAYS = (cst.List, cst.ListComp, cst.Dict, cst.DictComp)


def _forget_moved_by_overrides(machine: Machine, instance: Object) -> None:
    """Forget where unregistered modules are that the class's own ``cuda()`` or ``to()`` may move with itself."""
    if not isinstance(instance.cls, Class):
        return
    overrides = [find(machine, instance.cls, name) for name in sorted(MODULE_MOVES)]
    registered = modules.reachable(machine, instance)
    for name in _read_by(machine, instance.cls, [one for one in overrides if isinstance(one, Function)]):
        held = machine.read(instance.id, name)
        for _, option in alternatives(held) if held is not None else ():
            for item in _items(machine, option) or (option,):
                for part in modules.reachable(machine, item).values():
                    if part.id not in registered:
                        _forget_place(machine, part)


def _items(machine: Machine, value: Value) -> Many[Value]:
    if isinstance(value, Object) and value.kind is Kind.DICT:
        return [item for _, item in entries(machine, value).items]
    items = content(machine, value)
    return items.items if items is not None else ()


def _read_by(machine: Machine, cls: Class, running: list[Function]) -> set[str]:
    """The attributes of ``self`` that some methods read, with the methods of the class that they call."""
    found: set[str] = set()
    while running:
        for name in set(attributes_read(running.pop().node, "self")) - found:
            found.add(name)
            called = find(machine, cls, name)
            if isinstance(called, Function):
                running.append(called)
    return found


def _forget_place(machine: Machine, part: Object | Symbol) -> None:
    machine.write(part.id, modules.PLACE, machine.fresh())
    if isinstance(part, Object):
        modules.settle_tensors(machine, part, machine.fresh())


def _look_at_method(machine: Machine, instance: Object, method: Function) -> None:
    machine.store.begin()
    machine.now[Calls].entry = (*machine.now[Calls].entry[:1], _name(method))
    if method.name.startswith("test") and has_base(instance.cls, _TEST_CASES):
        _set_up(machine, instance)
    else:
        _forget_replaced(machine, instance, method)
    bound = "staticmethod" not in method.decorators
    arguments = calls.unknown_arguments(machine, method, skip_first=bound)
    is_forward = method.name == "forward" and isinstance(instance.cls, Class) and instance.cls.module
    is_step = lightning.is_step(machine, instance, method)
    if is_step:
        arguments = lightning.step_arguments(arguments)
    elif frameworks.trains_model(instance, method):
        arguments = frameworks.trainer_arguments(machine, arguments, _name(method))
    if is_forward:
        taken = calls.takes_tensors(machine, method)
        inputs = tuple(
            Tensor(OWN, None, Role.INPUT, entered=parameter, assumed=True, uid=machine.new_id()) if tensor else unknown
            for tensor, parameter, unknown in zip(
                taken[bound:], method.parameters[bound:], arguments.positional, strict=True
            )
        )
        arguments = replace(arguments, positional=inputs, spread=False)
    if is_forward or is_step:
        machine.now[Calls].in_forward.append(instance)
        machine.notes[Accesses].written = set()
    receiver: Value = instance.cls if "classmethod" in method.decorators else instance

    def run() -> Value:
        return calls.call_function(machine, method, arguments, _name(method), receiver if bound else None)

    if is_forward or is_step:
        call = partial(stale_forward_state.keeping, machine, run)
        alloc_in_forward.run_forward(machine, call)
        stale_forward_state.call_again(machine, instance, call)
        machine.now[Calls].in_forward.pop()
    else:
        checkpoints.used(machine, run())
    machine.store.roll_back()
    machine.dead, machine.path, machine.reach = False, ALWAYS, ALWAYS
