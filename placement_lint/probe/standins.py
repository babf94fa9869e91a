"""Stand-ins for what a slice cannot have: packages that are not installed, files that are not there, required options.

The source of this module goes, without its types, into a function at the top of a slice that needs it, so that the
slice runs with torch alone (preludes.py). How a stand-in is used decides what it is. A call makes another one, or gives
back the tensor, function or module that it was given. It is iterated, unpacked and sliced like data; as part of a
module it is a layer with parameters. Shapes are fitted to the layers and losses that take them; devices never change.
"""

from __future__ import annotations

import argparse
import ast
import builtins
import codecs
import collections
import collections.abc
import dis
import functools
import glob
import importlib.machinery
import importlib.util
import inspect
import io
import json
import linecache
import multiprocessing
import numbers
import operator
import os
import pickle
import pkgutil
import random
import re
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.pool import ThreadPool
from typing import Any
from unittest.mock import patch

import torch
from torch.utils import model_zoo
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data._utils import collate

F: Any = torch.nn.functional
COUNT = 8  # how much there is of anything
WIDTH = 16  # of a layer
BATCHES = 2  # of a loader
SIDE = 64  # of an image
LENGTH = 2048  # of a table
SIZES = {"mnist": (1, 28, 28), "cifar": (3, 32, 32), "svhn": (3, 32, 32), "usps": (1, 16, 16), "stl": (3, 96, 96)}
READERS = {  # of packages that may be installed, what takes the path of a file
    "numpy": ("load", "loadtxt", "genfromtxt", "fromfile"), "yaml": ("load", "safe_load"), "PIL.Image": ("open",),
    "cv2": ("imread",), "h5py": ("File",), "pandas": ("read_csv", "read_json", "read_pickle", "read_parquet"),
    "scipy.io": ("loadmat",), "skimage.io": ("imread",), "imageio": ("imread",), "torchvision.io": ("read_image",),
    "csv": ("reader", "DictReader"),
}  # fmt: skip
LOADS = ("load", "loads")
COMPILER = "torch.utils.cpp_extension"  # starts processes, which a slice may not
TABLES = ("numpy.loadtxt", "numpy.genfromtxt")
DEFAULTS: dict[str, tuple[str, int, Any]] = {  # of options and their places, as they were before they had to be given
    "torch.load": ("weights_only", 9, False), "yaml.load": ("Loader", 1, lambda yaml: yaml.SafeLoader),
}  # fmt: skip
PARTS = {"models", "nn", "modules", "layers", "networks"}  # of packages, that are packages
METHODS = {"train", "eval", "half", "float", "double", "type", "cpu", "compile", "apply", "training"}  # of modules
LAYERS = PARTS | {"model", "from_pretrained"}  # in the name of a layer
OF_WORKERS = {"num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}
FORMER = {  # what libraries have under another name by now, or only Python has
    **{f"numpy.{name}": f"builtins.{name}" for name in ("bool", "int", "float", "complex", "object", "str")},
    "numpy.long": "builtins.int", "numpy.Inf": "math.inf", "numpy.NaN": "math.nan", "numpy.float_": "numpy.float64",
    **{f"collections.{name}": f"collections.abc.{name}" for name in collections.abc.__all__},
    "torch._utils._accumulate": "itertools.accumulate", "torch._six.inf": "math.inf", "torch._six.nan": "math.nan",
    "inspect.getargspec": "inspect.getfullargspec", "time.clock": "time.perf_counter", "fractions.gcd": "math.gcd",
}  # fmt: skip
FACTORIES = {"empty", "zeros", "ones", "rand", "randn", "full", "arange", "randint", "randperm", "linspace", "eye"}
UNCHANGING = {"freeze", "defrost", "clone", "merge_from_list"}  # methods of configurations
SCHEDULERS = re.compile("sched|warm_?up|anneal", re.IGNORECASE)  # in the name of what only refers to an optimizer
FRACTIONS = re.compile(
    "drop|prob|ratio|momentum|decay|eps|alpha|beta", re.IGNORECASE
)  # in the name of a number below 1
HOLDERS = re.compile("munch|dict|conf|namespace", re.IGNORECASE)  # in the name of what holds what it is given
MAPPINGS = re.compile(r"(\w*dict|munch|munchify|dotmap|box|cfgnode|namespace)", re.IGNORECASE)  # classes of dicts
DOCUMENTS = re.compile(r"\w*(json|yaml|toml|csv)\w*\.")  # readers of what has no rows of a batch, but lists and texts
NAME = "data/0"  # a path, where there is nothing to choose
TEXT = "".join(f"{i} {i}\n" for i in range(COUNT))
OPENERS = ("codecs.py", "pathlib.py")  # modules of Python's that open files for whoever calls them
LIBRARIES = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(torch.__file__)), "<frozen")

exists = os.path.exists  # as it is before anything stands in for it
used: set[str] = set()  # what was called or derived from
asked: collections.Counter[Any] = collections.Counter()  # how often a line asks for files that are not there
folders: set[str] = set()  # that were made because the program asked for something that may be one


# --- things --------------------------------------------------------------------------------------------------------


