"""`torch.cuda` and `torch.accelerator`: queries, devices, memory, streams, random numbers, files, mixed
precision.
"""

import io
import os
import re
import sys
import threading
from contextlib import nullcontext
from types import ModuleType

import numpy
import pytest
import torch
from releases import PINNING_IN_VAIN_WARNS, odd_operand
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from placement_lint.simulate import NotSimulated, gpus

NO_DRIVER = "Found no NVIDIA driver on your system"


@pytest.fixture
def two_gpus():
    with gpus(2) as machine:
        yield machine


# --- entering and leaving -------------------------------------------------------------------------


def test_everything_is_as_before_afterwards():
    before = {
        owner: dict(vars(owner))
        for owner in (torch, torch.Tensor, torch.UntypedStorage, torch.cuda, torch._C, torch.nn.functional)
    }
    with gpus(2):
        left = torch.ones(2, device="cuda")
        assert torch.cuda.is_available()
    for owner, attributes in before.items():
        assert dict(vars(owner)) == attributes
    assert str(left.device) == "cpu"
    assert not torch.cuda.is_available()


def test_decorator():
    @gpus(3)
    def count():
        return torch.cuda.device_count()

    assert (count(), count()) == (3, 3)


def test_one_inside_another():
    with gpus(1):
        with gpus(4):
            assert torch.cuda.device_count() == 4
        assert torch.cuda.device_count() == 1


def test_it_ends_when_the_program_fails():
    with pytest.raises(KeyError), gpus(2):
        raise KeyError
    assert str(torch.ones(1).device) == "cpu"
    assert "device" not in vars(torch.Tensor)


def test_no_negative_counts():
    with pytest.raises(ValueError, match="-1"):
        gpus(-1)


# --- no GPU ---------------------------------------------------------------------------------------

WITHOUT_GPU = {
    "tensor to": lambda: torch.ones(1).to("cuda"),
    "tensor cuda": lambda: torch.ones(1).cuda(),
    "module to": lambda: nn.Linear(1, 1).to("cuda"),
    "module cuda": lambda: nn.Linear(1, 1).cuda(),
    "factory": lambda: torch.zeros(1, device="cuda"),
    "tensor": lambda: torch.tensor([1.0], device="cuda:0"),
    "index": lambda: torch.ones(1).to(0),
    "current_device": lambda: torch.cuda.current_device(),
    "set_device": lambda: torch.cuda.set_device(0),
    "properties": lambda: torch.cuda.get_device_properties(0),
    "legacy": lambda: torch.cuda.FloatTensor(2),
}


@pytest.mark.parametrize("case", WITHOUT_GPU)
def test_no_driver(case):
    with gpus(0), pytest.raises(RuntimeError, match=NO_DRIVER):
        WITHOUT_GPU[case]()


def test_what_works_without_a_gpu():
    with gpus(0):
        assert (torch.cuda.is_available(), torch.cuda.device_count()) == (False, 0)
        assert torch.backends.cuda.is_built()
        wrapped = nn.DataParallel(nn.Linear(2, 1), device_ids=[0, 1])
        assert wrapped.device_ids == []
        assert str(wrapped(torch.ones(3, 2)).device) == "cpu"
        nn.Module().cuda()
        torch.cuda.manual_seed_all(1)
        heard = pytest.warns(UserWarning, match="no accelerator is found") if PINNING_IN_VAIN_WARNS else nullcontext()
        with heard:
            list(DataLoader(TensorDataset(torch.ones(2)), pin_memory=True))


def test_loading_a_gpu_checkpoint_without_one():
    buffer = io.BytesIO()
    with gpus(3):
        torch.save({"weight": torch.ones(2, device="cuda:2")}, buffer)
    for count, message in ((0, "is False"), (1, "on CUDA device 2 but")):
        buffer.seek(0)
        with gpus(count), pytest.raises(RuntimeError, match=f"Attempting to deserialize object .*{message}"):
            torch.load(buffer)


# --- queries --------------------------------------------------------------------------------------


