"""The state that a replica sees, and the changes that survive it or reach it: one row per behaviour."""

import pytest
import torch
from programs import Does
from torch import nn

from placement_lint.simulate import gpus

pytestmark = pytest.mark.filterwarnings("ignore:Was asked to gather")


@pytest.fixture(autouse=True)
def two_gpus():
    with gpus(2):
        yield


class Remembers(nn.Module):
    """One of everything that a forward might change."""

    def __init__(self, change):
        super().__init__()
        self.change = change
        self.layer = nn.Linear(3, 1)
        self.counter, self.listed, self.mapped = 0, [], {}
        self.plain = torch.zeros(1)
        self.register_buffer("buffer", torch.zeros(1))
        self.several = nn.ParameterList([nn.Parameter(torch.ones(1))])
        self.named = nn.ParameterDict({"a": nn.Parameter(torch.ones(1))})

    def forward(self, values):
        self.change(self, values)
        return self.layer(values) + self.several[0] + self.named["a"]


def after(change, look):
    model = Remembers(change).cuda()
    nn.DataParallel(model)(torch.ones(4, 3))
    return look(model)


def assign(name, value):
    return lambda m, x: setattr(m, name, value(m))


def augment(name):
    def change(module, values):
        tensor = getattr(module, name)
        tensor += 1
        setattr(module, name, tensor)

    return change


SURVIVES = {
    "counter": (assign("counter", lambda m: m.counter + 1), lambda m: m.counter, 0),
    "new attribute": (assign("fresh", lambda m: 1), lambda m: hasattr(m, "fresh"), False),
    "registered in forward": (
        lambda m, x: m.register_buffer("late", torch.zeros(1)),
        lambda m: hasattr(m, "late"),
        False,
    ),
    "list": (lambda m, x: m.listed.append(x.get_device()), lambda m: sorted(m.listed), [0, 1]),
    "dict": (lambda m, x: m.mapped.update({x.get_device(): 1}), lambda m: sorted(m.mapped), [0, 1]),
    "plain tensor, in place": (augment("plain"), lambda m: m.plain.item(), 2),
    "plain tensor, replaced": (assign("plain", lambda m: m.plain + 1), lambda m: m.plain.item(), 0),
    "buffer, in place": (augment("buffer"), lambda m: m.buffer.item(), 1),
    "buffer, replaced": (assign("buffer", lambda m: m.buffer + 1), lambda m: m.buffer.item(), 0),
    "weight data, in place": (
        lambda m, x: m.layer.bias.data.fill_(7.0 + x.get_device()),
        lambda m: m.layer.bias.item(),
        7,
    ),
}


@pytest.mark.parametrize("case", SURVIVES)
def test_what_survives(case):
    change, look, expected = SURVIVES[case]
    assert after(change, look) == expected


def in_replicas(look, grad=True):
    seen = {}

    def forward(module, values):
        seen[values.get_device()] = look(module)
        return module.layer(values)

    with torch.set_grad_enabled(grad):
        nn.DataParallel(Does(forward).cuda())(torch.ones(4, 3))
    return [seen[0], seen[1]]


SEEN = {
    "parameters in training": (lambda m: len(list(m.parameters())), True, [0, 0]),
    "parameters without gradients": (lambda m: len(list(m.parameters())), False, [2, 0]),
    "norm of no parameters": (lambda m: sum(p.norm() for p in m.parameters()), True, [0, 0]),
    "type of a weight": (lambda m: type(m.layer.weight), True, [torch.Tensor, torch.Tensor]),
    "leaves": (lambda m: m.layer.weight.is_leaf, True, [False, False]),
    "device of a weight": (lambda m: m.layer.weight.get_device(), True, [0, 1]),
    "state_dict": (lambda m: list(m.state_dict()), True, [[], []]),
    "being a replica": (lambda m: m._is_replica, True, [True, True]),
}


@pytest.mark.parametrize("case", SEEN)
def test_what_replicas_see(case):
    look, grad, expected = SEEN[case]
    assert in_replicas(look, grad) == expected


