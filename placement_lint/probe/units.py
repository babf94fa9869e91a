"""A program as units: its statements, what each reads, binds and changes, and who calls whom.

A unit is a statement, also where several share a line; of a compound one its header alone, for the statements inside
are units of their own. Names are resolved by libcst's scopes. Attributes are only names: ``self.x`` depends on every
statement that stores an ``x``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst
from libcst.metadata import Assignment, ClassScope, MetadataWrapper, ScopeProvider

from placement_lint.source.wording import source_text

COMPOUND = (cst.If, cst.For, cst.While, cst.With, cst.Try, cst.TryStar, cst.Match, cst.FunctionDef, cst.ClassDef)
LOOPS = (cst.For, cst.While)
HANDLERS = (cst.ExceptHandler, cst.ExceptStarHandler)


@dataclass(eq=False)
class Unit:
    """``place`` is its rank in the text, ``handler`` the ``except`` of its parent in which it stands, if any."""

    node: cst.CSTNode
    parent: Unit | None
    place: int
    handler: cst.CSTNode | None = None
    children: list[Unit] = field(default_factory=list)
    reads: list[tuple[cst.CSTNode, Assignment]] = field(default_factory=list)
    attributes: list[tuple[cst.CSTNode, str]] = field(default_factory=list)
    calls: list[cst.Call] = field(default_factory=list)

    @property
    def above(self) -> Iterator[Unit]:
        """The units around it, from the innermost."""
        unit = self.parent
        while unit is not None:
            yield unit
            unit = unit.parent

    @property
    def below(self) -> Iterator[Unit]:
        for child in self.children:
            yield child
            yield from child.below

    @property
    def function(self) -> Unit | None:
        return next((unit for unit in self.above if isinstance(unit.node, cst.FunctionDef)), None)

    @property
    def name(self) -> str:
        """Of a function or a class."""
        return self.node.name.value if isinstance(self.node, (cst.FunctionDef, cst.ClassDef)) else ""

    @property
    def call(self) -> cst.Call | None:
        """The call that the unit consists of."""
        small = self.small
        return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None

    @property
    def small(self) -> cst.BaseSmallStatement | None:
        """The statement itself, where it is no compound one."""
        return self.node if isinstance(self.node, cst.BaseSmallStatement) else None

    @property
    def is_elif(self) -> bool:
        return self.parent is not None and getattr(self.parent.node, "orelse", None) is self.node

    @property
    def is_documentation(self) -> bool:
        small = self.small
        return isinstance(small, cst.Expr) and isinstance(small.value, (cst.SimpleString, cst.ConcatenatedString))

    def contains(self, other: Unit) -> bool:
        return other is self or self in other.above


def called(call: cst.Call) -> str:
    """The last name of what is called."""
    function = call.func
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def root(node: cst.CSTNode) -> cst.CSTNode:
    """``x`` of ``x.a[0].b()``."""
    while True:
        if isinstance(node, (cst.Attribute, cst.Subscript)):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.func
        else:
            return node


class Program:
    """A parsed program and its units."""

    def __init__(self, module: cst.Module) -> None:
        self.module = module
        reader = _Reader()
        module.visit(reader)
        self.units: list[Unit] = reader.units
        self.unit_of: dict[cst.CSTNode, Unit] = reader.unit_of
        self.writers: dict[str, list[Unit]] = reader.writers
        self.functions: dict[str, list[Unit]] = defaultdict(list)
        self.callers: dict[str, list[tuple[Unit, cst.Call]]] = defaultdict(list)
        for unit in self.units:
            if isinstance(unit.node, cst.FunctionDef):
                self.functions[unit.name].append(unit)
            for call in unit.calls:
                self.callers[called(call)].append((unit, call))
        self.numbers: dict[str, int] = reader.numbers
        self.imports: dict[str, str] = reader.imports
        self.names: set[str] = set()  # that it gives a meaning of its own, somewhere
        self.binder: dict[Assignment, Unit] = {}
        self.referents: dict[cst.CSTNode, list[Assignment]] = defaultdict(list)  # by the name that is read
        self._resolve()

    def _resolve(self) -> None:
        """Names to the units that bind them."""
        scopes = MetadataWrapper(self.module, unsafe_skip_copy=True).resolve(ScopeProvider)
        by_node: dict[cst.CSTNode, Assignment] = {}
        for scope in {id(scope): scope for scope in scopes.values() if scope is not None}.values():
            for assignment in scope.assignments:
                if isinstance(assignment, Assignment) and not isinstance(scope, ClassScope):
                    self.names.add(assignment.name)
                if isinstance(assignment, Assignment) and assignment.node in self.unit_of:
                    self.binder[assignment] = self.unit_of[assignment.node]
                    by_node[assignment.node] = assignment
            for access in scope.accesses:
                unit = self.unit_of.get(access.node)
                if unit is None or access.is_annotation:
                    continue
                for referent in access.referents:
                    if isinstance(referent, Assignment):
                        unit.reads.append((access.node, referent))
                        self.referents[root(access.node)].append(referent)
        for unit in self.units:
            self._note_augmented(unit, by_node)

    @staticmethod
    def _note_augmented(unit: Unit, by_node: dict[cst.CSTNode, Assignment]) -> None:
        """``x += 1`` reads what was bound before under the same name."""
        if isinstance(unit.small, cst.AugAssign) and (own := by_node.get(unit.small.target)):
            unit.reads.extend(
                (unit.small.target, other) for other in own.scope[own.name] if isinstance(other, Assignment)
            )

    def full_name(self, function: cst.BaseExpression) -> str:
        """The dotted name of a function, with what it was imported from."""
        text = source_text(function)
        first, dot, rest = text.partition(".")
        return f"{self.imports.get(first, first)}{dot}{rest}"

    def number(self, node: cst.BaseExpression) -> int | None:
        """The value of an expression, where it can be told without running anything."""
        if isinstance(node, cst.Integer):
            return node.evaluated_value
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            left, right = self.number(node.left), self.number(node.right)
            return None if left is None or right is None else left * right
        return self.numbers.get(source_text(node).rpartition(".")[2])

    def same_loop(self, one: Unit, other: Unit) -> bool:
        loops = {unit for unit in one.above if isinstance(unit.node, LOOPS)}
        return any(unit in loops for unit in other.above)

    def reaches(self, before: Unit, after: Unit) -> bool:
        """Whether what one unit leaves behind can be there when the other runs; of two functions, always."""
        if before.function is not after.function:
            return True
        return before.place < after.place or self.same_loop(before, after)


class _Reader(cst.CSTVisitor):
    """One walk: units, which unit each node belongs to, which attributes are read and stored, and calls."""

    def __init__(self) -> None:
        self.units: list[Unit] = []
        self.unit_of: dict[cst.CSTNode, Unit] = {}
        self.writers: dict[str, list[Unit]] = defaultdict(list)
        self.imports: dict[str, str] = {}
        # numbers by the name that they are first given: a constant, a default, an option
        self.numbers: dict[str, int] = {}
        self._open: list[Unit] = []
        self._handlers: list[tuple[cst.CSTNode, Unit]] = []
        self._stored: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.BaseSmallStatement, *COMPOUND)):
            parent = self._open[-1] if self._open else None
            handler = self._handlers[-1] if self._handlers else (None, None)
            unit = Unit(node, parent, len(self.units), handler[0] if handler[1] is parent else None)
            self.units.append(unit)
            if parent is not None:
                parent.children.append(unit)
            self._open.append(unit)
        if self._open:
            self.unit_of[node] = self._open[-1]
            self._note(node, self._open[-1])
        if isinstance(node, HANDLERS):
            self._handlers.append((node, self._open[-1]))
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, HANDLERS):
            self._handlers.pop()
        elif isinstance(original_node, cst.SimpleStatementLine):
            self.unit_of[original_node] = self.unit_of[original_node.body[0]]
        if self._open and self._open[-1].node is original_node:
            self._open.pop()

    def _note(self, node: cst.CSTNode, unit: Unit) -> None:
        if isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.For, cst.CompFor)):
            self._store(node.target)
        elif isinstance(node, cst.AsName):
            self._store(node.name)
        elif isinstance(node, cst.Attribute):
            if node in self._stored:
                self.writers[node.attr.value].append(unit)
            else:
                unit.attributes.append((node, node.attr.value))
        elif isinstance(node, cst.Call):
            unit.calls.append(node)
            if called(node) == "setattr" and len(node.args) > 1 and isinstance(node.args[1].value, cst.SimpleString):
                self.writers[str(node.args[1].value.evaluated_value)].append(unit)
            self._note_option(node)
        elif isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name):
            self._note_number(node.targets[0].target.value, node.value)
        elif isinstance(node, cst.Param):
            self._note_number(node.name.value, node.default)
        elif isinstance(node, (cst.Import, cst.ImportFrom)):
            self._note_import(node)
        if isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Attribute):
            self.writers[node.target.attr.value].append(unit)

    def _note_number(self, name: str, value: cst.CSTNode | None) -> None:
        if isinstance(value, cst.Integer):
            self.numbers.setdefault(name, value.evaluated_value)

    def _note_option(self, call: cst.Call) -> None:
        if called(call) == "add_argument" and isinstance(call.args[0].value, cst.SimpleString):
            name = str(call.args[0].value.evaluated_value).lstrip("-").replace("-", "_")
            default = next((arg.value for arg in call.args if arg.keyword and arg.keyword.value == "default"), None)
            self._note_number(name, default)

    def _note_import(self, node: cst.Import | cst.ImportFrom) -> None:
        if isinstance(node.names, cst.ImportStar):
            return
        home = "" if isinstance(node, cst.Import) else f"{source_text(node.module) if node.module else ''}."
        for alias in node.names:
            name = source_text(alias.name)
            if alias.asname is not None:
                self.imports[source_text(alias.asname.name)] = f"{home}{name}"
            elif home:
                self.imports[name] = f"{home}{name}"

    def _store(self, target: cst.CSTNode) -> None:
        if isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._store(element.value)
        elif isinstance(target, cst.Subscript):
            self._store(target.value)
        else:
            self._stored.add(target)
