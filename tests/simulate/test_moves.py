"""Moves of tensors and modules: which objects are new, which stay the same, and the effect on the optimizer."""

import copy
import warnings

import pytest
import torch
from programs import outcome
from torch import nn
from torch.nn.utils.rnn import pack_sequence

from placement_lint.simulate import gpus

MIXED = "Expected all tensors to be on the same device"


@pytest.fixture(autouse=True)
def two_gpus():
    with gpus(2):
        yield


# --- tensors --------------------------------------------------------------------------------------

PLACES = {
    "to a string": (lambda t: t.to("cuda:1"), "cuda:1"),
    "to an index": (lambda t: t.to(1), "cuda:1"),
    "to a device": (lambda t: t.to(torch.device("cuda", 1)), "cuda:1"),
    "to a device by index": (lambda t: t.to(torch.device(1)), "cuda:1"),
    "to bare cuda": (lambda t: t.to("cuda"), "cuda:0"),
    "to device and dtype": (lambda t: t.to("cuda:1", torch.float64), "cuda:1"),
    "to another tensor": (lambda t: t.to(torch.ones(1, device="cuda:1")), "cuda:1"),
    "to(device=)": (lambda t: t.to(device="cuda:1", non_blocking=True), "cuda:1"),
    "cuda()": (lambda t: t.cuda(), "cuda:0"),
    "cuda(1)": (lambda t: t.cuda(1), "cuda:1"),
    "cuda(device)": (lambda t: t.cuda(torch.device("cuda:1"), non_blocking=True), "cuda:1"),
    "there and back": (lambda t: t.cuda().cpu(), "cpu"),
    "type": (lambda t: t.type(torch.cuda.FloatTensor), "cuda:0"),
    "type by name": (lambda t: t.type("torch.cuda.DoubleTensor"), "cuda:0"),
    "type_as": (lambda t: t.type_as(torch.ones(1, device="cuda:1")), "cuda:1"),
    "type_as, back": (lambda t: t.cuda().type_as(torch.ones(1, dtype=torch.float64)), "cpu"),
    "type back": (lambda t: t.cuda().type(torch.FloatTensor), "cpu"),
    "dtype alone": (lambda t: t.cuda(1).double(), "cuda:1"),
    "views": (lambda t: t.cuda(1).view(-1, 1).t()[0, 1:].detach(), "cuda:1"),
    "clone": (lambda t: t.cuda(1).clone(), "cuda:1"),
    "like": (lambda t: torch.zeros_like(t.cuda(1)), "cuda:1"),
    "like, elsewhere": (lambda t: torch.ones_like(t, device="cuda:1"), "cuda:1"),
    "like, back on the CPU": (lambda t: torch.ones_like(t.cuda(), device="cpu"), "cpu"),
    "new_zeros": (lambda t: t.cuda(1).new_zeros(3), "cuda:1"),
    "new_tensor": (lambda t: t.cuda(1).new_tensor([1.0]), "cuda:1"),
    "new": (lambda t: t.cuda(1).new(3), "cuda:1"),
    "as_tensor": (lambda t: torch.as_tensor(t, device="cuda:1"), "cuda:1"),
    "as_tensor of an array": (lambda t: torch.as_tensor(t.numpy(), device="cuda:1"), "cuda:1"),
    "tensor of a tensor": (lambda t: t.cuda(1).new_tensor(t.cuda(1)), "cuda:1"),
    "computed": (lambda t: (t.cuda(1) * 2).sum(), "cuda:1"),
    "legacy constructor": (lambda t: torch.cuda.FloatTensor(2, 3), "cuda:0"),
    "legacy constructor with an index": (lambda t: torch.cuda.FloatTensor(2, 3, device=1), "cuda:1"),
    "legacy constructor of the CPU": (lambda t: torch.FloatTensor(2, 3), "cpu"),
    "Tensor(...)": (lambda t: torch.Tensor(2, 3), "cpu"),
    "sparse": (lambda t: torch.eye(2).to_sparse().to("cuda:1"), "cuda:1"),
    "complex": (lambda t: torch.view_as_real(torch.ones(2, dtype=torch.cfloat, device="cuda:1")), "cuda:1"),
}


