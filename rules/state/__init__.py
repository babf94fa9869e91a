"""DPL3xx: module state."""

from placement_lint.rules.state import (
    buffer_updated_from_first_chunk,
    module_created_in_forward,
    parameter_lost_by_conversion,
    parameter_shares_storage,
    replicated_parameter_list,
    requires_grad_without_effect,
    shared_state_in_replica,
    stale_device_cache,
    state_rebound_in_replica,
    tied_weights_broken,
    unregistered_container,
    unregistered_tensor_attribute,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    parameter_lost_by_conversion.RULE,
    unregistered_tensor_attribute.RULE,
    unregistered_container.RULE,
    tied_weights_broken.RULE,
    state_rebound_in_replica.RULE,
    shared_state_in_replica.RULE,
    buffer_updated_from_first_chunk.RULE,
    module_created_in_forward.RULE,
    requires_grad_without_effect.RULE,
    stale_device_cache.RULE,
    replicated_parameter_list.RULE,
    parameter_shares_storage.RULE,
)
