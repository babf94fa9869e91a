"""The files of ``run`` about the places of tensors: a page, tested in a browser, and a trace."""

from __future__ import annotations

import json
import linecache
import os
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser

from placement_lint.cli import main
from placement_lint.simulate.runner import run_script
from placement_lint.simulate.timeline import Timeline
from placement_lint.simulate.timeline_page import timeline_page, view
from placement_lint.simulate.trace_file import trace_file

Record = Callable[..., Timeline]

TRAINING = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, values):
        return self.fc(values)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.register_buffer("scale", torch.ones(2))

    def forward(self, values):
        return self.block(values) * self.scale

net = Net().to("cuda")
images = torch.randn(8, 4)
labels = torch.randint(2, (8,))
batch = images.to("cuda")
outputs = net(batch)
loss = nn.functional.cross_entropy(outputs, labels)
"""


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Record:
    """Run a program and give the record of it."""
    monkeypatch.chdir(tmp_path)

    def record(source: str, gpus: int = 2, **options: Any) -> Timeline:
        Path("train.py").write_text(source)
        linecache.clearcache()
        timeline = Timeline(gpus, **options)
        run_script("train.py", [], gpus, module=False, trace=False, journal=timeline)
        return timeline

    return record


def spans(timeline: Timeline) -> dict[str, list[str]]:
    """By name the devices that a tensor was on."""
    found: dict[str, list[str]] = {}
    for bar in timeline.bars:
        if bar.name:
            found.setdefault(bar.name, []).append(bar.device)
    return found


class TestRecord:
    def test_tensors_have_the_names_of_variables_and_parameters(self, record: Record) -> None:
        assert spans(record(TRAINING)) == {
            "block.fc.weight": ["cpu", "cuda:0"],
            "block.fc.bias": ["cpu", "cuda:0"],
            "net.scale": ["cpu", "cuda:0"],
            "images": ["cpu"],
            "labels": ["cpu"],
            "batch": ["cuda:0"],
            "outputs": ["cuda:0"],
        }

    def test_names_in_functions_containers_gradients_and_optimizers(self, record: Record) -> None:
        source = """\
import torch

def train():
    layer = torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adagrad(layer.parameters())
    batch = {"x": torch.ones(3, 2), 7: [1]}
    pair = (torch.zeros(1), None)
    layer(batch["x"]).sum().backward()
    optimizer.step()
    last = torch.ones(1)
    return last + 1

total = train()
"""
        assert set(spans(record(source))) == {
            *("layer.weight", "layer.bias", "layer.weight.grad", "layer.bias.grad"),
            *("sum of layer.weight", "sum of layer.bias", "step of layer.weight", "step of layer.bias"),
            *("batch['x']", "pair[0]", "last", "total"),
        }

    def test_a_wrapper_changes_no_name(self, record: Record) -> None:
        source = "import torch\nnet = torch.nn.Sequential(torch.nn.Linear(4, 2)).cuda()\n"
        source += "model = torch.nn.DataParallel(net)\ndel net\nmodel(torch.ones(8, 4).cuda())\n"
        assert "module.0.weight" not in spans(record(source))
        assert spans(record(source))["0.weight"][:2] == ["cpu", "cuda:0"]

    def test_a_move_has_its_ends_and_its_line(self, record: Record) -> None:
        moves = record(TRAINING).moves_between_bars
        assert [(move.source.label, move.target.label, str(move.line)) for move in moves] == [
            ("block.fc.weight", "block.fc.weight", "train.py:21"),
            ("block.fc.bias", "block.fc.bias", "train.py:21"),
            ("net.scale", "net.scale", "train.py:21"),
            ("images", "batch", "train.py:24"),
        ]
        assert all((move.source.device, move.target.device) == ("cpu", "cuda:0") for move in moves)
        assert all(move.source.start < move.step == move.target.start for move in moves)

    def test_a_copy_into_a_tensor_is_a_move_and_no_new_tensor(self, record: Record) -> None:
        timeline = record("import torch\na = torch.ones(2)\nb = torch.zeros(2).cuda()\nb.copy_(a)\nc = a + 1\n")
        assert [bar.name for bar in timeline.bars if bar.device == "cuda:0"] == ["b"]
        (_, move) = timeline.moves_between_bars
        assert (move.source.name, move.target.name, move.line and move.line.number) == ("a", "b", 4)
        assert move.target.start < move.step

    def test_what_the_simulation_did_not_see_is_shown_once_it_moves(self, record: Record) -> None:
        source = "import numpy, torch\na = torch.from_numpy(numpy.ones(2))\nb = a.cuda()\nc = b + 1\n"
        timeline = record(source)
        (move,) = timeline.moves_between_bars
        assert [bar.name for bar in timeline.bars] == ["b", "a", "c"]
        assert (move.source.name, move.source.device, move.source.start) == ("a", "cpu", move.step)
        assert move.source.origin.how == "made where the simulation did not see it"

    def test_a_tensor_ends_when_it_is_freed(self, record: Record) -> None:
        timeline = record("import torch\na = torch.ones(2)\nb = a + 1\ndel a\nc = b + 1\nd = c + 1\n")
        ends = {bar.name: bar.end for bar in timeline.bars}
        assert ends == {"a": 2, "b": 4, "c": 4, "d": 4}

    def test_recording_leaves_what_the_program_got_of_its_variables(self, record: Record) -> None:
        source = """\
