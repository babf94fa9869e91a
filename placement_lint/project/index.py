"""Index of a file: the names that its top level binds, and the lines that do, enough to run a part of it.

An index is plain data. Python's own parser reads the code between definitions, and only those parts of the definitions
that may change something outside them.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple, TypeGuard

from placement_lint.source.outline import Definition, Outline, outlined
from placement_lint.source.parsing import BOM, CHILDREN, levels, python_tree
from placement_lint.source.scan import words_of


class Lines(NamedTuple):
    """A statement of the top level: its first and last line, including decorators."""

    first: int
    last: int


class Import(NamedTuple):
    """``from ..module import name``, with ``level`` dots; ``import module`` if there is no name.

    ``root`` if only the first part of a dotted module is bound.
    """

    level: int
    module: str
    name: str | None = None
    root: bool = False


Binding = Lines | Import


@dataclass(frozen=True)
class Index:
    """The top level of a file, in the order in which it runs.

    ``bindings`` are, for each name, the statements that bind it or change its value; ``taken`` are the imports of those
    statements that only import it, in a branch. ``exports`` is a literal ``__all__``. ``rebound`` and ``changed`` are
    the names that functions of the file assign to, or change in place. ``imports`` are all those of the top level, and
    it may be that the top level ``asks_for_gpus``, which initialises CUDA.
    """

    bindings: Mapping[str, tuple[Binding, ...]] = field(default_factory=dict)
    taken: Mapping[tuple[str, Binding], tuple[Import, ...]] = field(default_factory=dict)
    stars: tuple[Import, ...] = ()
    exports: tuple[str, ...] | None = None
    rebound: frozenset[str] = frozenset()
    changed: frozenset[str] = frozenset()
    imports: tuple[Import, ...] = ()
    asks_for_gpus: bool = False

    @property
    def offers(self) -> tuple[str, ...]:
        """The names that other files may import: those of ``__all__``, else all those defined or imported by name."""
        if self.exports is not None:
            return self.exports
        return tuple(
            name
            for name, found in self.bindings.items()
            if name[0] != "_" and (isinstance(found[-1], Lines) or found[-1].name is not None)
        )


def read_index(text: str) -> Index:
    """The index of a text; empty if Python cannot parse it, which is reported when the file itself is checked."""
    outline = outlined(text.removeprefix(BOM))
    try:
        return _index(outline, python_tree(outline.text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Index()


def _index(outline: Outline, tree: ast.Module) -> Index:
    outer = {statement: _Outer(statement) for statement in tree.body}
    # the part of the statements that runs
    running = {
        statement: _Outer(ast.If(statement.test, [], statement.orelse)) if is_for_checkers(statement) else own
        for statement, own in outer.items()
    }
    variables = frozenset(name for statement in tree.body for name in _variables(statement, running[statement]))
    changeable = variables.union(
        name for own in outer.values() for name, found in own.imports if _may_be_variable(found)
    )
    inner = [(each.name, _Inner(each, changeable)) for each in outline.definitions.values()]
    changes = {name: found.changed for name, found in inner}
    statements = dict(_statements(tree, outline.definitions))
    bindings: dict[str, list[Binding]] = {}
    taken: dict[tuple[str, Binding], tuple[Import, ...]] = {}
    stars: list[Import] = []
    for statement in tree.body:
        own = outer[statement].imports
        stars.extend(found for name, found in own if name == "*")
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for name, found in own:
                bindings.setdefault(name, []).append(found)
        elif not is_for_scripts(statement):
            lines = statements[statement]
            for name in dict.fromkeys((*running[statement].bound, *_touched(running[statement], variables, changes))):
                bindings.setdefault(name, []).append(lines)
            taken.update(((name, lines), found) for name, found in running[statement].taken if name not in variables)
    bindings.pop("*", None)
    return Index(
        bindings={name: tuple(found) for name, found in bindings.items()},
        taken=taken,
        stars=tuple(stars),
        exports=_exports(outer),
        rebound=frozenset(name for _, each in inner for name in each.rebound),
        changed=frozenset(name for _, each in inner for name in each.changed),
        imports=tuple(
            found for statement, own in running.items() if not is_for_scripts(statement) for _, found in own.imports
        ),
        asks_for_gpus=any(map(_asks_for_gpus, tree.body)) or any(map(_asks_when_defined, outline.definitions.values())),
    )


def _asks_for_gpus(statement: ast.stmt) -> bool:
    """Whether a statement of the top level always calls ``torch.cuda.is_available()`` or ``.cuda()``."""
    always = statement.test if isinstance(statement, ast.If) else statement
    if isinstance(always, (ast.Try, ast.While, ast.For)):
        return False
    nodes = [*_at_top_level(always)]
    if any(isinstance(node, (ast.IfExp, ast.BoolOp)) for node in nodes):
        return False
    functions = (node.func for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute))
    return any(func.attr == "cuda" or ast.unparse(func) == "torch.cuda.is_available" for func in functions)


def _asks_when_defined(definition: Definition) -> bool:
    """The same for the definition of a function or class: default values, and the body of a class."""
    if _ASKING.isdisjoint(words_of(definition.code)):
        return False
    return any(map(_asks_for_gpus, _run_by_definitions(python_tree(definition.code).body)))


_ASKING = {"cuda", "is_available"}


def _run_by_definitions(statements: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of classes, and default values as statements."""
    for statement in statements:
        if isinstance(statement, ast.ClassDef):
            yield from _run_by_definitions(statement.body)
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = statement.args
            yield from (ast.Expr(value) for value in (*given.defaults, *given.kw_defaults) if value is not None)
        else:
            yield statement


