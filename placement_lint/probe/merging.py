"""Modules in one namespace, as plain code one after another, where that changes nothing.

It changes nothing if the files take only names from each other, at their beginning and not in a circle, and no name
means two things. Else there is no such text, and the modules have to stay modules (embedding.py).
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise, permutations
from typing import TypeAlias

from placement_lint.project.index import Import, imported

Taken: TypeAlias = tuple[str, str]
"""A module, and a name in it."""

# Names that refer to the module itself, and names that never occur in source code.
OF_MODULES = frozenset({"__name__", "__file__", "__package__", "__spec__", "__path__", "__all__"})
REFLECTING = frozenset({"globals", "vars", "locals", "eval", "exec", "dir"})
APART = "\n\n"


class Unmerged(Exception):
    """The modules cannot share one namespace."""


@dataclass(frozen=True)
class Part:
    """A module's text; ``local`` says of imports from which other part they take something, by their nodes."""

    name: str
    path: str
    title: str
    text: str
    tree: ast.Module
    table: symtable.SymbolTable
    local: Mapping[ast.AST, str]

    @cached_property
    def taken(self) -> dict[str, Taken]:
        """The names that it has from other parts. Raises Unmerged where it takes modules, or more than names."""
        found: dict[str, Taken] = {}
        for node, module in self.local.items():
            if node not in self.tree.body or not isinstance(node, ast.ImportFrom):
                raise Unmerged
            for name, one in imported(node):
                if name == "*" or one.name is None:
                    raise Unmerged
                found[name] = (module, one.name)
        return found

    @cached_property
    def foreign(self) -> dict[str, Import]:
        """The names that it imports from elsewhere."""
        nodes = (node for node in self.tree.body if node not in self.local)
        return {name: one for node in nodes for name, one in imported(node)}

    @cached_property
    def rebound(self) -> set[str]:
        """The names of its top level that its functions assign to."""
        return {one.get_name() for one in self._inner if one.is_declared_global() and one.is_assigned()}

    @cached_property
    def named(self) -> set[str]:
        """The names that its top level has by name."""
        top = (one for one in self.table.get_symbols() if one.is_assigned() or one.is_imported() or one.is_namespace())
        return {one.get_name() for one in top} | self.rebound

    @cached_property
    def bound(self) -> set[str]:
        """Those to which it gives a meaning of its own."""
        return self.named - self.taken.keys()

    @cached_property
    def used(self) -> set[str]:
        """All names of a top level, its own or Python's, that it mentions."""
        return set(self.table.get_identifiers()) | {one.get_name() for one in self._inner if one.is_global()}

    @property
    def _inner(self) -> Iterator[symtable.Symbol]:
        waiting = self.table.get_children()
        while waiting:
            table = waiting.pop()
            waiting.extend(table.get_children())
            yield from table.get_symbols()


@dataclass
class Page:
    """A text, and at which of its lines those of files stand, by the path of the file."""

    text: str = ""
    lines: dict[tuple[str, int], int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        self.text += text

    def add_line(self, line: str, path: str, number: int) -> None:
        self.lines[path, number] = self.text.count("\n") + 1
        self.text += line


def merged(parts: Mapping[str, Part], program: str) -> Page:
    """All parts in the order in which they run, the one of that name last. Raises Unmerged."""
    order = _order(parts, program)
    for part in order:
        _check(part, parts)
    for one, other in permutations(order, 2):
        if any(_differs(name, one, other, parts) for name in one.bound & (other.used | other.bound)):
            raise Unmerged
    page = Page()
    futures = [node for part in order for node in part.tree.body if _is_future(node)]
    page.add("".join(f"{line}\n" for line in dict.fromkeys(map(ast.unparse, futures))))
    done: set[str] = set()
    for part in order:
        lines = list(_lines_of(part, parts, done))
        if any(line.strip() for _, line in lines):
            page.add(f"{APART if page.text else ''}# {part.title}\n")
            for number, line in lines:
                page.add_line(line, part.path, number)
    return page


def _order(parts: Mapping[str, Part], program: str) -> list[Part]:
    order: dict[str, Part] = {}
    above: list[str] = []

    def visit(name: str) -> None:
        if name in above:
            raise Unmerged  # a circle
        if name in order:
            return
        above.append(name)
        for module, _ in parts[name].taken.values():
            visit(module)
        above.pop()
        order[name] = parts[name]

    visit(program)
    for name in parts.keys() - order.keys():
        if parts[name].text.strip():
            raise Unmerged  # it is imported for what it does
    return list(order.values())


def _check(part: Part, parts: Mapping[str, Part]) -> None:
    """Whether a part has what it takes, before all that it does, and reads no names of modules."""
    hidden = REFLECTING if part.name == "__main__" else REFLECTING | OF_MODULES
    stored = {node.id for node in ast.walk(part.tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    begun = False
    for node in part.tree.body:
        if begun and node in part.local:
            raise Unmerged
        begun = begun or not _does_nothing(node)
    if hidden & part.used or stored & part.taken.keys() or "*" in part.foreign or _shares_lines(part.tree):
        raise Unmerged
    for name in part.taken:
        module, original = _origin(part, name, parts)
        if original in parts[module].rebound:
            raise Unmerged


def _does_nothing(node: ast.stmt) -> bool:
    """Whether it makes no difference that it runs before or after what is imported."""
    if isinstance(node, ast.FunctionDef):
        return not node.decorator_list and not node.args.defaults and not node.args.kw_defaults
    if isinstance(node, (ast.Assign, ast.Expr)):
        return isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.List) and not node.value.elts)
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _origin(part: Part, name: str, parts: Mapping[str, Part]) -> Taken:
    """Where the name that a part has from another one is bound. Raises Unmerged where that is a module, or nowhere."""
    while name in part.taken:
        module, name = part.taken[name]
        part = parts[module]
    if name not in part.bound or name in part.foreign:
        raise Unmerged
    return part.name, name


def _differs(name: str, one: Part, other: Part, parts: Mapping[str, Part]) -> bool:
    """Whether a name that one part binds means something else in another part that speaks of it."""
    if name in other.taken:
        return _origin(other, name, parts) != (one.name, name)
    return name not in one.foreign or one.foreign[name] != other.foreign.get(name)


def _lines_of(part: Part, parts: Mapping[str, Part], done: set[str]) -> Iterator[tuple[int, str]]:
    """The lines of a part, without imports of what is there already; other names for it are assigned."""
    instead: dict[int, str] = {}
    for node in part.tree.body:
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        text = ast.unparse(node)
        if node in part.local:
            names = ((name, _origin(part, name, parts)[1]) for name, _ in imported(node))
            instead |= _replaced(node, "".join(f"{name} = {origin}\n" for name, origin in names if name != origin))
        elif _is_future(node) or text in done:
            instead |= _replaced(node, "")
        done.add(text)
    for number, line in enumerate(part.text.rstrip("\n").split("\n"), start=1):
        if text := instead.get(number, f"{line}\n"):
            yield number, text


def _replaced(node: ast.stmt, text: str) -> dict[int, str]:
    assert node.end_lineno is not None
    return {node.lineno: text, **dict.fromkeys(range(node.lineno + 1, node.end_lineno + 1), "")}


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _shares_lines(tree: ast.Module) -> bool:
    """Whether statements of the top level stand in one line."""
    return any(one.end_lineno == other.lineno for one, other in pairwise(tree.body))
