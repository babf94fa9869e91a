"""Escape analysis of the tensors that a method makes on the CPU: whether one can meet a tensor that is elsewhere.

A tensor cannot if only its size or its items are read, if it moves at once, is an index, or goes into something that
is moved along. It is followed from the call that makes it outwards, and on through the variables to which it is
assigned, by the syntax alone: any use that is not known to be harmless counts as a meeting.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from placement_lint.flow.api.torch_names import CUDA_CONSTRUCTORS, FACTORIES

if TYPE_CHECKING:
    from placement_lint.flow.triage.definition_facts import Facts

MAKERS = {name.rpartition(".")[2] for name in (*FACTORIES, *CUDA_CONSTRUCTORS)}
_OF_SIZES = {"zeros", "ones", "empty", "rand", "randn"}
_OTHER_LIBRARIES = {"np", "numpy", "tf", "jnp", "random", "mx", "math"}
# x.shape, x.size(), x.tolist(): queries of a tensor that return no tensor, or methods that run on its own device
_ASKED = {
    *("shape", "dtype", "ndim", "requires_grad", "is_cuda"),
    *("size", "dim", "numel", "item", "tolist", "numpy", "type_as", "cuda", "stride", "nelement", "is_contiguous"),
}
# x.view(…), x.long(), x.device: parts of it, or tensors on the same device, which take no tensor; and methods that
# may take one
_RESHAPING = {
    *("view", "reshape", "expand", "repeat", "unsqueeze", "squeeze", "transpose", "permute", "flatten", "contiguous"),
    *("clone", "detach", "t", "T", "mT", "data", "unbind", "tile", "roll", "flip", "triu", "tril", "split", "chunk"),
    *(
        "float",
        "double",
        "half",
        "bfloat16",
        "int",
        "long",
        "short",
        "bool",
        "byte",
        "char",
        "abs",
        "exp",
        "log",
        "neg",
    ),
    *("sqrt", "sin", "cos", "sum", "mean", "prod", "cumsum", "cumprod", "any", "all", "sort", "argsort", "zero_"),
    *("normal_", "uniform_", "random_", "requires_grad_", "device"),
}
_COMPUTING = {
    *("to", "type", "max", "min", "pow", "clamp", "fill_", "masked_fill", "masked_fill_", "eq", "repeat_interleave"),
}
# weight.copy_(…), len(…): calls that accept a tensor on any device; and calls whose argument then moves with the module
_TAKING = {"copy_", "len", "int", "float", "isinstance", "print", "type", "autocast"}
_REGISTERING = {"register_buffer", "Parameter", "Buffer"}


def may_meet(facts: Facts, *, in_init: bool, is_given: bool) -> bool:
    """Whether a tensor that these statements make on the CPU may meet others; see :meth:`Facts.escapes`."""
    return not facts.is_readable or _Escape(facts, in_init, is_given).lets_meet


def sources(facts: Facts) -> Iterator[ast.AST]:
    """The calls that make tensors on the CPU, or bring them there, and the strings that may do so elsewhere."""
    yield from made(facts)
    yield from (call for call in facts.method_calls("cpu") if not call.args)
    yield from facts.calls("Generator")
    yield from (text for text in facts.texts_taken if _is_text(text))


def made(facts: Facts) -> Iterator[ast.Call]:
    """The calls that make a tensor that neither gets a ``device`` argument nor is registered at once."""
    for call in facts.calls(*MAKERS & facts.called):
        owner, name = _named(call.func)
        told = any(each.arg in ("device", None) for each in call.keywords)
        makes = owner not in _OTHER_LIBRARIES and (name != "range" or owner == "torch")
        if makes and not (
            told or _is_registered(facts, call) or _stays_number(facts, call) or _gives_items(facts, call)
        ):
            yield call


def _is_registered(facts: Facts, call: ast.Call) -> bool:
    """Whether it is inside the arguments of a call that registers it: ``nn.Parameter(torch.zeros(3) / 2)``"""
    node: ast.AST = call
    while isinstance(node, (ast.expr, ast.keyword)):
        node = facts.parents[node]
        if isinstance(node, ast.Call) and node is not call:
            return _named(node.func)[1] in _REGISTERING
    return False


def _stays_number(facts: Facts, call: ast.Call) -> bool:
    """Whether it makes a tensor without dimensions, from which nothing is derived at once."""
    around = facts.parents[call]
    goes_on = isinstance(around, (ast.Attribute, ast.Subscript)) and getattr(around, "attr", "") != "to"
    return _is_number(call) and not goes_on and not any(facts.calls("stack", "cat"))


def _gives_items(facts: Facts, call: ast.Call) -> bool:
    """Whether it is taken apart into numbers: ``[x.item() for x in torch.linspace(0, rate, depth)]``"""
    node: ast.AST | None = call
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = facts.parents.get(node)
    each = getattr(facts.parents.get(node), "elt", None) if isinstance(node, ast.comprehension) else None
    return isinstance(each, ast.Call) and _named(each.func)[1] in ("item", "tolist")


class _Escape:
    def __init__(self, facts: Facts, in_init: bool, is_given: bool) -> None:
        self.facts, self.in_init, self.is_given = facts, in_init, is_given
        self.parents = facts.parents
        self.mentions = defaultdict[str, list[ast.Name]](list)
        for name in facts.all(ast.Name):
            self.mentions[name.id].append(name)
        self._followed: set[str] = set()

    @property
    def lets_meet(self) -> bool:
        return any(map(self._meets, sources(self.facts)))

    def _meets(self, node: ast.AST) -> bool:
        """Whether a value may meet others, given the expressions and the statement around it."""
        while True:
            parent = self.parents[node]
            outer = self._outer(node, parent)
            if isinstance(outer, bool):
                return outer
            node = outer

    def _outer(self, node: ast.AST, parent: ast.AST) -> ast.AST | bool:
        """The enclosing expression, if it is the same tensor or made from it; else whether the tensor meets another."""
        if isinstance(parent, ast.Attribute):
            return self._of_attribute(parent)
        if isinstance(parent, ast.Subscript):
            known = self.in_init or _is_plain(parent.slice)
            return node is not parent.slice and (parent if known else True)
        if isinstance(parent, ast.keyword):
            return self._of_argument(node, self.parents[parent])
        if isinstance(parent, ast.Call):
            return self._of_argument(node, parent)
        if isinstance(parent, ast.IfExp):
            return node is not parent.test and parent
        if isinstance(parent, (ast.Tuple, ast.List)):
            return self._of_items(node, parent)
        if isinstance(parent, (ast.Starred, ast.UnaryOp, ast.BoolOp, ast.ListComp, ast.GeneratorExp)):
            return parent
        if isinstance(parent, (ast.BinOp, ast.Compare)):
            return self._of_operation(node, parent)
        return self._of_statement(node, parent)

    def _of_attribute(self, parent: ast.Attribute) -> ast.AST | bool:
        call = self.parents[parent]
        if parent.attr in _ASKED or (parent.attr == "to" and isinstance(call, ast.Call) and _tells_device(call)):
            return False
        if not (isinstance(call, ast.Call) and call.func is parent):
            return parent if parent.attr in _RESHAPING else True
        computed = parent.attr in _COMPUTING and all(map(_is_plain, _arguments(call)))
        return call if self.in_init or parent.attr in _RESHAPING or computed else True

    def _of_items(self, node: ast.AST, parent: ast.Tuple | ast.List) -> ast.AST | bool:
        around = self.parents[parent]
        if isinstance(around, ast.Subscript):
            return parent
        alone = all(_is_plain(each) for each in parent.elts if each is not node)
        return parent if self.in_init or alone or isinstance(around, ast.Return) else True

    def _of_argument(self, node: ast.AST, call: ast.AST) -> ast.AST | bool:
        if not isinstance(call, ast.Call):
            return True
        owner, name = _named(call.func)
        if name in _TAKING or owner == "init" or (self.in_init and name in _REGISTERING):
            return False
        if name == "to" and _is_text(node):
            return call
        others = [each for each in _arguments(call) if each is not node]
        if owner in ("torch", "F", "functional", "math") and name != "load":
            return call if self.in_init or all(map(_is_plain, others)) else True
        return not (self.in_init and owner == "nn")

    def _of_operation(self, node: ast.AST, parent: ast.BinOp | ast.Compare) -> ast.AST | bool:
        if _is_text(node):
            return False
        others = [parent.left, parent.right] if isinstance(parent, ast.BinOp) else [parent.left, *parent.comparators]
        return parent if self.in_init or all(_is_plain(each) for each in others if each is not node) else True

    def _of_statement(self, node: ast.AST, parent: ast.AST) -> bool:
        if isinstance(parent, (ast.Assign, ast.AnnAssign)):
            targets = parent.targets if isinstance(parent, ast.Assign) else [parent.target]
            return node is parent.value and any(map(self._is_met_at, targets))
        if isinstance(parent, ast.AugAssign):
            return not self.in_init or self._is_met_at(parent.target)
        if isinstance(parent, (ast.For, ast.comprehension)):
            return node is parent.iter and self._is_met_at(parent.target)
        if isinstance(parent, ast.Return):
            return self.is_given or self._is_inside(parent)
        if isinstance(parent, ast.arguments):
            return self.is_given or not _is_text(node) or self._is_inside(parent)
        if isinstance(parent, ast.Expr):
            return isinstance(node, ast.Call) and _named(node.func)[1] == "cpu"
        return not isinstance(parent, (ast.If, ast.While, ast.Assert, ast.FormattedValue))

    def _is_inside(self, node: ast.AST) -> bool:
        """Whether it is in a function within the method."""
        functions = 0
        while node in self.parents:
            node = self.parents[node]
            functions += isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        return functions > 1

    def _is_met_at(self, target: ast.expr) -> bool:
        """Whether the value that is assigned there may meet others later on."""
        if isinstance(target, (ast.Tuple, ast.List)):
            return any(map(self._is_met_at, target.elts))
        if isinstance(target, ast.Subscript):
            return self._is_met_at(target.value)
        if isinstance(target, ast.Attribute):
            return target.attr != "data"
        return not isinstance(target, ast.Name) or self._is_variable_met(target.id)

    def _is_variable_met(self, name: str) -> bool:
        if name in self._followed:
            return False
        self._followed.add(name)
        return any(map(self._is_met_as, self.mentions[name]))

    def _is_met_as(self, node: ast.Name) -> bool:
        """Whether the value of a variable may meet others where it is mentioned: at x += y, and at each read of x."""
        if isinstance(node.ctx, ast.Load):
            return self._meets(node)
        changed = self.parents[node]
        return isinstance(changed, ast.AugAssign) and not (self.in_init or _is_plain(changed.value))


def _is_text(node: ast.AST) -> bool:
    """``"cpu"``, or a string that begins with it."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("cpu")


