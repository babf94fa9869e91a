"""A name of the wrapped module is read from its wrapper."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.events import WrapperAttributeRead
from placement_lint.rule import Page, Problem, Rule

PAGE = Page(
    what="""\
Reports an attribute or an index that is read from a `DataParallel` or `DistributedDataParallel` wrapper
although only the wrapped module has it.
""",
    why="""\
The wrapper stores the model as `self.module` and has no `__getattr__` of its own
(torch/nn/parallel/data_parallel.py, `DataParallel`), so the lookup ends in `Module.__getattr__`
(torch/nn/modules/module.py): `AttributeError: 'DataParallel' object has no attribute 'weight'`. Indexing
raises `TypeError: 'DataParallel' object is not subscriptable`. It raises with 0, 1 and more GPUs; where the
wrap is under a condition such as `device_count() > 1`, only on the machines where the condition is true.
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
- `model.module.weight`, `getattr(model, "module", model).weight`, and reads from the variable that still
  names the bare model.
- The read is guarded by `isinstance`, by `hasattr(model, "module")`, or by the condition under which the
  model was wrapped.
- The name belongs to `nn.Module` (`parameters`, `training`), to the wrapper (`device_ids`), or was assigned
  on it.
- Wrappers that forward attributes: a subclass with a `__getattr__`, `torch.compile`, FSDP.
""",
    fix="""\
Read the name from `model.module`. This is safe where the model is wrapped on every path. Where it is wrapped
on some paths only, use `getattr(model, "module", model)`, or keep a name for the bare model.
""",
)


def check(event: WrapperAttributeRead) -> Iterator[Problem]:
    if event.name == "[]":
        lacks, inner = "cannot be indexed (TypeError)", f"{event.label}.module[…]"
    else:
        lacks = f"has no attribute `{event.name}` (AttributeError)"
        inner = f"{event.label}.module.{event.name}"
    yield Problem(
        event.node,
        f"`{event.label}` is a {event.wrapper}, which {lacks}",
        (event.wrapped,),
        advice=f"use `{inner}`",
    )


RULE = Rule("DPL101", "wrapper-attribute-read", Severity.ERROR, PAGE, {WrapperAttributeRead: check})
