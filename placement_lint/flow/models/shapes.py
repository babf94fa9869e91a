"""What operations do to the number of dimensions of a tensor, to its first size, and to the batch dimension.

DataParallel splits a tensor along its batch dimension.

A tuple of tensors, such as the result of ``topk`` or ``chunk``, has the dimensions of the tensors in it and one more.
"""

from __future__ import annotations

from collections.abc import Callable

from placement_lint.flow.api.torch_names import NUMBER_TYPES, REDUCTIONS, SAME_SHAPE
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import NONE, AtLeast, Const, Kind, Object, Sequence, Slice, Symbol, Tensor, Value

# Of a PackedSequence, which has no batch dimension: it stores where each row is.
PACKED = -1


# The shape queries of a tensor: of a single number, and of the losses of the replicas.
_OF_NUMBER: dict[str, Value] = {
    **dict.fromkeys(("dim", "ndim", "ndimension"), Const(0)),
    **dict.fromkeys(("numel", "nelement"), Const(1)),
    **dict.fromkeys(("shape", "size"), Sequence(())),
}
_OF_LOSSES: dict[str, Value] = {
    **dict.fromkeys(("dim", "ndim", "ndimension"), Const(1)),
    **dict.fromkeys(("numel", "nelement"), AtLeast(2)),
    **dict.fromkeys(("shape", "size"), Sequence((AtLeast(2),))),
}

# These move dimensions, or make functions of the last one, and leave all sizes as they are.
_KEEP_SIZES = {"t", "transpose", "swapaxes", "swapdims", "permute", "unsqueeze", "softmax", "log_softmax"}


def answer(tensor: Tensor, name: str) -> Value | None:
    """The value of ``t.dim()`` or ``t.shape`` where it tells the replicas' losses from a single one."""
    if tensor.loss.per_replica:
        return _OF_LOSSES.get(name)
    return _OF_NUMBER.get(name) if tensor.scalar is True else None


# --- the number of dimensions ------------------------------------------------------------------------------


def least(tensor: Tensor) -> int:
    """A lower bound of the number of dimensions."""
    return 0 if tensor.scalar else max(tensor.dims, int(tensor.scalar is False))


def with_at_least(tensor: Tensor, dims: int) -> Tensor:
    """A tensor that has at least this number of dimensions."""
    return replace(tensor, dims=dims if dims > 1 else 0, scalar=False if dims > 0 else tensor.scalar)


def row(before: Tensor, result: Tensor) -> Tensor:
    """What iteration yields, or unpacking: a row of a tensor, or a tensor of a tuple."""
    return with_at_least(replace(result, scalar=None), least(before) - 1)


# Operations that may take the last dimension away, and those that may add one to a 0-dim tensor.
REMOVES_DIMENSIONS = REDUCTIONS | {
    "squeeze", "select", "logsumexp", "unbind", "diagonal", "split", "chunk", "kthvalue", "quantile", "nanquantile",
    "nanmedian", "det", "logdet", "slogdet", "matrix_rank", "nuclear_norm", "aminmax", "sum_to_size", "inner",
    "tensordot", "take", "diag", "cosine_similarity", "item",
}  # fmt: skip
_ADDS_DIMENSIONS = {"unsqueeze", "expand", "repeat", "view", "reshape", "flatten", "new", "tile", "ravel"}

# Operations that keep the number of dimensions, those whose second argument is a dimension, and those that return a
# tuple of tensors with as many.
_KEEPS = {
    "t", "real", "imag", "sort", "argsort", "cumsum", "cumprod", "roll", "narrow", "index_select", "masked_fill",
    "clamp_min", "clamp_max", "softmax", "log_softmax", "topk", "chunk", "split", "unbind", "gather", "scatter",
    "index_add", "index_fill", "index_copy", "repeat_interleave", "flip", "fliplr", "flipud", "renorm", "tril", "triu",
}  # fmt: skip
_AT_FIRST = {
    "sort", "argsort", "cumsum", "cumprod", "narrow", "index_select", "softmax", "log_softmax", "unbind", "select",
    "squeeze", "index_add", "index_fill", "index_copy",
}  # fmt: skip
_TUPLES = {"sort", "topk", "chunk", "split", "max", "min", "median", "mode", "kthvalue", "cummax", "cummin"}


