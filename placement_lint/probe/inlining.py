"""A program together with what it needs of its project's other files, as one text that imports none of them.

``inlined`` follows imports as the analysis does (project/finder.py). Of each file it takes the top-level statements
that the program needs: those that bind or change the names that are used, what these read in turn, and those that
change PyTorch itself. Where that changes nothing, this is plain code before the program (merging.py). Else the file
becomes a module of the same name that is defined in the text (embedding.py), so that every import means what it meant:
circular ones, ``import *``, modules under an alias, two classes of one name.
"""

from __future__ import annotations

import ast
import builtins
import os
import symtable
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

from placement_lint.probe.merging import APART, OF_MODULES, REFLECTING, Page, Part, Unmerged, merged
from placement_lint.probe.rendering import starts_ranks, untyped
from placement_lint.project.finder import INIT, Place, Surroundings
from placement_lint.project.index import Import, Lines, imported, is_for_checkers, is_for_scripts
from placement_lint.project.unit import Unit

Chain: TypeAlias = tuple[str, ...]
"""How a name is used: ``("b", "c")`` is ``.b.c`` of it, and the empty chain the value itself."""

UNUSED: Chain = ("",)
# What a saved slice may import: PyTorch, and what comes with it.
WITH_TORCH = frozenset({"torch", "numpy"})
FAILED_IMPORTS = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BODIES = (ast.stmt, ast.ExceptHandler, ast.match_case)
QUOTES = ("'''", '"""')


class NotInlined(Exception):
    """The program cannot be written as one text; the message says why."""


@dataclass(frozen=True)
class Inlined:
    """The text, the packages that it needs besides PyTorch, and where the lines of files stand in it.

    ``undefined`` are names that the program uses and nothing defines; ``starts_ranks`` is whether it starts processes.
    """

    text: str
    packages: frozenset[str]
    lines: Mapping[tuple[str, int], int]
    undefined: frozenset[str]
    starts_ranks: bool

    def line(self, path: str, number: int) -> int:
        """The line of the text with this line of a file; of one that is not there, the one before."""
        return next((self.lines[path, near] for near in range(number, 0, -1) if (path, near) in self.lines), 1)


def inlined(program: str, around: Surroundings, texts: Mapping[str, str] | None = None, whole: bool = False) -> Inlined:
    """The text of a program in the file that ``around`` is about, with what it imports from there.

    ``texts`` replaces the content of other files, by their paths. With ``whole``, files are not cut. Raises NotInlined.
    """
    return _Inliner(program, around, texts or {}, whole).run()


