"""What small programs give on simulated GPUs is what PyTorch's own code gives on real ones (see `agreement`)."""

import warnings
from pathlib import Path

import pytest
import torch
from agreement import Raises, machine, other_kinds, tensors, training
from programs import outcome
from releases import RELEASE

from placement_lint.simulate import gpus

MACHINES = {
    "cuda": {**machine.AREAS, **tensors.AREAS, **training.AREAS},
    "mps": other_kinds.MAC_AREAS,
    "xpu": other_kinds.INTEL_AREAS,
}
PROGRAMS = {
    f"{kind}, {area}: {name}": (kind, program)
    for kind, areas in MACHINES.items()
    for area, programs in areas.items()
    for name, program in programs.items()
}
# Sources that are in PyTorch's repository only.
ELSEWHERE = ("aten/", "c10/", "torch/csrc/")


pytestmark = pytest.mark.skipif(RELEASE < (2, 13), reason="the programs are for PyTorch 2.13")


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name):
    kind, program = PROGRAMS[name]
    with gpus(1 if kind == "mps" else 2, device=kind), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = outcome(program.action)
    if isinstance(program.expected, Raises):
        assert isinstance(result, tuple), result
        assert isinstance(result[0], type), result
        assert issubclass(result[0], program.expected.kind), result
        assert program.expected.text in result[1]
    else:
        assert result == program.expected


@pytest.mark.skipif(RELEASE != (2, 13), reason="sources are named as in PyTorch 2.13")
def test_sources_exist():
    root = Path(torch.__file__).parent
    for name, (_, program) in PROGRAMS.items():
        file, _, function = program.source.partition(": ")
        if not file.startswith(ELSEWHERE):
            assert function in (root / file).read_text(encoding="utf-8"), name
