"""Simulated GPUs: run any PyTorch program on GPUs that are not there.

with gpus(2):
    model = torch.nn.DataParallel(torch.nn.Linear(4, 2).cuda())
    model(torch.randn(8, 4)).sum().backward()

PyTorch is imported when a simulation is asked for: the pytest plugin lives in this package too.
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