@pytest.mark.parametrize("way", PLACES)
def test_where_a_tensor_goes(way):
    action, device = PLACES[way]
    moved = action(torch.ones(3))
    assert str(moved.device) == device
    assert moved.is_cuda == (device != "cpu")
    assert moved.is_cpu == (device == "cpu")
    assert moved.get_device() == (-1 if device == "cpu" else int(device[-1]))


FACTORIES = {
    "zeros": lambda **at: torch.zeros(2, **at),
    "ones": lambda **at: torch.ones(2, **at),
    "empty": lambda **at: torch.empty(2, **at),
    "full": lambda **at: torch.full((2,), 1.0, **at),
    "rand": lambda **at: torch.rand(2, **at),
    "randn": lambda **at: torch.randn(2, **at),
    "randint": lambda **at: torch.randint(0, 5, (2,), **at),
    "randperm": lambda **at: torch.randperm(4, **at),
    "arange": lambda **at: torch.arange(4, **at),
    "linspace": lambda **at: torch.linspace(0, 1, 4, **at),
    "eye": lambda **at: torch.eye(2, **at),
    "tensor": lambda **at: torch.tensor([1.0, 2.0], **at),
    "as_tensor": lambda **at: torch.as_tensor([1.0, 2.0], **at),
    "scalar_tensor": lambda **at: torch.scalar_tensor(1.0, **at),
    "tril_indices": lambda **at: torch.tril_indices(2, 2, **at),
    "hann_window": lambda **at: torch.hann_window(4, **at),
    "fftfreq": lambda **at: torch.fft.fftfreq(4, **at),
    "sparse_coo_tensor": lambda **at: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2), **at),
    "a layer's weight": lambda **at: nn.Linear(2, 2, **at).weight,
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name):
    factory = FACTORIES[name]
    assert str(factory().device) == "cpu"
    assert str(factory(device="cuda:1").device) == "cuda:1"
    assert str(factory(device=1).device) == "cuda:1"
    with torch.device("cuda:1"):
        assert str(factory().device) == "cuda:1"
        assert str(factory(device="cpu").device) == "cpu"
        with torch.device("cuda:0"):
            assert str(factory().device) == "cuda:0"
    torch.set_default_device("cuda:1")
    try:
        assert str(factory().device) == "cuda:1"
        assert str(torch.get_default_device()) == "cuda:1"
    finally:
        torch.set_default_device(None)
    with torch.cuda.device(1):
        assert str(factory(device="cuda").device) == "cuda:1"


def test_a_move_to_where_it_is_gives_the_tensor_itself():
    here, there = torch.ones(2), torch.ones(2, device="cuda")
    assert here.to("cpu") is here
    assert there.to("cuda") is there
    assert there.to("cuda:0") is there
    assert there.cuda() is there
    assert there.to("cuda", copy=True) is not there
    assert torch.as_tensor(there, device="cuda:0") is there


def test_a_discarded_move_changes_nothing():
    values = torch.ones(2)
    values.to("cuda")
    assert str(values.device) == "cpu"


def test_devices_compare_as_in_pytorch():
    assert torch.device("cuda") != torch.device("cuda:0")
    assert torch.ones(1, device="cuda").device == torch.device("cuda:0")
    assert isinstance(torch.device("cuda"), torch.device)
    assert torch.device(1) == torch.device("cuda:1")


def test_a_moved_leaf_is_no_leaf():
    leaf = torch.ones(2, requires_grad=True)
    assert leaf.to("cpu").is_leaf
    moved = leaf.to("cuda")
    assert not moved.is_leaf
    (moved * 3).sum().backward()
    assert str(leaf.grad.device) == "cpu"
    assert leaf.grad.tolist() == [3, 3]
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        torch.optim.SGD([leaf.to("cuda")], lr=0.1)


def test_gradients_cross_devices_and_come_home():
    weight = torch.ones(2, requires_grad=True)
    other = torch.full((2,), 2.0)
    on_first = (weight * other).cuda(0)
    on_second = (on_first * 3).cuda(1)
    (on_second * torch.ones(2, device="cuda:1")).sum().backward()
    assert weight.grad.tolist() == [6, 6]
    assert str(weight.grad.device) == "cpu"


def test_gradients_of_0_dim_operands_come_home():
    weight = torch.ones(3, requires_grad=True)
    penalty = (weight * weight).sum()
    loss = torch.ones(1, device="cuda", requires_grad=True).sum() + penalty
    loss.backward()
    assert weight.grad.tolist() == [2, 2, 2]
    torch.optim.SGD([weight], lr=0.1).step()