def test_queries(two_gpus):
    assert (torch.cuda.is_available(), torch.cuda.device_count()) == (True, 2)
    assert torch.cuda.get_device_name(1)
    assert torch.cuda.get_device_capability() >= (7, 0)
    properties = torch.cuda.get_device_properties("cuda:1")
    assert properties.total_memory > 1024**3
    assert torch.cuda.is_bf16_supported()
    assert torch.cuda.can_device_access_peer(0, 1)
    assert torch.version.cuda
    assert torch.backends.cudnn.is_available()
    assert torch.cuda.get_arch_list()
    assert torch.cuda.nccl.version()
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_properties(2)


@pytest.mark.skipif(not hasattr(torch, "accelerator"), reason="this torch has no torch.accelerator")
def test_the_accelerator_is_cuda():
    with gpus(0):
        assert not torch.accelerator.is_available()
    with gpus(2):
        assert torch.accelerator.is_available()
        assert torch.accelerator.current_accelerator() == torch.device("cuda")
        assert torch.accelerator.device_count() == 2
        torch.cuda.set_device(1)
        assert torch.accelerator.current_device_index() == 1


def test_current_device(two_gpus):
    assert torch.cuda.current_device() == 0
    with torch.cuda.device(1):
        assert torch.cuda.current_device() == 1
        assert str(torch.ones(1, device="cuda").device) == "cuda:1"
        assert str(torch.ones(1).cuda().device) == "cuda:1"
    torch.cuda.set_device(1)
    with torch.cuda.device_of(torch.ones(1, device="cuda:0")):
        assert torch.cuda.current_device() == 0
    torch.cuda.set_device("cuda:0")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(5)


