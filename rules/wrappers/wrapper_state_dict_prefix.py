"""A wrapper's state dict is loaded into a bare module, or the reverse."""

from __future__ import annotations

from collections.abc import Iterator

from placement_lint.finding import Severity
from placement_lint.flow.api.torch_names import COMPILED_PREFIX, WRAPPER_PREFIX
from placement_lint.flow.events.schema import StateLoaded
from placement_lint.probe.experiment import Experiment, Facts, Raises, Sees
from placement_lint.replaying import Replacements, claimed, first_argument
from placement_lint.rewriting import receiver
from placement_lint.rule import Line, Page, Problem, Replay, Rule
from placement_lint.source.wording import source_text

PAGE = Page(
    what="""\
Reports a `load_state_dict` of a wrapper's state dict into an unwrapped module, or the reverse, directly or through
a file that the same program or another one of the run saves, such as `train.py` and `test.py`. Two programs use the
same file if its name is the same, in a folder that an option gives, too; a name that the user gives may be that of
any file in which a module of the same class is saved, also if the option has a default that no program saves. If an
option decides whether it is wrapped, the message says so.
`torch.compile(model)` and `AveragedModel(model)` return such wrappers, too. Also reports keys that the program renames
although they have no prefix, such as `key[7:]` for those of `model.module.state_dict()`.
""",
    why="""\
The wrapper holds the model as its child `module` (torch/nn/parallel/data_parallel.py, `DataParallel.__init__`), so
every key of its `state_dict()` starts with `module.`. No key fits an unwrapped model, with any number of GPUs:
`RuntimeError: Error(s) in loading state_dict for Linear:` with `Missing key(s) in state_dict: "weight", "bias".`.
`torch.compile` holds the model as `_orig_mod` (torch/_dynamo/eval_frame.py, `OptimizedModule`), and `AveragedModel` as
`module`. With `strict=False` nothing is loaded, nothing raises, and the model keeps its initial weights.
The same happens if `key[7:]` or `key.split(".", 1)[1]` shortens a key without the prefix.
""",
    example="""\
import torch
import torch.nn as nn

model = nn.DataParallel(nn.Linear(8, 4))
torch.save(model.state_dict(), "net.pt")

net = nn.Linear(8, 4)
net.load_state_dict(torch.load("net.pt", map_location="cpu"))
""",
    instead="""\
import torch
import torch.nn as nn

model = nn.DataParallel(nn.Linear(8, 4))
torch.save(model.module.state_dict(), "net.pt")

net = nn.Linear(8, 4)
net.load_state_dict(torch.load("net.pt", map_location="cpu"))
""",
    silent="""\
- `model.compile()` compiles in place: the names stay the same.
- Both sides are wrapped, or neither is; wrapping again after loading is correct.
- The keys are renamed correctly between the two, by a loop or by
  `torch.nn.modules.utils.consume_prefix_in_state_dict_if_present`.
- The program tests the keys before it loads, changes them in an unknown way, or a handler catches the exception.
- No program of the run saves the file, or another statement or program saves it with matching keys.
- Options decide in both programs whether the module is wrapped.
- The two programs are in folders beside each other, or the names of the files may differ.
""",
    fix="""\
Save `model.module.state_dict()` and load into `model.module`: such a file works with and without a wrapper. The
change makes files saved earlier unreadable for a wrapped load, so it is safe only if no other program reads or
writes them.
""",
)


def check(event: StateLoaded) -> Iterator[Problem]:
    compiled = (COMPILED_PREFIX in event.state.prefix) != (COMPILED_PREFIX in event.into)
    prefix, whose = (COMPILED_PREFIX, "`torch.compile`") if compiled else (WRAPPER_PREFIX, "a wrapper")
    prefixed = prefix in event.state.prefix
    had, lacks = ("with", "without") if prefixed else ("without", "with")
    mismatch = (
        f"is loaded into a module {lacks} it"
        if event.shortened is None
        else "its keys, as they are renamed, do not fit"
    )
    effect = (
        "keys are missing, so `load_state_dict` raises"
        if event.strict
        else "with `strict=False` nothing is loaded, without an error"
    )
    yield Problem(
        event.node,
        f"the state dict was saved {had} the `{prefix}` prefix of {whose} and {mismatch}: {effect}",
        event.trace,
        advice=f"save and load `.{prefix}state_dict()`"
        if event.shortened is None
        else "rename only keys with the prefix",
        facts={
            "prefixed": bool(event.state.prefix),
            "into_wrapper": bool(event.into),
            "name": prefix[:-1],
            "strict": event.strict,
            "shortened": event.shortened or 0,
        },
        if_saved=event.elsewhere,
        replay=Replay(watch=() if event.strict else (_watch(event),), repairs=(_renamed(event),)),
    )


def _watch(event: StateLoaded) -> Line:
    loaded = f"len({{node}}.missing_keys) < len({source_text(receiver(event.node))}.state_dict())"
    return claimed(event.node, loaded, "nothing is loaded")


def _renamed(event: StateLoaded) -> Replacements:
    """Load the state under the names of the module."""
    state = first_argument(event.node)
    if state is None:
        return ()
    if event.shortened is not None:
        # Several keys may have become the same.
        return ((state, f"{source_text(receiver(event.node))}.state_dict()"),)
    bare = f'name.removeprefix("{event.state.prefix}")' if event.state.prefix else "name"
    name = f'f"{event.into}{{{bare}}}"' if event.into and bare == "name" else bare
    name = f'"{event.into}" + {bare}' if event.into and bare != "name" else name
    return ((state, f"{{{name}: value for name, value in {source_text(state)}.items()}}"),)


def flagged(facts: Facts) -> str:
    return _loaded(facts, facts["prefixed"], facts["into_wrapper"], facts["shortened"])


def control(facts: Facts) -> str:
    return _loaded(facts, prefixed=False, into_wrapper=False, shortened=0)


def _loaded(facts: Facts, prefixed: bool, into_wrapper: bool, shortened: int) -> str:
    import torch
    from torch import nn

    class Compiled(nn.Module):
        """It holds the model as what ``torch.compile`` returns does, which takes long to import."""

        def __init__(self, layer: nn.Module) -> None:
            super().__init__()
            self._orig_mod = layer

    def model(wrapped: bool) -> nn.Module:
        layer = nn.Linear(2, 2)
        return (Compiled if facts["name"] == "_orig_mod" else nn.DataParallel)(layer) if wrapped else layer

    saved, target = model(prefixed), model(into_wrapper)
    added = f"{facts['name']}." if shortened < 0 else ""
    state = {added + key[max(0, shortened) :]: value for key, value in saved.state_dict().items()}
    target.load_state_dict(state, strict=facts["strict"])
    pairs = zip(saved.parameters(), target.parameters(), strict=True)
    return "everything is loaded" if all(torch.equal(one, other) for one, other in pairs) else "nothing is loaded"


EXPERIMENT = Experiment(
    claim="a state dict with the `module.` prefix of a wrapper does not fit an unwrapped module, nor the reverse",
    flagged=flagged,
    control=control,
    symptoms=(Raises("RuntimeError", "Missing key(s) in state_dict"), Sees("nothing is loaded")),
    facts={"prefixed": True, "into_wrapper": False, "name": "module", "strict": True, "shortened": 0},
)


RULE = Rule("DPL103", "wrapper-state-dict-prefix", Severity.ERROR, PAGE, {StateLoaded: check}, experiment=EXPERIMENT)
