"""Two CUDA GPUs: streams, events, pinned memory, generators, default devices."""

import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from . import Program, Raises, place, places


def gpu(*shape, index=0):
    return torch.ones(*shape, device=f"cuda:{index}")


def current_inside(context):
    with context:
        return torch.cuda.current_device(), torch.cuda.current_stream().device.index


def timed(timing, recorded=True):
    first, second = (torch.cuda.Event(enable_timing=timing) for _ in range(2))
    if recorded:
        first.record()
        second.record()
    return first.elapsed_time(second) >= 0


def pinned(*shape):
    return torch.ones(*shape).pin_memory()


def under(device, make):
    with torch.device(device):
        return make()


def nested_defaults():
    with torch.device("cuda"):
        outer = torch.ones(1)
        with torch.device("cpu"):
            inner = torch.ones(1)
        return places(outer, inner, torch.ones(1))


def default_and_back():
    torch.set_default_device("cuda:1")
    try:
        during = str(torch.get_default_device()), place(nn.Linear(1, 1).weight)
    finally:
        torch.set_default_device(None)
    return (*during, str(torch.get_default_device()))


def draws_after(seed, device):
    seed()
    return torch.rand(3, device=device).tolist()


def only_the_current_gpu_is_seeded():
    torch.cuda.manual_seed_all(5)
    expected = torch.rand(3, device="cuda:1").tolist()
    torch.cuda.manual_seed_all(5)
    torch.cuda.manual_seed(9)
    return torch.rand(3, device="cuda:1").tolist() == expected


def fork_keeps(devices):
    torch.manual_seed(1)
    expected = torch.rand(2), torch.rand(2, device="cuda:1")
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=devices):
        torch.rand(7), torch.rand(7, device="cuda:1")
    return tuple(
        torch.equal(*pair) for pair in zip(expected, (torch.rand(2), torch.rand(2, device="cuda:1")), strict=True)
    )


def all_states_again():
    states = torch.cuda.get_rng_state_all()
    first = [torch.rand(2, device=f"cuda:{index}").tolist() for index in range(2)]
    torch.cuda.set_rng_state_all(states)
    return len(states), first == [torch.rand(2, device=f"cuda:{index}").tolist() for index in range(2)]