def _statements(tree: ast.Module, definitions: Mapping[int, Definition]) -> Iterator[tuple[ast.stmt, Lines]]:
    """The statements of the top level with their lines; statements that share a line have the same."""
    sharing: list[ast.stmt] = []
    lines = Lines(0, 0)
    for statement in tree.body:
        first = min(part.lineno for part in (statement, *getattr(statement, "decorator_list", [])))
        emptied = definitions.get(statement.lineno)
        last = emptied.last if emptied is not None else statement.end_lineno or statement.lineno
        if first > lines.last:
            yield from ((each, lines) for each in sharing)
            sharing, lines = [], Lines(first, last)
        sharing.append(statement)
        lines = Lines(lines.first, last)
    yield from ((each, lines) for each in sharing)


def is_for_scripts(statement: ast.stmt) -> bool:
    """``if __name__ == "__main__"``: a statement that an import skips."""
    return isinstance(statement, ast.If) and any(
        isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)
    )


def is_for_checkers(statement: ast.stmt) -> TypeGuard[ast.If]:
    """``if TYPE_CHECKING``: code that never runs."""
    test = statement.test if isinstance(statement, ast.If) else None
    name = test.id if isinstance(test, ast.Name) else test.attr if isinstance(test, ast.Attribute) else ""
    return name == "TYPE_CHECKING"


# --- imports -----------------------------------------------------------------------------------------------