def test_gradients_of_copied_parts_come_home():
    weight = torch.ones(2, requires_grad=True)
    whole = torch.zeros(2, 2, device="cuda")
    whole[0] = weight * torch.tensor([2.0, 3.0])
    whole.sum().backward()
    assert weight.grad.tolist() == [2, 3]


def test_higher_derivatives_cross_devices():
    values = torch.tensor([2.0], requires_grad=True)
    (first,) = torch.autograd.grad((values.cuda() ** 3).sum(), values, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), values)
    assert str(first.device) == "cpu"
    assert second.item() == 12


ASKED = {
    "backward": lambda out, at: out.backward(torch.ones(2, device=at)),
    "autograd.grad": lambda out, at: torch.autograd.grad(out, [LEAF["leaf"]], torch.ones(2, device=at)),
}
LEAF = {}


@pytest.mark.parametrize("how", ASKED)
def test_a_backward_pass_begins_where_its_output_is(how):
    LEAF["leaf"] = torch.ones(2, device="cuda:1", requires_grad=True)
    for elsewhere in ("cpu", "cuda:0"):
        message = f"^invalid gradient at index 0 - expected device cuda:1 but got {elsewhere}"
        with pytest.raises(RuntimeError, match=message):
            ASKED[how](LEAF["leaf"] * 2, elsewhere)
    ASKED[how](LEAF["leaf"] * 2, "cuda:1")


class ReturnsElsewhere(torch.autograd.Function):
    """Its gradient comes from the CPU, whatever it was given."""

    @staticmethod
    def forward(ctx, values):
        return values * 2

    @staticmethod
    def backward(ctx, gradient):
        return torch.full(gradient.shape, 2.0)


def test_functions_return_gradients_where_their_inputs_are():
    expected = "Function ReturnsElsewhereBackward returned an invalid gradient at index 0 - expected device cuda:0"
    with pytest.raises(RuntimeError, match=expected):
        ReturnsElsewhere.apply(torch.ones(2, device="cuda", requires_grad=True)).sum().backward()
    scalar = torch.ones((), device="cuda", requires_grad=True)
    ReturnsElsewhere.apply(scalar).backward()
    assert str(scalar.grad.device) == "cuda:0"


def test_gradients_asked_for_are_where_their_tensors_are():
    image = torch.rand(1, 1, 4, 4, device="cuda:1", requires_grad=True)
    enlarged = nn.functional.interpolate(image, scale_factor=2)
    outer = torch.ones_like(enlarged, requires_grad=True)
    (first,) = torch.autograd.grad(enlarged, image, outer, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), image, allow_unused=True, materialize_grads=True)
    assert {str(first.device), str(second.device)} == {"cuda:1"}


def test_many_gradients_in_one_pass():
    values = torch.rand(3, device="cuda:1", requires_grad=True)
    rows = torch.eye(3, device="cuda:1")
    (jacobian,) = torch.autograd.grad(values**2, values, rows, is_grads_batched=True)
    assert torch.allclose(jacobian.cpu(), torch.diag(2 * values.detach().cpu()))


# --- modules --------------------------------------------------------------------------------------

MODULE_MOVES = {
    "to": lambda m: m.to("cuda:1"),
    "to(1)": lambda m: m.to(1),
    "cuda": lambda m: m.cuda(1),
    "to with dtype": lambda m: m.to("cuda:1", torch.float64),
    "to a tensor": lambda m: m.to(torch.ones(1, device="cuda:1")),
    "to_empty": lambda m: m.to_empty(device="cuda:1"),
    "through the wrapper": lambda m: nn.DataParallel(m).to("cuda:1").module,
}


@pytest.mark.parametrize("way", MODULE_MOVES)
def test_modules_keep_their_parameters(way):
    module = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    before = [id(parameter) for parameter in module.parameters()]
    moved = MODULE_MOVES[way](module)
    assert moved is module
    assert [id(parameter) for parameter in module.parameters()] == before
    assert {str(tensor.device) for tensor in module.state_dict().values()} == {"cuda:1"}
    assert all(parameter.is_leaf and isinstance(parameter, nn.Parameter) for parameter in module.parameters())


