"""Programs for measurements: training scripts of any length, with the usual parts of such scripts."""

from __future__ import annotations

HEAD = """\
import argparse
import os

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

"""
BLOCK = '''
class Block{n}(nn.Module):
    """A residual block with a gate."""

    def __init__(self, width, dropout=0.1):
        super().__init__()
        self.first = nn.Linear(width, 2 * width)
        self.second = nn.Linear(2 * width, width)
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Parameter(torch.zeros(width))
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("scale", torch.ones(width))

    def forward(self, x):
        hidden = F.relu(self.first(self.norm(x)))
        hidden = self.dropout(self.second(hidden))
        noise = torch.randn(x.shape[0], x.shape[1], device=x.device)
        return x + torch.sigmoid(self.gate) * hidden * self.scale + 0.01 * noise


def train_block{n}(model, loader, optimizer, device, epochs=1):
    model.train()
    total, correct = 0, 0
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            optimizer.zero_grad()
            logits = model(x)
            loss = F.cross_entropy(logits, y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += y.size(0)
            correct += (logits.argmax(dim=1) == y).sum().item()
            if step % 100 == 0:
                print(f"epoch {{epoch}} step {{step}} loss {{loss.item():.4f}} accuracy {{correct / total:.3f}}")
    return correct / max(total, 1)

'''
NET = """
class Net(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.blocks = nn.Sequential({blocks})
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x))


def evaluate(model, loader, device):
    model.eval()
    hits = 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=0.1)
    args = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    data = TensorDataset(torch.randn(256, 16), torch.randint(0, 4, (256,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = Net(16, 4).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)
    for epoch in range(args.epochs):
{rounds}
        scheduler.step()
        print(epoch, evaluate(model, loader, device))
    sample = torch.randn(4, 16)
    sample.to(device)
    print(model(sample.to(device)))
    torch.save(model.state_dict(), os.path.join("out", "model.pt"))


if __name__ == "__main__":
    main()
"""


def training_file(lines: int) -> str:
    """A program of at least this many lines: blocks, training functions, and a main that uses some of them."""
    fixed = len((HEAD + NET).splitlines())
    count = max(1, -(-(lines - fixed) // (len(BLOCK.splitlines()) + 1)))
    blocks = ", ".join(f"Block{n}(width)" for n in range(min(count, 6)))
    rounds = "\n".join(
        f"        train_block{n}(model, loader, optimizer, device, args.epochs)" for n in range(min(count, 2))
    )
    return HEAD + "".join(BLOCK.format(n=n) for n in range(count)) + NET.format(blocks=blocks, rounds=rounds)
