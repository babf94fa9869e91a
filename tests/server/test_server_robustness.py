"""The server survives every message, and answers as far as possible."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from editor import COMMAND, DISCARDED, Editor, editor
from lsprotocol import types

from placement_lint.server.app import Server

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vi(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Editor]:
    async with editor(tmp_path_factory.mktemp("project")) as vi:
        yield vi


async def test_rapid_edits_end_in_the_diagnostics_of_the_last(vi: Editor) -> None:
    uri = vi.open("rapid.py", DISCARDED)
    for _ in range(50):
        vi.replace(uri, "x.to('cuda')", "x = x.to('cuda')")
        vi.replace(uri, "x = x.to('cuda')", "x.to('cuda')")
    assert await vi.codes(uri) == ["DPL501"]
    versions = [each.version for each in vi.published if each.uri == uri]
    assert versions == sorted(versions)
    assert len(versions) < 50, "most of the texts in between need no analysis"


async def test_it_answers_while_it_analyses(vi: Editor) -> None:
    """A long analysis does not delay requests that need no analysis."""
    heavy = "import torch\n" + "".join(
        f"x{n} = torch.zeros({n}).cuda() + torch.ones({n}).cuda()\n" for n in range(1500)
    )
    uri = vi.open("heavy.py", heavy)
    await asyncio.sleep(0.3)
    begun = time.perf_counter()
    page = await vi.client.workspace_execute_command_async(
        types.ExecuteCommandParams("placement-lint.openRulePage", [{"code": "DPL501"}])
    )
    assert page.startswith("# move-result-discarded")
    answered = time.perf_counter() - begun
    assert not [each for each in vi.published if each.uri == uri], "the analysis was over before the question"
    await vi.diagnostics(uri)
    assert answered < time.perf_counter() - begun
    vi.close(uri)


async def test_a_syntax_error_shows_once(vi: Editor) -> None:
    uri = vi.open("half.py", DISCARDED + "def f(:\n")
    (found,) = await vi.diagnostics(uri)
    assert (found.code, found.range.start.line) == ("DPL001", 5)


async def test_what_is_not_open_is_ignored(vi: Editor) -> None:
    uri = vi.uri("never-opened.py")
    identifier = types.VersionedTextDocumentIdentifier(7, uri)
    whole = types.TextDocumentContentChangeWholeDocument("x")
    vi.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [whole]))
    vi.close(uri)
    assert await vi.hints(uri) == []
    assert await vi.hover(uri, 3, 3) == ""
    assert await vi.actions(uri, 3) == []


async def test_positions_beyond_the_text(vi: Editor) -> None:
    uri = vi.open("short.py", "import torch\n")
    far = types.Position(999, 999)
    vi.change(uri, types.TextDocumentContentChangePartial(types.Range(far, far), DISCARDED))
    assert await vi.codes(uri) == ["DPL501"]
    assert await vi.hover(uri, 999, 999) == ""
    assert await vi.actions(uri, 999, 999, only=[types.CodeActionKind.QuickFix]) == []


async def test_random_edits_leave_both_sides_with_the_same_text(vi: Editor) -> None:
    """The server's text after a hundred edits equals the editor's text."""
    rng = random.Random(7)
    pieces = ["x = 1\n", "😀", "\r\n", "é", "\u2028", "'", "", "x.to('cuda')\n", "\x0c", "#"]
    text = DISCARDED
    uri = vi.open("random.py", text)
    for _ in range(100):
        start = rng.randrange(len(text) + 1)
        old = text[start : start + rng.randrange(4)]
        # An editor does not split the two characters of a line end.
        if (
            text[start - 1 : start + 1] == "\r\n"
            or (old + text[start + len(old) :][:1]).endswith("\r\n")
            or "\r" in old
        ):
            continue
        new = rng.choice(pieces)
        vi.replace_at(uri, start, len(old), new)
        text = text[:start] + new + text[start + len(old) :]
    fresh = vi.open("fresh.py", text)
    shown = [(each.code, each.range, each.message) for each in await vi.diagnostics(uri)]
    assert shown == [(each.code, each.range, each.message) for each in await vi.diagnostics(fresh)]


async def test_a_rule_that_throws_is_logged_and_the_others_stay(tmp_path: Path) -> None:
    program = (
        "import dataclasses, sys; from placement_lint import registry; import placement_lint.server.worker as worker\n"
        "def broken(event): raise ZeroDivisionError('oops')\n"
        "rules = list(registry.all_rules())\n"
        "rules = [dataclasses.replace(r, listens=dict.fromkeys(r.listens, broken)) if r.code == 'DPL205' else r"
        " for r in rules]\n"
        "registry.all_rules = lambda: tuple(rules)\n"
        "worker.main()\n"
    )
    (tmp_path / "broken_worker.py").write_text(program)
    start = (
        "import sys; from placement_lint.server import launch; "
        f"launch.COMMAND = (sys.executable, {str(tmp_path / 'broken_worker.py')!r}); "
        "from placement_lint.server.features import serve; sys.exit(serve())"
    )
    async with editor(tmp_path, command=[sys.executable, "-c", start]) as vi:
        text = (
            "import torch\nfrom torch import nn\nnet = nn.Linear(2, 2)\nopt = torch.optim.SGD(net.parameters(), lr=1)\n"
            "net.weight = nn.Parameter(torch.zeros(2, 2))\nx = torch.zeros(3, 2)\nx.to('cuda')\n"
            "net(x).sum().backward()\nopt.step()\n"
        )
        uri = vi.open("train.py", text)
        assert await vi.codes(uri) == ["DPL501"]
        vi.replace(uri, "lr=1", "lr=2")
        assert await vi.codes(uri) == ["DPL501"]
        told = [message for message in vi.messages() if "ZeroDivisionError: oops" in message]
        assert len(told) == 1


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


async def test_a_worker_that_dies_is_replaced(tmp_path: Path) -> None:
    async with editor(tmp_path) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == ["DPL501"]
        (worker,) = children(vi.client._server.pid)
        os.kill(worker, signal.SIGKILL)
        vi.replace(uri, "x.to", "x = x.to")
        vi.replace(uri, "print(x)", "print(x, x)")
        vi.replace(uri, "x = x.to", "x.to")
        await vi.until_codes(uri, ["DPL501"])


async def test_torch_is_never_imported(tmp_path: Path) -> None:
    """No module of the project is imported either: its ``click.py`` comes first on Python's search path."""
    (tmp_path / "click.py").write_text("raise SystemExit('imported')\n")
    command = [str(Path(sys.executable).parent / "placement-lint"), "server"]
    async with editor(tmp_path, command=command) as vi:
        uri = vi.open("train.py", DISCARDED)
        assert await vi.codes(uri) == ["DPL501"]
        server = vi.client._server.pid
        for process in (server, *children(server)):
            mapped = Path(f"/proc/{process}/maps").read_text()
            assert "libtorch" not in mapped