class StandIn(torch.nn.Module):
    """Anything of a package. ``rows`` are those of a batch; of a single sample, and of all else, there are none."""

    def __init__(self, path: str = "", given: tuple[Any, ...] = (), named: Any = None, rows: int = 0) -> None:
        super().__init__()
        self.__dict__.update(
            _path=path, _given=given, _named=named or {}, _rows=rows, _parts={}, _calls=path.endswith(")")
        )

    def __getattribute__(self, name: str) -> Any:
        own = super().__getattribute__
        if name == "register_module" and "weight" not in own("_parameters"):
            return own("__getattr__")(name)  # of a registry, which is what has one of that name
        if name not in METHODS or isinstance(self, Derived) or own("__dict__").get("_calls", True):
            return own(name)
        if "weight" in own("_parameters"):
            return own(name)
        return own("__getattr__")(name)  # of a configuration, say

    def __getattr__(self, name: str) -> Any:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in self.__dict__.get(kind, {}):
                return self.__dict__[kind][name]
        if (name.startswith("__") and name.endswith("__")) or "_parts" not in self.__dict__:
            raise AttributeError(name)
        if name.startswith("_") and sys._getframe(1).f_code.co_filename.startswith(LIBRARIES):
            raise AttributeError(name)  # a library only asks whether a module has it
        for known in (self._named, *self._given):
            if isinstance(known, dict) and name in known:
                return known[name]
            if known and isinstance(known, dict) and hasattr(dict, name) and HOLDERS.search(self._path):
                return getattr(known, name)
        if self._rows and name not in self._parts:
            self._parts[name] = self._tensor(COUNT)
        if name not in self._parts:
            self._parts[name] = StandIn(f"{self._path}.{name}")
            if "weight" in self._parameters:
                self._modules[name] = self._parts[name]._as_layer()
        return self._parts[name]

    def __call__(self, *given: Any, **named: Any) -> Any:
        used.add(self._path.partition("(")[0].partition("[")[0])
        if len(given) == 1 and not named and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
            return given[0]  # a decorator
        if self._is_mapping and all(isinstance(one, dict) for one in given):
            return Mapping(self._path, *given, **named)
        tensors = [leaf for leaf in tree_leaves((given, named)) if isinstance(leaf, torch.Tensor)]
        if tensors:
            result: Any = tensors[0]
            if self._is_layer:
                result = torch.nn.Module.__call__(self._as_layer(), *given, **named)
            count = unpacked(sys._getframe(1)) if isinstance(result, torch.Tensor) else 0
            return (result,) * count if count else result
        whole = tuple(one for one in given if isinstance(one, (torch.nn.Module, torch.optim.Optimizer)))
        whole = tuple(one for one in whole if not isinstance(one, StandIn))
        if whole and unpacked(sys._getframe(1)) == len(given):
            return given  # as many as are asked for, whatever they are
        if whole and not SCHEDULERS.search(self._path):
            return whole[0] if len(whole) == 1 else whole
        if self._path.startswith(ZOO) and (build := families().get(self._path.rpartition(".")[2].lower())):
            return build(given, named)
        made = StandIn(f"{self._path}()", given, named)
        return made._as_layer() if made._is_layer else made

    @property
    def _is_mapping(self) -> bool:
        """Whether it is a class of dicts whose items are attributes as well."""
        return bool(MAPPINGS.fullmatch(self._path.rpartition(".")[2]))

    # --- layers ------------------------------------------------------------------------------------------------

    @property
    def _is_layer(self) -> bool:
        return "weight" in self._parameters or (self._calls and bool(LAYERS.intersection(self._path[:-2].split("."))))

    def _as_layer(self) -> Any:
        if "weight" not in self._parameters:
            self._parameters["weight"] = torch.nn.Parameter(torch.randn(WIDTH, WIDTH) / WIDTH)
            if self._calls:
                self._modules["body"] = StandIn(f"{self._path}.body")._as_layer()
                self._modules["head"] = torch.nn.Linear(WIDTH, self._classes)
        return self

    @property
    def _classes(self) -> int:
        numbers = [self._named[name] for name in self._named if "class" in name or "out" in name]
        return int(numbers[0]) if numbers and isinstance(numbers[0], int) else COUNT

    def forward(self, *given: Any, **named: Any) -> Any:
        if "weight" not in self._parameters:
            return self(*given, **named)  # of an extension, say
        x = next(leaf for leaf in tree_leaves((given, named)) if isinstance(leaf, torch.Tensor))
        if x.is_floating_point() and x.dim() == 4:
            size = min(x.shape[1], WIDTH)
            x = F.conv2d(x[:, :size], self.weight[:size, :size, None, None])
        elif x.is_floating_point():
            x = F.linear(x, self.weight)
        else:
            x = F.embedding(x, self.weight)
        own: list[Any] = [
            part for name, part in self._modules.items() if not isinstance(part, StandIn) and name != "head"
        ]
        if own:
            x = own[-1](x)
        elif x.dim() == 4 and "head" in self._modules:
            x = self.head(x.mean((2, 3)))
        return x if given else Outputs(x)

    def _apply(self, move: Any, recurse: bool = True) -> Any:
        if self._calls:
            self._as_layer()
        self._parts.update({name: move(part) for name, part in self._parts.items() if isinstance(part, torch.Tensor)})
        whole: Any = super()
        return whole._apply(move, recurse)

    def named_modules(self, *given: Any, **named: Any) -> Any:
        if self._calls:
            self._as_layer()
        return super().named_modules(*given, **named)

    def named_children(self) -> Any:
        if self._calls:
            self._as_layer()
        return super().named_children()

    def load_state_dict(self, *given: Any, **named: Any) -> Any:
        return None

    def to(self, *given: Any, **named: Any) -> Any:
        """Of data, a tensor there."""
        whole: Any = super()
        return self._tensor(self._rows).to(*given, **named) if self._rows else whole.to(*given, **named)

    def cuda(self, *given: Any, **named: Any) -> Any:
        whole: Any = super()
        return self._tensor(self._rows).cuda(*given, **named) if self._rows else whole.cuda(*given, **named)

    def pin_memory(self, *given: Any) -> Any:
        return self

    # --- data ----------------------------------------------------------------------------------------------------

    def _shape_of(self) -> tuple[int, ...]:
        if DOCUMENTS.match(self._path):
            return (1, SIDE, WIDTH)
        known = [size for name, size in SIZES.items() if name in self._path.lower()]
        return known[0] if known else (3, SIDE, SIDE)

    def _tensor(self, rows: int = 0) -> Any:
        weight: Any = self._parameters.get("weight")
        where = "cpu" if weight is None else weight.device
        return torch.rand(*([rows] if rows else []), *self._shape_of(), device=where)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy

        channels, *sides = self._shape_of()
        shape = (*sides, channels) if channels > 1 else sides
        array = numpy.random.randint(0, 255, shape).astype("uint8")
        return array if dtype is None else array.astype(dtype)

    def __iter__(self) -> Iterator[Any]:
        count = unpacked(sys._getframe(1))
        whole, _, kind = self._path.rpartition(".")
        if not count and kind in ("items()", "keys()"):
            names = [f"data/{i}" for i in range(COUNT)]
            return iter(names if kind == "keys()" else [(name, StandIn(f"{whole}[{name!r}]")) for name in names])
        if self._is_shape:
            return iter([COUNT] * (count or len(self._shape_of())))
        if not count and self._holds:
            return iter(self._given[0])
        is_document = bool(DOCUMENTS.match(self._path))
        is_item = self._path.endswith("]") and not is_document
        if not count and is_item:
            count = 2
        if count and (self._rows or is_item):
            target = torch.randint(0, 2, (self._rows,)) if self._rows else torch.tensor(0)
            return iter(
                [self._tensor(self._rows), *(self._tensor(self._rows) for _ in range(count - 2)), target][:count]
            )
        rows = 0 if count or is_document else COUNT
        count = count or (2 if is_document else COUNT)
        return iter([self._parts.setdefault(i, StandIn(f"{self._path}[{i}]", rows=rows)) for i in range(count)])

    def __getitem__(self, key: Any) -> Any:
        if self._is_shape and not isinstance(key, tuple):
            return [COUNT] * len(range(len(self._shape_of()))[key]) if isinstance(key, slice) else COUNT
        if isinstance(key, (slice, tuple)):
            return self.__array__()[key]
        if isinstance(key, list) or hasattr(key, "__array__"):
            rows = self.__array__()
            return rows.take(key, 0, mode="wrap") if len(key) else rows[:0]
        held = (self._named, *self._given) if isinstance(key, str) else ()
        if held and (self._rows or any(isinstance(one, dict) and key in one for one in held)):
            return getattr(self, key)
        if key not in self._parts and self._rows and isinstance(key, int):
            self._parts[key] = torch.randint(0, 2, (self._rows,)) if key in (1, -1) else self._tensor(self._rows)
        if key not in self._parts:
            self._parts[key] = StandIn(f"{self._path}[{key!r}]")
        return self._parts[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._parts[key] = value

    def __contains__(self, key: Any) -> bool:
        return True

    def __len__(self) -> int:
        if "_count" in self.__dict__:
            return int(self.__dict__["_count"])
        return len(self._given[0]) if self._holds and hasattr(self._given[0], "__len__") else COUNT

    @property
    def _is_shape(self) -> bool:
        return bool(self._path.endswith((".shape", ".size()")))

    @property
    def _holds(self) -> bool:
        """Whether it was made of something that can be iterated over, as a progress bar is."""
        return (
            bool(self._given)
            and isinstance(self._given[0], Iterable)
            and not isinstance(self._given[0], (str, StandIn))
        )

    # --- values --------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return True

    def __index__(self) -> int:
        return COUNT

    def __int__(self) -> int:
        return COUNT

    def __float__(self) -> float:
        return 0.5

    def __str__(self) -> str:
        return NAME

    def __repr__(self) -> str:
        return f"<{self._path}>"

    def __format__(self, how: str) -> str:
        return NAME

    def __fspath__(self) -> str:
        return NAME

    def __eq__(self, other: Any) -> Any:
        if isinstance(other, str):
            return self.__dict__.setdefault("_word", Word(NAME)) == other
        if isinstance(other, torch.Tensor) or hasattr(other, "__array__"):
            return self._like(other) == other
        return self is other

    def __ne__(self, other: Any) -> Any:
        equal = self == other
        return ~equal if isinstance(equal, torch.Tensor) else not equal if isinstance(equal, bool) else equal != 1

    def __hash__(self) -> int:
        return id(self)

    def __neg__(self) -> Any:
        return -self._like(0.0)

    def _like(self, other: Any) -> Any:
        """The value that stands in for this one in an operation with something else."""
        if isinstance(other, torch.Tensor):
            return torch.rand(other.shape).to(other.dtype)
        if isinstance(other, str):
            return NAME
        if self._calls or (hasattr(other, "__array__") and not (isinstance(other, StandIn) and not other._calls)):
            return self.__array__("float32").view(lenient_array())
        return float(self) if isinstance(other, float) or FRACTIONS.search(self._path.rpartition("[")[2]) else COUNT

    # --- the rest of what Python does with things -----------------------------------------------------------------

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def __instancecheck__(self, thing: Any) -> bool:
        return isinstance(thing, Mapping if self._is_mapping else StandIn)

    def __mro_entries__(self, bases: Any) -> Any:
        used.add(self._path)
        return () if any(isinstance(base, type) and issubclass(base, Derived) for base in bases) else (Derived,)

    @classmethod
    def __torch_function__(cls, function: Any, kinds: Any, given: Any = (), named: Any = None) -> Any:
        if function is torch.Tensor.__setitem__ and isinstance(given[2], StandIn):
            store: Any = function
            return store(*given[:2], given[2]._like(given[0][given[1]]))
        leaves = [leaf for leaf in tree_leaves((given, named or {})) if isinstance(leaf, torch.Tensor)]

        def taken(leaf: Any) -> Any:
            if not isinstance(leaf, StandIn):
                return leaf
            if function.__name__ in FACTORIES or (leaves and not leaf._calls and not leaf._rows):
                return COUNT
            return leaf._like(leaves[0]) if leaves else leaf._tensor()

        return function(*tree_map(taken, given), **tree_map(taken, named or {}))


class Mapping(dict):  # type: ignore[type-arg]
    """A dict whose items are attributes as well, and which can be changed at any time."""

    def __init__(self, path: str, *given: Any, **named: Any) -> None:
        super().__init__()
        self.__dict__["path"] = path
        self.update(*given, **named)

    def update(self, *given: Any, **named: Any) -> None:
        for name, value in dict(*given, **named).items():
            self[name] = value

    def __setitem__(self, name: Any, value: Any) -> None:
        nested = type(value) is dict
        super().__setitem__(name, Mapping(self.__dict__["path"], value) if nested else value)

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        if name in UNCHANGING:
            return lambda *_, **__: self
        raise AttributeError(name)

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        del self[name]

    def __reduce__(self) -> Any:
        return Mapping, (self.__dict__["path"], dict(self))


@functools.cache
def lenient_array() -> Any:
    """A class of arrays that convert to a number and to a bool."""
    import numpy

    names: dict[str, Callable[[Any], Any]] = {
        "__bool__": lambda array: bool(numpy.asarray(array).any()),
        "__index__": lambda array: COUNT,
        "__float__": lambda array: float(numpy.asarray(array).mean()),
    }
    return type("Array", (numpy.ndarray,), names)


def unpacked(frame: Any) -> int:
    """Into how many names the frame unpacks what it iterates over at this moment, or what its present call returns."""
    code, at = frame.f_code.co_code, frame.f_lasti
    if at >= 0 and dis.opname[code[at]].startswith(("CALL", "CACHE")):  # a function of Python's is called at the latter
        at += 2
        while dis.opname[code[at]] == "CACHE":
            at += 2
    return int(code[at + 1]) if at >= 0 and dis.opname[code[at]] == "UNPACK_SEQUENCE" else 0


COMPARED = ("lt", "le", "gt", "ge")


def operation(name: str, swapped: bool) -> Callable[[Any, Any], Any]:
    function = getattr(operator, name if name not in ("and", "or") else f"{name}_")

    def apply(one: Any, other: Any) -> Any:
        if one._calls and isinstance(other, (int, float)) and name not in COMPARED:
            return one  # a number as well as data
        if name == "truediv" and isinstance(other, (str, StandIn)):
            return one  # a path
        own = one._like(other)
        other = other._like(own) if isinstance(other, StandIn) else other
        return function(other, own) if swapped else function(own, other)

    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or"):
    setattr(StandIn, f"__{_name}__", operation(_name, swapped=False))
    setattr(StandIn, f"__r{_name}__", operation(_name, swapped=True))
for _name in COMPARED:
    setattr(StandIn, f"__{_name}__", operation(_name, swapped=False))


class Word(str):
    """Text that is the first other text with which it is compared, as the name of something to choose."""

    meant: str | None = None

    def __eq__(self, other: Any) -> bool:
        if self.meant is None and isinstance(other, str):
            self.meant = str(other)
        return bool(self.meant == other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(str(self))

    def lower(self) -> Any:
        return self

    def upper(self) -> Any:
        return self

    def strip(self, *given: Any) -> Any:
        return self


class Derived(StandIn):
    """The base of classes that derive from a stand-in; whatever such a class lacks is a stand-in."""

    @classmethod
    def from_pretrained(
        cls, pretrained_model_name_or_path: Any = None, *given: Any, config: Any = None, **named: Any
    ) -> Any:
        """A model of the class, which takes its configuration first, as it is without what a file has."""
        return cls(StandIn(f"{cls.__name__}.config") if config is None else config, *given, **named)

    def __new__(cls, *given: Any, **named: Any) -> Any:
        made = super().__new__(cls)
        StandIn.__init__(made, cls.__name__)
        return made

    def __init__(self, *given: Any, **named: Any) -> None:
        pass

    def __call__(self, *given: Any, **named: Any) -> Any:
        return torch.nn.Module.__call__(self, *given, **named)

    @property
    def device(self) -> Any:
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))


