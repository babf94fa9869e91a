"""DPL4xx: the first device and device numbering."""

from placement_lint.rules.devices import (
    ddp_device_arguments,
    global_rank_as_ordinal,
    invalid_device_ids,
    missing_set_device,
    module_not_on_first_device,
    visible_devices_misuse,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (
    module_not_on_first_device.RULE,
    invalid_device_ids.RULE,
    ddp_device_arguments.RULE,
    missing_set_device.RULE,
    visible_devices_misuse.RULE,
    global_rank_as_ordinal.RULE,
)