def test_visible_devices_are_read_at_the_first_use(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with gpus(4):
        os.environ["CUDA_VISIBLE_DEVICES"] = "2,3"
        assert torch.cuda.device_count() == 2
        torch.ones(1).cuda()
        os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        assert torch.cuda.device_count() == 2
        with pytest.raises(RuntimeError, match="invalid device ordinal"):
            torch.ones(1, device="cuda:2")


def test_memory(two_gpus):
    held = torch.zeros(1000, device="cuda:1")
    assert torch.cuda.memory_allocated(1) == 4096
    assert torch.cuda.memory_allocated(0) == 0
    part = held[:10]
    del held
    assert torch.cuda.memory_allocated(1) == 4096
    del part
    assert torch.cuda.memory_allocated(1) == 0
    assert torch.cuda.max_memory_allocated(1) >= 4000
    torch.cuda.reset_peak_memory_stats(1)
    torch.cuda.empty_cache()
    assert torch.cuda.max_memory_allocated(1) == 0
    free, total = torch.cuda.mem_get_info()
    assert 0 < free <= total
    assert "Allocated memory" in torch.cuda.memory_summary()
    assert torch.cuda.memory_reserved() >= 0


def test_what_the_allocator_counts(two_gpus):
    held = [torch.zeros(1000, device="cuda:1") for _ in range(3)]
    del held[0]
    torch.cuda.empty_cache()
    stats = torch.cuda.memory_stats(1)
    assert stats["allocation.all.current"] == 2
    assert (stats["num_device_alloc"], stats["num_device_free"]) == (3, 1)
    assert stats["num_sync_all_streams"] == 1
    assert torch.cuda.memory_stats(0)["num_device_alloc"] == 0


def test_streams_and_events(two_gpus):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    stream = torch.cuda.Stream()
    begin.record()
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        values = torch.ones(2, device="cuda")
        values.record_stream(stream)
    end.record()
    stream.wait_stream(torch.cuda.current_stream())
    stream.synchronize()
    torch.cuda.synchronize()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert stream.query()
    assert end.query()
    assert begin.elapsed_time(end) >= 0
    assert torch.cuda.Stream(device=1).device == torch.device("cuda:1")


def test_random_numbers(two_gpus):
    torch.cuda.manual_seed(7)
    first = torch.rand(3, device="cuda")
    state = torch.cuda.get_rng_state()
    second = torch.rand(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(second, torch.rand(3, device="cuda"))
    torch.cuda.manual_seed_all(7)
    assert torch.equal(first, torch.rand(3, device="cuda"))
    assert torch.cuda.initial_seed() == 7


def test_each_device_has_its_own_random_numbers():
    torch.manual_seed(3)
    expected = torch.randn(4), torch.randn(4)
    with gpus(2):
        torch.manual_seed(3)
        first = torch.randn(4)
        zero, one = torch.randn(4, device="cuda:0"), torch.randn(4, device="cuda:1")
        second = torch.randn(4)
        assert torch.equal(first, expected[0])
        assert torch.equal(second, expected[1])
        assert torch.equal(zero.cpu(), one.cpu())
        assert not torch.equal(zero, torch.randn(4, device="cuda:0"))


DRAWS = {
    "rand": lambda: torch.rand(5, device="cuda"),
    "randint": lambda: torch.randint(100, (5,), device="cuda"),
    "randperm": lambda: torch.randperm(9, device="cuda"),
    "like": lambda: torch.randn_like(torch.ones(5, device="cuda")),
    "like, from the CPU": lambda: torch.randn_like(torch.ones(5), device="cuda"),
    "normal": lambda: torch.normal(torch.zeros(5, device="cuda"), 1.0),
    "normal with a size": lambda: torch.normal(0.0, 1.0, (5,), device="cuda"),
    "in place": lambda: torch.empty(5, device="cuda").uniform_(),
    "init": lambda: nn.init.xavier_normal_(torch.empty(5, 5, device="cuda")),
    "bernoulli": lambda: torch.bernoulli(torch.full((64,), 0.5, device="cuda")),
    "multinomial": lambda: torch.multinomial(torch.ones(50, device="cuda"), 9),
    "dropout": lambda: nn.functional.dropout(torch.ones(64, device="cuda")),
    "attention": lambda: _attention(*torch.ones(3, 1, 8, 8, device="cuda"), dropout_p=0.5),
    "default device": lambda: _under_a_default_device(lambda: torch.rand(5)),
}


_attention = nn.functional.scaled_dot_product_attention


def _under_a_default_device(draw):
    with torch.device("cuda"):
        return draw()


@pytest.mark.parametrize("case", DRAWS)
def test_a_draw_on_a_gpu_leaves_the_cpu_s_numbers(two_gpus, case):
    before = torch.get_rng_state()
    torch.cuda.manual_seed(5)
    first, second = DRAWS[case](), DRAWS[case]()
    assert torch.equal(before, torch.get_rng_state())
    assert not torch.equal(first, second)
    torch.cuda.manual_seed(5)
    assert torch.equal(first, DRAWS[case]())
    assert str(first.device) == "cuda:0"


def test_generators_of_gpus(two_gpus):
    """`aten/src/ATen/cuda/CUDAGeneratorImpl.cpp`: the state is a seed and an offset."""
    generator = torch.Generator("cuda:1").manual_seed(5)
    assert (str(generator.device), generator.initial_seed()) == ("cuda:1", 5)
    state = generator.get_state()
    assert (state.shape, state.dtype, str(state.device)) == ((16,), torch.uint8, "cpu")
    first = torch.rand(6, device="cuda:1", generator=generator)
    assert generator.get_offset() == 8
    copy = generator.clone_state()
    second = torch.rand(6, device="cuda:1", generator=generator)
    assert torch.equal(second, torch.rand(6, device="cuda:1", generator=copy))
    generator.set_state(state)
    assert torch.equal(first, torch.rand(6, device="cuda:1", generator=generator))
    generator.set_offset(8)
    assert torch.equal(second, torch.rand(6, device="cuda:1", generator=generator))
    with pytest.raises(RuntimeError, match="RNG state is wrong size"):
        generator.set_state(torch.get_rng_state())
    with pytest.raises(RuntimeError, match="offset must be a multiple of 4"):
        generator.set_offset(3)


def test_replicas_draw_the_same_in_every_run():
    def train():
        torch.manual_seed(0)
        model = nn.DataParallel(nn.Sequential(nn.Linear(64, 64), nn.Dropout(), nn.Linear(64, 8), nn.Dropout()).cuda())
        return model(torch.ones(64, 64, device="cuda")).sum().item()

    with gpus(4):
        assert len({train() for _ in range(6)}) == 1


# --- a simulation inside another, and names from before it ----------------------------------------


def test_default_devices_in_a_simulation_inside_another():
    with gpus(1):
        torch.set_default_device("cuda")
        with gpus(2):
            with torch.device("cuda:1"):
                assert str(torch.zeros(1).device) == "cuda:1"
            torch.set_default_device("cuda:1")
            assert str(torch.ones(1).device) == "cuda:1"
        assert str(torch.ones(1).device) == "cuda:0"
    assert str(torch.ones(1).device) == "cpu"


@pytest.fixture
def imported_before():
    """A module that imported names of PyTorch before the simulation."""
    module = ModuleType("imported_before")
    names = "from torch import Generator, device, linspace, matmul, zeros\nfrom torch.cuda import Event, Stream\n"
    exec(names + "from torch.nn.functional import linear\nfrom torch.cuda import FloatTensor", module.__dict__)
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_names_imported_before_the_simulation(imported_before):
    before = dict(vars(imported_before))
    with gpus(2):
        with pytest.raises(RuntimeError, match="found at least two devices, cuda:0 and cpu!"):
            imported_before.zeros(3) + torch.ones(3, device="cuda")
        assert str(imported_before.linspace(0, 1, 3, device="cuda").device) == "cuda:0"
        assert str(imported_before.Generator("cuda").device) == "cuda:0"
        assert str(imported_before.Stream(device=1).device) == "cuda:1"
        assert imported_before.Event().query()
        assert str(imported_before.device(1)) == "cuda:1"
        assert str(imported_before.FloatTensor(2).device) == "cuda:0"
        values = torch.ones(2, 2, device="cuda")
        with torch.autocast("cuda"):
            assert imported_before.matmul(values, values).dtype is torch.float16
            assert imported_before.linear(values, values).dtype is torch.float16
    assert vars(imported_before) == before


def test_printing(two_gpus):
    assert repr(torch.ones(2, device="cuda:1")) == "tensor([1., 1.], device='cuda:1')"
    assert "device='cuda:0'" in repr(nn.Linear(1, 1).cuda().weight)


def test_only_sleep_takes_time_on_a_stream(two_gpus):
    busy, idle, cycles = torch.cuda.Stream(0), torch.cuda.Stream(1), 100_000_000
    with torch.cuda.stream(busy):
        torch.cuda._sleep(cycles)
        event = torch.cuda.Event()
        event.record()
    assert not busy.query()
    assert not event.query()
    assert idle.query()
    idle.wait_event(event)
    assert not idle.query()
    event.synchronize()
    assert event.query()
    assert busy.query()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(cycles)
    torch.cuda.synchronize(1)
    assert not busy.query()
    torch.cuda.synchronize(0)
    assert busy.query()


def test_events_belong_to_the_device_they_were_recorded_on(two_gpus):
    first, second = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record(torch.cuda.current_stream(0))
    second.record(torch.cuda.current_stream(1))
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        first.elapsed_time(second)
    with pytest.raises(RuntimeError, match="Event device 0 does not match recording stream's device 1"):
        first.record(torch.cuda.current_stream(1))


def test_priorities_of_streams(two_gpus):
    lowest, highest = torch.cuda.Stream.priority_range()
    assert highest < lowest == 0
    assert [torch.cuda.Stream(priority=wish).priority for wish in (-99, 0, 99)] == [highest, 0, lowest]
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        torch.cuda.Stream("cpu")


def test_traced_modules(two_gpus):
    model = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Flatten()).cuda().eval()
    images = torch.rand(3, 1, 3, 3, device="cuda")
    traced = torch.jit.trace(model, (images,))
    assert torch.allclose(traced(images), model(images))
    assert str(traced(images).device) == "cuda:0"
    with pytest.raises(RuntimeError, match="failed in the TorchScript interpreter"):
        traced(images.cpu())
    halved = torch.jit.trace(lambda values: (values * 2 + 1) / values.shape[0], (images,))
    assert torch.equal(halved(images), (images * 2 + 1) / 3)


def test_legacy_types(two_gpus):
    values = torch.cuda.FloatTensor([1, 2])
    assert values.type() == "torch.cuda.FloatTensor"
    assert isinstance(values, torch.cuda.FloatTensor)
    assert not isinstance(values, torch.FloatTensor)
    assert isinstance(torch.ones(1), torch.FloatTensor)
    assert not isinstance(torch.ones(1), torch.cuda.FloatTensor)
    assert torch.cuda.LongTensor(3).dtype is torch.int64
    with pytest.raises(RuntimeError, match="expects device type: cpu but device type: cuda was passed"):
        torch.FloatTensor(2, device="cuda")
    torch.set_default_tensor_type("torch.cuda.DoubleTensor")
    try:
        assert (str(torch.ones(1).device), torch.ones(1).dtype) == ("cuda:0", torch.float64)
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert str(torch.ones(1).device) == "cpu"


def test_what_is_not_simulated_says_so(two_gpus):
    for attempt in (
        lambda: torch.cuda.CUDAGraph(),
        lambda: torch.ones(1, device="cuda").__cuda_array_interface__,
        lambda: torch.cuda.ExternalStream(1),
        lambda: torch.batch_norm_stats(torch.ones(2, 3, device="cuda"), 1e-5),
        lambda: torch.cuda.default_generators[0].graphsafe_get_state(),
        # Kernels that the CPU has not got at all, or not for this dtype.
        lambda: torch.batch_norm_elemt(torch.ones(2, 3, device="cuda"), *torch.ones(4, 3, device="cuda"), 1e-5),
        lambda: nn.functional.multi_margin_loss(
            torch.ones(2, 3, device="cuda", dtype=torch.half), torch.zeros(2, device="cuda", dtype=torch.int64)
        ),
    ):
        with pytest.raises(NotSimulated, match=r"^not simulated: "):
            attempt()


# --- pinned memory and loaders --------------------------------------------------------------------


def test_pinned_memory(two_gpus):
    values = torch.ones(2)
    pinned = values.pin_memory()
    assert not values.is_pinned()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert torch.zeros(2, pin_memory=True).is_pinned()
    assert str(pinned.to("cuda", non_blocking=True).device) == "cuda:0"


@pytest.mark.parametrize("workers", [0, 1])
def test_loader_that_pins(two_gpus, workers):
    loader = DataLoader(TensorDataset(torch.ones(4, 2)), batch_size=2, pin_memory=True, num_workers=workers)
    (batch,) = next(iter(loader))
    assert batch.is_pinned()
    assert str(batch.device) == "cpu"


def test_loader_that_pins_gpu_tensors(two_gpus):
    loader = DataLoader(TensorDataset(torch.ones(4, 2, device="cuda")), pin_memory=True)
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        next(iter(loader))


def test_shuffling_under_a_default_device(two_gpus):
    torch.set_default_device("cuda")
    try:
        loader = DataLoader(TensorDataset(torch.ones(4)), shuffle=True)
        with pytest.raises(RuntimeError, match="Expected a 'cuda' device type for generator but found 'cpu'"):
            next(iter(loader))
        repaired = DataLoader(TensorDataset(torch.ones(4)), shuffle=True, generator=torch.Generator("cuda"))
        next(iter(repaired))
    finally:
        torch.set_default_device(None)


def test_default_device_is_the_thread_s_own(two_gpus):
    seen = []
    torch.set_default_device("cuda")
    try:
        thread = threading.Thread(target=lambda: seen.append(str(torch.ones(1).device)))
        thread.start()
        thread.join()
    finally:
        torch.set_default_device(None)
    assert seen == ["cpu"]


# --- files ----------------------------------------------------------------------------------------

LOCATIONS = {
    "as saved": ({}, "cuda:1"),
    "cpu": ({"map_location": "cpu"}, "cpu"),
    "another": ({"map_location": "cuda:0"}, "cuda:0"),
    "device": ({"map_location": torch.device("cuda", 0)}, "cuda:0"),
    "dict": ({"map_location": {"cuda:1": "cuda:0"}}, "cuda:0"),
    "function": ({"map_location": lambda storage, location: storage.cuda(0)}, "cuda:0"),
    "function that keeps": ({"map_location": lambda storage, location: storage}, "cpu"),
    "with pickle": ({"weights_only": False}, "cuda:1"),
}


@pytest.mark.parametrize("case", LOCATIONS)
def test_saving_and_loading(two_gpus, case):
    options, device = LOCATIONS[case]
    model = nn.Linear(2, 1).cuda(1)
    buffer = io.BytesIO()
    torch.save(model.state_dict(), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, **options)
    assert {str(tensor.device) for tensor in loaded.values()} == {device}
    assert torch.equal(loaded["weight"].cpu(), model.weight.cpu())
    nn.Linear(2, 1).load_state_dict(loaded)


def test_optimizer_checkpoints(two_gpus):
    model = nn.Linear(2, 1).cuda(1)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 2, device="cuda:1")).backward()
    optimizer.step()
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    optimizer.load_state_dict(torch.load(buffer, map_location="cpu"))
    assert str(optimizer.state[model.weight]["exp_avg"].device) == "cuda:1"
    optimizer.step()