# --- below the protocol's library --------------------------------------------------------------------------------


def framed(body: bytes | str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def message(**fields: Any) -> bytes:
    return framed(json.dumps({"jsonrpc": "2.0", **fields}))


INITIALIZE = message(id=1, method="initialize", params={"processId": None, "rootUri": None, "capabilities": {}})
GOODBYE = message(id=99, method="shutdown") + message(method="exit")


def talk(*parts: bytes) -> tuple[list[dict[str, Any]], int]:
    """The server's messages in response to raw bytes, and its exit status."""
    run = subprocess.run(COMMAND, input=b"".join(parts), capture_output=True, timeout=60, check=False)
    answers, rest = [], run.stdout
    while rest:
        head, _, rest = rest.partition(b"\r\n\r\n")
        length = int(head.split(b"Content-Length: ")[1].split(b"\r\n")[0])
        answers.append(json.loads(rest[:length]))
        rest = rest[length:]
    return answers, run.returncode


MALFORMED = {
    "no JSON": framed("{nonsense"),
    "no object": framed("[1, 2]"),
    "no message": framed('{"a": 1}'),
    "another version": framed('{"jsonrpc": "1.0", "method": "x"}'),
    "not UTF-8": framed(b'{"jsonrpc": "2.0", "method": "\xff"}'),
    "an unknown method": message(method="placement/unknown"),
    "an answer to nothing": message(id="unasked", result=None),
    "an error to nothing": message(id="unasked", error={"code": 1, "message": "m"}),
    "wrong parameters": message(method="textDocument/didOpen", params={"textDocument": 3}),
    "no parameters": message(method="textDocument/didChange"),
    "a header of another kind": b"X-Nonsense: 1\r\n" + message(method="placement/unknown"),
    "a length that is none": b"Content-Length: many\r\n\r\n",
}


@pytest.mark.parametrize("bad", MALFORMED.values(), ids=MALFORMED)
async def test_malformed_messages_are_survived(bad: bytes) -> None:
    answers, status = talk(INITIALIZE, bad, message(id=2, method="textDocument/hover", params=HOVER), GOODBYE)
    assert status == 0
    assert {2, 99} <= {answer.get("id") for answer in answers}


HOVER = {"textDocument": {"uri": "file:///none.py"}, "position": {"line": 0, "character": 0}}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (message(id=5, method="textDocument/hover", params={"textDocument": 3}), -32602),
        (message(id=5, method="placement/unknown", params={}), -32601),
        (message(id=5, method="workspace/executeCommand", params={"command": "unknown"}), -32602),
    ],
)
async def test_a_request_that_cannot_be_served_is_answered(request_: bytes, code: int) -> None:
    answers, _ = talk(INITIALIZE, request_, GOODBYE)
    (answer,) = [answer for answer in answers if answer.get("id") == 5]
    assert answer["error"]["code"] == code


