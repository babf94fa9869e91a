"""Two CUDA GPUs: autograd, optimizers, files, communication, and the helpers around modules."""

import copy
import io
import pickle

import torch
from torch import nn
from torch.cuda import comm
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from . import Program, Raises, place, places

MIXED = "Expected all tensors to be on the same device"


def gpu(*shape, index=0):
    return torch.ones(*shape, device=f"cuda:{index}")


def leaf(*shape, device="cuda:0"):
    return torch.ones(*shape, device=device, requires_grad=True)


# --- autograd -------------------------------------------------------------------------------------


def kept_gradient():
    moved = leaf(2, device="cpu").to("cuda:1")
    moved.retain_grad()
    moved.sum().backward()
    return place(moved.grad)


def hooked_gradients():
    seen, weight = [], leaf(2, device="cpu")
    weight.register_hook(lambda gradient: seen.append(place(gradient)))
    moved = weight.cuda()
    moved.register_hook(lambda gradient: seen.append(place(gradient)))
    moved.sum().backward()
    return seen


def hooks_after_accumulation():
    seen, weight = [], leaf(2, device="cuda:1")
    weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(place(parameter.grad)))
    (weight.cpu() * 2).sum().backward()
    return seen


class OfTwo(torch.autograd.Function):
    """Keeps a tensor of each device."""

    @staticmethod
    def forward(ctx, values, factors):
        ctx.save_for_backward(values, factors)
        return values * factors.to(values.device)

    @staticmethod
    def backward(ctx, gradient):
        values, factors = ctx.saved_tensors
        OfTwo.seen = places(values, factors, gradient)
        return gradient * factors.to(gradient.device), (gradient * values).cpu()


def saved_tensors_of_two_devices():
    values, factors = leaf(2), leaf(2, device="cpu")
    OfTwo.apply(values, factors).sum().backward()
    return (*OfTwo.seen, *places(values.grad, factors.grad))


def saved_on_the_cpu(pin):
    weight = leaf(3)
    with torch.autograd.graph.save_on_cpu(pin_memory=pin):
        loss = weight.exp().sum()
    saved = loss.grad_fn.next_functions[0][0]._saved_result
    loss.backward()
    return places(saved, weight.grad)


def packed_and_unpacked():
    seen, weight = [], leaf(3)

    def pack(tensor):
        seen.append(place(tensor))
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.cuda()):
        loss = weight.pow(2).sum()
    loss.backward()
    return *seen, place(weight.grad)


def masks_of_a_checkpoint(keep):
    torch.manual_seed(0)
    masks = []

    def run(values):
        mask = torch.rand_like(values)
        masks.append(mask)
        return values * mask

    checkpoint(run, leaf(4), use_reentrant=False, preserve_rng_state=keep).sum().backward()
    return torch.equal(*masks)


def gradient_into(device):
    layer = nn.Linear(2, 1).to(device)
    torch.autograd.backward(layer(torch.ones(1, 2, device=device)), inputs=[layer.weight])
    return place(layer.weight.grad), layer.bias.grad


def accumulated_after_a_move():
    layer = nn.Linear(2, 1)
    layer(torch.ones(1, 2)).sum().backward()
    layer.cuda()
    layer(gpu(1, 2)).sum().backward()
    return place(layer.weight.grad), layer.weight.grad.tolist()


def anomaly():
    with torch.autograd.detect_anomaly(check_nan=True):
        weight = torch.zeros(2, device="cuda", requires_grad=True)
        (weight.sqrt() * 0).sum().backward()


def forward_derivative(kind):
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2, device=kind), torch.ones(2, device=kind))
        return place(torch.autograd.forward_ad.unpack_dual(dual * 2).tangent)


def moved_forward_derivative():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        tangent = torch.autograd.forward_ad.unpack_dual(dual.cuda() * 2).tangent
        return place(tangent), tangent.tolist()


def copied_forward_derivative():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.full((2,), 3.0))
        tangent = torch.autograd.forward_ad.unpack_dual(torch.zeros(2, device="cuda").copy_(dual)).tangent
        return place(tangent), tangent.tolist()


