"""Edits applied to the bytes of a file: encoding, BOM, line endings and the rest of a notebook are unchanged."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

from placement_lint.finding import Edit
from placement_lint.source.scan import NEWLINE, lines_with_ends
from placement_lint.source.text import decode, encoding_of

# Layouts of notebooks by Jupyter and other programs: indentation, non-ASCII characters escaped or not, last newline.
LAYOUTS = tuple(product((1, 2, 4, "\t", None), (False, True), ("\n", "")))


class NotEditable(Exception):
    """The file could not be written back without changing more than the edits."""


def edited(data: bytes, edits: Sequence[Edit]) -> bytes:
    """The file after edits that do not overlap; those of a notebook name its cells."""
    in_cells = any(edit.cell is not None for edit in edits)
    return _edited_notebook(data, edits) if in_cells else _edited_script(data, edits)


def overlap(one: Edit, other: Edit) -> bool:
    if one.cell != other.cell:
        return False
    first, second = sorted((one.range, other.range))
    return (second.line, second.column) < (first.end_line, first.end_column) or first == second


def _edited_script(data: bytes, edits: Iterable[Edit]) -> bytes:
    encoding, text = encoding_of(data), decode(data)
    if text.encode(encoding) != data:
        raise NotEditable
    try:
        return _edited_text(text, edits).encode(encoding)
    except UnicodeEncodeError:
        raise NotEditable from None


def _edited_text(text: str, edits: Iterable[Edit]) -> str:
    starts = [0, *(newline.end() for newline in NEWLINE.finditer(text))]
    first_newline = NEWLINE.search(text)
    newline = first_newline.group() if first_newline else "\n"
    for edit in sorted(edits, key=lambda edit: edit.range, reverse=True):
        begin = starts[edit.range.line - 1] + edit.range.column - 1
        end = starts[edit.range.end_line - 1] + edit.range.end_column - 1
        text = text[:begin] + NEWLINE.sub(lambda _: newline, edit.text) + text[end:]
    return text


def _edited_notebook(data: bytes, edits: Iterable[Edit]) -> bytes:
    content = json.loads(data)
    layout = next((layout for layout in LAYOUTS if _laid_out(content, *layout) == data), None)
    if layout is None:
        raise NotEditable
    by_cell: defaultdict[int, list[Edit]] = defaultdict(list)
    for edit in edits:
        by_cell[edit.cell or 1].append(edit)
    for number, of_cell in by_cell.items():
        cell = content["cells"][number - 1]
        source = _edited_text("".join(cell["source"]), of_cell)
        cell["source"] = source if isinstance(cell["source"], str) else lines_with_ends(source)
    return _laid_out(content, *layout)


def _laid_out(content: Any, indent: int | str | None, escaped: bool, end: str) -> bytes:
    text = json.dumps(content, indent=indent, ensure_ascii=escaped)
    return (text + end).encode("utf-8", "surrogatepass")
