"""Distributed training on simulated GPUs: one process a rank, NCCL asked for and Gloo at work.

Gloo moves real CPU memory, which is what the tensors are; the ranks keep one simulated device each.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .children import options_of_the_machine
from .machine import NotSimulated, here
from .mismatch import refuse
from .placement import ANYWHERE, Tensor, label_of

if TYPE_CHECKING:
    from .patches import Patches

# What process groups believe they run on, by their names.
_backends: dict[str, str] = {}
# Without a name there is one backend for each kind of device (`distributed_c10d.py`, `Backend.UNDEFINED`).
UNDEFINED = "undefined"
# Those that a program leaves are kept. The destructor of one waits for Gloo's threads while it holds Python's lock,
# which these need to let go of a simulated tensor (`torch/csrc/distributed/c10d/ProcessGroupGloo.cpp`).
_groups: list[Any] = []


def install(patches: Patches) -> None:
    if not dist.is_available():
        return
    c10d = dist.distributed_c10d
    for owner in (dist, c10d):
        patches.set(owner, "is_nccl_available", lambda: here().kind == "cuda")
        for name, replacement in _replacements(c10d).items():
            patches.set(owner, name, replacement)


def _replacements(c10d: Any) -> dict[str, Any]:
    start, split, backend_of = c10d.init_process_group, c10d.new_group, c10d.get_backend

    def init_process_group(backend: str | None = None, *args: Any, device_id: Any = None, **kwargs: Any) -> None:
        wanted = UNDEFINED if backend is None else str(backend)
        start(_served(wanted), *args, **kwargs)
        _remember(c10d._get_default_group(), wanted)

    def new_group(*args: Any, backend: Any = None, device_id: Any = None, **kwargs: Any) -> Any:
        wanted = backend_of_group(None) if backend is None else str(backend)
        group = split(*args, backend=_served(wanted), **kwargs)
        _remember(group, wanted)
        return group

    def backend_of_group(group: Any = None) -> Any:
        group = group or c10d._get_default_group()
        return _backends.get(getattr(group, "group_name", "")) or backend_of(group)

    def device_of_objects(group: Any = None) -> Any:
        return torch.device(here().kind, here().current) if backend_of_group(group) == "nccl" else asked(group)

    asked = c10d._get_pg_default_device
    for_objects = "_get_object_coll_device" if hasattr(c10d, "_get_object_coll_device") else "_get_pg_default_device"
    return {
        for_objects: device_of_objects,
        "init_process_group": init_process_group,
        "new_group": new_group,
        "get_backend": backend_of_group,
    }


def _served(wanted: str) -> str:
    if here().kind != "cuda" and "xccl" in wanted:
        raise NotSimulated("xccl")
    return "gloo" if wanted == UNDEFINED or (here().kind == "cuda" and "nccl" in wanted) else wanted


def _remember(group: Any, wanted: str) -> None:
    _groups.append(group)
    name = getattr(group, "group_name", None)
    if name is not None:
        _backends[name] = wanted


def simulate_launched(patches: Patches) -> None:
    """What ``torchrun`` starts for each rank is started through the runner
    (`torch/distributed/elastic/multiprocessing/subprocess_handler`: `SubprocessHandler`)."""
    from torch.distributed.elastic.multiprocessing.subprocess_handler import SubprocessHandler

    popen = SubprocessHandler._popen

    def popen_simulated(handler: Any, args: tuple[str, ...], env: dict[str, str]) -> Any:
        if args[:2] == (sys.executable, "-u"):
            args = (*args[:2], "-m", __package__, *options_of_the_machine(), *args[2:])
        return popen(handler, args, env)

    patches.set(SubprocessHandler, "_popen", popen_simulated)


def check_backend(args: Any) -> None:
    """`torch/csrc/distributed/c10d/ProcessGroup.hpp`, `getBackend`: NCCL serves no CPU tensors, and Gloo only those
    and CUDA's.
    """
    kind = here().kind
    if kind == "cuda" and "nccl" not in _backends.values():
        return
    tensors = [value for value in _flat(args) if isinstance(value, Tensor)]
    if kind != "cuda":
        away = [tensor for tensor in tensors if label_of(tensor) not in (None, ANYWHERE)]
        if away:
            raise refuse(f"No backend type associated with device type {kind}", [("tensor", away[0])])
        return
    on_cpu = [tensor for tensor in tensors if label_of(tensor) is None]
    if on_cpu and not any(label_of(tensor) not in (None, ANYWHERE) for tensor in tensors):
        raise refuse("No backend type associated with device type cpu", [("tensor", on_cpu[0])])


def _flat(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flat(item)
    else:
        yield value
