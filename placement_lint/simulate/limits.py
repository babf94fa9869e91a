"""What CUDA refuses and the CPU takes: kernels that CUDA lacks, results that vary, indices that are out of range.

The names are those that PyTorch's CUDA code gives (`aten/src/ATen/native/cuda`, `alertNotDeterministic`,
`AT_DISPATCH_*`).
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .machine import ASSERTED, CudaError, NotSimulated, here
from .mismatch import lacks_kernel
from .placement import ANYWHERE, Tensor, label_of

Rule = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

# --- results that vary from run to run --------------------------------------------------------------

VARYING: dict[str, str] = {
    **{
        f"{prefix}{name}_backward": f"{name}_backward_cuda"
        for prefix, name in (
            ("_", "adaptive_avg_pool2d"),
            ("_", "adaptive_avg_pool3d"),
            ("", "adaptive_max_pool2d"),
            ("", "avg_pool3d"),
            ("", "max_pool3d_with_indices"),
            ("", "fractional_max_pool2d"),
            ("", "fractional_max_pool3d"),
            ("", "reflection_pad2d"),
            ("", "replication_pad1d"),
            ("", "replication_pad2d"),
            ("", "replication_pad3d"),
            ("", "grid_sampler_2d"),
            ("", "grid_sampler_3d"),
        )
    },
    **{
        f"{name}_backward": f"{name}_backward_out_cuda"
        for name in (
            "reflection_pad1d",
            "reflection_pad3d",
            "upsample_linear1d",
            "upsample_bilinear2d",
            "upsample_bicubic2d",
            "upsample_trilinear3d",
        )
    },
    "_ctc_loss_backward": "ctc_loss_backward_gpu",
    "nll_loss2d_forward": "nll_loss2d_forward_out_cuda_template",
    "max_unpool2d": "max_unpooling2d_forward_out",
    "max_unpool3d": "max_unpooling3d_forward_out",
    "kthvalue": "kthvalue CUDA",
    "median.dim": "median CUDA with indices output",
    "put_": "put_",
    "histc": "_histc_cuda",
    "cumsum": "cumsum_cuda_kernel",
    "bincount": "_bincount_cuda",
}
# Some vary for some operands only.
VARYING_IF: dict[str, Callable[[tuple[Any, ...]], bool]] = {
    "cumsum": lambda args: bool(args[0].is_floating_point() or args[0].is_complex()),
    "bincount": lambda args: len(args) > 1 and args[1] is not None,
}
ALERT = (
    "{} does not have a deterministic implementation, but you set 'torch.use_deterministic_algorithms(True)'. "
    "You can turn off determinism just for this operation, or you can use the 'warn_only=True' option, if that's "
    "acceptable for your application. You can also file an issue at https://github.com/pytorch/pytorch/issues to help "
    "us prioritize adding deterministic support for this operation."
)


def _alert(func: Any, args: tuple[Any, ...]) -> None:
    kernel = _find(VARYING, func)
    if kernel is None or not torch.are_deterministic_algorithms_enabled():
        return
    condition = VARYING_IF.get(_name(func))
    if condition is not None and not condition(args):
        return
    if not torch.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(ALERT.format(kernel))
    warnings.warn(ALERT.format(kernel), stacklevel=2)


# --- kernels that CUDA lacks ------------------------------------------------------------------------

# Products of integers, by what the dispatch macro calls the kernel.
FLOATS_ONLY = {
    "mm": "addmm_cuda",
    "addmm": "addmm_cuda",
    "bmm": "baddbmm_cuda",
    "baddbmm": "baddbmm_cuda",
    "mv": "addmv_impl_cuda",
    "addmv": "addmv_impl_cuda",
    "dot": "dot",
}
DTYPE_NAMES = {
    torch.bool: "Bool",
    torch.uint8: "Byte",
    torch.int8: "Char",
    torch.int16: "Short",
    torch.int32: "Int",
    torch.int64: "Long",
}
# Composite operators choose these for tensors of the CPU, and others for those of a GPU.
_CHOSEN = re.compile(r"mkldnn_|\w+_for_cpu|_fused_sdp_choice|_validate_|_linalg_svd")
# `aten/src/ATen/mps/MPSFallback.mm` gives these to the CPU.
_HANDED_OVER = ("embedding_renorm_", "col2im", "upsample_nearest3d")
FALLBACK = "PYTORCH_ENABLE_MPS_FALLBACK"
NO_KERNEL = {
    "cuda": (
        "Could not run '{}' with arguments from the 'CUDA' backend. This could be because the operator doesn't exist "
        "for this backend, or was omitted during the selective/custom build process (if using custom build)."
    ),
    "mps": (
        "The operator '{}' is not currently implemented for the MPS device. If you want this op to be considered for "
        "addition please comment on https://github.com/pytorch/pytorch/issues/141287 and mention use-case, that "
        f"resulted in missing op as well as commit hash {torch.version.git_version}. As a temporary fix, you can set "
        f"the environment variable `{FALLBACK}=1` to use the CPU as a fallback for this op. WARNING: this will be "
        "slower than running natively on MPS."
    ),
}
FALLS_BACK = (
    "The operator '{}' is not currently supported on the MPS backend and will fall back to run on the CPU. This may "
    "have performance implications."
)


def _lacking(func: Any) -> tuple[str, ...]:
    """The kinds of GPU for which an operator has no kernel; PyTorch has no table of those for XPU."""
    if func.namespace == "quantized":
        return ("cuda", "mps", "xpu")
    if func.namespace != "aten" or _CHOSEN.match(_name(func)) or _name(func) in _HANDED_OVER:
        return ()
    return tuple(kind for kind in NO_KERNEL if lacks_kernel(func, kind.upper()))


def _refuse_kernel(func: Any) -> None:
    kind = here().kind
    if func.namespace == "quantized":
        raise NotSimulated(f"{func.name()} on a GPU")
    if kind != "mps" or os.environ.get(FALLBACK, "0") == "0":
        raise NotImplementedError(NO_KERNEL[kind].format(func.name()))
    warnings.warn(FALLS_BACK.format(func.name()), stacklevel=2)


def _require_dtype(func: Any, args: tuple[Any, ...]) -> None:
    kernel = FLOATS_ONLY.get(_name(func))
    dtype = next((value.dtype for value in args if isinstance(value, Tensor)), None)
    if kernel is not None and dtype in DTYPE_NAMES:
        raise NotImplementedError(f"\"{kernel}\" not implemented for '{DTYPE_NAMES[dtype]}'")


# --- indices out of range ---------------------------------------------------------------------------

INDEXING = re.compile(
    r"(_unsafe_)?_?(index|embedding|gather|scatter|nll_loss|take|put_|multi_margin|multilabel_margin|one_hot|max_unpool)"
)
_OUT_OF_RANGE = re.compile(r"out of (bounds|range)|Invalid index|invalid target|index \S+ is out", re.IGNORECASE)
_HOST_CHECKS = ("Dimension out of range",)


def is_assertion(error: Exception) -> bool:
    """Whether a CUDA kernel would find the fault: a device-side assert."""
    text = str(error)
    return bool(_OUT_OF_RANGE.search(text)) and not text.startswith(_HOST_CHECKS)


# --- the rule around a rule -------------------------------------------------------------------------


def limited(func: Any, rule: Rule) -> Rule:
    """`rule`, with what CUDA refuses of this operator."""
    if INDEXING.match(_name(func)):
        rule = _asserting(rule)
    lacking = _lacking(func)
    if not (_find(VARYING, func) or lacking or _name(func) in FLOATS_ONLY):
        return rule

    def checked(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if here().kind in lacking and _on_gpu(args):
            _refuse_kernel(func)
        if here().kind == "cuda" and _on_gpu(args):
            _require_dtype(func, args)
            _alert(func, args)
        return rule(func, args, kwargs)

    return checked


def _asserting(rule: Rule) -> Rule:
    def asserted(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return rule(func, args, kwargs)
        except (IndexError, RuntimeError) as error:
            if here().kind != "cuda" or not _on_gpu(args) or not is_assertion(error):
                raise
            here().broken = True
            raise CudaError(ASSERTED) from error

    return asserted


def _on_gpu(values: Iterable[Any]) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if label_of(value) not in (None, ANYWHERE):
                return True
        elif type(value) in (list, tuple) and _on_gpu(value):
            return True
    return False


def _name(func: Any) -> str:
    name: str = func._schema.name
    return name.partition("::")[2]


def _find(table: dict[str, Any], func: Any) -> Any:
    """What a table says of an operator, by its name with or without the overload."""
    name = _name(func)
    return table.get(f"{name}.{func._schema.overload_name}") or table.get(name)
