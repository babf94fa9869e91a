"""DPL9xx: correct code that is often claimed to be wrong. Off by default; the experiments refute the claims."""

from placement_lint.rules.folklore import (
    cpu_inputs_into_data_parallel,
    inputs_moved_before_data_parallel,
    move_after_wrap,
    optimizer_before_move,
    optimizer_before_wrapper,
    wrapper_parameters,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    optimizer_before_wrapper.RULE,
    inputs_moved_before_data_parallel.RULE,
    move_after_wrap.RULE,
    optimizer_before_move.RULE,
    wrapper_parameters.RULE,
    cpu_inputs_into_data_parallel.RULE,
)
