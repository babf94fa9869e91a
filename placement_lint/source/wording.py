"""The source text of a program's nodes."""

from __future__ import annotations

import ast

import libcst as cst

from placement_lint.source.abstract import Abstract, is_grouped, text_of
from placement_lint.source.remembered import remembered


def source_text(source: str | cst.CSTNode) -> str:
    """A node's source without the whitespace and comments around it; generated only when it is read."""
    return source if isinstance(source, str) else _code(source)


def on_one_line(source: str | cst.CSTNode) -> str:
    """A node's source, however it is broken into lines."""
    return " ".join(source_text(source).split())


def quoted(label: str) -> str:
    """A name of the program in backquotes; words such as "the model", for things without a name, as they are."""
    return label if label.startswith("the ") else f"`{label}`"


def lines_of(definition: cst.ClassDef | cst.FunctionDef | cst.Lambda) -> str:
    """All lines of a definition: these are known at once, unlike its exact source text."""
    if not isinstance(definition, Abstract):
        return source_text(definition)
    origin = definition.origin
    assert isinstance(origin, (ast.stmt, ast.expr))
    return "\n".join(definition.layout.lines[origin.lineno - 1 : origin.end_lineno])


@remembered
def _code(node: cst.CSTNode) -> str:
    return text_of(node) if isinstance(node, Abstract) else _MODULE.code_for_node(node).strip()


def is_parenthesised(node: cst.CSTNode) -> bool:
    """Whether the node is in parentheses of its own, which belong to its text but not to its position."""
    return is_grouped(node) if isinstance(node, Abstract) else bool(getattr(node, "lpar", ()))


def argument_text(argument: cst.Arg) -> str:
    """The text of an argument, without the comma that follows it."""
    name = f"{argument.keyword.value}=" if argument.keyword is not None else argument.star
    return f"{name}{source_text(argument.value)}"


_MODULE = cst.Module([])
