"""A DataLoader uses CUDA where it cannot: in a forked worker, while pinning, or while shuffling."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.domain.values import describe
from placement_lint.flow.events.schema import CudaInWorker, LoaderMisplaced
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.replaying import callee, given_keyword
from placement_lint.rule import Line, Note, Page, Problem, Replay, Rule
from placement_lint.source.wording import quoted

PAGE = Page(
    what="""\
Reports CUDA in the workers of a `DataLoader` (in `__getitem__`, `collate_fn` or `worker_init_fn`, or a dataset
whose tensors are on the GPU), `pin_memory=True` with tensors that are on the GPU, and shuffling with a random
generator that is not on the default device.
""",
    why="""\
- Workers are forked on Linux up to Python 3.13, and CUDA does not survive a fork: once the program has used CUDA, a
  worker raises `RuntimeError: Cannot re-initialize CUDA in forked subprocess. ...` (`torch/cuda/__init__.py`,
  `_lazy_init`). With `num_workers=0` there is no worker and no error.
- `RuntimeError: cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned`. Without a GPU, no tensor
  is pinned.
- After `torch.set_default_device("cuda")` the sampler permutes on the GPU with a generator of the CPU:
  `RuntimeError: Expected a 'cuda' device type for generator but found 'cpu'` (`torch/utils/data/sampler.py`,
  `RandomSampler`).
""",
    example="""\
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.tensor([float(index)]).cuda(), index * index


torch.cuda.init()
for x, y in DataLoader(Squares(), batch_size=8, num_workers=2):
    print(x.sum())
""",
    instead="""\
import torch
from torch.utils.data import DataLoader, Dataset


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return torch.tensor([float(index)]), index * index


torch.cuda.init()
for x, y in DataLoader(Squares(), batch_size=8, num_workers=2):
    print(x.cuda().sum())
""",
    silent="""\
- No workers: `num_workers` is 0 or omitted.
- `multiprocessing_context="spawn"` or `"forkserver"`, or `set_start_method` with one of these.
- The batch is moved in the training loop.
- A dataset of CUDA tensors without workers and without `pin_memory`.
- `generator=torch.Generator(device="cuda")` where the default device is the GPU.
""",
    fix="""\
There is no automatic fix. Return CPU tensors from the dataset and move the batch in the training loop. Do not pin
tensors that are on the GPU already.
""",
)


def check_worker(event: CudaInWorker) -> Iterator[Problem]:
    used = "the parent has initialised CUDA" if event.initialised else "a fork after CUDA is initialised"
    yield Problem(
        event.node,
        f"{quoted(event.how)} uses CUDA in a forked DataLoader worker"
        + (f", and {used}: raises RuntimeError" if event.initialised else f": {used} raises RuntimeError"),
        (event.loader, *event.trace),
        advice="return CPU tensors and move the batch in the loop",
        severity=None if event.initialised else Severity.WARNING,
        facts={"fault": "worker"},
        replay=_replay(event.loader, ("num_workers", "0"), at_once=event.how == "the dataset on the GPU"),
    )


_MESSAGES = {
    "pinned": (
        "`pin_memory=True`, but the samples are on {place} and only CPU tensors can be pinned: raises RuntimeError"
    ),
    "default device": "the default device is {place}, so the loader shuffles its indices there with a generator on the "
    "CPU: raises RuntimeError",
    "generator": (
        "the generator is on {place}, but the loader shuffles its indices on another device: raises RuntimeError"
    ),
}

_ADVICE = {
    "pinned": "remove `pin_memory=True`",
    "default device": 'pass `generator=torch.Generator(device="cuda")`, or set no default device',
    "generator": "make the generator on the default device",
}


def check_loader(event: LoaderMisplaced) -> Iterator[Problem]:
    yield Problem(
        event.node,
        _MESSAGES[event.fault].format(place=describe(event.place)),
        event.trace,
        advice=_ADVICE[event.fault],
        facts={"fault": event.fault},
        replay=_replay(Note(event.node, ""), _REPAIRS[event.fault], at_once=True),
    )


def _replay(loader: Note, argument: tuple[str, str], at_once: bool) -> Replay:
    """A replay that takes a batch if ``at_once``; the repaired loader has another argument."""
    batch = (Line(loader.node, "next(iter({target}))"),) if at_once and callee(loader.node).endswith("Loader") else ()
    return Replay(watch=batch, repairs=(given_keyword(loader.node, *argument),), workers=True)


_REPAIRS = {
    "pinned": ("pin_memory", "False"),
    "default device": ("generator", "torch.Generator(torch.get_default_device())"),
    "generator": ("generator", "torch.Generator(torch.get_default_device())"),
}


def flagged(facts: Facts) -> None:
    _iterate(facts, "cuda", on_gpu=facts["fault"] == "generator")


def control(facts: Facts) -> None:
    _iterate(facts, "cpu", on_gpu=facts["fault"] == "default device")


def _iterate(facts: Facts, device: str, on_gpu: bool) -> None:
    """Take a batch of samples on a device, shuffled with a generator on the GPU or with the default one."""
    from typing import Any

    import torch

    from placement_lint.probe.bench import Samples

    fault = facts["fault"]
    workers = facts["num_workers"] if fault == "worker" else 0
    cuda: Any = torch.cuda
    cuda.init()
    if fault == "default device":
        torch.set_default_device("cuda")
    try:
        loader = torch.utils.data.DataLoader(
            Samples(device if fault in ("worker", "pinned") else "cpu"),
            batch_size=2,
            shuffle=fault in ("default device", "generator"),
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
            pin_memory=fault == "pinned" and facts["pin_memory"],
            generator=torch.Generator("cuda") if on_gpu else None,
        )
        next(iter(loader))
    finally:
        torch.set_default_device(None)


EXPERIMENT = Experiment(
    claim="a forked worker cannot use CUDA, and a tensor on the GPU cannot be pinned",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("RuntimeError", "Cannot re-initialize CUDA in forked subprocess"),
        Raises("RuntimeError", "cannot pin"),
        Raises("RuntimeError", "device type for generator but found"),
    ),
    facts={"fault": "worker", "num_workers": 1, "pin_memory": True},
    gpus=1,
)


RULE = Rule(
    "DPL601",
    "cuda-in-worker",
    Severity.ERROR,
    PAGE,
    {CudaInWorker: check_worker, LoaderMisplaced: check_loader},
    experiment=EXPERIMENT,
)
