"""DPL2xx: optimizers and the parameters they hold."""

from placement_lint.rules.optimizers import (
    grad_ops_on_model_copy,
    optimizer_before_materialize,
    optimizer_before_model_surgery,
    optimizer_before_sharding,
    optimizer_misses_parameters,
    optimizer_non_leaf_or_empty,
    optimizer_stale_after_replacement,
    optimizer_state_before_move,
    scheduler_on_old_optimizer,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    optimizer_state_before_move.RULE,
    optimizer_before_materialize.RULE,
    optimizer_before_sharding.RULE,
    optimizer_before_model_surgery.RULE,
    optimizer_stale_after_replacement.RULE,
    optimizer_misses_parameters.RULE,
    optimizer_non_leaf_or_empty.RULE,
    scheduler_on_old_optimizer.RULE,
    grad_ops_on_model_copy.RULE,
)
