"""The C layer under `torch.cuda` and `torch.accelerator`, which a CPU build lacks; mps.py and xpu.py have the others.

PyTorch's Python code (`torch/cuda/__init__.py`, `torch/cuda/memory.py`, `torch/accelerator/__init__.py`)
runs as it is; lazy initialisation, the refusal to start in a forked process and the checks of arguments
are its own.
"""

from __future__ import annotations

import sys
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

# Every optimizer imports it. While it is imported, older versions look for streams and attributes of their own kind.
import torch._dynamo

from .machine import NO_DRIVER, Device, NotSimulated, here
from .randoms import default_generators
from .streams import Event, ExternalStream, Stream, current_stream, default_stream, set_stream, sleep, wait_for_all

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches

CAPABILITY = (9, 0)
NAME = "Simulated GPU"
CUDA_VERSION = "12.8"
CUDNN_VERSION = 91002


class Properties(SimpleNamespace):
    """What ``torch.cuda.get_device_properties`` gives: a plausible data centre card."""


PROPERTIES = {
    "name": NAME,
    "major": CAPABILITY[0],
    "minor": CAPABILITY[1],
    "multi_processor_count": 132,
    "warp_size": 32,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "regs_per_multiprocessor": 65536,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "L2_cache_size": 52428800,
    "is_integrated": 0,
    "is_multi_gpu_board": 0,
    "gcnArchName": "sm_90",
}


# --- initialisation and the current device --------------------------------------------------------


def initialise() -> None:
    """`_cuda_init`: the driver is found or not, and the generators come into being."""
    if here().settle_visible_devices() == 0:
        raise RuntimeError(NO_DRIVER)
    torch.cuda.default_generators = default_generators()  # type: ignore[assignment]


def call_at_once(call: Any, **kwargs: Any) -> None:
    """`_lazy_call`, at once: the generators are there before the driver is."""
    if here().count > 0:
        torch.cuda.default_generators = default_generators()  # type: ignore[assignment]
        call()


def exchange(index: int) -> int:
    """`cudaSetDevice`, returning the device before; a negative index changes nothing.

    PyTorch starts CUDA first: `torch/csrc/cuda/Module.cpp`, `THCPModule_setDevice_wrap`.
    """
    before = here().current
    if index >= 0:
        if here().kind == "cuda":
            torch.cuda._lazy_init()  # type: ignore[no-untyped-call]
        here().current = index
    return before


def maybe_exchange(index: int) -> int:
    return exchange(index)


def switch(index: int) -> None:
    exchange(index)


def synchronize(index: int) -> None:
    here().check_alive()
    wait_for_all(index)


# --- properties and memory ------------------------------------------------------------------------


def properties(index: int) -> Properties:
    return Properties(**PROPERTIES, total_memory=here().memory, uuid=f"GPU-{uuid.UUID(int=index + 1)}")


def _amounts(current: int, peak: int) -> dict[str, dict[str, int]]:
    amount = {"current": current, "peak": peak, "allocated": peak, "freed": peak - current}
    return dict.fromkeys(("all", "large_pool", "small_pool"), amount)


def memory_stats(index: int) -> dict[str, Any]:
    """An allocator without reserve: all reserved memory is in use, and each tensor has a segment."""
    machine = here()
    taken, returned = machine.taken[index], machine.returned[index]
    in_use = _amounts(machine.allocated[index], machine.peak[index])
    pieces, none = _amounts(taken - returned, taken), _amounts(0, 0)
    stats: dict[str, Any] = {}
    stats.update(dict.fromkeys(("allocated_bytes", "reserved_bytes", "active_bytes", "requested_bytes"), in_use))
    stats.update(dict.fromkeys(("allocation", "segment", "active"), pieces))
    stats.update(dict.fromkeys(("inactive_split", "inactive_split_bytes"), none))
    stats.update(dict.fromkeys(("oversize_allocations", "oversize_segments"), none["all"]))
    stats.update(dict.fromkeys(("num_alloc_retries", "num_ooms"), machine.refused))
    stats.update({"num_device_alloc": taken, "num_device_free": returned})
    stats.update({"num_sync_all_streams": machine.emptied, "max_split_size": -1})
    return stats


