"""An optimizer gets tensors that it cannot train, or none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from placement_lint.finding import Severity
from placement_lint.flow.events.schema import GeneratorExhausted, NonLeafOptimized, OptimizerEmpty
from placement_lint.probe.experiment import Experiment, Facts, OutOfReach, Raises, Sees
from placement_lint.replaying import argument_as, claimed
from placement_lint.rewriting import appended, listed, safe
from placement_lint.rule import Note, Page, Problem, Replay, Rule

PAGE = Page(
    what="""\
Reports an optimizer with a tensor that is computed from the intended leaf
(`torch.zeros(3, requires_grad=True).to(device)`), and an optimizer, `clip_grad_norm_` or a loop
with a generator of parameters that is already exhausted. Also an optimizer with an empty list, such as one of the
tensors that require grad among detached copies.
""",
    why="""\
- `t.to(device)`, `t.cuda()`, `t.double()` or `t * 0.1` of a tensor that requires grad is not a leaf if it is a new
  tensor, and an optimizer rejects it: `ValueError: can't optimize a non-leaf Tensor` (`torch/optim/optimizer.py`,
  `Optimizer.add_param_group`). A move returns a new tensor only if the device changes: with 0 GPUs the program
  works, with 1 GPU or more it raises.
- `model.parameters()` is a generator. The second time, it is empty: the second optimizer raises
  `ValueError: optimizer got an empty parameter list`, and `clip_grad_norm_` warns (`parameters` is an empty
  generator) and clips nothing.
""",
    example="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
image = torch.zeros(3, 8, 8, requires_grad=True).to(device)
optimizer = torch.optim.Adam([image], lr=0.1)
image.square().sum().backward()
optimizer.step()
""",
    instead="""\
import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
image = torch.zeros(3, 8, 8, device=device, requires_grad=True)
optimizer = torch.optim.Adam([image], lr=0.1)
image.square().sum().backward()
optimizer.step()
""",
    silent="""\
- `requires_grad_()` comes after the move, or the tensor is detached first: `t.to(device).requires_grad_()`.
- The tensor is already on that device or of that dtype.
- The tensor is computed under `torch.no_grad()`.
- The parameters are kept in a list, or `model.parameters()` is called each time.
- A param group without tensors (`{"params": []}`) is allowed, and so is a list that is filled before.
- A loop over the generator may end early, or only `next()` is called on it.
""",
    fix="""\
Create the tensor on its device, or call `requires_grad_()` after the move. Make a generator that is used twice a
list, `params = list(model.parameters())`. This fix is offered and safe. Call `requires_grad_()` on copies that are to
be trained.
""",
)


def check_leaf(event: NonLeafOptimized) -> Iterator[Problem]:
    how = f"`{event.how}`" if event.how.startswith(".") else event.how
    yield Problem(
        event.node,
        f"the optimizer gets a tensor that {how} computed from the leaf and raises ValueError "
        "(can't optimize a non-leaf Tensor)",
        (Note(event.made, "from here on it is not a leaf"),),
        advice="call `requires_grad_()` after it",
        facts={"how": event.how},
        replay=Replay(
            repairs=(appended(event.made, "detach().requires_grad_()"), argument_as(event.node, "leaves_for({})"))
        ),
    )


def check_empty(event: OptimizerEmpty) -> Iterator[Problem]:
    why = " because no tensor passes its test" if event.filtered else ""
    yield Problem(
        event.node,
        f"`{event.label}` is empty{why}: the optimizer raises ValueError (optimizer got an empty parameter list)",
        (Note(event.made, "the list is created here"),),
        advice="call `requires_grad_()` on the copies" if event.filtered else "pass it the parameters",
        facts={"how": "nothing"},
        replay=Replay(repairs=(argument_as(event.node, "[torch.nn.Parameter(torch.ones(1))]"),)),
    )