AUTOGRAD = {
    "a gradient that is kept": Program("torch/csrc/autograd/python_variable.cpp: retain_grad", kept_gradient, "cuda:1"),
    "hooks on both sides of a move": Program("_tensor.py: register_hook", hooked_gradients, ["cuda:0", "cpu"]),
    "hooks after accumulation": Program(
        "_tensor.py: register_post_accumulate_grad_hook", hooks_after_accumulation, ["cuda:1"]
    ),
    "a function that keeps tensors of two devices": Program(
        "autograd/function.py: save_for_backward",
        saved_tensors_of_two_devices,
        ("cuda:0", "cpu", "cuda:0", "cuda:0", "cpu"),
    ),
    "saved on the CPU": Program("autograd/graph.py: save_on_cpu", lambda: saved_on_the_cpu(False), ("cuda:0",) * 2),
    "saved in pinned memory": Program(
        "autograd/graph.py: save_on_cpu", lambda: saved_on_the_cpu(True), ("cuda:0",) * 2
    ),
    "packing hooks": Program("autograd/graph.py: saved_tensors_hooks", packed_and_unpacked, ("cuda:0", "cuda:0")),
    "a checkpoint keeps random numbers": Program(
        "utils/checkpoint.py: preserve_rng_state", lambda: masks_of_a_checkpoint(True), True
    ),
    "a checkpoint need not": Program(
        "utils/checkpoint.py: preserve_rng_state", lambda: masks_of_a_checkpoint(False), False
    ),
    "backward into some inputs": Program(
        "autograd/__init__.py: backward", lambda: gradient_into("cuda:1"), ("cuda:1", None)
    ),
    "a gradient that moved with its module": Program(
        "nn/modules/module.py: _apply", accumulated_after_a_move, ("cuda:0", [[2.0, 2.0]])
    ),
    "anomalies": Program(
        "autograd/anomaly_mode.py: detect_anomaly",
        anomaly,
        Raises(RuntimeError, "returned nan values in its 0th output"),
    ),
    "a jacobian": Program(
        "autograd/functional.py: jacobian",
        lambda: place(torch.autograd.functional.jacobian(lambda values: values**2, gpu(2, index=1))),
        "cuda:1",
    ),
    "a jacobian by vmap": Program(
        "_functorch/eager_transforms.py: jacrev",
        lambda: place(torch.func.jacrev(lambda values: values.sin())(gpu(2, index=1))),
        "cuda:1",
    ),
    "forward mode": Program("autograd/forward_ad.py: make_dual", lambda: forward_derivative("cuda:1"), "cuda:1"),
    "forward mode through a move": Program(
        "autograd/forward_ad.py: unpack_dual", moved_forward_derivative, ("cuda:0", [6.0, 6.0])
    ),
    "forward mode through copy_": Program(
        "autograd/forward_ad.py: unpack_dual", copied_forward_derivative, ("cuda:0", [3.0, 3.0])
    ),
    "a jacobian-vector product": Program(
        "_functorch/eager_transforms.py: jvp",
        lambda: places(*torch.func.jvp(torch.sin, (gpu(2),), (gpu(2),))),
        ("cuda:0", "cuda:0"),
    ),
    "gradients that are checked": Program(
        "autograd/gradcheck.py: gradcheck",
        lambda: torch.autograd.gradcheck(
            torch.sin, torch.ones(2, dtype=torch.double, device="cuda", requires_grad=True)
        ),
        True,
    ),
    "gradients that are checked across a move": Program(
        "autograd/gradcheck.py: gradcheck",
        lambda: torch.autograd.gradcheck(
            lambda values: values.cuda() ** 2, torch.ones(2, dtype=torch.double, requires_grad=True)
        ),
        True,
    ),
    "gradients that are checked in a batch across a move": Program(
        "autograd/gradcheck.py: _test_batched_grad",
        lambda: torch.autograd.gradcheck(
            lambda values: values.cuda() ** 2,
            torch.ones(2, dtype=torch.double, requires_grad=True),
            check_batched_grad=True,
        ),
        True,
    ),
    "no gradients in inference mode": Program(
        "autograd/grad_mode.py: inference_mode",
        lambda: (torch.inference_mode()(lambda: leaf(2, device="cpu").cuda())()).is_inference(),
        True,
    ),
    "one thread": Program(
        "autograd/grad_mode.py: set_multithreading_enabled",
        lambda: (
            first := leaf(2),
            torch.autograd.set_multithreading_enabled(False)(lambda: (first.to("cuda:1") * 2).sum().backward())(),
            place(first.grad),
        )[-1],
        "cuda:0",
    ),
}

# --- optimizers -----------------------------------------------------------------------------------


def stepped(kind, device="cuda:0", steps=1, move=None, **options):
    layer = nn.Linear(2, 1).to(device)
    optimizer = getattr(torch.optim, kind)(layer.parameters(), **options)
    for number in range(steps):
        if number == 1 and move:
            layer.to(move)
        optimizer.zero_grad()
        layer(torch.ones(1, 2, device=layer.weight.device)).sum().backward()
        optimizer.step()
    return optimizer, layer


def state(kind, key="step", **options):
    optimizer, layer = stepped(kind, **options)
    return place(optimizer.state[layer.weight][key])


def reloaded(kind, key="step", **options):
    optimizer, layer = stepped(kind, **options)
    buffer = io.BytesIO()
    torch.save(optimizer.state_dict(), buffer)
    buffer.seek(0)
    optimizer.load_state_dict(torch.load(buffer, map_location="cpu"))
    return place(optimizer.state[layer.weight][key])


def chosen(*tensors):
    from torch.optim.optimizer import _default_to_fused_or_foreach

    return _default_to_fused_or_foreach(list(tensors), differentiable=False)


