"""Stand-ins for anything: functions, layers, data, configurations and numbers.

How a stand-in is used decides what it is. A call makes another one, or gives back the tensor, function or module that
it was given. It is iterated, unpacked and sliced like data; as part of a module it is a layer with parameters.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import inspect
import operator
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from placement_lint.probe.standins.callers import LIBRARIES, taken, targets, unpacked
from placement_lint.probe.standins.models import ZOO, Outputs, families
from placement_lint.probe.standins.sizes import COUNT, LETTERS, NAME, SIDE, SIZES, WIDTH, used
from placement_lint.probe.standins.texts import Word

F: Any = torch.nn.functional
PARTS = {"models", "nn", "modules", "layers", "networks"}  # of packages, that are packages
METHODS = {"train", "eval", "half", "float", "double", "type", "cpu", "compile", "apply", "training"}  # of modules
LAYERS = PARTS | {"model", "from_pretrained"}  # in the name of a layer
FACTORIES = {"empty", "zeros", "ones", "rand", "randn", "full", "arange", "randint", "randperm", "linspace", "eye"}
UNCHANGING = {"freeze", "defrost", "clone", "set_new_allowed"}  # methods of configurations
READS = re.compile("load|read|from_?file", re.IGNORECASE)  # in the name of what reads a configuration file
CONFIGURATIONS = (".yaml", ".yml", ".json")
SCHEDULERS = re.compile("sched|warm_?up|anneal", re.IGNORECASE)  # in the name of what only refers to an optimizer
FRACTIONS = re.compile(
    "drop|prob|ratio|momentum|decay|eps|alpha|beta", re.IGNORECASE
)  # in the name of a number below 1
COUNTS = re.compile("len", re.IGNORECASE)  # in the name of the lengths of sequences
HOLDERS = re.compile("munch|dict|conf|namespace", re.IGNORECASE)  # in the name of what holds what it is given
MAPPINGS = re.compile(r"(\w*dict|munch|munchify|dotmap|box|cfgnode|namespace)", re.IGNORECASE)  # classes of dicts
DOCUMENTS = re.compile(r"\w*(json|yaml|toml|csv)\w*\.")  # readers of what has no rows of a batch, but lists and texts


class StandIn(torch.nn.Module):
    """Anything of a package. ``rows`` are those of a batch; of a single sample, and of all else, there are none."""

    def __init__(self, path: str = "", given: tuple[Any, ...] = (), named: Any = None, rows: int = 0) -> None:
        super().__init__()
        self.__dict__.update(
            _path=path,
            _given=given,
            _named=named or {},
            _rows=rows,
            _parts={},
            _calls=path.endswith(")"),
            _is_text=False,
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
                self._modules[name] = self._parts[name]._as_layer().to(self.weight.device)
        return self._parts[name]

    def __call__(self, *given: Any, **named: Any) -> Any:
        used.add(self._path.partition("(")[0].partition("[")[0])
        if len(given) == 1 and not named and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
            return given[0]  # a decorator
        if given and READS.search(self._path.rpartition(".")[2]) and (content := document(given[0])):
            return Mapping(self._path, content)
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
        if not count and self._is_text:
            return iter(self._letters)
        if not count and self._holds:
            return iter(self._given[0])
        is_document = bool(DOCUMENTS.match(self._path))
        is_item = self._path.endswith("]") and not is_document
        if not count and is_item:
            count = taken(sys._getframe(1)) or 2
        if count and (self._rows or is_item):
            shape = (self._rows,) if self._rows else ()
            values = [*(self._tensor(self._rows) for _ in range(max(1, count - 1))), torch.randint(0, 2, shape)]
            names = targets(sys._getframe(1), count)
            return iter(
                torch.randint(2, COUNT + 1, shape) if COUNTS.search(name) else value
                for name, value in zip(names, values, strict=False)
            )
        rows = 0 if count or is_document else COUNT
        count = count or (2 if is_document else COUNT)
        return iter([self._parts.setdefault(i, StandIn(f"{self._path}[{i}]", rows=rows)) for i in range(count)])

    def __getitem__(self, key: Any) -> Any:
        if self._is_shape and not isinstance(key, tuple):
            return [COUNT] * len(range(len(self._shape_of()))[key]) if isinstance(key, slice) else COUNT
        if self._is_text and isinstance(key, (slice, int)):
            return self._letters[key]
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
        if self._is_text:
            return len(self._letters)
        return len(self._given[0]) if self._holds and hasattr(self._given[0], "__len__") else COUNT

    @property
    def _letters(self) -> str:
        """The text that it is once a program has put it together with another."""
        return (NAME * LETTERS)[:LETTERS]

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
            self._is_text = True
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

    def merge_from_other_cfg(self, other: Any) -> None:
        for name, value in other.items() if isinstance(other, dict) else ():
            if isinstance(value, dict) and isinstance(self.get(name), Mapping):
                self[name].merge_from_other_cfg(value)
            else:
                self[name] = literal(value)

    def merge_from_list(self, pairs: Any) -> None:
        for names, value in zip(pairs[::2], pairs[1::2], strict=False) if isinstance(pairs, (list, tuple)) else ():
            *outer, name = names.split(".")
            functools.reduce(lambda whole, part: whole[part], outer, self)[name] = literal(value)

    def merge_from_file(self, path: Any) -> None:
        self.merge_from_other_cfg(document(path))


def document(source: Any) -> dict[Any, Any]:
    """The items of a configuration file, given as a path or as an open file; none if there is no such file."""
    path = getattr(source, "name", source)
    is_known = isinstance(path, (str, os.PathLike)) and os.fspath(path).endswith(CONFIGURATIONS)
    if not is_known or not os.path.exists(path) or importlib.util.find_spec("yaml") is None:
        return {}
    with open(path, encoding="utf-8") as file:
        content = importlib.import_module("yaml").safe_load(file)
    return content if isinstance(content, dict) else {}


def literal(value: Any) -> Any:
    """The value of a text that is a literal of Python's, else what it is."""
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


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
