"""Predicates on the facts of a definition: whether a finding may begin there.

The table ``BEGINNINGS`` has a row for each kind of beginning, with a predicate for definitions that other code calls,
and one for entry points. An entry point's arguments are unknown, no option of the command line reaches it, and no
replica runs it. So ``x.to(device)`` moves to an unknown device, on which all rules are silent: the only possible
findings are that the move is discarded, or that the object cannot be moved. A change made by a forward counts if its
next call reads it, a tensor on the CPU if it may meet another.

A predicate that holds wrongly costs time, but adds no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from placement_lint.flow.api.torch_names import (
    CONTAINERS,
    GRAD_FLAGS,
    OPTIMIZERS,
    PARAMETER_CONTAINERS,
    PARAMETER_READS,
    PARAMETRIC_LAYERS,
)
from placement_lint.flow.triage.cpu_tensor_escape import MAKERS
from placement_lint.flow.triage.definition_facts import (
    ANY,
    FORWARDS,
    INITIALISERS,
    Facts,
    arguments_of,
    is_attribute_of,
    is_attribute_of_self,
    is_self,
    is_text,
    name_of,
    owner_of,
    read,
    words_in,
)
from placement_lint.project.relevance import Wanted
from placement_lint.source.scan import words_of

Predicate: TypeAlias = Callable[[Facts], bool]
Sought: TypeAlias = Callable[[Facts, bool], bool]
"""A predicate on a definition, by its facts, and by whether it is a module.

