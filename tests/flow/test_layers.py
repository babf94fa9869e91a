"""The packages that ``flow/`` is to become import each other in one direction only.

The table says to which each file belongs. An import against the order is an exception, and the list of exceptions may
only become shorter: a new one fails here, and so does one that is listed and gone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FLOW = Path(__file__).parents[2] / "placement_lint" / "flow"

# Each may import itself and those before it.
LAYERS = {
    "api": "bounds vocabulary",
    "domain": "arguments condition copying extent folding likeness values",
    "events": "events facts mixing",
    "state": "classes containers devices machine modules names options registries store summaries",
    "models": "batches casting checkpoints ddp describing device_arguments environment frameworks gathering gradients "
    "lengths lightning loaders module_hooks movables numbering operands optimizers packing processes ranks schedulers "
    "shapes surgery tensors transfers wrapper_fields wrappers",
    "observers": "aliases arrivals backward choices coverage creation cuts hooks leftovers outsiders placements "
    "repeats replicas revealing rumours storage ties twins visits",
    "interpreter": "attributes builtins calls expressions imports iteration library methods operators relevance "
    "repetition statements",
    "triage": "alone beginnings foresight glance meetings outlook prospects sought texts written",
    "incremental": "outcomes recollection slots",
    "driver": "program uncalled",
}
ORDER = list(LAYERS)
LAYER_OF = {name: layer for layer, names in LAYERS.items() for name in names.split()}


def imported(name: str) -> Iterator[str]:
    """The files of ``flow/`` that one of them imports, for its types or at run time."""
    for node in ast.walk(ast.parse((FLOW / f"{name}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "placement_lint.flow":
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("placement_lint.flow."):
            yield str(node.module).rpartition(".")[2]


def against_the_order() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for name, layer in LAYER_OF.items():
        for other in imported(name):
            if ORDER.index(LAYER_OF[other]) > ORDER.index(layer):
                found.setdefault(name, set()).add(other)
    return found


def test_each_file_has_a_layer() -> None:
    assert {path.stem for path in FLOW.glob("*.py")} - {"__init__"} == LAYER_OF.keys()


def test_imports_against_the_order_only_become_fewer() -> None:
    expected = {name: set(others.split()) for name, others in EXCEPTIONS.items()}
    assert against_the_order() == expected


EXCEPTIONS = {
    "casting": "operators",
    "checkpoints": "choices",
    "containers": "aliases",
    "ddp": "outsiders",
    "extent": "machine",
    "frameworks": "backward choices",
    "gradients": "twins",
    "hooks": "calls",
    "loaders": "calls iteration operators",
    "machine": "imports placements recollection",
    "module_hooks": "calls",
    "modules": "arrivals calls coverage creation ddp optimizers storage surgery",
    "movables": "choices",
    "names": "imports",
    "operands": "cuts",
    "optimizers": "choices coverage creation cuts outsiders rumours ties twins",
    "packing": "choices",
    "registries": "checkpoints choices lengths processes ranks ties",
    "replicas": "attributes",
    "storage": "attributes",
    "surgery": "ties",
    "tensors": "aliases arrivals backward choices coverage creation cuts hooks replicas storage",
    "transfers": "hooks",
    "wrapper_fields": "attributes",
    "wrappers": "hooks rumours",
}
