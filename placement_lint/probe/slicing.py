"""Slices: the units of a program that a finding depends on.

A slice starts from the statements of the finding's trace and from the calls through which the analysis came there. It
includes whatever those depend on: the statements that bind or may change what they read, those that change the process,
the branches and loops that contain them, and the jumps that leave a function or a loop before them. Classes that derive
from a library's, as modules and datasets do, come with the methods that are used; any other class and each function on
the way comes with the relevant statements alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import Assignment

from placement_lint.probe.effects import EXITS, Thing, effects_of
from placement_lint.probe.units import LOOPS, Program, Unit, called
from placement_lint.source.wording import source_text

# Methods that are called by others than the program.
HOOKS = {"forward", "training_step", "validation_step", "test_step", "configure_optimizers", "train_dataloader",
         "val_dataloader", "collate_fn"}  # fmt: skip


@dataclass
class Slice:
    """``calls`` maps units to their only call that counts, without the uses of its result.

    A ``verbatim`` slice runs as it is written: no loop is cut short, and no handler is removed.
    """

    program: Program
    kept: set[Unit] = field(default_factory=set)
    calls: dict[Unit, cst.Call] = field(default_factory=dict)
    criteria: set[Unit] = field(default_factory=set)
    verbatim: bool = False

    @classmethod
    def whole(cls, program: Program, criteria: Iterable[Unit], verbatim: bool = False) -> Slice:
        return cls(program, set(program.units), {}, set(criteria), verbatim)


def slice_of(
    program: Program, path: Iterable[cst.Call], criteria: Iterable[Unit], replaced: frozenset[cst.CSTNode] = frozenset()
) -> Slice:
    """The slice for these units; ``path`` are the calls through which they are reached, outermost first.

    ``replaced`` are nodes in whose place something else will stand, so that nothing depends on what they read.
    """
    return _Slicer(program, list(path), set(criteria), replaced).run()


class _Slicer:
    def __init__(
        self, program: Program, path: list[cst.Call], criteria: set[Unit], replaced: frozenset[cst.CSTNode]
    ) -> None:
        self.program = program
        self.effects = effects_of(program)
        self.gone = {part for node in replaced for part in _nodes(node)}
        self.path = path
        self.slice = Slice(program, criteria=criteria)
        self.wanted: set[Unit] = set()
        self.waiting: list[Unit] = []
        self.read: set[str] = set()
        self.classes: set[Unit] = set()
        self.valued: set[Unit] = set()
        on_path = [program.unit_of[call] for call in path if call in program.unit_of]
        # The functions that come with the statements that count alone.
        self.partly = {unit.function for unit in (*on_path, *criteria) if unit.function and not self._is_method(unit)}
        self.reached = {unit.function for unit in on_path}

    def run(self) -> Slice:
        for unit in self.slice.criteria:
            self._want(unit)
        for call in self.path:
            if call in self.program.unit_of:
                self._want_call(self.program.unit_of[call], call)
        for unit in [*self._of_process()]:
            self._want_effect(unit)
        while self.waiting:
            while self.waiting:
                unit = self.waiting.pop()
                self._follow(unit, self.slice.calls.get(unit))
            for unit in self.program.units:
                if self._leaves(unit):
                    self._want(unit)
        return self.slice

    def _of_process(self) -> Iterator[Unit]:
        """What changes the process before the finding: settings, patches, and imports for nothing but their effects."""
        ends = [unit for unit in self.slice.kept if not isinstance(unit.node, (cst.FunctionDef, cst.ClassDef))]
        for unit in self.effects.switches:
            if any(self.program.reaches(unit, end) for end in ends):
                yield unit
        read = {assignment for unit in self.program.units for _, assignment in unit.reads}
        for assignment, unit in self.program.binder.items():
            if isinstance(unit.small, cst.Import) and assignment not in read and _is_for_effect(unit.small):
                yield unit
        for unit in self.program.units:
            if isinstance(unit.small, cst.ImportFrom) and isinstance(unit.small.names, cst.ImportStar):
                yield unit

    def _leaves(self, unit: Unit) -> bool:
        """Whether it ends a function or a round of a loop before something that counts would come."""
        if unit in self.wanted:
            return False
        small = unit.small
        if isinstance(small, (cst.Break, cst.Continue)):
            loop = next(outer for outer in unit.above if isinstance(outer.node, LOOPS))
            return loop in self.slice.kept and any(other in self.slice.kept for other in loop.below)
        is_exit = unit.call is not None and called(unit.call) in EXITS
        if not isinstance(small, (cst.Return, cst.Raise)) and not is_exit:
            return False
        function = unit.function
        if function is not None and function not in self.slice.kept:
            return False
        around = function.below if function is not None else self.program.units
        return any(
            other in self.slice.kept and other.function is function and self.program.reaches(unit, other)
            for other in around
            if other.place > unit.place or self.program.same_loop(unit, other)
        )

    # --- what is wanted ------------------------------------------------------------------------------------

    def _want(self, unit: Unit) -> None:
        """A unit with all that it does."""
        if unit in self.wanted:
            return
        self.wanted.add(unit)
        self.slice.calls.pop(unit, None)
        self.slice.kept.add(unit)
        self._enter(unit)
        self.waiting.append(unit)

    def _want_call(self, unit: Unit, call: cst.Call) -> None:
        """A unit for one call in it; where it is more than an expression or an assignment, all of it."""
        if unit in self.wanted:
            return
        if not isinstance(unit.small, (cst.Expr, cst.Assign, cst.AugAssign, cst.AnnAssign)):
            self._want(unit)
        elif unit not in self.slice.calls:
            self.slice.calls[unit] = call
            self.slice.kept.add(unit)
            self._enter(unit)
            self.waiting.append(unit)
        elif self.slice.calls[unit] is not call:
            self._want(unit)

    def _enter(self, unit: Unit) -> None:
        """What a unit stands in: branches and loops, the function with its callers, the class."""
        for outer in unit.above:
            if isinstance(outer.node, cst.FunctionDef):
                self._reach(outer)
                return
            self._want_header(outer)

    def _want_header(self, unit: Unit) -> None:
        if unit not in self.slice.kept:
            self.slice.kept.add(unit)
            self.waiting.append(unit)
            if isinstance(unit.node, (cst.Try, cst.TryStar)) and self.effects.deals_with_errors(unit):
                for child in unit.children:
                    if child.handler:
                        self._want_all(child)

    def _reach(self, function: Unit) -> None:
        """A function some of whose statements count: it is entered from where the program calls it."""
        if function in self.slice.kept:
            return
        self._want_header(function)
        for inner in function.below:
            if isinstance(inner.small, (cst.Global, cst.Nonlocal)):
                self._want(inner)
        self._enter(function)
        if function in self.reached or function.name.startswith("__") or function.name in HOOKS:
            return
        for unit, call in self.program.callers[function.name]:
            if not function.contains(unit):
                self._want_call(unit, call)

    # --- what it depends on -----------------------------------------------------------------------------------

    def _follow(self, unit: Unit, call: cst.Call | None) -> None:
        part = _nodes(call) if call is not None else None
        for node, assignment in unit.reads:
            if node not in self.gone and (part is None or node in part):
                self._depend(unit, assignment, whole=part is None)
                if self.effects.depends_on_receiver(node):
                    self._depend_on_changes(unit, assignment)
        for node, name in unit.attributes:
            if node not in self.gone and (part is None or node in part):
                self._depend_on_attribute(unit, name)
        self._depend_on_effects(unit)

    def _depend(self, unit: Unit, assignment: Assignment, whole: bool) -> None:
        binder = self.program.binder.get(assignment)
        if binder is None:
            return
        if isinstance(assignment.node, cst.ClassDef):
            self._want_class(binder)
        elif isinstance(assignment.node, cst.FunctionDef):
            self._want_function(binder, whole)
        elif isinstance(assignment.node, cst.Param):
            pass  # its callers supply it
        elif self.program.reaches(binder, unit):
            self._want_header(binder) if binder.children else self._want(binder)

    def _depend_on_changes(self, unit: Unit, thing: Thing) -> None:
        for changer in self.effects.changers(thing):
            if changer is not unit and self.program.reaches(changer, unit):
                self._want_effect(changer)

    def _want_all(self, unit: Unit) -> None:
        """A unit with all that stands in it."""
        self._want_effect(unit)
        for inner in unit.below:
            self._want_effect(inner)

    def _want_effect(self, unit: Unit) -> None:
        if isinstance(unit.node, cst.FunctionDef):
            self._want_function(unit, whole=True)
        elif isinstance(unit.node, cst.ClassDef):
            self._want_class(unit)
        elif unit.children:
            self._want_header(unit)
        else:
            self._want(unit)

    def _depend_on_attribute(self, unit: Unit, name: str) -> None:
        for writer in self.program.writers.get(name, ()):
            if self.program.reaches(writer, unit):
                self._want_header(writer) if writer.children else self._want(writer)
        if name in self.program.writers:
            self._depend_on_changes(unit, name)
        if name not in self.read:
            self.read.add(name)
            for method in self.program.functions.get(name, ()):
                if method.parent in self.classes:
                    self._want_function(method, whole=True)

    def _depend_on_effects(self, unit: Unit) -> None:
        """A step needs gradients, and a file that is loaded one that was saved."""
        names = {called(call) for call in unit.calls}
        if "step" in names or any(name == "grad" for _, name in unit.attributes):
            for other, _ in self.program.callers.get("backward", ()):
                if other.function is unit.function and self.program.reaches(other, unit):
                    self._want(other)
        if "load" in names:
            for other, _ in self.program.callers.get("save", ()):
                self._want(other)

    def _want_function(self, function: Unit, whole: bool) -> None:
        """A function that is called for its value, with everything in it unless it is sliced itself."""
        if function in self.valued or (function in self.partly and not whole):
            return
        self.valued.add(function)
        self._want_header(function)
        for outer in function.above:
            if isinstance(outer.node, cst.FunctionDef):
                self._reach(outer)
                break
            self._want_header(outer)
        for unit in function.below:
            if function in self.partly and not _gives_back(unit):
                continue
            if not self.effects.tells_only(unit):
                self._want(unit)

    def _want_class(self, cls: Unit) -> None:
        if cls in self.classes:
            return
        self.classes.add(cls)
        self._want_header(cls)
        self._enter(cls)
        derived = self._is_derived(cls)
        for unit in cls.children:
            if not isinstance(unit.node, cst.FunctionDef):
                if not self.effects.tells_only(unit):
                    for inner in (unit, *unit.below):
                        self._want(inner)
            elif unit.name == "__init__" and not derived:
                self._want_header(unit)
                for inner in unit.below:
                    if inner.call is not None and called(inner.call) == "__init__":
                        self._want(inner)
            elif _is_hook(unit) or unit.name in self.read or (derived and unit.name not in self.program.callers):
                self._want_function(unit, whole=True)

    # --- classes ---------------------------------------------------------------------------------------------

    def _is_method(self, unit: Unit) -> bool:
        """Whether a unit stands in a method of a class that comes whole."""
        return any(isinstance(outer.node, cst.ClassDef) and self._is_derived(outer) for outer in unit.above)

    def _is_derived(self, cls: Unit) -> bool:
        """Whether a class derives, at last, from one that is not the program's own."""
        assert isinstance(cls.node, cst.ClassDef)
        return any(base.keyword is None and self._is_foreign(base.value) for base in cls.node.bases)

    def _is_foreign(self, base: cst.BaseExpression) -> bool:
        own = [
            unit
            for unit in self.program.units
            if isinstance(unit.node, cst.ClassDef) and isinstance(base, cst.Name) and unit.name == base.value
        ]
        if own:
            return any(self._is_derived(cls) for cls in own)
        return not (isinstance(base, cst.Name) and base.value == "object")


def _is_hook(method: Unit) -> bool:
    return method.name in HOOKS or (method.name.startswith("__") and method.name.endswith("__"))


def _is_for_effect(statement: cst.Import) -> bool:
    """Whether an import that nothing reads may be there for what it does."""
    roots = {source_text(alias.name).partition(".")[0] for alias in statement.names if alias.asname is None}
    return bool(roots - sys.stdlib_module_names)


def _gives_back(unit: Unit) -> bool:
    if isinstance(unit.small, cst.Return):
        return True
    return isinstance(unit.small, cst.Expr) and isinstance(unit.small.value, cst.Yield)


def _nodes(whole: cst.CSTNode) -> set[cst.CSTNode]:
    """A node and all that it is made of."""
    found: set[cst.CSTNode] = set()
    waiting: list[cst.CSTNode] = [whole]
    while waiting:
        node = waiting.pop()
        found.add(node)
        waiting.extend(node.children)
    return found