Statements are queried thousands of times with the same predicates, and queries are kept with results: equal predicates
are one object, and can be pickled.
"""

# Size of the caches of names, and of predicates by sets of attributes and the like.
_NAMES_REMEMBERED, _REMEMBERED = 32_768, 256


def _last_parts(names: Iterable[str]) -> set[str]:
    return {name.rpartition(".")[2] for name in names}


# --- names -----------------------------------------------------------------------------------------------------------

# Names that begin a finding wherever they occur, in lower case.
_NAMES = {"fork", "forkserver", "fork_rng", "mp", "pack_sequence", "pack_padded_sequence", "reveal_placement"}
_NAMES |= {"parallel_apply", "parallel_model", "model_parallel", "get_device"}
_PREFIXES = ("parallelis", "paralleliz", "spawn", "autocast")
_PARTS = {
    *("data_parallel", "dataparallel", "ddp", "distributed", "multiprocessing", "sampler", "set_epoch", "dataloader"),
    *("share_memory", "pin_memory", "random_split", "set_default", "custom_fwd"),
}
# These are removed from a name first.
_OTHER_PARTS = {
    *("downsampler", "upsampler", "down_sampler", "up_sampler", "resampler", "subsampler", "samplerate"),
    *("set_defaults", "target_device"),
}
# These need another one to begin a finding in an entry point: there are no findings for other accelerators, or for
# autocast outside of DataParallel.
_NEEDS_MORE = ("autocast", "custom_fwd", "model_parallel", "is_model_parallel", "parallelize")
# An optimizer of the program derives from the common base class, which is never instantiated.
_OPTIMIZERS = _last_parts(OPTIMIZERS) - {"Optimizer"}


@lru_cache(_NAMES_REMEMBERED)
def _always_begins(name: str) -> bool:
    small = name.lower()
    for other in _OTHER_PARTS:
        small = small.replace(other, "")
    return (
        name in _OPTIMIZERS
        or small in _NAMES
        or small.startswith(_PREFIXES)
        or small.endswith("parallel")
        or any(part in small for part in _PARTS)
    )


def _named(facts: Facts) -> bool:
    return any(map(_always_begins, facts.words))


def _named_in_entry(facts: Facts) -> bool:
    """The same where the name is not only imported or used in a type test, and does not need another."""
    found = {word for word in facts.words if _always_begins(word) and not word.lower().startswith(_NEEDS_MORE)}
    if not found:
        return False
    asked = {node for call in facts.calls("isinstance") for each in call.args for node in ast.walk(each)}
    asked |= {alias for each in facts.all(ast.Import, ast.ImportFrom) for alias in each.names if alias.asname is None}
    asked |= {*facts.all(ast.ImportFrom)}
    asked |= {each for each in facts.mentions("distributed") if _attribute_of(facts, each).startswith("is_")}
    return any(not found.isdisjoint(words_in(node)) for node in facts.nodes if node not in asked)


def _attribute_of(facts: Facts, node: ast.AST) -> str:
    """The attribute that is read of a name; empty if there is none."""
    return getattr(facts.parents.get(node), "attr", "")


# --- moves -----------------------------------------------------------------------------------------------------------

_DTYPES = ("float", "bfloat", "int", "uint", "half", "bool", "long", "double")


def _moves_of(facts: Facts) -> Iterator[ast.Call]:
    """The calls that move a tensor to a device in the arguments: x.to(device), x.type(kind)."""
    for call in facts.method_calls("to", "type"):
        given = arguments_of(call)
        if not given or not all(map(_is_like_another, (*call.args, *call.keywords))):
            yield call


def _is_like_another(argument: ast.AST) -> bool:
    """Whether it moves to the same device, or to that of another tensor: y.device, y.dtype, torch.float32"""
    if isinstance(argument, ast.keyword):
        return argument.arg == "dtype" or (argument.arg == "device" and _is_device_of_other(argument.value))
    name = name_of(argument)
    return (
        _is_device_of_other(argument)
        or name.endswith("dtype")
        or (owner_of(argument) == "torch" and name.startswith(_DTYPES))
    )


def _is_device_of_other(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "device" and not is_self(node.value)


def _moves(facts: Facts) -> bool:
    return any(_moves_of(facts))


def _targets(move: ast.Call) -> Iterator[ast.AST]:
    """The expressions in the device arguments of a move, without what is inside their brackets."""
    waiting: list[ast.AST] = [*move.args]
    waiting += [each.value for each in move.keywords if each.arg in ("device", None)]
    for node in waiting:
        yield node
        if isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
            waiting.append(node.value)
        elif isinstance(node, ast.Call):
            waiting.append(node.func)
        elif isinstance(node, ast.IfExp):
            waiting += [node.body, node.orelse]
        elif isinstance(node, ast.BoolOp):
            waiting += node.values


def targets(facts: Facts) -> Set[str]:
    """The names in the device arguments of its moves."""
    return {name_of(node) for move in _moves_of(facts) for node in _targets(move)} - {""}


def _moves_in_vain(facts: Facts) -> bool:
    """Whether a move may lead to a finding although the devices of the arguments are unknown."""
    moves = [*_moves_of(facts)]
    if not moves:
        return False
    if facts.has("Parameter") or (facts.has("grad") and facts.has("requires_grad", "requires_grad_")):
        return True
    known = {*_set_to_device(facts)}
    return any(
        any(_is_known_target(target, known) for target in _targets(move))
        or _is_discarded(facts, move)
        or _may_move_other(facts, move)
        for move in moves
    )


def _is_known_target(target: ast.AST, known: Set[str]) -> bool:
    """Whether it is a string, a number, the result of a function, or one of the names bound to these."""
    if isinstance(target, ast.Constant):
        return target.value != "cpu" and isinstance(target.value, (str, int)) and not isinstance(target.value, bool)
    if isinstance(target, ast.Call):
        name = target.func.id if isinstance(target.func, ast.Name) else ""
        return not name[:1].isupper() and name not in ("", "getattr", "next", "str", "int")
    return isinstance(target, ast.JoinedStr) or name_of(target) in known


def _bound(facts: Facts) -> Iterator[tuple[str, ast.expr]]:
    """The names that it binds by assignments and as parameters with defaults."""
    yield from ((name_of(target), value) for target, value in facts.assigned if name_of(target))
    yield from ((parameter.arg, value) for parameter, value in facts.defaults)


def _set_to_device(facts: Facts) -> Iterator[str]:
    """The names that may stand for a device: bound to a string or number, or to the result of a function."""
    for name, value in _bound(facts):
        if _is_text_or_number(value) or (_is_other(facts, value) and not _is_cpu(value)):
            yield name


def _is_text_or_number(node: ast.AST) -> bool:
    if isinstance(node, ast.IfExp):
        return _is_text_or_number(node.body) or _is_text_or_number(node.orelse)
    return (is_text(node) and not _is_cpu(node)) or isinstance(node, ast.JoinedStr) or _is_number(node)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _is_cpu(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == "cpu"


_DISPLAYS = (ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp, ast.DictComp, ast.SetComp, ast.JoinedStr)
_MAKING_OTHER = {"list", "dict", "tuple", "set", "sorted", "zip", "filter", "map"}
_GIVING_OTHER = {"numpy", "state_dict", "parameters", "named_parameters", "items", "keys", "values", "tolist"}


def _is_other(facts: Facts, value: ast.expr) -> bool:
    """Whether it may have no ``.to()``: [...], dict(...), np.zeros(3), net.state_dict(), a function's result."""
    if isinstance(value, ast.IfExp):
        return _is_other(facts, value.body) or _is_other(facts, value.orelse)
    if isinstance(value, _DISPLAYS) or is_text(value):
        return True
    if not isinstance(value, ast.Call):
        return owner_of(value) in ("np", "numpy")
    name = name_of(value.func)
    if name in _MAKING_OTHER or name.lower().endswith("dict") or owner_of(value.func) in ("np", "numpy"):
        return True
    if isinstance(value.func, ast.Attribute) and not is_self(value.func.value):
        return name in _GIVING_OTHER and not value.args
    return not name[:1].isupper() and _may_give_other(facts, value.func)


def _may_give_other(facts: Facts, function: ast.expr) -> bool:
    """Whether a function, by its name, may be one that is defined here, and return a list or dict."""
    if isinstance(function, ast.Name):
        return True
    method = facts.methods.get(name_of(function))
    returned = [each.value for each in method.all(ast.Return)] if method is not None else []
    return any(isinstance(value, (*_DISPLAYS, ast.Name)) or _makes_other(value) for value in returned)