import torch

def work():
    a = torch.ones(2)
    variables = locals()
    b = torch.ones(2)
    c = torch.ones(2)
    assert variables["a"] is a

work()
"""
        assert record(source).failure is None

    def test_recording_keeps_no_tensor_alive(self, record: Record) -> None:
        source = """\
import torch

def free():
    a = torch.ones(2, device="cuda")
    b = a + 1
    del a
    assert torch.cuda.memory_allocated() == 512, torch.cuda.memory_allocated()

free()
"""
        assert record(source).failure is None

    def test_the_failing_operation_has_its_operands(self, record: Record) -> None:
        failure = record(TRAINING).failure
        assert failure is not None
        assert failure.kind == "RuntimeError"
        assert failure.message.startswith("Expected all tensors to be on the same device")
        assert str(failure.line) == "train.py:26"
        assert [(name, bar.label, bar.device) for name, bar in failure.operands] == [
            ("self", "_log_softmax", "cuda:0"),
            ("target", "labels", "cpu"),
        ]

    def test_a_failure_that_mixes_no_devices_has_no_operands(self, record: Record) -> None:
        failure = record("import torch\na = torch.ones(2)\n{}['x']\n").failure
        assert failure is not None
        assert (failure.kind, str(failure.line), failure.operands) == ("KeyError", "train.py:3", [])

    def test_a_failure_that_the_program_handles_is_none(self, record: Record) -> None:
        source = "import torch\ntry:\n    torch.ones(2) + torch.ones(2).cuda()\nexcept RuntimeError:\n    pass\n"
        assert record(source).failure is None

    def test_a_long_run_keeps_both_ends_and_the_operands(self, record: Record) -> None:
        source = (
            "import torch\na = torch.ones(2)\nb = torch.ones(2)\nfor _ in range(99):\n    c = (b + 1).cuda().cpu()\n"
        )
        timeline = record(source + "d = a.cuda() + c\n", kept=4)
        assert timeline.failure is not None
        assert [bar.name for _, bar in timeline.failure.operands] == ["a", "c"]
        assert len(timeline.bars) == 8
        assert timeline.bars[0].name == "a"
        assert timeline.totals == (300, 199)
        data = view(timeline)
        assert data["omitted"] == {"tensors": 292, "moves": 199 - len(data["moves"])}
        assert 0 < len(data["moves"]) <= 8

    def test_operands_from_the_middle_of_a_long_run_are_kept(self, record: Record) -> None:
        source = "import torch\n" + "a = torch.ones(2)\n" * 20 + "b = torch.ones(3)\n" + "a = torch.ones(2)\n" * 20
        timeline = record(source + "torch.ones(3).cuda() + b\n", kept=4)
        assert "b" in [bar.name for bar in timeline.bars]
        assert len(timeline.bars) == 9

    def test_bars_of_a_row_do_not_overlap(self, record: Record) -> None:
        timeline = record(TRAINING)
        rows: dict[tuple[str, int], int] = {}
        placed = timeline.rows()
        assert len(placed) == len(timeline.bars)
        for bar, row in sorted(placed.items(), key=lambda item: item[0].start):
            assert rows.get((bar.device, row), 0) < bar.start
            rows[bar.device, row] = timeline.last_of(bar)

    def test_the_lanes_are_the_devices_of_the_machine(self, record: Record) -> None:
        assert record("import torch\ntorch.ones(1)\n", gpus=11).devices() == [
            "cpu",
            *(f"cuda:{index}" for index in range(11)),
        ]
        assert record("import torch\na = torch.ones(1, device='meta')\n", gpus=0).devices() == ["cpu", "meta"]


class TestTrace:
    def test_slices_of_a_thread_do_not_overlap_and_flows_begin_within_one(self, record: Record) -> None:
        trace = json.loads(trace_file(record(TRAINING), "train.py"))
        events = trace["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        assert {event["name"] for event in events if event["ph"] == "M"} == {"process_name"}
        names = {event["pid"]: event["args"]["name"] for event in events if event["ph"] == "M"}
        assert names == {1: "cpu", 2: "cuda:0", 3: "cuda:1"}
        ends: dict[tuple[int, int], int] = {}
        for event in sorted(slices, key=lambda event: event["ts"]):
            assert event["dur"] > 0
            assert ends.get((event["pid"], event["tid"]), 0) <= event["ts"]
            ends[event["pid"], event["tid"]] = event["ts"] + event["dur"]
        flows = [event for event in events if event["ph"] in "sf"]
        assert len(flows) == 8
        for flow in flows:
            assert any(
                (event["pid"], event["tid"]) == (flow["pid"], flow["tid"])
                and event["ts"] <= flow["ts"] < event["ts"] + event["dur"]
                for event in slices
            )

    def test_the_failure_is_an_event_with_its_operands(self, record: Record) -> None:
        trace = json.loads(trace_file(record(TRAINING), "train.py"))
        (failure,) = (event for event in trace["traceEvents"] if event["ph"] == "i")
        assert failure["name"].startswith("RuntimeError: Expected all tensors")
        assert failure["args"] == {
            "self": "_log_softmax [8, 2] float32 on cuda:0",
            "target": "labels [8] int64 on cpu",
            "line": "train.py:26",
            "code": "loss = nn.functional.cross_entropy(outputs, labels)",
        }


class Links(HTMLParser):
    """What a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [(tag, value) for name, value in attributes if name in ("src", "href", "data", "action")]


