"""Simulated GPUs: run PyTorch programs on GPUs that the machine does not have.

with gpus(2):
    model = torch.nn.DataParallel(torch.nn.Linear(4, 2).cuda())
    model(torch.randn(8, 4)).sum().backward()

PyTorch is imported when a simulation starts, because pytest imports the plugin in this package in every run.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import NotSimulated
    from .simulation import gpus

__all__ = ["NotSimulated", "gpus"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .machine import NotSimulated
    from .simulation import gpus

    globals().update(NotSimulated=NotSimulated, gpus=gpus)
    return globals()[name]
