"""`run_script`: whole programs as ``python script.py`` would run them, and its reports of errors."""

import multiprocessing
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

from placement_lint.simulate.__main__ import main

ROOT = Path(__file__).parent.parent.parent

# PyTorch is imported once: what starts a program is a copy of a process that has it and has run nothing.
COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload([main.__module__])


@pytest.fixture
def run(tmp_path):
    """Run a program with two GPUs."""

    def run(source, gpus=2, options=()):
        (tmp_path / "train.py").write_text(textwrap.dedent(source))
        arguments = (tmp_path, "--gpus", str(gpus), *options, "train.py")
        process = COPIES.Process(target=start, args=arguments, daemon=True)
        process.start()
        process.join(120)
        said = [(tmp_path / name).read_text() for name in ("stdout", "stderr")]
        return SimpleNamespace(returncode=process.exitcode, stdout=said[0], stderr=said[1])

    return run


def start(folder, *arguments):
    """What ``python -m placement_lint.simulate`` does with these arguments in a folder."""
    os.chdir(folder)
    for number, name in ((1, "stdout"), (2, "stderr")):
        with open(name, "w") as file:
            os.dup2(file.fileno(), number)
    sys.argv = ["placement_lint.simulate", *arguments]
    sys.exit(main())


@pytest.mark.parametrize("target", ["train.py", "-m train"])
def test_a_script_is_main(target, tmp_path):
    (tmp_path / "helper.py").write_text("NAME = 'helped'")
    (tmp_path / "train.py").write_text(
        "import os, sys, helper\n"
        "is_main = sys.modules['__main__'].__dict__ is globals()\n"
        "print(__name__, __file__, sys.argv, helper.NAME, os.getcwd(), is_main)\n"
        "sys.exit(3)\n"
    )
    command = [sys.executable, "-m", "placement_lint.simulate", *target.split(), "--lr", "0.1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 3, ended.stderr
    name, file, rest = ended.stdout.split(" ", 2)
    assert name == "__main__"
    assert file.endswith("train.py")
    assert rest.strip().endswith(f"'--lr', '0.1'] helped {tmp_path} True")


@pytest.mark.parametrize(
    ("statement", "status", "said"),
    [
        ("pass", 0, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit('no data')", 1, "no data"),
        ("raise KeyError('lost')", 1, "KeyError: 'lost'"),
        ("raise KeyboardInterrupt", 130, ""),
    ],
)
def test_exit_status(run, statement, status, said):
    ended = run(f"import sys\n{statement}")
    assert ended.returncode == status
    assert said in ended.stderr


MISTAKE = """
    import torch
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)
            self.scale = torch.ones(2)

        def forward(self, values):
            return self.layer(values) * self.scale

    net = Net().to("cuda")
    batch = torch.randn(8, 4)
    batch = batch.to("cuda:0")
    net(batch)
"""


def test_a_mixture_of_devices_is_accounted_for(run):
    ended = run(MISTAKE)
    assert ended.returncode == 1
    first, second, *rest = ended.stderr.splitlines()
    assert first == "train.py:12: return self.layer(values) * self.scale"
    assert second.startswith("RuntimeError: Expected all tensors to be on the same device")
    account = "\n".join(rest)
    assert "on cuda:0,  computed by aten.addmm.default at train.py:12" in account
    assert "on cpu,     made by ones at train.py:9" in account
    assert "Traceback (most recent call last):" in account


def test_the_line_inside_a_replica_is_found(run):
    ended = run(MISTAKE.replace("Net().to", "nn.DataParallel(Net()).to"))
    assert ended.stderr.startswith("train.py:12: return self.layer(values) * self.scale\nRuntimeError: Expected all")


@pytest.mark.parametrize("wrapped", ["Net().to", "nn.DataParallel(Net()).to"])
def test_tracebacks_end_in_the_user_s_line(run, wrapped):
    text = run(MISTAKE.replace("Net().to", wrapped)).stderr
    assert "placement_lint" not in text
    frames = [line for line in text.splitlines() if line.startswith("  File ")]
    assert frames[-1].endswith('train.py", line 12, in forward')
    outer, _, inner = text.partition("Caught RuntimeError in replica 0")
    assert next(frame for frame in frames if frame in outer).endswith('train.py", line 17, in <module>')
    assert ("Original Traceback" in inner) is ("DataParallel" in wrapped)


def test_a_moved_operand_says_where_it_was_moved(run):
    ended = run(
        """
        import torch
        from torch import nn
        layer = nn.Linear(4, 2).cuda()
        batch = torch.randn(8, 4)
        batch = batch.to("cuda:1")
        layer(batch)
        """
    )
    assert "mat1  [8, 4] float32  on cuda:1,  moved from cpu to cuda:1 at train.py:6" in ended.stderr
    assert "self  [2] float32     on cuda:0,  moved from cpu to cuda:0 at train.py:4" in ended.stderr


def test_other_device_errors_show_the_line(run):
    ended = run(
        """
        import torch
        values = torch.ones(2).cuda()
        values.numpy()
        """
    )
    assert ended.stderr.startswith("train.py:4: values.numpy()\nTypeError: can't convert cuda:0 device type tensor")


def test_what_is_not_simulated_says_so(run):
    ended = run("import torch\ntorch.cuda.CUDAGraph()")
    assert "not simulated: CUDA graphs" in ended.stderr
    ended = run("import torch\ntorch._C._cuda_unknownCall()")
    assert "not simulated: _cuda_unknownCall" in ended.stderr


def test_trace_and_summary(run):
    ended = run(
        """
        import torch
        forgotten = torch.zeros(3)
        for _ in range(4):
            values = torch.ones(256).cuda()
        values.to("cuda:1").cpu()
        """,
        options=["--trace"],
    )
    assert ended.returncode == 0
    words = [line.split() for line in ended.stderr.splitlines()]
    assert ["train.py:5", "cpu", "cuda:0", "[256]", "float32", "4"] in words
    assert ["train.py:6", "cuda:0", "cuda:1", "[256]", "float32", "1"] in words
    assert ["cpu", "->", "cuda:0", "4", "times", "4.0", "KiB"] in words
    assert ["cuda:1", "->", "cpu", "1", "times", "1.0", "KiB"] in words
    assert ["train.py:3", "1", "times"] in words
    assert "simulated GPUs: 2" in ended.stderr


def test_another_kind_of_gpu(run):
    """Programs that it starts run on the same."""
    source = """
        import subprocess, sys, torch
        print(torch.backends.mps.is_available(), torch.cuda.is_available(), sys.argv[1:], flush=True)
        if len(sys.argv) == 1:
            subprocess.run([sys.executable, __file__, "child"], check=True)
            torch.ones(256).to("mps")
    """
    ended = run(source, gpus=1, options=["--device", "mps", "--trace"])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == ["True False []", "True False ['child']"]
    assert "simulated GPUs: 1 (mps)" in ended.stderr
    assert "cpu -> mps:0  1 times  1.0 KiB" in ended.stderr


def test_a_mixture_with_another_kind_is_accounted_for(run):
    ended = run(MISTAKE.replace("cuda:0", "mps").replace("cuda", "mps"), gpus=1, options=["--device", "mps"])
    assert (
        "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, mps:0"
        in (ended.stderr.splitlines()[1])
    )
    assert "on mps:0,  computed by aten.addmm.default at train.py:12" in ended.stderr
    assert "on cpu,    made by ones at train.py:9" in ended.stderr


def test_what_a_mac_lacks_is_not_called_missing(run):
    """`torch/cuda/__init__.py`, `set_device`"""
    ended = run("import torch\ntorch.cuda.set_device(0)", gpus=1, options=["--device", "mps"])
    assert "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'" in ended.stderr
    assert "not simulated" not in ended.stderr


def test_a_full_gpu_of_another_kind_shows_what_is_on_it(run):
    source = """
        import torch
        batch = torch.zeros(300, 1024, device="mps")
        more = torch.zeros(300, 1024, device="mps")
    """
    ended = run(source, gpus=1, options=["--device", "mps", "--memory", "2MiB"])
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[1].startswith("RuntimeError: MPS backend out of memory")
    assert ended.stderr.splitlines()[2].split() == ["batch", "[300,", "1024]", "float32", "on", "mps:0,", "1.2", "MiB"]


def test_sparse_tensors_count_what_they_hold(run):
    source = """
        import torch
        edges = torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), torch.ones(2), (3, 3)).to("cuda")
        rows = torch.eye(3).to_sparse_csr().to("cuda")
        print((torch.sparse.mm(edges, torch.eye(3, device="cuda")) + rows @ torch.ones(3, 3, device="cuda")).device)
    """
    ended = run(source)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("cuda:0")
    assert "cpu -> cuda:0  2 times  20 B" in ended.stderr


def test_no_trace_without_being_asked(run):
    assert "moves:" not in run("import torch\ntorch.ones(1).cuda()").stderr


def test_a_full_card_shows_what_is_on_it(run):
    ended = run(
        """
        import torch
        batch = torch.zeros(300, 1024, device="cuda")
        small = torch.zeros(4, device="cuda")
        other = torch.zeros(200, 1024, device="cuda:1")
        more = torch.zeros(300, 1024, device="cuda")
        """,
        options=["--memory", "2MiB"],
    )
    assert ended.returncode == 1
    first, second, *rest = ended.stderr.splitlines()
    assert first == 'train.py:6: more = torch.zeros(300, 1024, device="cuda")'
    assert second.startswith("OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 MiB. GPU 0 has a total")
    assert [line.split() for line in rest[:2]] == [
        ["batch", "[300,", "1024]", "float32", "on", "cuda:0,", "1.2", "MiB"],
        ["small", "[4]", "float32", "on", "cuda:0,", "16", "B"],
    ]


@pytest.mark.parametrize("options", ["", "'-u', '-X', 'dev', "])
def test_python_programs_that_it_starts_are_simulated(run, options):
    """`lightning/fabric/strategies/launchers/subprocess_script.py` starts its ranks this way."""
    source = f"""
        import subprocess, sys, torch
        print(sys.argv[1:], torch.cuda.device_count(), flush=True)
        if len(sys.argv) == 1:
            subprocess.run([sys.executable, {options}__file__, "child", "--lr", "1"], check=True)
            subprocess.run([sys.executable, "-c", "print('plain')"], check=True)
    """
    ended = run(source, gpus=3)
    assert ended.stdout.splitlines() == ["[] 3", "['child', '--lr', '1'] 3", "plain"], ended.stderr


# One write for each line: ranks share the output, and PYTHONUNBUFFERED makes `print` write piece by piece.
RANKS = """
import os, sys, torch
import torch.distributed as dist
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl")
total = torch.ones(1, device="cuda") * (rank + 1)
dist.all_reduce(total)
said = [rank, os.environ["RANK"], os.environ["WORLD_SIZE"], torch.cuda.device_count(), total.item(), sys.argv[1:]]
sys.stdout.write(" ".join(map(str, said)) + "\\n")
dist.destroy_process_group()
sys.exit(3 if "fail" in sys.argv and rank else 0)
"""


@pytest.mark.parametrize(("arguments", "status"), [(["--lr", "1"], 0), (["fail"], 3)])
def test_ranks_start_without_torchrun(tmp_path, arguments, status):
    (tmp_path / "train.py").write_text(RANKS)
    ended = subprocess.run(
        [sys.executable, "-m", "placement_lint", "run", "--ranks", "2", "train.py", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert ended.returncode == status, ended.stderr
    if not status:
        assert sorted(ended.stdout.splitlines()) == [f"{rank} {rank} 2 2 3.0 ['--lr', '1']" for rank in (0, 1)]


@pytest.mark.parametrize(
    "options",
    [["--memory", "much"], ["--ranks", "2", "--timeline", "page.html"], ["--device", "mps", "--gpus", "2"]],
)
def test_options_that_make_no_sense(tmp_path, options):
    (tmp_path / "train.py").write_text("")
    ended = subprocess.run(
        [sys.executable, "-m", "placement_lint", "run", *options, "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 2
    assert options[0] in ended.stderr


def test_a_device_side_assert_says_what_follows(run):
    ended = run("import torch\ntorch.ones(3, device='cuda')[torch.tensor([5], device='cuda')]")
    assert "CUDA error: device-side assert triggered" in ended.stderr
    assert "index 5 is out of bounds" in ended.stderr
    assert "after a device-side assert, a process cannot use the GPU any more" in ended.stderr


def test_without_gpus(run):
    ended = run("import torch\nprint(torch.cuda.is_available())\ntorch.ones(1).cuda()", gpus=0)
    assert ended.stdout == "False\n"
    assert "Found no NVIDIA driver" in ended.stderr


def test_the_interpreter_is_left_as_it_was(tmp_path, monkeypatch, capsys):
    from placement_lint.simulate.runner import run_script

    script = tmp_path / "script.py"
    script.write_text("import sys\nprint(sys.argv[1:])\nsys.exit(5)")
    argv, path = sys.argv, sys.path[:]
    assert run_script(str(script), ["a"], 1, module=False, trace=False) == 5
    assert (sys.argv, sys.path) == (argv, path)
    assert capsys.readouterr().out == "['a']\n"
