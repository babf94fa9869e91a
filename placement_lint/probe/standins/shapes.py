"""Layers, losses and views for which the shapes of what they are given are fitted. Devices never change."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import torch

from placement_lint.probe.standins.callers import unpacked
from placement_lint.probe.standins.sizes import COUNT, SIDE, WIDTH, used
from placement_lint.probe.standins.things import F, StandIn


def sized(x: Any, dim: int, size: int) -> Any:
    """The tensor with this size in one dimension: repeated, and cut."""
    if x.shape[dim] == size or not x.shape[dim]:
        return x
    return torch.cat([x] * -(-size // x.shape[dim]), dim).narrow(dim, 0, size)


def dimensional(x: Any, dims: int) -> Any:
    """The tensor with this number of dimensions, the first one as it is, and none of them long."""
    if x.dim() > dims:
        return x.flatten(dims - 1)[..., :SIDE]
    while x.dim() < dims:
        x = x.unsqueeze(-1).expand(*x.shape, SIDE)
    return x


def shaped(x: Any, shape: Any) -> Any:
    if x.shape == shape:
        return x
    return sized(x.flatten(), 0, max(1, torch.Size(shape).numel())).reshape(shape)


def covering(x: Any, kernel: Any) -> Any:
    """The tensor with at least the size of a kernel in its last dimensions."""
    for i, size in enumerate(kernel, start=-len(kernel)):
        x = sized(x, i, max(x.shape[i], size))
    return x


def for_linear(x: Any, weight: Any, *rest: Any) -> Any:
    if x.shape[-1] != weight.shape[-1]:
        x = sized(x.flatten(1) if x.dim() > 3 else x, -1, weight.shape[-1])
    return (x if x.is_floating_point() else x.to(weight.dtype), weight, *rest)


def for_convolution(x: Any, weight: Any, *rest: Any, groups: int = 1, **named: Any) -> Any:
    groups = rest[4] if len(rest) > 4 else groups
    is_sample = (
        x.dim() == weight.dim() - 1 and x.shape[0] == weight.shape[1] * groups
    )  # and not a batch of another shape
    if x.dim() != weight.dim() and not is_sample:
        x = dimensional(x, weight.dim())
    x = covering(sized(x, 1 if x.dim() == weight.dim() else 0, weight.shape[1] * groups), weight.shape[2:])
    return (x if x.is_floating_point() else x.to(weight.dtype), weight, *rest)


def for_pooling(dims: int) -> Callable[..., Any]:
    def fit(x: Any, kernel: Any, *rest: Any) -> Any:
        kernel = (kernel,) * dims if isinstance(kernel, int) else kernel
        return (covering(x, kernel), kernel, *rest)

    return fit


def for_transposed(x: Any, weight: Any, *rest: Any) -> Any:
    return (sized(dimensional(x, weight.dim()), 1, weight.shape[0]), weight, *rest)


def for_norm(x: Any, mean: Any, *rest: Any) -> Any:
    return (x if mean is None else sized(x, 1, mean.shape[0]), mean, *rest)


def for_layer_norm(x: Any, shape: Any, *rest: Any) -> Any:
    return (sized(x, -1, shape[-1]), shape, *rest)


def for_embedding(x: Any, weight: Any, *rest: Any) -> Any:
    if x.is_floating_point() and x.dim() > 2:
        x = x.flatten(1)[:, :WIDTH]
    if x.is_floating_point() or (x.numel() and not 0 <= int(x.min()) <= int(x.max()) < len(weight)):
        x = x.long() % len(weight)
    return (x, weight, *rest)


def for_classes(x: Any, target: Any, *rest: Any) -> Any:
    if target.is_floating_point() and target.shape == x.shape:
        return (x, target, *rest)
    target = shaped(target, torch.Size((*x.shape[:1], *x.shape[2:])) if x.dim() > 1 else torch.Size(()))
    ignored = target.long() < 0
    return (x, torch.where(ignored, target.long(), target.long() % x.shape[1 if x.dim() > 1 else 0]), *rest)


def for_values(x: Any, target: Any, *rest: Any) -> Any:
    return (x, shaped(target, x.shape).to(x.dtype), *rest)


plain_view = torch.Tensor.view


def for_view(x: Any, *sizes: Any) -> Any:
    if not sizes or isinstance(sizes[0], torch.dtype):
        return (x, *sizes)
    sizes = tuple(sizes[0]) if isinstance(sizes[0], (tuple, list)) else sizes
    sizes = tuple(int(size) for size in sizes)
    rest = torch.Size([size for size in sizes if size != -1]).numel()
    if not rest or (x.numel() % rest == 0 if -1 in sizes else x.numel() == rest):
        try:
            plain_view(x, *sizes)
        except RuntimeError:  # of one that is not contiguous, which old versions of PyTorch made less often
            x = x.contiguous()
        return (x, *sizes)
    if sizes[0] in (-1, x.shape[0]):
        return (sized(x.flatten(1) if x.dim() > 1 else x[:, None], 1, rest // max(1, sizes[0])), *sizes)
    return (sized(x.flatten(), 0, rest), *sizes)


def indexing(plain: Any) -> Any:
    """Indexing, by which old versions of PyTorch also took the number out of a loss."""

    def indexed(x: Any, key: Any) -> Any:
        if type(key) is int and key == 0 and not x.dim():
            used.add("shapes")
            return x
        return plain(x, key)

    return indexed


def storing(plain: Any) -> Any:
    """The same for an assignment to a part of a tensor."""

    def stored(x: Any, key: Any, value: Any) -> None:
        try:
            plain(x, key, value)
        except RuntimeError as error:
            if not isinstance(value, torch.Tensor) or not OTHER_SHAPE.search(str(error)):
                raise
            used.add("shapes")
            plain(x, key, shaped(value, x[key].shape))

    return stored


def packing(plain: Any) -> Any:
    """``pack_padded_sequence``, whose result had two parts in old versions of PyTorch."""

    @functools.wraps(plain)
    def packed(*given: Any, **named: Any) -> Any:
        result = plain(*given, **named)
        if unpacked(sys._getframe(1)) != 2:
            return result
        used.add("shapes")
        return result[:2]

    return packed


OTHER_SHAPE = re.compile("^expand|shape mismatch|must match the existing size")  # in the words of an error


def for_copy(x: Any, source: Any, *rest: Any) -> Any:
    fits = not isinstance(source, torch.Tensor) or all(
        size in (1, own) for size, own in zip(source.shape[::-1], x.shape[::-1], strict=False)
    )
    return (x, source if fits and source.dim() <= x.dim() else shaped(source, x.shape), *rest)


def for_squeeze(x: Any, dim: Any, *rest: Any) -> Any:
    while isinstance(dim, int) and x.dim() <= dim:
        x = x.unsqueeze(-1)
    return (x, dim, *rest)


def for_mask(x: Any, mask: Any, *rest: Any) -> Any:
    is_old = isinstance(mask, torch.Tensor) and mask.dtype is torch.uint8  # as masks were before there was torch.bool
    return (x, mask.bool() if is_old else mask, *rest)


def for_recurrent(layer: Any, x: Any, *rest: Any) -> Any:
    if isinstance(x, torch.Tensor):
        x = sized(x.flatten(2) if x.dim() > 3 else x if x.dim() > 1 else x[:, None], -1, layer.input_size)
    return (layer, x, *rest)


FITTED: tuple[tuple[Any, tuple[str, ...], Callable[..., Any]], ...] = (
    (F, ("linear",), for_linear),
    (F, ("conv1d", "conv2d", "conv3d"), for_convolution),
    (F, ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"), for_transposed),
    (F, ("avg_pool1d", "max_pool1d"), for_pooling(1)),
    (F, ("avg_pool2d", "max_pool2d"), for_pooling(2)),
    (F, ("avg_pool3d", "max_pool3d"), for_pooling(3)),
    (F, ("batch_norm", "instance_norm"), for_norm),
    (F, ("layer_norm",), for_layer_norm),
    (F, ("embedding",), for_embedding),
    (F, ("cross_entropy", "nll_loss"), for_classes),
    (F, ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
         "binary_cross_entropy_with_logits", "kl_div"), for_values),
    (torch.Tensor, ("view", "reshape"), for_view),
    (torch.Tensor, ("masked_fill", "masked_fill_", "masked_scatter", "masked_scatter_", "masked_select"), for_mask),
    (torch.Tensor, ("squeeze",), for_squeeze),
    (torch.Tensor, ("copy_",), for_copy),
    (torch.nn.LSTM, ("forward",), for_recurrent),
    (torch.nn.GRU, ("forward",), for_recurrent),
    (torch.nn.RNN, ("forward",), for_recurrent),
)  # fmt: skip


def fitting(plain: Any, fit: Callable[..., Any]) -> Any:
    """A function whose tensors are reshaped to fit its arguments; an argument that is not a tensor becomes one."""

    @functools.wraps(plain)
    def fitted(*given: Any, **named: Any) -> Any:
        if len(given) > 1 or fit is for_view:
            real = tuple(
                one._tensor(COUNT) if isinstance(one, StandIn) and not i else one for i, one in enumerate(given)
            )
            given = fit(*real)
            if any(isinstance(one, torch.Tensor) and one is not other for one, other in zip(given, real, strict=False)):
                used.add("shapes")
        return plain(*given, **named)

    return fitted


def install_shapes() -> None:
    for owner, names, fit in FITTED:
        for name in names:
            setattr(owner, name, fitting(getattr(owner, name), fit))
    packer: Any = torch.nn.utils.rnn
    packer.pack_padded_sequence = packing(packer.pack_padded_sequence)
    indexable: Any = torch.Tensor
    indexable.__getitem__ = indexing(indexable.__getitem__)
    indexable.__setitem__ = storing(indexable.__setitem__)