async def test_what_is_no_json_gets_a_parse_error() -> None:
    answers, _ = talk(INITIALIZE, framed("{nonsense"), GOODBYE)
    assert [answer["error"]["code"] for answer in answers if answer.get("id", 0) is None] == [-32700]


@pytest.mark.parametrize("end", [b"", message(method="exit"), b"Content-Length: 1000\r\n\r\n{"])
async def test_an_end_without_a_goodbye(end: bytes) -> None:
    item = {"uri": "file:///train.py", "languageId": "python", "version": 1, "text": DISCARDED}
    opened = message(method="textDocument/didOpen", params={"textDocument": item})
    _, status = talk(INITIALIZE, message(method="initialized", params={}), opened, end)
    assert status == 1


async def test_a_goodbye_in_the_middle_of_an_analysis(tmp_path: Path) -> None:
    heavy = "import torch\n" + "".join(f"x{n} = torch.zeros({n}).cuda()\n" for n in range(20_000))
    async with editor(tmp_path) as vi:
        vi.open("heavy.py", heavy)
        await asyncio.sleep(1.0)
        workers = children(vi.client._server.pid)
        begun = time.perf_counter()
    assert time.perf_counter() - begun < 5
    assert workers
    assert not [pid for pid in workers if Path(f"/proc/{pid}").exists()]


async def test_nothing_is_kept_of_notifications() -> None:
    server = Server()
    initialize = types.InitializeParams(capabilities=types.ClientCapabilities())
    server.protocol.handle_message(types.InitializeRequest(1, initialize))
    text = types.TextDocumentItem("file:///a.py", types.LanguageKind.Python, 1, "x = 1\n")
    for _ in range(5):
        opened = types.DidOpenTextDocumentNotification(types.DidOpenTextDocumentParams(text))
        server.protocol.handle_message(opened)
    assert not server.protocol._request_futures
