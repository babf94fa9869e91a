"""DataParallel and its functions on two GPUs: everything that PyTorch documents about them."""

import copy
import gc
import io
import operator
import threading
from collections import OrderedDict, namedtuple

import pytest
import torch
import torch.cuda.comm
from programs import Does
from releases import COMPLEX_ARRIVES, EMPTY_KEEPS_ITS_SHAPE
from torch import nn
from torch.nn import parallel
from torch.nn.parallel import comm

from placement_lint.simulate import gpus

Pair = namedtuple("Pair", "first second")


@pytest.fixture(autouse=True)
def two_gpus():
    with gpus(2):
        yield


def on(index, *shape):
    return torch.randn(*shape, device=f"cuda:{index}")


def devices(value):
    if isinstance(value, torch.Tensor):
        return str(value.device)
    if isinstance(value, dict):
        return {key: devices(item) for key, item in value.items()}
    return [devices(item) for item in value]


# --- scatter and gather ---------------------------------------------------------------------------


@pytest.mark.parametrize("home", ["cpu", "cuda:0", "cuda:1"])
def test_scatter(home):
    values = torch.randn(5, 2, device=home, requires_grad=True)
    first, second = parallel.scatter(values, [0, 1])
    assert devices([first, second]) == ["cuda:0", "cuda:1"]
    assert [len(first), len(second)] == [3, 2]
    assert torch.equal(torch.cat([first.cpu(), second.cpu()]), values.cpu())
    first.backward(torch.full_like(first, 2.0))
    assert str(values.grad.device) == home
    assert values.grad.cpu()[:, 0].tolist() == [2, 2, 2, 0, 0]


@pytest.mark.parametrize(("target", "home"), [(0, "cuda:0"), (1, "cuda:1"), ("cpu", "cpu")])
def test_gather(target, home):
    parts = [on(0, 2, 3).requires_grad_(), on(1, 1, 3).requires_grad_()]
    whole = parallel.gather(parts, target)
    assert (str(whole.device), tuple(whole.shape)) == (home, (3, 3))
    whole.backward(torch.arange(9.0, device=home).view(3, 3))
    assert [part.grad.sum().item() for part in parts] == [15, 21]
    assert devices([part.grad for part in parts]) == ["cuda:0", "cuda:1"]


def test_gather_of_scalars_gives_a_vector():
    parts = [
        torch.tensor(1.0, device="cuda:0", requires_grad=True),
        torch.tensor(2.0, device="cuda:1", requires_grad=True),
    ]
    with pytest.warns(UserWarning, match="all input tensors were scalars"):
        whole = parallel.gather(parts, 0)
    assert whole.tolist() == [1, 2]
    whole.backward(torch.tensor([3.0, 4.0], device="cuda:0"))
    assert [part.grad.item() for part in parts] == [3, 4]


def test_scatter_and_gather_along_another_dimension():
    values = torch.randn(3, 4)
    parts = parallel.scatter(values, [0, 1], dim=1)
    assert [tuple(part.shape) for part in parts] == [(3, 2), (3, 2)]
    assert torch.equal(parallel.gather(parts, 0, dim=1).cpu(), values)


def test_gradients_through_scatter_and_gather_are_exact():
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)

    def there_and_back(values):
        return parallel.gather(parallel.scatter(values, [0, 1]), 0).cpu()

    assert torch.autograd.gradcheck(there_and_back, (values,))
    assert torch.autograd.gradgradcheck(there_and_back, (values,))
    at_home = values.detach().cuda().requires_grad_()
    assert torch.autograd.gradcheck(lambda v: tuple(parallel.scatter(v, [0, 1])), (at_home,))


def test_gathered_memory_format():
    parts = [on(index, 2, 3, 4, 4).contiguous(memory_format=torch.channels_last) for index in (0, 1)]
    assert parallel.gather(parts, 0).is_contiguous(memory_format=torch.channels_last)


