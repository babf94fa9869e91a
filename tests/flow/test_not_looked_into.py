"""Functions that are not analysed for lack of budget: values that they surely do not change stay known."""

from __future__ import annotations

from functools import partialmethod
from pathlib import Path
from textwrap import dedent

import libcst as cst
import pytest

from placement_lint.config.settings import Settings
from placement_lint.flow.domain.values import Function
from placement_lint.flow.interpreter import calls
from placement_lint.flow.state import budget
from placement_lint.flow.state.budget import Budget
from placement_lint.flow.state.machine import Machine
from placement_lint.project.files import Selection
from placement_lint.report.results import Job
from placement_lint.run.engine import check_files
from placement_lint.source.wording import source_text

NET = """
    import torch
    from torch import nn

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def fill(layer, value):
        nn.init.constant_(layer.weight, value)

    def bring(layer):
        layer.to(device)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 2)

        def prepare(self):
            {line}
"""
TRAIN = """
    import torch
    from net import Net

    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model.prepare()
    optimizer.load_state_dict(torch.load("optimizer.pt", map_location="cpu"))
    model.cuda()
    for batch in torch.load("batches.pt", map_location="cpu"):
        model.layer(batch.cuda()).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "codes"),
    [
        ("nn.init.normal_(self.layer.weight, std=0.01)", {"DPL201"}),
        ("fill(self.layer, 1.0)", {"DPL201"}),
        ("bring(self.layer)", set()),
        ("self.layer.cuda()", set()),
        ("self.layer.weight.data = torch.ones(2, 4, device=device)", set()),
    ],
)
def test_what_cannot_move_a_module_leaves_it_where_it_is(
    line: str, codes: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaches = calls.reaches

    def all_but_prepare(machine: Machine, function: Function, arguments: calls.Arguments) -> bool:
        return function.name != "prepare" and reaches(machine, function, arguments)

    monkeypatch.setattr(calls, "reaches", all_but_prepare)
    (tmp_path / "net.py").write_text(dedent(NET).format(line=line))
    (tmp_path / "train.py").write_text(dedent(TRAIN))
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert {finding.code for finding in result.findings} == codes


BODY = """
    from torch import nn

    class Body(nn.Module):
        def __init__(self, gpu):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            if gpu:
                {line}

        def forward(self, x):
            return self.layer(x)
"""
HEAD = """
    import torch
    from torch import nn
    from body import Body

    gpu = torch.cuda.is_available()
    body, head, x = Body(gpu), nn.Linear(4, 2), torch.ones(1, 4)
    if gpu:
        head, x = head.cuda(), x.cuda()
    print(head(body(x)))
"""


@pytest.mark.parametrize("refused", [{"forward"}, {"forward", "__init__"}])
@pytest.mark.parametrize(
    ("line", "codes"), [("print('gpu')", {"DPL503"}), ("self.layer = self.layer.cuda()", set())], ids=["stays", "moves"]
)
def test_a_module_that_moves_its_parts_is_not_where_it_was_built(
    refused: set[str], line: str, codes: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaches = calls.reaches

    def all_but_refused(machine: Machine, function: Function, arguments: calls.Arguments) -> bool:
        return function.name not in refused and reaches(machine, function, arguments)

    monkeypatch.setattr(calls, "reaches", all_but_refused)
    (tmp_path / "body.py").write_text(dedent(BODY).format(line=line))
    (tmp_path / "train.py").write_text(dedent(HEAD))
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert {finding.code for finding in result.findings} == codes


CRITERION = """
    from torch import nn

    class Criterion(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.scale = scale

        def forward(self, x):
            return (self.scale * x).mean()
"""
SUMMED = """
    import torch
    from criterion import Criterion
    from torch import nn

    model, criterion = nn.Linear(4, 2).cuda(), Criterion(2.0)
    y = model(torch.ones(1, 4).cuda())
    (y + criterion(y)).sum().backward()
"""


def test_a_module_without_parameters_follows_its_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "reaches", lambda machine, function, arguments: function.name != "forward")
    (tmp_path / "criterion.py").write_text(dedent(CRITERION))
    (tmp_path / "train.py").write_text(dedent(SUMMED))
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert not result.findings


@pytest.mark.parametrize(("base", "found"), [("nn.Module", set()), ("nn.Linear", {"DPL503"})])
def test_a_module_that_builds_nothing_follows_its_inputs(
    base: str, found: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "reaches", lambda machine, function, arguments: False)
    (tmp_path / "criterion.py").write_text(dedent(CRITERION).replace("nn.Module", base))
    (tmp_path / "train.py").write_text(dedent(SUMMED))
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert {finding.code for finding in result.findings} == found


REPLICATED = """
    import torch
    from torch import nn

    class Noise(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4))

        def mixed(self, x):
            return x * self.weight

        def forward(self, x):
            return self.mixed(x)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.noise = Noise()
            self.bias = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            return self.noise(x) + self.bias

    net = nn.DataParallel(Net().cuda())
    print(net(torch.ones(8, 4)))
