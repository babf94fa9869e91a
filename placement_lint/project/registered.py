"""Classes of a file that decorators register, by its text."""

from __future__ import annotations

import re

from placement_lint.project.unit import Unit

# A class at the top level with a decorator that registers it: ``@MODELS.register_module()``.
_REGISTERED = re.compile(
    r"^@(?:\w+\.)*(\w+)\.\w*register\w*(?:\([^()\n]*\))?[ \t]*(?:#.*)?\n(?:@.*\n)*class[ \t]+(\w+)", re.MULTILINE
)


def registered_in(unit: Unit) -> list[tuple[str, str]]:
    """The classes of a file with the names of the registries in their decorators: ``("MODELS", "Net")``."""
    return _REGISTERED.findall(unit.text)
