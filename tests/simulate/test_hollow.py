"""A hollow machine skips the arithmetic on large tensors, and is the same as another one in everything else."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from placement_lint.simulate import gpus

SIDE = 64


def deep():
    layers = [part for _ in range(3) for part in (nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(True))]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(1), nn.Flatten())


def seen(value):
    return value.shape, value.stride(), value.dtype, value.device, value.requires_grad


def traced():
    """What a training step of several layers makes, in order."""
    model = nn.DataParallel(nn.Sequential(nn.Conv2d(3, 8, 3, stride=1), deep(), nn.Linear(8, 4)).cuda())
    optimizer = torch.optim.Adam(model.parameters())
    images = torch.randn(8, 3, SIDE, SIDE).cuda()
    output = model(images)
    loss = F.cross_entropy(output, torch.zeros(8, dtype=torch.long).cuda())
    loss.backward()
    optimizer.step()
    largest = images.amax((2, 3))
    half, chosen = images.half(), images.topk(3, dim=1)[1]
    gradients = [parameter.grad for parameter in model.parameters()]
    return [*map(seen, (output, loss, largest, half, chosen, images.permute(0, 2, 3, 1) + 1, *gradients))]


def test_a_result_that_is_too_large_for_the_machine_is_named(monkeypatch):
    def refused(*_):
        raise OSError(12, "Cannot allocate memory")

    with gpus(1, hollow=True):
        x = torch.randn(2**8, 2**8, 4).cuda()
        monkeypatch.setattr("placement_lint.simulate.hollow.mmap.mmap", refused)
        monkeypatch.setattr("placement_lint.simulate.hollow._regions", [])
        with pytest.raises(MemoryError):
            x * 2


def test_results_have_the_same_shapes_and_places():
    with gpus(2):
        expected = traced()
    with gpus(2, hollow=True) as machine:
        assert traced() == expected
        assert machine.is_hollowed


def test_large_results_take_no_memory_and_no_time():
    with gpus(1, hollow=True):
        a = torch.empty(2**14, 2**14, device="cuda")
        assert (a @ a).exp().sum().isfinite()


def test_operands_on_different_devices_are_refused():
    with gpus(1, hollow=True), pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.randn(SIDE, SIDE, SIDE).cuda() + torch.randn(SIDE, SIDE, SIDE)


def test_shapes_that_do_not_fit_are_refused():
    with gpus(1, hollow=True), pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"):
        torch.randn(SIDE * SIDE, SIDE).cuda() @ torch.randn(SIDE * SIDE, SIDE).cuda()


def test_indices_out_of_range_are_refused():
    with gpus(1, hollow=True), pytest.raises(RuntimeError, match="device-side assert triggered"):
        F.embedding(torch.tensor([SIDE * SIDE]).cuda(), torch.randn(SIDE * SIDE, SIDE).cuda())


def test_small_tensors_have_their_values():
    with gpus(1, hollow=True) as machine:
        assert torch.tensor([1.0, 2.0]).cuda().sum().item() == 3
        assert not machine.is_hollowed


def test_whole_numbers_and_what_is_drawn_have_their_values():
    with gpus(1, hollow=True):
        assert torch.arange(2 * SIDE**3).cuda().max().item() == 2 * SIDE**3 - 1
        assert torch.randn(SIDE, SIDE).unique().numel() > 1


def test_a_program_can_divide_by_small_results():
    with gpus(1, hollow=True):
        error = F.mse_loss(torch.zeros(SIDE, SIDE, SIDE).cuda(), torch.zeros(SIDE, SIDE, SIDE).cuda())
        assert 1 / error.item() > 0