class _Inliner:
    def __init__(self, program: str, around: Surroundings, texts: Mapping[str, str], whole: bool) -> None:
        self.gatherer = _Gatherer(around, texts, whole)
        unit = _unit(around.path, program)
        self.program = _Module("__main__", Place(around.path), unit, _package_of_program(unit, around))

    def run(self) -> Inlined:
        self.gatherer.gather(self.program)
        parts = {module.name: self._part(module) for module in (*self.gatherer.modules.values(), self.program)}
        packages = {name for part in parts.values() for name in self._foreign(part)}
        try:
            page = merged(parts, self.program.name)
        except Unmerged:
            page = self._embedded(parts)
        return Inlined(
            page.text,
            frozenset(packages),
            page.lines,
            frozenset(self._undefined(parts[self.program.name])),
            any(starts_ranks(part.text) for part in parts.values()),
        )

    def _undefined(self, program: Part) -> Iterator[str]:
        known = program.named | OF_MODULES | set(dir(builtins))
        return (name for name in program.used - known if not self.gatherer.takes(self.program, name))

    def _module(self, name: str) -> _Module:
        return self.program if name == self.program.name else self.gatherer.modules[name]

    def _part(self, module: _Module) -> Part:
        text = module.unit.text if module is self.program else _text_of(module)
        try:
            tree, table = ast.parse(text), symtable.symtable(text, module.name, "exec")
        except SyntaxError as error:
            raise NotInlined(f"{_title(module)} cannot be compiled: {error}") from None
        local = {
            node: module.absolute(found)
            for node in _walk([tree])
            for _, found in imported(node)
            if self.gatherer.leads_to(module, found) is not None
        }
        return Part(module.name, module.place.path, _title(module), text, tree, table, local)

    def _embedded(self, parts: Mapping[str, Part]) -> Page:
        page = Page()
        program = parts[self.program.name]
        lines = list(self._with_absolute_imports(program))
        first = _end_of_future(program.tree)
        for number, line in lines:
            if number <= first:
                page.add_line(line, program.path, number)
        page.add(f"{APART if page.text else ''}{_embedded_class()}{APART}")
        for name, part in sorted(parts.items()):
            if part is not program:
                self._embed(page, name, part)
        page.add(APART)
        for number, line in lines:
            if number > first:
                page.add_line(line, program.path, number)
        return page

    def _embed(self, page: Page, name: str, part: Part) -> None:
        opening, text, closing = _quoted(part.text)
        page.add(f"Embedded({name!r}, {opening}")
        for number, line in enumerate(text.splitlines(keepends=True), start=1):
            page.add_line(line, part.path, number)
        page.add(f"{closing}{', is_package=True' if self.gatherer.modules[name].is_package else ''})\n")

    def _foreign(self, part: Part) -> Iterator[str]:
        """What a text must have that neither the project, Python nor PyTorch has."""
        for _, found in _required(part.tree.body):
            if self.gatherer.leads_to(self._module(part.name), found) is None:
                top = "." * found.level + found.module.partition(".")[0]
                if found.level or (top not in sys.stdlib_module_names and top not in WITH_TORCH):
                    yield top

    def _with_absolute_imports(self, program: Part) -> Iterator[tuple[int, str]]:
        """The lines of the program with full names in place of relative imports, each in one line."""
        lines = dict(enumerate(program.text.encode().splitlines(keepends=True), start=1))
        relative = [node for node in _walk([program.tree]) if isinstance(node, ast.ImportFrom) and node.level]
        for node in sorted(relative, key=lambda node: node.lineno, reverse=True):
            assert node.end_lineno is not None
            module = self.program.absolute(Import(node.level, node.module or ""))
            plain = ast.unparse(ast.ImportFrom(module, node.names, 0)).encode()
            first, last = lines[node.lineno], lines[node.end_lineno]
            for number in range(node.lineno + 1, node.end_lineno + 1):
                del lines[number]
            lines[node.lineno] = first[: node.col_offset] + plain + last[node.end_col_offset :]
        yield from ((number, line.decode()) for number, line in lines.items())


# --- texts ---------------------------------------------------------------------------------------------------------


def _text_of(module: _Module) -> str:
    """The part of a module that is needed."""
    if module.is_whole:
        return module.unit.text.rstrip("\n") + "\n"
    text = ""
    last: ast.stmt | None = None
    done: set[Lines] = set()
    for lines, statement in module.statements:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            part = _import_of(module, statement)
        else:
            kept = next((kept for kept in module.kept if _contains(kept, lines)), None)
            if kept is None or kept in done:
                continue
            done.add(kept)
            part = module.unit.source(kept).rstrip()
        if part:
            apart = isinstance(statement, DEFINITIONS) or isinstance(last, DEFINITIONS)
            text += f"{APART if text and apart else ''}{part}\n"
            last = statement
    return text


def _import_of(module: _Module, statement: ast.Import | ast.ImportFrom) -> str:
    """An import with those of its names that are needed."""
    is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    names = [
        alias
        for alias in statement.names
        for name, found in imported(_with_names(statement, [alias]))
        if is_future or name in module.names or found in module.stars
    ]
    return ast.unparse(_with_names(statement, names)) if names else ""


def _with_names(statement: ast.Import | ast.ImportFrom, names: list[ast.alias]) -> ast.Import | ast.ImportFrom:
    if isinstance(statement, ast.Import):
        return ast.Import(names)
    return ast.ImportFrom(statement.module, names, statement.level)


