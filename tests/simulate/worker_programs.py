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


def mesh_of_two_dimensions(rank):
    from torch.distributed.device_mesh import init_device_mesh

    grid = init_device_mesh("cuda", (dist.get_world_size(), 1), mesh_dim_names=("data", "model"))
    return grid["data"].size(), grid.get_local_rank("data") == rank, str(grid.mesh.device)


def sharded(rank):
    """`torch/distributed/tensor/_api.py`: tensors of the CPU are brought to the device of the mesh."""
    from torch.distributed.tensor import Shard, distribute_tensor

    return distribute_tensor(torch.arange(4.0), mesh(rank), [Shard(0)])


def places_of_distributed(rank):
    from torch.distributed.tensor import DTensor, Replicate, Shard

    whole = sharded(rank)
    parts = whole.redistribute(placements=[Replicate()]), DTensor.from_local(torch.ones(2), mesh(rank), [Shard(0)])
    return {str(part.device) for part in (*parts, parts[0].to_local(), whole.full_tensor())} == {f"cuda:{rank}"}


def fully_sharded_layer(**options):
    from torch.distributed.fsdp import fully_shard

    return fully_shard(nn.Linear(4, 2), **options)


def offloaded(rank):
    from torch.distributed.fsdp import CPUOffloadPolicy

    model = fully_sharded_layer(offload_policy=CPUOffloadPolicy())
    optimizer = torch.optim.Adam(model.parameters())
    output = model(torch.ones(1, 4, device="cuda"))
    output.sum().backward()
    optimizer.step()
    return str(model.weight.device), str(model.weight.grad.device), str(output.device) == f"cuda:{rank}"


def optimizer_before_sharding(rank):
    from torch.distributed.fsdp import fully_shard

    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fully_shard(model)
    before = model.weight.to_local().clone()
    model(torch.ones(1, 4)).sum().backward()
    optimizer.step()
    return torch.equal(before, model.weight.to_local())


def gpu(*values):
    return torch.tensor(values, device="cuda")


def gathered_into(rank):
    result = gpu(0.0, 0.0)
    dist.all_gather_into_tensor(result, gpu(rank + 1.0))
    return result.tolist()


def reduced_and_scattered(rank):
    result = gpu(0.0)
    dist.reduce_scatter_tensor(result, gpu(1.0, 2.0))
    return result.item() == 2.0 * (rank + 1)


def averaged(rank):
    values = gpu(float(rank))
    dist.all_reduce(values, op=dist.ReduceOp.AVG)
    return values.item()


def exchanged(rank):
    result = gpu(0.0, 0.0)
    dist.all_to_all_single(result, gpu(1.0 + rank, 1.0 + rank))
    return result.tolist()


def sent(rank):
    values, result = gpu(float(rank)), gpu(-1.0)
    pair = [dist.P2POp(dist.isend, values, 1 - rank), dist.P2POp(dist.irecv, result, 1 - rank)]
    for work in dist.batch_isend_irecv(pair):
        work.wait()
    return result.item() == 1 - rank


def gathered_objects(rank):
    """`distributed_c10d.py`, `all_gather_object`: tensors arrive on the devices that they left."""
    objects = [None, None]
    dist.all_gather_object(objects, gpu(rank))
    return [str(tensor.device) for tensor in objects]


def without_synchronising(rank):
    model = DistributedDataParallel(layer(rank), device_ids=[rank])
    with model.no_sync():
        model(torch.full((1, 3), rank + 1.0)).sum().backward()
    return model.module.weight.grad.tolist() == [[rank + 1.0] * 3]


def sent_buffers(rank):
    norm = nn.BatchNorm1d(2).cuda()
    norm.running_mean.fill_(rank + 1)
    return DistributedDataParallel(norm, device_ids=[rank]).module.running_mean.tolist()


def unused(rank):
    model = nn.ModuleList([layer(rank), layer(rank)])
    model.forward = lambda values: model[0](values)
    wrapped = DistributedDataParallel(model, device_ids=[rank], find_unused_parameters=True)
    wrapped(torch.ones(1, 3)).sum().backward()
    return model[1].weight.grad is None


def synchronised_norm(rank, device="cuda"):
    return nn.SyncBatchNorm(2).to(device)(torch.ones(3, 2, device=device))


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
    "mesh of two dimensions": mesh_of_two_dimensions,
    "places of a distributed tensor": places_of_distributed,
    "sum of a distributed tensor": lambda rank: sharded(rank).sum().full_tensor().item(),
    "distributed and plain": lambda rank: sharded(rank) + torch.ones(4, device="cuda"),
    "sharding moves": lambda rank: str(fully_sharded_layer().weight.device),
    "input of the CPU": lambda rank: str(fully_sharded_layer()(torch.ones(1, 4)).device),
    "target of the CPU, fully sharded": lambda rank: nn.functional.mse_loss(
        fully_sharded_layer()(torch.ones(1, 4)), torch.ones(1, 2)
    ),
    "offloaded": offloaded,
    "optimizer before sharding": optimizer_before_sharding,
    "gathered into": gathered_into,
    "reduced and scattered": reduced_and_scattered,
    "averaged": averaged,
    "exchanged": exchanged,
    "sent": sent,
    "gathered objects": gathered_objects,
    "monitored barrier": lambda rank: dist.monitored_barrier(),
    "without synchronising": without_synchronising,
    "sent buffers": sent_buffers,
    "unused": unused,
    "input of the CPU without ids": lambda rank: DistributedDataParallel(layer(rank))(torch.ones(1, 3)),
    "synchronised norm": synchronised_norm,
    "synchronised norm on the CPU": lambda rank: synchronised_norm(rank, "cpu"),
    "synchronised norm that only answers": lambda rank: str(
        nn.SyncBatchNorm(2).cuda().eval()(torch.ones(3, 2, device="cuda")).device
    ),
}


def mesh_without_a_group(world_size):
    """`torch/distributed/device_mesh.py`, `_setup_world_group_and_device`, starts a group, and chooses the GPU."""
    from torch.distributed.device_mesh import init_device_mesh

    answer = repr(init_device_mesh("cuda", (world_size,))), str(dist.get_backend()), torch.cuda.current_device()
    dist.destroy_process_group()
    return answer


def run_rank(rank, world_size, path):
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world_size))
    started = outcome(lambda: mesh_without_a_group(world_size))
    # A second group in torchrun's store would find the addresses that the first one left under the same keys, and wait.
    store = dist.FileStore(f"{path}.store", world_size)
    dist.init_process_group("nccl", store=store, rank=rank, world_size=world_size)
    torch.cuda.set_device(rank)
    answers = {"mesh without a group": started}
    answers.update({name: outcome(lambda ask=ask: ask(rank)) for name, ask in QUESTIONS.items()})
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
