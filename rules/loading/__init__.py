from placement_lint.rule import Rule

RULES: tuple[Rule, ...] = ()
