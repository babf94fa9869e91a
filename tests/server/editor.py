"""A headless editor: drives the real server over its pipes and records its messages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Union

from lsprotocol import types
from pygls.protocol import default_converter
from pygls.uris import to_fs_path
from pytest_lsp import LanguageClient
from pytest_lsp.client import DEFAULT_CLIENT_FEATURES, register_lsp_features

COMMAND = (sys.executable, "-m", "placement_lint", "server")
PATIENCE = 60.0  # seconds; a busy machine may be slow
DISCARDED = "import torch\n\nx = torch.zeros(3)\nx.to('cuda')\nprint(x)\n"
STALE = """\
import torch
from torch import nn

net = nn.Linear(2, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net.weight = nn.Parameter(torch.zeros(2, 2))
net(torch.zeros(3, 2)).sum().backward()
optimizer.step()
"""
EVERYWHERE = types.Range(types.Position(0, 0), types.Position(100_000, 0))


def capabilities(
    pull: bool = False,
    resolve: bool = True,
    configuration: bool = False,
    encodings: Sequence[types.PositionEncodingKind] | None = None,
    versioned: bool = True,
) -> types.ClientCapabilities:
    """The capabilities of a modern editor, without the disabled ones."""
    properties = types.ClientCodeActionResolveOptions(["edit"]) if resolve else None
    return types.ClientCapabilities(
        general=types.GeneralClientCapabilities(position_encodings=list(encodings)) if encodings else None,
        notebook_document=types.NotebookDocumentClientCapabilities(types.NotebookDocumentSyncClientCapabilities()),
        text_document=types.TextDocumentClientCapabilities(
            diagnostic=types.DiagnosticClientCapabilities() if pull else None,
            code_action=types.CodeActionClientCapabilities(resolve_support=properties),
        ),
        window=types.WindowClientCapabilities(
            work_done_progress=True, show_document=types.ShowDocumentClientCapabilities(support=True)
        ),
        workspace=types.WorkspaceClientCapabilities(
            configuration=configuration,
            workspace_folders=True,
            workspace_edit=types.WorkspaceEditClientCapabilities(document_changes=versioned),
            did_change_watched_files=types.DidChangeWatchedFilesClientCapabilities(dynamic_registration=True),
            diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
        ),
    )


def _converter() -> Any:
    """A converter that fixes lsprotocol's parsing of code actions with a command as bare commands."""
    converter = default_converter()

    def hook(value: Any, _: type) -> types.Command | types.CodeAction:
        bare = isinstance(value.get("command"), str)
        return converter.structure(value, types.Command if bare else types.CodeAction)

    converter.register_structure_hook(Union[types.Command, types.CodeAction], hook)  # noqa: UP007
    return converter


class Editor:
    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.published: list[types.PublishDiagnosticsParams] = []
        self.parts: list[Any] = []
        self.registered: list[types.Registration] = []
        self._news = asyncio.Event()
        self._versions: dict[str, int] = {}
        self._texts: dict[str, str] = {}

    # --- documents -------------------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str, language: str = "python") -> str:
        uri = self.uri(name)
        self._versions[uri], self._texts[uri] = 1, text
        item = types.TextDocumentItem(uri, language, 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return uri

    def replace(self, uri: str, old: str, new: str) -> None:
        """One edit, sent as a change of a range."""
        self.replace_at(uri, self._texts[uri].index(old), len(old), new)

    def replace_at(self, uri: str, start: int, length: int, new: str) -> None:
        text = self._texts[uri]
        place = types.Range(_position(text, start), _position(text, start + length))
        self.change(uri, types.TextDocumentContentChangePartial(place, new))
        self._texts[uri] = text[:start] + new + text[start + length :]

    def rewrite(self, uri: str, text: str) -> None:
        self.change(uri, types.TextDocumentContentChangeWholeDocument(text))
        self._texts[uri] = text

    def change(self, uri: str, *changes: types.TextDocumentContentChangeEvent) -> None:
        self._versions[uri] += 1
        identifier = types.VersionedTextDocumentIdentifier(self._versions[uri], uri)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, list(changes)))

    def save(self, uri: str) -> None:
        Path(path_of(uri)).write_text(self._texts[uri], encoding="utf-8")
        identifier = types.TextDocumentIdentifier(uri)
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))

    # --- notifications of the server -------------------------------------------------------------------------------

    def hear(self) -> None:
        self._news.set()

    async def until(self, condition: Callable[[], Any], patience: float = PATIENCE) -> Any:
        """The result of a condition once it is true; it is tested again after each message of the server."""

        async def wait() -> Any:
            while not (found := condition()):
                self._news.clear()
                try:
                    await asyncio.wait_for(self._news.wait(), 0.2)
                except asyncio.TimeoutError:
                    continue
            return found

        return await asyncio.wait_for(wait(), patience)

    async def diagnostics(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics published for the current version of a text."""
        return list((await self.until(lambda: self._latest(uri, self._versions.get(uri)))).diagnostics)

    async def codes(self, uri: str) -> list[str]:
        return [str(each.code) for each in await self.diagnostics(uri)]

    async def until_codes(self, uri: str, codes: Sequence[str]) -> None:
        def hold() -> bool:
            found = [each for each in self.published if each.uri == uri]
            return bool(found) and [each.code for each in found[-1].diagnostics] == list(codes)

        await self.until(hold)

    def published_for(self, uri: str) -> Sequence[types.Diagnostic]:
        """The diagnostics published last, for any version."""
        return next((each.diagnostics for each in reversed(self.published) if each.uri == uri), ())

    def _latest(self, uri: str, version: int | None) -> types.PublishDiagnosticsParams | None:
        found = (each for each in reversed(self.published) if each.uri == uri and each.version == version)
        return next(found, None)

    # --- requests --------------------------------------------------------------------------------------------------

    async def pull(self, uri: str, previous: str | None = None) -> Any:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=previous)
        return await self.client.text_document_diagnostic_async(params)

    async def actions(
        self, uri: str, line: int, character: int = 0, only: Sequence[str] | None = None
    ) -> list[types.CodeAction]:
        here = types.Position(line, character)
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(uri), types.Range(here, here), types.CodeActionContext([], only)
        )
        return list(await self.client.text_document_code_action_async(params))

    async def hints(self, uri: str, where: types.Range = EVERYWHERE) -> list[tuple[int, int, str]]:
        params = types.InlayHintParams(types.TextDocumentIdentifier(uri), where)
        found = await self.client.text_document_inlay_hint_async(params)
        return [(each.position.line, each.position.character, str(each.label)) for each in found or ()]

    async def hover(self, uri: str, line: int, character: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        found = await self.client.text_document_hover_async(params)
        return "" if found is None else found.contents.value

    async def run(self, command: types.Command) -> Any:
        return await self.client.workspace_execute_command_async(
            types.ExecuteCommandParams(command.command, command.arguments)
        )

    def messages(self) -> list[str]:
        return [each.message for each in self.client.messages]

    def applied(self, uri: str, edit: types.WorkspaceEdit) -> str:
        """The text after an edit, as an editor would apply it."""
        changes = [
            change
            for document in edit.document_changes or ()
            if document.text_document.uri == uri
            for change in document.edits
        ] or list((edit.changes or {}).get(uri, ()))
        return apply(self._texts[uri], changes)


def apply(text: str, changes: Sequence[types.TextEdit]) -> str:
    """Apply edits as the protocol specifies, with positions in UTF-16 units."""
    spans = sorted(
        ((_offset(text, each.range.start), _offset(text, each.range.end), each.new_text) for each in changes),
        reverse=True,
    )
    for start, end, new in spans:
        text = text[:start] + new + text[end:]
    return text


def path_of(uri: str) -> str:
    path = to_fs_path(uri)
    assert path is not None
    return path


def _position(text: str, offset: int) -> types.Position:
    before = text[:offset].split("\n")
    return types.Position(len(before) - 1, len(before[-1].encode("utf-16-le")) // 2)


def _offset(text: str, position: types.Position) -> int:
    lines = text.split("\n")
    line = lines[position.line].encode("utf-16-le")[: 2 * position.character].decode("utf-16-le")
    return sum(len(each) + 1 for each in lines[: position.line]) + len(line)


@asynccontextmanager
async def editor(
    folder: Path,
    able: types.ClientCapabilities | None = None,
    settings: Any = None,
    folders: Sequence[Path] | None = None,
    command: Sequence[str] = COMMAND,
    initial: Any = None,
) -> AsyncIterator[Editor]:
    """An editor with the folder open, and its own server, which it shuts down at the end."""
    client = LanguageClient(converter_factory=_converter, configuration=settings)
    own = (types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, types.PROGRESS)
    register_lsp_features(client, {name: each for name, each in DEFAULT_CLIENT_FEATURES.items() if name not in own})
    self = Editor(client, folder)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params: types.PublishDiagnosticsParams) -> None:
        self.published.append(params)
        self.hear()

    @client.feature(types.PROGRESS)
    def progress(params: types.ProgressParams) -> None:
        if "kind" in params.value:
            DEFAULT_CLIENT_FEATURES[types.PROGRESS](client, params)
        else:
            self.parts.append(params.value)

    @client.feature(types.CLIENT_REGISTER_CAPABILITY)
    def register(params: types.RegistrationParams) -> None:
        self.registered.extend(params.registrations)
        self.hear()

    await client.start_io(*command, cwd=str(folder))
    opened = [types.WorkspaceFolder(each.as_uri(), each.name) for each in folders or [folder]]
    await client.initialize_session(
        types.InitializeParams(
            capabilities=able or capabilities(),
            workspace_folders=opened,
            root_uri=opened[0].uri,
            initialization_options=initial,
        )
    )
    try:
        yield self
    finally:
        await asyncio.wait_for(client.shutdown_session(), PATIENCE)
        await client.stop()