def check_generator(event: GeneratorExhausted) -> Iterator[Problem]:
    if event.loop is not None:
        yield Problem(
            event.node,
            f"`{event.label}` is a generator that two loops iterate over: the second loop never runs",
            (Note(event.maker, "the generator is created here"), event.consumed, event.loop),
            advice="make it a list",
            rewrite=safe("make it a list", listed(event.maker)),
            facts={"how": "clipped"},
            replay=Replay(
                watch=(claimed(event.loop.node, "any(True for _ in {node})", "the loop never runs", before=True),),
                along=("backward",),
            ),
        )
        return
    clips = event.use.startswith("clip_grad")
    outcome = "clips nothing" if clips else 'raises "optimizer got an empty parameter list"'
    yield Problem(
        event.node,
        f"`{event.label}` is a generator that is already exhausted: `{event.use}` {outcome}",
        (Note(event.maker, "the generator is created here"), event.consumed),
        advice="make it a list",
        rewrite=safe("make it a list", listed(event.maker)),
        facts={"how": "clipped" if clips else "empty"},
        replay=Replay(
            watch=(claimed(event.node, "{node} > 0", "nothing is clipped"),) if clips else (), along=("backward",)
        ),
    )


def flagged(facts: Facts) -> str:
    return _given(facts)


def control(facts: Facts) -> str:
    how = facts["how"]
    return _given(
        {**facts, "listed": True} if how in ("empty", "clipped", "nothing") else {**facts, "asked": "afterwards"}
    )


def _given(facts: Facts) -> str:
    import torch

    from placement_lint.probe.bench import SIDE

    if facts["how"] in ("empty", "clipped"):
        return _taken_twice(facts)
    if facts["how"] == "nothing":
        torch.optim.SGD([torch.ones(SIDE, requires_grad=True)] if facts["listed"] else [], lr=0.1)
        return "the optimizer has a parameter"
    asked_before = facts["asked"] == "before"
    tensor = _converted(torch.ones(SIDE, requires_grad=asked_before), facts)
    if not asked_before:
        tensor.requires_grad_()
    optimizer = torch.optim.SGD([tensor], lr=0.1)
    tensor.sum().backward()
    optimizer.step()
    return "the tensor is trained"


def _taken_twice(facts: Facts) -> str:
    import torch

    from placement_lint.probe.bench import Model, square

    model = Model()
    parameters: Any = list(model.parameters()) if facts["listed"] else model.parameters()
    torch.optim.SGD(parameters, lr=0.1)
    if facts["how"] == "empty":
        torch.optim.SGD(parameters, lr=0.1)
        return "both optimizers have parameters"
    model(square()).sum().backward()
    torch.nn.utils.clip_grad_norm_(parameters, 1e-3)
    norm = float(model.weight.grad.norm()) if model.weight.grad is not None else 0.0
    return "the gradient is clipped" if norm < 1e-2 else "the gradient is not clipped"


def _converted(tensor: Any, facts: Facts) -> Any:
    how = facts["how"].strip("`.")
    if how.startswith(("to", "cuda")) and how != "to(dtype)":
        return tensor.to(facts["target"])
    ways = {
        "double()": lambda: tensor.double(),
        "float()": lambda: tensor.float(),
        "half()": lambda: tensor.half(),
        "to(dtype)": lambda: tensor.double(),
        "clone()": lambda: tensor.clone(),
        "detach()": lambda: tensor.detach().requires_grad_(),
        "view()": lambda: tensor.view(-1),
        "indexing": lambda: tensor[:2],
    }
    if how in ways:
        return ways[how]()
    if how in ("*", "/", "+", "-", "an operation", "negation"):
        return tensor * 0.5
    raise OutOfReach(f"no experiment for a leaf after {facts['how']!r}")


EXPERIMENT = Experiment(
    claim=(
        "a tensor that is computed from a leaf cannot be optimized, and a generator of parameters is "
        "empty the second time"
    ),
    flagged=flagged,
    control=control,
    symptoms=(
        Raises("ValueError", "non-leaf"),
        Raises("ValueError", "empty parameter list"),
        Sees("not clipped"),
    ),
    facts={"how": ".to(…)", "target": "cuda", "asked": "before", "listed": False},
    gpus=1,
)


RULE = Rule(
    "DPL207",
    "optimizer-non-leaf-or-empty",
    Severity.ERROR,
    PAGE,
    {NonLeafOptimized: check_leaf, OptimizerEmpty: check_empty, GeneratorExhausted: check_generator},
    experiment=EXPERIMENT,
)
