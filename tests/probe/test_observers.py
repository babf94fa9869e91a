"""The checks that detect a fault in a program pass in correct programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from placement_lint.probe import observers
from placement_lint.simulate import gpus


@pytest.fixture(autouse=True)
def two_gpus() -> Iterator[None]:
    with gpus(2):
        yield


class Encoder(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.rnn = nn.GRU(4, 4, batch_first=batch_first)

    def forward(self, x: torch.Tensor) -> Any:
        return self.rnn(x)[0]


class Losses(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).square().mean()


@pytest.mark.parametrize(
    ("module", "same"),
    [(Encoder(batch_first=True), True), (Encoder(batch_first=False), False), (Losses(4, 4), True)],
)
def test_a_wrapper_is_compared_with_its_module(module: nn.Module, same: bool) -> None:
    wrapper = nn.DataParallel(module.cuda())
    assert observers.as_bare(wrapper, torch.randn(4, 4, 4)) is same
    assert observers.as_bare(module, torch.randn(4, 4, 4))


def test_rows_that_are_dropped_are_noticed() -> None:
    class Scaled(nn.Linear):
        def forward(self, x: torch.Tensor, scale: Any = None) -> torch.Tensor:
            return super().forward(x) * scale

    wrapper = nn.DataParallel(Scaled(4, 4).cuda())
    assert not observers.as_bare(wrapper, torch.randn(8, 4), torch.ones(1))
    assert observers.as_bare(wrapper, torch.randn(8, 4), torch.ones(8, 1))


def test_a_part_that_is_kept_is_the_same_in_each_call() -> None:
    owner = nn.Module()
    observers.as_before(owner, observers.kept(owner, "part", lambda: nn.Linear(2, 2)))
    observers.as_before(owner, observers.kept(owner, "part", lambda: nn.Linear(2, 2)))
    with pytest.raises(AssertionError, match="new weights"):
        observers.as_before(owner, nn.Linear(2, 2))


def test_modules_without_parameters_may_be_made_in_each_call() -> None:
    owner = nn.Module()
    for _ in range(2):
        observers.as_before(owner, nn.Softmax(dim=1))


def test_what_one_gpu_changes_is_not_shared() -> None:
    kept: list[int] = []
    assert not observers.is_shared([(kept, 0), (kept, 0)])
    assert not observers.is_shared([([1], 0), ([1], 1)])
    assert observers.is_shared([(kept, 0), (kept, 1)])


def test_a_copy_of_a_buffer_is_lost() -> None:
    model = nn.BatchNorm1d(2)
    mean = model.running_mean
    assert mean is not None
    assert not observers.is_lost([(mean, 0)], model)
    assert observers.is_lost([(mean, 0), (mean.clone(), 1)], model)


def test_an_optimizer_adopts_what_it_does_not_hold() -> None:
    held, missed = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = torch.optim.SGD(held.parameters(), lr=0.1)
    assert observers.trains(optimizer, held)
    assert not observers.trains(optimizer, missed)
    observers.adopt(optimizer, missed)
    assert observers.trains(optimizer, missed)


def test_only_tensors_move() -> None:
    moved = observers.moved({"x": torch.ones(1), "name": "x"}, "cuda:1")
    assert moved["x"].device.index == 1
    assert moved["name"] == "x"
