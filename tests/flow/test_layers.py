"""The packages of ``flow/`` import each other in one direction only.

An import against the order is an exception, and the list of exceptions may only become shorter: a new one fails here,
and so does one that is listed and gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FLOW = Path(__file__).parents[2] / "placement_lint" / "flow"

# Each may import itself and those before it.
ORDER = ["api", "domain", "events", "state", "models", "observers", "interpreter", "triage", "incremental", "driver"]
FILES = [path for path in sorted(FLOW.rglob("*.py")) if path.name != "__init__.py"]


def imported(path: Path) -> Iterator[tuple[str, str]]:
    """The package and the name of each file of ``flow/`` that one of them imports, for its types or at run time."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("placement_lint.flow."):
            continue
        layer, _, name = str(node.module).removeprefix("placement_lint.flow.").partition(".")
        yield from [(layer, name)] if name else [(layer, alias.name) for alias in node.names]


def against_the_order() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in FILES:
        for layer, name in imported(path):
            if ORDER.index(layer) > ORDER.index(path.parent.name):
                found.setdefault(path.stem, set()).add(name)
    return found


def test_each_file_has_a_layer() -> None:
    assert {path.parent.relative_to(FLOW).as_posix() for path in FILES} == set(ORDER)


def test_imports_against_the_order_only_become_fewer() -> None:
    expected = {name: set(others.split()) for name, others in EXCEPTIONS.items()}
    assert against_the_order() == expected


# Types alone, of what an editor's analysis puts in.
EXCEPTIONS = {"machine": "effect_memo placements"}
