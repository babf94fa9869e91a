"""The folders that a program adds to ``sys.path``, as far as they follow from its text, for paths near the program.

Expressions such as ``sys.path.append(os.path.join(os.path.dirname(__file__), "lib"))`` are computed, but no code runs.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from placement_lint.source.parsing import python_tree

MARK = "sys.path"
# A longer text is not a path: doubled repeatedly, it would exhaust the memory.
_LONGEST = 4_096
# The index of the folder in a method's arguments.
_METHODS = {"append": 0, "insert": 1}


def added_folders(text: str, path: str) -> tuple[str, ...]:
    """The folders, relative if they depend on the working directory; none if the text is not Python."""
    if MARK not in text:
        return ()
    try:
        return tuple(dict.fromkeys(map(os.path.normpath, _folders(python_tree(text), path))))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ()


def _folders(tree: ast.Module, path: str) -> Iterator[str]:
    known = {"__file__": path}
    # functions that add one of their arguments, and its index
    adders: dict[str, int] = {}
    # breadth first: the top level's assignments are known before anything is called
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [argument.arg for argument in node.args.args]
            given = {one.id for each in ast.walk(node) for one in _added(each) if isinstance(one, ast.Name)}
            adders.update((node.name, names.index(name)) for name in names if name in given)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            value = _evaluated(node.value, known)
            known.pop(node.targets[0].id, None)
            if value is not None:
                known[node.targets[0].id] = value
        for folder in (*_added(node), *_handed(node, adders)):
            value = _evaluated(folder, known)
            if value is not None:
                yield value


def _added(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of the folders that a node adds: ``sys.path.insert(0, folder)``, ``sys.path += [folder]``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_search_path(node.func.value):
        place = _METHODS.get(node.func.attr)
        if place is not None and len(node.args) > place:
            yield node.args[place]
        elif node.func.attr == "extend" and node.args and isinstance(node.args[0], (ast.List, ast.Tuple)):
            yield from node.args[0].elts
    elif isinstance(node, ast.AugAssign) and _is_search_path(node.target) and isinstance(node.value, ast.List):
        yield from node.value.elts


def _handed(node: ast.AST, adders: Mapping[str, int]) -> Iterator[ast.expr]:
    """The arguments of calls to functions of the text that add them: ``add_path(folder)``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        place = adders.get(node.func.id)
        if place is not None and len(node.args) > place:
            yield node.args[place]


def _is_search_path(node: ast.AST) -> bool:
    return _dotted(node) == MARK


def _dotted(node: ast.AST) -> str:
    """``os.path.join``; empty for nodes that are not such a chain of names."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join((node.id, *reversed(names))) if isinstance(node, ast.Name) else ""


# --- paths -----------------------------------------------------------------------------------------------------------

_Function = Callable[..., str]


def _same(path: str, *_: str) -> str:
    return path


def _parent(path: str) -> str:
    return os.path.dirname(path) or os.path.join(path, os.pardir)


# By the last parts of their names. A relative path stays relative: the working directory is unknown.
_FUNCTIONS: Mapping[str, _Function] = {
    "path.join": os.path.join,
    "path.dirname": _parent,
    "path.abspath": _same,
    "path.realpath": _same,
    "path.normpath": os.path.normpath,
    "os.getcwd": lambda: os.curdir,
    "Path": os.path.join,
    "pathlib.Path": os.path.join,
    "Path.cwd": lambda: os.curdir,
    "str": _same,
    "os.fspath": _same,
}
_PATH_METHODS: Mapping[str, _Function] = {
    "resolve": _same,
    "absolute": _same,
    "as_posix": _same,
    "joinpath": os.path.join,
}
_CONSTANTS: Mapping[str, str] = {
    "os.pardir": os.pardir,
    "os.curdir": os.curdir,
    "os.sep": os.sep,
    "os.path.sep": os.sep,
}


def _evaluated(node: ast.expr, known: Mapping[str, str]) -> str | None:
    """A path as text; None if it is unknown, or cannot be a path."""
    path = _text(node, known)
    return path if path is not None and len(path) <= _LONGEST and path.isprintable() else None


def _text(node: ast.expr, known: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and node.value else None
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Call):
        return _called(node, known)
    if isinstance(node, ast.Attribute):
        if node.attr == "parent":
            return _applied(_parent, [node.value], known)
        return _CONSTANTS.get(_dotted(node))
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        return _ancestor(_evaluated(node.value.value, known), node.slice)
    if isinstance(node, ast.BinOp):
        return _joined(node.op, _evaluated(node.left, known), _evaluated(node.right, known))
    if isinstance(node, ast.JoinedStr):
        parts = [
            _evaluated(part.value if isinstance(part, ast.FormattedValue) else part, known) for part in node.values
        ]
        return "".join(part for part in parts if part) if None not in parts else None
    return None


def _called(node: ast.Call, known: Mapping[str, str]) -> str | None:
    name = _dotted(node.func)
    # os.path.join, path.join, osp.join
    function = _FUNCTIONS.get(name.removeprefix("os.").replace("osp.", "path.")) or _FUNCTIONS.get(name)
    if function is not None:
        return _applied(function, node.args, known)
    if isinstance(node.func, ast.Attribute) and node.func.attr in _PATH_METHODS:
        return _applied(_PATH_METHODS[node.func.attr], [node.func.value, *node.args], known)
    return None


def _applied(function: _Function, arguments: Sequence[ast.expr], known: Mapping[str, str]) -> str | None:
    values = [_evaluated(argument, known) for argument in arguments]
    try:
        return function(*values) if None not in values else None
    except TypeError:
        return None


def _ancestor(path: str | None, index: ast.expr) -> str | None:
    if path is None or not isinstance(index, ast.Constant) or type(index.value) is not int or index.value < 0:
        return None
    for _ in range(index.value + 1):
        path = _parent(path)
    return path


def _joined(operator: ast.operator, left: str | None, right: str | None) -> str | None:
    if left is None or right is None:
        return None
    if isinstance(operator, ast.Div):
        return os.path.join(left, right)
    return left + right if isinstance(operator, ast.Add) else None