def scaled(**options):
    layer = nn.Linear(2, 1).cuda()
    optimizer = torch.optim.Adam(layer.parameters(), **options)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(layer(gpu(1, 2)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return optimizer.state[layer.weight]["step"].item(), scaler.get_scale()


def averaged(device):
    layer = nn.Linear(2, 1).cuda()
    average = torch.optim.swa_utils.AveragedModel(layer, device=device)
    average.update_parameters(layer)
    average.update_parameters(layer)
    return place(average.module.weight)


def closed(devices):
    layers = [nn.Linear(2, 1, device=device) for device in devices]
    optimizer = torch.optim.LBFGS([layer.weight for layer in layers])

    def closure():
        optimizer.zero_grad()
        loss = sum(layer(torch.ones(1, 2, device=layer.weight.device)).pow(2).sum().cpu() for layer in layers)
        loss.backward()
        return loss

    optimizer.step(closure)
    return place(layers[0].weight)


OPTIMIZERS = {
    "the step of Adam": Program("optim/adam.py: _init_group", lambda: state("Adam"), "cpu"),
    "the step of capturable Adam": Program(
        "optim/adam.py: _init_group", lambda: state("Adam", capturable=True), "cuda:0"
    ),
    "the step of fused Adam": Program("optim/adam.py: _init_group", lambda: state("Adam", fused=True), "cuda:0"),
    "the averages of Adam": Program(
        "optim/adam.py: _init_group", lambda: state("Adam", "exp_avg", device="cuda:1"), "cuda:1"
    ),
    "momentum": Program("optim/sgd.py: _init_group", lambda: state("SGD", "momentum_buffer", momentum=0.9), "cuda:0"),
    "the sums of Adagrad": Program("optim/adagrad.py: __init__", lambda: state("Adagrad", "sum"), "cuda:0"),
    "the step of fused Adagrad": Program(
        "optim/adagrad.py: __init__", lambda: state("Adagrad", device="cpu", fused=True), "cpu"
    ),
    "the step of a loaded Adam": Program(
        "optim/optimizer.py: _process_value_according_to_param_policy", lambda: reloaded("Adam"), "cpu"
    ),
    "the step of a loaded fused Adam": Program(
        "optim/optimizer.py: _process_value_according_to_param_policy", lambda: reloaded("Adam", fused=True), "cuda:0"
    ),
    "the step of a loaded capturable Adam": Program(
        "optim/optimizer.py: _process_value_according_to_param_policy",
        lambda: reloaded("Adam", capturable=True),
        "cuda:0",
    ),
    "the averages of a loaded Adam": Program(
        "optim/optimizer.py: _process_value_according_to_param_policy", lambda: reloaded("Adam", "exp_avg"), "cuda:0"
    ),
    "capturable on the CPU": Program(
        "optim/adam.py: _single_tensor_adam",
        lambda: stepped("Adam", device="cpu", capturable=True),
        Raises(AssertionError, "If capturable=True, params and state_steps must be on supported devices"),
    ),
    "capturable and foreach on the CPU": Program(
        "optim/adam.py: _multi_tensor_adam",
        lambda: stepped("Adam", device="cpu", capturable=True, foreach=True),
        Raises(AssertionError, "If capturable=True, params and state_steps must be on supported devices"),
    ),
    "capturable RMSprop": Program("optim/rmsprop.py: _init_group", lambda: state("RMSprop", capturable=True), "cuda:0"),
    "capturable NAdam": Program(
        "optim/nadam.py: _init_group", lambda: state("NAdam", "mu_product", capturable=True), "cuda:0"
    ),
    "fused and foreach": Program(
        "optim/adam.py: __init__",
        lambda: stepped("Adam", fused=True, foreach=True),
        Raises(RuntimeError, "`fused` and `foreach` cannot be `True` together."),
    ),
    "a learning rate as a tensor": Program(
        "optim/adam.py: __init__",
        lambda: stepped("Adam", lr=torch.tensor(0.1), foreach=True),
        Raises(ValueError, "lr as a Tensor is not supported for capturable=False and foreach=True"),
    ),
    "a learning rate on the GPU": Program(
        "optim/adam.py: _fused_adam",
        lambda: state("Adam", "exp_avg", lr=torch.tensor(0.1, device="cuda"), fused=True),
        "cuda:0",
    ),
    "a learning rate of the CPU, fused": Program(
        "optim/adam.py: _fused_adam", lambda: state("Adam", "exp_avg", lr=torch.tensor(0.1), fused=True), "cuda:0"
    ),
    "a learning rate on the GPU, capturable": Program(
        "optim/adam.py: _multi_tensor_adam",
        lambda: state("Adam", "exp_avg", lr=torch.tensor(0.1, device="cuda"), foreach=True, capturable=True),
        "cuda:0",
    ),
    "foreach by default on a GPU": Program(
        "optim/optimizer.py: _default_to_fused_or_foreach", lambda: chosen(nn.Parameter(gpu(2))), (False, True)
    ),
    "not on the CPU": Program(
        "optim/optimizer.py: _default_to_fused_or_foreach", lambda: chosen(nn.Parameter(torch.ones(2))), (False, False)
    ),
    "not with one parameter of the CPU": Program(
        "optim/optimizer.py: _default_to_fused_or_foreach",
        lambda: chosen(nn.Parameter(gpu(2)), nn.Parameter(torch.ones(2))),
        (False, False),
    ),
    "a fused step after a move": Program(
        "optim/adam.py: _fused_adam",
        lambda: stepped("Adam", device="cpu", fused=True, steps=2, move="cuda"),
        Raises(RuntimeError, "got exp_avgs is on cpu, different from other tensors on cuda:0"),
    ),
    "a step after a move to another GPU": Program(
        "optim/adam.py: _multi_tensor_adam",
        lambda: stepped("Adam", steps=2, move="cuda:1"),
        Raises(RuntimeError, "Tensors of the same index must be on the same device"),
    ),
    "a scaled step": Program("amp/grad_scaler.py: step", scaled, (1.0, 65536.0)),
    "a scaled fused step": Program(
        "amp/grad_scaler.py: _step_supports_amp_scaling", lambda: scaled(fused=True), (1.0, 65536.0)
    ),
    "an average on the CPU": Program("optim/swa_utils.py: AveragedModel", lambda: averaged("cpu"), "cpu"),
    "an average where the model is": Program("optim/swa_utils.py: AveragedModel", lambda: averaged(None), "cuda:0"),
    "LBFGS on one GPU": Program("optim/lbfgs.py: _gather_flat_grad", lambda: closed(["cuda:1"]), "cuda:1"),
    "LBFGS on two": Program(
        "optim/lbfgs.py: _gather_flat_grad", lambda: closed(["cuda:0", "cuda:1"]), Raises(RuntimeError, MIXED)
    ),
    "Muon": Program("optim/_muon.py: _init_group", lambda: stepped_muon(), "cuda:0"),
    "clearing gradients": Program(
        "optim/optimizer.py: zero_grad",
        lambda: (pair := stepped("SGD"), pair[0].zero_grad(set_to_none=False), place(pair[1].weight.grad))[-1],
        "cuda:0",
    ),
}


def stepped_muon():
    weight = nn.Parameter(gpu(2, 2))
    optimizer = torch.optim.Muon([weight])
    weight.sum().backward()
    optimizer.step()
    return place(optimizer.state[weight]["momentum_buffer"])


# --- files ----------------------------------------------------------------------------------------


def saved(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer, **options)
    buffer.seek(0)
    return buffer


def shared_after_loading():
    whole = gpu(4, index=1)
    loaded, part = torch.load(saved([whole, whole[1:]]))
    part[0] = 7
    return *places(loaded, part), loaded[1].item()


def loaded_into(assign):
    layer = nn.Linear(2, 1).cuda()
    layer.load_state_dict(nn.Linear(2, 1).state_dict(), assign=assign)
    return place(layer.weight)


def scripted():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(nn.Linear(2, 1).cuda()), buffer)
    buffer.seek(0)
    return place(torch.jit.load(buffer, map_location="cuda:1").weight)


FILES = {
    "a tag": Program(
        "serialization.py: location_tag",
        lambda: [
            torch.serialization.location_tag(tensor.untyped_storage()) for tensor in (torch.ones(1), gpu(1, index=1))
        ],
        ["cpu", "cuda:1"],
    ),
    "meta": Program(
        "serialization.py: _get_restore_location", lambda: place(torch.load(saved(gpu(2)), map_location="meta")), "meta"
    ),
    "bare cuda is the current GPU": Program(
        "serialization.py: _validate_device",
        lambda: (
            torch.cuda.set_device(1),
            place(torch.load(saved(torch.ones(1)), map_location="cuda")),
            torch.cuda.set_device(0),
        )[1],
        "cuda:1",
    ),
    "a GPU that does not exist": Program(
        "serialization.py: _validate_device",
        lambda: torch.load(saved(torch.ones(1)), map_location="cuda:5"),
        Raises(RuntimeError, "Attempting to deserialize object on CUDA device 5 but torch.cuda.device_count() is 2."),
    ),
    "under a default device": Program(
        "serialization.py: _get_restore_location",
        lambda: (buffer := saved(torch.ones(1)), place(loaded_under(buffer)))[1],
        "cpu",
    ),
    "views share storage again": Program(
        "serialization.py: persistent_load", shared_after_loading, ("cuda:1", "cuda:1", 7.0)
    ),
    "the old format": Program(
        "serialization.py: _legacy_save",
        lambda: place(torch.load(saved(gpu(2, index=1), _use_new_zipfile_serialization=False))),
        "cuda:1",
    ),
    "pickle": Program("storage.py: __reduce__", lambda: place(pickle.loads(pickle.dumps(gpu(2, index=1)))), "cuda:1"),
    "a deep copy of a storage": Program(
        "storage.py: __deepcopy__", lambda: str(copy.deepcopy(gpu(2, index=1).untyped_storage()).device), "cuda:1"
    ),
    "a sparse tensor": Program(
        "_tensor.py: _reduce_ex_internal", lambda: place(torch.load(saved(torch.eye(2).to_sparse().cuda(1)))), "cuda:1"
    ),
    "a module with a hook": Program(
        "nn/modules/module.py: load_state_dict",
        lambda: place(torch.load(saved(nn.Linear(1, 1).cuda(1)), weights_only=False).weight),
        "cuda:1",
    ),
    "a state is copied": Program("nn/modules/module.py: _load_from_state_dict", lambda: loaded_into(False), "cuda:0"),
    "a state is assigned": Program("nn/modules/module.py: _load_from_state_dict", lambda: loaded_into(True), "cpu"),
    "a script": Program("jit/_serialization.py: load", scripted, "cuda:1"),
    "a storage moves": Program(
        "storage.py: cuda",
        lambda: [str(torch.ones(1).untyped_storage().cuda(1).device), str(gpu(1).untyped_storage().cpu().device)],
        ["cuda:1", "cpu"],
    ),
    "a typed storage": Program("storage.py: TypedStorage", lambda: str(gpu(2, index=1).storage().device), "cuda:1"),
}


def loaded_under(buffer):
    with torch.device("cuda"):
        return torch.load(buffer)


# --- communication --------------------------------------------------------------------------------

COMMUNICATION = {
    "scatter": Program(
        "nn/parallel/comm.py: scatter", lambda: places(*comm.scatter(torch.ones(4), [0, 1])), ("cuda:0", "cuda:1")
    ),
    "scatter by sizes": Program(
        "nn/parallel/comm.py: scatter",
        lambda: [tuple(part.shape) for part in comm.scatter(torch.ones(4, 2), [0, 1], chunk_sizes=[3, 1])],
        [(3, 2), (1, 2)],
    ),
    "scatter along another dimension": Program(
        "nn/parallel/comm.py: scatter",
        lambda: [tuple(part.shape) for part in comm.scatter(gpu(4, 2), [1, 0], dim=1)],
        [(4, 1), (4, 1)],
    ),
    "scatter into tensors": Program(
        "nn/parallel/comm.py: scatter",
        lambda: [part.tolist() for part in comm.scatter(torch.arange(3.0), out=[gpu(1), gpu(2, index=1)])],
        [[0.0], [1.0, 2.0]],
    ),
    "scatter into tensors of the CPU": Program(
        "nn/parallel/comm.py: scatter",
        lambda: comm.scatter(torch.ones(2), out=[torch.ones(1), gpu(1)]),
        Raises(RuntimeError, "Expected all output tensors to be CUDA tensors, but output tensor at index 0"),
    ),
    "scatter to devices and into tensors": Program(
        "nn/parallel/comm.py: scatter",
        lambda: comm.scatter(torch.ones(2), [0, 1], out=[gpu(1), gpu(1, index=1)]),
        Raises(RuntimeError, "'devices' must not be specified when 'out' is specified"),
    ),
    "gather": Program("nn/parallel/comm.py: gather", lambda: place(comm.gather([gpu(1), gpu(1, index=1)])), "cuda:0"),
    "gather to a GPU": Program(
        "nn/parallel/comm.py: gather", lambda: place(comm.gather([gpu(1), gpu(1, index=1)], destination=1)), "cuda:1"
    ),
    "gather to the CPU": Program(
        "nn/parallel/comm.py: gather",
        lambda: place(comm.gather([gpu(1), gpu(1, index=1)], destination=torch.device("cpu"))),
        "cpu",
    ),
    "gather into a tensor": Program(
        "nn/parallel/comm.py: gather",
        lambda: place(comm.gather([gpu(1), gpu(1, index=1)], out=torch.empty(2, device="cuda:1"))),
        "cuda:1",
    ),
    "gather from the CPU": Program(
        "nn/parallel/comm.py: gather",
        lambda: comm.gather([torch.ones(1), gpu(1)]),
        Raises(RuntimeError, "Expected all input tensors to be CUDA tensors"),
    ),
    "broadcast": Program(
        "nn/parallel/comm.py: broadcast", lambda: places(*comm.broadcast(gpu(2), [0, 1])), ("cuda:0", "cuda:1")
    ),
    "broadcast from the CPU": Program(
        "nn/parallel/comm.py: broadcast", lambda: places(*comm.broadcast(torch.ones(2), [0, 1])), ("cuda:0", "cuda:1")
    ),
    "broadcast keeps the original": Program(
        "torch/csrc/cuda/comm.cpp: broadcast",
        lambda: (values := gpu(2), comm.broadcast(values, [0, 1])[0] is values)[1],
        True,
    ),
    "broadcast into tensors": Program(
        "nn/parallel/comm.py: broadcast",
        lambda: [copy_.tolist() for copy_ in comm.broadcast(torch.ones(2), out=[gpu(2) * 0, gpu(2, index=1) * 0])],
        [[1, 1], [1, 1]],
    ),
    "broadcast to nothing": Program(
        "nn/parallel/comm.py: broadcast",
        lambda: comm.broadcast(gpu(2)),
        Raises(RuntimeError, "Exactly one of 'devices' and 'out' must be specified, but got devices=None and out=None"),
    ),
    "coalesced": Program(
        "nn/parallel/comm.py: broadcast_coalesced",
        lambda: [places(*copies) for copies in comm.broadcast_coalesced([gpu(2), gpu(3)], [0, 1])],
        [("cuda:0", "cuda:0"), ("cuda:1", "cuda:1")],
    ),
    "coalesced from elsewhere": Program(
        "nn/parallel/comm.py: broadcast_coalesced",
        lambda: comm.broadcast_coalesced([torch.ones(2)], [0, 1]),
        Raises(RuntimeError, "All tensors must be on devices[0]: 0"),
    ),
    "a sum": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: (total := comm.reduce_add([gpu(2), gpu(2, index=1)]), place(total), total.tolist())[1:],
        ("cuda:0", [2, 2]),
    ),
    "a sum on another GPU": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: place(comm.reduce_add([gpu(2), gpu(2, index=1)], destination=1)),
        "cuda:1",
    ),
    "a sum of the CPU": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: comm.reduce_add([gpu(2), torch.ones(2)]),
        Raises(AssertionError, "reduce_add expects all inputs to be on GPUs, but input 1 is on CPU"),
    ),
    "a sum of unlike shapes": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: comm.reduce_add([gpu(2), gpu(3, index=1)]),
        Raises(ValueError, "input 1 has invalid size: got 3, but expected 2"),
    ),
    "a sum where no part is": Program(
        "nn/parallel/comm.py: reduce_add",
        lambda: comm.reduce_add([gpu(2, index=1)], destination=0),
        Raises(RuntimeError, "reduce_add expects destination to be on the same GPU with one of the tensors"),
    ),
    "coalesced sums": Program(
        "nn/parallel/comm.py: reduce_add_coalesced",
        lambda: places(*comm.reduce_add_coalesced([[gpu(2), gpu(3)], [gpu(2, index=1), gpu(3, index=1)]])),
        ("cuda:0", "cuda:0"),
    ),
    "parallel calls": Program(
        "nn/parallel/parallel_apply.py: parallel_apply",
        lambda: places(
            *nn.parallel.parallel_apply(
                [nn.Linear(2, 1).cuda(0), nn.Linear(2, 1).cuda(1)], [gpu(1, 2), gpu(1, 2, index=1)]
            )
        ),
        ("cuda:0", "cuda:1"),
    ),
    "replicas": Program(
        "nn/parallel/replicate.py: replicate",
        lambda: places(*(twin.weight for twin in nn.parallel.replicate(nn.Linear(2, 1).cuda(), [0, 1]))),
        ("cuda:0", "cuda:1"),
    ),
}