MIXED = "Expected all tensors to be on the same device"
FAILS = {
    "changing requires_grad": (
        lambda m, x: m.layer.weight.requires_grad_(False),
        RuntimeError,
        "you can only change requires_grad flags of leaf variables",
    ),
    "next(parameters())": (lambda m, x: next(m.parameters()), StopIteration, "in replica 0 on device 0"),
    "unmoved plain tensor": (lambda m, x: m.plain + x, RuntimeError, MIXED),
    "plain tensor of the first GPU": (
        lambda m, x: torch.zeros(3, device="cuda:0") + x,
        RuntimeError,
        "in replica 1 on device 1",
    ),
    "a fixed device": (lambda m, x: m.layer(x.to("cuda:0")), RuntimeError, "in replica 1 on device 1"),
    "a layer in a list": (lambda m, x: m.hidden[0](x), RuntimeError, "in replica 1 on device 1"),
    "a bound method": (lambda m, x: m.bound(x), RuntimeError, "in replica 1 on device 1"),
    "clamping a weight": (
        lambda m, x: clamp_and_use(m, x),
        RuntimeError,
        "is a view and its base or another view of its base has been modified inplace",
    ),
}


def clamp_and_use(module, values):
    with torch.no_grad():
        module.layer.weight.clamp_(-1, 1)
    return module.layer(values)


@pytest.mark.parametrize("case", FAILS)
def test_what_fails(case):
    forward, kind, message = FAILS[case]

    def use(module, values):
        forward(module, values)
        return module.layer(values)

    module = Does(use)
    module.hidden = [module.layer]
    module.bound = module.layer.forward
    with pytest.raises(kind, match=message):
        nn.DataParallel(module.cuda())(torch.ones(4, 3))


WORKS = {
    "current device": lambda m, x: x + torch.zeros(3, device="cuda"),
    "cuda()": lambda m, x: x + torch.zeros(3).cuda(),
    "device of the input": lambda m, x: x + torch.zeros(3, device=x.device),
    "0-dim of the CPU": lambda m, x: x * torch.tensor(2.0),
    "moving itself": lambda m, x: m.layer.to(x.device)(x),
}


@pytest.mark.parametrize("case", WORKS)
def test_what_works(case):
    output = nn.DataParallel(Does(WORKS[case]).cuda())(torch.ones(4, 3))
    assert str(output.device) == "cuda:0"


def test_zero_grad_warns():
    with pytest.warns(UserWarning, match="Calling .zero_grad"):
        nn.DataParallel(Does(lambda m, x: (m.zero_grad(), x)[1]).cuda())(torch.ones(4, 3))


def test_batch_norm_keeps_the_first_chunk():
    norm = nn.BatchNorm1d(3).cuda()
    values = torch.randn(8, 3)
    nn.DataParallel(norm)(values)
    assert torch.allclose(norm.running_mean.cpu(), 0.1 * values[:4].mean(0), atol=1e-6)
    assert norm.num_batches_tracked.item() == 1


def test_default_device_and_inference_mode_stay_with_the_caller():
    seen = []

    def forward(module, values):
        seen.append((str(torch.ones(1).device), torch.is_inference_mode_enabled()))
        return values

    model, values = nn.DataParallel(Does(forward).cuda()), torch.ones(4, 3)
    with torch.device("cuda:1"), torch.inference_mode():
        model(values)
    assert seen == [("cpu", False)] * 2


# --- what reaches a replica, and what comes back --------------------------------------------------


def received(*args, count=4, **kwargs):
    seen = {}

    def forward(module, *given, **named):
        seen[torch.cuda.current_device()] = (
            [shape(v) for v in given],
            {k: shape(v) for k, v in named.items()},
        )
        return module.layer.weight.sum().view(1)

    with gpus(count):
        nn.DataParallel(Does(forward).cuda())(*args, **kwargs)
    return [seen[index] for index in sorted(seen)]


