"""Lines for replays: they make a silent fault raise, and repair programs whose finding has no fix."""

from __future__ import annotations

import libcst as cst

from placement_lint.flow.events.schema import DevicesMixed, Operand, OptimizerStale, TieBroken
from placement_lint.rewriting import argument_added, is_path, receiver
from placement_lint.rule import Line, Note, Replay
from placement_lint.source.wording import source_text

Replacements = tuple[tuple[cst.CSTNode, str], ...]
NOTHING: Replacements = ()


def claimed(node: cst.CSTNode, claim: str, otherwise: str, before: bool = False) -> Line:
    """A line that fails with the message ``otherwise`` unless the claim holds.

    In the claim ``{node}`` is the source of the node in the arm that runs, ``{target}`` the target of its statement.
    """
    return Line(node, f'assert {claim}, "{otherwise}"', before)


def remembered(node: cst.CSTNode, thing: str) -> tuple[Line, ...]:
    """Lines that store a value as ``watched[-1]`` for a later line."""
    return (Line(node, f"watched.append({thing})"),)


def beside(event: DevicesMixed) -> Replacements:
    """Move the stray operand to the device of the other operand, at the operation itself."""
    if event.stray.source == "the criterion's weight":
        return _criterion_moved(event)
    stray, home = _expression(event.stray), _expression(event.home)
    if stray is None or home is None:
        return NOTHING
    written = event.node.target if isinstance(event.node, cst.AugAssign) else None
    mover, moved, still = (event.home, home, event.stray) if written is stray else (event.stray, stray, event.home)
    device = f"home_of({source_text(still.source)})" if still.whole else f"{_text(still)}.device"
    if mover.inside or (mover.whole and not is_path(moved)):
        return NOTHING
    return ((moved, f"{_text(mover)}.to({device})"),)


def _criterion_moved(event: DevicesMixed) -> Replacements:
    criterion = event.node.func if isinstance(event.node, cst.Call) else None
    if criterion is None or not is_path(criterion) or _expression(event.home) is None or event.home.whole:
        return NOTHING
    return ((criterion, f"{source_text(criterion)}.to({_text(event.home)}.device)"),)


def _expression(operand: Operand) -> cst.BaseExpression | None:
    source = operand.source
    return source if isinstance(source, cst.BaseExpression) and not operand.inside else None