def imported(node: ast.AST) -> Iterator[tuple[str, Import]]:
    """The names that an import binds, each with its source."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.asname is None:
                yield alias.name.partition(".")[0], Import(0, alias.name, root=True)
            else:
                yield alias.asname, Import(0, alias.name)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield alias.asname or alias.name, Import(node.level, node.module or "", alias.name)


# In code with empty strings, wherever a statement can begin: after a newline, or one of these signs.
_SIGNS = "\n;:"
_IMPORT = re.compile(
    rf"[{_SIGNS}]((?:[ \t]*from\b(?:[.\w \t]|\\\n)+\bimport\b|[ \t]*import\b)[ \t]*(?:\([^()]*\)|(?:[^;\\\n]|\\\n)*))"
)
# This is found faster than all these positions.
_WORD = re.compile(r"import\b")


def _imports_in(code: str) -> Iterator[re.Match[str]]:
    """The imports in code that begins with a newline, with the sign before each."""
    done = 0
    for word in _WORD.finditer(code):
        for begin in reversed([*_begins(code, done, word.start())]):
            done = begin
            if (found := _IMPORT.match(code, begin)) is not None:
                done = found.end()
                yield found
                break


def _begins(code: str, done: int, end: int) -> Iterator[int]:
    """The positions where the statement at ``end`` may begin, the last first: several if it spans several lines."""
    while (end := max(code.rfind(sign, done, end) for sign in _SIGNS)) >= 0:
        yield end
        if not code.startswith("\\\n", max(0, end - 1)):
            break


def read_imports(code: str) -> tuple[tuple[str, Import], ...]:
    """All imports in the code, also those inside functions, with the names they bind; none if one is not Python."""
    try:
        tree = python_tree("\n".join(found[1].lstrip(" \t") for found in _imports_in(f"\n{code}")))
    except (SyntaxError, ValueError):
        return ()
    return tuple(found for statement in tree.body for found in imported(statement))


def _exports(outer: Mapping[ast.stmt, _Outer]) -> tuple[str, ...] | None:
    """A literal ``__all__``; None if it is computed or absent."""
    found: list[str] | None = None
    for statement, own in outer.items():
        if isinstance(statement, (ast.Assign, ast.AugAssign)) and "__all__" in own.bound:
            try:
                names = ast.literal_eval(statement.value)
            except ValueError:
                return None
            found = [*(found or [] if isinstance(statement, ast.AugAssign) else []), *map(str, names)]
    return tuple(found) if found is not None else None


# --- bindings and changes of statements --------------------------------------------------------------------------

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_WITHOUT_PARTS = (ast.Constant, ast.Name, ast.Import, ast.ImportFrom)


def _at_top_level(statement: ast.AST) -> Iterator[ast.AST]:
    """The statement and the nodes inside it, without the bodies of functions and classes."""
    waiting = [statement]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, _SCOPES):
            waiting.extend(getattr(node, "decorator_list", []))
        elif not isinstance(node, _WITHOUT_PARTS):
            waiting.extend(_children(node))


def walk(node: ast.AST) -> Iterator[ast.AST]:
    """The node and all meaningful nodes inside it, in any order."""
    return chain.from_iterable(levels(node))


def _children(node: ast.AST) -> list[ast.AST]:
    """The meaningful child nodes, the last one first."""
    found: list[ast.AST] = []
    for name in CHILDREN[type(node)]:
        part = getattr(node, name, None)
        if isinstance(part, list):
            found.extend(each for each in part if isinstance(each, ast.AST))
        elif isinstance(part, ast.AST):
            found.append(part)
    return found[::-1]


# Modules that are never in a project.
_ELSEWHERE = sys.stdlib_module_names | {"torch"}


class _Outer:
    """The imports, bindings and effects of a top-level statement; an import in a branch is assumed to run.

    ``stored`` are the variables among the ``bound`` names; ``touching`` are the nodes that call something, or store
    into an existing object.
    """

    def __init__(self, statement: ast.stmt) -> None:
        self.imports: list[tuple[str, Import]] = []
        self.bound: list[str] = []
        self.stored: list[str] = []
        self.touching: list[ast.Attribute | ast.Subscript | ast.Call] = []
        self.decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
        for node in _at_top_level(statement):
            if isinstance(node, _DEFINITIONS):
                self.bound.append(node.name)
            elif isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    self.bound.append(node.id)
                    self.stored.append(node.id)
            elif isinstance(node, ast.Call):
                self.touching.append(node)
            elif isinstance(node, (ast.Attribute, ast.Subscript)):
                if isinstance(node.ctx, ast.Store):
                    self.touching.append(node)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found = [*imported(node)]
                self.imports.extend(found)
                self.bound.extend(name for name, _ in found)

    @property
    def taken(self) -> Iterator[tuple[str, tuple[Import, ...]]]:
        """The names that it only imports, with their sources."""
        for name, times in Counter(name for name, _ in self.imports).items():
            if self.bound.count(name) == times:
                yield name, tuple(found for own, found in self.imports if own == name)


def _may_be_variable(taken: Import) -> bool:
    """Whether an import may take a variable from another file of the project."""
    return taken.name is not None and taken.module.partition(".")[0] not in _ELSEWHERE


def _variables(statement: ast.stmt, own: _Outer) -> Iterable[str]:
    """The names that it binds to values which can change: no definitions, imports or literals."""
    literal = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Constant)
    return () if literal else own.stored


def _touched(own: _Outer, variables: frozenset[str], changes: Mapping[str, frozenset[str]]) -> Iterator[str]:
    """The variables whose content a statement may change: it passes them to a call, or stores into them."""
    seen: set[ast.AST] = set()
    for node in own.touching:
        if not isinstance(node, ast.Call):
            root = _root(node)
            if root in variables:
                yield root
            continue
        yield from changes.get(_root(node.func), ())
        if node not in seen:  # otherwise it is inside a call whose names were yielded
            for part in ast.walk(node):
                if isinstance(part, ast.Name) and part.id in variables:
                    yield part.id
                elif isinstance(part, ast.Call):
                    seen.add(part)
    for decorator in own.decorators:
        yield from changes.get(_root(decorator), ())


def _root(node: ast.AST) -> str:
    """The name at the beginning of a chain of attributes, items and calls."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


