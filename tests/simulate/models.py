"""The three models on which numbers and costs are measured, and their data."""

import torch
from torch import nn


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.head = nn.Linear(32 * 8 * 8, 10)

    def forward(self, images):
        for layer in (self.first, self.second):
            images = torch.max_pool2d(torch.relu(layer(images)), 2)
        return self.head(images.flatten(1))


class LSTM(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(16, 64, batch_first=True)
        self.head = nn.Linear(64, 10)

    def forward(self, sequences):
        return self.head(self.layers(sequences)[0][:, -1])


class Transformer(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, sequences):
        return self.head(self.layers(sequences).mean(1))


SHAPES = {CNN: (32, 3, 32, 32), LSTM: (32, 20, 16), Transformer: (32, 20, 32)}


def batches(kind, count):
    generator = torch.Generator().manual_seed(1)
    for _ in range(count):
        inputs = torch.randn(SHAPES[kind], generator=generator)
        yield inputs, torch.randint(0, 10, (len(inputs),), generator=generator)