NESTED = {
    "tensor": lambda x: x,
    "list": lambda x: [x, x + 1],
    "tuple": lambda x: (x, [x, {"deep": x}]),
    "dict": lambda x: {"a": x, "b": (x, x)},
    "OrderedDict": lambda x: OrderedDict(a=x, b=[x]),
    "namedtuple": lambda x: Pair(x, x * 2),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_inputs_and_outputs(name):
    value = NESTED[name](torch.randn(4, 2))
    received = []

    def forward(module, given):
        received.append(type(given))
        return given

    result = nn.DataParallel(Does(forward).cuda())(value)
    assert type(result) is type(value)
    assert received == [type(value)] * 2

    def compare(given, got):
        if isinstance(given, torch.Tensor):
            assert str(got.device) == "cuda:0"
            assert torch.equal(given, got.cpu())
        elif isinstance(given, dict):
            assert list(given) == list(got)
            for key in given:
                compare(given[key], got[key])
        else:
            assert len(given) == len(got)
            for one, other in zip(given, got, strict=True):
                compare(one, other)

    compare(value, result)


def test_gather_checks_its_inputs():
    with pytest.raises(RuntimeError, match=r"invalid shape \[2, 4\], but expected \[2, 3\]"):
        parallel.gather([on(0, 2, 3), on(1, 2, 4)], 0)
    with pytest.raises(ValueError, match="same number of keys"):
        parallel.gather([{"a": on(0, 1, 2)}, {"a": on(1, 1, 2), "b": on(1, 1, 2)}], 0)
    with pytest.raises(AssertionError, match="not implemented for CPU tensors"):
        parallel.gather([torch.ones(1, 2), torch.ones(1, 2)], 0)


# --- replicate, broadcast, parallel_apply ---------------------------------------------------------


def test_replicate():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).cuda()
    for ids in ([0, 1], (0, 1)):
        for index, replica in enumerate(parallel.replicate(module, ids)):
            assert list(replica.parameters()) == []
            assert (
                devices([replica[0].weight, replica[1].running_mean, replica[1].num_batches_tracked])
                == [f"cuda:{index}"] * 3
            )
            assert replica[0].weight.grad_fn is not None
            assert replica(on(index, 4, 3)).get_device() == index


def test_detached_replicas():
    replicas = parallel.replicate(nn.Linear(3, 2).cuda(), [0, 1], detach=True)
    assert not replicas[1].weight.requires_grad


def test_replicas_can_be_saved():
    module = nn.Linear(3, 2).cuda()
    for detach in (True, False):
        torch.save(parallel.replicate(module, [0, 1], detach=detach), io.BytesIO())


def test_gradients_of_replicas_are_summed():
    module = nn.Linear(3, 2, bias=False).cuda()
    for index, replica in enumerate(parallel.replicate(module, [0, 1])):
        replica(torch.full((1, 3), index + 1.0, device=f"cuda:{index}")).sum().backward()
    assert module.weight.grad.tolist() == [[3.0] * 3] * 2


def test_broadcast():
    source = on(0, 3)
    same, copied = comm.broadcast(source, [0, 1])
    assert same is source or same.data_ptr() == source.data_ptr()
    assert (copied.get_device(), copied.tolist()) == (1, source.tolist())
    outputs = [torch.zeros(3, device="cuda:0"), torch.zeros(3, device="cuda:1")]
    comm.broadcast(source, out=outputs)
    assert [output.tolist() for output in outputs] == [source.tolist()] * 2
    assert devices(torch.cuda.comm.broadcast(torch.ones(2), [0, 1])) == ["cuda:0", "cuda:1"]


@pytest.mark.parametrize("buffer_size", [8, 10485760])
def test_broadcast_coalesced(buffer_size):
    tensors = [on(0, 5), on(0, 2, 2).double(), torch.arange(3, device="cuda"), on(0, 7)]
    tensors.append(torch.eye(3, device="cuda").to_sparse())
    originals, copies = comm.broadcast_coalesced(tensors, [0, 1], buffer_size)
    assert all(one is other for one, other in zip(originals, tensors, strict=True))
    for source, sent in zip(tensors, copies, strict=True):
        assert sent.get_device() == 1
        assert sent.dtype is source.dtype
        assert torch.equal(sent.to_dense().cpu(), source.to_dense().cpu())
    with pytest.raises(RuntimeError, match=r"All tensors must be on devices\[0\]: 1"):
        comm.broadcast_coalesced(tensors, [1, 0])


def test_copies_have_version_counters_of_their_own():
    _, (first, second) = comm.broadcast_coalesced([on(0, 2), on(0, 2)], [0, 1])
    before = second._version
    first.add_(1)
    assert second._version == before


