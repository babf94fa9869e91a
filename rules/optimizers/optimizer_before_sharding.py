"""An optimizer gets parameters that are sharded afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.api.torch_names import SHARDING
from placement_lint.flow.events.schema import OptimizerStale
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Sees
from placement_lint.replaying import named_argument, never_trained
from placement_lint.rewriting import moved_below, unsafe
from placement_lint.rule import Note, Page, Problem, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports an optimizer that gets the parameters of a model before `FullyShardedDataParallel`, `fully_shard`,
`parallelize_module` or `distribute_module` replaces them with sharded ones.
""",
    why="""\
FSDP replaces Parameters with one flat Parameter (`torch/distributed/fsdp/_flat_param.py`, `FlatParamHandle`), the
others replace them with DTensor Parameters (`torch/distributed/tensor/_api.py`, `distribute_module`). The optimizer
holds the old objects: they get no gradient, and `step()` skips them.

Nothing raises, on the CPU or any number of GPUs, and no parameter is trained.
""",
    example="""\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
fully_shard(model)

model(torch.randn(16, 4)).square().mean().backward()
optimizer.step()
""",
    instead="""\
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

model(torch.randn(16, 4)).square().mean().backward()
optimizer.step()
""",
    silent="""\
- The optimizer is built, or built again, once the model is sharded.
- `FullyShardedDataParallel(..., use_orig_params=True)`: the Parameter objects stay.
- `DistributedDataParallel` and `replicate` keep the Parameter objects as well.
- The optimizer takes no `step()` afterwards.
""",
    fix="""\
Build the optimizer after the statement that shards the model. Offered if no statement between the two mentions the
optimizer. Review it: the optimizer then keeps the state of one rank's shard, and a checkpoint has to gather the
state of the model and of the optimizer.
""",
)


def check(event: OptimizerStale) -> Iterator[Problem]:
    if event.how in SHARDING.values():
        yield Problem(
            event.built.node,
            f"{quoted(event.optimizer)} gets the parameters of {quoted(event.replaced)} before `{event.how}` "
            "replaces them with sharded ones: `step()` silently trains nothing",
            (Note(event.node, "sharded here"), event.stepped),
            advice="build the optimizer afterwards",
            rewrite=unsafe("build the optimizer afterwards", moved_below(event.statements, event.optimizer)),
            facts={"how": event.how, "optimizer": event.cls},
            replay=never_trained(event, named_argument(event.node)),
        )


def flagged(facts: Facts) -> str:
    return _train(facts, built_first=True)


def control(facts: Facts) -> str:
    return _train(facts, built_first=False)


def _train(facts: Facts, built_first: bool) -> str:
    import torch

    from placement_lint.probe.bench import SIDE, in_process_group, local, optimizer, trainable

    in_process_group()
    whole = trainable(facts)
    held = optimizer(whole, facts)
    model = _sharded(whole, facts)
    if not built_first:
        held = optimizer(model, facts)
    before = [local(parameter).clone() for parameter in model.parameters()]
    model(torch.ones(SIDE, SIDE)).sum().backward()
    held.step()
    same = all(torch.equal(old, local(new)) for old, new in zip(before, model.parameters(), strict=True))
    return "parameters are never trained" if same else "all parameters change"


def _enter(module: Any, inputs: Any, mesh: Any) -> Any:
    from torch.distributed.tensor import DTensor

    return (DTensor.from_local(inputs[0], mesh),)


def _leave(module: Any, output: Any, mesh: Any) -> Any:
    return output.to_local()


def _sharded(model: Any, facts: Facts) -> Any:
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
    from torch.distributed.tensor import distribute_module
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (1,))
    ways: dict[str, Callable[[], Any]] = {
        "FullyShardedDataParallel": lambda: FullyShardedDataParallel(
            model, device_id=torch.device("cpu"), use_orig_params=facts["use_orig_params"]
        ),
        "fully_shard": lambda: fully_shard(model, mesh=mesh),
        "parallelize_module": lambda: parallelize_module(model, mesh, ColwiseParallel()),
        "distribute_module": lambda: distribute_module(model, mesh, input_fn=_enter, output_fn=_leave),
        "DistributedDataParallel": lambda: torch.nn.parallel.DistributedDataParallel(model),
    }
    if facts["how"] not in ways:
        raise OutOfReach(f"no experiment with {facts['how']!r}")
    return ways[facts["how"]]()


EXPERIMENT = Experiment(
    claim="sharding replaces the Parameters of a model, and an optimizer that is built before trains none of them",
    flagged=flagged,
    control=control,
    symptoms=(Sees("never trained"),),
    facts={"optimizer": "SGD", "momentum": 0.0, "how": "fully_shard", "use_orig_params": False},
)


RULE = Rule("DPL203", "optimizer-before-sharding", Severity.ERROR, PAGE, {OptimizerStale: check}, experiment=EXPERIMENT)
