"""Measures the cost of simulation: ``python tests/simulate/measure_cost.py`` prints simulated against plain CPU time.

Each model is trained for 20 steps with Adam; the median of five runs counts, on one CPU thread.
"""

import statistics
import time

import torch
from models import CNN, LSTM, Transformer, batches
from torch import nn

from placement_lint.simulate import gpus

STEPS, RUNS = 20, 5


def train(kind, device, wrap):
    model = kind().to(device)
    model = nn.DataParallel(model) if wrap else model
    optimizer = torch.optim.Adam(model.parameters())
    for inputs, labels in batches(kind, STEPS):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs.to(device)), labels.to(device)).backward()
        optimizer.step()


def seconds(kind, device, wrap=False):
    times = []
    for _ in range(RUNS + 1):
        begin = time.perf_counter()
        train(kind, device, wrap)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[1:])


def main():
    torch.set_num_threads(1)
    print(f"{'model':12} {'plain CPU':>10} {'1 GPU':>8} {'2 GPUs':>8} {'4 GPUs':>8}")
    for kind in (CNN, LSTM, Transformer):
        plain = seconds(kind, "cpu")
        cells = [f"{plain / STEPS * 1000:7.2f} ms"]
        for count in (1, 2, 4):
            with gpus(count):
                cells.append(f"{seconds(kind, 'cuda', wrap=count > 1) / plain:7.2f}x")
        print(f"{kind.__name__:12}", *cells)


if __name__ == "__main__":
    main()
