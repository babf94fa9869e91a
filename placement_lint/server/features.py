"""The messages that the server understands, with a handler for each."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO

from lsprotocol import types

from placement_lint.cli.pages import as_markdown
from placement_lint.errors import UsageError
from placement_lint.finding import Finding, Range, Verdict
from placement_lint.registry import find_rule
from placement_lint.report.json import verdict_as_object
from placement_lint.server import rule_pages, timeline_files
from placement_lint.server.actions import FIX_ALL, OPEN_PAGE, PROBE, TIMELINE, Asked
from placement_lint.server.analyst import Lost
from placement_lint.server.app import WATCHED, Server, section_of
from placement_lint.server.buffers import Buffers
from placement_lint.server.diagnostics import result_id
from placement_lint.server.documents import OpenNotebook, Script, is_python, path_of
from placement_lint.server.hover import hover
from placement_lint.server.launch import Process
from placement_lint.server.placements import hints, known
from placement_lint.server.session import Watched, about
from placement_lint.server.settings import CONFIGURATION_FILES

logger = logging.getLogger(__name__)


# --- beginning and end -------------------------------------------------------------------------------------------


def initialize(server: Server, params: types.InitializeParams) -> None:
    folders = params.workspace_folders or []
    encoding = server.workspace.position_encoding
    buffers = Buffers(server.workspace.root_uri, types.TextDocumentSyncKind.Incremental, folders, encoding)
    server.protocol.install(buffers)
    server.initial = section_of(params.initialization_options)
    server.session.analyst.start()


async def initialized(server: Server, params: types.InitializedParams) -> None:
    await server.configure()
    registrations = []
    if server.can("workspace", "did_change_watched_files", "dynamic_registration"):
        watchers = [types.FileSystemWatcher(pattern) for pattern in WATCHED]
        registrations.append(
            types.Registration(
                "files",
                types.WORKSPACE_DID_CHANGE_WATCHED_FILES,
                types.DidChangeWatchedFilesRegistrationOptions(watchers),
            )
        )
    if server.can("workspace", "did_change_configuration", "dynamic_registration"):
        registrations.append(types.Registration("settings", types.WORKSPACE_DID_CHANGE_CONFIGURATION))
    if registrations:
        server.client_register_capability(types.RegistrationParams(registrations))


def shutdown(server: Server, params: None) -> None:
    server.end()


# --- documents ---------------------------------------------------------------------------------------------------


def did_open(server: Server, params: types.DidOpenTextDocumentParams) -> None:
    buffer = server.buffers.buffer(params.text_document.uri)
    if buffer is not None and is_python(buffer):
        server.session.open(Script(params.text_document.uri, server.buffers))


def did_change(server: Server, params: types.DidChangeTextDocumentParams) -> None:
    server.session.changed(params.text_document.uri)


async def did_save(server: Server, params: types.DidSaveTextDocumentParams) -> None:
    """A saved file may be imported by others, and may be a configuration that the editor does not watch."""
    await server.saved(path_of(params.text_document.uri))


def did_close(server: Server, params: types.DidCloseTextDocumentParams) -> None:
    if closed := server.session.close(params.text_document.uri):
        server.clear(closed)


def did_open_notebook(server: Server, params: types.DidOpenNotebookDocumentParams) -> None:
    server.session.open(OpenNotebook(params.notebook_document.uri, server.buffers))


def did_change_notebook(server: Server, params: types.DidChangeNotebookDocumentParams) -> None:
    server.session.changed(params.notebook_document.uri)


async def did_save_notebook(server: Server, params: types.DidSaveNotebookDocumentParams) -> None:
    await server.saved(path_of(params.notebook_document.uri))


def did_close_notebook(server: Server, params: types.DidCloseNotebookDocumentParams) -> None:
    if closed := server.session.close(params.notebook_document.uri):
        server.clear(closed)


# --- settings and files ------------------------------------------------------------------------------------------


async def did_change_configuration(server: Server, params: types.DidChangeConfigurationParams) -> None:
    await server.configure(section_of(params.settings))


async def did_change_folders(server: Server, params: types.DidChangeWorkspaceFoldersParams) -> None:
    await server.configure()


async def did_change_files(server: Server, params: types.DidChangeWatchedFilesParams) -> None:
    paths = [path_of(change.uri) for change in params.changes]
    if any(path.endswith((*CONFIGURATION_FILES, ".gitignore")) for path in paths):
        await server.configure()
    server.session.changed_on_disk(paths)


# --- pulled diagnostics ------------------------------------------------------------------------------------------


async def diagnostic(server: Server, params: types.DocumentDiagnosticParams) -> types.DocumentDiagnosticReport:
    uri = params.text_document.uri
    watched = server.session.watched(uri)
    if watched is not None:
        await server.session.current(watched)
        findings = in_part(watched, uri)
    else:
        findings = await server.reports.of(path_of(uri))
    items = server.diagnostics.of(findings)
    result = result_id(items)
    if result == params.previous_result_id:
        return types.RelatedUnchangedDocumentDiagnosticReport(result_id=result)
    return types.RelatedFullDocumentDiagnosticReport(items=items, result_id=result)


async def workspace_diagnostic(
    server: Server, params: types.WorkspaceDiagnosticParams
) -> types.WorkspaceDiagnosticReport:
    previous = {each.uri: each.value for each in params.previous_result_ids}
    reports = server.reports.all(server.folders(), server.diagnostics, previous)
    if params.partial_result_token is None:
        return types.WorkspaceDiagnosticReport([report async for report in reports])
    async for report in reports:
        part = types.WorkspaceDiagnosticReportPartialResult([report])
        server.progress(types.ProgressParams(params.partial_result_token, part))
    return types.WorkspaceDiagnosticReport([])


def in_part(watched: Watched, uri: str) -> list[Finding]:
    """The findings in one of a document's texts."""
    cell, _ = watched.document.part(uri)
    return [finding for finding in watched.findings if finding.cell == cell]


