"""Workbench: small modules and operations from which arms build their patterns. Only arms import it."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from placement_lint.flow.api.torch_names import OPTIMIZERS
from placement_lint.probe.experiment import Facts, OutOfReach

SIDE = 4  # rows and columns of everything: small, and the same for all so that operands fit

Forward = Callable[[Any, Tensor], Any]


# --- what tensors there are --------------------------------------------------------------------------------


def square() -> Tensor:
    return torch.ones(SIDE, SIDE)


def mask() -> Tensor:
    return torch.ones(SIDE, SIDE) > 0


def classes() -> Tensor:
    """Class numbers, which serve as indices as well."""
    return torch.arange(SIDE)


def image() -> Tensor:
    return torch.ones(SIDE, 1, SIDE, SIDE)


# --- what they meet in -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Operation:
    """An operation on a stray operand and one at home, and constructors of both operands.

    The operand at home is a tensor or a module.
    """

    run: Callable[[Any, Any], object]
    stray: Callable[[], Tensor] = square
    home: Callable[[], Any] = square


def _weighted(weight: Tensor, scores: Tensor) -> Tensor:
    return F.cross_entropy(scores, classes().to(scores.device), weight=weight)


ELEMENTWISE = Operation(torch.add)
LOSS = Operation(lambda stray, home: F.cross_entropy(home, stray), stray=classes)
CONVOLUTION = Operation(lambda stray, home: F.conv2d(home, stray), stray=lambda: torch.ones(1, 1, 3, 3), home=image)
PRODUCT = Operation(torch.matmul)

OPERATIONS: dict[str, Operation] = {
    "+": ELEMENTWISE,
    "-": Operation(torch.sub),
    "*": Operation(torch.mul),
    "/": Operation(torch.div),
    "**": Operation(torch.pow),
    "+=": Operation(operator.iadd),
    "==": Operation(torch.eq),
    "@": PRODUCT,
    "matmul": PRODUCT,
    "mm": PRODUCT,
    "linear": Operation(F.linear),
    "cdist": Operation(torch.cdist),
    "cat": Operation(lambda stray, home: torch.cat([home, stray])),
    "stack": Operation(lambda stray, home: torch.stack([home, stray])),
    "where": Operation(lambda stray, home: torch.where(stray, home, home), stray=mask),
    "masked_fill": Operation(lambda stray, home: home.masked_fill(stray, 0.0), stray=mask),
    "embedding": Operation(lambda stray, home: F.embedding(stray, home), stray=classes),
    "conv2d": CONVOLUTION,
    "cross_entropy": LOSS,
    "nll_loss": LOSS,
    "the weight of a loss": Operation(_weighted, stray=lambda: torch.ones(SIDE)),
    # A tensor on the CPU cannot be indexed from a GPU; a GPU's can be indexed from the CPU.
    "indexing": Operation(lambda stray, home: stray[home], home=classes),
    "indexing with it": Operation(lambda stray, home: home[stray], stray=classes),
    "copy_": Operation(lambda stray, home: home.copy_(stray)),
}
"""By the name that the analysis gives an operation; an addition stands for all others."""

LAYERS: dict[str, tuple[Callable[[], nn.Module], Callable[[], Tensor]]] = {
    "Embedding": (lambda: nn.Embedding(SIDE, SIDE), classes),
    "EmbeddingBag": (lambda: nn.EmbeddingBag(SIDE, SIDE), lambda: classes()[None]),
    "Conv2d": (lambda: nn.Conv2d(1, 1, 3), image),
    "BatchNorm2d": (lambda: nn.BatchNorm2d(1), image),
    "RNN": (lambda: nn.RNN(SIDE, SIDE), square),
    "LSTM": (lambda: nn.LSTM(SIDE, SIDE), square),
    "GRU": (lambda: nn.GRU(SIDE, SIDE), square),
    "LayerNorm": (lambda: nn.LayerNorm(SIDE), square),
}
"""Layers and an input for each, by the class; a Linear stands for all others."""


def operation(facts: Facts) -> Operation:
    """What the facts ``operation`` and ``layer`` speak of."""
    if facts["operation"] != "call":
        return OPERATIONS.get(facts["operation"], ELEMENTWISE)
    layer, argument = LAYERS.get(facts["layer"], (lambda: nn.Linear(SIDE, SIDE), square))
    return Operation(lambda stray, module: module(stray), argument, layer)


# --- models ------------------------------------------------------------------------------------------------


class Model(nn.Linear):
    """A layer with a forward of one's choice."""

    def __init__(self, forward: Forward | None = None) -> None:
        super().__init__(SIDE, SIDE)
        self._forward = forward

    def forward(self, x: Tensor) -> Any:
        return self._forward(self, x) if self._forward else super().forward(x)


def replicas(facts: Facts) -> int:
    """How many replicas a wrapper with the fact ``device_ids`` makes."""
    ids = facts.get("device_ids")
    return torch.cuda.device_count() if ids is None else len(ids)


def first_device(facts: Facts) -> torch.device:
    """The device on which DataParallel requires its module."""
    ids = facts.get("device_ids") or [0]
    return torch.device(ids[0]) if isinstance(ids[0], str) else torch.device("cuda", ids[0])


def rows(facts: Facts, chunk: Tensor | None = None) -> Tensor:
    """A batch that gives each replica a chunk like this one."""
    return torch.cat([square() if chunk is None else chunk] * replicas(facts))


