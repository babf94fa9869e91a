"""Transforms of torchvision that make tensors of images: these are on the CPU.

Read in torchvision 0.24: `transforms/functional.py` (`to_tensor` and `pil_to_tensor` use `torch.from_numpy`),
`transforms/transforms.py` (`Compose` calls one after the other) and `transforms/v2`.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import CPU, External, Kind, Object, Sequence, Source, Symbol, Tensor, Value
from placement_lint.flow.models import factories, operations
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import ITEMS
from placement_lint.flow.state.machine import Machine

_MODULES = ("torchvision.transforms", "torchvision.transforms.v2", "torchvision.transforms.transforms")
_FUNCTIONS = ("torchvision.transforms.functional", "torchvision.transforms.v2.functional")
# Of an image that is no tensor these make one.
_MAKING = {"ToTensor", "PILToTensor", "ToImage"}
# Of a tensor these make another one where it is; of an image, an image.
_KEEPING = {
    "Normalize", "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "Pad", "Grayscale",
    "RandomVerticalFlip", "RandomRotation", "RandomAffine", "ColorJitter", "GaussianBlur", "RandomErasing",
    "ConvertImageDtype", "ToDtype", "RandomGrayscale",
}  # fmt: skip
_MAKING_FUNCTIONS = {"to_tensor", "pil_to_tensor", "to_image"}

TRANSFORM = External("torchvision.transforms.Transform")
METHODS = {"__call__"}

_MAKERS = {f"{module}.{name}" for module in _MODULES for name in _MAKING}
_COMPOSERS = {f"{module}.Compose" for module in _MODULES}
_MAKING_NAMES = {f"{module}.{name}" for module in _FUNCTIONS for name in _MAKING_FUNCTIONS}
# These are modules as well, and may be a part of one: what stands for one is not known but for this type.
KEEPING = "torchvision.transforms.Transform"
_KEEPERS = {f"{module}.{name}": KEEPING for module in _MODULES for name in _KEEPING}
# Data sets that are the same for everyone, while those of folders are the user's.
_FIXED = "torchvision.datasets.VisionDataset"
_DATASETS = (
    "CIFAR10", "CIFAR100", "EMNIST", "FashionMNIST", "KMNIST", "LSUN", "MNIST", "Omniglot", "QMNIST", "STL10", "SVHN",
    "USPS", "CelebA", "Cityscapes", "CocoCaptions", "CocoDetection", "ImageNet", "Places365", "SBDataset",
    "VOCDetection", "VOCSegmentation",
)  # fmt: skip
# The types of what these classes make, of which nothing else is known.
TYPES = {**_KEEPERS, **{f"torchvision.datasets.{name}": _FIXED for name in _DATASETS}}


def maker(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``ToTensor()``"""
    return _composed(machine, (External(name),), node)


def compose(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Compose([Resize(32), ToTensor()])``"""
    items = content(machine, arguments.get(0, "transforms") or machine.fresh())
    return _composed(machine, items.items, node) if items is not None and items.exact else machine.fresh(node)


def _composed(machine: Machine, steps: tuple[Value, ...], node: cst.Call) -> Value:
    made = machine.new_object(Kind.OTHER, TRANSFORM, node)
    machine.write(made.id, ITEMS, Sequence(steps))
    return made


def apply(machine: Machine, target: Object, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``transform(image)``: one step after the other."""
    steps, value = machine.read(target.id, ITEMS), arguments.get(0) or machine.fresh(node)
    for step in steps.items if isinstance(steps, Sequence) else ():
        value = machine.lift(partial(_stepped, machine, node), step, value)
    return value


def _stepped(machine: Machine, node: cst.Call, step: Value, value: Value) -> Value:
    if isinstance(step, External):
        return made(machine, step.name, Arguments((value,)), node)
    if isinstance(step, Object) and step.cls == TRANSFORM:
        return apply(machine, step, "__call__", Arguments((value,)), node)
    return kept(machine, value, node) if is_keeper(step) else machine.fresh(node)


def made(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``to_tensor(image)``"""
    image = arguments.get(0) or machine.fresh(node)
    if isinstance(image, Tensor):
        return image
    return factories.new(machine, CPU, False, Source.FACTORY, node, "tensor on the CPU made here")


def is_keeper(value: Value) -> bool:
    """Whether it is a transform that leaves its tensor where it is."""
    return isinstance(value, Symbol) and value.type == KEEPING


def kept(machine: Machine, value: Value, node: cst.Call) -> Value:
    """What such a transform makes of a tensor or an image."""
    return machine.lift(
        lambda option: operations.derive(option, "a transform", node) if isinstance(option, Tensor) else option, value
    )


def has_fixed_size(dataset: Value | None) -> bool:
    return isinstance(dataset, Symbol) and dataset.type == _FIXED


CALLS: Handlers = {
    **dict.fromkeys(_MAKERS, maker),
    **dict.fromkeys(_COMPOSERS, compose),
    **dict.fromkeys(_MAKING_NAMES, made),
}
