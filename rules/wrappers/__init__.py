"""DPL1xx: DataParallel and DistributedDataParallel."""

from placement_lint.rules.wrappers import (
    hardcoded_device_in_replica,
    module_attribute_on_unwrapped,
    non_tensor_output,
    parameters_in_replica,
    summed_replica_loss,
    unreduced_replica_loss,
    wrapped_twice,
    wrapper_attribute_read,
    wrapper_state_dict_prefix,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    wrapper_attribute_read.RULE,
    wrapper_state_dict_prefix.RULE,
    unreduced_replica_loss.RULE,
    summed_replica_loss.RULE,
    non_tensor_output.RULE,
    hardcoded_device_in_replica.RULE,
    parameters_in_replica.RULE,
    module_attribute_on_unwrapped.RULE,
    wrapped_twice.RULE,
)