def _is_number(made: ast.Call) -> bool:
    """Whether it makes a tensor without dimensions."""
    first = made.args[0] if made.args else None
    if isinstance(first, ast.UnaryOp):
        first = first.operand
    name = _named(made.func)[1]
    empty = isinstance(first, (ast.List, ast.Tuple)) and not first.elts
    number = isinstance(first, ast.Constant) or (isinstance(first, ast.Call) and _named(first.func)[1] == "float")
    return (empty and name in _OF_SIZES) or (name == "tensor" and number)


def _named(function: ast.expr) -> tuple[str, str]:
    """The last two names of the called expression."""
    if isinstance(function, ast.Name):
        return "", function.id
    if isinstance(function, ast.Attribute):
        owner = function.value
        return owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", ""), function.attr
    return "", ""


def _arguments(call: ast.Call) -> Iterator[ast.expr]:
    yield from call.args
    yield from (each.value for each in call.keywords)


def _tells_device(call: ast.Call) -> bool:
    """``x.to(y.device)``, ``x.to(device, dtype)``; not ``x.to("cpu")``"""
    given = [node for each in _arguments(call) for node in ast.walk(each)]
    names = [node.attr for node in given if isinstance(node, ast.Attribute)]
    names += [node.id for node in given if isinstance(node, ast.Name)]
    return any(name.endswith("device") for name in names) and not any(map(_is_text, given))


def _is_plain(node: ast.expr) -> bool:
    """Whether it is surely not a tensor: numbers, strings, sizes, and results computed from them."""
    if isinstance(node, ast.Slice):
        return all(_is_plain(each) for each in (node.lower, node.upper, node.step) if each is not None)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(_is_plain, node.elts))
    if isinstance(node, (ast.BinOp, ast.UnaryOp)):
        return all(_is_plain(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Call):
        names = ("len", "int") if isinstance(node.func, ast.Name) else ("size", "numel", "dim")
        return _named(node.func)[1] in names
    if isinstance(node, ast.Attribute):
        return node.attr == "shape" or _named(node)[0] == "torch" or node.attr.endswith("dtype")
    if isinstance(node, ast.Name):
        return node.id.endswith("dtype")
    return isinstance(node, ast.Constant) and not _is_text(node)
