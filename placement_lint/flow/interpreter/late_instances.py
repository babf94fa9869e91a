"""Instances of classes that have nothing to do with tensors: unknown, until a method gets a tensor.

A plotter or a logger of another file is not looked into when it is built. If a method gets a tensor later, the instance
is built then, and the calls so far are made up for.
"""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import NONE, Class, Fact, Function, Object, Sequence, Symbol, Value
from placement_lint.flow.interpreter import attributes, calls, inline_policy
from placement_lint.flow.state.classes import find
from placement_lint.flow.state.heap import Slot
from placement_lint.flow.state.machine import Machine

# Of an unknown value: the call that builds it, whose ``__init__`` has nothing to do with tensors; the calls of its
# methods, which have not either; and the instance that it is as soon as a method gets a tensor.
BUILT = Slot("built by")
_CALLED = Slot("called so far")
_INSTANCE = Slot("instance")
# With more calls, or attributes that are assigned from outside, it stays unknown.
_MOST_CALLS = 8


def call_method(
    machine: Machine, owner: Symbol | Object, name: str, arguments: Arguments, node: cst.Call
) -> Value | None:
    """A method of such an instance, if it or an earlier one gets a tensor; else None."""
    fact, earlier = machine.read(owner.id, BUILT), machine.read(owner.id, _CALLED, unset=Sequence(()))
    if not isinstance(fact, Fact):
        return None
    assert isinstance(fact.details, tuple)
    cls, given, built = fact.details
    function = find(machine, cls, name)
    instance = machine.read(owner.id, _INSTANCE)
    known = isinstance(function, Function) and isinstance(earlier, Sequence) and not _has_attributes(machine, owner)
    if instance is None and any(inline_policy.decides(machine, value) for value in arguments.values()):
        known = known and isinstance(earlier, Sequence) and len(earlier.items) <= _MOST_CALLS
        instance = _construct_late(machine, cls, given, built, earlier) if known else None
        machine.write(owner.id, _INSTANCE, instance or NONE)
    elif instance is None:
        call_so_far = Fact(f"call {id(node)}", (function, arguments, node))
        room = earlier.items[:_MOST_CALLS] if isinstance(earlier, Sequence) else ()
        machine.write(owner.id, _CALLED, Sequence((*room, call_so_far)) if known else NONE)
    if not isinstance(function, Function) or not isinstance(instance, Object):
        return None
    return calls.call(machine, attributes.bound(machine, instance, function, node), arguments, node)


def _has_attributes(machine: Machine, owner: Symbol | Object) -> bool:
    """Whether the program assigned an attribute of an unknown value; a read leaves an unknown part of it."""
    held = [machine.read(owner.id, name) for name in machine.store.variables(owner.id)]
    return not all(isinstance(value, Symbol) and value.parent == owner for value in held)


def _construct_late(machine: Machine, cls: Class, arguments: Arguments, node: cst.CSTNode, earlier: Value) -> Object:
    """The instance after its ``__init__`` and the calls of its methods so far."""
    instance = machine.new_object(calls.kind_of(cls), cls, node)
    run = [(find(machine, cls, "__init__"), arguments, node)]
    before = earlier.items if isinstance(earlier, Sequence) else ()
    run += [item.details for item in before if isinstance(item, Fact) and isinstance(item.details, tuple)]
    for function, given, site in run:
        if isinstance(function, Function) and machine.affords(function):
            calls.interpret(machine, function, given.with_receiver(instance), site, instance)
            machine.dead = False
    return instance
