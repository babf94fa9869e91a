"""A DataParallel model returns a value that is not a tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.api.torch_names import NUMBER_TYPES
from placement_lint.flow.events.facts import replica_facts
from placement_lint.flow.events.schema import NonTensorReturned, Returned
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import claimed
from placement_lint.rewriting import NOTHING, Replacements, called_instead, is_call_of, replaced_by, unsafe
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports a number, string, NumPy array or object of one of the program's classes that the `forward` of a
`DataParallel` model returns, by itself or inside a tuple, list or dict.
""",
    why="""\
`gather` (torch/nn/parallel/scatter_gather.py) concatenates the tensors that the replicas return, goes into dicts,
and treats everything else but None as a list or tuple. A number raises `TypeError: 'float' object is not iterable`,
a dataclass and a NumPy array raise TypeError as well, and instead of a string the caller silently gets
`<map object at 0x...>`. With 0 or 1 GPU there is no gather, and the caller gets the result of forward unchanged.
""",
    example="""\
import torch
import torch.nn as nn


class Scored(nn.Linear):
    def forward(self, x):
        logits = super().forward(x)
        return logits, logits.abs().max().item()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Scored(8, 4).to(device))
logits, largest = model(torch.randn(16, 8))
""",
    instead="""\
import torch
import torch.nn as nn


class Scored(nn.Linear):
    def forward(self, x):
        logits = super().forward(x)
        return logits, logits.abs().max().detach()


device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(Scored(8, 4).to(device))
logits, largest = model(torch.randn(16, 8))
largest = largest.max().item()
""",
    silent="""\
- None, alone or beside tensors; tuples, lists, dicts, named tuples and `ModelOutput`s of tensors.
- `device_ids` has a single entry, so that there is no gather. A batch of one row is gathered as well.
- The class is never wrapped in `DataParallel`, or only in DistributedDataParallel, which gathers nothing.
""",
    fix="""\
Return a tensor: `.detach()` instead of `.item()`, and `torch.tensor(value, device=x.device)` for another number.
Review it: the caller gets a vector with one entry for each replica, and must reduce it. Values that are the same in
all replicas (a name, a size) are better read from the module.
""",
)


def check(event: NonTensorReturned) -> Iterator[Problem]:
    what = " and ".join(f"`{source_text(one.node)}` ({_kind(one)})" for one in event.returned)
    raises = any(one.type != "str" for one in event.returned)
    effect = "a call raises TypeError" if raises else "the caller gets the string representation of a `map` object"
    yield Problem(
        event.node,
        f"forward returns {what}, but DataParallel gathers only tensors: {effect}",
        event.scene.replica,
        advice="return a tensor, and reduce it outside of forward",
        rewrite=unsafe("return a tensor", _as_tensors(event)),
        facts={"type": event.returned[0].type, **replica_facts(event.scene)},
        replay=Replay() if raises else Replay(watch=(_is_text(event),)),
    )


def _is_text(event: NonTensorReturned) -> Line:
    return claimed(event.scene.replica[-1].node, "'<map object' not in str(({target}))", "it is the string of a map")


def _kind(returned: Returned) -> str:
    return "a number" if returned.type == "number" else returned.type


def _as_tensors(event: NonTensorReturned) -> Replacements:
    edits = [_as_tensor(one, event) for one in event.returned]
    return tuple(edit for replacements in edits for edit in replacements) if all(edits) else NOTHING


def _as_tensor(returned: Returned, event: NonTensorReturned) -> Replacements:
    if is_call_of(returned.node, "item"):
        return called_instead(returned.node, "detach")
    if returned.type not in NUMBER_TYPES or not event.inputs or not event.maker:
        return NOTHING
    return replaced_by(returned.node, f"{event.maker}({source_text(returned.node)}, device={event.inputs[0]}.device)")


def flagged(facts: Facts) -> str:
    return _returned(facts, facts["type"])


def control(facts: Facts) -> str:
    return _returned(facts, "tensor")


class _Output:
    """An example of a user's own class, which ``gather`` does not support."""


def _returned(facts: Facts, type_: str) -> str:
    from placement_lint.probe.bench import in_replicas

    values: dict[str, Callable[[Any], object]] = {
        "tensor": lambda x: x.sum(),
        "None": lambda x: None,
        "dict": lambda x: {"sum": x.sum(), "rows": x},
        "int": lambda x: x.size(0),
        "bool": lambda x: True,
        "str": lambda x: "rows",
        "list": lambda x: x.tolist(),
        "torch.Size": lambda x: x.shape,
        "torch.device": lambda x: x.device,
        "numpy.ndarray": lambda x: x.cpu().numpy(),
        "float": lambda x: x.sum().item(),
        "number": lambda x: x.sum().item(),
    }
    make = values.get(type_, lambda x: _Output())
    _, got = in_replicas(lambda model, x: (x, make(x)), facts)
    return f"the caller gets the string '{got}'" if isinstance(got, str) and got != "rows" else "it is gathered"


EXPERIMENT = Experiment(
    claim="DataParallel gathers tensors, and treats anything else as a list of tensors",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("TypeError", "object is not iterable"),
        Raises("TypeError", "cannot be interpreted as an integer"),
        Raises("TypeError", "expected a sequence of integers"),
        Sees("<map object"),
    ),
    facts={"type": "float", "device_ids": [0, 1]},
    gpus=2,
    one_gpu={"device_ids": [0, 0]},
    harmless_on=1,
)


RULE = Rule("DPL107", "non-tensor-output", Severity.ERROR, PAGE, {NonTensorReturned: check}, experiment=EXPERIMENT)