# --- mixed precision ------------------------------------------------------------------------------

HALF, FULL = torch.float16, torch.float32
DTYPES = {
    "linear": (lambda x: nn.functional.linear(x, x), HALF),
    "matmul": (lambda x: x @ x, HALF),
    "convolution": (lambda x: nn.functional.conv1d(x[None], x[None]), HALF),
    "attention": (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]), HALF),
    "add": (lambda x: x + x, FULL),
    "softmax": (lambda x: nn.functional.softmax(x @ x, -1), FULL),
    "sum": (lambda x: (x @ x).sum(), FULL),
    "layer norm": (lambda x: nn.functional.layer_norm(x @ x, (4,)), FULL),
    "mse_loss": (lambda x: nn.functional.mse_loss(x @ x, x), FULL),
    "cross_entropy": (
        lambda x: nn.functional.cross_entropy(x @ x, torch.zeros(4, dtype=int, device="cuda")),
        FULL,
    ),
    "relu": (lambda x: torch.relu(x @ x), HALF),
    "float64": (lambda x: x.double() @ x.double(), torch.float64),
    "the CPU's own": (lambda x: x.cpu() @ x.cpu(), FULL),
    "cat of both": (lambda x: torch.cat([x @ x, x]), FULL),
}


@pytest.mark.parametrize("case", DTYPES)
def test_autocast(two_gpus, case):
    compute, dtype = DTYPES[case]
    values = torch.randn(4, 4, device="cuda")
    with torch.autocast("cuda"):
        assert compute(values).dtype is dtype
        with torch.autocast("cuda", enabled=False):
            assert (values @ values).dtype is FULL
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert (values @ values).dtype is torch.bfloat16
    assert (values @ values).dtype is FULL


