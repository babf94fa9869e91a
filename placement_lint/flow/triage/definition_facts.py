"""Facts about a definition, from one pass over its syntax tree: its names, calls, assignments, strings and methods.

``predicates`` decides by these facts whether a finding may begin in the definition.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from copy import copy
from functools import cached_property, partial
from itertools import chain
from textwrap import dedent
from typing import Any

from placement_lint.flow.api.torch_names import MODULE_MOVES
from placement_lint.flow.triage import cpu_tensor_escape
from placement_lint.flow.triage.cpu_tensor_escape import MAKERS
from placement_lint.project.shelf import Shelf
from placement_lint.source.parsing import CHILDREN, python_tree, shared_tree
from placement_lint.source.scan import words_of

FORWARDS = ("forward", "training_step", "validation_step", "test_step", "predict_step")
# The methods that run only while an instance is constructed.
INITIALISERS = {"__init__", "reset_parameters", "_reset_parameters", "init_weights", "_init_weights"}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITH_WORDS = (ast.Constant, ast.arg, ast.keyword, *FUNCTIONS, ast.ClassDef, ast.alias, ast.ImportFrom)
_BLOCKS = (ast.If, ast.Try, ast.With, ast.For, ast.While)
# Stands for the attributes of others that ``setattr`` sets.
ANY = "*"
# Size of the cache of facts, in characters of their texts.
_LETTERS = 400_000

_facts = Shelf[str, "Facts"](_LETTERS, lambda facts: facts.letters)


def read(text: str) -> Facts:
    """The facts about a text, cached: an editor re-reads mostly the same definitions after each keystroke."""
    return _facts.get(text, lambda: _read(text))


def read_all(text: str, definitions: Mapping[int, str]) -> None:
    """Cache the facts about the definitions of a text, by their first lines: one pass of Python's parser reads all."""
    try:
        statements = shared_tree(text).body
    except _UNREADABLE:
        return
    for statement in statements:
        own = definitions.get(statement.lineno)
        if own is not None and isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            undecorated = copy(statement)
            undecorated.decorator_list = []
            _facts.get(own, partial(Facts, (undecorated,), letters=len(own)))


def _read(text: str) -> Facts:
    try:
        return Facts(python_tree(dedent(text)).body, letters=len(text))
    except _UNREADABLE:
        return Facts((), letters=len(text), is_readable=False)


_UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


# --- nodes -----------------------------------------------------------------------------------------------------------


def name_of(node: ast.AST | None) -> str:
    """The last name of a dotted expression; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def owner_of(node: ast.AST) -> str:
    """The name before the last: ``nn`` of ``torch.nn.Linear``."""
    return name_of(node.value) if isinstance(node, ast.Attribute) else ""


def is_self(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def is_attribute_of_self(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Attribute) and is_self(node.value)


def arguments_of(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)]


def is_text(node: ast.AST) -> bool:
    """Whether it is a string that can be a name: neither a docstring nor a message."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and not any(map(str.isspace, node.value))


def _is_device(node: ast.AST) -> bool:
    """``torch.device("cpu")``"""
    return isinstance(node, ast.Call) and name_of(node.func) == "device" and owner_of(node.func) == "torch"