STREAMS = {
    "the default stream has handle 0": Program(
        "c10/cuda/CUDAStream.cpp: getDefaultCUDAStream",
        lambda: (torch.cuda.default_stream().cuda_stream, torch.cuda.current_stream() == torch.cuda.default_stream()),
        (0, True),
    ),
    "no stream changes nothing": Program(
        "cuda/__init__.py: StreamContext", lambda: current_inside(torch.cuda.stream(None)), (0, 0)
    ),
    "a stream brings its GPU": Program(
        "cuda/__init__.py: set_stream", lambda: current_inside(torch.cuda.stream(torch.cuda.Stream(1))), (1, 1)
    ),
    "a generic stream is a context": Program(
        "torch/csrc/Stream.cpp: THPStream_enter", lambda: current_inside(torch.Stream("cuda:1")), (1, 1)
    ),
    "the GPU is back after a stream": Program(
        "cuda/__init__.py: StreamContext",
        lambda: (current_inside(torch.cuda.stream(torch.cuda.Stream(1))), torch.cuda.current_device())[1],
        0,
    ),
    "the current stream of the CPU": Program(
        "cuda/_utils.py: _get_device_index",
        lambda: torch.cuda.current_stream(torch.device("cpu")),
        Raises(ValueError, "Expected a cuda device, but got: cpu"),
    ),
    "streams print their device": Program(
        "cuda/streams.py: Stream",
        lambda: repr(torch.cuda.Stream(1)).startswith("<torch.cuda.Stream device=cuda:1 cuda_stream=0x"),
        True,
    ),
    "a new event prints as uninitialized": Program(
        "cuda/streams.py: Event", lambda: repr(torch.cuda.Event()), "<torch.cuda.Event uninitialized>"
    ),
    "a recorded event has a handle": Program(
        "cuda/streams.py: Event",
        lambda: repr(torch.cuda.current_stream().record_event()).startswith("<torch.cuda.Event 0x"),
        True,
    ),
    "two streams are two": Program(
        "cuda/streams.py: Stream", lambda: torch.cuda.Stream() == torch.cuda.Stream(), False
    ),
    "streams are keys": Program(
        "cuda/streams.py: Stream", lambda: {torch.cuda.current_stream(): 1}[torch.cuda.default_stream()], 1
    ),
    "an event that was not recorded is done": Program(
        "c10/cuda/CUDAEvent.h: query", lambda: torch.cuda.Event().query(), True
    ),
    "events without timing": Program(
        "c10/cuda/CUDAEvent.h: elapsed_time",
        lambda: timed(False),
        Raises(ValueError, "Both events must be created with argument 'enable_timing=True'."),
    ),
    "events before they are recorded": Program(
        "c10/cuda/CUDAEvent.h: elapsed_time",
        lambda: timed(True, recorded=False),
        Raises(ValueError, "Both events must be recorded before calculating elapsed time."),
    ),
    "a stream records an event": Program(
        "cuda/streams.py: record_event", lambda: str(torch.cuda.Stream(1).record_event().device), "cuda:1"
    ),
    "waiting across GPUs": Program(
        "cuda/streams.py: wait_stream", lambda: torch.cuda.Stream(1).wait_stream(torch.cuda.Stream(0)), None
    ),
    "a tensor of the CPU has no stream": Program(
        "aten/src/ATen/native/native_functions.yaml: record_stream",
        lambda: torch.ones(1).record_stream(torch.cuda.Stream()),
        Raises(NotImplementedError, "Could not run 'aten::record_stream' with arguments from the 'CPU' backend."),
    ),
    "generic streams and events": Program(
        "torch/csrc/Event.cpp: THPEvent_record",
        lambda: (event := torch.Event("cuda", enable_timing=True), event.record(), event.query())[-1],
        True,
    ),
    "the accelerator's stream": Program(
        "accelerator/__init__.py: set_stream",
        lambda: (
            stream := torch.Stream("cuda:1"),
            before := torch.accelerator.current_stream(),
            torch.accelerator.set_stream(stream),
            torch.accelerator.current_stream(1) == stream,
            torch.cuda.current_device(),
            torch.accelerator.set_stream(before),
        )[3:5],
        (True, 1),
    ),
    "the accelerator's device index": Program(
        "accelerator/__init__.py: device_index",
        lambda: current_inside(torch.accelerator.device_index(1)),
        (1, 1),
    ),
    "streams of the CPU do nothing": Program(
        "cpu/__init__.py: Stream", lambda: torch.cpu.current_stream().wait_stream(torch.cpu.Stream()), None
    ),
    "a negative device changes nothing": Program(
        "cuda/__init__.py: device", lambda: current_inside(torch.cuda.device(-1)), (0, 0)
    ),
    "a device context of a tensor of the CPU": Program(
        "cuda/__init__.py: device_of", lambda: current_inside(torch.cuda.device_of(torch.ones(1))), (0, 0)
    ),
    "a device by its name": Program(
        "cuda/__init__.py: set_device",
        lambda: (torch.cuda.set_device("cuda:1"), torch.cuda.current_device(), torch.cuda.set_device(0))[1],
        1,
    ),
    "a device that is no GPU": Program(
        "cuda/_utils.py: _get_device_index",
        lambda: torch.cuda.set_device("cpu"),
        Raises(ValueError, "Expected a cuda device, but got: cpu"),
    ),
    "a module for a device": Program(
        "__init__.py: get_device_module", lambda: torch.get_device_module("cuda"), torch.cuda
    ),
    "reductions of NCCL in one process": Program(
        "cuda/nccl.py: all_reduce",
        lambda: torch.cuda.nccl.all_reduce([gpu(2), gpu(2, index=1)]),
        Raises(NotImplementedError, "not simulated: "),
    ),
    "graphed callables": Program(
        "cuda/graphs.py: make_graphed_callables",
        lambda: torch.cuda.make_graphed_callables(nn.Linear(2, 2).cuda(), (gpu(1, 2),)),
        Raises(NotImplementedError, "not simulated: CUDA graphs"),
    ),
    "a graph context": Program(
        "cuda/graphs.py: graph",
        lambda: torch.cuda.graph(torch.cuda.CUDAGraph()),
        Raises(NotImplementedError, "not simulated: CUDA graphs"),
    ),
}

