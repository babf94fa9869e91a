"""Failing statements that have nothing to do with placement are passed over, with stand-ins for their results.

A program may fail long before a finding: a file has another format than its stand-in, a data set is empty, a version
of a library is too new. The code of the program is compiled so that such a statement is skipped, and that its targets
get stand-ins. This is refused unless it is certain that the statement cannot change what a finding is about: it reads
no module, no optimizer and no tensor on a GPU, and neither it nor any function of the program that it may call mentions
devices, layers, parameters or gradients. What is passed over is named in the verdict.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.machinery
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from placement_lint.probe.standins.sizes import BATCHES, COUNT

MOST = 40  # statements that are passed over in a run
LONGEST = 40  # characters of a statement that are shown
DEPTH = 3  # of the containers and objects in which tensors are looked for
WIDTH = 64  # items of a container that are looked at
STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert)
PRELUDE = "stand_in"  # the function that puts stand-ins in place
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SPECIAL = {"__init__", "__call__"}  # special methods whose errors are no protocol of Python's

# Names that occur where something is placed, trained or shared. A statement that comes by one is never passed over.
PLACING = frozenset({
    "cuda", "cpu", "to", "device", "devices", "device_ids", "output_device", "map_location", "mps", "npu", "meta",
    "xpu", "gpu", "gpus", "to_device", "is_cuda", "get_device", "device_count", "current_device", "set_device",
    "is_available", "set_default_device", "set_default_tensor_type", "type_as", "pin_memory", "move",
    "prepare", "non_blocking",
    "nn", "optim", "Module", "Parameter", "Optimizer", "DataParallel", "DistributedDataParallel", "data_parallel",
    "distributed", "dist", "jit", "compile", "amp", "autocast", "GradScaler", "Function", "accelerator",
    "register_buffer", "register_parameter", "register_hook", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "load_state_dict", "state_dict", "parameters", "named_parameters", "modules",
    "requires_grad", "requires_grad_", "backward", "step", "zero_grad", "grad", "no_grad", "detach", "set_epoch",
    "add_param_group", "param_groups", "setattr", "exec", "eval", "globals", "set_", "copy_",
})  # fmt: skip
VARIABLES = {"meta", "step", "grad", "modules", "parameters", "move", "dist"}  # of them, those that data have as well
TELLING = ("cuda", "device", "gpu", "nvidia", "driver", "nccl", "gloo", "rank")  # in the words of an error
CONTROL = (StopIteration, StopAsyncIteration, MemoryError, ImportError, RecursionError)

Symptom = tuple[str, str]
"""The class of an exception, and words of its message."""


@dataclass
class Leniency:
    """What is passed over in a run. ``symptoms`` never are."""

    roots: tuple[str, ...]
    libraries: tuple[str, ...]
    symptoms: tuple[Symptom, ...]
    passed: list[str] = field(default_factory=list)
    guards: int = 0  # handlers of the program's own that are at work
    definitions: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    texts: list[str] = field(default_factory=list)
    statements: list[ast.stmt] = field(default_factory=list)

    def install(self) -> None:
        """Compile so what the program imports, and give the code the names that it uses."""
        loader: Any = importlib.machinery.SourceFileLoader
        plain, found = loader.source_to_code, loader.get_code

        def compiled(own: Any, data: Any, path: Any, **options: Any) -> Any:
            if not self._is_own(path) or isinstance(data, ast.AST):
                return plain(own, data, path, **options)
            return plain(own, self.lenient(ast.parse(data, path)), path, **options)

        def get_code(own: Any, name: str) -> Any:
            path = own.get_filename(name)
            if not self._is_own(path):
                return found(own, name)
            return own.source_to_code(own.get_data(path), path)  # none that was compiled in an earlier run

        loader.source_to_code, loader.get_code = compiled, get_code
        names = {"__may_pass__": self.may_pass, "__instead__": self.instead, "__each__": self.each, "__guard__": self}
        names["__item__"] = item
        builtins.__dict__.update(names)

    def _is_own(self, path: Any) -> bool:
        return str(path).startswith(self.roots) and not str(path).startswith(self.libraries)

    def lenient(self, tree: ast.Module, kept: Collection[int] = ()) -> ast.Module:
        """A module that passes over what fails, but for statements at some lines."""
        rewriter = _Rewriter(self, kept)
        body: list[ast.stmt] = []
        for node in tree.body:
            if isinstance(node, FUNCTIONS) and node.name == PRELUDE:
                body.append(node)
                continue
            for part in ast.walk(node):
                for name in _defined(part):
                    self.definitions[name].append(part)
            body.append(rewriter.visit(node))
        return ast.fix_missing_locations(ast.Module(body, tree.type_ignores))

    # --- while the program runs ------------------------------------------------------------------------------------

    def __enter__(self) -> None:
        self.guards += 1

    def __exit__(self, *error: object) -> None:
        self.guards -= 1

    def may_pass(self, error: Exception, number: int, frame: Any = None) -> bool:
        """Whether a statement that fails can be passed over."""
        if self.guards or isinstance(error, CONTROL) or self._tells(error):
            return False
        statement, text = self.statements[number], self.texts[number]
        if text not in self.passed and len(self.passed) == MOST:
            return False
        values = list(_read(statement, frame or sys._getframe(1)))
        if not self._is_neutral(statement) or any(map(self._is_of_interest, values)):
            return False
        if isinstance(statement, ast.Assert) and not _is_about_data(values):
            return False
        if text not in self.passed:
            self.passed.append(text)
        return True

    def instead(self, number: int) -> Any:
        """What stands in for the value of a statement."""
        value = getattr(self.statements[number], "value", None) or getattr(self.statements[number], "iter", None)
        made: Any = builtins.__dict__["__stand_in__"]
        return made(f"{ast.unparse(value.func)}()" if isinstance(value, ast.Call) else "")

    def each(self, make: Callable[[], Iterable[Any]], number: int) -> Iterator[Any]:
        """The items of something, with stand-ins for those that cannot be had."""
        try:
            items = iter(make())
        except Exception as error:
            if not self.may_pass(error, number, sys._getframe(1)):
                raise
            items = iter(self._items(number))
        while True:
            try:
                item = next(items)
            except StopIteration:
                return
            except Exception as error:
                if not self.may_pass(error, number, sys._getframe(1)):
                    raise
                yield from self._items(number)
                return
            yield item

    def _items(self, number: int) -> list[Any]:
        made: Any = builtins.__dict__["__stand_in__"]
        source: Any = getattr(self.statements[number], "iter", None)
        items = [made(f"{ast.unparse(source)}[{i}]", rows=COUNT) for i in range(BATCHES)]
        counts = isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id == "enumerate"
        return list(enumerate(items)) if counts else items

    def _tells(self, error: Exception) -> bool:
        """Whether an error may be about placement, or the one that is looked for."""
        text = str(error).lower()
        kinds = {cls.__name__ for cls in type(error).__mro__}
        symptom = any(kind in kinds and words in str(error) for kind, words in self.symptoms)
        return symptom or any(word in text for word in TELLING)

    def _is_of_interest(self, value: Any, depth: int = DEPTH) -> bool:
        """Whether a value is, holds or may make a module, an optimizer, or a tensor with a place or a gradient."""
        if isinstance(value, builtins.__dict__["__stand_in__"]):
            return bool(value._calls and value._parameters)
        if isinstance(value, torch.Tensor):
            return value.device.type != "cpu" or value.requires_grad or torch.get_default_device().type != "cpu"
        if isinstance(value, STATEFUL):
            return True
        if isinstance(value, type(sys)):
            return not PLACING.isdisjoint(value.__name__.split("."))
        if (isinstance(value, type) and issubclass(value, STATEFUL)) or getattr(value, "__name__", "") in PLACING:
            return True
        if not depth or isinstance(value, (str, bytes, int, float)):
            return False
        if isinstance(value, dict):
            inside = list(value.values())
        elif isinstance(value, (list, tuple, set, frozenset)):
            inside = list(value)
        else:
            inside = [] if isinstance(value, type) else list(getattr(value, "__dict__", {}).values())
        acting = value if isinstance(value, type) or hasattr(value, "__qualname__") else type(value)
        if not self._is_foreign(acting) and not self._is_neutral(*self._definitions_of(acting)):
            return True
        return any(self._is_of_interest(one, depth - 1) for one in inside[:WIDTH])

    def _is_foreign(self, acting: Any) -> bool:
        """Whether a function or a class is Python's or a library's."""
        module = sys.modules.get(getattr(acting, "__module__", None) or "builtins")
        return module is None or module is builtins or str(getattr(module, "__file__", "")).startswith(self.libraries)

    def _definitions_of(self, acting: Any) -> list[ast.AST]:
        """Those of a function or a class of the program; of a class, those of the methods that Python calls."""
        found = self.definitions.get(getattr(acting, "__name__", ""), [])
        if not isinstance(acting, type):
            return found
        parts = (part for node in found if isinstance(node, ast.ClassDef) for part in node.body)
        return [part for part in parts if isinstance(part, FUNCTIONS) and part.name.startswith("__")]

    def _is_neutral(self, *parts: ast.AST) -> bool:
        """Whether neither some code nor what it may call of the program's mentions anything of placement."""
        waiting, known = [*parts], {*parts}
        while waiting:
            for name, tells in _names(waiting.pop()):
                if tells and (name in PLACING or name.startswith("cuda")):
                    return False
                for definition in self.definitions.get(name, ()):
                    if definition not in known:
                        known.add(definition)
                        waiting.append(definition)
        return True


