"""Programs that run in separate processes, started by the tests."""

import gc
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

AVAILABLE_AT_IMPORT = torch.cuda.is_available()
torch.set_num_threads(1)


def outcome(action):
    try:
        return action()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def weights_agree(model):
    parts = [torch.zeros_like(model.weight) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, model.weight.detach())
    return torch.equal(*parts)


def train(model, rank, steps=2):
    torch.manual_seed(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).pow(2).mean().backward()
        optimizer.step()


def layer(rank):
    torch.manual_seed(rank)
    return nn.Linear(3, 1, bias=False).cuda(rank)


def average(rank):
    model = layer(rank)
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    wrapped(torch.full((1, 3), rank + 1.0)).sum().backward()
    return model.weight.grad.tolist()


def trained(rank):
    model = layer(rank)
    train(DistributedDataParallel(model, device_ids=[rank]), rank)
    return weights_agree(model), str(model.weight.grad.device)


def moved_after_wrapping(rank):
    model = layer(rank)
    wrapped = DistributedDataParallel(model, device_ids=[rank])
    wrapped.cpu().cuda(rank)
    train(wrapped, rank)
    return weights_agree(model)


def fully_sharded(rank):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(layer(rank), device_id=rank)
    loss = model(torch.randn(2, 3, device="cuda")).sum()
    loss.backward()
    return str(next(model.parameters()).device)


def sum_of_ranks(rank):
    total = torch.full((1,), rank + 1.0, device="cuda")
    dist.all_reduce(total)
    return total.item(), str(total.device)


def mesh(rank):
    """`init_device_mesh` asks for the default group by names that it imported."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cuda", (dist.get_world_size(),))


def distributed_tensor(rank):
    from torch.distributed.tensor import Shard, distribute_tensor

    whole = distribute_tensor(torch.arange(8.0, device="cuda"), mesh(rank), [Shard(0)])
    doubled = whole * 2
    return {str(tensor.device) for tensor in (whole, doubled, doubled.to_local())} == {f"cuda:{rank}"}


def clipped(rank):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    for part in (model[0], model[2]):
        fully_shard(part, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), 0.1)
    model(torch.ones(1, 4, device="cuda")).pow(2).sum().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return str(model[0].weight.device) == f"cuda:{rank}"


def initialised_after_meta(rank):
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = nn.Embedding(8, 4)
    fully_shard(model)
    model.to_empty(device="cuda")
    model.reset_parameters()
    return str(model.weight.device) == f"cuda:{rank}"


def tensor_parallel(rank):
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4)).cuda()
    parallelize_module(model, mesh(rank), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    model(torch.ones(2, 4, device="cuda")).sum().backward()
    return str(model[0].weight.grad.device) == f"cuda:{rank}"


QUESTIONS = {
    "simulated before the main module is imported": lambda rank: AVAILABLE_AT_IMPORT,
    "current device": lambda rank: torch.cuda.current_device() == rank,
    "backend": lambda rank: dist.get_backend(),
    "average": average,
    "trained": trained,
    "moved after wrapping": moved_after_wrapping,
    "all_reduce": sum_of_ranks,
    "collective on the CPU": lambda rank: dist.all_reduce(torch.ones(1)),
    "two ids": lambda rank: DistributedDataParallel(layer(rank), device_ids=[0, 1]),
    "module of the CPU": lambda rank: DistributedDataParallel(nn.Linear(1, 1), device_ids=[rank]),
    "nothing to train": lambda rank: DistributedDataParallel(nn.ReLU()),
    "target of the CPU": lambda rank: nn.functional.mse_loss(
        DistributedDataParallel(layer(rank), device_ids=[rank])(torch.ones(1, 3)), torch.ones(1, 1)
    ),
    "attribute": lambda rank: DistributedDataParallel(layer(rank)).weight,
    "fully sharded": fully_sharded,
    "mesh": lambda rank: repr(mesh(rank)),
    "distributed tensor": distributed_tensor,
    "clipped": clipped,
    "initialised after meta": initialised_after_meta,
    "tensor parallel": tensor_parallel,
}


def run_rank(rank, world_size, path):
    dist.init_process_group("nccl", rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    answers = {name: outcome(lambda ask=ask: ask(rank)) for name, ask in QUESTIONS.items()}
    # Wrappers are cyclic and hold the group, whose threads should end before the interpreter does.
    gc.collect()
    dist.destroy_process_group()
    if rank == 0:
        with open(path, "w") as file:
            file.write(repr(answers))


if __name__ == "__main__":
    path = sys.argv[1]
    if "RANK" in os.environ:
        run_rank(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), path)
    else:
        mp.spawn(run_rank, args=(torch.cuda.device_count(), path), nprocs=torch.cuda.device_count())
