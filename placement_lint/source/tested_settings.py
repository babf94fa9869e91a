"""Settings that a module only tests: attributes of an object, each compared with texts and used for nothing else."""

from __future__ import annotations

from collections import Counter

import libcst as cst

from placement_lint.source.remembered import remembered
from placement_lint.source.walking import children


def is_only_tested(module: cst.Module, attribute: cst.Attribute) -> bool:
    """Whether the module uses ``opt.mode`` in comparisons with texts only, and ``opt`` for its attributes only."""
    owner = attribute.value
    used = _used_otherwise(module)
    return isinstance(owner, cst.Name) and used.isdisjoint(((owner.value, ""), (owner.value, attribute.attr.value)))


@remembered
def _used_otherwise(module: cst.Module) -> frozenset[tuple[str, str]]:
    """The attributes that a module uses otherwise, each as two names, and the variables, with an empty second one."""
    used: set[tuple[str, str]] = set()
    bound: Counter[str] = Counter()
    waiting: list[cst.CSTNode] = [module]
    while waiting:
        node = waiting.pop()
        if isinstance(node, cst.Comparison) and _is_test(node):
            continue
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
            used.add((node.value.value, node.attr.value))
        elif isinstance(node, cst.Name):
            used.add((node.value, ""))
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            waiting += node.args
        elif isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
            bound[node.target.value] += 1
        else:
            waiting += children(node)
    return frozenset(used | {(name, "") for name, count in bound.items() if count > 1})


def _is_test(node: cst.Comparison) -> bool:
    """``opt.mode == "fast"``"""
    attribute, target = node.left, node.comparisons[0]
    return (
        isinstance(attribute, cst.Attribute)
        and isinstance(attribute.value, cst.Name)
        and len(node.comparisons) == 1
        and isinstance(target.operator, (cst.Equal, cst.NotEqual))
        and isinstance(target.comparator, cst.SimpleString)
    )
