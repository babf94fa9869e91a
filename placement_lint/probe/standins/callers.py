"""What the code that calls a stand-in does with the result, and whether it is a library's."""

from __future__ import annotations

import ast
import dis
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


def ends_program(asking: Any) -> bool:
    """Whether the statement that asks raises an exception or exits where the answer is yes."""
    text = "".join(linecache.getlines(asking.f_code.co_filename))
    try:
        tests = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.If)]
    except SyntaxError:
        return False
    here = [node for node in tests if node.lineno <= asking.f_lineno <= (node.test.end_lineno or 0)]
    return any(isinstance(part, ast.Raise) for node in here for part in node.body if is_positive(node.test))


def is_positive(test: Any) -> bool:
    return not any(isinstance(part, ast.Not) for part in ast.walk(test))
