"""Data sets and loaders that do without what cannot be read, and functions that take stand-ins for data."""

from __future__ import annotations

import functools
import multiprocessing
import numbers
import random
import re
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data._utils import collate

from placement_lint.probe.standins.packages import real
from placement_lint.probe.standins.sizes import BATCHES, COUNT, used
from placement_lint.probe.standins.things import FACTORIES, StandIn

OF_WORKERS = {"num_workers", "prefetch_factor", "persistent_workers", "multiprocessing_context", "timeout"}


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


def taking(plain: Any, instead: Callable[[Any], Any]) -> Any:
    """A function that takes stand-ins as well, each as the value ``instead`` of it."""

    @functools.wraps(plain)
    def taken(*given: Any, **named: Any) -> Any:
        if any(isinstance(one, StandIn) for one in tree_leaves(given)):
            given = tree_map(lambda one: instead(one) if isinstance(one, StandIn) else one, given)
        return plain(*given, **named)

    return taken


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


TEXTUAL = ("match", "search", "fullmatch", "split", "sub", "findall", "finditer")  # functions of regular expressions


def install_data(workers: bool, full: bool) -> None:
    """Loaders start no ``workers`` unless these matter, and have few rows unless they are to be ``full``."""
    numbers.Integral.register(StandIn)
    kinds: Any = collate.default_collate_fn_map
    kinds[StandIn] = lambda batch, **_: StandIn(f"{batch[0]._path}", rows=len(batch))
    forgiving(torch.utils.data.Dataset)
    reading: Any = torch.utils.data.dataloader._BaseDataLoaderIter
    reading.next = reading.__next__  # as it was called in Python 2
    if not workers:
        loader: Any = torch.utils.data.DataLoader
        loader.__init__ = alone(loader.__init__, full)
        pools: tuple[Any, ...] = (multiprocessing, torch.multiprocessing)
        for one in pools:
            one.Pool = pooled
    makers: Any = torch
    makers.autograd.Variable = variable(makers.autograd.Variable)
    for name in ("tensor", "as_tensor", "from_numpy"):
        setattr(makers, name, tensors_from(getattr(makers, name)))
    counting: list[tuple[Any, str]] = [(random, "seed"), *((makers, name) for name in FACTORIES)]
    random.sample = sampling(random.sample, repeated)
    arrays, images = real("numpy"), real("PIL.Image")
    if arrays is not None:
        arrays.random.choice = sampling(arrays.random.choice, arrays.resize)
        counting.append((arrays.random, "seed"))
    if images is not None:
        images.fromarray = taking(images.fromarray, lambda one: one.__array__())
    for owner, name in counting:
        setattr(owner, name, taking(getattr(owner, name), int))
    for name in TEXTUAL:
        setattr(re, name, taking(getattr(re, name), str))
