"""Hydra: objects that a configuration describes, of classes that are not known.

Read in hydra-core 1.3.8: `hydra/utils.py` and `hydra/_internal/instantiate/_instantiate2.py` (`instantiate` calls the
`_target_` of a configuration, or makes a `functools.partial` of it for `_partial_: true`).
https://github.com/facebookresearch/hydra/blob/v1.3.2/hydra/_internal/instantiate/_instantiate2.py

Where such an object is depends on its class and the configuration. It is a module once the program moves it, asks for
its parameters or wraps it: then calls of it compute where it was moved to.
"""

from __future__ import annotations

import re

import libcst as cst

from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.values import Parameters, Symbol, Value, alternatives
from placement_lint.flow.models import modules, optimizers
from placement_lint.flow.state.machine import Machine
from placement_lint.source.querying import words_in

_TYPE = "hydra.utils.instantiate"
INSTANTIATORS = {
    _TYPE,
    "hydra._internal.instantiate._instantiate2.instantiate",
}
# What only modules have, among the objects that programs let a configuration describe.
_OF_MODULES = {"to", "cuda", "cpu", "parameters"}
# How programs call the configuration of an optimizer; its other users of parameters average them.
_OPTIMIZER = re.compile(r"optim|^opt$", re.IGNORECASE)
_UNKNOWN_OPTIMIZER = "torch.optim.Optimizer"


def instantiate(machine: Machine, node: cst.Call) -> Value:
    """``hydra.utils.instantiate(cfg.model)``; the caller has given the arguments away."""
    return machine.fresh(node, _TYPE)


def is_optimizer(arguments: Arguments, node: cst.Call) -> bool:
    """Whether ``instantiate(cfg.optimizer, params=model.parameters())`` builds an optimizer."""
    given = arguments.keyword("params") or arguments.get(1)
    parameters = given is not None and any(isinstance(one, Parameters) for _, one in alternatives(given))
    return parameters and bool(node.args) and any(map(_OPTIMIZER.search, words_in(node.args[0].value)))


def optimizer(machine: Machine, arguments: Arguments, node: cst.Call) -> Value:
    """The optimizer, of an unknown class."""
    given = arguments.keyword("params") or arguments.get(1)
    named = (one for one in node.args if one.keyword is not None and one.keyword.value == "params")
    written = next(named, node.args[-1]).value
    taken = Arguments((given,) if given is not None else ())
    return optimizers.build(machine, _UNKNOWN_OPTIMIZER, taken, node, written)


def is_object(value: Value) -> bool:
    """Whether a configuration describes the value."""
    return isinstance(value, Symbol) and value.type == _TYPE


def used(machine: Machine, value: Symbol, name: str) -> None:
    """``model.to(device)``: a method of modules is read."""
    if name in _OF_MODULES and is_object(value):
        modules.treat_as_module(machine, value, surely=True)
