"""``--save-probe``: files that run with PyTorch alone and show their symptom, and reasons for missing files."""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pytest

from placement_lint.cli import main
from placement_lint.registry import find_rule

pytestmark = pytest.mark.usefixtures("own_cache", "one_sandbox")

RUN = ("--probe", "simulated", "--trust")
MIXED = "RuntimeError: Expected all tensors to be on the same device"
NET = """
import torch
from torch import nn

SIZE = 4


class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(SIZE, 2)

    def forward(self, x):
        return self.fc(x)
"""
TRAIN = """
import torch
{imports}

model = {made}.cuda()
x = torch.randn(8, 4)
print(model(x))
"""
PLAIN = TRAIN.format(imports="from torch import nn", made="nn.Linear(4, 2)")
LATER = TRAIN.format(imports="from torch import nn\n", made="nn.Linear(4, 2)")

Finding = dict[str, Any]
Save = Callable[..., list[Finding]]


@pytest.fixture
def save(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> Save:
    """Write a project, check it and save its slices; the findings."""

    def save_slices(files: dict[str, str], *options: str) -> list[Finding]:
        for name, text in files.items():
            write(name, text)
        main(["check", "--isolated", "--format", "json", "--save-probe", "slices", *options, *files])
        findings: list[Finding] = json.loads(capsys.readouterr().out)["findings"]
        return findings

    return save_slices


def header(file: str) -> list[str]:
    comments = Path(file).read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    return [line.removeprefix("# ") for line in comments]


def command(file: str) -> list[str]:
    """What the header of a file says to do for simulated GPUs."""
    (line,) = (line for line in header(file) if line.startswith("On simulated GPUs"))
    name, *arguments = shlex.split(line.partition(": ")[2])
    assert name == "placement-lint"
    given = [str(Path(file).absolute()) if word == "FILE" else word for word in arguments]
    return [sys.executable, "-m", "placement_lint", *given]


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """Start a command in an empty folder, from which nothing of the project can be imported."""
    folder.mkdir(exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.Popen(words, cwd=folder, env=environment, stdout=-1, stderr=subprocess.STDOUT, text=True)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("localhost", 0))
        port: int = listener.getsockname()[1]
        return port


def output(file: str, folder: Path) -> str:
    """What a file prints where it is run as its header says."""
    with started(command(file), folder) as process:
        return process.communicate(timeout=120)[0]


# --- what is written, and whether it was run ---------------------------------------------------------------------


def test_without_trust_nothing_is_executed(save: Save, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    text = PLAIN.replace("8, 4", f"open({str(marker)!r}, 'w').write('x' * 8), 4")
    for options in ((), ("--probe", "simulated")):
        (finding,) = save({"train.py": text}, *options)
        assert not marker.exists()
        assert finding["saved"] == {"file": finding["saved"]["file"], "shown": None, "reason": None}
        assert header(finding["saved"]["file"])[-1].startswith("Not run before it was saved")


def test_a_file_says_what_it_is_and_how_to_run_it(save: Save, tmp_path: Path) -> None:
    (finding,) = save({"train.py": PLAIN}, *RUN)
    assert finding["saved"] == {"file": "slices/train_7_DPL503.py", "shown": "2 simulated GPUs", "reason": None}
    lines = header("slices/train_7_DPL503.py")
    assert lines[0] == "DPL503 operand-not-moved, found by placement-lint in train.py:7:"
    assert "On a real machine: python FILE" in lines
    assert "On simulated GPUs: placement-lint run --gpus 2 FILE" in lines
    assert "Run before it was saved, with PyTorch alone (2 simulated GPUs): RuntimeError: Expected all" in "\n".join(
        lines
    )
    code = Path("slices/train_7_DPL503.py").read_text(encoding="utf-8").partition("\n\n")[2]
    assert code.endswith("print(model(x))  # <-- DPL503 operand-not-moved\n")
    assert MIXED in output("slices/train_7_DPL503.py", tmp_path / "empty")


def test_a_file_says_which_kind_of_gpu_it_needs(save: Save) -> None:
    (finding,) = save({"train.py": find_rule("DPL509").page.example}, *RUN)
    assert finding["saved"]["shown"] == "1 simulated MPS device"
    lines = header(finding["saved"]["file"])
    assert any(line.startswith("Expected with an MPS device: ") for line in lines)
    assert "On a simulated one: placement-lint run --device mps FILE" in lines


def test_no_file_is_overwritten(save: Save, tmp_path: Path) -> None:
    names = [save({"train.py": PLAIN})[0]["saved"]["file"] for _ in range(2)]
    assert names == ["slices/train_7_DPL503.py", "slices/train_7_DPL503_2.py"]
    assert len({Path(name).read_text(encoding="utf-8") for name in names}) == 1
    assert len(list((tmp_path / "slices").iterdir())) == 2


def test_a_folder_that_cannot_be_is_said(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", PLAIN)
    write("taken", "")
    assert main(["check", "--isolated", "--save-probe", "taken/slices", "train.py"]) == 2
    assert "cannot write taken" in capsys.readouterr().err


# --- projects ----------------------------------------------------------------------------------------------------

PROJECTS: dict[str, dict[str, str]] = {
    "relative": {
        "pkg/train.py": TRAIN.format(imports="from .blocks import Block as B", made="B()"),
        "pkg/__init__.py": "",
        "pkg/blocks.py": NET.format(name="Block"),
    },
    "alias": {
        "train.py": TRAIN.format(imports="import models.net as n", made="n.Net()"),
        "models/__init__.py": "",
        "models/net.py": NET.format(name="Net"),
    },
    "one name for two": {
        "train.py": TRAIN.format(imports="import a\nfrom b import Net", made="torch.nn.Sequential(Net(), a.Net())"),
        "a.py": NET.format(name="Net").replace("SIZE = 4", "SIZE = 2"),
        "b.py": NET.format(name="Net"),
    },
    "passed on, beside what needs packages": {
        "train.py": TRAIN.format(imports="from models import build", made="build()"),
        "models/__init__.py": "from .factory import *\nfrom .images import read",
        "models/factory.py": "import yaml_of_nobody\nfrom . import net\n\ndef build():\n    return net.Net()\n\n"
        "def configured(path):\n    return yaml_of_nobody.load(path)\n",
        "models/images.py": "import cv2_of_nobody\n\ndef read(path):\n    return cv2_of_nobody.imread(path)\n",
        "models/net.py": NET.format(name="Net"),
    },
    "only a class": {
        "net.py": NET.format(name="Net").replace("self.fc(x)", "self.fc(x) + torch.ones(2)"),
        "train.py": TRAIN.format(imports="from net import Net", made="Net()").replace("(x)", "(x.cuda())"),
    },
}


@pytest.mark.parametrize("trust", [True, False])
@pytest.mark.parametrize("name", PROJECTS)
def test_a_slice_of_a_project_stands_alone(name: str, trust: bool, save: Save, tmp_path: Path) -> None:
    (finding,) = save(PROJECTS[name], *(RUN if trust else ()))
    assert finding["saved"]["reason"] is None
    assert finding["saved"]["shown"] == ("2 simulated GPUs" if trust else None)
    assert MIXED in output(finding["saved"]["file"], tmp_path / "empty")


# --- stand-ins ---------------------------------------------------------------------------------------------------

STOOD_IN = {
    "pkg/train.py": """
from __future__ import annotations

import argparse
import six
import torch
from absent import sets
from .net import Net

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, required=True)
args = parser.parse_args()
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=args.rate)
for images, labels in torch.utils.data.DataLoader(sets.Cifar(six.text_type("data")), batch_size=4):
    loss = torch.nn.functional.cross_entropy(model(images.flatten(1).cuda()), labels)
    loss.backward()
""",
    "pkg/__init__.py": "",
    "pkg/net.py": NET.format(name="Net").replace("SIZE = 4", "from absent.sizes import SIZE"),
}


def test_a_file_holds_the_stand_ins_that_it_needs(save: Save, tmp_path: Path) -> None:
    (finding,) = save(STOOD_IN, *RUN)
    assert finding["saved"]["reason"] is None
    file = finding["saved"]["file"]
    assert "with PyTorch alone and stand-ins for absent.sets.Cifar" in " ".join(header(file))
    text = Path(file).read_text(encoding="utf-8")
    compile(text, file, "exec")  # the import from the future still comes first
    assert "# Stand-ins for what is not there." in text
    assert not [line for line in text.splitlines() if line.startswith("from .")]
    told = output(file, tmp_path / "empty")
    assert MIXED in told
    # What the traceback names are lines of the file.
    number = next(n for n, line in enumerate(text.splitlines(), 1) if "<-- DPL503" in line)
    assert f"line {number}, in" in told


# --- ranks -------------------------------------------------------------------------------------------------------

SPAWNED = """
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from parts.net import Net


def worker(rank, size):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    {port}
    dist.init_process_group("gloo", rank=rank, world_size=size)
    net = torch.nn.parallel.DistributedDataParallel(Net(), device_ids=[rank])
    net(torch.ones(2, 4).to(rank)).sum().backward()


if __name__ == "__main__":
    mp.spawn(worker, args=(2,), nprocs=2)
"""
LAUNCHED = """
import torch
import torch.distributed as dist
from parts.net import Net

dist.init_process_group("nccl")
net = torch.nn.parallel.DistributedDataParallel(Net(), device_ids=[dist.get_rank()])
net(torch.ones(2, 4).cuda()).sum().backward()
"""
NODES = """
import os

import torch
import torch.distributed as dist
from parts.net import Net

dist.init_process_group("nccl")
RANK = int(os.environ["RANK"])
print("local rank", int(os.environ["LOCAL_RANK"]))
device = torch.device(f"cuda:{RANK}")
net = Net().to(device)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "symptom"),
    [
        (SPAWNED.format(port='os.environ.setdefault("MASTER_PORT", "29519")'), "ValueError"),
        (SPAWNED.format(port="pass"), "ValueError"),
        (LAUNCHED, "ValueError"),
        (NODES, "invalid device ordinal"),
    ],
)
def test_ranks_are_started_as_the_header_says(text: str, symptom: str, save: Save, tmp_path: Path) -> None:
    (finding,) = save({"train.py": text, "parts/net.py": NET.format(name="Net")}, *RUN)
    file = finding["saved"]["file"]
    times = 2 if any("2 times at once" in line for line in header(file)) else 1
    assert times == (2 if text == NODES else 1)
    folder = tmp_path / "empty"
    port = free_port()
    words = [word.replace("localhost:29500", f"localhost:{port}") for word in command(file)]
    processes = [started(words, folder) for _ in range(times)]
    # All at once: a process whose output is not read waits, and the others wait for it.
    with ThreadPoolExecutor(times) as pool:
        running = [pool.submit(process.communicate, timeout=120) for process in processes]
        outputs = []
        for each in as_completed(running):
            outputs.append(each.result()[0])
            if symptom in outputs[-1]:
                break
        # The launcher of a rank that succeeded waits for minutes for the one that failed.
        for process in processes:
            process.kill()
    assert symptom in outputs[-1], outputs


# --- reasons -----------------------------------------------------------------------------------------------------


ONLY_A_CLASS = {"net.py": PROJECTS["only a class"]["net.py"]}
UNCALLED = "nothing in this file or in a file that imports it calls the reported code"
FOREIGN = {
    "train.py": PLAIN.replace("import torch\n", "import torch\nimport nobodys\n").replace("8, 4", "nobodys.ROWS, 4")
}
FOREIGN_WORD = {"train.py": FOREIGN["train.py"].replace("nobodys.ROWS", "int('eight' + nobodys.rows().lower())")}
GONE = {
    "train.py": PLAIN.replace("import torch\n", "import torch\nfrom .gone import ROWS\n").replace("8, 4", "ROWS, 4")
}


@pytest.mark.parametrize(
    ("files", "options", "reason"),
    [
        (FOREIGN, (), "it imports `nobodys`, and a saved slice runs with PyTorch alone"),
        (FOREIGN_WORD, RUN, "with PyTorch alone and stand-ins for nobodys.rows, it fails with another error"),
        (GONE, (), "it imports `.gone`, "),
        (GONE, RUN, "it imports `.gone`, "),
        (ONLY_A_CLASS, (), UNCALLED),
        (ONLY_A_CLASS, RUN, UNCALLED),
        ({"train.py": "import torch\ndef f(:"}, (), "its rule has no experiment"),
        ({"train.py": PLAIN.replace("8, 4", "ROWS, 4")}, (), "nothing defines `ROWS`"),
        (
            {"train.py": PLAIN.replace("8, 4", "int('eight'), 4")},
            RUN,
            "with PyTorch alone, it fails with another error",
        ),
    ],
)
def test_a_finding_without_a_file_has_a_reason(
    files: dict[str, str], options: tuple[str, ...], reason: str, save: Save, capsys: pytest.CaptureFixture[str]
) -> None:
    (finding,) = save(files, *options)
    assert finding["saved"]["file"] is None
    assert reason in finding["saved"]["reason"]
    assert not Path("slices").exists()
    for form in ("concise", "full"):
        main(["check", "--isolated", "--format", form, "--save-probe", "slices", *options, *files])
        (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("no slice for "))
        assert reason in line