def shape(value):
    return tuple(value.shape) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize(
    ("rows", "chunks"), [(8, [2, 2, 2, 2]), (3, [1, 1, 1]), (5, [2, 2, 1]), (1, [1]), (0, [0, 0, 0, 0])]
)
def test_chunks(rows, chunks):
    assert [args[0][0] for args, _ in received(torch.zeros(rows, 3))] == chunks


def test_other_arguments_are_shared():
    given = object()
    for args, _ in received(torch.zeros(8, 3), 7, "text", None, given):
        assert args == [(2, 3), 7, "text", None, given]


def test_the_shortest_argument_decides():
    assert len(received(torch.zeros(8, 3), torch.zeros(2))) == 2
    assert len(received(torch.zeros(8, 3), torch.zeros(1))) == 1


def test_class_weights_are_split_as_well():
    assert [named["weight"] for _, named in received(torch.zeros(8, 3), weight=torch.zeros(10))] == [(3,)] * 3 + [(1,)]


def test_keywords_shorter_than_the_batch():
    with pytest.raises(AssertionError):
        received(torch.zeros(8, 3), mask=torch.zeros(2))


def test_images_in_a_list_are_split_inside():
    seen = []

    def forward(module, images):
        seen.append([tuple(image.shape) for image in images])
        return torch.ones(len(images), device="cuda")

    output = nn.DataParallel(Does(forward).cuda())([torch.zeros(3, 4, 4)] * 4)
    assert sorted(map(tuple, seen)) == [((1, 4, 4),) * 4, ((2, 4, 4),) * 4]
    assert output.shape == (8,)


RETURNED = {
    "None": (lambda x: None, None),
    "a float": (lambda x: 1.5, TypeError),
    "a bool": (lambda x: True, TypeError),
    "an item": (lambda x: (x, x.sum().item()), TypeError),
    "an array": (lambda x: x.cpu().numpy(), TypeError),
    "lists of two lengths": (lambda x: [x] * (1 + x.get_device()), None),
    "other keys": (lambda x: {x.get_device(): x}, KeyError),
    "rows of two lengths": (lambda x: x.new_zeros(2, 3 + x.get_device()), RuntimeError),
}


@pytest.mark.parametrize("case", [case for case in RETURNED if case != "lists of two lengths"])
def test_what_is_gathered(case):
    forward, expected = RETURNED[case]
    model = nn.DataParallel(Does(lambda m, x: forward(x)).cuda())
    if expected is None:
        assert model(torch.zeros(4, 3)) is None
    else:
        with pytest.raises(expected):
            model(torch.zeros(4, 3))


def test_time_first_layers_are_split_in_time():
    layer, values = nn.LSTM(3, 2), torch.randn(4, 6, 3)
    expected, _ = layer(values)
    layer.cuda()
    split, (hidden, _) = nn.DataParallel(layer)(values)
    assert split.shape == expected.shape
    assert not torch.allclose(split.cpu(), expected)
    assert hidden.shape == (2, 6, 2)
    right, _ = nn.DataParallel(layer, dim=1)(values)
    assert torch.allclose(right.cpu(), expected, atol=1e-6)


def test_packed_sequences_lose_their_batch_sizes():
    packed = nn.utils.rnn.pack_sequence([torch.ones(4, 3), torch.ones(3, 3)])
    with pytest.raises(ValueError, match="batch_sizes should always be on CPU"):
        nn.DataParallel(nn.GRU(3, 2).cuda())(packed)


@pytest.mark.parametrize(("total", "works"), [(None, False), (5, True)])
def test_padding_inside_a_replica(total, works):
    def forward(module, values, lengths):
        assert lengths.get_device() == values.get_device()
        packed = nn.utils.rnn.pack_padded_sequence(values, lengths.cpu(), batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(module.rnn(packed)[0], batch_first=True, total_length=total)[0]

    module = Does(forward)
    module.rnn = nn.GRU(3, 2, batch_first=True)
    model = nn.DataParallel(module.cuda())
    given = torch.randn(4, 5, 3), torch.tensor([5, 4, 3, 2])
    if works:
        assert model(*given).shape == (4, 5, 2)
    else:
        with pytest.raises(RuntimeError, match="has invalid shape"):
            model(*given)