# Methods that change a list, dict or set in place.
_MUTATORS = {"append", "extend", "insert", "update", "setdefault", "add", "pop", "remove", "clear", "discard"}

# Code after a name that changes the name's value: NAME.append(x), NAME[0].x += 1, NAME.x, y = z ...
_PART = r"\.\w+|\[(?:[^\[\]\n]|\[[^\[\]\n]*\])*\]"
_LINK = rf"(?:{_PART}|\((?:[^()\n]|\([^()\n]*\))*\))"
_CHANGING = re.compile(
    rf"{_LINK}*\.(?:{'|'.join(sorted(_MUTATORS))})\b"
    rf"|{_LINK}*(?:{_PART})\s*(?:[-+*/%&|^@]|//|\*\*|<<|>>|[,:][^=\n]*)?=(?!=)"
)
# ... characters before a name that make it a part of another one ...
_IN_NAME = re.compile(r"[\w.]")
# ... and beginnings of lines that may change it: for NAME.x in y
_TAKING = re.compile(r"\s*(?:for|async|with|del)\b")


class _Inner:
    """The names that the body of a function or class declares global, and the outer variables that it changes."""

    def __init__(self, definition: Definition, variables: frozenset[str]) -> None:
        self.rebound: set[str] = set()
        own: set[str] = set()
        changed: set[str] = set()
        for node in walk(python_tree(definition.code)) if _may_change(definition.code, variables) else ():
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Store):
                    own.add(node.id)
            elif isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
                changed.add(_changed_by(node))
            elif isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Global):
                self.rebound.update(node.names)
        self.changed = frozenset((changed - own) & variables | self.rebound)


def _may_change(code: str, variables: frozenset[str]) -> bool:
    words = words_of(code)
    return "global" in words or any(_may_be_changed(name, code) for name in variables.intersection(words))


def _may_be_changed(name: str, code: str) -> bool:
    begin = code.find(name)
    while begin >= 0:
        end = begin + len(name)
        if (
            code.startswith((".", "[", "("), end)
            and not _IN_NAME.match(code, begin - 1)
            and (_CHANGING.match(code, end) or _TAKING.match(code, code.rfind("\n", 0, begin) + 1))
        ):
            return True
        begin = code.find(name, end)
    return False


def _changed_by(node: ast.AST) -> str:
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        return _root(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
        return _root(node.func)
    return ""