def memory_info(index: int) -> tuple[int, int]:
    return here().memory - here().allocated[index], here().memory


def empty_cache() -> None:
    """There is no cache; the only visible effect is that it waits for the streams."""
    here().emptied += 1


def reset_peak(index: int) -> None:
    here().peak[index] = here().allocated[index]


class Runtime:
    """``torch.cuda.cudart()``."""

    class cudaError:
        success = 0

        def __init__(self, code: int) -> None:
            self.code = code

    def cudaGetErrorString(self, error: Any) -> str:
        return "no error"

    def cudaMemGetInfo(self, index: int) -> tuple[int, int]:
        here().check(index)
        return memory_info(index)

    def cudaProfilerStart(self) -> int:
        return 0

    def cudaProfilerStop(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        raise NotSimulated(f"the CUDA runtime's {name}")


class Graph:
    """Stands for everything that captures kernels."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotSimulated("CUDA graphs")


def lacking(what: str) -> Callable[..., Any]:
    """Stands for a function that has no counterpart on a CPU."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotSimulated(what)

    return refuse


# --- streams as the C layer has them --------------------------------------------------------------


def described(stream: Stream) -> tuple[int, int, int]:
    return stream.stream_id, stream.device.index, stream.device_type


def choose_stream(*, stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index))


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Some calls ask for work that a simulation has done already."""


CUDA: dict[str, Any] = {
    "_cuda_init": initialise,
    "_cuda_getDeviceCount": lambda: here().settle_visible_devices(),
    "_cuda_getDevice": lambda: here().current,
    "_cuda_setDevice": switch,
    "_cuda_exchangeDevice": exchange,
    "_cuda_maybeExchangeDevice": maybe_exchange,
    "_cuda_canDeviceAccessPeer": lambda device, peer: True,
    "_cuda_getArchFlags": lambda: "sm_90 compute_90",
    "_cuda_getCompiledVersion": lambda: 12080,
    "_cuda_isInBadFork": lambda: here().forked,
    "_cuda_synchronize": lambda: synchronize(here().current),
    "_cuda_ipc_collect": _nothing,
    "_cuda_sleep": sleep,
    "_cuda_clearCublasWorkspaces": _nothing,
    "_cuda_getCurrentStream": lambda index: described(current_stream(index)),
    "_cuda_getDefaultStream": lambda index: described(default_stream(index)),
    "_cuda_setStream": choose_stream,
    "_cuda_getCurrentRawStream": lambda index: current_stream(index).cuda_stream,
    "_cuda_isCurrentStreamCapturing": lambda: False,
    "_cuda_get_sync_debug_mode": lambda: 0,
    "_cuda_set_sync_debug_mode": _nothing,
    "_cuda_emptyCache": empty_cache,
    "_cuda_memoryStats": memory_stats,
    "_cuda_resetPeakMemoryStats": reset_peak,
    "_cuda_resetAccumulatedMemoryStats": _nothing,
    "_cuda_memorySnapshot": lambda *args, **kwargs: {"segments": [], "device_traces": []},
    "_cuda_record_memory_history": _nothing,
    "_cuda_setMemoryFraction": _nothing,
    "_cuda_getMemoryFraction": lambda index: 1.0,
    "_cuda_getAllocatorBackend": lambda: "native",
    "_cuda_cudaCachingAllocator_enable": _nothing,
}

ACCELERATOR: dict[str, Any] = {
    "_accelerator_getAccelerator": lambda: Device(here().kind),
    "_get_accelerator": lambda check=None: Device(here().kind),
    "_accelerator_deviceCount": lambda: here().settle_visible_devices(),
    "_accelerator_getDeviceIndex": lambda: _initialised().current,
    "_accelerator_setDeviceIndex": switch,
    "_accelerator_exchangeDevice": exchange,
    "_accelerator_maybeExchangeDevice": maybe_exchange,
    "_accelerator_getStream": current_stream,
    "_accelerator_setStream": set_stream,
    "_accelerator_synchronizeDevice": synchronize,
    "_accelerator_isAllocatorInitialized": lambda: here().awake,
    "_accelerator_emptyCache": empty_cache,
    "_accelerator_emptyHostCache": _nothing,
    "_accelerator_getDeviceStats": memory_stats,
    "_accelerator_resetPeakStats": reset_peak,
    "_accelerator_resetAccumulatedStats": _nothing,
    "_accelerator_getMemoryInfo": memory_info,
}

TORCH_CUDA: dict[str, Any] = {
    "_cached_device_count": None,
    "_device_count_nvml": lambda: here().count,
    "_is_in_bad_fork": lambda: here().forked,
    "_exchange_device": exchange,
    "_maybe_exchange_device": maybe_exchange,
    "_get_device_properties": properties,
    "_check_capability": _nothing,
    "_check_cubins": _nothing,
    "is_bf16_supported": lambda including_emulation=True: True,
    "_cudart": Runtime(),
    "_initialized": False,
    "default_generators": (),
    "Stream": Stream,
    "ExternalStream": ExternalStream,
    "Event": Event,
    "CUDAGraph": Graph,
    "_lazy_call": call_at_once,
}


# What PyTorch itself has there: without CUDA, classes that refuse to be made.
_WITHOUT = {name: getattr(torch.cuda, name) for name in TORCH_CUDA if hasattr(torch.cuda, name)}


def _initialised() -> Any:
    here().wake()
    return here()


def install(patches: Patches) -> None:
    patches.set_all(torch._C, ACCELERATOR)
    patches.set_existing(torch, {"Stream": Stream, "Event": Event})
    patches.set(sys.modules["torch.nn.parallel._functions"], "_streams", None)
    # `torch/nn/modules/_functions.py`, `SyncBatchNorm`: its first kernel, which the CPU lacks.
    patches.set(torch, "batch_norm_stats", lacking("the kernels of SyncBatchNorm in training"))
    patches.set_all(torch.cuda, {"_queued_calls": [], "_lazy_seed_tracker": type(torch.cuda._lazy_seed_tracker)()})
    if here().kind == "cuda":
        _install_cuda(patches)
    else:
        _leave_out_cuda(patches)


def _leave_out_cuda(patches: Patches) -> None:
    """`torch/cuda/__init__.py`, `_is_compiled`, looks for the C layer. A CUDA build of PyTorch has one."""
    patches.remove_all(torch._C, CUDA)
    patches.set_all(torch.cuda, {**_WITHOUT, "_initialized": False, "_cached_device_count": None})
    patches.set(torch.version, "cuda", None)
    patches.set(torch.backends.cuda, "is_built", lambda: False)
    patches.set(torch.backends.cudnn, "is_available", lambda: False)


def _install_cuda(patches: Patches) -> None:
    patches.set_all(torch._C, CUDA)
    patches.set_all(torch.cuda, TORCH_CUDA)
    patches.set_all(torch.cuda.streams, {"Stream": Stream, "Event": Event})
    patches.set_all(torch.cuda.graphs, {"CUDAGraph": Graph, "_cuda_isCurrentStreamCapturing": lambda: False})
    patches.set(torch.cuda.random, "_lazy_call", call_at_once)
    if torch.version.cuda is None:
        patches.set(torch.version, "cuda", CUDA_VERSION)
    patches.set(torch.backends.cuda, "is_built", lambda: True)
    # cuDNN is there, but never fit for a tensor: its kernels (flattened RNN weights) take CUDA memory.
    patches.set_all(
        torch.backends.cudnn,
        {
            "is_available": lambda: here().count > 0,
            "version": lambda: CUDNN_VERSION,
            "is_acceptable": lambda tensor: False,
        },
    )
    _silence_nvtx(patches)


def _silence_nvtx(patches: Patches) -> None:
    """Ranges for a profiler: `torch/cuda/nvtx.py` refuses them in a CPU build."""
    marks = {"rangePushA": lambda text: 0, "rangePop": lambda: 0, "rangeStartA": lambda text: 0}
    quiet = SimpleNamespace(**marks, rangeEnd=_nothing, markA=_nothing)
    patches.set(sys.modules["torch.cuda.nvtx"], "_nvtx", quiet)