def test_autocast_of_layers(two_gpus):
    with torch.autocast("cuda"):
        assert nn.LSTM(3, 2).cuda()(torch.randn(4, 1, 3, device="cuda"))[0].dtype is HALF
        attention = nn.MultiheadAttention(4, 2).cuda()
        values = torch.randn(3, 1, 4, device="cuda")
        assert attention(values, values, values)[0].dtype is HALF


def test_autocast_refuses_binary_cross_entropy(two_gpus):
    values = torch.rand(4, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        nn.functional.binary_cross_entropy(values, values)


def test_autocast_gradients_are_those_of_the_parameters(two_gpus):
    layer = nn.Linear(3, 2).cuda()
    with torch.autocast("cuda"):
        loss = layer(torch.ones(2, 3, device="cuda")).float().sum()
    loss.backward()
    assert (layer.weight.grad.dtype, str(layer.weight.grad.device)) == (FULL, "cuda:0")


def test_replicas_autocast_in_the_default_dtype(two_gpus):
    """Threads are told that autocast is on, not in which dtype."""
    model = nn.DataParallel(nn.Linear(3, 2).cuda())
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert model(torch.ones(4, 3)).dtype is HALF
    assert model(torch.ones(4, 3)).dtype is FULL


def test_autocast_as_a_decorator_of_forward(two_gpus):
    class Layer(nn.Linear):
        @torch.autocast("cuda")
        def forward(self, values):
            return super().forward(values)

    assert nn.DataParallel(Layer(3, 2).cuda())(torch.ones(4, 3)).dtype is HALF


def test_grad_scaler(two_gpus):
    layer = nn.Linear(3, 2).cuda()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    scaler.scale(layer(torch.ones(1, 3).cuda()).sum()).backward()
    assert layer.bias.grad.tolist() == [4, 4]
    scaler.unscale_(optimizer)
    assert layer.bias.grad.tolist() == [1, 1]
    before = layer.bias.detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert torch.allclose(layer.bias, before - 0.1)
    scaler.scale(layer(torch.full((1, 3), float("inf")).cuda()).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0


def test_checkpointed_layers(two_gpus):
    from torch.utils.checkpoint import checkpoint

    layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).cuda()
    values = torch.ones(2, 3, device="cuda", requires_grad=True)
    for reentrant in (True, False):
        checkpoint(layer, values, use_reentrant=reentrant).sum().backward()
        assert str(values.grad.device) == "cuda:0"


def test_function_transforms(two_gpus):
    values = torch.randn(3, 2, device="cuda")
    assert str(torch.func.vmap(lambda row: row * 2)(values).device) == "cuda:0"
    gradient = torch.func.grad(lambda row: (row**2).sum())(values)
    assert torch.allclose(gradient, 2 * values)
    assert str(gradient.device) == "cuda:0"


def test_compiled_models_run_eagerly(two_gpus):
    model = torch.compile(nn.Linear(3, 2).cuda())
    assert str(model(torch.ones(4, 3, device="cuda")).device) == "cuda:0"
    assert list(model.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]
    with pytest.raises(RuntimeError, match=re.escape(odd_operand("mat1", "cpu", "cuda:0"))):
        model(torch.ones(4, 3))


def test_default_tensor_type_is_all_threads_own(two_gpus):
    def places():
        made = torch.ones(1), torch.tensor([1.0]), torch.Tensor([1.0]), torch.Tensor(2), nn.Linear(1, 1).weight
        return {str(tensor.device) for tensor in made}

    def note():
        torch.cuda.set_device(1)
        seen.append(places())

    seen = []
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        thread = threading.Thread(target=note)
        thread.start()
        thread.join()
        assert places() == {"cuda:0"}
        for kept in (torch.FloatTensor(1), torch.from_numpy(numpy.ones(1)), torch.Tensor(torch.FloatTensor(1))):
            assert str(kept.device) == "cpu"
        with torch.device("cpu"):
            assert (str(torch.ones(1).device), str(torch.Tensor([1.0]).device)) == ("cpu", "cuda:0")
    finally:
        torch.set_default_tensor_type(torch.FloatTensor)
    assert seen == [{"cuda:1"}]
    assert places() == {"cpu"}


def test_default_device_is_not_the_default_type_s(two_gpus):
    torch.set_default_device("cuda")
    try:
        assert (str(torch.Tensor([1.0]).device), str(torch.ones(1).device)) == ("cpu", "cuda:0")
    finally:
        torch.set_default_device(None)
