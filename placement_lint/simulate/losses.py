"""Functions for which C++ makes tensors unseen, on the CPU: the weights of a CTC loss, the rank of an empty matrix."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

from .placement import Tensor, device_of, settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from .patches import Patches

NONE, MEAN, SUM = range(3)


@functools.cache
def averaged_openly(ctc_loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """`aten/src/ATen/native/LossCTC.cpp`: the sum over each target's length, then the mean."""

    @functools.wraps(ctc_loss)
    def loss(
        predictions: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int = 0,
        reduction: int = MEAN,
        zero_infinity: bool = False,
    ) -> Tensor:
        losses = ctc_loss(predictions, targets, input_lengths, target_lengths, blank, NONE, zero_infinity=zero_infinity)
        if reduction == MEAN:
            lengths = torch.as_tensor(target_lengths, device=device_of(losses)).clamp_min(1)
            return (losses / lengths).mean()
        return losses.sum() if reduction == SUM else losses

    return loss


@functools.cache
def with_its_operand(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    @functools.wraps(function)
    def placed(operand: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        result = function(operand, *args, **kwargs)
        settle(result, device_of(operand))
        return result

    return placed


def install(patches: Patches) -> None:
    patches.set(torch.linalg, "matrix_rank", with_its_operand(torch.linalg.matrix_rank))
    patches.set(torch, "ctc_loss", averaged_openly(torch.ctc_loss))