def _makes_other(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and (
        name_of(value.func) in _MAKING_OTHER
        or name_of(value.func).lower().endswith("dict")
        or owner_of(value.func) == "np"
    )


def _may_move_other(facts: Facts, move: ast.Call) -> bool:
    """Whether the moved object may be a list, a dict, or another object without ``.to()``."""
    assert isinstance(move.func, ast.Attribute)
    moved = move.func.value
    if isinstance(moved, ast.Call):
        if name_of(moved.func) in _GIVING_OTHER:
            return True
        own = isinstance(moved.func, ast.Name) or is_attribute_of_self(moved.func)
        return own and not name_of(moved.func)[:1].isupper() and _may_give_other(facts, moved.func)
    name = name_of(moved)
    if not name:
        return isinstance(moved, _DISPLAYS) or is_text(moved)
    others = (bound for bound, value in _bound(facts) if _is_other(facts, value))
    return name != "self" and name in others and not _is_surely_tensor(facts, move, name)


def _is_surely_tensor(facts: Facts, node: ast.AST, name: str) -> bool:
    """Whether it is the beginning of ``if isinstance(x, torch.Tensor): …``"""
    while not isinstance(node, ast.stmt):
        node = facts.parents[node]
    around = facts.parents.get(node)
    if not (isinstance(around, ast.If) and around.body[0] is node and isinstance(around.test, ast.Call)):
        return False
    test = around.test
    return name_of(test.func) == "isinstance" and [name_of(each) for each in test.args] == [name, "Tensor"]


def _is_discarded(facts: Facts, move: ast.Call) -> bool:
    """Whether a move is a statement of its own; other methods may follow it."""
    assert isinstance(move.func, ast.Attribute)
    node: ast.AST = move
    while isinstance(node, (ast.Call, ast.Attribute)):
        inside, node = node, facts.parents[node]
        if isinstance(node, ast.Call) and node.func is not inside:
            return False
    return isinstance(node, ast.Expr) and not is_self(move.func.value)


def _brings_other_to_cpu(facts: Facts) -> bool:
    return any(_may_move_other(facts, call) for call in facts.method_calls("cpu"))


# --- devices ---------------------------------------------------------------------------------------------------------

# Queries of CUDA move nothing.
_CUDA_QUERIES = {"is_available", "get_device_capability", "is_bf16_supported"}
_ACCELERATORS = ("xpu", "npu", "hpu")
_GPU_NAMES = ("cuda", "mps", "xpu", "npu", "hpu", "xla")
_COMPARING = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)


def uses_cuda(facts: Facts) -> bool:
    """Whether it mentions ``cuda`` except in queries and tests: x.cuda(), torch.cuda.set_device(0), run(args.cuda)"""
    if any(facts.method_calls("cuda")) or _has_text("cuda")(facts):
        return True
    if any(each.arg == "cuda" for each in facts.all(ast.keyword)):
        return True
    for node in facts.mentions("cuda"):
        around = facts.parents.get(node)
        read = isinstance(around, ast.Attribute) and around.attr not in _CUDA_QUERIES
        if read or _is_given(node, around):
            return True
    return False


def _is_given(node: ast.AST, around: ast.AST | None) -> bool:
    """Whether it is assigned, or passed to a function."""
    return isinstance(around, (ast.Assign, ast.Tuple, ast.List, ast.keyword)) or (
        isinstance(around, ast.Call) and around.func is not node
    )


def _is_device_test(facts: Facts, node: ast.AST) -> bool:
    """Whether the type of a device is compared with it: x.device.type == "cuda" """
    around = facts.parents[node]
    while isinstance(around, (ast.Tuple, ast.List, ast.Set)):
        around = facts.parents[around]
    return isinstance(around, ast.Compare) and any(
        name_of(each) == "type" and owner_of(each) == "device" for each in (around.left, *around.comparators)
    )


def knows_of_gpu(facts: Facts) -> bool:
    """Whether it tests for a GPU, or derives from a trainer that handles devices."""
    trainers = (name_of(base).endswith("Trainer") for cls in facts.all(ast.ClassDef) for base in cls.bases)
    return (
        facts.has("is_cuda")
        or any(trainers)
        or any(_is_device_test(facts, node) for node, text in facts.texts.items() if text in (*_GPU_NAMES, "cpu"))
    )


def _names_accelerator(facts: Facts) -> bool:
    """Other accelerators; a mere test for them leads to no finding."""
    for node in facts.mentions(*_ACCELERATORS, *map(str.upper, _ACCELERATORS)):
        if _attribute_of(facts, node) not in ("is_available", "device_count"):
            return True
    if any(each.arg in _ACCELERATORS for each in facts.all(ast.keyword)):
        return True
    return any(
        not _is_existence_test(facts, node) and not _is_device_test(facts, node)
        for node, text in facts.texts.items()
        if not {*words_of(text.lower())}.isdisjoint(_ACCELERATORS)
    )


def _is_existence_test(facts: Facts, text: ast.Constant) -> bool:
    """``hasattr(torch, "xpu")``"""
    around = facts.parents[text]
    return isinstance(around, ast.Call) and name_of(around.func) == "hasattr"


def _has_text(*beginnings: str) -> Predicate:
    """Whether it has a string that begins so, and is not compared with the type of a device."""
    return lambda facts: any(
        text.startswith(beginnings) and not _is_device_test(facts, node) for node, text in facts.texts.items()
    )


def _makes_device(facts: Facts) -> bool:
    return any(owner_of(call.func) == "torch" for call in facts.method_calls("device"))


def _keeps_device(facts: Facts) -> bool:
    """self.device = device, self.place = x.device"""
    return facts.has("device") and any(
        is_attribute_of_self(target) and (name_of(target) == "device" or any(map(_is_device_of_other, ast.walk(value))))
        for target, value in facts.assigned
    )


def _keeps_known_device(facts: Facts) -> bool:
    """self.place = x.device, self.shift = torch.zeros(3, device=x.device), self.device = get(); not = device"""
    return facts.has("device") and any(
        is_attribute_of_self(target)
        and (_is_told_device(value) or (name_of(target) == "device" and not isinstance(value, ast.Name)))
        for target, value in facts.assigned
    )