# --- models that are known ------------------------------------------------------------------------------------------

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


def convolved(channels: int) -> Any:
    return torch.nn.Sequential(
        torch.nn.Conv2d(channels, WIDTH, 3, padding=1), torch.nn.BatchNorm2d(WIDTH), torch.nn.ReLU()
    )


class Residual(torch.nn.Module):
    """A small model with the parts of a ResNet."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, WIDTH, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(WIDTH)
        self.relu, self.maxpool = torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2, self.layer3, self.layer4 = (convolved(WIDTH) for _ in range(4))
        self.avgpool = torch.nn.AdaptiveAvgPool2d((1, 1))
        self.fc = torch.nn.Linear(WIDTH, classes)

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

    def builder(family: str) -> Callable[..., Any]:
        def build(given: Any, named: Any) -> Any:
            classes = named.get("num_classes", 1000)
            number = classes if isinstance(classes, int) else COUNT
            return Residual(number) if family == "resnet" else Classifying(number, FAMILIES[family])

        return build

    return {name: builder(family) for family, names in SIZED.items() for name in names}


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


# --- packages ------------------------------------------------------------------------------------------------------


class Package(types.ModuleType):
    __version__ = "999.0"

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        module: Any = types.ModuleType
        return Names(self, module.__dict__["__dict__"].__get__(self))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        whole = f"{self.__name__}.{name}"
        setattr(self, name, importlib.import_module(whole) if name in PARTS else StandIn(whole))
        return getattr(self, name)


class Names(dict):  # type: ignore[type-arg]
    """The names of a package, in which each that is looked up is found."""

    def __init__(self, package: Any, known: Any) -> None:
        super().__init__(known)
        self.package = package

    def __missing__(self, name: str) -> Any:
        return getattr(self.package, name)


class Finder:
    """Finds packages, in the place of those that are installed."""

    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if not any(name == package or name.startswith(f"{package}.") for package in self.packages):
            return None
        loader: Any = self
        return importlib.machinery.ModuleSpec(name, loader, is_package=True)

    def create_module(self, spec: Any) -> Any:
        return Package(spec.name)

    def exec_module(self, module: Any) -> None:
        pass


class Adder:
    """Adds missing names to modules when these are imported."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}

    def add(self, module: str, name: str) -> None:
        if module in sys.modules:
            self._set(sys.modules[module], name)
        self.names.setdefault(module, []).append(name)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path) if name in self.names else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def executed(module: Any) -> None:
            execute(module)
            for one in self.names[name]:
                self._set(module, one)

        spec.loader.exec_module = executed
        return spec

    @staticmethod
    def _set(module: Any, name: str) -> None:
        former = FORMER.get(f"{module.__name__}.{name}")
        value = pkgutil.resolve_name(former) if former else StandIn(f"{module.__name__}.{name}")
        setattr(module, name, value)


