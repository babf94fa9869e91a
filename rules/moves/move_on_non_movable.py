"""Something is moved that has no such method."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import MoveOnNonMovable
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises
from placement_lint.replaying import Replacements, arguments_text
from placement_lint.rewriting import receiver, safe
from placement_lint.rule import Page, Problem, Replay, Rewrite, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports `.to(...)`, `.cuda()` or `.cpu()` on a dict, list, tuple or string, an array, an optimizer, a `DataLoader`,
a `torch.Generator` or a `torch.device`.
""",
    why="""\
Tensors, modules and packed sequences can be moved; containers of tensors and other objects cannot.
`AttributeError: 'dict' object has no attribute 'to'` is raised on every machine, with and without GPUs; for an
array it is `'numpy.ndarray' object has no attribute 'cuda'`. The state of an optimizer needs no move: created after
the model's move, it is on the device of the parameters.
""",
    example="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
batch = {"ids": torch.zeros(4, 8, dtype=torch.long), "mask": torch.ones(4, 8)}
batch = batch.to(device)
print(batch["ids"].device)
""",
    instead="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
batch = {"ids": torch.zeros(4, 8, dtype=torch.long), "mask": torch.ones(4, 8)}
batch = {name: value.to(device) for name, value in batch.items()}
print(batch["ids"].device)
""",
    silent="""\
- Objects with a `to` of their own: `BatchEncoding`, `TensorDict`, PyG's `Data`, classes of the program.
- The type of the receiver is unknown, such as the batches of a loader with an unknown collate function.
- The program tests first, `hasattr(batch, "to")`, or expects an `AttributeError`.
""",
    fix="""\
A comprehension moves the tensors among the values of a dict and keeps the others. This is safe, because the
statement raised before. Offered if the file imports torch by name; not for lists and tuples.
""",
)

_NAMES = {
    "tuple": "a tuple or list",
    "str": "a string",
    "device": "a device",
    "ndarray": "a NumPy array",
    "OrderedDict": "a state dict",
    "DataLoader": "a DataLoader",
    "Generator": "a Generator",
}


def check(event: MoveOnNonMovable) -> Iterator[Problem]:
    kind = _NAMES.get(event.kind, f"{'an' if event.kind[0] in 'AEIOU' else 'a'} {event.kind}")
    yield Problem(
        event.node,
        f"`{event.label}` is {kind} and has no `.{event.method}()`: raises AttributeError",
        advice="move the tensors in it one by one" if event.kind in _CONTAINERS else "",
        rewrite=_rewrite(event),
        facts={"kind": event.kind, "method": event.method},
        replay=Replay(repairs=(_moved_inside(event),)),
    )


def _moved_inside(event: MoveOnNonMovable) -> Replacements:
    where = arguments_text(event.node) or ("'cuda'" if event.method == "cuda" else "'cpu'")
    return ((event.node, f"moved({source_text(receiver(event.node))}, {where})"),)


_CONTAINERS = {"dict", "list", "tuple", "set"}


def _rewrite(event: MoveOnNonMovable) -> Rewrite | None:
    """``batch.to(device)`` becomes a comprehension over the items of the dict."""
    taken = re.search(r"\b(name|value)\b", f"{event.device} {event.label}")
    if event.kind != "dict" or not event.is_tensor or taken:
        return None
    moved = (
        f"{{name: value.{event.method}({event.device}) if {event.is_tensor}(value) else value "
        f"for name, value in {event.label}.items()}}"
    )
    text = f"{event.label} = {moved}" if event.dropped else moved
    return safe("move the tensors in the dict", ((event.node, text),))


def flagged(facts: Facts) -> None:
    _move(_made(facts["kind"]), facts["method"])


def control(facts: Facts) -> None:
    import torch

    _move(torch.ones(2), facts["method"])


def _move(thing: Any, method: str) -> None:
    {"to": lambda: thing.to("cuda"), "cuda": lambda: thing.cuda(), "cpu": lambda: thing.cpu()}[method]()


def _made(kind: str) -> Any:
    """A thing of this class, with a tensor in it where it can hold one."""
    from collections import OrderedDict

    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from placement_lint.probe.bench import optimizer, trainable

    tensor = torch.ones(2)
    makers: dict[str, Any] = {
        "dict": lambda: {"x": tensor},
        "OrderedDict": lambda: OrderedDict(x=tensor),
        "list": lambda: [tensor],
        "tuple": lambda: (tensor,),
        "set": lambda: {tensor},
        "generator": lambda: (one for one in [tensor]),
        "str": lambda: "tensor",
        "device": lambda: torch.device("cpu"),
        "ndarray": lambda: tensor.numpy(),
        "DataLoader": lambda: DataLoader(TensorDataset(tensor)),
        "TensorDataset": lambda: TensorDataset(tensor),
        "Generator": lambda: torch.Generator(),
        "GradScaler": lambda: torch.amp.GradScaler("cuda", enabled=False),
        "module": lambda: torch.nn.Linear(2, 2),
        "tensor": lambda: tensor,
        "PackedSequence": lambda: torch.nn.utils.rnn.pack_sequence([tensor]),
    }
    if kind in makers:
        return makers[kind]()
    if not hasattr(torch.optim, kind):
        raise OutOfReach(f"no experiment with {kind!r}")
    facts = {"optimizer": kind, "momentum": 0.9}
    return optimizer(trainable(facts), facts)


EXPERIMENT = Experiment(
    claim="only tensors, modules and packed sequences have `to` and `cuda`",
    flagged=flagged,
    control=control,
    symptoms=(Raises("AttributeError", "has no attribute"),),
    facts={"kind": "dict", "method": "to"},
    gpus=1,
)


RULE = Rule("DPL502", "move-on-non-movable", Severity.ERROR, PAGE, {MoveOnNonMovable: check}, experiment=EXPERIMENT)
