"""Classes of a file that decorators register."""

from __future__ import annotations

import ast
from collections.abc import Set

from placement_lint.project.unit import Unit
from placement_lint.source.parsing import python_tree


def registered_in(unit: Unit, registries: Set[str]) -> list[str]:
    """The classes of a file that a method of one of these objects decorates: ``@MODELS.register_module()``."""
    # Few files register anything, and parsing is dear.
    if not any(name in unit.text for name in registries):
        return []
    try:
        body = python_tree(unit.text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [
        each.name
        for each in body
        if isinstance(each, ast.ClassDef) and any(_owner(decorator) in registries for decorator in each.decorator_list)
    ]


def _owner(decorator: ast.expr) -> str | None:
    """``MODELS`` in ``models.MODELS.register()``."""
    method = decorator.func if isinstance(decorator, ast.Call) else decorator
    owner = method.value if isinstance(method, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else owner.attr if isinstance(owner, ast.Attribute) else None
