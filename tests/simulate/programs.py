"""Small modules that the tests share, and the outcome of running something."""

import torch
from torch import nn


def outcome(action):
    """What an action gives: its value, or the type and the telling part of its error."""
    try:
        return action()
    except Exception as error:
        return type(error), str(error)


def fails(result, kind, *fragments):
    return isinstance(result, tuple) and result[0] is kind and all(part in result[1] for part in fragments)


class Does(nn.Module):
    """A module whose forward is a function, with one layer, a counter and a plain tensor to play with."""

    def __init__(self, forward):
        super().__init__()
        self.does = forward
        self.layer = nn.Linear(3, 1)
        self.counter = 0
        self.plain = torch.zeros(3)

    def forward(self, *args, **kwargs):
        self.counter += 1
        return self.does(self, *args, **kwargs)


class SmallCNN(nn.Module):
    """The image classifier of the articles, made to fit 64 x 64 images unless told otherwise."""

    def __init__(self, features=16 * 32 * 32):
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.head = nn.Linear(features, 10)

    def forward(self, images):
        maps = torch.max_pool2d(torch.relu(self.conv(images)), 2)
        return self.head(maps.flatten(1))