def _is_told_device(value: ast.AST) -> bool:
    """Whether it is the device of something, or is made on it: not if another function gets the device."""
    if isinstance(value, ast.Call):
        told = (each.value for each in value.keywords if each.arg == "device")
        return any(map(_is_device, told)) or any(
            _is_told_device(each) for each in (value.func, *value.args) if not _is_device(each)
        )
    if isinstance(value, ast.Attribute):
        return value.attr == "device" or _is_told_device(value.value)
    return any(map(_is_told_device, ast.iter_child_nodes(value)))


def _compares_devices(facts: Facts) -> bool:
    return facts.has("device") and any(
        any(map(_is_device, (compare.left, *compare.comparators)))
        and all(isinstance(each, _COMPARING) for each in compare.ops)
        for compare in facts.all(ast.Compare)
    )


def _is_device(node: ast.AST) -> bool:
    """x.device, x.device.index"""
    if isinstance(node, ast.Attribute) and node.attr == "index":
        node = node.value
    return isinstance(node, ast.Attribute) and node.attr == "device"


def _calls_any(*names: str) -> Predicate:
    return lambda facts: any(facts.calls(*names))


def _calls_method(*names: str) -> Predicate:
    return lambda facts: any(facts.method_calls(*names))


def _calls_of_torch(name: str) -> Predicate:
    return lambda facts: any(owner_of(node) == "torch" for node in facts.mentions(name))


loads = _calls_of_torch("load")


def _uses_dist(facts: Facts) -> bool:
    return any(
        isinstance(node, ast.Name) and isinstance(facts.parents.get(node), ast.Attribute)
        for node in facts.mentions("dist")
    )


def _changes_environment(facts: Facts) -> bool:
    return any(not _only_reads(facts, node) for node in facts.mentions("environ"))


def _only_reads(facts: Facts, environ: ast.AST) -> bool:
    """os.environ.get("X"), os.environ["X"], "X" in os.environ"""
    around = facts.parents.get(environ)
    if isinstance(around, ast.Attribute):
        return around.attr == "get"
    return isinstance(around, ast.Compare) or (isinstance(around, ast.Subscript) and isinstance(around.ctx, ast.Load))


def _uses_optimizers(facts: Facts) -> bool:
    others = ("Optimizer", "optimizer", "lr_scheduler")
    return any(_attribute_of(facts, node) not in others for node in facts.mentions("optim"))


_ITERATING = {"list", "tuple", "next", "iter", "zip", "chain", "enumerate", "clip_grad_norm_"}


def _passes_parameters(facts: Facts) -> bool:
    """Whether it stores an iterator of parameters or passes it to a function, which may iterate over it twice."""
    for call in facts.method_calls("parameters"):
        around = facts.parents[call]
        if isinstance(around, (ast.Assign, ast.keyword)):
            return True
        if isinstance(around, ast.Call) and name_of(around.func) not in _ITERATING and around.func is not call:
            return True
    return False


def _loads_state(facts: Facts) -> bool:
    return any(
        not (isinstance(call.func.value, ast.Call) and name_of(call.func.value.func) == "super")  # type: ignore[attr-defined]
        for call in facts.method_calls("load_state_dict")
    )


def _binds_attribute(facts: Facts) -> bool:
    """partial(f, table=self.table) keeps a reference to an attribute that a move may replace"""
    calls = facts.calls("partial") if facts.runs else ()
    return any(is_attribute_of_self(each) for call in calls for each in arguments_of(call)[1:])


# --- parameters ------------------------------------------------------------------------------------------------------

# These share no memory with the data that a Parameter is made from.
_NEW_DATA = {"log", "exp", "sqrt", "cat", "stack", "normal"}


def _sets_gradient_flag(facts: Facts) -> bool:
    return any(isinstance(target, ast.Attribute) and target.attr in GRAD_FLAGS for target, _ in facts.assigned)


def _derives_parameters(facts: Facts) -> bool:
    """Whether a Parameter is made from existing data, another value is derived from it, or it is replaced."""
    own = [
        target
        for target, value in facts.assigned
        if is_attribute_of_self(target) and not (isinstance(value, ast.Constant) and value.value is None)
    ]
    for call in facts.calls("Parameter"):
        around = facts.parents[call]
        if isinstance(around, (ast.Attribute, ast.Subscript, ast.BinOp)) or not _is_new(call):
            return True
        while isinstance(around, ast.IfExp):
            around = facts.parents[around]
        for target in around.targets if isinstance(around, ast.Assign) else ():
            others = (each for each in own if each is not target and name_of(each) == name_of(target))
            if not all(_are_alternatives(facts, target, other) for other in others):
                return True
    return False


def _are_alternatives(facts: Facts, one: ast.AST, other: ast.AST) -> bool:
    """Whether two nodes are in different branches of an ``if`` statement."""
    inside = {around: node for node, around in _path_to(facts, one)}
    node, around = next((node, around) for node, around in _path_to(facts, other) if around in inside)
    return isinstance(around, ast.If) and (inside[around] in around.body) != (node in around.body)


def _path_to(facts: Facts, node: ast.AST) -> Iterator[tuple[ast.AST, ast.AST | None]]:
    """The node and the nodes around it, each with the one that is next to it; None is around all."""
    around: ast.AST | None = node
    while around is not None:
        node, around = around, facts.parents.get(around)
        yield node, around


