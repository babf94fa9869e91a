"""``probe`` and ``check --probe``."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from placement_lint import errors
from placement_lint.cli import main
from placement_lint.finding import Level, Outcome, Verdict
from placement_lint.probe.prober import Prober
from placement_lint.registry import all_rules, find_rule
from placement_lint.report.results import Run

BUG = find_rule("DPL501").page.example
FOLKLORE = find_rule("DPL904").page.example

pytestmark = pytest.mark.usefixtures("own_cache", "one_sandbox")


@pytest.fixture
def checked(write: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Check a text; the exit status and what was printed."""

    def check(text: str, *arguments: str) -> tuple[int, str]:
        write("train.py", text)
        status = main(["check", *arguments, "train.py"])
        return status, capsys.readouterr().out

    return check


def test_the_table_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "--probe", "simulated", "--format", "json"]) == 0
    table = json.loads(capsys.readouterr().out)
    assert table["version"] == 1
    assert table["torch"]
    assert table["device"] == "simulated GPUs"
    rules = [rule for rule in all_rules() if rule.experiment is not None]
    assert [(row["code"], row["name"]) for row in table["rows"]] == [(rule.code, rule.name) for rule in rules]
    for row in table["rows"]:
        assert row["outcome"] == ("refuted" if row["code"].startswith("DPL9") else "reproduced")
        assert row["level"] == "pattern"
        assert row["claim"]
        assert row["flagged"]
        assert row["control"]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("rich", ["DPL401", "module-not-on-first-device", "reproduced", "simulated GPUs"]),
        ("markdown", ["| Rule | Claim |", "| DPL401 `module-not-on-first-device` |", "| **reproduced** |"]),
    ],
)
def test_the_table_for_people(form: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "DPL401", "--probe", "simulated", "--format", form]) == 0
    printed = capsys.readouterr().out
    assert all(word in printed for word in words)


def test_rules_are_selected_as_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", "folklore", "DPL401", "--probe", "simulated", "--format", "json"]) == 0
    codes = [row["code"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert codes == ["DPL401", *(f"DPL90{number}" for number in range(1, 7))]
    assert main(["probe", "DPL001"]) == 2
    assert main(["probe", "nonsense"]) == 2


def test_too_few_gpus_are_said(capsys: pytest.CaptureFixture[str]) -> None:
    if torch_sees_gpus():
        pytest.skip("this machine has GPUs")
    assert main(["probe", "DPL118", "--probe", "gpu", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["outcome"] == "inconclusive"
    assert row["flagged"] == "not run: needs 2 GPUs, found 0"


def torch_sees_gpus() -> bool:
    import torch

    return torch.cuda.is_available()


def test_a_pattern_is_reproduced_in_full(checked) -> None:
    status, printed = checked(BUG, "--probe", "simulated")
    assert status == 1
    assert "probe: pattern reproduced (2 simulated GPUs, torch " in printed
    assert "the move had no effect: it is on cpu; repaired: it is on cuda:0" in printed


def test_a_pattern_is_reproduced_concisely(checked) -> None:
    _, printed = checked(BUG, "--probe", "simulated", "--format", "concise")
    assert printed.splitlines()[0].endswith(f"[pattern reproduced on 2 simulated GPUs, torch {version('torch')}]")


def test_a_pattern_is_reproduced_in_json(checked) -> None:
    _, printed = checked(BUG, "--probe", "simulated", "--format", "json")
    (finding,) = json.loads(printed)["findings"]
    assert finding["verdict"]["level"] == "pattern"
    assert finding["verdict"]["outcome"] == "reproduced"
    assert finding["verdict"]["device"].startswith("2 simulated GPUs")
    assert set(finding["verdict"]) == {"level", "outcome", "device", "observed", "expected"}


def test_nothing_is_probed_unasked(checked) -> None:
    _, printed = checked(BUG, "--format", "json")
    (finding,) = json.loads(printed)["findings"]
    assert finding["verdict"] is None


def test_what_is_refuted_is_shown_and_does_not_fail(checked) -> None:
    arguments = ("--select", "DPL904", "--fail-on", "info", "--format", "concise")
    assert checked(FOLKLORE, *arguments)[0] == 1
    status, printed = checked(FOLKLORE, *arguments, "--probe", "simulated")
    assert status == 0
    assert "DPL904" in printed
    assert "[pattern refuted on " in printed
    assert checked(FOLKLORE, *arguments, "--probe", "simulated", "--strict-probes")[0] == 1


@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("outcome", [Outcome.REFUTED, Outcome.INCONCLUSIVE])
def test_only_a_refuted_finding_does_not_fail(
    level: Level, outcome: Outcome, checked: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def probed(run: Run, *_: object) -> Run:
        verdict = Verdict(level, outcome, "2 simulated GPUs", "seen", "expected")
        return replace(run, findings=tuple(replace(finding, verdict=verdict) for finding in run.findings))

    monkeypatch.setattr("placement_lint.probe.findings.probed", probed)
    assert checked(BUG, "--probe", "simulated")[0] == (outcome is not Outcome.REFUTED)
    assert checked(BUG, "--probe", "simulated", "--strict-probes")[0] == 1


def test_verdicts_are_remembered(checked, own_cache: Path, prober: Prober, monkeypatch: pytest.MonkeyPatch) -> None:
    first = checked(BUG, "--probe", "simulated", "--format", "concise")[0]
    assert (own_cache / "placement-lint" / "verdicts.json").exists()
    monkeypatch.setattr(prober.sandbox, "run", None)
    assert checked(BUG, "--probe", "simulated", "--format", "concise")[0] == first


def test_a_file_without_findings_starts_nothing(checked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("placement_lint.probe.findings.Sandbox", None)
    assert checked("import torch\n", "--probe", "auto")[0] == 0


@pytest.mark.parametrize("arguments", [("probe",), ("check", "--probe", "auto", "train.py")])
def test_without_pytorch_it_says_what_to_install(
    arguments: tuple[str, ...],
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write("train.py", BUG)
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    assert main(list(arguments)) == 2
    assert "pip install torch" in capsys.readouterr().err


def test_a_program_is_imported_from_where_its_project_has_it(
    write: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """The folder of a module is not searched for its imports; another folder of the project is."""
    write("code/net/__init__.py", "width = 4\n")
    write("code/lib/net.py", NET)
    write("code/src/train.py", TRAIN)
    main(["check", "--probe", "simulated", "--trust", "--format", "json", "code"])
    findings = json.loads(capsys.readouterr().out)["findings"]
    told = [(one["path"], one["verdict"]["outcome"], one["verdict"]["device"]) for one in findings]
    assert [outcome for _, outcome, _ in told] == ["confirmed"], findings
    assert told[0][0].endswith("net.py")
    assert told[0][2].startswith("a simulated machine without a GPU")


NET = """
from torch import nn
from net import width


def build():
    return nn.Linear(width, 2).cuda()
"""
TRAIN = """
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from lib.net import build

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
print(build()(torch.ones(8, 4).to(device)))
"""