# --- shapes ----------------------------------------------------------------------------------------------------------


def sized(x: Any, dim: int, size: int) -> Any:
    """The tensor with this size in one dimension: repeated, and cut."""
    if x.shape[dim] == size or not x.shape[dim]:
        return x
    return torch.cat([x] * -(-size // x.shape[dim]), dim).narrow(dim, 0, size)


def dimensional(x: Any, dims: int) -> Any:
    """The tensor with this number of dimensions, the first one as it is."""
    if x.dim() > dims:
        return x.flatten(dims - 1)
    while x.dim() < dims:
        x = x.unsqueeze(-1).expand(*x.shape, SIDE)
    return x


def shaped(x: Any, shape: Any) -> Any:
    if x.shape == shape:
        return x
    return sized(x.flatten(), 0, max(1, torch.Size(shape).numel())).reshape(shape)


def covering(x: Any, kernel: Any) -> Any:
    """The tensor with at least the size of a kernel in its last dimensions."""
    for i, size in enumerate(kernel, start=-len(kernel)):
        x = sized(x, i, max(x.shape[i], size))
    return x


def for_linear(x: Any, weight: Any, *rest: Any) -> Any:
    if x.shape[-1] != weight.shape[-1]:
        x = sized(x.flatten(1) if x.dim() > 3 else x, -1, weight.shape[-1])
    return (x if x.is_floating_point() else x.to(weight.dtype), weight, *rest)


def for_convolution(x: Any, weight: Any, *rest: Any, groups: int = 1, **named: Any) -> Any:
    groups = rest[4] if len(rest) > 4 else groups
    is_sample = (
        x.dim() == weight.dim() - 1 and x.shape[0] == weight.shape[1] * groups
    )  # and not a batch of another shape
    if x.dim() != weight.dim() and not is_sample:
        x = dimensional(x, weight.dim())
    x = covering(sized(x, 1 if x.dim() == weight.dim() else 0, weight.shape[1] * groups), weight.shape[2:])
    return (x if x.is_floating_point() else x.to(weight.dtype), weight, *rest)


def for_pooling(dims: int) -> Callable[..., Any]:
    def fit(x: Any, kernel: Any, *rest: Any) -> Any:
        kernel = (kernel,) * dims if isinstance(kernel, int) else kernel
        return (covering(x, kernel), kernel, *rest)

    return fit


def for_transposed(x: Any, weight: Any, *rest: Any) -> Any:
    return (sized(dimensional(x, weight.dim()), 1, weight.shape[0]), weight, *rest)


def for_norm(x: Any, mean: Any, *rest: Any) -> Any:
    return (x if mean is None else sized(x, 1, mean.shape[0]), mean, *rest)


def for_layer_norm(x: Any, shape: Any, *rest: Any) -> Any:
    return (sized(x, -1, shape[-1]), shape, *rest)


def for_embedding(x: Any, weight: Any, *rest: Any) -> Any:
    if x.is_floating_point() and x.dim() > 2:
        x = x.flatten(1)[:, :WIDTH]
    if x.is_floating_point() or (x.numel() and not 0 <= int(x.min()) <= int(x.max()) < len(weight)):
        x = x.long() % len(weight)
    return (x, weight, *rest)


def for_classes(x: Any, target: Any, *rest: Any) -> Any:
    if target.is_floating_point() and target.shape == x.shape:
        return (x, target, *rest)
    target = shaped(target, torch.Size((*x.shape[:1], *x.shape[2:])) if x.dim() > 1 else torch.Size(()))
    ignored = target.long() < 0
    return (x, torch.where(ignored, target.long(), target.long() % x.shape[1 if x.dim() > 1 else 0]), *rest)


def for_values(x: Any, target: Any, *rest: Any) -> Any:
    return (x, shaped(target, x.shape).to(x.dtype), *rest)


plain_view = torch.Tensor.view


def for_view(x: Any, *sizes: Any) -> Any:
    if not sizes or isinstance(sizes[0], torch.dtype):
        return (x, *sizes)
    sizes = tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else sizes
    sizes = tuple(int(size) for size in sizes)
    rest = torch.Size([size for size in sizes if size != -1]).numel()
    if not rest or (x.numel() % rest == 0 if -1 in sizes else x.numel() == rest):
        try:
            plain_view(x, *sizes)
        except RuntimeError:  # of one that is not contiguous, which old versions of PyTorch made less often
            x = x.contiguous()
        return (x, *sizes)
    if sizes[0] in (-1, x.shape[0]):
        return (sized(x.flatten(1) if x.dim() > 1 else x[:, None], 1, rest // max(1, sizes[0])), *sizes)
    return (sized(x.flatten(), 0, rest), *sizes)


def indexing(plain: Any) -> Any:
    """Indexing, by which old versions of PyTorch also took the number out of a loss."""

    def indexed(x: Any, key: Any) -> Any:
        if type(key) is int and key == 0 and not x.dim():
            used.add("shapes")
            return x
        return plain(x, key)

    return indexed


def storing(plain: Any) -> Any:
    """The same for an assignment to a part of a tensor."""

    def stored(x: Any, key: Any, value: Any) -> None:
        try:
            plain(x, key, value)
        except RuntimeError as error:
            if not isinstance(value, torch.Tensor) or not OTHER_SHAPE.search(str(error)):
                raise
            used.add("shapes")
            plain(x, key, shaped(value, x[key].shape))

    return stored


OTHER_SHAPE = re.compile("^expand|shape mismatch|must match the existing size")  # in the words of an error


def for_squeeze(x: Any, dim: Any, *rest: Any) -> Any:
    while isinstance(dim, int) and x.dim() <= dim:
        x = x.unsqueeze(-1)
    return (x, dim, *rest)


def for_mask(x: Any, mask: Any, *rest: Any) -> Any:
    is_old = isinstance(mask, torch.Tensor) and mask.dtype is torch.uint8  # as masks were before there was torch.bool
    return (x, mask.bool() if is_old else mask, *rest)


def for_recurrent(layer: Any, x: Any, *rest: Any) -> Any:
    if isinstance(x, torch.Tensor):
        x = sized(x.flatten(2) if x.dim() > 3 else x if x.dim() > 1 else x[:, None], -1, layer.input_size)
    return (layer, x, *rest)


FITTED: tuple[tuple[Any, tuple[str, ...], Callable[..., Any]], ...] = (
    (F, ("linear",), for_linear),
    (F, ("conv1d", "conv2d", "conv3d"), for_convolution),
    (F, ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), for_transposed),
    (F, ("avg_pool1d", "max_pool1d"), for_pooling(1)),
    (F, ("avg_pool2d", "max_pool2d"), for_pooling(2)),
    (F, ("avg_pool3d", "max_pool3d"), for_pooling(3)),
    (F, ("batch_norm", "instance_norm"), for_norm),
    (F, ("layer_norm",), for_layer_norm),
    (F, ("embedding",), for_embedding),
    (F, ("cross_entropy", "nll_loss"), for_classes),
    (F, ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
         "binary_cross_entropy_with_logits", "kl_div"), for_values),
    (torch.Tensor, ("view", "reshape"), for_view),
    (torch.Tensor, ("masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "masked_select"), for_mask),
    (torch.Tensor, ("squeeze",), for_squeeze),
    (torch.nn.LSTM, ("forward",), for_recurrent),
    (torch.nn.GRU, ("forward",), for_recurrent),
    (torch.nn.RNN, ("forward",), for_recurrent),
)  # fmt: skip


def fitting(plain: Any, fit: Callable[..., Any]) -> Any:
    """A function whose tensors are reshaped to fit its arguments; an argument that is not a tensor becomes one."""

    @functools.wraps(plain)
    def fitted(*given: Any, **named: Any) -> Any:
        if len(given) > 1 or fit is for_view:
            real = tuple(
                one._tensor(COUNT) if isinstance(one, StandIn) and not i else one for i, one in enumerate(given)
            )
            given = fit(*real)
            if any(isinstance(one, torch.Tensor) and one is not other for one, other in zip(given, real, strict=False)):
                used.add("shapes")
        return plain(*given, **named)

    return fitted


# --- files and options -----------------------------------------------------------------------------------------------


def made_up(content: Any) -> bool:
    return isinstance(content, StandIn) or (isinstance(content, (str, bytes)) and content in (TEXT, TEXT.encode()))


def absent(path: Any, asking: Any) -> bool:
    """Whether the program, not a library, asks for a file that does not exist."""
    while asking.f_code.co_filename.endswith(OPENERS):
        asking = asking.f_back
    if asking.f_code.co_filename.startswith(LIBRARIES):
        return False
    if isinstance(path, (TextFile, ByteFile)):
        return not path.closed and made_up(path.getvalue())  # else the program has written into it
    if isinstance(path, StandIn):
        return True
    return isinstance(path, (str, os.PathLike)) and (not exists(path) or os.path.abspath(path) in folders)


class Line(str):
    """Text that has as many parts as are asked for, which are numbers as well."""

    def strip(self, *given: Any) -> Any:
        return Line(super().strip(*given))

    rstrip = strip

    def split(self, *given: Any, **named: Any) -> Any:
        parts = super().split(*given, **named)
        count = unpacked(sys._getframe(1))
        return [Line(str(self).split()[-1])] * count if count and len(parts) != count else Parts(parts)


class Parts(list):  # type: ignore[type-arg]
    """A list that has any item."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int) and not -len(self) <= key < len(self):
            return Line("0")
        return super().__getitem__(key)


class TextFile(io.StringIO):
    """A file that is not there."""

    def __next__(self) -> Any:
        return Line(super().__next__())

    def readline(self, *given: Any) -> Any:
        return Line(super().readline(*given))

    def readlines(self, *given: Any) -> Any:
        return [Line(line) for line in super().readlines(*given)]

    def read(self, *given: Any) -> Any:
        return Line(super().read(*given))


class ByteFile(io.BytesIO):
    """The same, as bytes."""


def opening(plain: Any) -> Any:
    def opened(path: Any, mode: str = "r", *given: Any, **named: Any) -> Any:
        writes = bool(set(mode) & set("wax+"))
        if not writes and absent(path, sys._getframe(1)):
            used.add(f"the file {os.path.basename(os.fspath(path))}")
            return ByteFile(TEXT.encode()) if "b" in mode else TextFile(TEXT)
        if writes and isinstance(path, (str, os.PathLike)) and not exists(path) and os.path.dirname(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)  # also for a library, which writes a log, say
        return plain(path, mode, *given, **named)

    return opened


def decoding(path: Any, mode: str = "r", encoding: Any = None, errors: str = "strict", buffering: int = -1) -> Any:
    """``codecs.open``, which decodes as ``open`` does."""
    if "b" in mode or encoding is None:
        return open(path, mode, buffering)
    return open(path, mode, buffering, encoding, errors)


def finding(plain: Any) -> Any:
    """A function that tests whether a file exists: it does. A path that may be a folder of the slice is created."""

    @functools.wraps(plain)
    def found(path: Any) -> bool:
        if plain(path):
            return True
        asking = sys._getframe(1)
        asked[asking.f_code, asking.f_lineno] += 1
        if ends_program(asking) or asked[asking.f_code, asking.f_lineno] > COUNT:  # which looks for what is not there
            return False
        is_absent = absent(path, asking)
        is_plain = is_absent and not isinstance(path, StandIn) and not os.path.isabs(path)
        if is_plain and path and not os.path.splitext(path)[1]:
            folder = os.path.abspath(path)
            while not exists(folder):
                folders.add(folder)
                folder = os.path.dirname(folder)
            os.makedirs(path, exist_ok=True)
        if is_absent:
            used.add(f"the file {os.path.basename(str(path))}".strip())
        return is_absent

    return found


def ends_program(asking: Any) -> bool:
    """Whether the statement that asks raises an exception or exits where the answer is yes."""
    text = "".join(linecache.getlines(asking.f_code.co_filename))
    try:
        tests = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.If)]
    except SyntaxError:
        return False
    here = [node for node in tests if node.lineno <= asking.f_lineno <= (node.test.end_lineno or 0)]
    return any(isinstance(part, ast.Raise) for node in here for part in node.body if is_positive(node.test))


def is_positive(test: Any) -> bool:
    return not any(isinstance(part, ast.Not) for part in ast.walk(test))


def checkpoint(device: str) -> Any:
    """A file that a program with tensors on that device saved."""
    file = io.BytesIO()
    with patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(torch.zeros(1), file)
    file.seek(0)
    return file


def loading(owner: Any, plain: Any, name: str, saved_on: str) -> Any:
    """A function that reads a file, and for one that is not there gives a stand-in.

    One that comes out of a checkpoint has a tensor that was ``saved_on`` a device: it is where the program loads it, or
    this fails.
    """

    @functools.wraps(plain)
    def loaded(*given: Any, **named: Any) -> Any:
        if given and (made_up(given[0]) if name.endswith("loads") else absent(given[0], sys._getframe(1))):
            used.add(name)
            if name in TABLES:
                return table(*given[1:2], **named)
            read = StandIn(f"{name}()")
            if name == "torch.load" and saved_on != "cpu":
                read._buffers["_saved"] = plain(checkpoint(saved_on), *given[1:], **named)
            return read
        option, place, value = DEFAULTS.get(name, ("", -1, None))
        if option not in named and len(given) <= place:
            named[option] = value(owner) if callable(value) else value
            used.add(f"the default of {option}")
        return plain(*given, **named)

    return loaded


def table(dtype: Any = float, **named: Any) -> Any:
    """What a file with rows of numbers has: the first column counts the rows, the last one has a few classes."""
    import numpy

    rows = numpy.arange(LENGTH)
    columns = named.get("usecols", range(WIDTH))
    columns = [columns] if isinstance(columns, int) else columns
    cells = numpy.stack([rows if column == 0 else (rows + column) % COUNT for column in columns], 1).squeeze()
    cells = cells.astype(float if dtype is None else dtype)
    return tuple(cells.T) if named.get("unpack") else cells


def listing(plain: Any, name_of: Callable[[str, int], str]) -> Any:
    """A function that lists files, and where there are none makes some names up."""

    @functools.wraps(plain)
    def listed(path: Any = ".", *given: Any, **named: Any) -> Any:
        asked = not sys._getframe(1).f_code.co_filename.startswith(LIBRARIES)
        found = [] if asked and not glob.has_magic(str(path)) and not exists(path) else plain(path, *given, **named)
        return [name_of(str(path), i) for i in range(COUNT)] if asked and not found else found

    return listed


def as_texts(plain: Any) -> Any:
    """A function of strings that also accepts stand-ins."""

    @functools.wraps(plain)
    def taken(*given: Any, **named: Any) -> Any:
        return plain(*(str(one) if isinstance(one, StandIn) else one for one in given), **named)

    return taken


def sampling(plain: Any, repeated: Callable[[Any, Any], Any]) -> Any:
    """A function that draws a sample, of ``repeated`` items where there are fewer than are drawn."""

    @functools.wraps(plain)
    def drawn(population: Any, *given: Any, **named: Any) -> Any:
        try:
            return plain(population, *given, **named)
        except ValueError:
            used.add("a sample")
        return repeated(population, given[0] if given else named.get("size", named.get("k")))

    return drawn


def repeated(population: Any, count: int) -> list[Any]:
    items = [*population] or [0]
    return [items[i % len(items)] for i in range(count)]


def answering(plain: Any) -> Any:
    """``input`` without a terminal: answers with a number that equals the first text it is compared with."""

    @functools.wraps(plain)
    def answered(*given: Any) -> Any:
        try:
            return plain(*given)
        except EOFError:
            used.add("input")
            return Word("1")

    return answered


def making(plain: Any) -> Any:
    """A function that makes a folder, in one that may not be there either."""

    @functools.wraps(plain)
    def made(path: Any, *given: Any, **named: Any) -> Any:
        outer = os.path.dirname(os.path.abspath(path))
        if absent(outer, sys._getframe(1)):
            used.add(f"the folder {os.path.basename(outer)}")
            os.makedirs(outer)
        try:
            return plain(path, *given, **named)
        except FileExistsError:
            if os.environ.get("WORLD_SIZE", "1") == "1":
                raise
            return None  # another rank was faster

    return made


def tensors_from(plain: Any) -> Any:
    """A function that makes tensors of data, and takes stand-ins as well."""
    takes_arrays = plain is torch.from_numpy

    @functools.wraps(plain)
    def made(data: Any, *given: Any, **named: Any) -> Any:
        if isinstance(data, StandIn):
            data = data.__array__("float32")
        if takes_arrays and isinstance(data, torch.Tensor) and data.device.type == "cpu":
            return data
        return plain(data, *given, **named)

    return made


def of_arrays(plain: Any) -> Any:
    """A function that takes stand-ins for arrays as well."""

    @functools.wraps(plain)
    def made(data: Any, *given: Any, **named: Any) -> Any:
        return plain(data.__array__() if isinstance(data, StandIn) else data, *given, **named)

    return made


def variable(plain: Any) -> Any:
    """``Variable``, which takes stand-ins for data as well."""

    class Kind(type):
        def __call__(cls, data: Any, *given: Any, **named: Any) -> Any:
            if isinstance(data, StandIn):
                data = data._tensor(data._rows or COUNT)
            return plain(data, *given, **named)

        def __instancecheck__(cls, thing: Any) -> bool:
            return isinstance(thing, torch.Tensor)

    return Kind("Variable", (), {})


def counting(plain: Any) -> Any:
    """A function that takes stand-ins for numbers as well."""

    @functools.wraps(plain)
    def made(*given: Any, **named: Any) -> Any:
        if any(isinstance(one, StandIn) for one in tree_leaves(given)):
            given = tree_map(lambda one: COUNT if isinstance(one, StandIn) else one, given)
        return plain(*given, **named)

    return made


def alone(plain: Any, full: bool) -> Any:
    """A loader that loads in the process that asks it, also where a single batch is not full.

    With ``full``, stand-ins for data are enough for batches that are.
    """

    @functools.wraps(plain)
    def made(loader: Any, *given: Any, **named: Any) -> None:
        size = tuple(COUNT if isinstance(one, StandIn) else one for one in given[1:2])
        given = (*given[:1], *size, *given[2:5], 0, *given[6:8], False, *given[9:])[: len(given)]
        named = {name: value for name, value in named.items() if name not in {*OF_WORKERS, "drop_last"}}
        if isinstance(named.get("batch_size"), StandIn):
            named["batch_size"] = COUNT
        data, rows = named.get("dataset", next(iter(given), None)), [*given[1:2], named.get("batch_size")][0]
        if full and isinstance(rows, int) and hasattr(data, "__dict__"):
            data.__dict__["_count"] = BATCHES * rows
        plain(loader, *given, **named)

    return made


def pooled(count: Any = None, initializer: Any = None, initargs: Any = (), *_: Any, **__: Any) -> Any:
    """``multiprocessing.Pool`` that works in a thread."""
    used.add("the processes of a pool")
    return ThreadPool(1, initializer, initargs)


def forgiving(kind: Any) -> None:
    """Data sets that the program defines have stand-ins for what they cannot read."""
    plain = kind.__init_subclass__

    def subclassed(cls: Any, /, **named: Any) -> None:
        plain(**named)
        for name in DATA.keys() & cls.__dict__.keys():
            setattr(cls, name, forgiven(cls.__dict__[name], DATA[name]))
        if "__getattr__" not in cls.__dict__:
            cls.__getattr__ = missing

    kind.__init_subclass__ = classmethod(subclassed)


def forgiven(plain: Any, instead: Callable[..., Any]) -> Any:
    """A method of a data set that goes on where it fails, but not for a reason that has to do with devices."""

    @functools.wraps(plain)
    def done(data: Any, *given: Any, **named: Any) -> Any:
        try:
            result = plain(data, *given, **named)
            if instead is not size or result:
                return result
        except Exception as error:
            text = str(error).lower()
            ends = instead is item and isinstance(given[0], int) and given[0] >= len(data)
            if ends or "cuda" in text or "device" in text:
                raise
        used.add(f"data of {type(data).__name__}")
        return instead(data, *given)

    return done


def replaced(data: Any, *_: Any) -> None:
    data.__dict__["stood_in"] = StandIn(f"{type(data).__name__}()")


def size(data: Any) -> int:
    return int(data.__dict__.get("_count", COUNT))


def item(data: Any, key: Any) -> Any:
    return StandIn(f"{type(data).__name__}()[{key!r}]")


def missing(data: Any, name: str) -> Any:
    """An attribute that a data set would have if it had been read."""
    if "stood_in" not in data.__dict__:
        raise AttributeError(f"{type(data).__name__!r} object has no attribute {name!r}")
    return getattr(data.__dict__["stood_in"], name)


DATA: dict[str, Callable[..., Any]] = {"__init__": replaced, "__len__": size, "__getitem__": item}


def saving(plain: Any) -> Any:
    """``torch.save``, which creates the folder if it does not exist."""

    @functools.wraps(plain)
    def saved(content: Any, path: Any, *given: Any, **named: Any) -> Any:
        folder = os.path.dirname(path) if isinstance(path, (str, os.PathLike)) else ""
        if folder and absent(folder, sys._getframe(1)):
            used.add(f"the folder {os.path.basename(folder)}")
            os.makedirs(folder, exist_ok=True)
        return plain(content, path, *given, **named)

    return saved


def restoring(plain: Any) -> Any:
    """``load_state_dict`` that passes over what comes from a file that is not there."""

    @functools.wraps(plain)
    def restored(whole: Any, state: Any, *given: Any, **named: Any) -> Any:
        fake = isinstance(state, StandIn) or any(isinstance(one, StandIn) for one in (*state, *state.values()))
        if not fake and state:
            return plain(whole, state, *given, **named)
        return torch.nn.modules.module._IncompatibleKeys([], []) if isinstance(whole, torch.nn.Module) else None

    return restored


def parsing(plain: Any, everything: bool, unset: tuple[str, ...]) -> Any:
    """``parse_known_args`` for which no option is required: each that is gets a value of its type.

    With ``everything``, so do those that are not required and have no default, but for those that stay ``unset``.
    """

    @functools.wraps(plain)
    def parsed(parser: Any, *given: Any, **named: Any) -> Any:
        words, made_up = {}, {}
        for action in parser._actions:
            is_open = action.default is None and action.nargs != 0 and action.dest not in unset
            # A command line says how the program is called, and a number that has no default is mostly a limit.
            is_open = is_open and len(sys.argv) == 1 and action.type not in (int, float)
            if action.required or (everything and is_open):
                action.required = False
                action.default = some_value(action) if action.default is None else action.default
                made_up[f"the option {(action.option_strings or [action.dest])[-1]}"] = action
                words.update({action.dest: action.default} if isinstance(action.default, Word) else {})
        for group in parser._mutually_exclusive_groups:
            group.required = False
        options, rest = plain(parser, *given, **named)
        values = vars(options)
        used.update(name for name, one in made_up.items() if str(values.get(one.dest, "")) == str(one.default))
        for name, word in words.items():  # argparse has made plain text of them
            if str(getattr(options, name)) == str(word):
                setattr(options, name, word)
        return options, rest

    return parsed


def demanding(plain: Any) -> Any:
    """The same for what click asks of the command line."""

    @functools.wraps(plain)
    def made(parameter: Any, *given: Any, **named: Any) -> None:
        if named.get("multiple") and isinstance(named.get("default"), (int, float, str)):
            named["default"] = (named["default"],)  # as old versions did
            used.add("the default of multiple")
        plain(parameter, *given, **named)
        kind, click = parameter.type, sys.modules["click"]
        if isinstance(kind, click.Path):
            kind.exists = False  # it need not be there
        if not parameter.required:
            return
        used.add(f"the option {parameter.opts[0]}")
        if isinstance(kind, click.Choice):
            value: Any = kind.choices[0]
        else:
            value = CLICKED.get(kind.name, Word(NAME))
        if isinstance(kind, (click.File, click.Path)):
            value = TextFile(TEXT) if isinstance(kind, click.File) else NAME
            parameter.type = click.UNPROCESSED
        count = max(parameter.nargs, 1)
        parameter.default = value if count == 1 and not getattr(parameter, "multiple", False) else (value,) * count
        parameter.required = False

    return made


CLICKED = {"integer": 1, "float": 1.0, "boolean": True}


def some_value(action: Any) -> Any:
    value = next(iter(action.choices)) if action.choices else {int: 1, float: 1.0}.get(action.type, Word(NAME))
    return [value] if action.nargs in ("+", "*") or isinstance(action.nargs, int) else value


def name_classes() -> None:
    """Let pickle find the classes of stand-ins: they are defined in a function."""
    home: Any = types.ModuleType("__stand_ins__")
    sys.modules[home.__name__] = home
    for kind in (StandIn, Derived, Mapping, Word, Line, Parts, Outputs, Residual, Classifying):
        kind.__module__, kind.__qualname__ = home.__name__, kind.__name__
        setattr(home, kind.__name__, kind)


# --- putting them in place -------------------------------------------------------------------------------------------


def install(
    packages: tuple[str, ...],
    everything: bool,
    workers: bool,
    saved_on: str,
    unset: tuple[str, ...] = (),
    full: bool = False,
) -> None:
    """Put stand-ins in place.

    If ``everything`` is there, so are options and files that a program can do without, but for options that stay
    ``unset``. Loaders start no ``workers`` unless these matter, and their batches have few rows unless they are to be
    ``full``. Checkpoints that are not there have been ``saved_on``
    a device.
    """
    builtins.__dict__["__stand_in__"] = StandIn
    name_classes()
    numbers.Integral.register(StandIn)
    finder: Any = Finder((*packages, COMPILER))
    sys.modules.pop(COMPILER, None)
    adder: Any = Adder()
    sys.meta_path[:0] = [finder, adder]
    for package in packages:
        module, colon, name = package.partition(":")
        if colon:
            adder.add(module, name)
    for name in ("get_ipython", "display"):
        setattr(builtins, name, getattr(builtins, name, StandIn(name)))
    for owner, names, fit in FITTED:
        for name in names:
            setattr(owner, name, fitting(getattr(owner, name), fit))
    indexable: Any = torch.Tensor
    indexable.__getitem__ = indexing(indexable.__getitem__)
    indexable.__setitem__ = storing(indexable.__setitem__)
    kinds: Any = collate.default_collate_fn_map
    kinds[StandIn] = lambda batch, **_: StandIn(f"{batch[0]._path}", rows=len(batch))
    builtins.open = io.open = opening(open)
    decoder: Any = codecs
    decoder.open = decoding
    builtins.input = answering(input)
    readers: list[tuple[Any, str]] = [(torch, "load"), *((owner, name) for owner in (json, pickle) for name in LOADS)]
    readers += [(torch.hub, "load_state_dict_from_url"), (model_zoo, "load_url")]
    for package, names in READERS.items():
        try:
            owner = importlib.import_module(package)
        except ImportError:
            continue
        readers += [(owner, name) for name in names if not isinstance(owner, Package)]
    for owner, name in readers:
        if hasattr(owner, name):
            setattr(owner, name, loading(owner, getattr(owner, name), f"{owner.__name__}.{name}", saved_on))
    forgiving(torch.utils.data.Dataset)
    reading: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    reading.next = reading.__next__  # as it was called in Python 2
    if not workers:
        loader: Any = torch.utils.data.DataLoader
        loader.__init__ = alone(loader.__init__, full)
        pools: tuple[Any, ...] = (multiprocessing, torch.multiprocessing)
        for one in pools:
            one.Pool = pooled
    for name in ("match", "search", "fullmatch", "split", "sub", "findall", "finditer"):
        setattr(re, name, as_texts(getattr(re, name)))
    random.sample = sampling(random.sample, repeated)
    random.seed = counting(random.seed)
    if importlib.util.find_spec("numpy") and "numpy" not in packages:
        arrays: Any = importlib.import_module("numpy")
        arrays.random.choice = sampling(arrays.random.choice, arrays.resize)
        arrays.random.seed = counting(arrays.random.seed)
    if importlib.util.find_spec("PIL") and "PIL" not in packages:
        images: Any = importlib.import_module("PIL.Image")
        images.fromarray = of_arrays(images.fromarray)
    os.mkdir = making(os.mkdir)
    torch.save = saving(torch.save)
    os.listdir = listing(os.listdir, lambda path, i: f"{i}.png")
    glob.glob = listing(glob.glob, lambda path, i: path.replace("*", str(i)))
    makers: Any = torch
    makers.autograd.Variable = variable(makers.autograd.Variable)
    for name in FACTORIES:
        setattr(makers, name, counting(getattr(makers, name)))
    for name in ("tensor", "as_tensor", "from_numpy"):
        setattr(makers, name, tensors_from(getattr(makers, name)))
    shell: Any = os
    shell.popen = lambda *_, **__: TextFile("24 80\n")  # the size of a terminal is what is mostly asked for
    stateful: tuple[Any, ...] = (torch.nn.Module, torch.optim.Optimizer)
    for kind in stateful:
        kind.load_state_dict = restoring(kind.load_state_dict)
    if importlib.util.find_spec("click") and "click" not in packages:
        parameter: Any = importlib.import_module("click").Parameter
        parameter.__init__ = demanding(parameter.__init__)
    parser: Any = argparse.ArgumentParser
    parser.parse_known_args = parsing(parser.parse_known_args, everything, unset)
    for name in ("exists", "isfile", "isdir") if everything else ():
        setattr(os.path, name, finding(getattr(os.path, name)))