def _is_new(parameter: ast.Call) -> bool:
    called = [(owner_of(node.func), name_of(node.func)) for node in ast.walk(parameter) if isinstance(node, ast.Call)]
    if any(name in MAKERS for _, name in called):
        return True
    first = next(iter(arguments_of(parameter)), None)
    name = name_of(first.func) if isinstance(first, ast.Call) and owner_of(first.func) == "torch" else ""
    return name in _NEW_DATA or name.endswith("_like")


def _reads_parameters_as_data(facts: Facts) -> bool:
    """Whether it reads a possible Parameter of its own through ``.data``: not if it writes to it."""
    if not (facts.has("Parameter") and facts.has("data")):
        return False
    return any(
        is_attribute_of_self(node.value) and not _is_written(facts, node)
        for node in facts.mentions("data")
        if isinstance(node, ast.Attribute)
    )


def _is_written(facts: Facts, data: ast.AST) -> bool:
    """self.scale.data = x, self.scale.data[rows] += x, self.scale.data.fill_(0)"""
    node, around = data, facts.parents[data]
    while isinstance(around, ast.Subscript) and around.value is node:
        node, around = around, facts.parents[around]
    if isinstance(around, ast.Attribute):
        return around.attr.endswith("_") and isinstance(facts.parents[around], ast.Call)
    return not isinstance(getattr(node, "ctx", None), ast.Load)


# --- containers ------------------------------------------------------------------------------------------------------

# Containers that register the items of a list, and lists that repeat one item.
_REGISTERING = ("Sequential", "ModuleList", "ParameterList")
# Functions that return numbers, and those that return their arguments.
_NUMBERING = {
    *("int", "float", "bool", "str", "len", "round", "max", "min", "sum", "abs", "sqrt", "ceil", "floor", "range"),
    *("numel", "size", "to_2tuple", "to_3tuple", "to_ntuple", "_single", "_pair", "_triple", "make_divisible"),
}
_OF_NUMBERS = _NUMBERING | {
    *("zip", "enumerate", "tuple", "list", "isinstance", "reversed", "sorted", "getattr", "hasattr"),
}
_FILLING = ("append", "extend", "insert", "update", "setdefault")


def _repeats_layers(facts: Facts) -> bool:
    """Whether the repeated item of a list is a call, or was returned by one."""
    if not facts.has(*_REGISTERING):
        return False
    products = (node for node in facts.all(ast.BinOp) if isinstance(node.op, ast.Mult))
    lists = (
        side for node in products for side in (node.left, node.right) if isinstance(side, (ast.List, ast.ListComp))
    )
    return any(_holds_made(facts, each) for each in lists)


def _holds_made(facts: Facts, items: ast.AST) -> bool:
    """Whether one of these items is more than a number."""
    inside = [node for node in ast.walk(items) if node is not items]
    if any(isinstance(node, ast.Call) and name_of(node.func) not in _OF_NUMBERS for node in inside):
        return True
    return not _made(facts).isdisjoint(name_of(node) for node in inside)


def _made(facts: Facts) -> Set[str]:
    """The variables to which it assigns the result of a call."""
    return {
        target.id
        for target, value in facts.assigned
        if isinstance(target, ast.Name)
        and not (isinstance(value, ast.Call) and name_of(value.func) in _NUMBERING)
        and any(isinstance(node, ast.Call) for node in ast.walk(value))
    }


def _items_of(value: ast.AST) -> Sequence[ast.AST]:
    """The items of a list, the values of a dict."""
    if isinstance(value, ast.IfExp):
        return [*_items_of(value.body), *_items_of(value.orelse)]
    if isinstance(value, ast.Call):
        return value.args if _is_container(value) else ()
    return value.values if isinstance(value, ast.Dict) else getattr(value, "elts", ())


def _is_container(value: ast.AST) -> bool:
    """[…], {…}, (…, …), list(…), OrderedDict(…), […] * n, […] if x else […], x or […]"""
    if isinstance(value, (ast.BinOp, ast.IfExp, ast.BoolOp)):
        return any(map(_is_container, ast.iter_child_nodes(value)))
    if isinstance(value, ast.Call):
        name = name_of(value.func)
        return name in ("list", "dict", "tuple") or name.endswith(("dict", "Dict"))
    return isinstance(value, (ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp))


def _holds_plain_container(facts: Facts) -> bool:
    """Whether a forward uses a list or dict of more than numbers, even one that is filled later."""
    filled = {*_filled(facts)}
    for target, value in facts.assigned if facts.runs else ():
        if is_attribute_of_self(target) and name_of(target) in facts.asked_in_forward:
            found = [(ast.unparse(target), value)]
            if isinstance(value, ast.Name):
                found = [(value.id, each) for bound, each in facts.assigned if name_of(bound) == value.id]
            for name, container in found:
                if _is_container(container) and (name in filled or _holds_made(facts, container)):
                    return True
    return False


def _filled(facts: Facts) -> Iterator[str]:
    """The variables and attributes of ``self`` that are lists and dicts into which it puts something."""
    for call in facts.method_calls(*_FILLING):
        assert isinstance(call.func, ast.Attribute)
        yield _container_named(call.func.value)
    for target, value in facts.changed:
        if isinstance(target, ast.Subscript) or value is None:
            yield _container_named(target)


def _container_named(node: ast.AST) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value
    return ast.unparse(node) if isinstance(node, ast.Name) or is_attribute_of_self(node) else ""