def parallel(model: nn.Module, facts: Facts) -> nn.Module:
    """The model as DataParallel requires it, wrapped; where the fact ``wrapper`` is empty, bare and on the CPU."""
    if facts.get("wrapper") == "":
        return model
    return nn.DataParallel(model.to(first_device(facts)), device_ids=facts.get("device_ids"))


def in_replicas(forward: Forward, facts: Facts) -> Any:
    """What a wrapped model with this forward returns for a batch."""
    return parallel(Model(forward), facts)(rows(facts))


def meet_in_forward(
    facts: Facts,
    take: Callable[[Any, Operation, Tensor], Tensor],
    prepare: Callable[[Any, Operation], None] = lambda model, what: None,
) -> None:
    """Run a model in whose forward the operation of the facts meets what ``take`` gives it.

    ``prepare`` sets the model up before it is moved; the fact ``wrapper`` says whether it is wrapped.
    """
    what = operation(facts)
    home = what.home()
    model = Model(lambda self, x: what.run(take(self, what, x), x if isinstance(home, Tensor) else self.layer))
    if isinstance(home, nn.Module):
        model.add_module("layer", home)
    prepare(model, what)
    chunk = home if isinstance(home, Tensor) else square()
    if facts["wrapper"] == "DataParallel":
        parallel(model, facts)(rows(facts, chunk))
    else:
        model.to(facts["home"])(chunk.to(facts["home"]))


# --- training ----------------------------------------------------------------------------------------------


def trainable(facts: Facts) -> nn.Module:
    """One matrix of weights, which every optimizer takes; SparseAdam requires sparse gradients."""
    if facts["optimizer"] == "SparseAdam":
        return nn.Embedding(SIDE, SIDE, sparse=True)
    return nn.Linear(SIDE, SIDE, bias=False)


def optimizer(model: nn.Module, facts: Facts) -> Any:
    """The optimizer that the facts name, with their ``momentum`` where it knows of one."""
    name = facts["optimizer"]
    known = OPTIMIZERS.get(f"torch.optim.{name}")
    if known is None or not hasattr(torch.optim, name):
        raise OutOfReach(f"no experiment with the optimizer {name!r}")
    if known.unknown:
        # The program looks its class up by a name: any that keeps state.
        name = "Adam"
    keywords = {"momentum": facts["momentum"]} if name == "SGD" else {}
    return getattr(torch.optim, name)(model.parameters(), lr=0.1, **keywords)


def step(model: nn.Module, held: Any) -> None:
    """One step of training."""
    weight = next(model.parameters())
    inner = getattr(model, "module", model)
    x = classes() if isinstance(inner, nn.Embedding) else square()

    def closure() -> Tensor:
        held.zero_grad()
        loss: Tensor = (model(x.to(weight.device)) ** 2).sum()
        torch.autograd.backward(loss)
        return loss

    held.step(closure)


def unchanged(model: nn.Module, train: Callable[[], object]) -> list[str]:
    """The names of the parameters that training leaves as they were."""
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    train()
    return [name for name, parameter in model.named_parameters() if torch.equal(before[name], parameter)]


# --- the environment ---------------------------------------------------------------------------------------


def visible_devices(listed: str) -> AbstractContextManager[object]:
    """``CUDA_VISIBLE_DEVICES`` is set to this, unless it is empty."""
    return patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": listed} if listed else {})


# --- wrappers by name --------------------------------------------------------------------------------------


def with_idle_rank(wrapper: nn.Module) -> Any:
    """A DDP wrapper that averages with a second rank whose gradients are zero: it halves what passes through it.

    The communication hook of DDP gets exactly what would be sent to the other ranks.
    """
    if isinstance(wrapper, nn.parallel.DistributedDataParallel):
        wrapper.register_comm_hook(None, lambda _, bucket: _at_once(bucket.buffer() / 2))
    return wrapper


def _at_once(value: Tensor) -> Any:
    """A future that is there already."""
    future: Any = torch.futures.Future()
    future.set_result(value)
    return future


def averaged(model: nn.Module, loss: Callable[[], Tensor]) -> str:
    """Whether the gradients of a loss were averaged with an idle rank's: they are all ones, or half of it."""
    for _ in range(2):
        model.zero_grad()
        torch.autograd.backward(loss())
    gradients = {name: p.grad for name, p in model.named_parameters() if p.requires_grad and p.grad is not None}
    own = [name for name, gradient in gradients.items() if (gradient == 1).any()]
    return "the rank keeps its gradients to itself" if own else "the gradients are averaged over the ranks"


def in_wrapper(model: nn.Module, wrapper: str, find_unused_parameters: bool = False) -> Any:
    """The model in a wrapper of this name; bare where there is none."""
    if wrapper == "DataParallel":
        return nn.DataParallel(model)
    if wrapper != "DistributedDataParallel":
        return model
    in_process_group()
    return nn.parallel.DistributedDataParallel(model, find_unused_parameters=find_unused_parameters)


def in_process_group() -> None:
    """A process group of this process alone."""
    dist: Any = torch.distributed
    if not dist.is_initialized():
        # Never ended: ending it waits for Gloo's thread, which may wait for the interpreter to let go of a tensor.
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def local(parameter: Any) -> Tensor:
    """What this rank has of a Parameter that may be sharded."""
    shard: Tensor = parameter.to_local() if hasattr(parameter, "to_local") else parameter
    return shard.detach()


# --- data --------------------------------------------------------------------------------------------------


class Samples(torch.utils.data.Dataset[Tensor]):
    """A few samples, made on a device where they are asked for."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __len__(self) -> int:
        return SIDE

    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(SIDE, device=self.device)
