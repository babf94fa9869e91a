"""Functions that rules' lines call by name: they detect silent faults in a program and repair them.

The source of a function goes into the slice that calls it, without its types, so that a slice runs by itself: it may
use other functions of this module, ``torch``, and what it imports itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

# --- optimizers and the parameters that they hold ----------------------------------------------------------------


def trains(optimizer: Any, part: Any) -> bool:
    """Whether an optimizer holds the parameters of a module, or a parameter."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    return all(id(p) in held for p in parameters_of(part))


def adopt(optimizer: Any, part: Any) -> None:
    """Give an optimizer those parameters of a module, or the parameter, that it does not hold."""
    held = {id(p) for group in optimizer.param_groups for p in group["params"]}
    optimizer.add_param_group({"params": [p for p in parameters_of(part) if id(p) not in held]})


def follow(scheduler: Any, optimizer: Any) -> None:
    """Attach a scheduler to another optimizer."""
    for group in optimizer.param_groups:
        group.setdefault("initial_lr", group["lr"])
    scheduler.optimizer = optimizer


def parameters_of(part: Any) -> list[Any]:
    """Those of a module; of a parameter, that one."""
    return list(getattr(part, "parameters", lambda: [part])())


def leaves_for(parameters: Any) -> Any:
    """What an optimizer is given, with a leaf in the place of each tensor that is none."""
    from torch.utils._pytree import tree_map

    return tree_map(lambda one: one if getattr(one, "is_leaf", True) else one.detach().requires_grad_(), [*parameters])


def as_before(owner: Any, part: Any) -> Any:
    """The part; it fails where it has other parameters than its owner computed with in an earlier call."""
    earlier = owner.__dict__.setdefault("computed_with", parameters_of(part))
    same = all(old is new for old, new in zip(earlier, parameters_of(part), strict=True))
    assert same, "each call computes with new weights"
    return part


def kept(owner: Any, name: str, make: Callable[[], Any]) -> Any:
    """A part that a module makes once, and has from then on."""
    if not hasattr(owner, name):
        setattr(owner, name, make())
    return getattr(owner, name)


# --- tensors, wherever they are ----------------------------------------------------------------------------------


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors in lists, dicts and modules."""
    from torch.utils._pytree import tree_leaves

    parts = tree_leaves(getattr(value, "state_dict", lambda: value)())
    return [part for part in parts if isinstance(part, torch.Tensor)]


def moved(value: Any, *where: Any, **how: Any) -> Any:
    """The same with each tensor in it moved; what is no tensor stays."""
    from torch.utils._pytree import tree_map

    device = where or how.values() or ("cuda",)
    return tree_map(lambda one: one.to(*device) if isinstance(one, torch.Tensor) else one, value)


def home_of(module: Any) -> torch.device:
    """Where a module is; a replica of DataParallel keeps its parameters under another name."""
    parts = list(module.modules())
    kept = [former for part in parts for former in getattr(part, "_former_parameters", {}).values()]
    device: torch.device = next(iter((*module.parameters(), *kept))).device
    return device


def stored(path: Any, content: Any, device: str) -> None:
    """Write a file with this content, as if a program had saved it from tensors on that device."""
    import os
    from unittest.mock import patch

    if hasattr(path, "seek"):  # a file that is open already
        path.seek(0)
    else:
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with patch("torch.serialization.location_tag", lambda storage: device):
        torch.save(content, path)
    if hasattr(path, "seek"):
        path.seek(0)


# --- replicas ----------------------------------------------------------------------------------------------------


def as_bare(wrapper: Any, *given: Any, **named: Any) -> bool:
    """Whether DataParallel answers as its module does by itself; of one loss a replica, the mean."""
    if not isinstance(wrapper, torch.nn.DataParallel):
        return True
    device, training = next(wrapper.parameters()).device, wrapper.training
    wrapper.eval()
    with torch.no_grad():
        alone = tensors_in(wrapper.module(*moved(given, device), **moved(named, device)))
        try:
            together = tensors_in(wrapper(*given, **named))
        except Exception:
            return False
        finally:
            wrapper.train(training)
    together = [many.mean() if one.dim() == 0 else many for one, many in zip(alone, together, strict=True)]
    return all(
        one.shape == many.shape and torch.allclose(one.float(), many.to(one.device).float(), atol=1e-4)
        for one, many in zip(alone, together, strict=True)
    )


def is_shared(watched: list[Any]) -> bool:
    """Whether one thing was changed on several GPUs: pairs of the two."""
    return any(id(one) == id(other) and here != there for one, here in watched for other, there in watched)


def is_lost(watched: list[Any], model: Any) -> bool:
    """Whether a tensor that was changed is none of a model's buffers."""
    own = {buffer.data_ptr() for buffer in model.buffers()}
    return any(one.data_ptr() not in own for one, _ in watched)