# --- at a place --------------------------------------------------------------------------------------------------


async def code_action(server: Server, params: types.CodeActionParams) -> list[types.CodeAction]:
    uri = params.text_document.uri
    watched = server.session.watched(uri)
    if watched is None:
        return []
    await server.session.current(watched)
    _, buffer = watched.document.part(uri)
    lines, units = buffer.text_lines, buffer.units
    place = Range(*units.place(lines, params.range.start), *units.place(lines, params.range.end))
    found = list(server.actions(watched).at(uri, place, Asked(params.context.only)))
    if "edit" in (server.can("text_document", "code_action", "resolve_support", "properties") or ()):
        return found
    return [await code_action_resolve(server, action) for action in found]


async def code_action_resolve(server: Server, action: types.CodeAction) -> types.CodeAction:
    if action.edit is None and isinstance(action.data, dict):
        watched = server.session.watched(str(action.data.get("uri")))
        if watched is not None:
            data = await server.session.mended(watched, action.data.get("code"))
            action.edit = server.actions(watched).mended(data)
    return action


async def inlay_hint(server: Server, params: types.InlayHintParams) -> list[types.InlayHint]:
    uri = params.text_document.uri
    watched = server.session.watched(uri)
    if watched is None or not server.session.configurations.editor(watched.document.path).inlay_hints:
        return []
    await server.session.locate(watched)
    cell, buffer = watched.document.part(uri)
    lines = buffer.text_lines
    found = []
    for each in hints(known(watched)):
        in_cell, target = watched.document.in_part(each.target)
        if in_cell == cell and params.range.start.line <= target.line - 1 <= params.range.end.line:
            tooltip = "\n".join(f"line {step.range.line}: {step.message}" for step in each.history)
            position = buffer.units.position(lines, target.end_line, target.end_column)
            found.append(types.InlayHint(position, f"‹{each.where}›", padding_left=True, tooltip=tooltip))
    return found


async def hovered(server: Server, params: types.HoverParams) -> types.Hover | None:
    uri = params.text_document.uri
    watched = server.session.watched(uri)
    if watched is None:
        return None
    await server.session.locate(watched)
    _, buffer = watched.document.part(uri)
    found = hover(watched, uri, *buffer.units.place(buffer.text_lines, params.position))
    if found is None:
        return None
    text, place = found
    content = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.Hover(content, buffer.units.range(buffer.text_lines, place))


# --- commands ----------------------------------------------------------------------------------------------------


async def open_rule_page(server: Server, argument: Any) -> str:
    """Shows the page of the rule ``code`` and returns it in Markdown."""
    rule = find_rule(str(argument["code"]))
    rule_pages.write(rule)
    page = rule_pages.written(rule.code)
    if page is not None and server.can("window", "show_document", "support"):
        await server.window_show_document_async(types.ShowDocumentParams(page.as_uri(), take_focus=True))
    return as_markdown(rule)


async def timeline(server: Server, argument: Any) -> str | None:
    """Write the page that shows where the tensors of ``uri`` are, and return its path.

    The browser shows it, unless ``show`` is false because the client does so itself.
    """
    uri = str(argument["uri"])
    watched = server.session.watched(uri)
    if watched is None:
        server.say(types.MessageType.Info, "there is no open Python file to draw")
        return None
    try:
        file = timeline_files.write(watched.document.path, await server.session.drawn(watched))
    except (UsageError, Lost, OSError) as error:
        server.say(types.MessageType.Error, str(error))
        return None
    if argument.get("show", True) and server.can("window", "show_document", "support"):
        await server.window_show_document_async(types.ShowDocumentParams(file.as_uri(), external=True))
    return str(file)


