"""How much there is of what stand-ins stand for, and which of them a program has used."""

from __future__ import annotations

COUNT = 8  # how much there is of anything
WIDTH = 16  # of a layer
BATCHES = 2  # of a loader
SIDE = 64  # of an image
LENGTH = 2048  # of a table
LETTERS = 2**12  # of a text
SIZES = {"mnist": (1, 28, 28), "cifar": (3, 32, 32), "svhn": (3, 32, 32), "usps": (1, 16, 16), "stl": (3, 96, 96)}
NAME = "data/0"  # a path, where there is nothing to choose
TEXT = "".join(f"{i} {i}\n" for i in range(COUNT))
used: set[str] = set()  # what was called or derived from