def test_gradients_move_with_their_parameters():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).backward()
    gradient = layer.weight.grad
    layer.cuda()
    assert layer.weight.grad is gradient
    assert str(gradient.device) == "cuda:0"


def test_buffers_are_new_objects():
    norm = nn.BatchNorm1d(2)
    before = norm.running_mean
    norm.cuda()
    assert norm.running_mean is not before
    assert str(before.device) == "cpu"


def test_conversions_that_replace_parameters():
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 1)
        before = layer.weight
        assert layer.cuda().weight is not before
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def test_swapped_parameters_keep_their_identity():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 1)
        before = layer.weight
        assert layer.cuda().weight is before
        assert str(layer.weight.device) == "cuda:0"
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


def test_meta_modules_become_real_on_a_gpu():
    layer = nn.Linear(2, 1, device="meta")
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        layer.to("cuda")
    before = layer.weight
    layer.to_empty(device="cuda")
    assert layer.weight is not before
    assert str(layer.weight.device) == "cuda:0"
    assert str(torch.ones(2, device="cuda").to("meta").device) == "meta"


def test_lazy_modules_load_what_has_no_shape_yet():
    waiting, other = nn.LazyLinear(2, device="cuda"), nn.LazyLinear(2)
    waiting.load_state_dict(other.state_dict())
    assert waiting.has_uninitialized_params()
    waiting.load_state_dict(nn.Linear(3, 2).cuda(1).state_dict())
    assert (waiting.weight.shape, str(waiting.weight.device)) == ((2, 3), "cuda:0")


def test_meta_parameters_draw_matrix_products_to_their_kernels():
    """Shapes can be tried out before ``to_empty``: meta kernels compare no devices."""
    (torch.ones(2, 3, device="cuda") @ torch.ones(3, 1, device="meta"))
    nn.functional.embedding(torch.zeros(2, dtype=torch.int64, device="cuda"), torch.ones(3, 2, device="meta"))


REGISTERED = {
    "parameter": (lambda: nn.Parameter(torch.ones(2)), True),
    "parameter of a moved tensor": (lambda: nn.Parameter(torch.ones(2).cuda()), True),
    "parameter moved to where it is": (lambda: nn.Parameter(torch.ones(2)).to("cpu"), True),
    "moved parameter": (lambda: nn.Parameter(torch.ones(2)).to("cuda"), False),
    "parameter on the GPU, moved to where it is": (
        lambda: nn.Parameter(torch.ones(2).cuda()).to("cuda"),
        True,
    ),
}


@pytest.mark.parametrize("case", REGISTERED)
def test_which_assignments_register(case):
    make, registered = REGISTERED[case]
    module = nn.Module()
    module.weight = make()
    assert ("weight" in dict(module.named_parameters())) is registered


def test_plain_attributes_stay_behind():
    module = nn.Linear(2, 2)
    module.plain = torch.zeros(2)
    module.listed = [nn.Linear(2, 2)]
    module.register_buffer("buffer", torch.zeros(2))
    module.register_buffer("unsaved", torch.zeros(2), persistent=False)
    module.cuda()
    assert [str(t.device) for t in (module.plain, module.listed[0].weight)] == ["cpu", "cpu"]
    assert [str(t.device) for t in (module.buffer, module.unsaved)] == ["cuda:0", "cuda:0"]


def test_loss_modules_move_their_weights():
    loss = nn.CrossEntropyLoss(weight=torch.ones(3)).to("cuda")
    assert str(loss(torch.randn(2, 3, device="cuda"), torch.tensor([0, 1], device="cuda")).device) == "cuda:0"


def test_packed_sequences_leave_their_batch_sizes():
    packed = pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    moved = packed.to("cuda")
    assert str(moved.data.device) == "cuda:0"
    assert str(moved.batch_sizes.device) == "cpu"
    output, _ = nn.GRU(2, 4).cuda()(moved)
    assert str(output.data.device) == "cuda:0"
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output)
    assert (str(padded.device), str(lengths.device)) == ("cuda:0", "cpu")
    padded.sum().backward()


@pytest.mark.parametrize("receiver", [{}, [], "text", torch.optim.SGD([torch.ones(1)], lr=0.1)])
def test_what_has_no_to(receiver):
    with pytest.raises(AttributeError, match="has no attribute 'to'"):
        receiver.to("cuda")