async def probe(server: Server, argument: Any) -> dict[str, Any] | None:
    """Probe the finding ``code`` at ``range`` in ``uri``; show its verdict, keep it with the finding and return it."""
    uri, code = str(argument["uri"]), str(argument["code"])
    watched = server.session.watched(uri)
    finding = await _finding(server, watched, uri, code, argument["range"]) if watched else None
    if watched is None or finding is None:
        server.say(types.MessageType.Info, f"{code} is no longer reported here")
        return None
    mode = server.session.configurations.editor(watched.document.path).probe
    async with server.progress_of(f"Probing {code} ({finding.name})"):
        try:
            verdict = await server.probing.verdict(finding, mode)
        except UsageError as error:
            server.say(types.MessageType.Error, str(error))
            return None
    if verdict is None:
        server.say(types.MessageType.Info, f"{code} has no experiment")
        return None
    watched.verdicts[about(finding)] = verdict
    server.tell(watched)
    server.say(types.MessageType.Info, f"{code}: {_in_words(verdict)}")
    return verdict_as_object(verdict)


async def _finding(server: Server, watched: Watched, uri: str, code: str, place: Any) -> Finding | None:
    await server.session.current(watched)
    found = [each for each in in_part(watched, uri) if each.code == code]
    shown = server.diagnostics.of(found)
    lines = {"line": place["start"]["line"], "character": place["start"]["character"]}
    return next(
        (
            finding
            for finding, each in zip(found, shown, strict=True)
            if (each.range.start.line, each.range.start.character) == (lines["line"], lines["character"])
        ),
        None,
    )


def _in_words(verdict: Verdict) -> str:
    observed = f": {verdict.observed}" if verdict.observed else ""
    return f"{verdict.words} on {verdict.device}{observed}"


# --- the table ---------------------------------------------------------------------------------------------------

FEATURES: Mapping[str, Callable[..., Any]] = {
    types.INITIALIZE: initialize,
    types.INITIALIZED: initialized,
    types.SHUTDOWN: shutdown,
    types.TEXT_DOCUMENT_DID_OPEN: did_open,
    types.TEXT_DOCUMENT_DID_CHANGE: did_change,
    types.TEXT_DOCUMENT_DID_SAVE: did_save,
    types.TEXT_DOCUMENT_DID_CLOSE: did_close,
    types.NOTEBOOK_DOCUMENT_DID_OPEN: did_open_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CHANGE: did_change_notebook,
    types.NOTEBOOK_DOCUMENT_DID_SAVE: did_save_notebook,
    types.NOTEBOOK_DOCUMENT_DID_CLOSE: did_close_notebook,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: did_change_configuration,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: did_change_folders,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: did_change_files,
    types.TEXT_DOCUMENT_DIAGNOSTIC: diagnostic,
    types.WORKSPACE_DIAGNOSTIC: workspace_diagnostic,
    types.TEXT_DOCUMENT_CODE_ACTION: code_action,
    types.CODE_ACTION_RESOLVE: code_action_resolve,
    types.TEXT_DOCUMENT_INLAY_HINT: inlay_hint,
    types.TEXT_DOCUMENT_HOVER: hovered,
}
OPTIONS: Mapping[str, object] = {
    types.TEXT_DOCUMENT_DIAGNOSTIC: types.DiagnosticOptions(
        inter_file_dependencies=True, workspace_diagnostics=True, identifier="placement-lint"
    ),
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(
        code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL], resolve_provider=True
    ),
}
COMMANDS: Mapping[str, Callable[..., Any]] = {
    PROBE: probe,
    OPEN_PAGE: open_rule_page,
    TIMELINE: timeline,
}


def serve(worker: Process | None = None) -> int:
    """Serve one editor on standard input and output, until it exits or disconnects; returns the exit status."""
    server = Server(worker)
    for name, feature in FEATURES.items():
        server.feature(name, OPTIONS.get(name))(partial(feature, server))
    for name, command in COMMANDS.items():
        server.command(name)(partial(command, server))
    try:
        server.start_io(stdout=_standard_output())
    finally:
        server.end()
    return 0 if server.protocol.was_shut_down else 1


def _standard_output() -> BinaryIO:
    """Standard output for the protocol alone: all other output goes to standard error."""
    sys.stdout.flush()
    kept = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return os.fdopen(kept, "wb")
