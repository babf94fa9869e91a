"""Calls that are known to have no effect that matters to a slice; any other call may change its arguments.

The effects that matter are on where tensors are, which modules and hooks there are, and the settings of the process: a
call that changes only the values of tensors, as a step of an optimizer does, is pure in this sense.
"""

from __future__ import annotations

BUILTINS = {
    "abs", "all", "any", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "dir", "divmod", "enumerate",
    "filter", "float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "id", "input", "int", "isinstance",
    "issubclass", "iter", "len", "list", "locals", "max", "min", "object", "oct", "open", "ord", "pow", "print",
    "property", "range", "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "super", "tuple", "type",
    "zip",
}  # fmt: skip
FRESH_BUILTINS = {
    "abs", "all", "any", "bool", "callable", "chr", "divmod", "float", "format", "hasattr", "hash", "id", "int",
    "isinstance", "issubclass", "len", "ord", "pow", "print", "range", "repr", "round", "str", "type",
}  # fmt: skip
"""Those whose results hold nothing of what they are given."""

MODULES = (
    "torch", "torch.nn", "torch.nn.functional", "torch.optim", "torch.optim.lr_scheduler", "torch.utils.data",
    "torch.utils.data.distributed", "torch.linalg", "torch.fft", "torch.special", "torch.distributions", "torch.amp",
    "torch.cuda.amp", "torch.autograd", "torch.nn.parallel", "torch.nn.utils.rnn", "torch.optim.swa_utils",
    "math", "copy", "json", "itertools", "collections", "time", "datetime", "pathlib", "os.path", "re", "string",
    "dataclasses", "typing", "numpy", "argparse", "operator", "torchvision.transforms", "torchvision.utils",
    "torchvision.datasets", "torchvision.models",
)  # fmt: skip
"""Modules whose functions and classes, called for their results, change nothing; those with a ``_`` at the end do."""

FUNCTIONS = {
    "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.current_device", "torch.cuda.synchronize",
    "torch.cuda.empty_cache", "torch.cuda.Stream", "torch.cuda.Event", "torch.cuda.get_device_name",
    "torch.cuda.memory_allocated", "torch.cuda.max_memory_allocated", "torch.cuda.reset_peak_memory_stats",
    "torch.cuda.current_stream", "torch.cuda.device", "torch.cuda.stream", "torch.distributed.get_rank",
    "torch.distributed.get_world_size", "torch.distributed.is_initialized", "torch.distributed.is_available",
    "torch.backends.mps.is_available", "torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_",
    "functools.partial", "functools.wraps", "functools.lru_cache", "functools.cache", "os.environ.get", "os.getenv",
    "os.makedirs", "os.mkdir", "os.listdir", "os.path.join", "glob.glob", "gc.collect", "time.sleep",
    "torch.save", "torch.autograd.backward", "numpy.save", "numpy.savez", "json.dump", "pickle.dump", "yaml.dump",
    "warnings.warn", "warnings.filterwarnings", "warnings.simplefilter",
}  # fmt: skip
"""Functions that change nothing, also where they are called as statements."""

SWITCHES = {
    "torch.manual_seed", "torch.seed", "torch.set_default_device", "torch.set_default_dtype", "torch.compile",
    "torch.set_default_tensor_type", "torch.set_grad_enabled", "torch.autograd.set_detect_anomaly",
    "torch.set_float32_matmul_precision", "torch.use_deterministic_algorithms", "numpy.seterr",
}  # fmt: skip
"""Functions of pure modules that change the process, or what they are given, also where their result is used."""

TELLING_MODULES = (
    "logging", "loguru", "matplotlib", "seaborn", "plotly", "wandb", "mlflow", "tensorboard", "tensorboardX", "tqdm",
    "torch.utils.tensorboard", "pprint", "rich", "tabulate", "termcolor", "colorama", "traceback", "IPython",
    "torchsummary", "torchinfo", "cv2.imshow", "cv2.imwrite", "click.echo", "faulthandler", "pdb", "shutil",
)  # fmt: skip
"""Packages that only report something: none of their effects or results come back into the program."""

TELLING = {"print", "pprint", "info", "debug", "warning", "warn", "error", "exception", "critical", "log",
           "log_metrics", "set_description", "set_postfix", "set_postfix_str", "add_scalar", "add_scalars",
           "add_image", "add_images", "add_figure", "add_graph", "add_histogram", "write", "flush", "savefig",
           "imsave"}  # fmt: skip
