"""DPL4xx: the first device and device numbering."""

from placement_lint.rules.devices import (
    module_not_on_first_device,
)

from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = (module_not_on_first_device.RULE,)