def item(whole: Any, key: Any) -> Any:
    """``whole[key]``, or where a stand-in names one of several things by its key the first of them."""
    try:
        return whole[key]
    except KeyError:
        if not (isinstance(whole, dict) and whole and hasattr(key, "meant")):
            raise
    key.meant = next(iter(whole))
    return whole[key.meant]


def _is_about_data(values: Collection[Any]) -> bool:
    """Whether an assertion is about data and stand-ins, or about versions: a number may be that of the GPUs."""
    data = [isinstance(one, torch.utils.data.Dataset) or hasattr(type(one), "__array__") for one in values]
    return any(data) or all(isinstance(one, type(sys)) for one in values)


STATEFUL = (torch.nn.Module, torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler)


def _names(tree: ast.AST) -> Iterator[tuple[str, bool]]:
    """The names that code reads, but for its own parameters; with each, whether it tells of placement if it is one."""
    own = {part.arg for part in ast.walk(tree) if isinstance(part, ast.arg)} if isinstance(tree, FUNCTIONS) else set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load) and node.id not in own:
                yield node.id, node.id not in VARIABLES
        elif isinstance(node, ast.Attribute):
            if isinstance(node.ctx, ast.Load) or node.attr in PLACING:
                yield node.attr, True
        elif isinstance(node, ast.keyword) and node.arg:
            if node.arg in PLACING:
                yield node.arg, True
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in PLACING or node.value.startswith("cuda"):
                yield node.value, True
        elif isinstance(node, ast.alias):
            yield from ((name, True) for name in node.name.split("."))
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((name, True) for name in node.module.split("."))