PINNED = {
    "factories": Program(
        "aten/src/ATen/EmptyTensor.cpp: empty_cpu",
        lambda: [
            made.is_pinned()
            for made in (
                torch.empty(2, pin_memory=True),
                torch.tensor([1.0], pin_memory=True),
                torch.ones_like(torch.ones(1), pin_memory=True),
                torch.rand(2, pin_memory=True),
            )
        ],
        [True] * 4,
    ),
    "on a GPU": Program(
        "aten/src/ATen/cuda/EmptyTensor.cpp: empty_cuda",
        lambda: torch.zeros(2, device="cuda", pin_memory=True),
        Raises(RuntimeError, "Only dense CPU tensors can be pinned"),
    ),
    "under a default device": Program(
        "aten/src/ATen/cuda/EmptyTensor.cpp: empty_cuda",
        lambda: under("cuda", lambda: torch.zeros(2, pin_memory=True)),
        Raises(RuntimeError, "Only dense CPU tensors can be pinned"),
    ),
    "views share it": Program("aten/src/ATen/native/Memory.cpp: is_pinned", lambda: pinned(3)[1:].is_pinned(), True),
    "results do not": Program(
        "aten/src/ATen/native/Memory.cpp: is_pinned",
        lambda: [made.is_pinned() for made in (pinned(3) + 1, pinned(3).clone(), torch.empty_like(pinned(3)))],
        [False] * 3,
    ),
    "in place keeps it": Program(
        "aten/src/ATen/native/Memory.cpp: is_pinned", lambda: pinned(3).add_(1).is_pinned(), True
    ),
    "a tensor of a GPU is not": Program(
        "aten/src/ATen/native/Memory.cpp: is_pinned", lambda: gpu(2).is_pinned(), False
    ),
    "a copy from a GPU into it": Program(
        "aten/src/ATen/native/Copy.cpp: copy_",
        lambda: (kept := pinned(2).zero_(), kept.copy_(gpu(2), non_blocking=True), kept.is_pinned(), kept.tolist())[2:],
        (True, [1, 1]),
    ),
    "storages": Program(
        "storage.py: is_pinned",
        lambda: (pinned(2).untyped_storage().is_pinned(), torch.ones(2).untyped_storage().is_pinned()),
        (True, False),
    ),
    "a storage is pinned": Program(
        "storage.py: pin_memory", lambda: torch.ones(2).untyped_storage().pin_memory().is_pinned(), True
    ),
    "a packed sequence": Program(
        "nn/utils/rnn.py: pin_memory", lambda: pack_sequence([torch.ones(2, 1)]).pin_memory().is_pinned(), True
    ),
    "a batch of everything": Program(
        "utils/data/_utils/pin_memory.py: pin_memory",
        lambda: [
            value.is_pinned() if isinstance(value, torch.Tensor) else value
            for value in torch.utils.data._utils.pin_memory.pin_memory({"a": torch.ones(1), "b": "text"}).values()
        ],
        [True, "text"],
    ),
    "a parameter": Program(
        "aten/src/ATen/native/Memory.cpp: pin_memory",
        lambda: nn.Linear(1, 1).weight.data.pin_memory().is_pinned(),
        True,
    ),
}

RANDOM = {
    "a generator of another GPU": Program(
        "aten/src/ATen/core/Generator.h: check_generator",
        lambda: place(torch.rand(2, device="cuda:1", generator=torch.Generator("cuda:0"))),
        "cuda:1",
    ),
    "a generator under a default device": Program(
        "utils/_device.py: _device_constructors", lambda: under("cuda", lambda: str(torch.Generator().device)), "cpu"
    ),
    "init with a generator of the CPU": Program(
        "nn/init.py: normal_",
        lambda: nn.init.normal_(gpu(2), generator=torch.Generator()),
        Raises(RuntimeError, "Expected a 'cuda' device type for generator but found 'cpu'"),
    ),
    "one GPU is seeded": Program("cuda/random.py: manual_seed", only_the_current_gpu_is_seeded, True),
    "manual_seed seeds all": Program(
        "random.py: manual_seed",
        lambda: (
            draws_after(lambda: torch.manual_seed(3), "cuda:0") == draws_after(lambda: torch.manual_seed(3), "cuda:1")
        ),
        True,
    ),
    "a fork of all": Program("random.py: fork_rng", lambda: fork_keeps([0, 1]), (True, True)),
    "a fork of one GPU": Program("random.py: fork_rng", lambda: fork_keeps([0]), (True, False)),
    "all states": Program("cuda/random.py: set_rng_state_all", all_states_again, (2, True)),
    "a state of the GPU as a tensor of the CPU": Program(
        "cuda/random.py: get_rng_state", lambda: place(torch.cuda.get_rng_state(1)), "cpu"
    ),
    "seed() differs": Program(
        "cuda/random.py: seed", lambda: (torch.cuda.seed(), torch.cuda.initial_seed())[1] != 3, True
    ),
    "normal of mixed operands": Program(
        "aten/src/ATen/native/DistributionTemplates.h: normal_out_impl",
        lambda: torch.normal(gpu(2), torch.ones(2)),
        Raises(RuntimeError, "Expected all tensors to be on the same device"),
    ),
    "random_ with a generator": Program(
        "aten/src/ATen/native/Distributions.cpp: random_",
        lambda: place(gpu(2, index=1).random_(generator=torch.Generator("cuda:1"))),
        "cuda:1",
    ),
    "distributions": Program(
        "distributions/normal.py: sample",
        lambda: places(
            torch.distributions.Normal(gpu(2), gpu(2)).sample(),
            torch.distributions.Categorical(gpu(3)).sample((2,)),
            torch.distributions.Dirichlet(gpu(3, index=1)).sample(),
        ),
        ("cuda:0", "cuda:0", "cuda:1"),
    ),
    "a distribution of mixed operands": Program(
        "distributions/normal.py: log_prob",
        lambda: torch.distributions.Normal(gpu(2), gpu(2)).log_prob(torch.zeros(2)),
        Raises(RuntimeError, "Expected all tensors to be on the same device"),
    ),
}

