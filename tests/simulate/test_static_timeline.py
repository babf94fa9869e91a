"""``check --timeline``: the places of tensors on machines with 0, 1 and 2 GPUs, without running the program."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser

from placement_lint.cli import main

Draw = Callable[[str], list[dict[str, Any]]]

TRAINING = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, values):
        return self.fc(values) * self.scale


def train(net, images, labels, device):
    batch = images.to(device)
    outputs = net(batch)
    return nn.functional.cross_entropy(outputs, labels)


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Net()
net.to(device)
if torch.cuda.device_count() > 1:
    net = nn.DataParallel(net)
labels = torch.randint(2, (8,))
train(net, torch.randn(8, 4), labels, device)
"""


@pytest.fixture
def draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Draw:
    """Draw a program and give the views of the page: without a GPU, with one and with several."""
    monkeypatch.chdir(tmp_path)

    def draw(source: str) -> list[dict[str, Any]]:
        Path("train.py").write_text(source)
        main(["check", "-q", "--timeline", "out.html", "train.py"])
        capsys.readouterr()
        data = re.search(r'id="data">(.*?)</script>', Path("out.html").read_text(encoding="utf-8"), re.DOTALL)
        assert data is not None
        views: list[dict[str, Any]] = json.loads(data[1])["views"]
        return views

    return draw