def _text(operand: Operand) -> str:
    source = operand.source
    simple = isinstance(source, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
    return source_text(source) if simple else f"({source_text(source)})"


def is_name(label: str) -> bool:
    """Whether a label can be read as an expression: ``model``, ``self.model``."""
    return all(part.isidentifier() for part in label.split("."))


def never_trained(event: OptimizerStale, new: str = "") -> Replay:
    """Check at a step that an optimizer has the values that replaced its parameters.

    ``new`` is the name of the replacement at the place of the event, if it differs from the event's.
    """
    assigned = isinstance(event.node, cst.Assign) or event.how in ("copied", "succeeded", "made in forward")
    new = new or ("{target}" if assigned else event.replaced)
    optimizer, step = stepping(event.stepped.node), event.stepped.node
    if not optimizer:
        return Replay()
    trained = f"not watched or trains({optimizer}, watched[-1])"
    return Replay(
        watch=(*remembered(event.node, new), claimed(step, trained, "the new parameters are never trained")),
        mended=(Line(step, f"watched and adopt({optimizer}, watched[-1])", before=True),),
    )


def still_tied(event: TieBroken) -> Replay | None:
    """Record two layers where they are tied, and check them when they are trained."""
    tied = event.tied
    target = tied.targets[0].target if isinstance(tied, cst.Assign) else None
    value = tied.value if isinstance(tied, cst.Assign) else None
    if not isinstance(target, cst.Attribute) or not isinstance(value, cst.Attribute):
        return None
    one, other = f"watched[-1][0].{target.attr.value}", f"watched[-1][1].{value.attr.value}"
    layers = f"({source_text(target.value)}, {source_text(value.value)})"
    together = f"not watched or {one} is {other}"
    return Replay(
        watch=(
            *remembered(tied, layers),
            claimed(event.stepped.node, together, "what was tied is two Parameters"),
        ),
        mended=(Line(event.node, f"{one} = {other}"),),
    )


def callee(call: cst.CSTNode) -> str:
    """The called expression of a call; empty for other nodes."""
    return source_text(call.func) if isinstance(call, cst.Call) else ""


def first_argument(call: cst.CSTNode) -> cst.CSTNode | None:
    return call.args[0].value if isinstance(call, cst.Call) and call.args else None


def named_argument(call: cst.CSTNode) -> str:
    """The first argument of a call, if it is a name or an attribute."""
    given = first_argument(call)
    return source_text(given) if given is not None and is_path(given) else ""


def stepping(call: cst.CSTNode) -> str:
    """The optimizer of ``optimizer.step()`` or ``scaler.step(optimizer)``."""
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return ""
    receiver = source_text(call.func.value)
    return source_text(call.args[0].value) if call.args and "scaler" in receiver else receiver


def given_keyword(call: cst.CSTNode, name: str, text: str) -> Replacements:
    """``f(x)`` and ``f(x, name=y)`` become ``f(x, name=text)``."""
    given = next((arg for arg in _arguments(call) if arg.keyword is not None and arg.keyword.value == name), None)
    return ((given, f"{name}={text}"),) if given is not None else argument_added(call, f"{name}={text}")


def without_keywords(call: cst.CSTNode, *names: str) -> Replacements:
    """``f(x, y, name=z)`` becomes ``f(x)``: only the first argument and other keywords remain."""
    if not isinstance(call, cst.Call) or not call.args:
        return NOTHING
    first, *rest = call.args
    others = [
        f"{arg.keyword.value}={source_text(arg.value)}"
        for arg in rest
        if arg.keyword and arg.keyword.value not in names
    ]
    return ((call, f"{callee(call)}({', '.join([source_text(first.value), *others])})"),)


def _arguments(call: cst.CSTNode) -> tuple[cst.Arg, ...]:
    return tuple(call.args) if isinstance(call, cst.Call) else ()


def arguments_text(call: cst.CSTNode) -> str:
    """The text between the parentheses of a call."""
    return ", ".join(source_text(arg.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for arg in _arguments(call))


LOCAL_RANK = 'int(__import__("os").environ["LOCAL_RANK"])'


def like_its_module(call: cst.CSTNode) -> tuple[Line, ...]:
    """A line that fails unless the call of a DataParallel wrapper returns the same as its module by itself."""
    if not callee(call) or any(arg.star for arg in _arguments(call)):
        return ()
    same = f"as_bare({callee(call)}, {arguments_text(call)})"
    return (claimed(call, same, "it is not what the module gives by itself", before=True),)


def argument_as(call: cst.CSTNode, form: str) -> Replacements:
    """``f(x, y)`` becomes ``f(form of x, y)``."""
    given = first_argument(call)
    return ((given, form.format(source_text(given))),) if given is not None else NOTHING


def call_as(call: cst.CSTNode, form: str) -> Replacements:
    """``f(x, y)`` becomes a form of ``x``."""
    given = first_argument(call)
    return ((call, form.format(source_text(given))),) if given is not None else NOTHING


def wrapped_module(call: cst.CSTNode) -> str:
    """The argument of a wrapping call if it has a name; else the target of the call's statement."""
    return named_argument(call) or "{target}"


def unfrozen(node: cst.CSTNode) -> str:
    """``p`` of ``p.requires_grad = True`` and ``p.requires_grad_()``."""
    return source_text(receiver(node.targets[0].target if isinstance(node, cst.Assign) else node))


def asks_for_difference(comparison: cst.CSTNode) -> bool:
    operator = comparison.comparisons[0].operator if isinstance(comparison, cst.Comparison) else None
    return isinstance(operator, (cst.NotEqual, cst.IsNot))


def trained_in_the_end(stepped: Note, missed: tuple[Line, ...]) -> Replay:
    """Check at a step that the optimizer has the parameters that earlier lines recorded as missed."""
    optimizer, step = stepping(stepped.node), stepped.node
    if not optimizer:
        return Replay()
    held = f"all(trains({optimizer}, one) for one in watched)"
    return Replay(
        watch=(*missed, claimed(step, held, "some parameters are never trained")),
        mended=(Line(step, f"[adopt({optimizer}, one) for one in watched]", before=True),),
    )


def moved_before(called: Note, device: str) -> tuple[Line, ...]:
    """A line that moves the model to the device before it is called."""
    model = callee(called.node)
    return (Line(called.node, f"{model}.to({device})", before=True),) if is_name(model) else ()


def arguments_moved(call: cst.CSTNode) -> Replacements:
    """Move all arguments of a module's call to the module's device."""
    arguments = _arguments(call)
    if not callee(call) or any(arg.star for arg in arguments):
        return NOTHING
    home = f"home_of({callee(call)})"
    given = "".join(f"{source_text(arg.value)}, " for arg in arguments if arg.keyword is None)
    named = ", ".join(f"{arg.keyword.value}={source_text(arg.value)}" for arg in arguments if arg.keyword is not None)
    parts = [
        *([f"*moved(({given}), {home})"] if given else []),
        *([f"**moved(dict({named}), {home})"] if named else []),
    ]
    return ((call, f"{callee(call)}({', '.join(parts)})"),)
