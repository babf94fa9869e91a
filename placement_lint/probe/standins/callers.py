"""What the code that calls a stand-in does with the result, and whether it is a library's."""

from __future__ import annotations

import ast
import dis
import functools
import linecache
import os
from typing import Any

import torch

LIBRARIES = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)), "<frozen")


def unpacked(frame: Any) -> int:
    """Into how many names the frame unpacks what it iterates over at this moment, or what its present call returns."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at >= 0 and dis.opname[code[at]].startswith(("CALL", "CACHE")):  # a function of Python's is called at the latter
        at += 2
        while dis.opname[code[at]] == "CACHE":
            at += 2
    return int(code[at + 1]) if at >= 0 and dis.opname[code[at]] == "UNPACK_SEQUENCE" else 0


def targets(frame: Any, count: int) -> list[str]:
    """The names of the ``count`` variables that the frame unpacks into at this moment; empty where it tells none."""
    names: list[str] = []
    for one in dis.get_instructions(frame.f_code) if unpacked(frame) else ():
        if one.offset > frame.f_lasti and one.opname.startswith("STORE"):  # of two at once in new versions of Python
            names += one.argval if isinstance(one.argval, tuple) else [str(one.argval)]
        if len(names) >= count or (one.offset > frame.f_lasti and one.opname.startswith("UNPACK")):
            break
    return [*names, *[""] * count][:count]


@functools.cache
def parts(path: str) -> list[ast.AST]:
    """The nodes of a file of the program."""
    try:
        return [*ast.walk(ast.parse("".join(linecache.getlines(path))))]
    except SyntaxError:
        return []


def taken(frame: Any) -> int:
    """How many items the program takes from what it makes of all items at this moment, in a comprehension or so."""
    path, line = frame.f_code.co_filename, frame.f_lineno
    known = [] if path.startswith(LIBRARIES) else [node for node in parts(path) if isinstance(node, ast.Assign)]
    for node in known:
        made = node.value.func if isinstance(node.value, ast.Call) else node.value
        is_of_all = isinstance(made, (ast.ListComp, ast.GeneratorExp)) or getattr(made, "id", "") in OF_ALL
        if is_of_all and node.lineno <= line <= (node.end_lineno or 0):
            name = getattr(node.targets[0], "id", None)
            later = [other for other in known if name and getattr(other.value, "id", None) == name]
            targets = [one.targets[0] for one in (node, *later)]
            return max((len(one.elts) for one in targets if isinstance(one, ast.Tuple)), default=0)
    return 0


OF_ALL = ("map", "tuple", "list")


def ends_program(asking: Any) -> bool:
    """Whether the statement that asks raises an exception or exits where the answer is yes."""
    tests = [node for node in parts(asking.f_code.co_filename) if isinstance(node, ast.If)]
    here = [node for node in tests if node.lineno <= asking.f_lineno <= (node.test.end_lineno or 0)]
    return any(isinstance(part, ast.Raise) for node in here for part in node.body if is_positive(node.test))


def is_positive(test: Any) -> bool:
    return not any(isinstance(part, ast.Not) for part in ast.walk(test))
