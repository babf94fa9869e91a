"""A checkpoint is loaded to the device that saved it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import LoadedWhereSaved
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import argument_added, safe, unsafe
from placement_lint.rule import TWO_RANKS, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports `torch.load(path)` of a checkpoint without `map_location`, in a program that chooses its device, or in every
rank of a process group.
""",
    why="""\
`torch.load` loads each tensor to the device that saved it (torch/serialization.py, `default_restore_location`).

- 0 GPUs: `RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.`
  for every tensor that was saved from a GPU.
- Fewer GPUs than on the machine that saved it:
  `RuntimeError: Attempting to deserialize object on CUDA device 2 but torch.cuda.device_count() is 1.`
- Several ranks: all of them load to the GPU that saved it, usually `cuda:0`, which then holds one copy for each
  rank.
- The same machine, one process: correct, with a second copy in the memory of the GPU.
""",
    example="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
model.load_state_dict(torch.load("model.pth"))
""",
    instead="""\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 4).to(device)
model.load_state_dict(torch.load("model.pth", map_location="cpu"))
""",
    silent="""\
- `map_location` is passed, or the load runs only if the program has chosen CUDA.
- The program itself has saved the file before, in the same run and a single process, or saves it from the CPU.
- Only this run can have saved it, because its name or folder has the time in it, as by `time.strftime` or `mkdtemp`.
- The program itself saves only numbers and texts in the file, or unknown values from which it restores nothing.
- The project's other programs save all files that it may be from the CPU, or one calls this load on what it saves so.
- Only one of the ranks loads it, under `if rank == 0:`.
- The loaded object does not look like a checkpoint: samples, vocabularies, metrics.
- The program never chooses: it always uses a GPU, or never.
- safetensors, `load_state_dict_from_url` and other loaders.
""",
    fix="""\
`map_location="cpu"`: safe if the tensors of the file only go into `load_state_dict` or `copy_`, which copy them to the
device of the parameters, and all else is printed or a number or setting by its use or name, such as `epoch`. Unsafe
otherwise, because other uses find them on the CPU.
""",
)


def check(event: LoadedWhereSaved) -> Iterator[Problem]:
    ranks = event.why == "ranks"
    fix = safe if event.only_state else unsafe
    yield Problem(
        event.node,
        "every rank loads the checkpoint to the GPU that saved it"
        if ranks
        else "the checkpoint is loaded to the device that saved it, although the program chooses its device "
        f"({event.choice_text}): a checkpoint of a GPU raises",
        (event.reason,),
        advice='pass `map_location="cpu"`' if event.only_state else "pass `map_location`",
        rewrite=fix('load it with `map_location="cpu"`', argument_added(event.node, 'map_location="cpu"')),
        facts={"why": event.why},
        replay=_in_each_rank(event) if ranks else Replay(saved_on="cuda:0"),
        for_any_caller=not ranks,
        unless_on_cpu=event.name,
    )


def _in_each_rank(event: LoadedWhereSaved) -> Replay:
    here = "all(one.device.index in (None, torch.cuda.current_device()) for one in tensors_in({node}))"
    return Replay(
        watch=(claimed(event.node, here, "it is loaded onto another rank's GPU", before=True),),
        crew=TWO_RANKS,
        saved_on="cuda:0",
    )


def flagged(facts: Facts) -> str:
    return _loaded(facts, {"map_location": facts["map_location"]} if facts["map_location"] else {})


def control(facts: Facts) -> str:
    return _loaded(facts, {"map_location": "cpu"})


def _loaded(facts: Facts, how: dict[str, Any]) -> str:
    """Load a state dict of another machine, or, as the second rank, one that the first has saved."""
    import threading
    from unittest.mock import patch

    import torch

    from placement_lint.probe.bench import Model

    ranks = facts["why"] == "ranks"
    saved = Model().to("cuda:0" if ranks else "cpu").state_dict()
    tags = {"another GPU": "cuda:63", "cpu": "cpu"}
    if ranks:
        torch.save(saved, "model.pth")
    else:
        with patch("torch.serialization.location_tag", lambda storage: tags[facts["saved_on"]]):
            torch.save(saved, "model.pth")
    places: list[str] = []

    def work() -> None:
        if ranks:
            torch.cuda.set_device(1)
        places.append(str(torch.load("model.pth", **how)["weight"].device))

    if not ranks:
        work()
        return f"it is loaded to {places[0]}"
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return "rank 1 loads it onto the GPU of rank 0" if places[0] == "cuda:0" else f"rank 1 loads it to {places[0]}"


EXPERIMENT = Experiment(
    claim="without map_location a checkpoint is loaded to the device that saved it",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("RuntimeError", "Attempting to deserialize object on"),
        Sees("rank 1 loads it onto the GPU of rank 0"),
    ),
    facts={"why": "choice", "saved_on": "another GPU", "map_location": ""},
    gpus=2,
)


RULE = Rule(
    "DPL603",
    "load-without-map-location",
    Severity.WARNING,
    PAGE,
    {LoadedWhereSaved: check},
    experiment=EXPERIMENT,
)