def _title(module: _Module) -> str:
    """The file of a module, as a reader finds it."""
    names = [*module.name.split("."), INIT] if module.is_package else module.name.split(".")
    return Path(module.place.path).name if module.name == "__main__" else "/".join(names).removesuffix(".py") + ".py"


def _quoted(text: str) -> tuple[str, str, str]:
    """A string literal of a text, which begins on a line of its own: the literal's beginning, the lines, its end."""
    if not text:
        return '""', "", ""
    for quotes in QUOTES:
        if quotes not in text:
            return f"r{quotes}\n", text, quotes
    quotes = QUOTES[0]
    return f"{quotes}\n", text.replace("\\", "\\\\").replace(quotes, "\\" + "\\".join(quotes)), quotes


@cache
def _embedded_class() -> str:
    tree = ast.parse(Path(__file__).with_name("embedding.py").read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef))
    return f"{ast.unparse(untyped(found))}\n"


def _end_of_future(tree: ast.Module) -> int:
    """The last line that must stay before all others."""
    first = [
        statement.end_lineno or 0
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    ]
    return max(first, default=0)


# --- packages ------------------------------------------------------------------------------------------------------


def _required(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, Import]]:
    """The imports that must succeed: not those that a `try` expects to fail, or that only type checkers read."""
    for node in nodes:
        if isinstance(node, ast.Try) and any(map(_expects_failure, node.handlers)):
            yield from _required([*node.handlers, *node.orelse, *node.finalbody])
        elif isinstance(node, ast.stmt) and is_for_checkers(node):
            yield from _required(node.orelse)
        else:
            yield from imported(node)
            yield from _required(child for child in ast.iter_child_nodes(node) if isinstance(child, BODIES))