# --- helpers around modules -----------------------------------------------------------------------


def with_gradient(tensor):
    tensor.requires_grad_().grad = torch.full_like(tensor, 3.0)
    return tensor


def pruned_then_moved(run):
    layer = prune.l1_unstructured(nn.Linear(4, 4), "weight", 0.5).cuda()
    if run:
        layer(gpu(1, 4))
    return places(layer.weight_orig, layer.weight_mask, layer.weight)


def old_norm(norm, run):
    layer = norm(nn.Linear(3, 2)).cuda()
    if run:
        layer(gpu(1, 3))
    return place(layer.weight)


def parametrized(wrap):
    layer = wrap(nn.Linear(3, 3)).cuda(1)
    return place(layer.weight), place(layer(gpu(1, 3, index=1)))


def cached():
    layer = parametrizations.weight_norm(nn.Linear(3, 3)).cuda()
    with parametrize.cached():
        first = layer.weight
        layer.to("cuda:1")
        return place(layer.weight), layer.weight is first


def packed(values, lengths, **options):
    return nn.utils.rnn.pack_padded_sequence(values, lengths, batch_first=True, **options)


def weight_of(layer):
    return layer.cuda().weight_ih_l0


HELPERS = {
    "clipping on two GPUs": Program(
        "nn/utils/clip_grad.py: _get_total_norm",
        lambda: place(nn.utils.clip_grad_norm_([with_gradient(gpu(2, index=1)), with_gradient(gpu(2))], 1.0)),
        "cuda:1",
    ),
    "clipping with the CPU": Program(
        "nn/utils/clip_grad.py: _get_total_norm",
        lambda: place(nn.utils.clip_grad_norm_([with_gradient(torch.ones(2)), with_gradient(gpu(2))], 1.0)),
        "cpu",
    ),
    "clipping with and without foreach": Program(
        "nn/utils/clip_grad.py: clip_grad_norm_",
        lambda: [
            place(nn.utils.clip_grad_norm_([with_gradient(gpu(2))], 1.0, foreach=foreach)) for foreach in (True, False)
        ],
        ["cuda:0"] * 2,
    ),
    "clipping values": Program(
        "nn/utils/clip_grad.py: clip_grad_value_",
        lambda: (weight := with_gradient(gpu(2)), nn.utils.clip_grad_value_([weight], 1.0), weight.grad.tolist())[-1],
        [1, 1],
    ),
    "a total norm": Program(
        "nn/utils/clip_grad.py: get_total_norm",
        lambda: place(nn.utils.get_total_norm([gpu(2), gpu(2, index=1)])),
        "cuda:0",
    ),
    "clipping by a norm of the CPU": Program(
        "nn/utils/clip_grad.py: clip_grads_with_norm_",
        lambda: (
            weight := with_gradient(gpu(2)),
            nn.utils.clip_grads_with_norm_([weight], 1.0, torch.tensor(6.0)),
            place(weight.grad),
        )[-1],
        "cuda:0",
    ),
    "a vector of parameters": Program(
        "nn/utils/convert_parameters.py: parameters_to_vector",
        lambda: place(nn.utils.parameters_to_vector(nn.Linear(2, 1).cuda(1).parameters())),
        "cuda:1",
    ),
    "a vector of parameters of two devices": Program(
        "nn/utils/convert_parameters.py: _check_param_device",
        lambda: nn.utils.parameters_to_vector([nn.Parameter(gpu(2)), nn.Parameter(torch.ones(2))]),
        Raises(TypeError, "Found two parameters on different devices, this is currently not supported."),
    ),
    "parameters of a vector of the CPU": Program(
        "nn/utils/convert_parameters.py: vector_to_parameters",
        lambda: (
            layer := nn.Linear(2, 1).cuda(),
            nn.utils.vector_to_parameters(torch.ones(3), layer.parameters()),
            place(layer.weight),
        )[-1],
        "cpu",
    ),
    "a pruned weight stays behind": Program(
        "nn/utils/prune.py: apply_mask", lambda: pruned_then_moved(False), ("cuda:0", "cuda:0", "cpu")
    ),
    "until it is used": Program("nn/utils/prune.py: __call__", lambda: pruned_then_moved(True), ("cuda:0",) * 3),
    "a mask of the CPU": Program(
        "nn/utils/prune.py: custom_from_mask",
        lambda: prune.custom_from_mask(nn.Linear(2, 2).cuda(), "weight", torch.eye(2)),
        Raises(RuntimeError, MIXED),
    ),
    "pruning over two GPUs": Program(
        "nn/utils/prune.py: global_unstructured",
        lambda: prune.global_unstructured(
            [(nn.Linear(2, 2).cuda(0), "weight"), (nn.Linear(2, 2).cuda(1), "weight")], prune.L1Unstructured, amount=1
        ),
        Raises(TypeError, "Found two parameters on different devices, this is currently not supported."),
    ),
    "the old weight norm stays behind": Program(
        "nn/utils/weight_norm.py: apply", lambda: old_norm(nn.utils.weight_norm, False), "cpu"
    ),
    "the old weight norm when it is used": Program(
        "nn/utils/weight_norm.py: __call__", lambda: old_norm(nn.utils.weight_norm, True), "cuda:0"
    ),
    "the old spectral norm when it is used": Program(
        "nn/utils/spectral_norm.py: __call__", lambda: old_norm(nn.utils.spectral_norm, True), "cuda:0"
    ),
    "weight norm": Program(
        "nn/utils/parametrizations.py: weight_norm", lambda: parametrized(parametrizations.weight_norm), ("cuda:1",) * 2
    ),
    "spectral norm": Program(
        "nn/utils/parametrizations.py: spectral_norm",
        lambda: parametrized(parametrizations.spectral_norm),
        ("cuda:1",) * 2,
    ),
    "orthogonal weights": Program(
        "nn/utils/parametrizations.py: orthogonal", lambda: parametrized(parametrizations.orthogonal), ("cuda:1",) * 2
    ),
    "a cached weight stays behind": Program("nn/utils/parametrize.py: cached", cached, ("cuda:0", True)),
    "a layer without initial values": Program(
        "nn/utils/init.py: skip_init",
        lambda: place(nn.utils.skip_init(nn.Linear, 2, 1, device="cuda:1").weight),
        "cuda:1",
    ),
    "a call with other parameters": Program(
        "_functorch/functional_call.py: functional_call",
        lambda: torch.func.functional_call(nn.Linear(2, 1).cuda(), dict(nn.Linear(2, 1).state_dict()), (gpu(1, 2),)),
        Raises(RuntimeError, MIXED),
    ),
    "an ensemble": Program(
        "_functorch/functional_call.py: stack_module_state",
        lambda: place(torch.func.stack_module_state([nn.Linear(2, 1).cuda(1) for _ in range(2)])[0]["weight"]),
        "cuda:1",
    ),
    "a fused convolution": Program(
        "nn/utils/fusion.py: fuse_conv_bn_eval",
        lambda: place(
            nn.utils.fusion.fuse_conv_bn_eval(nn.Conv2d(1, 1, 1).cuda().eval(), nn.BatchNorm2d(1).cuda().eval()).weight
        ),
        "cuda:0",
    ),
    "packing without an order": Program(
        "nn/utils/rnn.py: pack_padded_sequence",
        lambda: places(*packed(gpu(2, 3, 1), [1, 3], enforce_sorted=False)),
        ("cuda:0", "cpu", "cuda:0", "cuda:0"),
    ),
    "unpacking": Program(
        "nn/utils/rnn.py: pad_packed_sequence",
        lambda: places(*nn.utils.rnn.pad_packed_sequence(packed(gpu(2, 3, 1), [3, 1]))),
        ("cuda:0", "cpu"),
    ),
    "packing with lengths on a GPU and no order": Program(
        "nn/utils/rnn.py: pack_padded_sequence",
        lambda: packed(gpu(2, 3, 1), torch.tensor([1, 3], device="cuda"), enforce_sorted=False),
        Raises(RuntimeError, "'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 Long tensor"),
    ),
    "padding mixed rows": Program(
        "nn/utils/rnn.py: pad_sequence", lambda: place(nn.utils.rnn.pad_sequence([gpu(2), torch.ones(3)])), "cuda:0"
    ),
    "unpacking rows": Program(
        "nn/utils/rnn.py: unpack_sequence",
        lambda: places(*nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([gpu(2, 1), gpu(1, 1)]))),
        ("cuda:0", "cuda:0"),
    ),
    "a packed sequence of the CPU in a layer on a GPU": Program(
        "nn/modules/rnn.py: forward",
        lambda: nn.LSTM(1, 1, batch_first=True).cuda()(packed(torch.ones(2, 3, 1), [3, 1])),
        Raises(RuntimeError, "Input and parameter tensors are not at the same device"),
    ),
    "flat weights move": Program(
        "nn/modules/rnn.py: _apply", lambda: places(*nn.LSTM(1, 1).cuda(1)._flat_weights)[0], "cuda:1"
    ),
    "flat weights of a copy": Program(
        "nn/modules/rnn.py: __setstate__",
        lambda: places(*copy.deepcopy(nn.GRU(1, 1).cuda(1))._flat_weights)[0],
        "cuda:1",
    ),
    "flattening on the CPU": Program(
        "nn/modules/rnn.py: flatten_parameters", lambda: nn.LSTM(1, 1).flatten_parameters(), None
    ),
    "a cell": Program(
        "nn/modules/rnn.py: LSTMCell", lambda: places(*nn.LSTMCell(2, 3).cuda(1)(gpu(1, 2, index=1))), ("cuda:1",) * 2
    ),
    "a cell with a state of the CPU": Program(
        "nn/modules/rnn.py: GRUCell",
        lambda: nn.GRUCell(2, 3).cuda()(gpu(1, 2), torch.ones(1, 3)),
        Raises(RuntimeError, MIXED),
    ),
    "an LSTM with projections": Program(
        "nn/modules/rnn.py: proj_size",
        lambda: place(nn.LSTM(2, 3, proj_size=1).cuda(1)(gpu(4, 1, 2, index=1))[0]),
        "cuda:1",
    ),
}

