"""The programs of five widely read articles about devices, in our words, with 0, 1, 2 and 4 GPUs.

Each row says what the program does on each machine: text means an error that contains it, anything else
the value.
"""

import pytest
import torch
from programs import SmallCNN, outcome
from torch import nn

from placement_lint.simulate import gpus

MIXED = "Expected all tensors to be on the same device"
CONV_MIXED = "Input type (torch.FloatTensor) and weight type (torch.cuda.FloatTensor) should be the same"
NO_DRIVER = "Found no NVIDIA driver"
FIRST_DEVICE = "module must have its parameters and buffers on device cuda:0"
SHAPES = "mat1 and mat2 shapes cannot be multiplied"


def chosen_device():
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def images(count=8):
    return torch.randn(count, 3, 64, 64), torch.randint(0, 10, (count,))


def train_step(model, inputs, labels):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    return "trained"


# --- "How can I replace var.to(device) when using nn.DataParallel" --------------------------------


def wrapped_without_moving_the_model():
    device = chosen_device()
    model = nn.DataParallel(nn.Linear(4, 2))
    data, target = torch.randn(8, 4).to(device), torch.zeros(8, dtype=torch.long).to(device)
    return str(nn.functional.cross_entropy(model(data), target).device)


def inputs_moved_by_hand_before_data_parallel():
    device = chosen_device()
    model = nn.DataParallel(nn.Linear(4, 2)).to(device)
    data, target = torch.randn(8, 4).to(device), torch.zeros(8, dtype=torch.long).to(device)
    return str(nn.functional.cross_entropy(model(data), target).device)


def targets_left_behind():
    model = nn.DataParallel(nn.Linear(4, 2)).to(chosen_device())
    return str(nn.functional.cross_entropy(model(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long)).device)


def output_is_one_tensor():
    model = nn.DataParallel(nn.Linear(4, 2)).to(chosen_device())
    output = model(torch.randn(8, 4))
    return isinstance(output, torch.Tensor), tuple(output.shape)


def rank_one_wraps_all_gpus():
    model = nn.Linear(4, 2).to(1)
    return tuple(nn.DataParallel(model)(torch.randn(8, 4)).shape)


# --- "How do I resolve a PyTorch multi-device error" ----------------------------------------------


def inputs_left_on_the_cpu():
    return train_step(SmallCNN().to(chosen_device()), *images())


def shapes_as_printed():
    device = chosen_device()
    inputs, labels = images()
    return train_step(SmallCNN(16 * 16 * 16).to(device), inputs.to(device), labels.to(device))


def inputs_and_labels_moved():
    device = chosen_device()
    inputs, labels = images()
    return train_step(SmallCNN().to(device), inputs.to(device), labels.to(device))


def wrapped_when_there_are_several():
    device = chosen_device()
    model = SmallCNN().to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
        model.to(device)
    return model


def data_parallel_forward_with_cpu_inputs():
    output = wrapped_when_there_are_several()(images()[0])
    return tuple(output.shape), str(output.device)


def data_parallel_training_with_cpu_data():
    return train_step(wrapped_when_there_are_several(), *images())


def data_parallel_in_moved_batches():
    device, model = chosen_device(), wrapped_when_there_are_several()
    inputs, labels = images(16)
    return [
        train_step(model, inputs[begin : begin + 8].to(device), labels[begin : begin + 8].to(device))
        for begin in (0, 8)
    ][-1]


# --- "How can PyTorch DataParallel be used with a custom model" -----------------------------------


class OwnLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(10, 5))
        self.bias = nn.Parameter(torch.zeros(5))

    def forward(self, values):
        return torch.mm(values, self.weight) + self.bias


class RemembersPlainly(nn.Module):
    def __init__(self, size=2):
        super().__init__()
        self.linear = nn.Linear(10, 2)
        self.state = torch.zeros(size)

    def forward(self, values):
        self.state += torch.sum(values, dim=0)
        return self.linear(values), self.state


def wrapped_then_moved_to_cuda(model):
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model.to("cuda")
    return tuple(model(torch.randn(8, 10).to("cuda")).shape)


def ready_made_layers():
    return wrapped_then_moved_to_cuda(nn.Sequential(nn.Linear(10, 5), nn.ReLU(), nn.Linear(5, 2)))


def own_layer():
    return wrapped_then_moved_to_cuda(nn.Sequential(OwnLayer(), nn.Linear(5, 2)))


def plain_state():
    device = chosen_device()
    model = RemembersPlainly(10).to(device)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    return tuple(model(torch.randn(8, 10).to(device))[1].shape)


def plain_state_as_printed():
    return tuple(RemembersPlainly(2)(torch.randn(8, 10))[1].shape)


# --- "Pytorch Advanced, DataParallel" -------------------------------------------------------------


def model_behind_the_first_device():
    model = nn.Linear(4, 2).to("cuda:1")
    return str(nn.DataParallel(model, device_ids=[0, 1], output_device=1)(torch.randn(8, 4)).device)


def model_on_the_first_device():
    model = nn.Linear(4, 2).to("cuda:1")
    return str(nn.DataParallel(model, device_ids=[1, 0], output_device=0)(torch.randn(8, 4)).device)