def _expects_failure(handler: ast.ExceptHandler) -> bool:
    """Whether it catches the exception of an import."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {kind.id if isinstance(kind, ast.Name) else None for kind in kinds}
    return None in names or not names.isdisjoint(FAILED_IMPORTS)


# --- what is needed ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Module:
    """A file, or a folder without one, under the name by which it is imported; and the needed parts of it.

    ``package`` is the base of its relative imports, ``kept`` are lines of its top level, ``names`` those that its own
    imports bind and that are needed.
    """

    name: str
    place: Place
    unit: Unit
    package: str
    kept: set[Lines] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    stars: set[Import] = field(default_factory=set)
    is_whole: bool = False

    @property
    def is_package(self) -> bool:
        return self.place.folder is not None

    @cached_property
    def tree(self) -> ast.Module:
        try:
            return ast.parse(self.unit.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise NotInlined(f"{Path(self.place.path).name} cannot be parsed: {error}") from None

    @cached_property
    def statements(self) -> list[tuple[Lines, ast.stmt]]:
        return [(_lines_of(statement), statement) for statement in self.tree.body]

    @cached_property
    def effects(self) -> list[tuple[Lines, set[str]]]:
        """The statements that bind nothing, with the names that they use, without those that an import skips."""
        binding = {lines for found in self.unit.index.bindings.values() for lines in found if isinstance(lines, Lines)}
        return [
            (lines, set(_uses([statement])))
            for lines, statement in self.statements
            if not isinstance(statement, (ast.Import, ast.ImportFrom, *DEFINITIONS))
            and not any(_contains(other, lines) for other in binding)
            and not is_for_scripts(statement)
            and not (is_for_checkers(statement) and not statement.orelse)
        ]

    def within(self, lines: Lines) -> list[ast.stmt]:
        return [statement for own, statement in self.statements if _contains(lines, own)]

    def absolute(self, found: Import) -> str:
        """The full name of the module from which an import takes something."""
        if not found.level:
            return found.module
        parts = self.package.split(".") if self.package else []
        if len(parts) < found.level:
            raise NotInlined(f"{Path(self.place.path).name} is imported as `{self.name}`, but has relative imports")
        return ".".join([*parts[: len(parts) - found.level + 1], *([found.module] if found.module else [])])


class _Gatherer:
    """Finds what a program needs of other files."""

    def __init__(self, around: Surroundings, texts: Mapping[str, str], whole: bool) -> None:
        self.around = around
        self.texts = {os.path.realpath(path): text for path, text in texts.items()}
        self.whole = whole
        self.modules: dict[str, _Module] = {}
        self._asked: set[tuple[str, Chain]] = set()
        self._waiting: list[tuple[_Module, Chain]] = []

    def gather(self, program: _Module) -> None:
        """All that a program needs, which is itself needed as it is."""
        self._need_uses(program, program.tree.body)
        while True:
            while self._waiting:
                self._need_now(*self._waiting.pop())
            for module in list(self.modules.values()):
                self._need_effects(module)
            if not self._waiting:
                return

    def leads_to(self, module: _Module, found: Import) -> Place | None:
        return self.around.find(found, module.place.path)

    def takes(self, module: _Module, name: str, *within: _Module) -> bool:
        """Whether a module may get a name by ``from other import *``."""
        for star in module.unit.stars:
            place = self.leads_to(module, star)
            if place is None:
                return True
            source = self._module(module.absolute(star), place)
            if name in source.unit.index.bindings:
                return True
            if source not in within and self.takes(source, name, module, *within):
                return True
        return False

    def _need_uses(self, module: _Module, statements: list[ast.stmt]) -> None:
        """What statements use: names of their module, and what they import themselves."""
        uses = _uses(statements)
        if not REFLECTING.isdisjoint(uses) and module.name in self.modules:
            self._need(module, ())
        for name, chains in uses.items():
            for chain in chains:
                self._need(module, (name, *chain))
        for name, found in _imports(statements):
            if name == "*":
                for used, chains in uses.items():
                    self._follow_star(module, found, *((used, *chain) for chain in chains))
            else:
                # A module whose name is never used is imported for its effects.
                for chain in uses.get(name, {UNUSED if found.name else ()}):
                    self._follow(module, found, chain)

    def _need(self, module: _Module, chain: Chain) -> None:
        if (module.name, chain) not in self._asked:
            self._asked.add((module.name, chain))
            self._waiting.append((module, chain))

    def _need_now(self, module: _Module, chain: Chain) -> None:
        if not module.is_whole and (self.whole or not chain or chain[0] == "__dict__"):
            self._take_whole(module)
        if not chain:
            return
        name, rest = chain[0], chain[1:]
        found = module.unit.index.bindings.get(name, ())
        if not module.is_whole:
            self._need_name(module, chain)
        if name and (place := self.around.submodule(module.place, name)):
            is_meant = all(isinstance(one, Import) and self.leads_to(module, one) == module.place for one in found)
            self._need(self._module(f"{module.name}.{name}", place), rest if is_meant else UNUSED)

    def _take_whole(self, module: _Module) -> None:
        module.is_whole = True
        self._need_uses(module, module.tree.body)
        for star in module.unit.stars:
            self._follow_star(module, star, ())

    def _need_name(self, module: _Module, chain: Chain) -> None:
        found = module.unit.index.bindings.get(chain[0], ())
        for binding in found:
            if isinstance(binding, Import):
                module.names.add(chain[0])
                self._follow(module, binding, chain[1:])
            else:
                self._keep(module, binding)
        for star in module.unit.stars if not found else ():
            self._follow_star(module, star, chain)

    def _keep(self, module: _Module, lines: Lines) -> None:
        if lines not in module.kept:
            module.kept.add(lines)
            self._need_uses(module, module.within(lines))

    def _need_effects(self, module: _Module) -> None:
        """Statements that may change what is kept, or PyTorch."""
        index = module.unit.index
        known = {name for name, found in index.bindings.items() if not module.kept.isdisjoint(found)} | module.names
        known |= {
            name
            for name, found in index.bindings.items()
            if any(isinstance(one, Import) and one.module.partition(".")[0] == "torch" for one in found)
        }
        for lines, names in module.effects:
            if not known.isdisjoint(names):
                self._keep(module, lines)

    def _follow(self, module: _Module, found: Import, chain: Chain) -> None:
        """What an import brings, used as ``chain`` says."""
        place = self.leads_to(module, found)
        if place is None:
            return
        name = module.absolute(found)
        if not found.root:
            self._need(self._module(name, place), (found.name, *chain) if found.name else chain)
            return
        first, *others = name.split(".")
        top = part = self._module(first, place)
        for other in others:
            below = self.around.submodule(part.place, other)
            if below is None:
                break
            part = self._module(f"{part.name}.{other}", below)
        self._need(top, chain)

    def _follow_star(self, module: _Module, star: Import, *chains: Chain) -> None:
        module.stars.add(star)
        place = self.leads_to(module, star)
        if place is not None:
            source = self._module(module.absolute(star), place)
            for chain in chains:
                self._need(source, chain)

    def _module(self, name: str, place: Place) -> _Module:
        """The module of that name, with the packages around it."""
        if name in self.modules:
            module = self.modules[name]
            if module.place.path != place.path:
                one, other = (os.path.relpath(path) for path in (module.place.path, place.path))
                raise NotInlined(f"`{name}` is {one} in one file and {other} in another")
            return module
        package, _, _ = name.rpartition(".")
        module = _Module(name, place, self._unit(place), name if place.folder else package)
        self.modules[name] = module
        if package:
            folder = place.folder or os.path.dirname(place.path)
            above = os.path.dirname(folder) if place.folder else folder
            init = os.path.join(above, INIT)
            is_file = self.around.unit(init) is not None
            self._module(package, Place(init if is_file else above, is_file))
        self._need(module, () if os.path.realpath(place.path) in self.texts else UNUSED)
        return module

    def _unit(self, place: Place) -> Unit:
        if not place.is_file:
            return Unit(place.path, b"")
        given = self.texts.get(os.path.realpath(place.path))
        if given is not None:
            return _unit(place.path, given)
        unit = self.around.unit(place.path)
        if unit is None:
            raise NotInlined(f"{os.path.relpath(place.path)} cannot be read")
        return _unit(place.path, unit.text)


def _package_of_program(unit: Unit, around: Surroundings) -> str:
    """The package that a script is in, named by as many folders as its relative imports climb, and its packages."""
    levels = [found.level for _, found in unit.imports]
    parts: list[str] = []
    folder = os.path.dirname(unit.path)
    while len(parts) < max(levels, default=0) or (around.unit(os.path.join(folder, INIT)) is not None):
        folder, name = os.path.split(folder)
        if not name:
            break
        parts.insert(0, name)
    return ".".join(parts)


def _unit(path: str, text: str) -> Unit:
    return Unit(path, text.replace("\r\n", "\n").replace("\r", "\n").encode())


def _lines_of(statement: ast.stmt) -> Lines:
    decorators = getattr(statement, "decorator_list", [])
    return Lines(min(part.lineno for part in (statement, *decorators)), statement.end_lineno or statement.lineno)


def _contains(outer: Lines, inner: Lines) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def _walk(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """All nodes but those that only type checkers read."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.stmt) and is_for_checkers(node):
            waiting.extend(node.orelse)
        else:
            waiting.extend(ast.iter_child_nodes(node))


def _uses(statements: Iterable[ast.stmt]) -> dict[str, set[Chain]]:
    """How each name is used in statements."""
    uses: dict[str, set[Chain]] = defaultdict(set)
    inner: set[ast.AST] = set()
    for node in _walk(statements):  # outer nodes come first
        if node in inner or not isinstance(node, (ast.Attribute, ast.Name)):
            continue
        attributes: list[str] = []
        part: ast.AST = node
        while isinstance(part, ast.Attribute):
            attributes.append(part.attr)
            part = part.value
            inner.add(part)
        if isinstance(part, ast.Name):
            uses[part.id].add(tuple(reversed(attributes)))
    return uses


def _imports(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, Import]]:
    for node in _walk(statements):
        yield from imported(node)