def test_the_page_is_self_contained(record: Record) -> None:
    source = "import torch\na = torch.ones(1)  # </script><script>alert(1)</script> <!--\nb = a + 1\n"
    page = timeline_page(record(source), "</title><b>.py")
    links = Links()
    links.feed(page)
    assert links.found == []
    assert "default-src 'none'" in page
    assert page.count("</script>") == 2
    assert "<!--" not in page
    assert not re.search(r"@import|url\((?!#)", page)


class TestCommand:
    @pytest.fixture(autouse=True)
    def in_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @pytest.mark.slow
    def test_both_files_are_written_though_the_program_fails_in_another_folder(self, tmp_path: Path) -> None:
        Path("train.py").write_text("import os\nos.mkdir('sub')\nos.chdir('sub')\n" + TRAINING)
        command = [sys.executable, "-m", "placement_lint", "run", "--timeline", "out.html", "--trace-file", "out.json"]
        ended = subprocess.run([*command, "train.py"], capture_output=True, text=True, timeout=120)
        assert ended.returncode == 1, ended.stderr
        assert ended.stderr.splitlines()[-2:] == [f"wrote {tmp_path / 'out.html'}", f"wrote {tmp_path / 'out.json'}"]
        assert json.loads(Path("out.json").read_bytes())["traceEvents"]
        assert b"block.fc.weight" in Path("out.html").read_bytes()
        assert sorted(os.listdir(tmp_path)) == ["out.html", "out.json", "sub", "train.py"]

    @pytest.mark.parametrize("option", ["--timeline", "--trace-file"])
    @pytest.mark.parametrize(
        ("file", "said"),
        [
            ("missing/out", "cannot write missing/out: No such file or directory"),
            (".", "is a directory"),
            ("train.py/out", "cannot write train.py/out"),
        ],
    )
    def test_a_place_that_cannot_be_written_is_refused_before_the_program_runs(
        self, option: str, file: str, said: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("train.py").write_text("print('it ran')\n")
        assert main(["run", option, file, "train.py"]) == 2
        captured = capsys.readouterr()
        assert said in captured.err
        assert "Traceback" not in captured.err
        assert "it ran" not in captured.out

    def test_two_files_in_one_place_are_refused(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("train.py").write_text("print('it ran')\n")
        assert main(["run", "--timeline", "out", "--trace-file", "./out", "train.py"]) == 2
        assert "--timeline and --trace-file would both be written to ./out" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed, so the timeline's page was not opened")
class TestInBrowser:
    @pytest.fixture
    def browser(self, tmp_path_factory: pytest.TempPathFactory) -> Any:
        with Browser(tmp_path_factory.mktemp("browser")) as browser:
            yield browser

    @pytest.mark.parametrize("width", [1280, 600])
    def test_the_page_shows_the_run(self, record: Record, browser: Browser, tmp_path: Path, width: int) -> None:
        file = tmp_path / "out.html"
        timeline = record(TRAINING)
        file.write_text(timeline_page(timeline, "train.py"))
        browser.open(file, width)
        assert browser.value("document.title") == "Timeline of train.py"
        assert browser.value("[...document.querySelectorAll('.lane-name')].map(name => name.textContent)") == [
            *("cpu", "cuda:0", "cuda:1"),
        ]
        assert browser.value("document.querySelectorAll('.bar').length") == len(timeline.bars)
        assert browser.value("document.querySelectorAll('.move').length") == 4
        assert browser.value("document.querySelectorAll('.bar.operand').length") == 2
        assert browser.value("document.querySelector('.failure pre').textContent") == (
            "loss = nn.functional.cross_entropy(outputs, labels)"
        )
        listed = browser.value("document.querySelector('tbody').innerText")
        assert "block.fc.weight" in listed
        assert "labels = torch.randint(2, (8,))" in listed
        assert browser.value("document.documentElement.scrollWidth") <= width
        assert browser.complaints == []

    def test_pointing_at_a_bar_shows_its_line(self, record: Record, browser: Browser, tmp_path: Path) -> None:
        file = tmp_path / "out.html"
        timeline = record(TRAINING)
        file.write_text(timeline_page(timeline, "train.py"))
        browser.open(file, 1280)
        index = [bar.name for bar in timeline.bars].index("labels")
        box = browser.value(f"document.querySelector('[data-index=\"{index}\"] rect').getBoundingClientRect().toJSON()")
        browser.point_at(box["x"] + 5, box["y"] + 5)
        tip = browser.value("document.getElementById('tip').innerText")
        assert "labels: made by randint, [8] int64 on cpu" in tip
        assert "train.py:23: labels = torch.randint(2, (8,))" in tip

    def test_the_keyboard_goes_through_the_list(self, record: Record, browser: Browser, tmp_path: Path) -> None:
        file = tmp_path / "out.html"
        file.write_text(timeline_page(record(TRAINING), "train.py"))
        browser.open(file, 1280)
        browser.value("document.getElementById('filter').focus()")
        browser.type("images.to")
        assert browser.value("document.getElementById('found').textContent") == "1 row"
        browser.press("Tab")
        browser.press("ArrowDown")
        assert "batch = images.to" in browser.value("document.activeElement.innerText")
        assert browser.value("document.querySelector('.bar.chosen text').textContent") == "batch"

    def test_a_long_run_says_what_was_left_out(self, record: Record, browser: Browser, tmp_path: Path) -> None:
        source = "import torch\na = torch.ones(2)\nfor _ in range(1200):\n    b = a.cuda()\n    c = b + 1\n"
        timeline = record(source)
        file = tmp_path / "out.html"
        file.write_text(timeline_page(timeline, "train.py"))
        browser.open(file, 1280)
        assert browser.value("document.querySelectorAll('.bar').length") == 2000
        said = browser.value("document.getElementById('omitted').textContent")
        assert "401 tensors and 200 moves between them are left out" in said
        assert browser.complaints == []
