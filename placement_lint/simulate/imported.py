"""Names that modules imported before the simulation: ``from torch import zeros`` holds PyTorch's own function.

What the other parts replaced in PyTorch's modules is replaced in the modules that imported it by name, too.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .patches import Patches

# PyTorch's own modules mean the originals, except those that are programs on top of it.
_OWN = ("torch", __package__)
_ON_TOP = ("torch.distributed", "torch.utils.data", "torch.nn.utils")

# By module: how many names it had, and those of them that held a replaceable object.
_seen: dict[str, tuple[ModuleType, int, list[tuple[str, Any]]]] = {}
_replaceable: set[int] = set()


def install(patches: Patches) -> None:
    replacements = {id(before): after for before, after in patches.replaced_in(ModuleType) if callable(before)}
    if not replacements.keys() <= _replaceable:
        _replaceable.update(replacements)
        _seen.clear()
    for module in _modules():
        for name, value in _candidates(module):
            after = replacements.get(id(value))
            if after is not None and vars(module).get(name) is value and after is not value:
                patches.set(module, name, after)


def _modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if type(module) is ModuleType and (not _is_in(name, _OWN) or _is_in(name, _ON_TOP)):
            yield module


def _is_in(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _candidates(module: ModuleType) -> list[tuple[str, Any]]:
    """A module is searched once, and again when it has other names."""
    name, names = module.__name__, vars(module)
    known = _seen.get(name)
    if known is None or known[0] is not module or known[1] != len(names):
        found = [(key, value) for key, value in list(names.items()) if id(value) in _replaceable]
        known = _seen[name] = (module, len(names), found)
    return known[2]
