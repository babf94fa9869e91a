"""The server: receives the messages of the protocol and passes them to the modules that answer them."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter
from pygls.workspace import Workspace

from placement_lint import __version__
from placement_lint.errors import UsageError
from placement_lint.server.actions import Actions
from placement_lint.server.buffers import Buffers
from placement_lint.server.diagnostics import Diagnostics
from placement_lint.server.documents import PYTHON, path_of
from placement_lint.server.launch import Process
from placement_lint.server.positions import Units
from placement_lint.server.probing import Probing
from placement_lint.server.session import Session, Watched
from placement_lint.server.settings import CONFIGURATION_FILES, SECTION, Configurations, EditorSettings
from placement_lint.server.workspace import WorkspaceReports

logger = logging.getLogger(__name__)

NAME = "placement-lint"
WATCHED = ("**/*.py", "**/*.ipynb", "**/.gitignore", *(f"**/{name}" for name in CONFIGURATION_FILES))
PATIENCE = 2.0  # seconds for an editor to send its settings
NOTEBOOKS = types.NotebookDocumentSyncOptions(
    notebook_selector=[
        types.NotebookDocumentFilterWithNotebook(notebook="*", cells=[types.NotebookCellLanguage(language=PYTHON)])
    ],
    save=True,
)


class Protocol(LanguageServerProtocol):
    """The protocol; it also responds to messages that it does not understand."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise

    def handle_message(self, message: Any) -> None:
        """Handle a message and drop finished futures: pygls 2 keeps one for each notification that it ever handled."""
        super().handle_message(message)
        for number in [number for number, future in self._request_futures.items() if future.done()]:
            del self._request_futures[number]

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message that the library has no type for."""
        self._send_data(message)

    def install(self, workspace: Workspace) -> None:
        """Keep open texts in this workspace from now on."""
        self._workspace = workspace

    @property
    def was_shut_down(self) -> bool:
        return bool(self._shutdown)


class Server(LanguageServer):
    """The state for one editor: its capabilities, its documents and the published results."""

    protocol: Protocol

    def __init__(self, worker: Process | None = None) -> None:
        super().__init__(
            NAME,
            __version__,
            notebook_document_sync=NOTEBOOKS,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self.session = Session(self.tell, self.complain, worker)
        self.reports = WorkspaceReports(self.session)
        self.probing = Probing()
        self.initial: object = None

    # --- the editor's capabilities -----------------------------------------------------------------------------------

    @property
    def buffers(self) -> Buffers:
        assert isinstance(self.workspace, Buffers)
        return self.workspace

    @property
    def diagnostics(self) -> Diagnostics:
        return Diagnostics(self.session, Units(self.workspace.position_codec))

    def can(self, *path: str) -> Any:
        """An entry of the client's capabilities, None if it is absent."""
        found: Any = self.client_capabilities
        for name in path:
            found = getattr(found, name, None)
        return found

    @property
    def pulls(self) -> bool:
        """Whether the editor requests diagnostics; then they are not published."""
        return self.can("text_document", "diagnostic") is not None

    def actions(self, watched: Watched) -> Actions:
        versioned = bool(self.can("workspace", "workspace_edit", "document_changes"))
        return Actions(watched, self.diagnostics, versioned)

    def end(self) -> None:
        """End all running work."""
        self.session.end()
        self.probing.end()

    # --- publishing results ------------------------------------------------------------------------------------------

    def tell(self, watched: Watched, unasked: bool = True) -> None:
        """Publish the findings of a document; an editor that pulls is only asked to refresh, if it is ``unasked``."""
        if self.pulls:
            if unasked:
                self.refresh()
            return
        parts = watched.document.parts
        found = {cell: [each for each in watched.findings if each.cell == cell] for cell in parts}
        for cell, buffer in parts.items():
            self._publish(buffer.uri, self.diagnostics.of(found[cell]), buffer.version)
        for gone in watched.shown_in - {buffer.uri for buffer in parts.values()}:
            self._publish(gone, [])
        watched.shown_in = {buffer.uri for buffer in parts.values()}

    def clear(self, watched: Watched) -> None:
        for uri in watched.shown_in:
            self._publish(uri, [])

    def _publish(self, uri: str, diagnostics: list[types.Diagnostic], version: int | None = None) -> None:
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, diagnostics, version))

    def refresh(self) -> None:
        """Ask the editor to refresh: earlier answers may be outdated without an edit of the document."""
        if self.can("workspace", "diagnostics", "refresh_support"):
            self.protocol.send_request(types.WORKSPACE_DIAGNOSTIC_REFRESH, None)
        if self.can("workspace", "inlay_hint", "refresh_support"):
            self.protocol.send_request(types.WORKSPACE_INLAY_HINT_REFRESH, None)

    def complain(self, message: str) -> None:
        logger.error(message)
        self.say(types.MessageType.Error, message)

    def say(self, kind: types.MessageType, message: str) -> None:
        self.window_show_message(types.ShowMessageParams(kind, f"{NAME}: {message}"))

    @asynccontextmanager
    async def progress_of(self, title: str) -> AsyncIterator[None]:
        """Show a progress indicator, if the editor supports it."""
        if not self.can("window", "work_done_progress"):
            yield
            return
        token = str(uuid.uuid4())
        await self.work_done_progress.create_async(token)
        self.work_done_progress.begin(token, types.WorkDoneProgressBegin(title, cancellable=False))
        try:
            yield
        finally:
            self.work_done_progress.end(token, types.WorkDoneProgressEnd())

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log a message that cannot be understood; the user can do nothing about it."""
        logger.error("%s: %s", getattr(source, "__name__", source), error)
        if isinstance(error, json.JSONDecodeError):
            what = {"code": types.ErrorCodes.ParseError.value, "message": f"invalid JSON: {error}"}
            self.protocol.send({"jsonrpc": Protocol.VERSION, "id": None, "error": what})
        elif source is not FeatureRequestError:
            message = f"a message could not be handled: {error}"
            self.window_log_message(types.LogMessageParams(types.MessageType.Error, message))

    # --- settings ----------------------------------------------------------------------------------------------------

    def folders(self) -> list[str]:
        uris = [folder.uri for folder in self.workspace.folders.values()]
        if not uris and self.workspace.root_uri:
            uris = [self.workspace.root_uri]
        return [path_of(uri) for uri in uris]

    async def configure(self, pushed: object = None) -> None:
        """Read all settings again: those of the editor, requested or ``pushed``, and those of the projects."""
        sections = await self._sections(pushed)
        try:
            editor = {folder: EditorSettings.of(section) for folder, section in sections.items()}
        except UsageError as error:
            self.complain(str(error))
            editor = dict.fromkeys(sections, EditorSettings())
        self.session.configure(Configurations(editor))
        self.refresh()

    async def saved(self, path: str) -> None:
        """Update after a document was written to the disk."""
        if Path(path).name in CONFIGURATION_FILES or not self.can("workspace", "did_change_watched_files"):
            await self.configure()
        self.session.changed_on_disk([path])

    async def _sections(self, pushed: object) -> dict[str, object]:
        folders = self.folders()
        common = pushed if pushed is not None else self.initial
        if not self.can("workspace", "configuration"):
            return dict.fromkeys(folders, common)
        items = [types.ConfigurationItem(folder.uri, SECTION) for folder in self.workspace.folders.values()]
        items = items or [types.ConfigurationItem(section=SECTION)]
        try:
            asked = self.workspace_configuration_async(types.ConfigurationParams(items))
            answers = await asyncio.wait_for(asked, PATIENCE)
        except (asyncio.TimeoutError, JsonRpcException) as error:
            logger.warning("the editor does not say what is set in it: %s", error)
            return dict.fromkeys(folders, common)
        given = [answer if answer is not None else common for answer in answers]
        return dict(zip(folders, given, strict=False))


def section_of(settings: object) -> object:
    """Our part of the settings that an editor pushes: it may send all of its settings, or only ours."""
    return settings.get(SECTION, settings) if isinstance(settings, Mapping) else settings
