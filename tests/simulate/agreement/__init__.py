"""Small programs by area: what each gives on the simulated machine, and the place in PyTorch that says so.

A source is a file of PyTorch 2.13 and a name in it. Files of the `torch` package are looked up by the test; those below
`aten/`, `c10/` and `torch/csrc/` are only in its repository.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Raises:
    """The type of an error and a part of its text."""

    kind: type[BaseException]
    text: str


@dataclass(frozen=True)
class Program:
    source: str
    action: Any
    expected: Any


def places(*tensors):
    """Where tensors are, each as a string."""
    return tuple(str(tensor.device) for tensor in tensors)


def place(tensor):
    return str(tensor.device)