"""


def test_a_part_of_a_replica_is_where_the_replica_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reaches = calls.reaches

    def all_but_the_part(machine: Machine, function: Function, arguments: calls.Arguments) -> bool:
        is_of_part = function.owner is not None and function.owner.name == "Noise"
        return not (is_of_part and function.name == "forward") and reaches(machine, function, arguments)

    monkeypatch.setattr(calls, "reaches", all_but_the_part)
    (tmp_path / "train.py").write_text(dedent(REPLICATED))
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert not result.findings


def test_calls_of_functions_that_are_never_analysed_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "train.py"
    file.write_text(
        "import torch\n"
        + "".join(f"\n\ndef moved{i}(x):\n    return x.cuda()\n" for i in range(9))
        + "".join(f"y{i} = moved{i}(torch.ones({i}))\n" for i in range(9))
    )

    def refused() -> int:
        result = check_files(Selection([file]), Job(Settings(root=tmp_path)), jobs=1)
        return sum(checked.refused for results in result.results.values() for checked in results)

    assert refused() == 0
    monkeypatch.setattr(Budget, "__init__", partialmethod(Budget.__init__, fuel=20))
    assert 0 < refused() < 9


def test_layers_that_run_often_leave_something_to_other_functions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = "".join("        x = x + 1\n" for _ in range(20))
    (tmp_path / "layers.py").write_text(
        f"from torch import nn\n\n\nclass Layer(nn.Module):\n    def forward(self, x):\n{steps}        return x\n"
    )
    (tmp_path / "after.py").write_text("import torch\n\n\ndef shown(y):\n    print(y.numpy())\n")
    (tmp_path / "train.py").write_text(
        "import torch\nfrom after import shown\nfrom layers import Layer\n\ny = torch.ones(2).cuda()\n"
        + "".join(f"layer{i} = Layer()\ny = layer{i}(y)\n" for i in range(60))
        + "shown(torch.ones(2).cuda())\n"
    )

    def codes() -> set[str]:
        result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
        return {finding.code for finding in result.findings}

    monkeypatch.setattr(Budget, "__init__", partialmethod(Budget.__init__, abroad=700))
    assert codes() == {"DPL507"}
    monkeypatch.setattr(budget, "MOST_BY_FUNCTION", 10_000)
    assert codes() == set()


def test_a_function_that_has_used_its_share_leaves_something_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = "".join("    x = x + 1\n" for _ in range(20))
    (tmp_path / "train.py").write_text(
        f"import torch\n\n\ndef work(x):\n{steps}    return x\n\n\ndef shown(y):\n    print(y.numpy())\n\n\n"
        + "".join(f"y = work(torch.ones({i}).cuda())\n" for i in range(200))
        + "shown(torch.ones(2).cuda())\nprint(work(torch.ones(3).cuda()).numpy())\n"
    )

    def lines() -> list[int]:
        result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
        return [finding.range.line for finding in result.findings]

    monkeypatch.setattr(Budget, "__init__", partialmethod(Budget.__init__, fuel=3_500))
    assert lines() == [29]
    monkeypatch.setattr(budget, "MOST_BY_FUNCTION", 10_000)
    assert lines() == []


def test_a_program_may_save_what_it_loads_in_a_call_that_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "import torch\nfrom torch import nn\nfrom keep import keep\n\nnet = nn.Linear(2, 2)\n"
    (tmp_path / "keep.py").write_text("import torch\n\ndef keep(net, file):\n    torch.save(net.state_dict(), file)\n")
    (tmp_path / "other.py").write_text(f"{head}keep(net, 'last.pth')\n")
    (tmp_path / "train.py").write_text(
        f"{head}net = nn.DataParallel(net)\n"
        "for epoch in range(int(input())):\n    keep(net, 'last.pth')\n"
        "net.load_state_dict(torch.load('last.pth', map_location='cpu'))\n"
    )

    def codes() -> list[str]:
        files = [tmp_path / "other.py", tmp_path / "train.py"]
        result = check_files(Selection(files), Job(Settings(root=tmp_path)), jobs=1)
        return [finding.code for finding in result.findings]

    assert codes() == []
    affords = Budget.affords
    monkeypatch.setattr(Budget, "affords", lambda self, *call: affords(self, *call) and self.spent < 10)
    assert codes() == []


@pytest.mark.parametrize(("given", "codes"), [("folder", []), ("name", ["DPL603"])])
def test_unknown_code_may_save_a_model_in_a_folder_that_it_is_given(
    tmp_path: Path, given: str, codes: list[str]
) -> None:
    (tmp_path / "train.py").write_text(
        dedent(f"""
            import os

            import torch
            from torch import nn

            from elsewhere import stop_early

            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

            def train(folder, name):
                net = nn.Linear(2, 2).to(device)
                folder = os.path.join(folder, "checkpoints")
                for epoch in range(9):
                    stop_early(net(torch.ones(1, 2, device=device)).item(), net, {given})
                net.load_state_dict(torch.load(folder + "/" + "best.pth"))

            train(input(), input())
        """)
    )
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert [finding.code for finding in result.findings] == codes


@pytest.mark.parametrize(("other", "codes"), [("x", []), ("x.cpu()", ["DPL503"])])
def test_a_module_without_known_tensors_is_where_its_parts_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str, codes: list[str]
) -> None:
    (tmp_path / "net.py").write_text(
        dedent("""
            from torch import nn

            class Inner(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.layer = nn.Linear(2, 2)

                def forward(self, x):
                    return [self.layer(x)]

            class Net(nn.Module):
                def __init__(self, device):
                    super().__init__()
                    self.inner = Inner().to(device)

                def forward(self, x):
                    return self.inner(x)[0]
        """)
    )
    (tmp_path / "train.py").write_text(
        "import torch\nfrom net import Net\n\n"
        f"net, x = Net('cuda'), torch.ones(2, 2).cuda()\nprint(torch.cat([net(x), {other}]))\n"
    )
    affords = Budget.affords

    def affords_some(self: Budget, function: cst.FunctionDef, abroad: bool, in_replica: bool) -> bool:
        refused = "layer" in source_text(function) or function.name.value == "forward"
        return not refused and affords(self, function, abroad, in_replica)

    monkeypatch.setattr(Budget, "affords", affords_some)
    result = check_files(Selection([tmp_path / "train.py"]), Job(Settings(root=tmp_path)), jobs=1)
    assert [finding.code for finding in result.findings] == codes