def scalar_after(name: str, tensor: Tensor) -> bool | None:
    """Whether the result of a method is 0-dim, given whether the tensor is."""
    return None if name in (_ADDS_DIMENSIONS if tensor.scalar else REMOVES_DIMENSIONS) else tensor.scalar


def _least_after(before: Tensor, name: str, arguments: Arguments) -> int:
    """A lower bound of the number of dimensions of ``t.name(...)``."""
    at = 1 if name in ("norm", "topk", "quantile", "kthvalue") else 0
    named = name in REDUCTIONS or name in _AT_FIRST or name in ("topk", "kthvalue", "quantile", "logsumexp")
    dim = _number(arguments.get(at, "dim") if named else arguments.keyword("dim"))
    known = least(before)
    if dim is not None and name != "unsqueeze":
        # to have a dimension 1 or -2 is to have another one besides
        known = max(known, dim + 1 if dim >= 0 else -dim)
    several = int(name in _TUPLES)
    if name in SAME_SHAPE or name in _KEEPS:
        return known + several if known else several
    if name in REDUCTIONS or name in ("kthvalue", "logsumexp", "quantile", "select", "squeeze"):
        keeps = arguments.keyword("keepdim") == Const(True) and name not in ("select", "squeeze")
        return known - (not keeps) + several if dim is not None else known if keeps else 0
    return _MOVES.get(name, _nothing_known)(known, arguments)


def _nothing_known(known: int, arguments: Arguments) -> int:
    return 0


def _moved(known: int, arguments: Arguments) -> int:
    """``t.transpose(1, 2)``, ``t.permute(0, 2, 1)``"""
    return max(known, *(dim + 1 if dim >= 0 else -dim for dim in _dimensions(arguments)), 0)


def _unsqueezed(known: int, arguments: Arguments) -> int:
    dim = _number(arguments.get(0, "dim"))
    return max(known, dim or 0) + 1


def _sized(known: int, arguments: Arguments) -> int:
    """``t.view(2, -1)``: a single argument may be a size, all sizes or a type."""
    first = arguments.positional[0] if arguments.positional else None
    if isinstance(first, Sequence):
        return len(first.items) if first.exact else 0
    sizes = len(arguments.positional)
    return 0 if arguments.spread or (sizes == 1 and _number(first) is None) else sizes


def _repeated(known: int, arguments: Arguments) -> int:
    return max(known, _sized(known, arguments))


def _flattened(known: int, arguments: Arguments) -> int:
    return max(_number(arguments.get(0, "start_dim")) or 0, 0) + 1


def _like_another(known: int, arguments: Arguments) -> int:
    other = arguments.get(0, "other")
    return least(other) if isinstance(other, Tensor) else 0


_MOVES: dict[str, Callable[[int, Arguments], int]] = {
    **dict.fromkeys(("transpose", "swapaxes", "swapdims", "permute"), _moved),
    "unsqueeze": _unsqueezed,
    **dict.fromkeys(("view", "reshape"), _sized),
    **dict.fromkeys(("expand", "repeat"), _repeated),
    **dict.fromkeys(("view_as", "expand_as", "reshape_as"), _like_another),
    "flatten": _flattened,
    "ravel": lambda known, arguments: 1,
    "diagonal": lambda known, arguments: known - 1,
    "nonzero": lambda known, arguments: 2,
}

# Operations of several tensors whose results have this number of dimensions, or more.
_DIMENSIONS_OF = {
    "mm": 2, "addmm": 2, "bmm": 3, "baddbmm": 3, "addbmm": 2, "cdist": 2, "outer": 2, "ger": 2, "addr": 2, "mv": 1,
    "addmv": 1, "chain_matmul": 2, "masked_select": 1, "vstack": 2, "column_stack": 2, "dstack": 3, "hstack": 1,
    "conv1d": 2, "conv2d": 3, "conv3d": 4, "conv_transpose1d": 2, "conv_transpose2d": 3, "conv_transpose3d": 4,
    "batch_norm": 2, "group_norm": 2, "grid_sample": 4, "scaled_dot_product_attention": 2,
}  # fmt: skip
_NUMBERS = {"dot", "vdot", "dist"}
_OF_FIRST = {"linear", "layer_norm", "prelu", "index_select", "scatter", "scatter_add", "index_add", "index_copy"}