class Facts:
    """The nodes of some statements, in particular of a definition, by their types.

    The methods of classes have facts of their own; ``head`` are those of the rest. If the statements are not
    ``is_readable`` by the running Python, nothing is known of them.
    """

    def __init__(
        self,
        statements: Sequence[ast.AST],
        *,
        letters: int = 0,
        is_readable: bool = True,
        method_in: dict[ast.AST, ast.AST] | None = None,
    ) -> None:
        self.statements = statements
        self.letters: int = letters
        self.is_readable = is_readable
        self.parents: dict[ast.AST, ast.AST] = method_in if method_in is not None else {}
        self._own = defaultdict[type[ast.AST], list[Any]](list)
        methods = self._collect(statements, is_method=method_in is not None)
        self._escapes: dict[tuple[bool, bool], bool] = {}
        self._answers: dict[Callable[[Facts], bool], bool] = {}
        self.methods = {name: Facts(found, method_in=self.parents) for name, found in methods.items()}

    def _collect(self, statements: Sequence[ast.AST], *, is_method: bool) -> Mapping[str, Sequence[ast.AST]]:
        """Collect the nodes, except those of the returned methods."""
        methods = defaultdict[str, list[ast.AST]](list)
        own, parents = self._own, self.parents
        # Classes, and the blocks in their bodies.
        scopes = set[ast.AST]()
        waiting = [*statements]
        for node in waiting:
            kind = type(node)
            own[kind].append(node)
            if kind is ast.ClassDef or (kind in _BLOCKS and parents.get(node) in scopes):
                scopes.add(node)
            for field in CHILDREN[kind]:
                part = getattr(node, field, None)
                for child in part if type(part) is list else (part,):
                    if isinstance(child, ast.AST):
                        parents[child] = node
                        if isinstance(child, FUNCTIONS) and node in scopes and not is_method:
                            methods[child.name].append(child)
                        else:
                            waiting.append(child)
        return methods

    @cached_property
    def head(self) -> Facts:
        """The facts outside of all methods."""
        head = Facts(())
        head.parents, head._own = self.parents, self._own
        return head

    @cached_property
    def parts(self) -> Sequence[Facts]:
        return (self.head, *self.methods.values()) if self.methods else (self,)

    def all(self, *kinds: type[Any]) -> Iterator[Any]:
        """The nodes of these types."""
        for kind in kinds:
            yield from self._own.get(kind, ())
            for method in self.methods.values():
                yield from method.all(kind)

    @property
    def nodes(self) -> Iterator[ast.AST]:
        return chain.from_iterable(chain.from_iterable(part._own.values()) for part in self.parts)

    def once(self, predicate: Callable[[Facts], bool]) -> bool:
        """Whether a predicate holds, cached."""
        if predicate not in self._answers:
            self._answers[predicate] = predicate(self)
        return self._answers[predicate]

    # --- names -------------------------------------------------------------------------------------------------------

    @cached_property
    def words(self) -> Set[str]:
        """All names, and the words of strings that can be names."""
        if self.methods:
            return {*self.head.words, *self.methods}.union(*(method.words for method in self.methods.values()))
        nodes = chain.from_iterable(self._own.get(kind, ()) for kind in _WITH_WORDS)
        # Most words are in nodes of these two kinds.
        words = {node.id for node in self._own.get(ast.Name, ())} | {
            node.attr for node in self._own.get(ast.Attribute, ())
        }
        return words.union(*map(words_in, nodes))

    @cached_property
    def used(self) -> Set[str]:
        """The same without those in type tests and annotations only.

        These lead to no finding: an annotated value, or one of that class by a test, is as unknown as before.
        """
        asked: list[ast.AST | None] = [each.annotation for each in self.all(ast.arg)]
        asked += [each.returns for each in self.all(*FUNCTIONS)]
        asked += [each for call in self.calls("isinstance") for each in call.args[1:]]
        inside = {node for each in asked if each is not None for node in ast.walk(each)}
        return {*self.methods}.union(*(words_in(node) for node in self.nodes if node not in inside))

    def has(self, *words: str) -> bool:
        """Whether one of these words occurs."""
        return not self.words.isdisjoint(words)

    @cached_property
    def texts(self) -> Mapping[ast.Constant, str]:
        """The strings that can be names."""
        return {node: node.value for node in self.all(ast.Constant) if is_text(node)}

    @cached_property
    def texts_taken(self) -> Mapping[ast.Constant, str]:
        """The same without those that something is only compared with, and those that only name a kind of device."""
        taken = (node for node in self.texts if not self.is_compared(node) and not self._is_kind(node))
        return {node: self.texts[node] for node in taken}

    def is_compared(self, node: ast.AST) -> bool:
        """Whether something is compared with it, as in ``kind == "cuda"`` or ``device in ("cpu", x)``."""
        around = self.parents[node]
        while isinstance(around, (ast.Tuple, ast.List, ast.Set)) or _is_device(around):
            around = self.parents[around]
        return isinstance(around, ast.Compare)

    def _is_kind(self, text: ast.Constant) -> bool:
        """Whether it is not the target of a move: ``device_type="cuda"``, ``autocast("cuda")``."""
        around = self.parents[text]
        if isinstance(around, ast.keyword):
            return around.arg == "device_type"
        if isinstance(around, ast.Call):
            return name_of(around.func) == "autocast"
        while isinstance(around, ast.IfExp):
            around = self.parents[around]
        named = isinstance(around, ast.Assign) and [name_of(each) for each in around.targets] == ["device_type"]
        return named and all(map(self._asks_kind, self.mentions("device_type")))

    def _asks_kind(self, mention: ast.AST) -> bool:
        around = self.parents[mention]
        if isinstance(around, ast.keyword):
            return around.arg == "device_type"
        if isinstance(around, ast.Call):
            return name_of(around.func) == "autocast"
        return isinstance(around, (ast.Assign, ast.Compare))

    @cached_property
    def own(self) -> Set[str]:
        """The attributes of ``self`` that it uses."""
        return {node.attr for node in self.all(ast.Attribute) if is_self(node.value)}

    def mentions(self, *names: str) -> Iterator[ast.Name | ast.Attribute]:
        """The names and attributes with one of these names."""
        if self.has(*names):
            yield from (node for node in self.all(ast.Name, ast.Attribute) if name_of(node) in names)

    # --- calls and assignments ---------------------------------------------------------------------------------------

    @cached_property
    def _calls(self) -> Mapping[str, Sequence[ast.Call]]:
        calls = defaultdict[str, list[ast.Call]](list)
        for call in self.all(ast.Call):
            calls[name_of(call.func)].append(call)
        return calls

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """The calls of functions and methods with these names."""
        return chain.from_iterable(self._calls.get(name, ()) for name in names)

    def method_calls(self, *names: str) -> Iterator[ast.Call]:
        return (call for call in self.calls(*names) if isinstance(call.func, ast.Attribute))

    @cached_property
    def called(self) -> Set[str]:
        return self._calls.keys() - {""}

    @cached_property
    def assigned(self) -> Sequence[tuple[ast.expr, ast.expr]]:
        """The targets of assignments with their values; a target in a tuple may have the value of the whole tuple."""
        found: list[tuple[ast.expr, ast.expr]] = []
        for node in self.all(ast.Assign, ast.AnnAssign, ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets if node.value is not None else ():
                found += _paired(target, node.value)
        return found

    @cached_property
    def changed(self) -> Sequence[tuple[ast.expr, ast.expr | None]]:
        """The same with augmented assignments, which have no value."""
        return [*self.assigned, *((node.target, None) for node in self.all(ast.AugAssign))]

    @cached_property
    def defaults(self) -> Sequence[tuple[ast.arg, ast.expr]]:
        """The parameters with default values."""
        found: list[tuple[ast.arg, ast.expr]] = []
        for each in self.all(ast.arguments):
            positional = [*each.posonlyargs, *each.args]
            found += zip(positional[len(positional) - len(each.defaults) :], each.defaults, strict=True)
            found += [pair for pair in zip(each.kwonlyargs, each.kw_defaults, strict=True) if pair[1] is not None]
        return found

    # --- classes -----------------------------------------------------------------------------------------------------

    @property
    def is_class(self) -> bool:
        return len(self.statements) == 1 and isinstance(self.statements[0], ast.ClassDef)

    @property
    def has_inner_classes(self) -> bool:
        return any(node not in self.statements for node in self._own[ast.ClassDef])

    @property
    def runs(self) -> bool:
        """Whether it has a forward."""
        return not self.methods.keys().isdisjoint(FORWARDS)

    def reached_from(self, names: Iterable[str]) -> Sequence[Facts]:
        """The methods of these names, and all that they call of the same class."""
        waiting = list(names)
        reached: dict[str, Facts] = {}
        while waiting:
            name = waiting.pop()
            if name in self.methods and name not in reached:
                reached[name] = self.methods[name]
                waiting += self.methods[name].own
        return [*reached.values()]

    @cached_property
    def forwards(self) -> Sequence[Facts]:
        """The methods that a forward runs."""
        return self.reached_from(FORWARDS)

    @cached_property
    def run_later(self) -> Mapping[str, Facts]:
        """The methods that may run outside of ``__init__``."""
        built = self.reached_from(("__init__",))
        later = self.reached_from([name for name, method in self.methods.items() if method not in built])
        return {name: method for name, method in self.methods.items() if method in later or method not in built}

    @cached_property
    def in_forward(self) -> Set[str]:
        """The methods that a forward may run: all that it names, and those named in the text before all methods."""
        methods = self.run_later
        found, new = set[str](), {*FORWARDS, *self.head.words} & methods.keys()
        while new:
            found |= new
            new = {word for name in new for word in methods[name].words} & methods.keys() - found
        return found

    @cached_property
    def words_in_forward(self) -> Set[str]:
        """The words of the methods that a forward may run, and of those that run before it."""
        aside = self.run_later.keys() - self.in_forward
        return set(self.head.words).union(*(method.words for name, method in self.methods.items() if name not in aside))

    @cached_property
    def asked_in_forward(self) -> Set[str]:
        """The attributes that a forward uses."""
        return set[str]().union(*(method.own for method in self.forwards))

    @cached_property
    def made_in_forward(self) -> Set[str]:
        """The classes that a forward instantiates, by the names that it has for them."""
        calls = (call for method in self.forwards for call in method.all(ast.Call))
        return {call.func.id for call in calls if isinstance(call.func, ast.Name) and _may_name_module(call.func.id)}

    # --- base classes ------------------------------------------------------------------------------------------------

    @cached_property
    def requests(self) -> frozenset[str]:
        """The attributes that it, or methods of its own that it calls, read from a base class."""
        of_super = (
            node.attr
            for node in self.all(ast.Attribute)
            if isinstance(node.value, ast.Call) and name_of(node.value.func) == "super"
        )
        return frozenset({*self.own, *of_super} - {"__init__"})

    def with_inherited(self, bases: Sequence[Facts]) -> Facts:
        """The facts of a class, with the statements of its bases that set or return something for it."""
        requested, asked = _requested(self.requests, bases)
        left = [statement for base in bases for statement in base.leaves(requested)]
        # Methods of its own that its bases call are run by it.
        run = asked & self.methods.keys()
        if not left and not run:
            return self
        inherited = Facts([*left, *(_mention(name) for name in sorted(run))])
        joined = Facts(())
        joined.statements, joined.methods = self.statements, self.methods
        joined.is_readable = self.is_readable and all(base.is_readable for base in bases)
        for each in (*bases, inherited, self):
            joined.parents.update(each.parents)
        for kind in inherited._own.keys() | self._own.keys():
            joined._own[kind] = [*inherited._own.get(kind, ()), *self._own.get(kind, ())]
        return joined

    def leaves(self, requested: frozenset[str]) -> Iterator[ast.AST]:
        """The statements in which its methods set or return the attributes that a subclass requests."""
        for method in self.reached_from(("__init__",)):
            for statement in method.leaving(in_init=True):
                targets = [target for target in _targets_of(statement) if is_attribute_of(target)]
                if not targets or any(not requested.isdisjoint(_own_names(target)) for target in targets):
                    yield statement
        for name in sorted(requested & self.methods.keys()):
            yield from self.methods[name].leaving(in_init=name not in self.run_later)

    def leaving(self, *, in_init: bool) -> Sequence[ast.AST]:
        """The statements of a method that set or return something, or make a tensor on the CPU that may escape."""
        found = [each for each in self.all(ast.Assign, ast.AnnAssign) if any(map(is_attribute_of, _targets_of(each)))]
        found += self.all(ast.Return)
        found += [call for call in self.method_calls(*MODULE_MOVES) if is_self(call.func.value)]  # type: ignore[attr-defined]
        if self.is_of_cpu and self.escapes(in_init=in_init, is_given=True):
            inside = {node for each in found for node in ast.walk(each)}
            found += [call for call in self.calls(*MAKERS) if call not in inside]
        return found

    # --- tensors on the CPU ------------------------------------------------------------------------------------------

    @cached_property
    def is_of_cpu(self) -> bool:
        """Whether it makes tensors on the CPU, or brings them there: a finding begins where others are on a GPU."""
        return not self.is_readable or any(any(cpu_tensor_escape.sources(part)) for part in self.parts)

    def escapes(self, *, in_init: bool, is_given: bool) -> bool:
        """Whether a tensor that it makes on the CPU may meet others, or reach code that lets it.

        In an ``__init__`` all is on the CPU, so only tensors that it keeps count. A returned tensor counts only if the
        result ``is_given`` to other code.
        """
        key = in_init, is_given
        if key not in self._escapes:
            self._escapes[key] = cpu_tensor_escape.may_meet(self, in_init=in_init, is_given=is_given)
        return self._escapes[key]

    @cached_property
    def makers(self) -> Mapping[str, Sequence[ast.Call]]:
        """By the methods that make tensors on the CPU, the calls that make them."""
        made = {name: [*cpu_tensor_escape.made(method)] for name, method in self.methods.items()}
        return {name: calls for name, calls in made.items() if calls}

    @cached_property
    def givers(self) -> Set[str]:
        """The methods and attributes through which other code may get tensors that a class made, except its forward."""
        return (self.makers.keys() - INITIALISERS - {*FORWARDS}) | self.kept_tensors

    @cached_property
    def kept_tensors(self) -> Set[str]:
        """The attributes to which a class assigns tensors that it makes on the CPU."""
        kept = set[str]()
        for name, calls in self.makers.items():
            made = {*calls}
            for target, value in self.methods[name].assigned:
                if is_attribute_of_self(target) and not made.isdisjoint(ast.walk(value)):
                    kept.add(name_of(target))
        return kept


def _may_name_module(name: str) -> bool:
    """Whether a class of that name may be one of modules with weights."""
    return name[:1].isupper() and "Output" not in name and not name.endswith(_NO_MODULES)


_NO_MODULES = ("Error", "Exception", "Warning", "Cache", "Dict", "Loss")


def words_in(node: ast.AST) -> Collection[str]:
    """The words of a node itself."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, ast.Constant):
        return words_of(str(node.value)) if is_text(node) else ()
    if isinstance(node, (ast.arg, ast.keyword)):
        return (node.arg,) if node.arg is not None else ()
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return (node.name,)
    if isinstance(node, ast.alias):
        return words_of(f"{node.name} {node.asname or ''}")
    if isinstance(node, ast.ImportFrom):
        return words_of(node.module or "")
    return ()


def _paired(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    parts = target.elts if isinstance(target, ast.Tuple) else []
    if parts and isinstance(value, ast.Tuple) and len(parts) == len(value.elts):
        for each, part in zip(parts, value.elts, strict=True):
            yield from _paired(each, part)
    else:
        yield from ((each, value) for each in _parts_of(target))


def _parts_of(target: ast.expr) -> Iterator[ast.expr]:
    """The targets in a target: those of ``x, *y = z``."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _parts_of(each)
    else:
        yield target.value if isinstance(target, ast.Starred) else target


def _targets_of(statement: ast.AST) -> Sequence[ast.expr]:
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return [each for target in targets if target is not None for each in _parts_of(target)]


def is_attribute_of(target: ast.expr) -> bool:
    """Whether it is an attribute of ``self``, one of its attributes or one of its items."""
    return bool(_own_names(target))


def _own_names(target: ast.AST) -> Set[str]:
    """The attributes of ``self`` in a target: ``a`` and ``b`` of ``self.a[0].b``."""
    names: set[str] = set()
    while isinstance(target, (ast.Attribute, ast.Subscript)):
        names |= {target.attr} if isinstance(target, ast.Attribute) else set()
        target = target.value
    return names if is_self(target) else set()


def _mention(name: str) -> ast.AST:
    return ast.Expr(ast.Attribute(ast.Name("self", ast.Load()), name, ast.Load()))


def _requested(names: frozenset[str], bases: Sequence[Facts]) -> tuple[frozenset[str], Set[str]]:
    """The names that a class with these names requests from its bases, directly or not, and those the bases read."""
    requested, asked = names, set[str]()
    new: Set[str] = names
    while new:
        methods = [base.methods[name] for base in bases for name in new & base.methods.keys()]
        found = set[str]().union(*(method.requests for method in methods))
        asked |= found
        new = found - requested
        requested |= new
    return requested, asked
