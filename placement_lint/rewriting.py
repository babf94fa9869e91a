"""The texts of rewrites: small edits that leave the code around them unchanged, including comments.

Each function returns the replacements of a rewrite, or none if the source has a form that it cannot rewrite. A node's
position does not include the parentheses around it; its text here does.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from placement_lint.finding import Applicability
from placement_lint.rule import Rewrite
from placement_lint.source.wording import argument_text, is_parenthesised, source_text

Replacements = tuple[tuple[cst.CSTNode, str], ...]
NOTHING: Replacements = ()


def safe(message: str, replacements: Replacements) -> Rewrite | None:
    """A rewrite that keeps working code working, if there is anything to replace."""
    return Rewrite(Applicability.SAFE, message, replacements) if replacements else None


def unsafe(message: str, replacements: Replacements) -> Rewrite | None:
    """A rewrite to be reviewed, if there is anything to replace."""
    return Rewrite(Applicability.UNSAFE, message, replacements) if replacements else None


# --- expressions ---------------------------------------------------------------------------------------------


def receiver(node: cst.CSTNode) -> cst.CSTNode:
    """``x`` of ``x.name``, ``x.name()`` and ``x[…]``; for anything else the node itself."""
    if isinstance(node, cst.Call):
        return receiver(node.func)
    return node.value if isinstance(node, (cst.Attribute, cst.Subscript)) else node


def is_path(node: cst.CSTNode) -> bool:
    """Whether it is a name or an attribute reached from one: two reads give the same value."""
    return isinstance(node, cst.Name) or (isinstance(node, cst.Attribute) and is_path(node.value))


def appended(node: str | cst.CSTNode, suffix: str) -> Replacements:
    """``x`` becomes ``x.suffix``."""
    return ((node, f"{_primary(node)}.{suffix}"),) if isinstance(node, cst.BaseExpression) else NOTHING


def module_of(node: cst.CSTNode, always: bool) -> Replacements:
    """``x`` becomes ``x.module``; if it may be unwrapped, ``getattr(x, "module", x)``."""
    return appended(node, "module") if always else module_or_itself(node, node)


def module_of_target(statement: cst.CSTNode, always: bool) -> Replacements:
    """``x.name = value`` becomes ``x.module.name = value``, or ``getattr(x, "module", x).name = value``."""
    target, _ = _assignment(statement)
    return module_of(target.value, always) if target is not None else NOTHING


def module_or_itself(node: cst.CSTNode, model: cst.CSTNode) -> Replacements:
    """A node becomes ``getattr(model, "module", model)``."""
    text = source_text(model)
    return ((node, f'getattr({text}, "module", {text})'),) if is_path(model) else NOTHING


def moved_operand(operation: cst.CSTNode, operand: str | cst.CSTNode, device: str) -> Replacements:
    """``y`` becomes ``y.to(device)``, unless the operation writes to it."""
    written = operation.target if isinstance(operation, cst.AugAssign) else receiver(operation)
    in_place = isinstance(operation, cst.AugAssign) or source_text(operation).partition("(")[0].endswith("_")
    if not device or (in_place and written is operand):
        return NOTHING
    return appended(operand, f"to({device})")


def renamed(call: cst.CSTNode, name: str) -> Replacements:
    """``x.old()`` becomes ``x.name()``."""
    if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
        return ((call.func.attr, name),)
    return NOTHING


def is_call_of(node: cst.CSTNode, method: str) -> bool:
    """Whether it is ``x.method(…)``."""
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == method


def called_instead(call: cst.CSTNode, name: str) -> Replacements:
    """``x.old(…)`` becomes ``x.name()``."""
    return ((call, f"{_primary(receiver(call))}.{name}()"),) if isinstance(call, cst.Call) else NOTHING


def read_instead(node: cst.CSTNode, name: str) -> Replacements:
    """``x.old`` becomes ``x.name``."""
    return ((node.attr, name),) if isinstance(node, cst.Attribute) else NOTHING


def callee_replaced(call: cst.CSTNode, name: str) -> Replacements:
    """``f(…)`` becomes ``name(…)``; nothing without a name."""
    return ((call.func, name),) if isinstance(call, cst.Call) and name else NOTHING


def called_with(call: cst.CSTNode, name: str, keyword: str) -> Replacements:
    """``f(x)`` becomes ``name(x, keyword)``; nothing if there are other arguments."""
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].star:
        return NOTHING
    return ((call.func, name), (call.args[0], f"{argument_text(call.args[0])}, {keyword}"))


def replaced_by(node: cst.CSTNode, text: str) -> Replacements:
    """An expression becomes another one."""
    return ((node, text),) if isinstance(node, cst.BaseExpression) else NOTHING


def _primary(node: cst.CSTNode) -> str:
    """The text of an expression whose attributes can be read."""
    simple = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or is_parenthesised(node)
    return source_text(node) if simple else f"({source_text(node)})"


def listed(maker: cst.CSTNode) -> Replacements:
    """A call that makes a generator becomes ``list(call)``."""
    return ((maker, f"list({source_text(maker)})"),) if isinstance(maker, cst.Call) else NOTHING


# --- arguments -----------------------------------------------------------------------------------------------

# Functions that take ``device=``; other functions that make a tensor are followed by a move.
_TAKES_DEVICE = {
    "zeros", "ones", "empty", "rand", "randn", "full", "randint", "arange", "range", "linspace", "logspace", "eye",
    "tensor", "as_tensor", "randperm", "tril_indices", "triu_indices",
}  # fmt: skip


# Keyword arguments that name the device of a tensor.
_NAMING_DEVICE = {"device", "map_location"}


def on_device(call: cst.CSTNode, device: str) -> Replacements:
    """Let a call that moves or makes a tensor use ``device``, instead of the device that it names, if any."""
    if not isinstance(call, cst.Call) or not device:
        return NOTHING
    named = next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value in _NAMING_DEVICE), None)
    if named is not None and named.keyword is not None:
        return ((named, f"{named.keyword.value}={device}"),)
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else source_text(call.func)
    if method in ("to", "cuda"):
        # A tensor on an input's device is not moved there: to omit the move is not an edit of its arguments.
        return _moved_to(call, device) if device != f"{source_text(receiver(call))}.device" else NOTHING
    if method not in _TAKES_DEVICE:
        return appended(call, f"to({device})")
    return argument_added(call, f"device={device}")


def argument_added(call: cst.CSTNode, argument: str) -> Replacements:
    """``f(x)`` becomes ``f(x, argument)``."""
    if not isinstance(call, cst.Call) or not call.args or isinstance(call.args[-1].value, cst.GeneratorExp):
        return NOTHING
    return ((call.args[-1], f"{argument_text(call.args[-1])}, {argument}"),)


def without_argument(call: cst.CSTNode, name: str) -> Replacements:
    """``f(x, name=y)`` becomes ``f(x)``, if that is the last argument."""
    last = call.args[-1] if isinstance(call, cst.Call) and len(call.args) > 1 else None
    if not isinstance(call, cst.Call) or last is None or last.keyword is None or last.keyword.value != name:
        return NOTHING
    arguments = ", ".join(map(argument_text, call.args[:-1]))
    return ((call, f"{source_text(call.func)}({arguments})"),)


def first_argument(call: cst.CSTNode, text: str) -> Replacements:
    """``f(x)`` becomes ``f(text)``, if ``x`` is a name or an attribute."""
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].keyword is not None:
        return NOTHING
    return ((call.args[0].value, text),) if is_path(call.args[0].value) else NOTHING


def operand_itself(node: cst.CSTNode) -> Replacements:
    """``f(x, y)``, ``x.name()`` and ``x.name`` become ``x``."""
    operand = node.args[0].value if isinstance(node, cst.Call) and node.args else receiver(node)
    return ((node, source_text(operand)),)


def each_made_anew(node: cst.CSTNode, items: cst.List | cst.Tuple, times: cst.BaseExpression) -> Replacements:
    """``[f()] * n`` becomes ``[f() for _ in range(n)]``."""
    if any(isinstance(one, cst.StarredElement) for one in items.elements):
        return NOTHING
    made = [source_text(one.value) for one in items.elements]
    rounds = f"for _ in range({bare_text(times)})"
    each = f"{made[0]} {rounds}" if len(made) == 1 else f"item {rounds} for item in ({', '.join(made)})"
    return ((node, f"[{each}]" if isinstance(items, cst.List) else f"tuple({each})"),)


def bare_text(node: cst.BaseExpression) -> str:
    """A text without its own parentheses."""
    text = source_text(node)
    return text[1:-1] if is_parenthesised(node) else text


def by_keyword(call: cst.CSTNode, names: Sequence[str]) -> Replacements:
    """``f(x, flag=y)`` becomes ``f(name=x, flag=y)``, with a name for each positional argument."""
    if not isinstance(call, cst.Call) or any(arg.star for arg in call.args):
        return NOTHING
    given = [arg for arg in call.args if arg.keyword is None]
    return tuple((arg, f"{name}={argument_text(arg)}") for arg, name in zip(given, names, strict=True))


def argument_copied(call: cst.CSTNode) -> Replacements:
    """``f(x)`` becomes ``f(x.clone())``."""
    return appended(call.args[0].value, "clone()") if isinstance(call, cst.Call) and call.args else NOTHING


def made_there(move: cst.CSTNode) -> Replacements:
    """``torch.zeros(3).to(device)`` becomes ``torch.zeros(3, device=device)``."""
    made = move.func.value if isinstance(move, cst.Call) and isinstance(move.func, cst.Attribute) else None
    if not isinstance(move, cst.Call) or not isinstance(made, cst.Call) or not made.args:
        return NOTHING
    takes_device = isinstance(made.func, cst.Attribute) and made.func.attr.value in _TAKES_DEVICE
    if not takes_device or len(move.args) > 1 or any(arg.keyword is not None or arg.star for arg in move.args):
        return NOTHING
    device = source_text(move.args[0].value) if move.args else '"cuda"'
    arguments = ", ".join([*map(argument_text, made.args), f"device={device}"])
    return ((move, f"{source_text(made.func)}({arguments})"),)


def type_of_device(tested: cst.CSTNode, other: cst.CSTNode) -> Replacements:
    """``x.device == torch.device("cuda")`` becomes ``x.device.type == "cuda"``."""
    named = other.args[0].value if isinstance(other, cst.Call) and len(other.args) == 1 else other
    if not isinstance(named, cst.SimpleString) or ":" in source_text(named):
        return NOTHING
    return (*appended(tested, "type"), (other, source_text(named)))


def _moved_to(call: cst.Call, device: str) -> Replacements:
    """``x.cuda()`` and ``x.to("cuda:0")`` become ``x.to(device)``."""
    if not call.args:
        return ((call, f"{_primary(receiver(call))}.to({device})"),)
    first = call.args[0]
    if first.star:
        return NOTHING
    if first.keyword is not None:  # x.cuda(non_blocking=True)
        names_none = isinstance(call.func, cst.Attribute) and call.func.attr.value == "cuda"
        return (*renamed(call, "to"), (first, f"{device}, {argument_text(first)}")) if names_none else NOTHING
    return (*renamed(call, "to"), (first, device))


# --- statements ----------------------------------------------------------------------------------------------


def assigned_to_itself(call: cst.CSTNode) -> Replacements:
    """The statement ``x.to(d)`` becomes ``x = x.to(d)``."""
    target = receiver(call)
    if is_parenthesised(target) or is_parenthesised(call):
        return NOTHING
    return ((target, f"{source_text(target)} = {source_text(target)}"),)


def renamed_attribute(statement: cst.CSTNode, name: str) -> Replacements:
    """``x.old = value`` becomes ``x.name = value``."""
    target, _ = _assignment(statement)
    return ((target.attr, name),) if target is not None else NOTHING


def called_with_value(statement: cst.CSTNode, method: str) -> Replacements:
    """``x.name = value`` becomes ``x.method(value)``."""
    target, value = _assignment(statement)
    if target is None or value is None:
        return NOTHING
    return ((statement, f"{_primary(target.value)}.{method}({source_text(value)})"),)


def registered_as_buffer(statement: cst.CSTNode) -> Replacements:
    """``self.x = value`` becomes ``self.register_buffer("x", value, persistent=False)``."""
    target, value = _assignment(statement)
    if target is None or value is None:
        return NOTHING
    arguments = f'"{target.attr.value}", {source_text(value)}, persistent=False'
    return ((statement, f"{_primary(target.value)}.register_buffer({arguments})"),)


def made_parameter(statement: cst.CSTNode) -> Replacements:
    """``x.name = value`` becomes ``x.name = torch.nn.Parameter(value)``."""
    target, value = _assignment(statement)
    return (
        ((value, f"torch.nn.Parameter({source_text(value)})"),) if target is not None and value is not None else NOTHING
    )


def wrapped_in(statement: cst.CSTNode, container: str) -> Replacements:
    """``self.x = [...]`` becomes ``self.x = container([...])``."""
    target, value = _assignment(statement)
    if target is None or value is None or not container:
        return NOTHING
    text = "" if source_text(value) in ("[]", "{}") else source_text(value)
    if is_parenthesised(value):
        return ((statement, f"{source_text(target)} = {container}({text})"),)
    return ((value, f"{container}({text})"),)


# A Parameter that requires gradients has a floating type.
_WHOLE_NUMBERS = re.compile(r"int|long|short|bool")
_CONVERSIONS = {"to", "cuda", "cpu", "float", "double", "half", "bfloat16"}


def converted_inside(statement: cst.CSTNode, conversion: cst.CSTNode, made: cst.CSTNode | None) -> Replacements:
    """``x = Parameter(t).to(d)`` becomes ``x = Parameter(t.to(d))``; ``made`` is the call of Parameter."""
    _, value = _assignment(statement)
    if value is not conversion or not isinstance(conversion, cst.Call) or not isinstance(made, cst.Call):
        return NOTHING
    method, data = conversion.func, made.args[0] if made.args else None
    if not isinstance(method, cst.Attribute) or method.value is not made or data is None or data.star:
        return NOTHING
    if method.attr.value not in _CONVERSIONS or _WHOLE_NUMBERS.search(_arguments_text(conversion.args)):
        return NOTHING
    if data.keyword is not None and data.keyword.value != "data":
        return NOTHING
    inside = f"{_primary(data.value)}.{method.attr.value}({', '.join(map(argument_text, conversion.args))})"
    keyword = "data=" if data.keyword is not None else ""
    arguments = ", ".join((f"{keyword}{inside}", *map(argument_text, made.args[1:])))
    return ((conversion, f"{source_text(made.func)}({arguments})"),)


def _arguments_text(arguments: Sequence[cst.Arg]) -> str:
    return " ".join(map(argument_text, arguments))


def moved_below(statements: Sequence[cst.CSTNode], name: str) -> Replacements:
    """Move the first of consecutive statements below the last, unless one of them mentions ``name``."""
    texts = [source_text(statement) for statement in statements]
    if len(texts) < 2 or any(re.search(rf"\b{re.escape(name)}\b", text) for text in texts[1:]):
        return NOTHING
    return tuple(zip(statements, (*texts[1:], texts[0]), strict=True))


def _assignment(statement: cst.CSTNode) -> tuple[cst.Attribute | None, cst.BaseExpression | None]:
    """The target and the value of ``owner.name = value``."""
    if isinstance(statement, cst.Assign) and len(statement.targets) == 1:
        target = statement.targets[0].target
        if isinstance(target, cst.Attribute) and isinstance(statement.value, cst.BaseExpression):
            return target, statement.value
    return None, None