# --- ranks -------------------------------------------------------------------------------------------------------


def told(value: Any) -> list[Any]:
    """What each rank says, where all of them are asked the same."""
    import pickle

    dist: Any = torch.distributed
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    turn = told.__dict__["turn"] = told.__dict__.get("turn", 0) + 1
    store.set(f"{turn}/{rank}", pickle.dumps(value))
    return [pickle.loads(store.get(f"{turn}/{other}")) for other in range(dist.get_world_size())]


def agree(parameters: Any) -> bool:
    """Whether all ranks have the same gradients."""
    gradients = [p.grad.detach().double() for p in parameters if p.grad is not None]
    first, *others = told(sorted((float(one.sum()), float(one.norm())) for one in gradients))
    return all(torch.allclose(torch.tensor(first), torch.tensor(other), atol=1e-6) for other in others)


def after_backward(act: Callable[[], None], key: Any) -> None:
    """Do something after each backward, once for each key, in the order of the keys."""
    tensor: Any = torch.Tensor
    if not hasattr(tensor.backward, "acts"):
        plain = tensor.backward

        def acting(loss: Any, *given: Any, **named: Any) -> None:
            plain(loss, *given, **named)
            for _, each in sorted(tensor.backward.acts.items()):
                each()

        acting.__dict__["acts"] = {}
        tensor.backward = acting
    tensor.backward.acts[key] = act


def compare_gradients(model: Any) -> None:
    """Fail after a backward that leaves each rank gradients of its own."""

    def compare() -> None:
        assert agree(model.parameters()), "the gradients are not averaged over the ranks"

    after_backward(compare, ("compare", id(model)))


def average_gradients(model: Any) -> None:
    """Do after each backward what DistributedDataParallel would."""

    def average() -> None:
        for parameter in model.parameters():
            if parameter.grad is not None:
                every = [torch.tensor(one) for one in told(parameter.grad.tolist())]
                mean: Any = sum(every) / len(every)
                parameter.grad.copy_(mean.to(parameter.grad))

    after_backward(average, ("average", id(model)))


def in_ddp(module: Any) -> Any:
    """The module in DistributedDataParallel, on the GPU where it is, if it is on one."""
    device = next(module.parameters()).device
    return torch.nn.parallel.DistributedDataParallel(module, [device.index] if device.type == "cuda" else None)


def wrap_anew() -> None:
    """Wrap what is in DistributedDataParallel as if it had been only now."""
    import gc

    kind = torch.nn.parallel.DistributedDataParallel
    for wrapper in [one for one in gc.get_objects() if type(one) is kind]:
        unused = wrapper.find_unused_parameters
        kind.__init__(wrapper, wrapper.module, wrapper.device_ids, find_unused_parameters=unused)


# --- samplers ----------------------------------------------------------------------------------------------------


def note_orders(orders: list[Any]) -> None:
    """Keep the order in which each DistributedSampler goes through its data, each time."""
    sampler: Any = torch.utils.data.DistributedSampler
    iterate = sampler.__iter__

    def noting(self: Any) -> Any:
        order = list(iterate(self))
        orders.append((id(self), tuple(order)))
        return iter(order)

    sampler.__iter__ = noting


def set_epochs() -> None:
    """Tell each DistributedSampler the number of the epoch."""
    sampler: Any = torch.utils.data.DistributedSampler
    iterate = sampler.__iter__

    def counting(self: Any) -> Any:
        self.set_epoch(self.epoch + 1)
        return iterate(self)

    sampler.__iter__ = counting