def combined(name: str, result: Tensor, operands: list[tuple[int, Tensor]], arguments: Arguments) -> Tensor:
    """The result of an operation of tensors, each with its position, other than one that broadcasts them."""
    given = [tensor for _, tensor in operands]
    first = next((tensor for position, tensor in operands if position == 0), None)
    if name in _NUMBERS:
        return replace(result, scalar=True, dims=0)
    if name in _DIMENSIONS_OF:
        return with_at_least(result, _DIMENSIONS_OF[name])
    if name in _OF_FIRST:
        return with_at_least(result, least(first) if first is not None else 1)
    if name == "matmul":
        known = sorted(map(least, given))
        return with_at_least(replace(result, scalar=None), known[-1] - (len(known) < 2 or known[0] < 2))
    if name == "where" and len(arguments.values()) == 1:
        return with_at_least(result, 2)
    if name == "einsum":
        return with_at_least(replace(result, scalar=None), _named_by(arguments.get(0)))
    if name in ("inner", "tensordot", "take", "searchsorted", "bucketize", "kron", "embedding", "embedding_bag"):
        return with_at_least(replace(result, scalar=None if name not in _OF_INDICES else False), 0)
    if name in ("stack", "cat", "concat", "concatenate"):
        # the tensors of a tuple that is only known as a whole have a dimension less
        whole = isinstance(arguments.get(0, "tensors"), Tensor)
        return with_at_least(result, max(max(map(least, given)) - whole + (name == "stack"), 1))
    return result


_OF_INDICES = {"embedding", "embedding_bag"}


def _named_by(equation: Value | None) -> int:
    """The number of dimensions of the result of ``torch.einsum("ij,jk->ik", …)``."""
    text = equation.value if isinstance(equation, Const) else None
    return sum(map(str.isalpha, text.partition("->")[2])) if isinstance(text, str) else 0


def least_after_index(tensor: Tensor, key: Value) -> int:
    """A lower bound of the number of dimensions of ``t[key]``: slices leave them, a number takes one away."""
    keys = key.items if isinstance(key, Sequence) else (key,)
    added = sum(item == NONE for item in keys)
    kept = [item for item in keys if item not in (NONE, Const(...))]
    numbers = [item for item in kept if _is_number(item)]
    slices = sum(isinstance(item, Slice) for item in kept)
    if tensor.scalar:
        return added
    if len(numbers) + slices == len(kept):
        return max(least(tensor), len(kept)) - len(numbers) + added
    lists = [item for item in kept if isinstance(item, Object) and item.kind is Kind.LIST]
    tables = [item for item in kept if isinstance(item, Tensor) and item.scalar is False]
    return slices + added + bool(lists or tables)


def _is_number(value: Value) -> bool:
    typed = isinstance(value, Symbol) and value.type in NUMBER_TYPES
    return typed or isinstance(value, AtLeast) or _number(value) is not None


def _number(value: Value | None) -> int | None:
    return value.value if isinstance(value, Const) and type(value.value) is int else None


# --- sizes -------------------------------------------------------------------------------------------------


def same(before: Tensor, after: Tensor) -> Tensor:
    """An operation that goes element by element."""
    return replace(
        after,
        dims=before.dims,
        loss=replace(after.loss, gathered=before.loss.gathered),
        replica=replace(
            after.replica, split=before.replica.split, padded=before.replica.padded, chunk=before.replica.chunk
        ),
        rows=before.rows,
        literal=before.literal,
        loaded=before.loaded,
    )


def after(before: Tensor, result: Tensor, name: str, arguments: Arguments) -> Tensor:
    """``t.name(...)``; the arguments are those after the tensor itself."""
    result = with_at_least(result, _least_after(before, name, arguments))
    if name in SAME_SHAPE:
        return replace(same(before, result), dims=result.dims)
    split = before.replica.split
    split = None if split in (None, PACKED) else _split_after(split or 0, name, arguments)
    padded = before.replica.padded if name in _KEEP_SIZES else None
    replica = replace(result.replica, split=split, padded=padded, chunk=None)
    known = frozenset[int]() if isinstance(before.loaded, Symbol) else before.rows
    return replace(result, rows=_rows_after(known, name, arguments), replica=replica)


