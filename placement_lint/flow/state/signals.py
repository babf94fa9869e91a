"""Signals: the models send them to any observers, so that they need not know which there are.

Each machine has signals of its own. Observers connect to them before the program runs (``LISTENING`` in
``driver/analyse.py``, which also sets the order); a signal is sent within the alternatives that are being analysed,
so that what an observer notes there holds under their condition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    import libcst as cst

    from placement_lint.flow.domain.arguments import Arguments
    from placement_lint.flow.domain.values import Function, Object, Place, Symbol, Tensor, Value
    from placement_lint.flow.domain.values import Sequence as Items
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


class ModuleSignals:
    def __init__(self) -> None:
        self.built: Signal[Machine, Object] = Signal()
        # a module is called, from anywhere; one without DistributedDataParallel is called while another has it
        self.called: Signal[Machine, Object | Symbol, cst.Call] = Signal()
        self.called_beside_ddp: Signal[Machine, Object | Symbol, cst.Call] = Signal()
        # a module is about to be moved, is copied, or gets new Parameters under its names, in the given way
        self.moving: Signal[Machine, Object | Symbol, Place, Note] = Signal()
        self.copied: Signal[Machine, Object, Object, str, cst.CSTNode] = Signal()
        self.parameters_replaced: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        # … or under some of them; a layer takes the place of another
        self.parameters_renewed: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        self.layer_replaced: Signal[Machine, Object | Symbol, str, cst.CSTNode] = Signal()
        # a module gets a part; all its parameters are read; the program itself handles the weights with this id
        self.child_registered: Signal[Machine, Value] = Signal()
        self.parameters_asked_for: Signal[Machine, Object | Symbol] = Signal()
        self.weights_handled: Signal[Machine, int] = Signal()
        self.state_loaded: Signal[Machine, Object | Symbol] = Signal()
        # ``requires_grad`` of modules and Parameters, by their ids, is set to a value
        self.requires_grad_set: Signal[Machine, frozenset[int], Value, cst.CSTNode] = Signal()
        # a module is wrapped, by a wrapper of this name; a DataParallel over several GPUs is built; a wrapper is called
        self.wrapped: Signal[Machine, Object | Symbol, str, cst.Call] = Signal()
        self.data_parallel_built: Signal[Machine, Object | Symbol, cst.Call] = Signal()
        self.wrapper_called: Signal[Machine, Arguments, cst.Call] = Signal()


class TensorSignals:
    def __init__(self) -> None:
        # ``nn.Parameter(data)``; ``tensor.data``; ``tensor.data = …``
        self.parameter_made: Signal[Machine, Tensor, Value, cst.CSTNode] = Signal()
        self.data_read: Signal[Machine, Tensor, cst.CSTNode] = Signal()
        self.data_assigned: Signal[Machine, Tensor] = Signal()
        # a tensor is an operand of an operation; a tensor is changed in place, with these values
        self.used: Signal[Machine, Tensor, cst.CSTNode] = Signal()
        self.changed: Signal[Machine, Tensor, Sequence[Value]] = Signal()
        # … by ``target += value``; by a function of this name, as ``torch.nn.init.zeros_``
        self.updated: Signal[Machine, Value, Value, cst.AugAssign] = Signal()
        self.changed_by_function: Signal[Machine, Tensor, str, Arguments, cst.Call] = Signal()
        # values are used in an unknown operation
        self.lost: Signal[Machine, Sequence[Value]] = Signal()
        # ``receiver.name(…)`` for a tensor
        self.method_called: Signal[Machine, Tensor, str, cst.BaseExpression, Arguments, cst.Call] = Signal()


class TrainingSignals:
    def __init__(self) -> None:
        # a backward from a loss; one from an output of a DistributedDataParallel wrapper, with its position
        self.backward: Signal[Machine, Value, cst.CSTNode] = Signal()
        self.backward_through_ddp: Signal[Machine, Tensor, Object, Note] = Signal()
        self.loader_iterated: Signal[Machine, Object, cst.CSTNode] = Signal()
        self.gradients_clipped: Signal[Machine, Value, str, cst.CSTNode] = Signal()
        self.gradients_zeroed: Signal[Machine, Object] = Signal()
        # ``dist.all_reduce(t)``
        self.reduced_over_ranks: Signal[Machine, Arguments, cst.Call] = Signal()
        # an optimizer is built for these parameters; one is about to step; one steps, after a backward that reached
        # these parts
        self.optimizer_built: Signal[Machine, Value | None, cst.Call] = Signal()
        self.optimizer_stepping: Signal[Machine, Object, cst.CSTNode] = Signal()
        self.optimizer_stepped: Signal[Machine, Object, frozenset[int], Note] = Signal()


class ProgramSignals:
    def __init__(self) -> None:
        # ``owner.name = value`` for a module; a value that a forward leaves there
        self.attribute_bound: Signal[Machine, Object, str, Value, cst.CSTNode] = Signal()
        self.attribute_left: Signal[Machine, Object, str, Value, cst.CSTNode] = Signal()
        # ``owner[key] = value``, with the program's name for the owner if there is one; these items of a list are
        # replaced; a list or dict is changed by a method
        self.item_assigned: Signal[Machine, Value, Value, Value, cst.BaseExpression | None, cst.CSTNode] = Signal()
        self.items_replaced: Signal[Machine, Items] = Signal()
        self.container_changed: Signal[Machine, Object, str, Value | None, Sequence[Value], cst.CSTNode] = Signal()
        # a container of torch.nn gets a part; ``[item] * times``, with the last id before either was evaluated
        self.container_filled: Signal[Machine, Value] = Signal()
        self.sequence_repeated: Signal[Machine, cst.BinaryOperation, Value, Value, int] = Signal()
        # values are put into a list or dict; a value is stored in something that may outlive the running code
        self.values_collected: Signal[Machine, Sequence[Value]] = Signal()
        self.value_kept: Signal[Machine, Value] = Signal()
        # values go where they are not tracked any more; one is given to a call that cannot be analysed
        self.values_given_away: Signal[Machine, Sequence[Value], cst.CSTNode] = Signal()
        self.given_to_unknown: Signal[Machine, Value] = Signal()
        self.function_entered: Signal[Machine, Function] = Signal()
        # ``reveal_placement(value)``
        self.placement_revealed: Signal[Machine, Value, cst.Call] = Signal()


class Signals:
    def __init__(self) -> None:
        self.modules = ModuleSignals()
        self.tensors = TensorSignals()
        self.training = TrainingSignals()
        self.program = ProgramSignals()
