"""Simulated training gives the same losses as plain CPU runs."""

import pytest
import torch
from models import CNN, LSTM, Transformer, batches
from torch import nn

from placement_lint.simulate import gpus

STEPS = 20
OPTIMIZERS = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "SGD with momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9),
    "Adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=1e-2),
}


def train(kind, optimizer, device, wrap=False, amp=False):
    torch.manual_seed(0)
    model = kind().to(device)
    model = nn.DataParallel(model) if wrap else model
    optimizer = OPTIMIZERS[optimizer](model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=amp and device == "cuda")
    losses = []
    for inputs, labels in batches(kind, STEPS):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=amp):
            output = model(inputs.to(device))
        loss = nn.functional.cross_entropy(output.float(), labels.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", [CNN, LSTM, Transformer])
def test_losses_are_those_of_the_cpu(kind, optimizer):
    expected = train(kind, optimizer, "cpu")
    assert expected[-1] != expected[0]
    for count in (1, 2, 4):
        with gpus(count):
            assert train(kind, optimizer, "cuda", wrap=True) == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("kind", [CNN, LSTM, Transformer])
def test_mixed_precision_follows_the_cpu(kind):
    expected = train(kind, "Adam", "cpu")
    for count in (1, 2):
        with gpus(count):
            assert train(kind, "Adam", "cuda", wrap=count > 1, amp=True) == pytest.approx(expected, rel=0.05)


def test_uneven_chunks_give_the_same_gradient():
    torch.manual_seed(0)
    layer, values = nn.Linear(3, 2), torch.randn(5, 3)
    layer(values).pow(2).mean().backward()
    expected = layer.weight.grad.clone()
    layer.zero_grad()
    with gpus(4):
        nn.DataParallel(layer.cuda())(values).pow(2).mean().backward()
        assert torch.allclose(layer.weight.grad.cpu(), expected, atol=1e-6)


def test_losses_in_forward_are_weighed_by_the_replica():
    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, values):
            return (self.weight * values).mean().view(1)

    with gpus(4):
        model = Loss().cuda()
        nn.DataParallel(model)(torch.ones(8, 1)).sum().backward()
        assert model.weight.grad.item() == 4
