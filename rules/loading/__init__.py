"""DPL6xx: loading and transfer."""

from placement_lint.rules.loading import (
    cuda_in_worker,
    distributed_sampler_misuse,
    load_without_map_location,
    nonblocking_read,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    cuda_in_worker.RULE,
    nonblocking_read.RULE,
    load_without_map_location.RULE,
    distributed_sampler_misuse.RULE,
)