DEFAULTS = {
    "contexts nest": Program("utils/_device.py: DeviceContext", nested_defaults, ("cuda:0", "cpu", "cuda:0")),
    "set and unset": Program("__init__.py: set_default_device", default_and_back, ("cuda:1", "cuda:1", "cpu")),
    "an explicit device is stronger": Program(
        "utils/_device.py: __torch_function__", lambda: place(under("cuda", lambda: torch.ones(1, device="cpu"))), "cpu"
    ),
    "tensor of a tensor": Program(
        "utils/_device.py: _device_constructors",
        lambda: places(*under("cuda", lambda: (torch.tensor([1.0]), torch.as_tensor(1.0), torch.asarray([1.0])))),
        ("cuda:0",) * 3,
    ),
    "as_tensor of a tensor of the CPU": Program(
        "utils/_device.py: _device_constructors",
        lambda: (values := torch.ones(1), place(under("cuda", lambda: torch.as_tensor(values))))[1],
        "cuda:0",
    ),
    "from_numpy stays": Program(
        "utils/_device.py: _device_constructors",
        lambda: (array := torch.ones(2).numpy(), place(under("cuda", lambda: torch.from_numpy(array))))[1],
        "cpu",
    ),
    "likes follow their tensor": Program(
        "utils/_device.py: _device_constructors",
        lambda: (
            values := torch.ones(1),
            places(*under("cuda", lambda: (torch.zeros_like(values), values.new_ones(2), values.clone()))),
        )[1],
        ("cpu",) * 3,
    ),
    "meta inside": Program(
        "utils/_device.py: DeviceContext",
        lambda: place(under("cuda", lambda: under("meta", lambda: nn.Linear(2, 2))).weight),
        "meta",
    ),
    "windows and frequencies": Program(
        "signal/windows/windows.py: hann",
        lambda: places(
            *under("cuda", lambda: (torch.signal.windows.hann(4), torch.hann_window(4), torch.fft.fftfreq(4)))
        ),
        ("cuda:0",) * 3,
    ),
    "a sparse tensor": Program(
        "utils/_device.py: _device_constructors",
        lambda: place(under("cuda", lambda: torch.sparse_coo_tensor([[0]], [1.0], (2,)))),
        "cuda:0",
    ),
    "one-hot and masks": Program(
        "nn/modules/transformer.py: _generate_square_subsequent_mask",
        lambda: place(under("cuda", lambda: nn.Transformer.generate_square_subsequent_mask(3))),
        "cuda:0",
    ),
    "a function of the program": Program(
        "utils/_device.py: set_device",
        lambda: place(torch.utils._device.set_device("cuda:1")(lambda: torch.ones(1))()),
        "cuda:1",
    ),
    "buffers of a layer": Program(
        "nn/modules/batchnorm.py: __init__",
        lambda: places(*under("cuda", lambda: nn.BatchNorm1d(2)).state_dict().values()),
        ("cuda:0",) * 5,
    ),
    "a device that does not exist": Program(
        "aten/src/ATen/cuda/CUDAContext.cpp: getDeviceProperties",
        lambda: under("cuda:7", lambda: torch.ones(1)),
        Raises(RuntimeError, "CUDA error: invalid device ordinal"),
    ),
}

AREAS = {"streams": STREAMS, "pinned memory": PINNED, "random numbers": RANDOM, "default devices": DEFAULTS}