def hides(facts: Facts) -> bool:
    """Whether a forward may use modules that its instance received as arguments, from a plain list or dict."""
    if not facts.runs or "__init__" not in facts.methods:
        return False
    given = {each.arg for each in facts.methods["__init__"].all(ast.arg)} - {"self"}
    return any(
        name_of(target) in facts.asked_in_forward and not given.isdisjoint(map(name_of, _items_of(value)))
        for target, value in facts.assigned
        if is_attribute_of_self(target)
    )


# --- forwards --------------------------------------------------------------------------------------------------------

_LAYERS = _last_parts((*PARAMETRIC_LAYERS, *CONTAINERS, *PARAMETER_CONTAINERS)) | {"Parameter"}
_CHANGING = ("append", "add", "extend", "insert", "update", "setdefault")


def _changes_in_forward(facts: Facts) -> bool:
    """Whether a forward changes its module, makes a layer, or may use modules that only a list or dict holds."""
    return any(map(_changes, facts.forwards)) or _holds_plain_container(facts)


def _changes(method: Facts) -> bool:
    """Whether a method changes its module, or makes a layer."""
    return (
        _makes_layer(method)
        or any(method.method_calls(*PARAMETER_READS))
        or any(is_attribute_of(target) and not _is_constant(value) for target, value in method.changed)
        or any(
            (name in _CHANGING or name.endswith("_")) and any(map(_changes_own, method.method_calls(name)))
            for name in method.called
        )
    )


def _changes_own(call: ast.Call) -> bool:
    """self.x.append(…), self.x[0].add_(…)"""
    return isinstance(call.func, ast.Attribute) and is_attribute_of(call.func.value)


def _is_constant(value: ast.AST | None) -> bool:
    if isinstance(value, ast.UnaryOp):
        value = value.operand
    return isinstance(value, ast.Constant)


def _makes_layer(method: Facts) -> bool:
    return any(method.calls("setattr")) or any(
        owner_of(call.func) == "nn" for call in method.calls(*_LAYERS & method.called)
    )


def _adds_in_forward(facts: Facts) -> bool:
    """Whether a forward makes a layer, or uses modules that only a plain list holds."""
    return any(map(_makes_layer, facts.forwards)) or _holds_plain_container(facts)


def _leaves_in_forward(facts: Facts) -> bool:
    """Whether a forward leaves attributes for the next one: those that it both assigns and reads."""
    left: set[str] = set()
    for method in facts.forwards:
        targets = (target for target, value in method.changed if is_attribute_of(target) and not _is_constant(value))
        left |= {target.attr for target in targets if isinstance(target, ast.Attribute)}
    return any(
        node.attr in left and isinstance(node.ctx, ast.Load)
        for method in facts.forwards
        for node in (method.all(ast.Attribute) if left else ())
    )


# --- the table -------------------------------------------------------------------------------------------------------


def never(_: Facts) -> bool:
    return False


class Beginning(NamedTuple):
    """When a finding may begin in a definition that other code calls, and in an entry point."""

    called: Predicate
    entry: Predicate


def both(predicate: Predicate) -> Beginning:
    return Beginning(predicate, predicate)


BEGINNINGS: Mapping[str, Beginning] = {
    "processes, replicas, samplers, loaders, optimizers": Beginning(_named, _named_in_entry),
    "a move": Beginning(_moves, _moves_in_vain),
    "a move to the CPU": Beginning(never, _brings_other_to_cpu),
    "a move of empty modules": both(_calls_method("to_empty")),
    "CUDA": both(uses_cuda),
    "another accelerator": both(_names_accelerator),
    "another device by name": both(_has_text("meta", "mps", "gpu")),
    "an accelerator object": both(_calls_any("Accelerator", "current_accelerator")),
    "a device": both(_makes_device),
    "a device that is kept": Beginning(_keeps_device, _keeps_known_device),
    "devices compared": both(_compares_devices),
    "torch.distributed": both(_uses_dist),
    "environment variables": both(_changes_environment),
    "torch.optim": both(_uses_optimizers),
    "torch.load": Beginning(loads, never),
    "torch.save": both(_calls_of_torch("save")),
    "a state dict": both(_loads_state),
    "an iterator of parameters": both(_passes_parameters),
    "a gradient flag": both(_sets_gradient_flag),
    "a Parameter derived from others": both(_derives_parameters),
    "a Parameter read as data": both(_reads_parameters_as_data),
    "a layer repeated": both(_repeats_layers),
    "a module changed by its forward": Beginning(_changes_in_forward, _leaves_in_forward),
    "a module extended by its forward": Beginning(never, _adds_in_forward),
    "an attribute bound early": Beginning(never, _binds_attribute),
}


def may_begin(facts: Facts) -> bool:
    """Whether a finding can begin with it, whatever uses it."""
    return facts.once(_may_begin)


def _may_begin(facts: Facts) -> bool:
    return not facts.is_readable or any(each.called(facts) for each in BEGINNINGS.values())


def may_begin_in_entry(facts: Facts) -> bool:
    """Whether a finding can begin with it if nothing calls it."""
    return facts.once(_may_begin_in_entry)


def _may_begin_in_entry(facts: Facts) -> bool:
    return not facts.is_readable or any(each.entry(facts) for each in BEGINNINGS.values())


# --- tensors on the CPU, and their devices ---------------------------------------------------------------------------


