"""What operations do to the first size of a tensor, and to the dimension along which DataParallel split it."""

from __future__ import annotations

from placement_lint.flow.api.torch_names import REDUCTIONS, SAME_SHAPE
from placement_lint.flow.domain.arguments import Arguments
from placement_lint.flow.domain.record import replace
from placement_lint.flow.domain.values import SLICE, AtLeast, Const, Sequence, Tensor, Value

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
    if tensor.per_replica:
        return _OF_LOSSES.get(name)
    return _OF_NUMBER.get(name) if tensor.scalar is True else None


def same(before: Tensor, after: Tensor) -> Tensor:
    """An operation that goes element by element."""
    return replace(
        after,
        gathered=before.gathered,
        split=before.split,
        padded=before.padded,
        chunk=before.chunk,
        rows=before.rows,
        literal=before.literal,
        loaded=before.loaded,
    )


def after(before: Tensor, result: Tensor, name: str, arguments: Arguments) -> Tensor:
    """``t.name(...)``; the arguments are those after the tensor itself."""
    if name in SAME_SHAPE:
        return same(before, result)
    split = None if before.split in (None, PACKED) else _split_after(before.split or 0, name, arguments)
    padded = before.padded if name in _KEEP_SIZES else None
    return replace(result, split=split, rows=_rows_after(before.rows, name, arguments), padded=padded, chunk=None)


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
    return replace(result, split=_split_after_index(before.split, key), rows=rows, padded=None, chunk=None)


def _split_after_index(split: int | None, key: Value) -> int | None:
    if split in (None, PACKED):
        return None
    place, left = 0, split or 0
    for item in key.items if isinstance(key, Sequence) else (key,):
        if item == Const(None):
            place += 1
        elif left == 0:
            # a slice of the batch is a batch; a row of it is none
            return place if item == SLICE else None
        elif item == SLICE:
            place, left = place + 1, left - 1
        elif isinstance(item, Const) and isinstance(item.value, int):
            left -= 1
        else:
            return None
    return place + left


def joined(tensors: list[Tensor]) -> int | None:
    """Of operands that are broadcast together: where the batch is, if they agree."""
    known = {tensor.split for tensor in tensors if tensor.split is not None}
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