class Counts(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.counter = 0
        self.seen = []

    def forward(self, values):
        self.counter += 1
        self.seen.append(len(values))
        return self.layer(values).mean()


def counter_after_a_forward():
    model = Counts().to(chosen_device())
    nn.DataParallel(model)(torch.randn(8, 4))
    return model.counter, sorted(model.seen)


def loss_from_forward():
    return tuple(nn.DataParallel(Counts().to(chosen_device()))(torch.randn(8, 4)).shape)


def loss_from_forward_backward():
    nn.DataParallel(Counts().to(chosen_device()))(torch.randn(8, 4)).backward()
    return "backward"


def number_with_requires_grad():
    counter = 0
    counter.requires_grad = False


# --- "Why can't I update parameters with torch.nn.DataParallel" -----------------------------------


def parameters_change(optimizer_first):
    model = nn.Linear(10, 1)
    before = model.weight.detach().clone()
    inner, optimizer = model, torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, target = torch.randn(4, 10), torch.randn(4, 1)
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
        if not optimizer_first:
            optimizer = torch.optim.SGD(model.module.parameters(), lr=0.01)
        model.cuda()
        inputs, target = inputs.cuda(), target.cuda()
    optimizer.zero_grad()
    nn.functional.mse_loss(model(inputs), target).backward()
    optimizer.step()
    return not torch.equal(before, inner.weight.detach().cpu())


def optimizer_built_before_wrapping():
    return parameters_change(optimizer_first=True)


def optimizer_built_after_wrapping():
    return parameters_change(optimizer_first=False)


def attribute_through_the_wrapper():
    return nn.DataParallel(nn.Sequential()).linear


# --- the table ------------------------------------------------------------------------------------

TABLE = [
    # program, 0 GPUs, 1 GPU, 2 GPUs, 4 GPUs
    (wrapped_without_moving_the_model, "cpu", "cuda:0", [FIRST_DEVICE], [FIRST_DEVICE]),
    (inputs_moved_by_hand_before_data_parallel, "cpu", "cuda:0", "cuda:0", "cuda:0"),
    (targets_left_behind, "cpu", [MIXED], [MIXED], [MIXED]),
    (output_is_one_tensor, (True, (8, 2)), (True, (8, 2)), (True, (8, 2)), (True, (8, 2))),
    (rank_one_wraps_all_gpus, [NO_DRIVER], ["invalid device ordinal"], [FIRST_DEVICE], [FIRST_DEVICE]),
    (inputs_left_on_the_cpu, "trained", [CONV_MIXED], [CONV_MIXED], [CONV_MIXED]),
    (shapes_as_printed, [SHAPES], [SHAPES], [SHAPES], [SHAPES]),
    (inputs_and_labels_moved, "trained", "trained", "trained", "trained"),
    (
        data_parallel_forward_with_cpu_inputs,
        ((8, 10), "cpu"),
        [CONV_MIXED],
        ((8, 10), "cuda:0"),
        ((8, 10), "cuda:0"),
    ),
    (data_parallel_training_with_cpu_data, "trained", [CONV_MIXED], [MIXED], [MIXED]),
    (data_parallel_in_moved_batches, "trained", "trained", "trained", "trained"),
    (ready_made_layers, [NO_DRIVER], (8, 2), (8, 2), (8, 2)),
    (own_layer, [NO_DRIVER], (8, 2), (8, 2), (8, 2)),
    (plain_state, (10,), [MIXED], ["in replica 0 on device 0", MIXED], ["in replica 0 on device 0", MIXED]),
    (plain_state_as_printed, *[["The size of tensor a (2) must match"]] * 4),
    (model_behind_the_first_device, [NO_DRIVER], ["invalid device ordinal"], [FIRST_DEVICE], [FIRST_DEVICE]),
    (model_on_the_first_device, [NO_DRIVER], ["invalid device ordinal"], "cuda:0", "cuda:0"),
    (counter_after_a_forward, (1, [8]), (1, [8]), (0, [4, 4]), (0, [2, 2, 2, 2])),
    (loss_from_forward, (), (), (2,), (4,)),
    (
        loss_from_forward_backward,
        "backward",
        "backward",
        *[["implicitly created only for scalar outputs"]] * 2,
    ),
    (number_with_requires_grad, *[["'int' object has no attribute 'requires_grad'"]] * 4),
    (optimizer_built_before_wrapping, True, True, True, True),
    (optimizer_built_after_wrapping, True, True, True, True),
    (attribute_through_the_wrapper, *[["'DataParallel' object has no attribute 'linear'"]] * 4),
]
COUNTS = (0, 1, 2, 4)


@pytest.mark.filterwarnings("ignore:Was asked to gather")
@pytest.mark.parametrize(
    ("program", "count", "expected"),
    [
        pytest.param(program, count, expected, id=f"{program.__name__}-{count}")
        for program, *row in TABLE
        for count, expected in zip(COUNTS, row, strict=True)
    ],
)
def test_program(program, count, expected):
    with gpus(count):
        if isinstance(expected, list):
            kind, message = outcome(program)
            assert issubclass(kind, (RuntimeError, AttributeError))
            assert all(fragment in message for fragment in expected)
        else:
            assert program() == expected


def test_three_gpus_with_the_output_elsewhere():
    with gpus(3):
        model = nn.DataParallel(nn.Linear(4, 2).to("cuda:2"), device_ids=[2, 0, 1], output_device=1)
        assert str(model(torch.randn(9, 4)).device) == "cuda:1"