"""Methods that only report something, if the program defines none of this name."""

MOVES = {"to", "cuda", "cpu", "half", "float", "double", "bfloat16", "type"}
"""Methods that change a module in place, but not a tensor."""

METHODS = {
    # tensors and arrays
    "abs", "add", "all", "allclose", "any", "argmax", "argmin", "argsort", "bmm", "bool", "byte", "cat", "ceil",
    "chunk", "clamp", "clone", "contiguous", "cos", "cumsum", "detach", "diff", "dim", "div", "dot", "element_size",
    "eq", "exp",
    "expand", "expand_as", "flatten", "flip", "floor", "gather", "ge", "gt", "index_select", "int", "is_contiguous",
    "is_floating_point", "isnan", "item", "le", "log", "log10", "log2", "long", "lt", "masked_fill", "matmul", "max",
    "mean", "median", "min", "mm", "mul", "narrow", "ndimension", "ne", "neg", "nelement", "new_empty", "new_full",
    "new_ones", "new_tensor", "new_zeros", "nonzero", "norm", "numel", "numpy", "permute", "pow", "prod", "ravel",
    "reciprocal", "relu", "repeat", "repeat_interleave", "reshape", "roll", "round", "rsqrt", "scatter", "select",
    "shape", "sigmoid", "sign", "sin", "size", "softmax", "sort", "split", "sqrt", "square", "squeeze", "stack", "std",
    "stride", "sub", "sum", "swapaxes", "t", "tanh", "tile", "tobytes", "tolist", "topk", "transpose", "tril", "triu",
    "type_as", "unbind", "unfold", "unique", "unsqueeze", "var", "view", "view_as", "where", "astype", "get_device",
    "data_ptr", "is_pinned", "pin_memory", "argwhere", "log_softmax", "bincount", "einsum", "record_stream",
    # training: values alone
    "backward", "step", "zero_grad", "get_last_lr", "scale", "unscale_",
    # modules and optimizers that are asked
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers",
    "named_buffers", "state_dict", "get_submodule", "get_parameter", "get_buffer", "extra_repr",
    # containers and texts that are asked
    "items", "keys", "values", "get", "copy", "count", "index", "join", "format", "startswith", "endswith", "lower",
    "upper", "strip", "lstrip", "rstrip", "replace", "splitlines", "partition", "rpartition", "encode", "decode",
    "union", "intersection", "difference", "issubset", "exists", "is_file", "is_dir", "glob", "rglob", "iterdir",
    "with_suffix", "mkdir", "read", "readline", "readlines", "read_text", "read_bytes", "close", "elapsed_time",
    "record", "synchronize", "parse_args", "parse_known_args", "time",
}  # fmt: skip
"""Methods that change nothing but values, where the program has none of this name."""

FRESH_METHODS = METHODS - {
    "parameters", "named_parameters", "modules", "named_modules", "children", "named_children", "buffers", "detach",
    "named_buffers", "state_dict", "get_submodule", "get_parameter", "get_buffer", "items", "keys", "values", "get",
    "copy", "union", "intersection", "difference", "view", "view_as", "reshape", "squeeze", "unsqueeze", "transpose",
    "permute", "t", "expand", "expand_as", "contiguous", "flatten", "narrow", "select", "split", "chunk", "unbind",
    "numpy", "type_as", "pin_memory", "sort", "parse_args", "parse_known_args",
}  # fmt: skip
"""Those whose results hold nothing of what they are called on."""

DECORATORS = {"staticmethod", "classmethod", "property", "abstractmethod", "dataclass", "contextmanager", "wraps",
              "lru_cache", "cache", "cached_property", "no_grad", "inference_mode", "enable_grad", "autocast",
              "overload", "override", "setter", "total_ordering"}  # fmt: skip
"""Decorators that change nothing but the function or the class itself."""


def is_pure(name: str) -> bool:
    """Whether the function with this dotted name, called for its result, changes nothing."""
    if name in FUNCTIONS:
        return True
    module, _, function = name.rpartition(".")
    return module in MODULES and name not in SWITCHES and not (function.endswith("_") and not function.endswith("__"))


def is_telling(name: str) -> bool:
    """Whether a function with this dotted name only reports something."""
    return any(name == module or name.startswith(f"{module}.") for module in TELLING_MODULES)
