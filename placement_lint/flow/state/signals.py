"""Signals: what the models tell whoever listens, so that they need not know who does.

Each machine has signals of its own. Observers connect to them before the program runs (``OBSERVERS`` in
``driver/analyse.py``, in whose order they are told); a signal is given within the alternatives that are being looked
at, so that what an observer notes there holds under their condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import libcst as cst

    from placement_lint.flow.domain.arguments import Arguments
    from placement_lint.flow.domain.values import Object, Place, Symbol, Tensor, Value
    from placement_lint.flow.state.machine import Machine
    from placement_lint.rule import Note

P = ParamSpec("P")


class Signal(Generic[P]):
    """Functions that are called one after another."""

    def __init__(self) -> None:
        self._listeners: list[Callable[P, None]] = []

    def connect(self, listener: Callable[P, None]) -> None:
        self._listeners.append(listener)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> None:
        for listener in self._listeners:
            listener(*args, **kwargs)


class Signals:
    def __init__(self) -> None:
        # a module is built; ``nn.Parameter(data)``
        self.module_built: Signal[Machine, Object] = Signal()
        self.parameter_made: Signal[Machine, Tensor, Value, cst.CSTNode] = Signal()
        # a module is about to be moved, is copied, or gets new Parameters under its names, by the way that is told
        self.module_moving: Signal[Machine, Object | Symbol, Place, Note] = Signal()
        self.module_copied: Signal[Machine, Object, Object, str, cst.CSTNode] = Signal()
        self.parameters_replaced: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        # ... or to some of them; a layer takes the place of another
        self.parameters_renewed: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        self.layer_replaced: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        # ``requires_grad`` of modules and Parameters, by their ids, is set to a value
        self.requires_grad_set: Signal[Machine, frozenset[int], Value, cst.CSTNode] = Signal()
        # a module is wrapped, by a wrapper of this name; a DataParallel is called; one over several
        # GPUs is built
        self.module_wrapped: Signal[Machine, Object | Symbol, str, cst.Call] = Signal()
        self.wrapper_called: Signal[Machine, Arguments, cst.Call] = Signal()
        self.data_parallel_built: Signal[Machine, Object | Symbol, cst.Call] = Signal()
        # a module that is in no DistributedDataParallel is called while there is one
        self.called_beside_ddp: Signal[Machine, Object | Symbol, cst.Call] = Signal()
        # a tensor takes part in an operation; one is changed in place, by these values
        self.tensor_used: Signal[Machine, Tensor, cst.CSTNode] = Signal()
        self.tensor_changed: Signal[Machine, Tensor, Sequence[Value]] = Signal()
        # values take part in something of which no more is known
        self.values_lost: Signal[Machine, Sequence[Value]] = Signal()
        # values go where it is not seen what becomes of them
        self.values_given_away: Signal[Machine, Iterable[Value], cst.CSTNode] = Signal()
        # ``receiver.name(…)`` of a tensor
        self.method_called: Signal[Machine, Tensor, str, cst.BaseExpression, Arguments, cst.Call] = Signal()
        # a backward from a loss; one from what came through a wrapper of DistributedDataParallel, with where it is
        self.backward: Signal[Machine, Value, cst.CSTNode] = Signal()
        self.backward_through_ddp: Signal[Machine, Tensor, Object, Note] = Signal()
        self.gradients_clipped: Signal[Machine, Value, str, cst.CSTNode] = Signal()
        self.gradients_zeroed: Signal[Machine, Object] = Signal()
        # an optimizer is built for these parameters; one is about to step; one steps, after a backward that reached
        # these parts
        self.optimizer_built: Signal[Machine, Value | None, cst.Call] = Signal()
        self.optimizer_stepping: Signal[Machine, Object, cst.CSTNode] = Signal()
        self.optimizer_stepped: Signal[Machine, Object, frozenset[int], Note] = Signal()
