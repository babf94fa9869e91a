"""Code actions for a finding: fix it, suppress it, open its rule's page, probe it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from lsprotocol import types

from placement_lint.finding import Applicability, Edit, Finding, Range
from placement_lint.registry import FAMILIES, find_rule
from placement_lint.server.buffers import Buffer
from placement_lint.server.diagnostics import Diagnostics, touches
from placement_lint.server.documents import Document
from placement_lint.server.session import Watched
from placement_lint.source.notebook import read_notebook
from placement_lint.source.scan import lines_with_ends
from placement_lint.source.silencing import suppressing
from placement_lint.source.text import decode

FIX_ALL = "source.fixAll.placement-lint"
PROBE, OPEN_PAGE = "placement-lint.probe", "placement-lint.openRulePage"
TIMELINE = "placement-lint.timeline"


@dataclass(frozen=True)
class Asked:
    """The requested kinds of action, all if none is named."""

    only: Sequence[str] | None

    def wants(self, kind: str) -> bool:
        """A kind includes all that begin with it: ``source.fixAll`` includes ours."""
        return self.only is None or any(kind == each or kind.startswith(f"{each}.") for each in self.only)


class Actions:
    """The actions on one document. Edits that need more analysis are resolved later."""

    def __init__(self, watched: Watched, diagnostics: Diagnostics, versioned: bool) -> None:
        self._watched = watched
        self._diagnostics = diagnostics
        self._versioned = versioned

    def at(self, uri: str, place: Range, asked: Asked) -> Iterator[types.CodeAction]:
        """The actions for the findings at a place of one of the document's texts."""
        cell, buffer = self._watched.document.part(uri)
        here = [each for each in self._watched.findings if each.cell == cell and touches(each.range, place)]
        if asked.wants(types.CodeActionKind.QuickFix):
            for finding in here:
                yield from self._of_finding(finding, uri, buffer)
            for code in dict.fromkeys(each.code for each in here):
                yield from self._of_rule(code)
        if asked.wants(FIX_ALL) and any(_is_safe(each) for each in self._watched.findings):
            yield self._mending("Apply all safe fixes of placement-lint", FIX_ALL, None)

    def mended(self, data: bytes) -> types.WorkspaceEdit:
        """The edit that turns the document into ``data``, its fixed content."""
        texts = _texts(self._watched.document, data)
        parts = self._watched.document.parts
        return self.edit(
            {parts[cell]: _differences(parts[cell], text) for cell, text in texts.items() if cell in parts}
        )

    def edit(self, edits: Mapping[Buffer, Sequence[types.TextEdit]]) -> types.WorkspaceEdit:
        changed = {buffer: list(changes) for buffer, changes in edits.items() if changes}
        if not self._versioned:
            return types.WorkspaceEdit(changes={buffer.uri: changes for buffer, changes in changed.items()})
        return types.WorkspaceEdit(
            document_changes=[
                types.TextDocumentEdit(
                    types.OptionalVersionedTextDocumentIdentifier(buffer.uri, buffer.version), changes
                )
                for buffer, changes in changed.items()
            ]
        )

    def _of_finding(self, finding: Finding, uri: str, buffer: Buffer) -> Iterator[types.CodeAction]:
        shown = self._diagnostics.of([finding])
        if finding.fix and finding.fix.edits:
            safe = finding.fix.applicability is Applicability.SAFE
            title = f"{finding.code}: {finding.fix.message}" + ("" if safe else " (to be reviewed)")
            yield self._fixing(title, shown, self._edits(finding.fix.edits), is_preferred=safe)
        if not finding.code.startswith(FAMILIES["tool"]):
            silencing = suppressing(buffer.source, finding.range, finding.code, finding.name)
            if silencing:
                title = f"{finding.code}: suppress {finding.name} on this line"
                yield self._fixing(title, shown, {buffer: [_as_text_edit(buffer, silencing)]})
        if find_rule(finding.code).experiment is not None:
            arguments = {"uri": uri, "code": finding.code, "range": shown[0].range}
            yield _command(f"{finding.code}: prove it on GPUs (run the probe)", PROBE, arguments, shown)
        yield _command(f"{finding.code}: open the page of {finding.name}", OPEN_PAGE, {"code": finding.code}, shown)

    def _of_rule(self, code: str) -> Iterator[types.CodeAction]:
        """The action for all findings of one rule, if there are several."""
        safe = [each for each in self._watched.findings if each.code == code and _is_safe(each)]
        if len(safe) > 1:
            yield self._mending(f"{code}: fix all {safe[0].name} in this file", types.CodeActionKind.QuickFix, code)

    def _fixing(
        self,
        title: str,
        shown: list[types.Diagnostic],
        edits: Mapping[Buffer, Sequence[types.TextEdit]],
        is_preferred: bool = False,
    ) -> types.CodeAction:
        kind = types.CodeActionKind.QuickFix
        return types.CodeAction(
            title, kind=kind, diagnostics=shown, edit=self.edit(edits), is_preferred=is_preferred or None
        )

    def _mending(self, title: str, kind: str, code: str | None) -> types.CodeAction:
        """An action whose edit is resolved later, from its ``data``."""
        return types.CodeAction(title, kind=kind, data={"uri": self._watched.document.uri, "code": code})

    def _edits(self, edits: Iterable[Edit]) -> dict[Buffer, list[types.TextEdit]]:
        parts = self._watched.document.parts
        found: dict[Buffer, list[types.TextEdit]] = {}
        for edit in edits:
            buffer = parts[edit.cell]
            found.setdefault(buffer, []).append(_as_text_edit(buffer, edit))
        return found


def _is_safe(finding: Finding) -> bool:
    fix = finding.fix
    return fix is not None and bool(fix.edits) and fix.applicability is Applicability.SAFE


def _as_text_edit(buffer: Buffer, edit: Edit) -> types.TextEdit:
    return types.TextEdit(buffer.units.range(buffer.text_lines, edit.range), edit.text)


def _command(
    title: str, command: str, arguments: Mapping[str, object], shown: list[types.Diagnostic]
) -> types.CodeAction:
    run = types.Command(title, command, arguments=[arguments])
    return types.CodeAction(title, kind=types.CodeActionKind.QuickFix, diagnostics=shown, command=run)


def _texts(document: Document, data: bytes) -> dict[int | None, str]:
    """The texts of a document with that content, by the number of the cell."""
    if None in document.parts:
        return {None: decode(data)}
    return {cell.number: cell.source for cell in read_notebook(data).cells}


def _differences(buffer: Buffer, text: str) -> list[types.TextEdit]:
    """The edits line by line, so that the editor keeps its marks on unchanged lines."""
    before, after = lines_with_ends(buffer.source), lines_with_ends(text)
    lines = buffer.text_lines
    end = Range(len(lines), len(lines[-1]) + 1, len(lines), len(lines[-1]) + 1)

    def start_of(index: int) -> tuple[int, int]:
        return (index + 1, 1) if index < len(lines) else (end.line, end.column)

    matcher = SequenceMatcher(None, before, after, autojunk=False)
    return [
        types.TextEdit(
            buffer.units.range(lines, Range(*start_of(first), *start_of(last))), "".join(after[new_first:new_last])
        )
        for tag, first, last, new_first, new_last in matcher.get_opcodes()
        if tag != "equal"
    ]
