"""Transforms of torchvision that make tensors of images: these are on the CPU. And data sets that use them.

Read in torchvision 0.24: `transforms/functional.py` (`to_tensor` and `pil_to_tensor` use `torch.from_numpy`),
`transforms/transforms.py` (`Compose` calls one after the other), `transforms/v2` and `datasets/folder.py`.
"""

from __future__ import annotations

from functools import partial

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import (
    CPU,
    Bound,
    Class,
    External,
    Function,
    Kind,
    Object,
    Sequence,
    Source,
    Symbol,
    Tensor,
    Value,
    alternatives,
)
from placement_lint.flow.models import factories, operations
from placement_lint.flow.models.handlers import Handlers
from placement_lint.flow.state.containers import content
from placement_lint.flow.state.heap import ITEMS, Slot
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
_FUNCTIONS_AS_STEPS = {f"{module}.Lambda" for module in _MODULES}
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
_FIXED_NAMES = frozenset(f"torchvision.datasets.{name}" for name in _DATASETS)
_FOLDERS = frozenset({"torchvision.datasets.ImageFolder", "torchvision.datasets.DatasetFolder"})
_OTHERS = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("Caltech101", "Caltech256", "Country211", "DTD", "EuroSAT", "FakeData", "FGVCAircraft", "Flowers102",
                 "Food101", "GTSRB", "Imagenette", "OxfordIIITPet", "PCAM", "RenderedSST2", "StanfordCars", "SUN397")
)  # fmt: skip
# The types of what these classes make, of which nothing else is known.
TYPES = _KEEPERS
# Of a data set: what makes its images, in order. These are functions and objects of the program.
_MADE_BY = Slot("made by")


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
    if isinstance(step, (Function, Bound)) or (isinstance(step, Object) and isinstance(step.cls, Class)):
        return machine.evaluator.call(machine, step, Arguments((value,)), node)
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


def function(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``Lambda(function)``"""
    return _composed(machine, (arguments.get(0, "lambd") or machine.fresh(node),), node)


def dataset(machine: Machine, name: str, arguments: Arguments, node: cst.Call) -> Value:
    """``ImageFolder("photos", transform=to_tensor, loader=read_image)``"""
    made = machine.fresh(node, _FIXED if name in _FIXED_NAMES else "")
    steps = (arguments.get(3, "loader") if name in _FOLDERS else None, arguments.keyword("transform"))
    machine.write(made.id, _MADE_BY, Sequence(tuple(step for step in steps if step is not None)))
    return made


def sample(machine: Machine, dataset: Symbol, node: cst.CSTNode) -> Value:
    """An image of a data set and its label: on the CPU, unless the program's own code puts it elsewhere."""
    steps = machine.read(dataset.id, _MADE_BY)
    image: Value = machine.fresh("image")
    call = node if isinstance(node, cst.Call) else cst.Call(func=cst.Name("transform"))
    for step in steps.items if isinstance(steps, Sequence) else ():
        image = machine.lift(partial(_stepped, machine, call), step, image)
    moved = any(isinstance(option, Tensor) and option.place != CPU for _, option in alternatives(image))
    return Sequence((image, machine.fresh("label"))) if moved else machine.fresh("sample")


def is_dataset(machine: Machine, value: Symbol) -> bool:
    return machine.read(value.id, _MADE_BY) is not None


def has_fixed_size(dataset: Value | None) -> bool:
    return isinstance(dataset, Symbol) and dataset.type == _FIXED


CALLS: Handlers = {
    **dict.fromkeys(_MAKERS, maker),
    **dict.fromkeys(_COMPOSERS, compose),
    **dict.fromkeys(_MAKING_NAMES, made),
    **dict.fromkeys(_FUNCTIONS_AS_STEPS, function),
    **dict.fromkeys(_FIXED_NAMES | _FOLDERS | _OTHERS, dataset),
}
