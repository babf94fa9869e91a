"""DPL1xx: DataParallel and DistributedDataParallel."""

from placement_lint.rules.wrappers import (
    alias_escapes_replica,
    batch_dim_mismatch,
    data_parallel_in_process_group,
    ddp_forward_bypasses_wrapper,
    ddp_module_changed_after_wrap,
    hardcoded_device_in_replica,
    keyword_with_partial_batch,
    module_attribute_on_unwrapped,
    non_batch_argument,
    non_tensor_output,
    packed_sequence_in_replica,
    parameters_in_replica,
    summed_replica_loss,
    thread_local_context,
    trainable_outside_ddp,
    unreduced_replica_loss,
    wrapped_twice,
    wrapper_attribute_read,
    wrapper_attribute_write,
    wrapper_state_dict_prefix,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    wrapper_attribute_read.RULE,
    wrapper_attribute_write.RULE,
    wrapper_state_dict_prefix.RULE,
    unreduced_replica_loss.RULE,
    summed_replica_loss.RULE,
    non_tensor_output.RULE,
    non_batch_argument.RULE,
    keyword_with_partial_batch.RULE,
    batch_dim_mismatch.RULE,
    packed_sequence_in_replica.RULE,
    thread_local_context.RULE,
    data_parallel_in_process_group.RULE,
    ddp_module_changed_after_wrap.RULE,
    ddp_forward_bypasses_wrapper.RULE,
    hardcoded_device_in_replica.RULE,
    parameters_in_replica.RULE,
    alias_escapes_replica.RULE,
    module_attribute_on_unwrapped.RULE,
    wrapped_twice.RULE,
    trainable_outside_ddp.RULE,
)