def _split_after(split: int, name: str, arguments: Arguments) -> int | None:
    if name in ("t", "transpose", "swapaxes", "swapdims"):
        return _swapped(split, _dimensions(arguments) or ([0, 1] if name == "t" else []))
    if name == "permute":
        order = _dimensions(arguments)
        return order.index(split) if split in order else None
    dim = _dimension(arguments)
    if name in REDUCTIONS or name in ("softmax", "log_softmax", "select", "logsumexp", "cumsum", "narrow", "chunk"):
        keeps = name.endswith("softmax") or name in ("cumsum", "narrow") or arguments.keyword("keepdim") == Const(True)
        return None if dim is None or (dim == split and not keeps) else _without(split, dim, keeps)
    if name == "squeeze":
        return None if dim is None else _without(split, dim, keeps=False)
    if name == "unsqueeze":
        return None if dim is None else split + (0 <= dim <= split)
    if name == "flatten":
        return split if dim is not None and dim > split else None
    return None


def _swapped(split: int, dims: list[int]) -> int | None:
    if len(dims) != 2 or (min(dims) < 0 and split != 0):
        return None
    if split not in dims:
        # the last two are others than the first, unless there are only two
        return split if min(dims) >= 0 else None
    return dims[1 - dims.index(split)] if min(dims) >= 0 else None


def _without(split: int, dim: int, keeps: bool) -> int | None:
    """Once dimension ``dim`` is gone; a negative one is taken to come after the batch's."""
    if keeps or dim < 0:
        return split
    return None if dim == split else split - (dim < split)


def _rows_after(rows: frozenset[int], name: str, arguments: Arguments) -> frozenset[int]:
    dim = _dimension(arguments)
    if name == "unsqueeze" and dim is not None:
        return frozenset({1}) if dim == 0 else rows
    if name in ("view", "reshape"):
        sizes = _dimensions(arguments)
        return frozenset({sizes[0]}) if sizes and sizes[0] > 0 else frozenset()
    return rows if name in REDUCTIONS and dim is not None and dim > 0 else frozenset()


def _dimensions(arguments: Arguments) -> list[int]:
    """The dimensions or sizes that a call names, one by one or in a tuple, up to the first that is not known."""
    first = arguments.positional[0] if len(arguments.positional) == 1 else None
    values = first.items if isinstance(first, Sequence) else arguments.positional
    named = [arguments.keyword(name) for name in ("dim0", "dim1", "dims")]
    known: list[int] = []
    for value in (*values, *(value for value in named if value is not None)):
        if not isinstance(value, Const) or type(value.value) is not int:
            break
        known.append(value.value)
    return known


def _dimension(arguments: Arguments) -> int | None:
    value = arguments.get(0, "dim") or arguments.keyword("start_dim")
    return value.value if isinstance(value, Const) and isinstance(value.value, int) else None


def after_index(before: Tensor, result: Tensor, key: Value) -> Tensor:
    """``t[key]``: a number takes a dimension away, None adds one, slices leave them."""
    first = key.items[0] if isinstance(key, Sequence) and key.items else key
    rows = frozenset({1}) if first == Const(None) else frozenset[int]()
    replica = replace(result.replica, split=_split_after_index(before.replica.split, key), padded=None, chunk=None)
    return replace(result, rows=rows, replica=replica)


def _split_after_index(split: int | None, key: Value) -> int | None:
    if split in (None, PACKED):
        return None
    place, left = 0, split or 0
    for item in key.items if isinstance(key, Sequence) else (key,):
        if item == Const(None):
            place += 1
        elif left == 0:
            # a slice of the batch is a batch; a row of it is none
            return place if isinstance(item, Slice) else None
        elif isinstance(item, Slice):
            place, left = place + 1, left - 1
        elif isinstance(item, Const) and isinstance(item.value, int):
            left -= 1
        else:
            return None
    return place + left


def split_along(tensor: Tensor, dim: int | None) -> Tensor:
    """The tensor with its batch in another dimension, or in none."""
    return replace(tensor, replica=replace(tensor.replica, split=dim))


def joined(tensors: list[Tensor]) -> int | None:
    """Of operands that are broadcast together: where the batch is, if they agree."""
    known = {tensor.replica.split for tensor in tensors if tensor.replica.split is not None}
    return known.pop() if len(known) == 1 else None


def stacked(split: int | None, dim: Value | None) -> int | None:
    """``torch.stack(ts, dim)``"""
    place = 0 if dim is None else dim.value if isinstance(dim, Const) else None
    if split is None or not isinstance(place, int):
        return None
    return split + (0 <= place <= split)


def agrees(split: int | None, dim: int) -> bool:
    """Whether the batch may be in this dimension: it is, or its dimension is unknown."""
    return split in (None, PACKED, dim)
