"""The pattern of each finding in the fixtures is reproduced with the finding's own facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from placement_lint.checking.checker import Checker, Job
from placement_lint.config.settings import Settings
from placement_lint.finding import Outcome, Severity
from placement_lint.probe.prober import Prober
from placement_lint.registry import find_rule

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"
FOLDERS = sorted(path for path in FIXTURES.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def checker() -> Checker:
    return Checker(Job(Settings(root=FIXTURES)))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_patterns_are_reproduced(folder: Path, checker: Checker, prober: Prober) -> None:
    unproved = []
    for path in sorted(folder.rglob("*.py")):
        for finding in checker.check_file(str(path)).findings:
            experiment = find_rule(finding.code).experiment
            if experiment is None:
                # It is no claim about PyTorch.
                assert finding.severity is Severity.INFO, finding.code
                continue
            verdict = prober.verdict(experiment, dict(finding.facts))
            if verdict.outcome is not Outcome.REPRODUCED:
                place = f"{path}:{finding.range.line}: {finding.code}"
                unproved.append(f"{place} {dict(finding.facts)}: {verdict.outcome.value}, {verdict.observed}")
    assert not unproved, "\n".join(unproved)


def facts(source: str, rule: str) -> dict[str, object]:
    """The facts of the only finding of a rule in a program."""
    checked = Checker(Job(Settings(), select=(rule,))).check_bytes(source.encode(), "program.py")
    (finding,) = checked.findings
    return dict(finding.facts)


def wrapped(move: str, ids: str) -> str:
    call = f"nn.DataParallel(nn.Linear(4, 2){move}, device_ids={ids})(torch.ones(4, 4))"
    return f"import torch\nfrom torch import nn\n{call}\n"


def test_facts_are_those_of_the_program() -> None:
    assert facts(wrapped(".to('cuda:2')", "[1, 0, 2]"), "DPL401") == {"place": "cuda:2", "device_ids": (1, 0, 2)}
    assert facts(wrapped("", "None"), "DPL401") == {"place": "cpu", "device_ids": (0, 1)}
    replica = find_rule("DPL119").page.example.replace(".to(device))", ".to(device), device_ids=[1, 0])")
    assert facts(replica, "DPL119") == {"method": "parameters", "device_ids": (1, 0)}
    optimizer = find_rule("DPL201").page.example
    assert facts(optimizer, "DPL201") == {
        "optimizer": "Adagrad",
        "state": "built",
        "source": "cpu",
        "target": "cuda:0",
    }
