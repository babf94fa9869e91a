"""Effects: which units may change the object behind a name, and which change the process for all that come after.

Objects are told apart by names. Two names belong together where one may stand for the other or for a part of it, and
one holds the other where it was made from it: ``optimizer = SGD(net.parameters())`` holds ``net``. A unit changes what
it assigns to an attribute or an item of, and all that it hands to a call that is not known to be pure. A call of the
program's own function changes nothing by itself: its statements do, and its parameters belong to its arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache

import libcst as cst
from libcst.metadata import Assignment

from placement_lint.probe.purity import (
    BUILTINS,
    DECORATORS,
    FRESH_BUILTINS,
    FRESH_METHODS,
    FUNCTIONS,
    METHODS,
    MOVES,
    TELLING,
    is_pure,
    is_telling,
)
from placement_lint.probe.units import Program, Unit, called, root

Thing = Assignment | str
"""A name, or of an attribute that the program stores somewhere, the attribute's."""

EXITS = {"exit", "quit", "_exit"}
"""Calls that end the process."""

EVERYTHING = {"exec", "eval", "execfile", "globals", "__import__"}


class Effects:
    """``switches`` are the units that change the process, regardless of dependencies."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.own = {
            unit.name: [*program.functions[unit.name]]
            for unit in program.units
            if isinstance(unit.node, cst.FunctionDef)
        }
        self.classes = {unit.name: unit for unit in program.units if isinstance(unit.node, cst.ClassDef)}
        self._parent: dict[Thing, Thing] = {}
        self._held: dict[Thing, set[Thing]] = defaultdict(set)  # by holder
        self._holders: dict[Thing, set[Thing]] = defaultdict(set)
        self._near: dict[Thing, set[Thing]] = {}
        self._relate_all()
        self.switches: list[Unit] = []
        changers: dict[Thing, list[Unit]] = defaultdict(list)
        for unit in program.units:
            changed = set()
            for node in self._changed(unit):
                if self._is_of_process(node):
                    self.switches.append(unit)
                changed |= {self._class(thing) for thing in self.things(node)}
            for thing in changed:
                changers[thing].append(unit)
        self._changers = changers

    # --- what is asked of it ---------------------------------------------------------------------------------------

    def changers(self, thing: Thing) -> Iterator[Unit]:
        """The units that may change an object, a part of it, or what holds it."""
        for near in self._around(self._class(thing)):
            yield from self._changers.get(near, ())

    def things(self, node: cst.CSTNode) -> Iterator[Thing]:
        """The objects that an expression may stand for, or have as a part."""
        if isinstance(node, cst.Name):
            yield from (one for one in self.program.referents.get(node, ()) if self._is_object(one))
        elif isinstance(node, cst.Attribute):
            if node.attr.value in self.program.writers:
                yield node.attr.value
            else:
                yield from self.things(node.value)
        elif isinstance(node, cst.Call):
            yield from self._things_of_call(node)
        elif isinstance(node, (cst.Lambda, cst.Comparison, cst.BaseString, cst.BaseNumber)):
            return
        elif isinstance(node, cst.Subscript):
            yield from self.things(node.value)
        elif isinstance(node, cst.IfExp):
            yield from self.things(node.body)
            yield from self.things(node.orelse)
        else:
            for child in node.children:
                yield from self.things(child)

    def tells_only(self, unit: Unit) -> bool:
        """Whether it is a message or a documentation string, so that nothing depends on it."""
        if unit.is_documentation:
            return True
        if unit.call is None or any(True for _ in self._changed(unit)):
            return False
        return self._is_telling(unit.call)

    def deals_with_errors(self, unit: Unit) -> bool:
        """Whether the handlers of a try do more about an error than to tell it, to end a round, or to raise."""
        handling = [one for child in unit.children if child.handler for one in (child, *child.below)]
        return any(not self._is_idle(one) for one in handling)

    def _is_idle(self, unit: Unit) -> bool:
        if isinstance(unit.node, cst.Return):
            return unit.node.value is None
        if isinstance(unit.node, (cst.Pass, cst.Raise, cst.Continue, cst.Break, cst.If)):
            return True
        if unit.call is None:
            return isinstance(unit.node, cst.Expr)
        name = called(unit.call)
        known = self.program.full_name(unit.call.func) in FUNCTIONS or name in EXITS or name in METHODS
        return self.tells_only(unit) or (known and name not in self.own)

    def depends_on_receiver(self, name: cst.CSTNode) -> bool:
        """Whether a unit that reads a name in this place depends on the state of what it stands for.

        Not where it asks for an attribute that the program stores, or calls a method of the program's own: these are
        followed by their names.
        """
        attribute = self._attribute_of.get(name)
        if attribute is None:
            return True
        return attribute.attr.value not in self.program.writers and not self._is_own_method(attribute)

    @cached_property
    def _attribute_of(self) -> dict[cst.CSTNode, cst.Attribute]:
        """By name the attribute that is asked of it there."""
        return {
            node.value: node
            for node in self.program.unit_of
            if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name)
        }

    def _is_own_method(self, attribute: cst.Attribute) -> bool:
        """Whether it is a method of the program's class that the receiver is an instance of."""
        selves = [one for unit in self.own.get(attribute.attr.value, ()) for one in self._receiver(unit) if unit.parent]
        owners = {self._class(one) for one in selves}
        return bool(owners) and any(self._class(thing) in owners for thing in self.things(attribute.value))

    # --- objects ------------------------------------------------------------------------------------------------

    def _is_object(self, assignment: Assignment) -> bool:
        """Whether a name may stand for something that can change: no function, no module, no plain value."""
        return assignment not in self._plain and not isinstance(
            assignment.node, (cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom)
        )

    @cached_property
    def _plain(self) -> set[Assignment]:
        """The names that stand for numbers, texts, devices and options, in each of their assignments."""
        binders = self.program.binder
        plain = set()
        for assignment in binders:
            siblings = [one for one in assignment.scope[assignment.name] if isinstance(one, Assignment)]
            if siblings and all(one in binders and self._binds_plain(binders[one], one) for one in siblings):
                plain.add(assignment)
        return plain

    def _binds_plain(self, unit: Unit, assignment: Assignment) -> bool:
        small = unit.small
        if isinstance(small, cst.Assign):
            return any(target.target is assignment.node for target in small.targets) and self._is_plain(small.value)
        if isinstance(small, cst.AnnAssign):
            return small.value is not None and self._is_plain(small.value)
        if isinstance(unit.node, cst.For):
            return unit.node.target is assignment.node and self._is_plain(unit.node.iter)
        return False

    def _is_plain(self, value: cst.CSTNode) -> bool:
        if isinstance(value, (cst.BaseNumber, cst.BaseString, cst.Comparison, cst.FormattedString)):
            return True
        if isinstance(value, cst.Name):
            return value.value in ("True", "False", "None")
        if isinstance(value, cst.IfExp):
            return self._is_plain(value.body) and self._is_plain(value.orelse)
        if isinstance(value, cst.BinaryOperation):
            return self._is_plain(value.left) and self._is_plain(value.right)
        if isinstance(value, cst.UnaryOperation):
            return isinstance(value.operator, cst.Not) or self._is_plain(value.expression)
        if isinstance(value, cst.Call):
            name = self.program.full_name(value.func)
            return name in FRESH_BUILTINS or name in PLAIN_CALLS or called(value) in PLAIN_METHODS
        return False

    def _things_of_call(self, call: cst.Call) -> Iterator[Thing]:
        """The objects that the result of a call may be, or hold."""
        name, full = called(call), self.program.full_name(call.func)
        if self._is_builtin(call) and name in FRESH_BUILTINS:
            return
        own = self._own(call)
        for function in own:
            for unit in function.below:
                if isinstance(unit.small, cst.Return) and unit.small.value is not None and unit.function is function:
                    yield from self._returned(unit.small.value)
        if isinstance(call.func, cst.Attribute) and not self._is_imported(call.func):
            if name in FRESH_METHODS and not own:
                return
            if not own:
                yield from self.things(call.func.value)
            if name in METHODS or name in MOVES:
                return
        elif is_pure(full) and not _is_class(name) and full.startswith(("torch.", "math.", "numpy.")):
            return
        elif isinstance(call.func, cst.Name) and not own and self._is_variable(call.func):
            return  # a module or a loss that is called makes new tensors
        elif isinstance(call.func, cst.Call):
            yield from self.things(call.func)
        for argument in call.args:
            yield from self.things(argument.value)

    def _returned(self, value: cst.BaseExpression) -> Iterator[Thing]:
        """Not through further calls, which may lead back here."""
        if isinstance(value, (cst.Name, cst.Attribute)):
            yield from self.things(value)
        elif isinstance(value, (cst.Tuple, cst.List)):
            for element in value.elements:
                yield from self._returned(element.value)

    def _is_builtin(self, call: cst.Call) -> bool:
        return (
            isinstance(call.func, cst.Name)
            and call.func.value in BUILTINS
            and not any(one in self.program.binder for one in self.program.referents.get(call.func, ()))
        )

    def _is_imported(self, function: cst.BaseExpression) -> bool:
        """Whether a path begins with what the program imports."""
        first = root(function)
        return any(isinstance(one.node, (cst.Import, cst.ImportFrom)) for one in self.program.referents.get(first, ()))

    def _is_variable(self, function: cst.Name) -> bool:
        referents = self.program.referents.get(function, ())
        return any(self._is_object(one) for one in referents) and not any(
            isinstance(one.node, cst.Param) and one.name in self.own for one in referents
        )

    def _own(self, call: cst.Call) -> list[Unit]:
        """The program's own functions that a call may run; of a class, its ``__init__``."""
        if isinstance(call.func, cst.Name):
            cls = self.classes.get(call.func.value)
            if cls is not None:
                return [unit for unit in cls.children if unit.name == "__init__"]
        elif self._is_imported(call.func):
            return []
        return self.own.get(called(call), [])

    # --- how they belong together ---------------------------------------------------------------------------------

    def _relate_all(self) -> None:
        for unit in self.program.units:
            node = unit.node
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    self._relate(target.target, node.value)
            elif isinstance(node, (cst.AnnAssign, cst.AugAssign)) and node.value is not None:
                self._relate(node.target, node.value)
            elif isinstance(node, cst.For):
                self._relate(node.target, node.iter, part=True)
            elif isinstance(node, cst.With):
                for item in node.items:
                    if item.asname is not None:
                        self._relate(item.asname.name, item.item)
            for call in unit.calls:
                self._relate_arguments(call)
        for node in self.program.unit_of:
            if isinstance(node, cst.CompFor):
                self._relate(node.target, node.iter, part=True)
            elif isinstance(node, cst.NamedExpr):
                self._relate(node.target, node.value)
        for cls in self.classes.values():
            selves = [one for unit in cls.children for one in self._receiver(unit)]
            for one in selves[1:]:
                self._unite(selves[0], one)

    def _relate(self, target: cst.CSTNode, value: cst.CSTNode, part: bool = False) -> None:
        """A target gets a value, or one part of it after another."""
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._relate(element.value, value, part)
            return
        targets = [*self._bound(target)]
        made = isinstance(value, cst.Call) and self._makes(value)
        for thing in targets:
            for source in self.things(value):
                if part:
                    self._hold(source, thing)
                elif made:
                    self._hold(thing, source)
                else:
                    self._unite(thing, source)
            if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value in self.classes:
                for unit in self.classes[value.func.value].children:
                    for one in self._receiver(unit):
                        self._unite(thing, one)
        if isinstance(target, cst.Attribute):  # the value of an attribute is a part of its owner
            for owner in self.things(target.value):
                for thing in targets:
                    self._hold(owner, thing)

    def _bound(self, target: cst.CSTNode) -> Iterator[Thing]:
        if isinstance(target, cst.Name):
            yield from (one for one in self._assigned.get(target, ()) if self._is_object(one))
        elif isinstance(target, cst.Attribute):
            yield target.attr.value
        elif isinstance(target, (cst.Subscript, cst.StarredElement)):
            yield from self.things(target.value)

    @cached_property
    def _assigned(self) -> dict[cst.CSTNode, list[Assignment]]:
        assigned: dict[cst.CSTNode, list[Assignment]] = defaultdict(list)
        for assignment in self.program.binder:
            assigned[assignment.node].append(assignment)
        return assigned

    def _makes(self, call: cst.Call) -> bool:
        """Whether the result holds the arguments, and is none of them."""
        return not isinstance(call.func, cst.Attribute) or self._is_imported(call.func) or _is_class(called(call))

    def _receiver(self, unit: Unit) -> Iterator[Assignment]:
        """The first parameter of a method."""
        if isinstance(unit.node, cst.FunctionDef) and unit.node.params.params:
            yield from self._assigned.get(unit.node.params.params[0], ())

    def _relate_arguments(self, call: cst.Call) -> None:
        """The parameters of an own function are the arguments; a receiver holds what an unknown method is given."""
        own = self._own(call)
        for function in own:
            assert isinstance(function.node, cst.FunctionDef)
            params = function.node.params
            named = {param.name.value: param for param in (*params.params, *params.kwonly_params)}
            positional = list(params.params)
            if isinstance(function.parent and function.parent.node, cst.ClassDef) and positional:
                receiver = positional.pop(0)
                if isinstance(call.func, cst.Attribute):
                    self._relate_parameter(receiver, call.func.value)
            for number, argument in enumerate(call.args):
                if argument.keyword is not None:
                    param = named.get(argument.keyword.value)
                elif argument.star or number >= len(positional):
                    param = params.star_arg if isinstance(params.star_arg, cst.Param) else None
                else:
                    param = positional[number]
                if param is not None:
                    self._relate_parameter(param, argument.value)
        if not own and isinstance(call.func, cst.Attribute) and not self._is_imported(call.func):
            if called(call) in METHODS or called(call) in MOVES:
                return
            for owner in self.things(call.func.value):
                for argument in call.args:
                    for thing in self.things(argument.value):
                        self._hold(owner, thing)

    def _relate_parameter(self, param: cst.Param, argument: cst.BaseExpression) -> None:
        for assignment in self._assigned.get(param, ()):
            for thing in self.things(argument):
                self._unite(assignment, thing)

    def _class(self, thing: Thing) -> Thing:
        while (above := self._parent.get(thing, thing)) != thing:
            thing = above
        return thing

    def _unite(self, one: Thing, other: Thing) -> None:
        first, second = self._class(one), self._class(other)
        if first != second:
            self._parent[second] = first

    def _hold(self, holder: Thing, thing: Thing) -> None:
        self._held[holder].add(thing)
        self._holders[thing].add(holder)

    def _around(self, thing: Thing) -> set[Thing]:
        """What may share something with an object: what it holds, what holds that, and what holds the object."""
        if thing not in self._near:
            inside = self._closure({thing}, self._edges_down)
            self._near[thing] = self._closure(inside, self._edges_up)
        return self._near[thing]

    @cached_property
    def _edges_down(self) -> dict[Thing, set[Thing]]:
        return self._by_class(self._held)

    @cached_property
    def _edges_up(self) -> dict[Thing, set[Thing]]:
        return self._by_class(self._holders)

    def _by_class(self, edges: dict[Thing, set[Thing]]) -> dict[Thing, set[Thing]]:
        merged: dict[Thing, set[Thing]] = defaultdict(set)
        for thing, others in edges.items():
            merged[self._class(thing)] |= {self._class(other) for other in others}
        return merged

    @staticmethod
    def _closure(start: Iterable[Thing], edges: dict[Thing, set[Thing]]) -> set[Thing]:
        found, waiting = set(start), [*start]
        while waiting:
            for other in edges.get(waiting.pop(), set()) - found:
                found.add(other)
                waiting.append(other)
        return found

    # --- what units change ----------------------------------------------------------------------------------------

    def _changed(self, unit: Unit) -> Iterator[cst.CSTNode]:
        """The expressions for what a unit may change, other than by binding a name."""
        node = unit.node
        if isinstance(node, cst.Assign):
            for target in node.targets:
                yield from _owners(target.target)
        elif isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For, cst.Del)):
            yield from _owners(node.target)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            for decorator in node.decorators:
                if self._last_name(decorator.decorator) not in DECORATORS:
                    yield decorator.decorator
        for call in unit.calls:
            yield from self._changed_by(call, unit)

    @staticmethod
    def _last_name(expression: cst.BaseExpression) -> str:
        if isinstance(expression, cst.Call):
            return called(expression)
        if isinstance(expression, cst.Attribute):
            return expression.attr.value
        return expression.value if isinstance(expression, cst.Name) else ""

    def _changed_by(self, call: cst.Call, unit: Unit) -> Iterator[cst.CSTNode]:
        """The things that a call may change: none if it is known to be pure, else all its arguments."""
        name, full = called(call), self.program.full_name(call.func)
        if self._is_builtin(call) or self._runs_own(call):
            return
        imported = self._is_imported(call.func)
        if imported and (full in FUNCTIONS or is_telling(full) or (is_pure(full) and call is not unit.call)):
            return
        if not imported:
            if isinstance(call.func, cst.Attribute) and (name in METHODS or name in TELLING):
                return
            if isinstance(call.func, (cst.Name, cst.Attribute)) and self._is_made(call.func):
                return
            if name in MOVES:
                if call is unit.call or self._is_made(
                    call.func.value if isinstance(call.func, cst.Attribute) else call
                ):
                    yield call.func
                return
        if not imported or call is unit.call or full.startswith("torch."):
            yield call.func
        for argument in call.args:
            if not self._is_imported(argument.value) or self._may_be_patched(argument.value):
                yield argument.value

    def _runs_own(self, call: cst.Call) -> bool:
        """Whether a call surely runs a function of the program's, whose statements are units of their own."""
        if isinstance(call.func, cst.Name):
            return call.func.value in self.classes or any(
                isinstance(one.node, cst.FunctionDef) for one in self.program.referents.get(call.func, ())
            )
        return isinstance(call.func, cst.Attribute) and self._is_own_method(call.func)

    @staticmethod
    def _may_be_patched(imported: cst.BaseExpression) -> bool:
        """Whether something imported is a class or a module, whose attributes can be changed."""
        if isinstance(imported, cst.Attribute):
            return _is_class(imported.attr.value)
        return isinstance(imported, cst.Name)

    def _is_made(self, value: cst.BaseExpression) -> bool:
        """Whether a path stands for something that the program makes, as a module or a loss, and for no function."""
        path = isinstance(value, cst.Name) or (
            isinstance(value, cst.Attribute) and value.attr.value in self.program.writers
        )
        return path and any(self._class(thing) in self._objects for thing in self.things(value))

    @cached_property
    def _objects(self) -> set[Thing]:
        """What the program makes by calling a class."""
        objects = set()
        for unit in self.program.units:
            value = getattr(unit.node, "value", None)
            if isinstance(unit.node, cst.Assign) and isinstance(value, cst.Call) and self._makes_object(value):
                for target in unit.node.targets:
                    objects |= {self._class(thing) for thing in self._bound(target.target)}
        return objects

    def _makes_object(self, value: cst.BaseExpression) -> bool:
        """Whether an expression makes an object, perhaps to move it at once: calls a class or a foreign function."""
        while isinstance(value, cst.Call):
            name = self.program.full_name(value.func)
            if any(map(_is_class, name.split("."))) or (self._is_imported(value.func) and not is_pure(name)):
                return True
            value = value.func.value if isinstance(value.func, cst.Attribute) else value.func
        return False

    def _is_telling(self, call: cst.Call) -> bool:
        if self._is_imported(call.func):
            return is_telling(self.program.full_name(call.func))
        return called(call) in TELLING and called(call) not in self.own

    def _is_of_process(self, node: cst.CSTNode) -> bool:
        """Whether what is changed belongs to an imported module, or may be anything."""
        if isinstance(node, cst.Name) and node.value in EVERYTHING:
            return True
        if not isinstance(node, (cst.Name, cst.Attribute, cst.Subscript, cst.Call)) or not self._is_imported(node):
            return False
        if isinstance(node, cst.Call):  # a call whose result is changed, as `nn.Linear(2, 2)` is by `.cuda()`
            return False
        name = self.program.full_name(node) if not isinstance(node, cst.Subscript) else ""
        last = name.rpartition(".")[2]
        return not (last.endswith("_") and not last.endswith("__")) and not _is_argument_only(name)


PLAIN_CALLS = {
    "torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "os.getenv", "os.environ.get", "os.path.join", "time.time",
}  # fmt: skip
PLAIN_METHODS = {"parse_args", "item", "size", "numel", "dim", "format", "join"}


def _is_argument_only(name: str) -> bool:
    """Whether something imported stands for a plain value, as ``torch.float32`` does, and cannot be changed."""
    return name.startswith("torch.") and name.count(".") == 1 and name.rpartition(".")[2] in DTYPES


DTYPES = {"float", "float16", "float32", "float64", "half", "bfloat16", "int", "int32", "int64", "long", "bool",
          "uint8", "double"}  # fmt: skip


def _is_class(name: str) -> bool:
    return name[:1].isupper()


def _owners(target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The things that an assignment to this target changes: the owner of an attribute or an item."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _owners(element.value)
    elif isinstance(target, (cst.Attribute, cst.Subscript)):
        yield target.value


@lru_cache(maxsize=4)
def effects_of(program: Program) -> Effects:
    return Effects(program)