def places(facts: Facts) -> bool:
    """Whether it passes a ``device`` argument other than the device of another tensor."""
    return any(True for _ in _told_places(facts))


def _told_places(facts: Facts) -> Iterator[ast.expr]:
    return (
        each.value
        for each in facts.all(ast.keyword)
        if each.arg == "device" and not (isinstance(each.value, ast.Attribute) and each.value.attr == "device")
    )


def tells_places(facts: Facts) -> bool:
    """Whether it moves or makes something on a given device."""
    return places(facts) or _moves(facts)


def names_gpu(facts: Facts) -> bool:
    """Whether it may name a device by a string or number: "cuda:1", DEVICE, self.run(0), gpu = 0, for n in (0, 1)"""
    return facts.once(_names_gpu)


def _names_gpu(facts: Facts) -> bool:
    if any(text.startswith(_GPU_NAMES) for text in facts.texts.values()):
        return True
    if any("GPU" in word or "DEVICE" in word for word in facts.words):
        return True
    if any(is_attribute_of_self(call.func) and any(map(_is_number, call.args)) for call in facts.all(ast.Call)):
        return True
    numbered = (name for name, value in _bound(facts) if _is_number(value))
    given = (each.arg for each in facts.all(ast.keyword) if each.arg is not None and _is_number(each.value))
    if any(name.startswith(("device", "gpu", "rank")) for name in (*numbered, *given)):
        return True
    loops = (loop.iter for loop in facts.all(ast.For, ast.comprehension))
    return any(isinstance(each, (ast.Tuple, ast.List)) and any(map(_is_number, each.elts[:1])) for each in loops)


def tells_own_places(facts: Facts) -> bool:
    """Whether it moves or makes something on a device that does not come from its caller alone."""
    if names_gpu(facts):
        return True
    assigned = {name_of(target) for target, _ in facts.assigned if isinstance(target, ast.Name)}
    given = {each.arg for each in facts.all(ast.arg)} - assigned
    told = {name_of(node) for place in _told_places(facts) for node in ast.walk(place)} - {""}
    return not given >= (told | targets(facts))


_NO_GPU_NUMBERS = {"range", "max", "min", "int", "float", "round", "slice", "enumerate", "pow", "isinstance", "len"}
_NO_GPU_NUMBERS |= {"sum", "tuple", "list", "super", "getattr"}


def given_numbers(facts: Facts) -> Set[str]:
    """The words of the functions that it passes a number, which may be that of a GPU."""
    return {
        name_of(node)
        for call in facts.all(ast.Call)
        if any(map(_is_number, call.args)) and name_of(call.func) not in _NO_GPU_NUMBERS
        for node in ast.walk(call.func)
    } - {""}


def packs(facts: Facts) -> bool:
    """Whether it passes the lengths of sequences to ``pack_padded_sequence``."""
    return facts.has("pack_padded_sequence")


def _goes_to_cuda(facts: Facts) -> bool:
    """Whether a forward moves something to CUDA, whatever the device of its module."""
    return any(map(uses_cuda, facts.forwards))


def gives_tensors(facts: Facts) -> bool:
    """Whether other code may get tensors that a class made so: from its methods, or as an attribute."""
    return bool(facts.kept_tensors) or not facts.makers.keys() <= INITIALISERS


def runs_parts_aside(facts: Facts) -> bool:
    """Whether a method that neither a forward nor ``__init__`` calls may run a submodule."""
    known = facts.reached_from((*FORWARDS, *INITIALISERS))
    return any(
        is_attribute_of_self(call.func) and name_of(call.func) not in facts.methods
        for method in facts.methods.values()
        if method not in known
        for call in method.all(ast.Call)
    )


def meets(facts: Facts) -> bool:
    """Whether a tensor that it makes on the CPU may meet others in it."""
    return facts.once(_meets)


def _meets(facts: Facts) -> bool:
    return _lets_meet(facts, facts.methods, is_given=False)


def meets_on_gpu(facts: Facts, is_module: bool) -> bool:
    """Whether it may meet a tensor on a GPU: if it knows of a GPU, or in a module, which may be on one.

    A module may as well be on the CPU. So only its forward, which should work on any device, leads to findings.
    """
    if is_module:
        return facts.once(_meets_in_forward) if meets_in_forward_only(facts) else meets(facts)
    return _may_know_of_gpu(facts) and meets(facts)


def meets_in_forward_only(facts: Facts) -> bool:
    """Whether it does so only in a forward, if it is a module: nothing names a GPU."""
    return not (_may_know_of_gpu(facts) or names_gpu(facts))


def _may_know_of_gpu(facts: Facts) -> bool:
    return facts.has("cuda") or facts.once(knows_of_gpu)


def _meets_in_forward(facts: Facts) -> bool:
    """The same for the methods that a forward runs, or whose results ``__init__`` leaves to it."""
    return _lets_meet(
        facts,
        [name for name in facts.methods if name in facts.in_forward or name not in facts.run_later],
        is_given=False,
    )


def gives_or_meets(facts: Facts) -> bool:
    """Whether its CPU tensors may meet others in its own code or in code that uses it."""
    return facts.once(_gives_or_meets)


def _gives_or_meets(facts: Facts) -> bool:
    return _lets_meet(facts, facts.methods, is_given=True)


