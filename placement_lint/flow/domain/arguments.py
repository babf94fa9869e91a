"""The arguments of a call, evaluated."""

from __future__ import annotations

from dataclasses import field

from placement_lint.flow.domain.record import record, replace
from placement_lint.flow.domain.values import Value


@record(frozen=True)
class Arguments:
    """``spread`` is set if the call has ``*args`` or ``**kwargs`` of unknown content."""

    positional: tuple[Value, ...] = ()
    keywords: dict[str, Value] = field(default_factory=dict)
    spread: bool = False

    def get(self, position: int, name: str = "") -> Value | None:
        """The argument at ``position`` or called ``name``."""
        if 0 <= position < len(self.positional):
            return self.positional[position]
        return self.keywords.get(name)

    def has(self, position: int, name: str) -> bool:
        return self.spread or self.get(position, name) is not None

    def keyword(self, name: str) -> Value | None:
        return self.keywords.get(name)

    def values(self) -> tuple[Value, ...]:
        return (*self.positional, *self.keywords.values())

    def with_receiver(self, receiver: Value) -> Arguments:
        return replace(self, positional=(receiver, *self.positional))
