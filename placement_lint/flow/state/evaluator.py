"""Interface of the interpreter for models: calls, and the values of expressions on demand."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import libcst as cst

    from placement_lint.flow.domain.arguments import Arguments
    from placement_lint.flow.domain.path_condition import Condition
    from placement_lint.flow.domain.values import Function, Value
    from placement_lint.flow.state.machine import Machine


class Evaluator(Protocol):
    def call(self, machine: Machine, callee: Value, arguments: Arguments, node: cst.Call) -> Value:
        """``callee(*arguments)``"""

    def call_function(
        self,
        machine: Machine,
        function: Function,
        arguments: Arguments,
        node: cst.CSTNode,
        receiver: Value | None = None,
    ) -> Value:
        """A function of the program with these arguments, as a method of its ``receiver`` if it has one."""

    def truth(
        self, machine: Machine, value: Value, node: cst.CSTNode, unknown: Callable[[], Condition] | None = None
    ) -> Condition:
        """The condition under which a value is true; for an unknown value it is ``unknown``, if given."""

    def element(self, machine: Machine, iterable: Value, node: cst.CSTNode, single: bool = False) -> Value:
        """The value that one step of ``for x in iterable`` yields; ``single`` if there is only one step."""
