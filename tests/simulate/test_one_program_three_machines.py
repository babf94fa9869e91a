"""The same program with no GPU, one and two: the cases in which DataParallel changes a program's results."""

import pytest
import torch
from programs import Does
from torch import nn

from placement_lint.simulate import gpus

MIXED = "Expected all tensors to be on the same device"


def device():
    return "cuda:0" if torch.cuda.is_available() else "cpu"


def batch(rows=4):
    return torch.randn(rows, 3)


def wrapped(forward):
    return nn.DataParallel(Does(forward).to(device()))


def shape_and_device(tensor):
    return tuple(tensor.shape), str(tensor.device)


PROGRAMS = {
    "model never moved": (
        lambda: shape_and_device(nn.DataParallel(Does(lambda m, x: m.layer(x)))(batch())),
        (((4, 1), "cpu"), ((4, 1), "cuda:0"), RuntimeError("found one of them on device: cpu")),
    ),
    "scalar loss": (lambda: tuple(wrapped(lambda m, x: m.layer(x).mean())(batch()).shape), ((), (), (2,))),
    "0-dim argument": (
        lambda: tuple(wrapped(lambda m, x, t: m.layer(x) * t)(batch(), torch.tensor(2.0)).shape),
        ((4, 1), *[RuntimeError("chunk expects at least a 1-dimensional tensor")] * 2),
    ),
    "1-element argument": (
        lambda: tuple(wrapped(lambda m, x, t: m.layer(x) * t)(batch(), torch.tensor([2.0])).shape),
        ((4, 1), (4, 1), (2, 1)),
    ),
    "python float": (
        lambda: wrapped(lambda m, x: 1.5)(batch()),
        (1.5, 1.5, TypeError("'float' object is not iterable")),
    ),
    "string": (lambda: wrapped(lambda m, x: "abc")(batch())[:4], ("abc", "abc", "<map")),
    "counter": (
        lambda: (lambda model: (nn.DataParallel(model)(batch()), model.counter)[1])(
            Does(lambda m, x: m.layer(x)).to(device())
        ),
        (1, 1, 0),
    ),
    "parameters in forward": (
        lambda: tuple(wrapped(lambda m, x: m.layer(x.to(next(m.parameters()).device)))(batch()).shape),
        ((4, 1), (4, 1), StopIteration("in replica 0 on device 0")),
    ),
    "hard-coded first device": (
        lambda: tuple(wrapped(lambda m, x: m.layer(x) + torch.zeros(1, device=device()))(batch()).shape),
        ((4, 1), (4, 1), RuntimeError("in replica 1 on device 1")),
    ),
    "plain tensor": (
        lambda: tuple(wrapped(lambda m, x: m.layer(x + m.plain))(batch()).shape),
        ((4, 1), RuntimeError(MIXED), RuntimeError("in replica 0 on device 0")),
    ),
    "attribute of the wrapper": (
        lambda: wrapped(lambda m, x: x).layer,
        [AttributeError("'DataParallel' object has no attribute 'layer'")] * 3,
    ),
    "state_dict": (
        lambda: list(nn.DataParallel(nn.Linear(1, 1)).state_dict()),
        [["module.weight", "module.bias"]] * 3,
    ),
    "output device": (
        lambda: nn.DataParallel(nn.Linear(1, 1)).output_device,
        (AttributeError("output_device"), 0, 0),
    ),
    "one row and a flag": (
        lambda: tuple(wrapped(lambda m, x, flag=0: m.layer(x))(batch(1), flag=True).shape),
        ((1, 1), (1, 1), TypeError("missing 1 required positional argument")),
    ),
}


@pytest.mark.filterwarnings("ignore:Was asked to gather")
@pytest.mark.parametrize(
    ("name", "count", "expected"),
    [(name, count, row[count]) for name, (_, row) in PROGRAMS.items() for count in (0, 1, 2)],
)
def test_program(name, count, expected):
    program = PROGRAMS[name][0]
    with gpus(count):
        if isinstance(expected, Exception):
            with pytest.raises(type(expected)) as caught:
                program()
            assert type(caught.value) is type(expected)
            assert str(expected) in str(caught.value)
        else:
            assert program() == expected
