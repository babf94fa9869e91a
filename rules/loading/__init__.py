"""DPL6xx: loading and transfer."""

from placement_lint.rules.loading import cuda_in_worker, load_without_map_location

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (cuda_in_worker.RULE, load_without_map_location.RULE)
