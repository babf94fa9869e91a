"""DPL5xx: moves and mismatches."""

from placement_lint.rules.moves import (
    cuda_only_guard,
    device_choice_ignored,
    factory_without_device,
    gradient_lost_in_forward,
    move_on_non_movable,
    move_result_discarded,
    moved_leaf_or_device_comparison,
    numpy_on_cuda,
    operand_not_moved,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    move_result_discarded.RULE,
    move_on_non_movable.RULE,
    operand_not_moved.RULE,
    factory_without_device.RULE,
    moved_leaf_or_device_comparison.RULE,
    device_choice_ignored.RULE,
    numpy_on_cuda.RULE,
    gradient_lost_in_forward.RULE,
    cuda_only_guard.RULE,
)
