"""``--trust``: the execution of programs, and its limits."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from placement_lint.cli import main
from placement_lint.errors import UsageError
from placement_lint.probe import confinement
from placement_lint.probe.sandbox import Sandbox, Script

pytestmark = pytest.mark.usefixtures("own_cache", "one_sandbox")

MOVED = """
import torch
from torch import nn

{before}
model = nn.Linear(4, 2).cuda()
x = torch.randn(rows, 4)
print(model(x))
"""
PLAIN = MOVED.format(before="rows = 8")


@pytest.fixture
def checked(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., dict[str, Any]]:
    """Check a text with replays; its first finding."""

    def check(text: str, *arguments: str) -> dict[str, Any]:
        write("train.py", text)
        main(["check", "--isolated", "--probe", "simulated", "--trust", "--format", "json", *arguments, "train.py"])
        finding: dict[str, Any] = json.loads(capsys.readouterr().out)["findings"][0]
        return finding

    return check


def test_a_verdict_is_in_the_report(checked: Callable[..., dict[str, Any]]) -> None:
    verdict = checked(PLAIN)["verdict"]
    assert set(verdict) == {"level", "outcome", "device", "observed", "expected"}
    assert verdict["level"] == "replay"
    assert verdict["outcome"] == "confirmed"
    assert verdict["observed"].startswith("program of ")


def test_trust_alone_is_an_error(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", PLAIN)
    assert main(["check", "--trust", "train.py"]) == 2
    assert "--trust lets --probe execute your program" in capsys.readouterr().err


ENDINGS = [
    ("import time\nrows = time.sleep(60) or 8", "did not end within 3 s"),
    ("rows = __import__('os')._exit(3)", "the process died (exit status 3)"),
    ("rows = __import__('sys').exit('enough')", "the slice exits with 'enough'"),
    ("import os\nrows = os.abort() or 8", "SIGABRT"),
    ("import socket\nrows = socket.create_connection(('localhost', 9)) and 8", "open a network connection"),
    ("rows = len(bytearray(2**40))", "memory"),
]
# Where they are not confined, programs may do less in the first place.
REFUSED = [
    ("import os\nrows = os.remove({outside!r}) or 8", "the slice would change"),
    ("import shutil\nrows = shutil.rmtree({folder!r}) or 8", "the slice would change"),
    ("rows = len(open({outside!r}).read())", "the slice would read"),
    ("rows = open({outside!r}, 'w').write('gone')", "the slice would write"),
    ("import os\nrows = os.system('true') or 8", "the slice would start another process"),
    ("import subprocess\nrows = subprocess.call(['true']) or 8", "the slice would start another process"),
    ("import os\nrows = os.fork() or 8", "the slice would start another process"),
]
WITHOUT_EFFECT = [
    # what fails because the file is not there is passed over, or a stand-in is read in its place
    ("import os\nrows = os.remove({outside!r}) or 8", "RuntimeError"),
    ("rows = len(open({outside!r}).read())", "RuntimeError"),
    ("import shutil\nrows = shutil.rmtree({folder!r}) or 8", "RuntimeError"),
    ("rows = open({outside!r}, 'w').write('gonegone')", "RuntimeError"),
    ("rows = open({outside!r}, 'w').write('x') and len(open({outside!r}).read()) * 8", "RuntimeError"),
    ("import os\nrows = os.system('true') or 8", "RuntimeError"),
    ("import subprocess\nrows = subprocess.call(['true']) or 8", "RuntimeError"),
]
# An error that cannot concern the finding.
PASSED_OVER = [("rows = torch.ones(2**38).numel()", "RuntimeError")]
CONFINED, UNCONFINED = "--trust=confined", "--trust=unconfined"


@pytest.mark.parametrize(
    ("before", "reason", "trust"),
    [
        *((*ending, trust) for ending in (*ENDINGS, *PASSED_OVER) for trust in (CONFINED, UNCONFINED)),
        *((*refused, UNCONFINED) for refused in REFUSED),
        *((*done, CONFINED) for done in WITHOUT_EFFECT),
    ],
)
def test_no_harm_is_done(
    before: str, reason: str, trust: str, checked: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if trust == CONFINED and confinement.missing():
        pytest.skip("the system cannot confine programs")
    for limit in ("PLAY_LIMIT", "WHOLE_LIMIT"):
        monkeypatch.setattr(f"placement_lint.probe.replay.{limit}", 3.0)
    with tempfile.TemporaryDirectory() as elsewhere:
        outside = Path(elsewhere) / "outside" / "precious.txt"
        outside.parent.mkdir()
        outside.write_text("precious")
        filled = before.replace("{outside!r}", repr(str(outside))).replace("{folder!r}", repr(str(outside.parent)))
        verdict = checked(MOVED.format(before=filled), trust)["verdict"]
        assert verdict["outcome"] == ("confirmed" if reason == "RuntimeError" else "inconclusive"), verdict
        assert reason in verdict["observed"], verdict
        assert outside.read_text() == "precious"
    # the next one is as if nothing had been
    assert checked(PLAIN, trust)["verdict"]["outcome"] == "confirmed"


def test_nothing_is_executed_where_it_cannot_be_confined(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(confinement, "missing", lambda: "the moon")
    write("train.py", PLAIN)
    asked = ["check", "--isolated", "--no-cache", "--probe", "simulated"]
    assert main([*asked, "--trust", "train.py"]) == 2
    told = capsys.readouterr().err
    assert "needs the moon" in told
    assert "--trust=unconfined" in told
    assert main([*asked, "--trust=unconfined", "train.py"]) == 1
    assert "confirmed" in capsys.readouterr().out
    with Sandbox() as box, pytest.raises(UsageError, match="needs the moon"):
        box.play(Script("", ()), 2)


def test_trust_is_a_flag_with_one_other_value(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", PLAIN)
    assert main(["check", "--isolated", "--probe", "simulated", "--trust", "train.py"]) == 1
    assert "confirmed" in capsys.readouterr().out
    assert main(["check", "--probe", "simulated", "--trust=blindly", "train.py"]) == 2
    assert "'unconfined'" in capsys.readouterr().err


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="is what is missing there")
@pytest.mark.parametrize(
    ("patched", "value", "reason"),
    [
        ("sys.platform", "darwin", "Linux namespaces, but this is another system"),
        ("platform.release", lambda: "5.4.0-150-generic", "Linux 5.12 or newer, but this is 5.4.0-150-generic"),
        ("platform.machine", lambda: "riscv64", "this is riscv64"),
    ],
)
def test_what_is_missing_is_said(patched: str, value: object, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patched, value)
    assert reason in (confinement.missing.__wrapped__() or "nothing")


def test_no_state_is_left_for_the_next(checked: Callable[..., dict[str, Any]]) -> None:
    before = "rows = 8\ntorch.set_default_dtype(torch.float64)\ntorch.Tensor.cuda = lambda self: self"
    checked(MOVED.format(before=before))
    assert checked(PLAIN)["verdict"]["outcome"] == "confirmed"


def test_a_notebook_is_replayed(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    cells = [PLAIN[: PLAIN.index("x = ")], PLAIN[PLAIN.index("x = ") :]]
    notebook = {
        "cells": [
            {"cell_type": "code", "source": cell, "metadata": {}, "outputs": [], "execution_count": None}
            for cell in cells
        ],
        "metadata": {"language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    write("train.ipynb", json.dumps(notebook))
    main(["check", "--isolated", "--probe", "simulated", "--trust", "--format", "json", "train.ipynb"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["cell"] == 2
    assert finding["verdict"]["outcome"] == "confirmed", finding["verdict"]


def test_probing_a_file_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "train.py"]) == 2
    assert "placement-lint check --probe auto train.py" in capsys.readouterr().err