def _defined(node: ast.AST) -> Iterator[str]:
    """The names that a definition or an import gives a meaning."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        yield node.name
    elif isinstance(node, ast.ImportFrom):
        yield from (alias.asname or alias.name for alias in node.names)
    elif isinstance(node, ast.Import):
        yield from (alias.asname for alias in node.names if alias.asname)


def _read(statement: ast.AST, frame: Any) -> Iterator[Any]:
    """The values of the names of a statement, in the frame that executes it."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            for scope in (frame.f_locals, frame.f_globals):
                if node.id in scope:
                    yield scope[node.id]
                    break


class _Rewriter(ast.NodeTransformer):
    def __init__(self, leniency: Leniency, kept: Collection[int]) -> None:
        self.leniency = leniency
        self.kept = kept
        self.is_class = False

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, FUNCTIONS) and node.name.startswith("__") and node.name not in SPECIAL:
            return node
        outer, self.is_class = (
            self.is_class,
            isinstance(node, ast.ClassDef) or (self.is_class and not isinstance(node, FUNCTIONS)),
        )
        written = copy.deepcopy(node) if isinstance(node, STATEMENTS) else node
        node = self.generic_visit(node)
        self.is_class = outer
        if isinstance(node, ast.Subscript):
            return self._looked_up(node)
        if isinstance(node, ast.stmt) and self.kept and not set(self.kept).isdisjoint(_lines(node)):
            return node
        if isinstance(node, (ast.Try, ast.TryStar)) and node.handlers:
            guard = ast.withitem(ast.Name("__guard__", ast.Load()))
            node.body = [ast.copy_location(ast.With([guard], node.body), node.body[0])]
        elif isinstance(node, ast.For) and not self.is_class and _can_wait(node.iter):
            number = self._number(node)
            plain = ast.Lambda(ast.arguments([], [], None, [], [], None, []), node.iter)
            node.iter = _located(ast.Call(ast.Name("__each__", ast.Load()), [plain, ast.Constant(number)], []), node)
        elif isinstance(node, STATEMENTS) and not _is_documentation(node):
            return self._passing(node, written)
        return node

    def _looked_up(self, node: ast.Subscript) -> ast.expr:
        is_by_name = isinstance(node.ctx, ast.Load) and isinstance(node.slice, (ast.Name, ast.Attribute))
        if not is_by_name or self.is_class or node.lineno in self.kept:
            return node
        call = ast.Call(ast.Name("__item__", ast.Load()), [node.value, node.slice], [])
        return ast.copy_location(call, node)

    def _passing(self, statement: Any, written: Any) -> ast.Try:
        number = self._number(written)
        text = f"if not __may_pass__(__error__, {number}): raise\n"
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            text += f"{' = '.join(map(ast.unparse, targets))} = __instead__({number})"
        elif isinstance(statement, ast.Return):
            text += f"return __instead__({number})"
        handler = ast.ExceptHandler(ast.Name("Exception", ast.Load()), "__error__", ast.parse(text).body)
        passing: ast.Try = _located(ast.Try([statement], [handler], [], []), statement)
        return passing

    def _number(self, statement: ast.stmt) -> int:
        self.leniency.statements.append(statement)
        text = ast.unparse(statement).partition("\n")[0]
        self.leniency.texts.append(f"`{text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}`")
        return len(self.leniency.texts) - 1


def _lines(node: ast.stmt) -> range:
    """Those of a statement; of a compound one, of its header."""
    body = getattr(node, "body", None)
    end = body[0].lineno - 1 if isinstance(body, list) and body else node.end_lineno
    return range(node.lineno, max(node.lineno, end or 0) + 1)


def _located(new: Any, old: ast.stmt) -> Any:
    """New code at the line of the old; what it has of the old code stays where it is."""
    for part in ast.walk(new):
        if hasattr(part, "_attributes") and "lineno" in part._attributes and not hasattr(part, "lineno"):
            ast.copy_location(part, old)
    return new


def _can_wait(source: ast.expr) -> bool:
    """Whether an expression means the same in a function of its own."""
    return not any(isinstance(part, (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await)) for part in ast.walk(source))


def _is_documentation(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