# --- compiled functions ---------------------------------------------------------------------------


@torch.compile(backend="eager")
def doubled(values):
    return values * 2


def compiled_method():
    layer = nn.Linear(2, 1).cuda()
    layer.compile(backend="eager")
    return place(layer(gpu(1, 2)))


COMPILED = {
    "a decorated function": Program("__init__.py: compile", lambda: place(doubled(gpu(2, index=1))), "cuda:1"),
    "a module's method": Program("nn/modules/module.py: compile", compiled_method, "cuda:0"),
    "a function that mixes": Program(
        "__init__.py: compile",
        lambda: torch.compile(lambda values: values + torch.ones(2), fullgraph=True, backend="eager")(gpu(2)),
        Raises(RuntimeError, MIXED),
    ),
    "is compiling": Program(
        "compiler/__init__.py: is_compiling",
        lambda: torch.compile(torch.compiler.is_compiling, backend="eager")(),
        False,
    ),
    "a part that is left out": Program(
        "compiler/__init__.py: disable", lambda: place(torch.compiler.disable(torch.sin)(gpu(2))), "cuda:0"
    ),
}

AREAS = {
    "autograd": AUTOGRAD,
    "optimizers": OPTIMIZERS,
    "files": FILES,
    "communication": COMMUNICATION,
    "helpers of modules": HELPERS,
    "compiled functions": COMPILED,
}