def spans(view: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for bar in view["bars"]:
        found.setdefault(bar["label"], []).append(bar["device"])
    return found


def moves(view: dict[str, Any]) -> list[tuple[str, str, str]]:
    bars = view["bars"]
    return [(bars[move["source"]]["label"], bars[move["target"]]["label"], move["line"]) for move in view["moves"]]


class TestViews:
    def test_each_kind_of_machine_has_its_own(self, draw: Draw) -> None:
        none, one, several = draw(TRAINING)
        assert [view["machine"] for view in (none, one, several)] == ["no GPU", "1 GPU", "2 or more GPUs"]
        assert (none["lanes"], one["lanes"]) == (["cpu"], ["cpu", "cuda:0"])
        assert several["lanes"] == ["cpu", "cuda:0", "cuda:1"]
        assert {device for devices in spans(none).values() for device in devices} == {"cpu"}
        for view in (one, several):
            assert spans(view) == {
                "net.fc": ["cpu", "cuda:0"],
                "net.scale": ["cpu", "cuda:0"],
                "images": ["cpu"],
                "labels": ["cpu"],
                "batch": ["cuda:0"],
                "outputs": ["cuda:0"],
            }
            assert moves(view) == [
                ("net.fc", "net.fc", "train.py:23"),
                ("net.scale", "net.scale", "train.py:23"),
                ("images", "batch", "train.py:16"),
            ]

    def test_a_finding_is_shown_on_the_machines_where_it_holds(self, draw: Draw) -> None:
        none, one, several = draw(TRAINING)
        assert none["failures"] == []
        for view in (one, several):
            (failure,) = view["failures"]
            assert (failure["kind"], failure["line"]) == ("DPL503", "train.py:18")
            assert failure["title"] == "DPL503 operand-not-moved at train.py:18 on a machine with a GPU"
            bars = [view["bars"][operand["bar"]] for operand in failure["operands"]]
            assert [(bar["label"], bar["device"]) for bar in bars] == [("outputs", "cuda:0"), ("labels", "cpu")]
            assert all(bar["start"] <= failure["step"] <= bar["end"] for bar in bars)

    def test_a_tensor_in_a_variable(self, draw: Draw) -> None:
        source = "import torch\nx = torch.ones(2)\nx = x.to('cuda:1')\ny = x + 1\nx = 3\nz = torch.ones(1)\n"
        *_, view = draw(source)
        assert [(bar["label"], bar["device"], bar["start"], bar["end"], bar["line"]) for bar in view["bars"]] == [
            ("x", "cpu", 1, 1, "train.py:2"),
            ("x", "cuda:1", 2, 3, "train.py:3"),
            ("y", "cuda:1", 3, 6, "train.py:4"),
            ("z", "cpu", 5, 6, "train.py:6"),
        ]
        assert moves(view) == [("x", "x", "train.py:3")]
        assert view["bars"][2]["origin"] == "computed"

    def test_a_device_that_is_not_known_has_no_lane(self, draw: Draw) -> None:
        *_, view = draw("import sys, torch\nx = torch.ones(2)\ny = x.to(sys.argv[1])\n")
        assert spans(view) == {"x": ["cpu"]}

    def test_a_branch_on_the_machine(self, draw: Draw) -> None:
        source = "import torch\nx = torch.ones(2)\nif torch.cuda.is_available():\n    x = x.cuda()\nelse:\n    y = x\n"
        none, one, _ = draw(source)
        assert spans(none) == {"x": ["cpu"], "y": ["cpu"]}
        assert spans(one) == {"x": ["cpu", "cuda:0"]}

    def test_local_variables_end_with_their_function(self, draw: Draw) -> None:
        source = "import torch\ndef make():\n    a = torch.ones(2)\n    return a + 1\nb = make()\nc = torch.ones(1)\n"
        *_, view = draw(source)
        assert [(bar["label"], bar["start"], bar["end"]) for bar in view["bars"]] == [
            ("a", 1, 2),
            ("b", 2, 4),
            ("c", 3, 4),
        ]

    def test_bars_of_a_row_do_not_overlap(self, draw: Draw) -> None:
        for view in draw(TRAINING):
            rows: dict[tuple[str, int], int] = {}
            for bar in sorted(view["bars"], key=lambda bar: bar["start"]):
                assert rows.get((bar["device"], bar["row"]), 0) < bar["start"]
                rows[bar["device"], bar["row"]] = bar["end"]

    def test_parts_of_nested_modules_and_wrappers(self, draw: Draw) -> None:
        source = (
            "from torch import nn\n"
            "net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.Linear(2, 2)))\n"
            "model = nn.DataParallel(net.cuda())\n"
        )
        *_, view = draw(source)
        assert {name: set(devices) for name, devices in spans(view).items()} == {
            "net[…]": {"cpu", "cuda:0"},
            "net[…][…]": {"cpu", "cuda:0"},
        }


class TestCommand:
    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ({"a.py": "import torch\n", "b.py": ""}, "--timeline draws one file, and 2 are selected"),
            ({"a.py": "x = (\n"}, "a.py: there is nothing to draw: "),
            ({"a.py": "x = 1\n"}, "a.py: there is nothing to draw: nothing in it uses PyTorch"),
            ({"a.ipynb": '{"cells": []}'}, "a.ipynb: --timeline does not draw notebooks"),
        ],
    )
    def test_what_cannot_be_drawn(
        self,
        files: dict[str, str],
        message: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name, text in files.items():
            Path(name).write_text(text)
        assert main(["check", "--timeline", "out.html"]) == 2
        assert message in capsys.readouterr().err
        assert not Path("out.html").exists()

    def test_pytorch_is_not_imported_and_the_page_is_named(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text(TRAINING)
        program = (
            "import sys; from placement_lint.cli import main\n"
            "status = main(['check', '--timeline', 'out.html', 'train.py'])\n"
            "assert 'torch' not in sys.modules\nsys.exit(status)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1
        assert done.stderr == f"wrote {tmp_path / 'out.html'}\n"
        assert "DPL503" in done.stdout

    def test_a_place_where_nothing_can_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        Path("a.py").write_text("import torch\nx = torch.ones(1)\n")
        assert main(["check", "--timeline", "no/out.html", "a.py"]) == 2
        assert "cannot write no/out.html: No such file or directory" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so the timeline's page was not opened")
@pytest.mark.parametrize("width", [1280, 600])
def test_the_switch_in_a_browser(
    draw: Draw, width: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    draw(TRAINING)
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        browser.open(tmp_path / "out.html", width)
        lanes = "[...document.querySelectorAll('.lane-name')].map(name => name.textContent)"
        failures = "[...document.querySelectorAll('.failure h2')].map(title => title.textContent)"
        key = "getComputedStyle(document.getElementById('failure-key')).display"
        assert browser.value("document.querySelector('#machines input:checked').parentElement.innerText.trim()") == (
            "2 or more GPUs"
        )
        assert browser.value(lanes) == ["cpu", "cuda:0", "cuda:1"]
        assert browser.value(failures) == ["DPL503 operand-not-moved at train.py:18 on a machine with a GPU"]
        assert browser.value("document.querySelectorAll('.bar.operand').length") == 2
        assert browser.value("document.querySelectorAll('.move').length") == 3
        assert browser.value("document.querySelector('.failure p code').textContent") == "labels"
        assert browser.value("document.documentElement.scrollWidth") <= width
        browser.value("document.querySelectorAll('#machines input')[0].click()")
        assert browser.value(lanes) == ["cpu"]
        assert browser.value(failures) == []
        assert browser.value(key) == "none"
        assert browser.value("document.querySelectorAll('.bar.operand, .move').length") == 0
        browser.value("document.querySelectorAll('#machines input')[1].click()")
        assert browser.value(lanes) == ["cpu", "cuda:0"]
        assert browser.value("document.querySelector('tbody tr.failed').innerText").startswith(
            "8\t\tcuda:0 and cpu\tDPL503 operand-not-moved"
        )
        assert browser.complaints == []
