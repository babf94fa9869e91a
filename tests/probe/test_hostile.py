"""No part of a program that is linted and probed is ever executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placement_lint.cli import main
from placement_lint.registry import all_rules
from placement_lint.rule import Rule

PROBED = [rule for rule in all_rules() if rule.experiment]


def bomb(marker: Path) -> str:
    """An expression that leaves a marker if anything evaluates it."""
    return f"__import__('os').system('touch {marker}')"


def hostile_program(marker: Path) -> str:
    """Finds many bugs, with an attack in every place that a fact can come from."""
    attack = bomb(marker)
    quoted = repr(f"x'\"\n);{attack};('")
    return f"""
import os, shutil
import torch
from torch import nn

{attack}
shutil.rmtree({str(marker.parent / "precious")!r})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4)).to({quoted})
        self.shift = nn.Parameter(torch.ones(4)).cuda()
        self.table = torch.ones(4)
        self.parts = [nn.Linear(4, 4)]
        setattr(self, {quoted}, nn.Parameter(torch.ones(4)).double())
        setattr(self, {quoted} + "b", [nn.Linear(4, 4)])

    def forward(self, x):
        setattr(self, {quoted} + "c", x)
        self.seen = {attack}
        next(self.parameters())
        x = x + torch.zeros(4, device="cuda:0") + self.table + torch.arange(4)
        return self.parts[0](self.fc(x)).mean()


class Optimizer({attack}, torch.optim.Adagrad):
    pass


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
net = Net()
early = torch.optim.Adagrad(net.parameters(), lr={attack})
named = getattr(torch.optim, {quoted})(net.parameters())
own = Optimizer(net.parameters())
net.to(device)
early.step()
net.fc = nn.Linear(4, 4)
early.step()
net.requires_grad = False
wrapped = nn.DataParallel(net, device_ids=[0, 1, {quoted}])
other = nn.DataParallel(Net(), device_ids=[{attack}, {attack}])
third = nn.DataParallel(Net().to("cuda:1"), device_ids=[0, 1])
loss = third(torch.ones(8, 4))
loss.backward()
print(f"{{loss:{{{attack}}}}}", float(loss))
loss.sum().backward()
print(getattr(wrapped, {quoted}), wrapped.fc, wrapped[{attack}])
net.load_state_dict(wrapped.state_dict())
x = torch.ones(8, 4)
x.to(device)
x.to({quoted})
x.to({attack})
print(net.fc(x), x.cuda() + torch.ones(8, 4), (x.cuda()).numpy())
"""


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    (tmp_path / "precious").mkdir()
    return tmp_path / "marker"


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", ["program.py", "torch.py", "sitecustomize.py"])
def test_a_program_is_only_read(
    name: str, marker: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = marker.parent / "project"
    folder.mkdir()
    (folder / name).write_text(hostile_program(marker), encoding="utf-8")
    monkeypatch.chdir(folder)
    assert main(["check", "--probe", "simulated", "--select", "ALL", "--format", "json", name]) == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    probed = {finding["code"] for finding in findings if finding["verdict"]}
    assert len(probed) >= 12, sorted(probed)
    assert_untouched(marker)


@pytest.mark.parametrize("rule", PROBED, ids=lambda rule: rule.name)
def test_a_fact_is_only_data(rule: Rule, marker: Path, probe) -> None:
    experiment = rule.experiment
    assert experiment is not None
    for attack in attacks(marker):
        for name in experiment.facts:
            probe(rule.code, **{name: attack})
        probe(rule.code, **dict.fromkeys(experiment.facts, attack))
    assert_untouched(marker)


def attacks(marker: Path) -> list[Any]:
    expression = bomb(marker)
    return [expression, f"'\n{expression}\n'", [expression], [[expression]], {"x": expression}, "\x00", "", None, -1]


def assert_untouched(marker: Path) -> None:
    assert not marker.exists()
    assert (marker.parent / "precious").is_dir()
