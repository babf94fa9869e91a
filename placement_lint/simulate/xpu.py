"""The C layer under `torch.xpu` (`torch/csrc/xpu/Module.cpp`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from .driver import (
    NAME,
    Properties,
    choose_stream,
    described,
    empty_cache,
    exchange,
    memory_info,
    memory_stats,
    reset_peak,
    switch,
    synchronize,
)
from .machine import here
from .randoms import default_generators
from .streams import Event, Stream, current_stream

if TYPE_CHECKING:
    from .patches import Patches

PROPERTIES = {
    "name": NAME,
    "platform_name": NAME,
    "vendor": NAME,
    "driver_version": "1.0",
    "version": "1.0",
    "type": "gpu",
    "max_compute_units": 512,
    "gpu_eu_count": 512,
    "max_work_group_size": 1024,
    "max_num_sub_groups": 64,
    "sub_group_sizes": [16, 32],
    "has_fp16": True,
    "has_fp64": True,
    "has_atomic64": True,
    "has_bfloat16_conversions": True,
    "has_subgroup_matrix_multiply_accumulate": True,
    "is_integrated_gpu": False,
}


def properties(index: int) -> Properties:
    return Properties(**PROPERTIES, total_memory=here().memory)


def initialise() -> None:
    """`THXPModule_initExtension`: the generators come into being."""
    if here().settle_visible_devices() == 0:
        raise RuntimeError("No XPU devices are available.")
    torch.xpu.default_generators = default_generators()  # type: ignore[assignment]


def call_at_once(call: Any, **kwargs: Any) -> None:
    """`_lazy_call`, at once: the generators are there before the driver is."""
    if here().count > 0:
        torch.xpu.default_generators = default_generators()  # type: ignore[assignment]
        call()


def _nothing(*args: Any) -> None:
    """A simulation has done this work already."""


XPU: dict[str, Any] = {
    "_has_xpu": True,
    "_xpu_init": initialise,
    "_xpu_getDeviceCount": lambda: here().settle_visible_devices(),
    "_xpu_getDevice": lambda: here().current,
    "_xpu_setDevice": switch,
    "_xpu_exchangeDevice": exchange,
    "_xpu_maybeExchangeDevice": exchange,
    "_xpu_isInBadFork": lambda: here().forked,
    "_xpu_getArchFlags": lambda: "pvc",
    "_xpu_canDeviceAccessPeer": lambda device, peer: True,
    "_xpu_synchronize": synchronize,
    "_xpu_getCurrentStream": lambda index: described(current_stream(index)),
    "_xpu_setStream": choose_stream,
    "_xpu_emptyCache": empty_cache,
    "_xpu_memoryStats": memory_stats,
    "_xpu_resetPeakMemoryStats": reset_peak,
    "_xpu_resetAccumulatedMemoryStats": _nothing,
    "_xpu_getMemoryInfo": memory_info,
}
TORCH_XPU: dict[str, Any] = {
    "_device_count_zes": lambda: here().count,
    "_is_in_bad_fork": lambda: here().forked,
    "_exchange_device": exchange,
    "_maybe_exchange_device": exchange,
    "_get_device_properties": properties,
    "Stream": Stream,
    "Event": Event,
    "_lazy_call": call_at_once,
}
# What PyTorch itself has there.
_WITHOUT = {name: getattr(torch.xpu, name) for name in TORCH_XPU if hasattr(torch.xpu, name)}


def install(patches: Patches) -> None:
    patches.set_all(torch.xpu, {"_initialized": False, "_cached_device_count": None, "default_generators": ()})
    patches.set_all(torch.xpu, {"_queued_calls": [], "_lazy_seed_tracker": type(torch.xpu._lazy_seed_tracker)()})
    if here().kind != "xpu":
        patches.set(torch._C, "_has_xpu", False)
        patches.set_all(torch.xpu, _WITHOUT)
        return
    patches.set_all(torch._C, XPU)
    patches.set_all(torch.xpu, TORCH_XPU)
    patches.set(torch.xpu.random, "_lazy_call", call_at_once)
    patches.set_all(torch.xpu.streams, {"Stream": Stream, "Event": Event})
