"""An attribute of the wrapped module is read from its wrapper."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import WrapperAttributeRead
from placement_lint.probe.experiment import Experiment, Facts, Raises
from placement_lint.rewriting import module_of, receiver, safe, unsafe
from placement_lint.rule import Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports a read of an attribute or an item from a `DataParallel` or `DistributedDataParallel` wrapper although only
the wrapped module has it. Iterating over the wrapper and asking for its length are such reads too.
""",
    why="""\
The wrapper stores the model as `self.module` and has no `__getattr__` of its own
(torch/nn/parallel/data_parallel.py, `DataParallel`), so the lookup ends in `Module.__getattr__`
(torch/nn/modules/module.py): `AttributeError: 'DataParallel' object has no attribute 'weight'`. Indexing raises
`TypeError: 'DataParallel' object is not subscriptable`; `for` and `len()` raise a TypeError likewise. They raise
with 0, 1 and more GPUs; if the wrapping is under a condition such as `device_count() > 1`, only on machines where the
condition is true.
""",
    example="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(8, 4)).to(device)
loss = model(torch.randn(16, 8)).sum()
loss.backward()
print(model.weight.grad.norm())
""",
    instead="""\
import torch
import torch.nn as nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.DataParallel(nn.Linear(8, 4)).to(device)
loss = model(torch.randn(16, 8)).sum()
loss.backward()
print(model.module.weight.grad.norm())
""",
    silent="""\
- `model.module.weight`, `getattr(model, "module", model).weight`, and reads from the variable that still refers to
  the unwrapped model.
- The read is guarded by `isinstance`, by `hasattr(model, "module")`, or by the condition under which the
  model was wrapped.
- The name belongs to `nn.Module` (`parameters`, `training`), to the wrapper (`device_ids`), or was assigned
  on it. A private name, as in `model._loss(x)`, is reported if the class of the model has it.
- Wrappers that forward attributes: a subclass with a `__getattr__`, `torch.compile`, FSDP. A subclass with a
  `__getitem__` or `__iter__` of its own can be indexed or iterated over.
""",
    fix="""\
Read the name from `model.module`. This is safe if the model is always wrapped there. If it is wrapped on some paths
only, `getattr(model, "module", model)` is offered as an unsafe fix. A variable for the unwrapped model works as
well.
""",
)


# What the wrapper cannot do, and how its module is asked for it.
OPERATIONS = {
    "__getitem__": ("cannot be indexed (TypeError)", "{}.module[…]"),
    "__iter__": ("cannot be iterated over (TypeError)", "{}.module"),
    "__len__": ("has no length (TypeError)", "len({}.module)"),
}


def check(event: WrapperAttributeRead) -> Iterator[Problem]:
    attribute = f"has no attribute `{event.name}` (AttributeError)", f"{{}}.module.{event.name}"
    lacks, inner = OPERATIONS.get(event.name, attribute)
    wrapper = event.node if event.name in ("__iter__", "__len__") else receiver(event.node)
    if event.scene.standalone:
        lacks = f"{lacks.removesuffix(')')} if this code is called)"
    fix = safe if event.always else unsafe
    yield Problem(
        event.node,
        f"`{event.label}` is a {event.wrapper}, which {lacks}",
        (event.wrapped,),
        advice=f"use `{inner.format(event.label)}`",
        rewrite=fix("read it from the wrapped module", module_of(wrapper, event.always)),
        facts={"wrapper": event.wrapper, "name": event.name},
        replay=Replay(),
    )


def flagged(facts: Facts) -> None:
    _read(_wrapped(facts), facts["name"])


def control(facts: Facts) -> None:
    wrapper = _wrapped(facts)
    _read(getattr(wrapper, "module", wrapper), facts["name"])


def _wrapped(facts: Facts) -> Any:
    from torch import nn

    from placement_lint.probe.bench import in_wrapper

    model = nn.Sequential(nn.Linear(2, 2))
    model.__dict__.setdefault(facts["name"], "what only the model has")
    return in_wrapper(model, facts["wrapper"])


def _read(model: Any, name: str) -> None:
    operations = {"__getitem__": lambda layers: layers[0], "__iter__": iter, "__len__": len}
    operations.get(name, attrgetter(name))(model)


EXPERIMENT = Experiment(
    claim="a wrapper does not have the attributes of the module that it wraps",
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("AttributeError", "Parallel' object has no attribute"),
        Raises("TypeError", "Parallel' object is not"),
        Raises("TypeError", "Parallel' has no len()"),
    ),
    facts={"wrapper": "DataParallel", "name": "backbone"},
)


RULE = Rule(
    "DPL101", "wrapper-attribute-read", Severity.ERROR, PAGE, {WrapperAttributeRead: check}, experiment=EXPERIMENT
)
