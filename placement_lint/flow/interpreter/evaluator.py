"""The interpreter's implementation of the interface that models use."""

from __future__ import annotations

from placement_lint.flow.interpreter import calls, iteration, operators


class Interpreter:
    """Implements :class:`placement_lint.flow.state.evaluator.Evaluator`."""

    call = staticmethod(calls.call)
    call_function = staticmethod(calls.call_function)
    truth = staticmethod(operators.truth)
    element = staticmethod(iteration.element)
