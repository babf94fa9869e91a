"""Small models with the parts of those that torchvision has, and the outputs of models."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from placement_lint.probe.standins.callers import unpacked
from placement_lint.probe.standins.sizes import COUNT, WIDTH

ZOO = "torchvision.models."
FAMILIES = {  # by family the number of the last layer of its classifier, None where that is the classifier itself
    "alexnet": 6, "vgg": 6, "mobilenet_v2": 1, "mobilenet_v3": 3, "efficientnet": 1, "densenet": None, "mnasnet": 1,
}  # fmt: skip
SIZED = {  # the models of a family
    "resnet": ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d", "resnext101_32x8d",
               "wide_resnet50_2", "wide_resnet101_2"),
    "vgg": [f"vgg{size}{norm}" for size in (11, 13, 16, 19) for norm in ("", "_bn")],
    "efficientnet": [*(f"efficientnet_b{size}" for size in range(8)), "efficientnet_v2_s", "efficientnet_v2_m"],
    "densenet": ("densenet121", "densenet161", "densenet169", "densenet201"), "alexnet": ("alexnet",),
    "mobilenet_v2": ("mobilenet_v2",), "mobilenet_v3": ("mobilenet_v3_large", "mobilenet_v3_small"),
    "mnasnet": ("mnasnet0_5", "mnasnet1_0"),
}  # fmt: skip


def convolved(channels: int, features: int = WIDTH) -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, features, 3, padding=1), torch.nn.BatchNorm2d(features), torch.nn.ReLU()
    )


class Residual(torch.nn.Module):
    """A small model with the parts of a ResNet, and with as many features."""

    def __init__(self, classes: int, features: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(WIDTH)
        self.relu, self.maxpool = torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2, self.layer3 = (convolved(WIDTH) for _ in range(3))
        self.layer4 = convolved(WIDTH, features)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(features, classes)

    def forward(self, x: Any) -> Any:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


class Classifying(torch.nn.Module):
    """A small model with the parts of a VGG: its classifier is one layer, or several up to number ``last``."""

    def __init__(self, classes: int, last: int | None) -> None:
        super().__init__()
        self.features = convolved(3)
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        head = torch.nn.Linear(WIDTH, classes)
        before = [torch.nn.Linear(WIDTH, WIDTH) if i % 3 == 0 else torch.nn.Dropout() for i in range(last or 0)]
        self.classifier = head if last is None else torch.nn.Sequential(*before, head)

    def forward(self, x: Any) -> Any:
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def families() -> dict[str, Callable[..., Any]]:
    """The builders of torchvision's models by name."""

    def builder(family: str, features: int) -> Callable[..., Any]:
        def build(given: Any, named: Any) -> Any:
            classes = named.get("num_classes", 1000)
            number = classes if isinstance(classes, int) else COUNT
            return Residual(number, features) if family == "resnet" else Classifying(number, FAMILIES[family])

        return build

    return {
        name: builder(family, 512 if name in ("resnet18", "resnet34") else 2048)
        for family, names in SIZED.items()
        for name in names
    }


class Outputs(dict):  # type: ignore[type-arg]
    """The outputs of a model that is called with keywords alone: the same for every name."""

    def __init__(self, output: Any) -> None:
        super().__init__(output=output)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self["output"].float().mean() if name == "loss" else self["output"]

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__("output") if key != "loss" else super().__getitem__("output").mean()

    def __iter__(self) -> Any:
        return iter([self["output"]] * (unpacked(sys._getframe(1)) or 1))
