"""The last expression of a notebook cell: the notebook shows its value and keeps it in ``_``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import libcst as cst

from placement_lint.finding import Range
from placement_lint.source.notebook import Notebook


def with_displays(
    module: cst.Module, places: Mapping[cst.CSTNode, Range], notebook: Notebook
) -> tuple[cst.Module, dict[cst.CSTNode, cst.CSTNode]]:
    """The program as the notebook runs it, and for each node that is not in its text the node that is.

    ``places`` are those of the module's statements. A last expression becomes ``_ = expression``, so that its value
    counts as used. An expression that ends in a semicolon is not shown.
    """
    body = list(module.body)
    texts: dict[cst.CSTNode, cst.CSTNode] = {}
    for index in _last_in_cells([notebook.cell_at(places[statement].line).number for statement in body]):
        line = body[index]
        if isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[-1], cst.Expr):
            shown = line.body[-1]
            if not isinstance(shown.semicolon, cst.Semicolon):
                kept = cst.Assign([cst.AssignTarget(cst.Name("_"))], shown.value)
                body[index] = line.with_changes(body=[*line.body[:-1], kept])
                texts |= {kept: shown, body[index]: line}
    return module.with_changes(body=body), texts


def _last_in_cells(cells: list[int]) -> Iterator[int]:
    """The indices of the statements that are the last of their cells; ``cells`` are the cell numbers by statement."""
    for index, cell in enumerate(cells):
        if cell not in cells[index + 1 : index + 2]:
            yield index