def test_reduce_add():
    total = comm.reduce_add([torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")], destination=1)
    assert (str(total.device), total.tolist()) == ("cuda:1", [2, 2])
    sums = comm.reduce_add_coalesced([[on(0, 2), on(0, 3)], [on(1, 2), on(1, 3)]], 0)
    assert devices(sums) == ["cuda:0", "cuda:0"]


def test_parameters_without_elements_are_replicated():
    model = nn.Linear(3, 2)
    model.register_parameter("rows", nn.Parameter(torch.ones(0, 4)))
    model.register_buffer("flags", torch.ones(2, 0, dtype=torch.uint8))
    _, replica = parallel.replicate(model.cuda(), [0, 1])
    shapes = [(0, 4), (2, 0)] if EMPTY_KEEPS_ITS_SHAPE else [(0,), (0,)]
    assert [replica.rows.shape, replica.flags.shape] == shapes
    assert devices([replica.rows, replica.flags]) == ["cuda:1", "cuda:1"]


UNFIT = {
    "another shape": ([(1, 2, 3), (2, 3)], 0, "Output tensor at index 0 has incorrect shape"),
    "another size beside the dimension": ([(2, 3), (2, 4)], 0, "Output tensor at index 1 has incorrect shape"),
    "too little": ([(2, 3), (1, 3)], -2, "Total size for output tensors along scatter dim 0 does not match"),
}


@pytest.mark.parametrize("case", UNFIT)
def test_outputs_of_scatter_must_fit(case):
    shapes, dim, message = UNFIT[case]
    with pytest.raises(RuntimeError, match=message):
        comm.scatter(torch.ones(4, 3), dim=dim, out=[on(index, *shape) for index, shape in enumerate(shapes)])


def test_gathered_dtype_is_the_first_ones():
    assert comm.gather([on(0, 2).half(), on(1, 2)], destination=0).dtype is torch.float16


def test_scatter_and_gather_of_comm():
    values = torch.arange(6.0).view(6, 1)
    parts = comm.scatter(values, [0, 1], chunk_sizes=[2, 4])
    assert [len(part) for part in parts] == [2, 4]
    outputs = [torch.empty(2, 1, device="cuda:0"), torch.empty(4, 1, device="cuda:1")]
    comm.scatter(values, out=outputs)
    assert outputs[1].flatten().tolist() == [2, 3, 4, 5]
    whole = torch.empty(6, 1, device="cuda:1")
    comm.gather(outputs, out=whole)
    assert whole.flatten().tolist() == values.flatten().tolist()
    assert str(comm.gather(outputs, destination="cpu").device) == "cpu"
    with pytest.raises(RuntimeError, match="to be of same length"):
        comm.scatter(values, [0, 1], chunk_sizes=[6])


def test_parallel_apply():
    layers = [nn.Linear(3, 2).cuda(index) for index in (0, 1)]
    inputs = [on(0, 4, 3), on(1, 4, 3)]
    for given in (inputs, [(value,) for value in inputs]):
        outputs = parallel.parallel_apply(layers, given)
        assert devices(outputs) == ["cuda:0", "cuda:1"]
        for layer, value, output in zip(layers, inputs, outputs, strict=True):
            assert torch.equal(layer(value), output)


def test_replicas_run_in_threads_on_their_devices():
    seen = {}

    def forward(module, values):
        seen[values.get_device()] = (
            threading.current_thread(),
            torch.cuda.current_device(),
            torch.zeros(1).cuda(),
        )
        return values

    nn.DataParallel(Does(forward).cuda())(torch.randn(4, 3))
    assert sorted(seen) == [0, 1]
    assert all(thread is not threading.main_thread() for thread, _, _ in seen.values())
    assert all(index == current == tensor.get_device() for index, (_, current, tensor) in seen.items())
    assert torch.cuda.current_device() == 0


def test_an_exception_keeps_its_type_and_says_where():
    def forward(module, values):
        return operator.getitem({}, f"key {values.get_device()}")

    with pytest.raises(KeyError) as caught:
        nn.DataParallel(Does(forward).cuda())(torch.randn(4, 3))
    assert "Caught KeyError in replica 0 on device 0." in str(caught.value)
    assert "Original Traceback" in str(caught.value)


# --- the wrapper ----------------------------------------------------------------------------------


def test_functional_form():
    layer, values = nn.Linear(3, 2).cuda(), on(1, 20, 3)
    expected = layer(values.cuda(0))
    assert torch.allclose(parallel.data_parallel(layer, values, (0, 1)), expected)
    assert torch.allclose(parallel.data_parallel(layer, values), expected)
    assert parallel.data_parallel(layer, values, [torch.device("cuda:0"), torch.device("cuda:1")], 1).get_device() == 1
    assert torch.allclose(parallel.data_parallel(layer.cuda(1), values, (1, 0)).cpu(), expected.cpu())
    flagged = Does(lambda m, x, scale=1: m.layer(x) * scale).cuda()
    assert parallel.data_parallel(flagged, values, (0, 1), module_kwargs={"scale": 2}).shape == (20, 1)


@pytest.mark.parametrize("ids", [(0, 1), (1, 0)])
def test_gradients_equal_those_of_one_device(ids):
    layer, values = nn.Linear(10, 5), torch.randn(20, 10)
    layer(values).sum().backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters()]
    layer.zero_grad()
    with torch.cuda.device(ids[0]):
        layer.cuda()
        output = parallel.data_parallel(layer, values.cuda(1), ids)
        output.sum().backward()
    assert output.get_device() == ids[0]
    for parameter, gradient in zip(layer.parameters(), expected, strict=True):
        assert parameter.grad.get_device() == ids[0]
        assert torch.allclose(parameter.grad.cpu(), gradient, atol=1e-5)


def test_sparse_gradients():
    table, words = nn.Embedding(10, 5, sparse=True), torch.randint(10, (20, 5))
    table(words).sum().backward()
    expected = table.weight.grad.to_dense()
    table.zero_grad()
    table.cuda()
    nn.DataParallel(table)(words).sum().backward()
    assert table.weight.grad.is_sparse
    assert str(table.weight.grad.device) == "cuda:0"
    assert torch.equal(table.weight.grad.to_dense().cpu(), expected)
    torch.optim.SparseAdam(table.parameters()).step()


def test_small_batches():
    model = nn.DataParallel(nn.Linear(3, 2).cuda())
    for rows in (1, 2, 3):
        assert model(torch.randn(rows, 3)).shape == (rows, 2)
    assert model(torch.randn(0, 3)).shape == (0, 2)


FIRST_DEVICE = "module must have its parameters and buffers on device"
PLACES = [
    # where the module is, device_ids, does it work
    ("cpu", None, False),
    ("cuda:0", None, True),
    ("cuda:1", None, False),
    ("cuda:0", [0, 1], True),
    ("cuda:0", [1, 0], False),
    ("cuda:1", [1, 0], True),
    ("cpu", [0], True),
    ("cuda:1", [0], True),
]


@pytest.mark.parametrize(("place", "ids", "works"), PLACES)
def test_where_the_module_must_be(place, ids, works):
    wrapped = nn.DataParallel(nn.Sequential(nn.Linear(3, 2)).to(place), ids)
    if works:
        assert wrapped(torch.randn(4, 3)).get_device() == (ids or [0])[0]
    else:
        with pytest.raises(RuntimeError, match=FIRST_DEVICE):
            wrapped(torch.randn(4, 3))


def test_a_buffer_in_the_wrong_place_is_found():
    module = nn.BatchNorm1d(3).cuda()
    module.running_mean = torch.zeros(3)
    with pytest.raises(RuntimeError, match="found one of them on device: cpu"):
        nn.DataParallel(module)(torch.randn(4, 3))


ARGUMENTS = {
    "no ids": ([], IndexError, "list index out of range"),
    "an int": (0, TypeError, "'int' object is not subscriptable"),
    "a string": ("0,1", RuntimeError, "Invalid device string: '0'"),
    "the CPU": (["cpu"], ValueError, "Expected a non cpu device, but got: cpu"),
    "too many": ([0, 5], AssertionError, "Invalid device id"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments(case):
    ids, kind, message = ARGUMENTS[case]
    with pytest.raises(kind, match=message):
        nn.DataParallel(nn.Linear(3, 2).cuda(), ids)


def test_the_same_gpu_twice():
    model = nn.DataParallel(Does(lambda m, x: m.layer(x)).cuda(), device_ids=[0, 0])
    output = model(torch.randn(4, 3))
    output.sum().backward()
    assert output.shape == (4, 1)
    assert model.module.layer.bias.grad.item() == 4


def test_buffers_that_require_gradients():
    class Scales(nn.Module):
        def __init__(self, scale):
            super().__init__()
            self.register_buffer("scale", scale)
            self.register_buffer("fixed", scale.detach().clone())

        def forward(self, values):
            return values * self.scale + self.fixed

    scale = torch.randn(5, dtype=torch.float64, device="cuda", requires_grad=True)
    model = nn.DataParallel(Scales(scale), [0, 1])
    values = torch.randn(2, 5, dtype=torch.float64, device="cuda")
    assert torch.autograd.gradcheck(lambda _: model(values), (scale,))


def test_no_grad_reaches_the_replicas():
    def forward(module, values):
        assert not torch.is_grad_enabled()
        return values

    model = nn.DataParallel(Does(forward).cuda())
    with torch.no_grad():
        model(torch.randn(4, 3))
    with pytest.raises(AssertionError):
        model(torch.randn(4, 3))


def test_gradient_penalty_through_the_wrapper():
    layer = nn.Linear(4, 1).cuda()
    inputs = torch.ones(2, 4, requires_grad=True).cuda()
    (gradient,) = torch.autograd.grad(
        nn.DataParallel(layer)(inputs), inputs, torch.ones(2, 1, device="cuda"), create_graph=True
    )
    gradient.mean().backward()
    assert layer.weight.grad.tolist() == [[0.25] * 4]


def test_no_reference_cycles():
    gc.collect()
    model = nn.DataParallel(nn.Linear(1, 1).cuda())
    model(torch.randn(2, 1, device="cuda"))
    assert gc.collect() == 0


def test_recurrent_layers_flatten_their_weights():
    layer = nn.LSTM(6, 4, batch_first=True, bidirectional=True).cuda()

    def forward(module, values):
        module.rnn.flatten_parameters()
        return module.rnn(values)[0]

    holder = Does(forward)
    holder.rnn = layer
    twin = copy.deepcopy(layer)
    values = torch.ones(4, 5, 6).to(0)
    nn.functional.mse_loss(nn.DataParallel(holder.cuda())(values), torch.zeros(4, 5, 8, device="cuda")).backward()
    nn.functional.mse_loss(twin(values)[0], torch.zeros(4, 5, 8, device="cuda")).backward()
    for one, other in zip(layer.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-6)


def test_gradients_keep_the_layout_of_their_weights():
    layer = nn.Conv2d(4, 8, 3).cuda().to(memory_format=torch.channels_last)
    nn.DataParallel(layer)(torch.randn(4, 4, 6, 6)).sum().backward()
    assert layer.weight.grad.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes(dtype):
    layer = nn.Linear(3, 2).to("cuda", dtype)
    output = nn.DataParallel(layer)(torch.randn(4, 3, dtype=dtype))
    assert output.dtype is dtype


def test_complex_parameters():
    layer = nn.Linear(3, 2, dtype=torch.complex64).cuda()
    values = torch.randn(4, 3, dtype=torch.complex64)
    if not COMPLEX_ARRIVES:
        with pytest.raises(RuntimeError, match="expects a tensor with <= 2 dimensions, but self is 3D"):
            nn.DataParallel(layer)(values)
        return
    nn.DataParallel(layer)(values).abs().sum().backward()
    assert layer.weight.grad.dtype is torch.complex64


def test_keyword_arguments_alone():
    model = nn.DataParallel(Does(lambda m, given: m.layer(given["data"])).cuda())
    for empty in ([], {}, ()):
        assert model(given={"data": torch.randn(4, 3), "unused": empty}).shape == (4, 1)


def test_hooks_run_once_for_each_replica():
    model, calls = nn.Sequential(nn.Linear(3, 2)).cuda(), []
    model[0].register_forward_hook(lambda module, inputs, output: calls.append(output.get_device()))
    model[0].register_forward_pre_hook(lambda module, inputs: calls.append(inputs[0].get_device()))
    nn.DataParallel(model)(torch.randn(4, 3))
    assert sorted(calls) == [0, 0, 1, 1]


def test_tensor_hooks_and_retained_gradients():
    seen = []
    hidden = nn.DataParallel(nn.Linear(3, 2).cuda())(torch.randn(4, 3))
    hidden.retain_grad()
    hidden.register_hook(lambda gradient: seen.append(str(gradient.device)))
    hidden.sum().backward()
    assert seen == ["cuda:0"]
    assert str(hidden.grad.device) == "cuda:0"


def test_state_dicts_cross_over_with_their_prefix():
    layer = nn.Linear(3, 2).cuda()
    wrapped = nn.DataParallel(layer)
    with pytest.raises(RuntimeError, match="Missing key"):
        layer.load_state_dict(wrapped.state_dict())
    layer.load_state_dict({key.removeprefix("module."): value for key, value in wrapped.state_dict().items()})


def test_the_wrapper_can_be_copied_and_saved():
    wrapped = nn.DataParallel(nn.Linear(3, 2).cuda())
    twin = copy.deepcopy(wrapped)
    assert twin(torch.randn(4, 3)).get_device() == 0
    buffer = io.BytesIO()
    torch.save(wrapped, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, weights_only=False)
    assert torch.equal(loaded(torch.ones(4, 3)), wrapped(torch.ones(4, 3)))