def _lets_meet(facts: Facts, methods: Iterable[str], *, is_given: bool) -> bool:
    if not facts.is_of_cpu or not facts.methods:
        return facts.is_of_cpu and facts.escapes(in_init=False, is_given=is_given)
    if facts.head.is_of_cpu:
        return True
    asked = {node.attr for node in facts.all(ast.Attribute)}
    asked |= {*FORWARDS} if any(is_self(call.func) for call in facts.all(ast.Call)) else set()
    return any(
        facts.methods[name].is_of_cpu
        and facts.methods[name].escapes(
            in_init=name not in facts.run_later, is_given=is_given or name in asked or name.startswith("__")
        )
        for name in methods
    )


# --- attributes that other code sets ---------------------------------------------------------------------------------


def externally_written(facts: Facts) -> tuple[str, ...]:
    """The attributes of other objects that it may set, sorted; ``ANY`` if they can be any."""
    if any(not (call.args and is_self(call.args[0])) for call in facts.calls("setattr")):
        return (ANY,)
    targets = (target for target, _ in facts.assigned if isinstance(target, ast.Attribute))
    return tuple(sorted({target.attr for target in targets if not is_self(target.value)}))


def _may_be_written(names: tuple[str, ...], facts: Facts) -> bool:
    """Whether one of these can be an attribute of it."""
    return ANY in names or not facts.own.isdisjoint(names)


# --- used definitions ------------------------------------------------------------------------------------------------


def begins(facts: Facts, is_module: bool) -> bool:
    """Whether its use may begin a finding: a module itself is analysed with all its possible arguments."""
    if not is_module:
        return may_begin(facts)
    return (
        not facts.is_readable
        or packs(facts)
        or facts.once(hides)
        or facts.once(_goes_to_cuda)
        or facts.once(_extends_what_begins)
    )


def _extends_what_begins(facts: Facts) -> bool:
    """``class OwnParallel(nn.DataParallel)``: to use it is to use its base."""
    return any(_always_begins(name_of(base)) for each in facts.all(ast.ClassDef) for base in each.bases)


def begins_beside_tensors(facts: Facts, is_module: bool) -> bool:
    """The same with tensors on the CPU: it may combine them with others."""
    return begins(facts, is_module) or (places(facts) and not is_module)


def begins_in_module(facts: Facts, is_module: bool) -> bool:
    """The same in a module, which may be on a GPU: it may return tensors that are on the CPU."""
    return begins(facts, is_module) or (gives_tensors(facts) if is_module else facts.is_of_cpu)


@lru_cache(_REMEMBERED)
def refuted_by(names: tuple[str, ...]) -> Sought:
    """Whether it may have a finding that other code refutes by setting these attributes."""
    return partial(_refuted_by, names)


def _refuted_by(names: tuple[str, ...], facts: Facts, is_module: bool) -> bool:
    known = is_module and facts.runs and _may_be_written(names, facts)
    return known and (may_begin(facts) or facts.is_of_cpu)


# --- definitions that entry points use -------------------------------------------------------------------------------


def uncalled(facts: Facts, is_module: bool) -> bool:
    """Whether a finding may begin in an entry point that uses it and passes it nothing that is known."""
    return begins(facts, is_module) if is_module else may_begin_in_entry(facts)


def beside_tensors(facts: Facts, is_module: bool) -> bool:
    """The same with tensors on the CPU: it may return others that are on a GPU."""
    return uncalled(facts, is_module) or (not is_module and tells_own_places(facts))


def told_device(facts: Facts, is_module: bool) -> bool:
    """The same if it may get a GPU by a name or number."""
    return uncalled(facts, is_module) or (not is_module and facts.is_of_cpu and tells_places(facts))


def told_device_beside_tensors(facts: Facts, is_module: bool) -> bool:
    """The same with both: tensors on the CPU, and a device by a name or number."""
    return uncalled(facts, is_module) or (not is_module and tells_places(facts))


def in_forward(facts: Facts, is_module: bool) -> bool:
    """The same in a module that runs others in its forward only: their code is not analysed."""
    return uncalled(facts, is_module) or (bool(facts.givers) if is_module else gives_or_meets(facts))


def in_module(facts: Facts, is_module: bool) -> bool:
    """The same in a module, which may be on a GPU."""
    return uncalled(facts, is_module) or (gives_tensors(facts) if is_module else gives_or_meets(facts))


@lru_cache(_REMEMBERED)
def refuted_in_entry_by(names: tuple[str, ...]) -> Sought:
    """Whether it may have a finding that other code refutes by setting these attributes."""
    return partial(_refuted_in_entry_by, names)


def _refuted_in_entry_by(names: tuple[str, ...], facts: Facts, is_module: bool) -> bool:
    if not (is_module and facts.runs and _may_be_written(names, facts)):
        return False
    return may_begin_in_entry(facts) or meets_on_gpu(facts, is_module)


# --- in other files --------------------------------------------------------------------------------------------------


@lru_cache(_REMEMBERED)
def in_statement(sought: Sought) -> Wanted:
    """The same for a statement of another file, where any class may be a module.

    A function that makes tensors on the CPU may meet them with others in one that it calls.
    """
    return partial(_in_statement, sought)


def _in_statement(sought: Sought, statement: str) -> bool | None:
    facts = read(statement)
    return sought(facts, facts.is_class) or (None if facts.is_of_cpu and not facts.is_class else False)


def while_it_runs(statement: str) -> bool | None:
    """Whether a running statement of another file may begin a finding; None if only definitions that it uses may."""
    facts = read(statement)
    return begins_in_module(facts, facts.is_class) or facts.is_of_cpu or None
