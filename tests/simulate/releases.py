"""Differences between the versions of torch on which the simulation runs."""

import inspect
import sys

import torch
import torch.utils.data.dataloader
from packaging.version import Version

RELEASE = Version(torch.__version__).release[:2]
SAME_DEVICE = "Expected all tensors to be on the same device, but "

# How `DataParallel` copies parameters: in older releases what is empty loses its shape, and complex numbers arrive as
# pairs of real ones.
EMPTY_KEEPS_ITS_SHAPE = torch._utils._unflatten_dense_tensors(torch.ones(0), [torch.ones(0, 4)])[0].dim() == 2
COMPLEX_ARRIVES = "is_complex" in inspect.getsource(sys.modules["torch.nn.parallel.replicate"])

# `DataLoader(pin_memory=True)` without a GPU: older releases leave it in silence.
PINNING_IN_VAIN_WARNS = "no accelerator is found" in inspect.getsource(torch.utils.data.dataloader)


def odd_operand(name, device, common, method=""):
    """The words of a kernel's own check, up to the method where none is given."""
    if RELEASE >= (2, 8):
        where = (
            f"got {name} is on {device}, different from other tensors on {common} (when checking argument in method "
        )
    else:
        where = (
            f"found at least two devices, {common} and {device}! (when checking argument for argument {name} in method "
        )
    return f"{SAME_DEVICE}{where}{method}"