def test_integer_dtypes_are_refused_by_modules():
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        nn.Linear(1, 1).to(torch.int32)


def test_deepcopy_stays_on_its_device():
    layer = nn.Linear(2, 1).cuda(1)
    twin = copy.deepcopy(layer)
    assert twin.weight is not layer.weight
    assert str(twin.weight.device) == "cuda:1"
    assert torch.equal(twin.weight, layer.weight)
    values = torch.ones(2, device="cuda:1")
    assert str(copy.deepcopy(values).device) == "cuda:1"
    assert str(copy.copy(values).device) == "cuda:1"


# --- optimizers -----------------------------------------------------------------------------------

STATELESS = [
    *("SGD", "Adam", "AdamW", "Adadelta", "Adamax", "ASGD", "NAdam"),
    *("RAdam", "RMSprop", "Rprop", "LBFGS"),
    *(name for name in ("Adafactor",) if hasattr(torch.optim, name)),
]


def step(optimizer, model):
    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 3, device=model.weight.device)).pow(2).sum()
        loss.backward()
        return loss

    before = model.weight.detach().clone()
    optimizer.step(closure)
    return not torch.equal(before, model.weight)


@pytest.mark.parametrize("name", STATELESS)
def test_built_before_the_move(name):
    model = nn.Linear(3, 2)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
    model.to("cuda")
    assert step(optimizer, model)


@pytest.mark.parametrize("options", [{}, {"foreach": False}, {"foreach": True}])
def test_adagrad_built_before_the_move(options):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1, **options)
    model.to("cuda")
    with pytest.raises(RuntimeError, match=MIXED):
        step(optimizer, model)
    optimizer.load_state_dict(optimizer.state_dict())
    assert step(optimizer, model)


@pytest.mark.parametrize(
    ("name", "options", "fails"),
    [("SGD", {"momentum": 0.9}, True), ("SGD", {}, False), ("Adam", {}, True), ("RMSprop", {}, True)],
)
@pytest.mark.parametrize("foreach", [True, False])
def test_stepped_before_the_move(name, options, fails, foreach):
    model = nn.Linear(3, 2)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1, foreach=foreach, **options)
    step(optimizer, model)
    model.to("cuda")
    result = outcome(lambda: step(optimizer, model))
    assert (result is True) is not fails
    assert not fails or (result[0] is RuntimeError and MIXED in result[1])


def test_state_loaded_before_the_move_stays_behind():
    model = nn.Linear(3, 2)
    source = torch.optim.Adam(model.parameters())
    step(source, model)
    saved = source.state_dict()
    early = torch.optim.Adam(model.parameters())
    early.load_state_dict(saved)
    model.to("cuda")
    with pytest.raises(RuntimeError, match=MIXED):
        step(early, model)
    late = torch.optim.Adam(model.parameters())
    late.load_state_dict(saved)
    assert step(late, model)
    state = late.state[model.weight]
    assert (str(state["exp_avg"].device), str(state["step"].device)) == ("cuda:0", "cpu")


def test_fused_and_capturable_optimizers():
    model = nn.Linear(3, 2)
    fused = torch.optim.Adam(model.parameters(), fused=True)
    capturable = torch.optim.Adam(model.parameters(), capturable=True)
    model.to("cuda")
    assert step(fused, model)
    assert step(capturable, model)


def test_one_optimizer_for_parameters_of_two_gpus():
    first, second = nn.Linear(2, 2).cuda(0), nn.Linear(2, 1).cuda(1)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()])
    for _ in range(2):
        second(first(torch.ones(4, 2).cuda(0)).cuda(1)).sum().backward()
        nn.utils.clip_grad_norm_([*first.parameters(), *second.parameters()], 1.0)
        optimizer.step()
    assert [str(layer.weight.grad.device) for layer in (first, second)] == ["cuda:0", "cuda:1"]


def test_replaced_layers_are_not_trained():
    model = nn.Sequential(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0] = nn.Linear(3, 2)
    model.cuda()
    before = model[0].weight.detach().clone()
    model(torch.ones(1, 3).cuda()).sum().backward()
    optimizer.step()
    assert torch.equal(before, model[0].weight)


def test_gradient_of_a_non_leaf_is_not_kept():
    values = torch.ones(2, requires_grad=True).to("cuda")
    values.sum().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert values.grad is None
