"""Correct programs with false positives of the analysis: a replay confirms none of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replaying import FIXTURES, cases_in

from placement_lint.finding import Outcome
from placement_lint.flow.domain.values import NONE
from placement_lint.flow.interpreter import statements
from placement_lint.flow.models import loaders, module_hooks, modules, optimizers
from placement_lint.probe.prober import Prober
from placement_lint.probe.replay import Replayer

RIGHT = FIXTURES / "right-programs"

# What the analysis knows of such programs, each with what is in its place where it does not.
BLINDFOLDS: dict[str, tuple[Any, str, Callable[..., Any]]] = {
    "hooks": (module_hooks, "around", lambda machine, module, arguments, node, forward: forward(arguments)),
    "decorators": (statements, "_decorated", lambda machine, value, node: value),
    "data of parameters": (modules, "filled", lambda machine, parameter, data, node: NONE),
    "tensors of a data set": (loaders, "refill", lambda machine, dataset, tensors: None),
    "param groups": (optimizers, "regrouped", lambda machine, optimizer, value: None),
    "assigned states": (modules, "take_over", lambda machine, module, state, node: None),
    "tied weights": (modules, "given_weight", lambda machine, layer, value, node: None),
    "attributes by computed names": (modules, "misplace_some_tensor", lambda machine, owner, value: None),
}


@pytest.fixture
def blindfolded(monkeypatch: pytest.MonkeyPatch) -> None:
    for room, name, blind in BLINDFOLDS.values():
        monkeypatch.setattr(room, name, blind)


# Those that the analysis takes for wrong then.
PROGRAMS = [
    "class_decorator", "data_of_parameters_moved", "dataset_moved_by_setattr", "dataset_tensors_reassigned",
    "decorated_forward", "decorated_with_tree_map", "decorator_as_class", "hook_closure", "hook_global",
    "hook_in_base_class", "hook_in_init", "hook_method", "hook_object", "hook_on_each_layer", "hook_on_output",
    "hook_on_submodule", "hook_partial", "hook_with_kwargs", "named_parameters_moved", "optimizer_groups_extended",
    "optimizer_groups_reassigned", "parameters_replaced_by_setattr", "state_loaded_on_device", "tied_again",
]  # fmt: skip


@pytest.mark.usefixtures("blindfolded")
@pytest.mark.parametrize("program", PROGRAMS)
def test_no_finding_in_a_right_program_is_confirmed(program: str, prober: Prober) -> None:
    path: Path = RIGHT / f"silent_{program}.py"
    forced = cases_in(path.read_text(), path.name)
    assert forced, "nothing to be judged"
    for finding, case in forced:
        verdict, script = Replayer(prober).replayed(case)
        assert verdict.outcome is not Outcome.CONFIRMED, f"{finding.code}: {verdict.observed}"
        assert script is None
