"""The meaning of torch's names for placement, as data.

The facts are those of torch 2.13, unless an entry names another version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

# --- names ---------------------------------------------------------------------------------------------

# Modules inside torch that define public names, and the public name that the tables use.
_ALIASES = (
    (re.compile(r"torch\.nn\.parallel\.(?:data_parallel\.)?DataParallel"), "torch.nn.DataParallel"),
    (
        re.compile(r"torch\.nn\.parallel\.data_parallel(?:\.data_parallel)?"),
        "torch.nn.parallel.data_parallel",
    ),
    (re.compile(r"torch\.nn\.parallel\.distributed\.(\w+)"), r"torch.nn.parallel.\1"),
    (re.compile(r"torch\.nn\.parameter\.(\w+)"), r"torch.nn.\1"),
    (re.compile(r"torch\.nn\.modules\.(?:\w+\.)?([A-Z]\w*)"), r"torch.nn.\1"),
    (re.compile(r"torch\.optim\.(?!swa_utils\.)[a-z_]\w*\.([A-Z]\w*)"), r"torch.optim.\1"),
    (
        re.compile(r"torch\.utils\.data\.(?:dataloader|dataset|distributed|sampler)\.(\w+)"),
        r"torch.utils.data.\1",
    ),
    (re.compile(r"torch\.(?:functional|_C|_VF|_C\._VariableFunctions)\.(\w+)"), r"torch.\1"),
    (re.compile(r"torch\.linalg\.(norm|matmul)"), r"torch.\1"),
    (
        re.compile(r"torch\.distributed\.(?:fsdp|_composable)\.(?:\w+\.)*(FullyShardedDataParallel|fully_shard)"),
        r"torch.distributed.fsdp.\1",
    ),
    (re.compile(r"torch\.distributed\._tensor\.(?:api\.)?(distribute_module)"), r"torch.distributed.tensor.\1"),
    (re.compile(r"torch\.nn\.utils\.(?:weight_norm|spectral_norm)\.(\w+)"), r"torch.nn.utils.\1"),
    (re.compile(r"torch\.quantization\.(?:\w+\.)*(\w+)"), r"torch.ao.quantization.\1"),
    (re.compile(r"torch\.autograd\.variable\.Variable"), "torch.autograd.Variable"),
    (re.compile(r"torch\.distributed\.distributed_c10d\.(\w+)"), r"torch.distributed.\1"),
    (re.compile(r"torch\._tensor\.Tensor"), "torch.Tensor"),
    (re.compile(r"np\.(\w+)"), r"numpy.\1"),
)


@lru_cache(maxsize=8192)
def canonical(name: str) -> str:
    """The public name of an object that torch defines in another module."""
    if not name.startswith(("torch.", "np.")):
        return name
    for pattern, public in _ALIASES:
        if pattern.fullmatch(name):
            return pattern.sub(public, name)
    return name


# Modules from which ``import *`` imports names that are in the tables here.
STAR_MODULES = (
    "torch",
    "torch.nn",
    "torch.nn.functional",
    "torch.nn.parallel",
    "torch.optim",
    "torch.utils.data",
    "torch.autograd",
    "torch.nn.utils",
)

# --- factories -----------------------------------------------------------------------------------------


class Shape(Enum):
    """How the arguments of a factory determine whether its result is 0-dim."""

    SIZES = auto()  # torch.zeros(2, 3) or torch.zeros((2, 3)): 0-dim for () only
    SIZE = auto()  # torch.full((2, 3), v): the first argument is the size
    LAST_SIZE = auto()  # torch.randint(0, 9, (2, 3))
    ALWAYS_DIMENSIONS = auto()  # torch.arange(3), torch.eye(3)
    DATA = auto()  # torch.tensor(data): as deep as the data
    ARRAY = auto()  # torch.from_numpy(a): like the array
    CONSTRUCTOR = auto()  # torch.FloatTensor(data): never 0-dim


FACTORIES = {
    "torch.zeros": Shape.SIZES,
    "torch.ones": Shape.SIZES,
    "torch.empty": Shape.SIZES,
    "torch.rand": Shape.SIZES,
    "torch.randn": Shape.SIZES,
    "torch.full": Shape.SIZE,
    "torch.randint": Shape.LAST_SIZE,
    "torch.arange": Shape.ALWAYS_DIMENSIONS,
    "torch.range": Shape.ALWAYS_DIMENSIONS,
    "torch.linspace": Shape.ALWAYS_DIMENSIONS,
    "torch.logspace": Shape.ALWAYS_DIMENSIONS,
    "torch.randperm": Shape.ALWAYS_DIMENSIONS,
    "torch.eye": Shape.ALWAYS_DIMENSIONS,
    "torch.hann_window": Shape.ALWAYS_DIMENSIONS,
    "torch.hamming_window": Shape.ALWAYS_DIMENSIONS,
    "torch.tril_indices": Shape.ALWAYS_DIMENSIONS,
    "torch.triu_indices": Shape.ALWAYS_DIMENSIONS,
    "torch.tensor": Shape.DATA,
    "torch.as_tensor": Shape.DATA,
    "torch.scalar_tensor": Shape.DATA,
    "torch.from_numpy": Shape.ARRAY,
    "torch.frombuffer": Shape.ALWAYS_DIMENSIONS,
    **{
        f"torch.{kind}Tensor": Shape.CONSTRUCTOR
        for kind in ("", "Float", "Double", "Half", "Long", "Int", "Short", "Byte", "Char", "Bool")
    },
}

# Factories that always build on the CPU, whatever the default device is (they share or wrap host memory).
HOST_FACTORIES = {"torch.from_numpy", "torch.frombuffer"} | {name for name in FACTORIES if name.endswith("Tensor")}
HOST_FACTORIES.remove("torch.Tensor")  # its type is the default type

# Given a tensor, these return one on the same device instead of a new one on the CPU.
FACTORIES_OF_DATA = {"torch.as_tensor", "torch.tensor"}

CUDA_CONSTRUCTORS = {
    f"torch.cuda.{kind}Tensor"
    for kind in ("Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Byte", "Char", "Bool")
}

LIKE_FACTORIES = {f"torch.{name}_like" for name in ("zeros", "ones", "empty", "full", "rand", "randn", "randint")}

NEW_METHODS = {"new", "new_zeros", "new_ones", "new_empty", "new_full", "new_tensor"}

# --- operations on tensors -----------------------------------------------------------------------------

# Tensor methods whose result is not a tensor.
HOST_VALUE_METHODS = {
    "size", "dim", "ndimension", "numel", "nelement", "stride", "is_contiguous", "data_ptr", "element_size",
    "get_device", "storage", "untyped_storage", "is_floating_point", "storage_offset", "is_pinned",
    "register_hook", "backward", "retain_grad", "tolist", "item", "numpy", "__len__", "is_complex",
    "share_memory_", "record_stream", "register_post_accumulate_grad_hook", "is_shared", "hasattr",
}  # fmt: skip

# The type of integers that are sizes or counts: they are never negative.
SIZE = "size"

# The types of the results of some of them.
HOST_VALUE_TYPES = {
    "size": "torch.Size", "shape": "torch.Size", "dtype": "torch.dtype",
    "item": "number", "tolist": "list", "numpy": "numpy.ndarray",
    **dict.fromkeys(("dim", "ndimension", "numel", "nelement", "ndim", "itemsize", "nbytes"), SIZE),
    "get_device": "int",
    **dict.fromkeys(("is_contiguous", "is_floating_point", "is_complex", "is_cuda", "is_pinned"), "bool"),
}  # fmt: skip

# Methods that return tensors and that only tensors have, among the values that programs compute with.
METHODS_OF_TENSORS = {"unsqueeze", "unsqueeze_", "contiguous", "detach", "detach_", "index_select", "masked_fill"}

LEGACY_TYPE = re.compile(r"torch\.(?:cuda\.)?(?:Float|Double|Half|BFloat16|Long|Int|Short|Byte|Char|Bool)Tensor")

# The types of the results of some functions of Python's standard library, by function or by module.
FUNCTION_TYPES = {
    "math": "float", "time.time": "float", "time.perf_counter": "float", "time.monotonic": "float",
    "random.random": "float", "random.uniform": "float", "random.randint": "int", "time.strftime": "str",
    "json.dumps": "str",
}  # fmt: skip

# The type of each item of a value with one of these types.
ITEM_TYPES = {"torch.Size": SIZE, "str": "str"}
NUMBER_TYPES = {"int", SIZE, "float", "bool", "number"}

HOST_VALUE_ATTRIBUTES = {
    "shape", "dtype", "ndim", "layout", "is_cuda", "requires_grad", "grad_fn", "is_leaf", "names", "is_sparse",
    "is_meta", "itemsize", "nbytes", "is_quantized",
}  # fmt: skip

# Attributes of a tensor that are not methods.
TENSOR_ATTRIBUTES = {
    *HOST_VALUE_ATTRIBUTES, "device", "data", "grad", "T", "mT", "H", "mH", "real", "imag", "name", "volatile",
    "is_cpu", "is_mps", "is_xpu", "is_xla", "is_meta", "is_mkldnn", "is_nested", "is_sparse_csr", "is_mtia",
    "is_ipu", "is_vulkan", "is_maia", "output_nr", "retains_grad", "grad_dtype",
}  # fmt: skip

# Attributes of a tensor that are true if it is on a device of some kind.
DEVICE_FLAGS = {f"is_{kind}": kind for kind in ("cpu", "cuda", "mps", "xpu", "xla")}

# Operations that return another tensor on the same memory.
VIEWS = {
    "data", "detach", "T", "mT", "real", "imag", "indexing", "view", "view_as", "squeeze", "unsqueeze", "select",
    "narrow", "transpose", "t", "permute", "flatten", "expand", "reshape", "swapaxes", "movedim",
}  # fmt: skip

# Elementwise (or row by row) methods, and functions of torch and torch.nn.functional.
SAME_SHAPE = {
    "to", "cuda", "cpu", "type", "float", "double", "half", "bfloat16", "long", "int", "bool", "contiguous", "clone",
    "detach", "data", "requires_grad_", "relu", "gelu", "elu", "selu", "silu", "mish", "leaky_relu", "sigmoid",
    "tanh", "softplus", "logsigmoid", "dropout", "alpha_dropout", "abs", "neg", "exp", "log", "log1p", "sqrt",
    "rsqrt", "square", "pow", "sin", "cos", "clamp", "clip", "round", "floor", "ceil", "sign", "erf", "layer_norm",
    "normalize", "masked_fill", "pin_memory", "negation", "flip", "triu", "tril", "softmax", "log_softmax",
}  # fmt: skip
# Operations whose result is detached from the graph: no gradient flows back through them.
SEVERING = {"data", "detach", "numpy", "long", "int", "bool", "argmax", "argmin", "sign", "comparison"}

# Names of the submodules of library models; any other attribute may be a Parameter.
PARTS_OF_MODELS = {
    "features", "classifier", "fc", "head", "heads", "layer1", "layer2", "layer3", "layer4", "conv1", "bn1", "stem",
    "encoder", "decoder", "backbone", "blocks", "trunk", "avgpool", "maxpool", "embeddings", "transformer", "bert",
    "roberta", "base_model", "vision_model", "text_model", "visual", "patch_embed", "AuxLogits",
}  # fmt: skip

# Reductions: 0-dim without a ``dim`` argument.
REDUCTIONS = {
    "sum", "mean", "max", "min", "prod", "norm", "std", "var", "median", "all", "any", "argmax", "argmin",
    "nanmean", "nansum", "amax", "amin", "count_nonzero", "mode", "trace", "dist", "dot",
}  # fmt: skip

# Functions of torch that combine several tensors into one.
JOINS = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "column_stack")

# Methods and functions of torch that require all their tensors on one device. The numbers are the positions
# (0 is the tensor itself, or a function's first argument) that must agree; None for all of them.
SAME_DEVICE: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "pow", "fmod",
            "remainder", "matmul", "mm", "bmm", "mv", "dot", "outer", "ger", "inner", "eq", "ne", "gt", "lt",
            "ge", "le", "maximum", "minimum", "logical_and", "logical_or", "logical_xor", "atan2", "fmax",
            "fmin", "cross", "dist", "kron", "addmm", "addbmm", "baddbmm", "addmv", "addr", "addcmul",
            "addcdiv", "lerp", "allclose", "isclose", "equal", "cdist", "where", "max", "min", "masked_fill",
            "masked_select", "masked_scatter", "gather", "scatter", "scatter_add", "index_select",
            "index_add", "index_copy", "index_fill", "take", "take_along_dim", "bitwise_and", "bitwise_or",
            "bitwise_xor", "hypot", "logaddexp", "polar", "complex", "isin", "searchsorted", "bucketize",
            "tensordot", "vdot", "chain_matmul", "einsum",
        )
    ),
    **dict.fromkeys(JOINS),
}  # fmt: skip

# By the method and the number of its arguments: the first of them is a number, even a 0-dim tensor on any device,
# as in the old form `p.add_(-lr, grad)`.
NUMBER_FIRST = {("add", 2), ("sub", 2), ("addcmul", 3), ("addcdiv", 3)}

# The elementwise ones among them.
ELEMENTWISE = {
    "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "pow", "maximum", "minimum", "where",
    "lerp", "addcmul", "addcdiv", "logaddexp", "masked_fill", "fmax", "fmin", "eq", "ne", "gt", "lt", "ge", "le",
}  # fmt: skip

# Those that raise for a 0-dim tensor wherever it is, or that need even that one on the device of the others.
REJECT_NUMBERS = {
    "matmul", "mm", "bmm", "mv", "dot", "vdot", "outer", "ger", "cdist", "chain_matmul", "addmm", "addbmm", "baddbmm",
    "addmv", "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "embedding", "index_select", "gather", *JOINS,
}  # fmt: skip

# torch.nn.functional: the same, by argument position.
FUNCTIONAL_SAME_DEVICE: dict[str, tuple[int, ...] | None] = {
    **dict.fromkeys(
        (
            "linear", "bilinear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
            "conv_transpose3d", "embedding", "embedding_bag", "layer_norm", "batch_norm", "group_norm",
            "cosine_similarity", "pairwise_distance", "scaled_dot_product_attention", "grid_sample", "prelu",
        )
    ),
}  # fmt: skip

# Losses of torch.nn.functional and the positions of the arguments that must share a device.
FUNCTIONAL_LOSSES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(
        (
            "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss",
            "soft_margin_loss", "hinge_embedding_loss", "multilabel_margin_loss",
        ),
        (0, 1),
    ),
    **dict.fromkeys(
        (
            "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
            "multilabel_soft_margin_loss", "multi_margin_loss", "gaussian_nll_loss", "cosine_embedding_loss",
            "margin_ranking_loss", "triplet_margin_loss",
        ),
        (0, 1, 2),
    ),
    "ctc_loss": (0,),  # it moves targets and lengths itself (aten/src/ATen/native/LossCTC.cpp, `ctc_loss`)
}  # fmt: skip

# Losses with a weight that is a buffer of the criterion (and so moves with it).
WEIGHTED_LOSSES = {
    "torch.nn.CrossEntropyLoss": ("weight",),
    "torch.nn.NLLLoss": ("weight",),
    "torch.nn.BCELoss": ("weight",),
    "torch.nn.BCEWithLogitsLoss": ("weight", "pos_weight"),
    "torch.nn.MultiLabelSoftMarginLoss": ("weight",),
    "torch.nn.MultiMarginLoss": ("weight",),
}

LOSS_MODULES = {
    *WEIGHTED_LOSSES,
    *(
        f"torch.nn.{name}"
        for name in (
            "MSELoss", "L1Loss", "SmoothL1Loss", "HuberLoss", "KLDivLoss", "PoissonNLLLoss", "SoftMarginLoss",
            "HingeEmbeddingLoss", "MultiLabelMarginLoss", "GaussianNLLLoss", "CosineEmbeddingLoss",
            "MarginRankingLoss", "TripletMarginLoss",
        )
    ),
}  # fmt: skip

# --- modules -------------------------------------------------------------------------------------------

# Modules that Lightning moves, and their batches.
LIGHTNING_MODULES = frozenset(
    f"{package}{place}.LightningModule"
    for package in ("pytorch_lightning", "lightning.pytorch")
    for place in ("", ".core", ".core.lightning", ".core.module")
) | {"lightning.LightningModule"}

# Modules whose ``device`` is the device they are on (also transformers/modeling_utils.py, `ModuleUtilsMixin`).
DEVICE_OF_MODULE = LIGHTNING_MODULES | {"transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel"}

MODULE_BASES = {
    "torch.nn.Module",
    "torch.nn.modules.loss._Loss",
    "torch.nn.modules.loss._WeightedLoss",
    "torch.jit.ScriptModule",
    "torch.optim.swa_utils.AveragedModel",
    *DEVICE_OF_MODULE,
}

# Fields of the outputs of such models that are tensors (transformers/modeling_outputs.py).
MODEL_OUTPUTS = {"logits", "last_hidden_state", "pooler_output", "loss", "start_logits", "end_logits"}

# Trainers that move their model and its inputs.
MODEL_TRAINERS = frozenset(
    {
        "transformers.Trainer",
        "transformers.trainer.Trainer",
        "transformers.Seq2SeqTrainer",
        "transformers.trainer_seq2seq.Seq2SeqTrainer",
    }
)

# Layers of torch.nn whose output has more than one dimension, with the least number of them.
DIMENSIONS_OF_OUTPUTS = {
    "torch.nn.Conv1d": 2, "torch.nn.Conv2d": 3, "torch.nn.Conv3d": 4, "torch.nn.ConvTranspose1d": 2,
    "torch.nn.ConvTranspose2d": 3, "torch.nn.ConvTranspose3d": 4, "torch.nn.BatchNorm1d": 2,
    "torch.nn.BatchNorm2d": 4, "torch.nn.BatchNorm3d": 5, "torch.nn.RNN": 2, "torch.nn.LSTM": 2, "torch.nn.GRU": 2,
    "torch.nn.MultiheadAttention": 3,
}  # fmt: skip

# Layers of torch.nn with parameters of their own.
PARAMETRIC_LAYERS = {
    f"torch.nn.{name}"
    for name in (
        "Linear", "Bilinear", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
        "ConvTranspose3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "LayerNorm", "RMSNorm",
        "GroupNorm", "Embedding", "EmbeddingBag", "RNN", "LSTM", "GRU", "RNNCell", "LSTMCell", "GRUCell",
        "MultiheadAttention", "Transformer", "TransformerEncoder", "TransformerDecoder",
        "TransformerEncoderLayer", "TransformerDecoderLayer", "PReLU", "AdaptiveLogSoftmaxWithLoss",
        "LazyLinear", "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyBatchNorm1d", "LazyBatchNorm2d",
    )
}  # fmt: skip

# Layers that compute over the last dimension only, and layers that are elementwise, or nearly so.
LAST_DIMENSION_LAYERS = {"torch.nn.Linear", "torch.nn.LayerNorm", "torch.nn.RMSNorm"}
ELEMENTWISE_LAYERS = {
    f"torch.nn.{name}"
    for name in (
        "Identity", "Dropout", "AlphaDropout", "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU",
        "Mish", "Tanh", "Sigmoid", "Softplus", "LogSigmoid", "Hardtanh", "Hardswish", "Softmax", "LogSoftmax",
    )
}  # fmt: skip

# Layers that autocast runs in the lower precision, entirely or in part (aten/src/ATen/autocast_mode.h).
LOWERED_LAYERS = {name for name in PARAMETRIC_LAYERS if not any(part in name for part in ("Norm", "Embed", "Bilinear"))}

# Layers that ignore a mask that they detect as causal, so that it may be on any device
# (torch/nn/modules/transformer.py, `_detect_is_causal_mask`; torch/nn/functional.py, `multi_head_attention_forward`).
IGNORE_CAUSAL_MASKS = {"torch.nn.TransformerEncoder"}

# Containers that hold copies of the layer passed to them; the copies are on that layer's device.
STACKS = {"torch.nn.TransformerEncoder": "encoder_layer", "torch.nn.TransformerDecoder": "decoder_layer"}

RECURRENT_LAYERS = {f"torch.nn.{name}" for name in ("RNN", "LSTM", "GRU")}
# The names of the Parameters of layers that have a fixed number of them, unless an argument omits one.
_WEIGHT_AND_BIAS = ("Linear", "Conv", "BatchNorm", "SyncBatchNorm", "LayerNorm", "GroupNorm")
NAMES_OF_PARAMETERS = {
    **dict.fromkeys(("torch.nn.Embedding", "torch.nn.EmbeddingBag", "torch.nn.PReLU", "torch.nn.RMSNorm"), ("weight",)),
    **dict.fromkeys(
        (name for name in PARAMETRIC_LAYERS if name.rpartition(".")[2].startswith(_WEIGHT_AND_BIAS)),
        ("weight", "bias"),
    ),
    **dict.fromkeys(RECURRENT_LAYERS, ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")),
    **dict.fromkeys((f"{name}Cell" for name in RECURRENT_LAYERS), ("weight_ih", "weight_hh", "bias_ih", "bias_hh")),
}
# Layers hold their Parameters under these names, for up to eight layers in one recurrent module.
PARAMETERS_OF_LAYERS = {
    *("weight", "bias", "in_proj_weight", "in_proj_bias", "weight_ih", "weight_hh", "bias_ih", "bias_hh")
} | {
    f"{kind}_{gate}_l{layer}{direction}"
    for kind in ("weight", "bias")
    for gate in ("ih", "hh", "hr")
    for layer in range(8)
    for direction in ("", "_reverse")
}

# Contexts that enable or disable gradients.
GRADIENT_CONTEXTS = ("no_grad", "inference_mode", "enable_grad", "set_grad_enabled")

# Names of autocast, with the positions of ``device_type`` (or its value), ``dtype`` and ``enabled``.
AUTOCASTS: dict[str, tuple[int | str, int, int]] = {
    **dict.fromkeys(("torch.autocast", "torch.amp.autocast", "torch.amp.autocast_mode.autocast"), (0, 1, 2)),
    **dict.fromkeys(("torch.cuda.amp.autocast", "torch.cuda.amp.autocast_mode.autocast"), ("cuda", 1, 0)),
}

# Layers that have the batch in the second dimension unless they are built with ``batch_first=True``: the number of
# arguments that have it there, and the position of the parameter ``batch_first``, or -1 if there is none.
SEQUENCE_LAYERS = {
    **dict.fromkeys(RECURRENT_LAYERS, (1, 4)),
    "torch.nn.MultiheadAttention": (3, 9),
    "torch.nn.Transformer": (2, 10),
    "torch.nn.TransformerEncoder": (1, -1),
    "torch.nn.TransformerDecoder": (2, -1),
    "torch.nn.TransformerEncoderLayer": (1, 6),
    "torch.nn.TransformerDecoderLayer": (2, 6),
}

CONTAINERS = {"torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict"}
CONTAINER_METHODS = {"append", "extend", "insert", "pop", "values", "items", "keys", "update", "clear"}
PARAMETER_CONTAINERS = {"torch.nn.ParameterList", "torch.nn.ParameterDict"}

WRAPPERS = {
    "torch.nn.DataParallel": "DataParallel",
    "torch.nn.parallel.DistributedDataParallel": "DistributedDataParallel",
}

# Methods that make up a call of a wrapper: a subclass that overrides one of them runs the module in its own way.
STEPS_OF_WRAPPERS = ("__call__", "forward", "scatter", "replicate", "parallel_apply", "gather")

# The prefixes of the keys in the state dict of a wrapper, and of what torch.compile returns
# (torch/_dynamo/eval_frame.py, `OptimizedModule`).
WRAPPER_PREFIX = "module."
COMPILED_PREFIX = "_orig_mod."

# Attributes of a wrapper other than the module that it wraps (torch/nn/parallel/data_parallel.py, distributed.py).
WRAPPER_FIELDS = {
    "device", "device_ids", "output_device", "dim", "src_device_obj", "device_type", "device_mesh", "process_group",
    "bucket_bytes_cap", "find_unused_parameters", "broadcast_buffers", "require_backward_grad_sync",
    "require_forward_param_sync", "logger", "reducer", "will_sync_module_buffers", "static_graph",
    "gradient_as_bucket_view", "is_multi_device_module", "mixed_precision",
}  # fmt: skip
# The methods of nn.Module and of the wrappers, and rarely used attributes of nn.Module.
MODULE_METHODS = {
    "forward", "parameters", "named_parameters", "buffers", "named_buffers", "modules", "named_modules", "children",
    "named_children", "state_dict", "load_state_dict", "train", "eval", "to", "cuda", "cpu", "xpu", "ipu", "mtia",
    "to_empty", "half", "float", "double", "bfloat16", "type", "zero_grad", "requires_grad_", "apply", "add_module",
    "register_module", "register_parameter", "register_buffer", "get_submodule", "set_submodule", "get_parameter",
    "get_buffer", "register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
    "register_full_backward_pre_hook", "register_backward_hook", "register_state_dict_pre_hook",
    "register_state_dict_post_hook", "register_load_state_dict_pre_hook",
    "register_load_state_dict_post_hook", "share_memory", "extra_repr", "compile", "get_extra_state",
    "set_extra_state", "dump_patches", "call_super_init", "T_destination", "_modules", "_parameters", "_buffers",
    "replicate", "scatter", "parallel_apply", "gather", "no_sync", "join", "register_comm_hook",
    "forward_sync_buffers", "_set_static_graph",
}  # fmt: skip
# Names that a wrapper has, so that reading ``w.name`` does not raise AttributeError.
MODULE_ATTRIBUTES = WRAPPER_FIELDS | MODULE_METHODS | {"module", "training"}
# DistributedDataParallel sets ``self.device``; DataParallel does not.
MODULE_ATTRIBUTES_OF_DATA_PARALLEL = MODULE_ATTRIBUTES - {"device"}
# The private names of nn.Module, then those of DistributedDataParallel; DataParallel adds none.
PRIVATE_NAMES_OF_WRAPPERS = {
    "_apply", "_backward_hooks", "_backward_pre_hooks", "_buffers", "_call_impl", "_compiled_call_impl",
    "_forward_hooks", "_forward_hooks_always_called", "_forward_hooks_with_kwargs", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_get_backward_hooks", "_get_backward_pre_hooks", "_get_name",
    "_is_full_backward_hook", "_is_replica", "_load_from_state_dict", "_load_state_dict_post_hooks",
    "_load_state_dict_pre_hooks", "_maybe_warn_non_full_backward_hook", "_modules", "_named_members",
    "_non_persistent_buffers_set", "_parameters", "_register_load_state_dict_pre_hook", "_register_state_dict_hook",
    "_replicate_for_data_parallel", "_save_to_state_dict", "_slow_forward", "_state_dict_hooks",
    "_state_dict_pre_hooks", "_version", "_wrapped_call_impl",
    "_accum_grad_hooks", "_active_ddp_module", "_assign_modules_buffers", "_authoritative_rank", "_bucket_config",
    "_build_debug_param_to_name_mapping", "_build_params_for_reducer", "_check_and_sync_module_buffers",
    "_check_comm_hook", "_check_default_group", "_check_global_requires_backward_grad_sync",
    "_check_reducer_finalized", "_check_sync_bufs_post_fwd", "_check_sync_bufs_pre_fwd", "_clear_grad_buffer",
    "_comm_hooks", "_ddp_init_helper", "_ddp_sink_clone", "_default_broadcast_coalesced",
    "_delay_all_reduce_all_params", "_delay_all_reduce_params", "_delay_grad_buffer", "_delay_grad_views",
    "_delayed_all_reduce_hook", "_distributed_broadcast_coalesced", "_distributed_rank",
    "_divide_by_initial_world_size", "_find_common_rank", "_fire_reducer_autograd_hook", "_get_active_ddp_module",
    "_get_data_parallel_params", "_get_ddp_logging_data", "_get_parameters", "_has_rebuilt_buckets",
    "_inside_ddp_forward", "_join_config", "_lazy_init", "_lazy_init_ran", "_log_and_throw",
    "_match_all_reduce_for_bwd_pass", "_match_unused_params_allreduce", "_module_parameters",
    "_module_wait_for_copy_hook", "_mp_stream", "_passing_sync_batchnorm_handle", "_post_forward", "_pre_forward",
    "_register_accum_grad_hook", "_register_buffer_comm_hook", "_register_builtin_comm_hook",
    "_register_delay_all_reduce_hook", "_register_fused_optim", "_remove_autograd_hooks", "_root_copy_hook",
    "_run_ddp_forward", "_set_ddp_runtime_logging_sample_rate", "_set_ddp_sink_clone",
    "_set_params_and_buffers_to_ignore_for_model", "_set_sparse_metadata", "_set_static_graph",
    "_setup_in_backward_optimizers", "_static_graph_delay_allreduce_enqueued", "_submodule_to_event",
    "_sync_buffers", "_sync_final_model", "_sync_module_buffers", "_update_process_group", "_use_python_reducer",
}  # fmt: skip


def _within_one_edit(name: str) -> set[str]:
    """A name and those with one letter removed, inserted, replaced or swapped with its neighbour."""
    cuts = [(name[:place], name[place:]) for place in range(len(name) + 1)]
    letters = "abcdefghijklmnopqrstuvwxyz_"
    left_out = {before + after[1:] for before, after in cuts}
    exchanged = {before + after[1] + after[0] + after[2:] for before, after in cuts if len(after) > 1}
    replaced = {before + letter + after[1:] for before, after in cuts if after for letter in letters}
    return left_out | exchanged | replaced | {before + letter + after for before, after in cuts for letter in letters}


# The flag of a tensor, and misspellings of it.
GRAD_FLAGS = {*_within_one_edit("requires_grad"), "requires_gradient", "require_gradient"}

# Methods that find no Parameters in a replica: torch/nn/parallel/replicate.py puts plain tensors in their place.
PARAMETER_READS = {"parameters", "named_parameters", "state_dict", "zero_grad", "requires_grad_"}

MODULE_MOVES = {"to", "cuda", "cpu", "to_empty"}
# The same methods of a tensor.
TENSOR_MOVES = {"to", "cuda", "cpu"}
# Methods that convert the parameters in place.
MODULE_CONVERSIONS = {"half", "float", "double", "bfloat16", "type"}

# Methods of a module that return the module itself.
MODULE_SELF_METHODS = {
    "to", "cuda", "cpu", "train", "eval", "half", "float", "double", "bfloat16", "type", "requires_grad_",
    "apply", "share_memory", "to_empty", "append", "extend", "insert", "to_sparse",
}  # fmt: skip

# Functions of well-known libraries that build a module on the CPU, of a class that is not analysed.
MODULE_FACTORIES = (
    re.compile(r"torchvision\.models\.(?:\w+\.)*[a-z]\w*"),
    re.compile(r"torchvision\.models\.(?:\w+\.)*[A-Z]\w*"),
    re.compile(r"timm\.create_model|timm\.models\.create_model"),
    re.compile(r"segmentation_models_pytorch\.(?:[A-Z]\w*|create_model)"),
    re.compile(r"pretrainedmodels\.(?:models\.)?[a-z]\w*"),
    re.compile(r"transformers\.\w+\.(?:from_pretrained|from_config)"),
    re.compile(
        r"diffusers\.(?:\w+\.)*(?:UNet\w*Model|AutoencoderKL\w*|Autoencoder(?:DC|Oobleck|Tiny)|AsymmetricAutoencoderKL"
        r"|VQModel|\w*ControlNetModel|\w*Transformer[123]DModel|PriorTransformer|T2IAdapter|MotionAdapter)"
        r"(?:\.(?:from_pretrained|from_config|from_unet|from_single_file))?"
    ),
)
# Names that match these patterns but do not build a module.
NOT_MODULE_FACTORIES = re.compile(
    r"torchvision\.models\..*(?:Weights|get_weight\w*|list_models|get_model_weights|create_feature_extractor|_utils.*)"
    r"|transformers\.\w*(?:Tokenizer|Config|Processor|FeatureExtractor|TokenizerFast)\w*\..*"
)


@lru_cache(maxsize=8192)
def builds_module(name: str) -> bool:
    """Whether a library's class or function of this name returns a module when it is called."""
    return any(pattern.fullmatch(name) for pattern in MODULE_FACTORIES) and not NOT_MODULE_FACTORIES.fullmatch(name)


def _in_modules(modules: str, names: str) -> set[str]:
    return {f"{module}.{name}" for module in modules.split() for name in names.split()}


# Layers of other libraries that have parameters of their own, whatever their arguments are, and move no inputs. Layers
# around a module that they are given, such as GINConv, do not belong here (torch_geometric 2.6, dgl 2.1, timm 1.0).
LIBRARY_LAYERS = (
    _in_modules(
        "torch_geometric.nn torch_geometric.nn.conv",
        """
        GCNConv ChebConv SAGEConv GraphConv GatedGraphConv ResGatedGraphConv GATConv GATv2Conv TransformerConv TAGConv
        ARMAConv SGConv SSGConv MFConv RGCNConv FastRGCNConv RGATConv SignedConv DNAConv GMMConv SplineConv CGConv
        GCN2Conv LEConv FeaStConv HypergraphConv PDNConv PNAConv ClusterGCNConv GENConv FiLMConv SuperGATConv EGConv
        GeneralConv HGTConv HEATConv HANConv
        """,
    )
    | _in_modules("torch_geometric.nn torch_geometric.nn.pool", "TopKPooling SAGPooling ASAPooling EdgePooling")
    | _in_modules("torch_geometric.nn torch_geometric.nn.norm", "BatchNorm GraphNorm")
    | _in_modules("torch_geometric.nn torch_geometric.nn.models", "MLP GCN GraphSAGE GIN GAT PNA EdgeCNN GraphUNet")
    | _in_modules("torch_geometric.nn torch_geometric.nn.dense", "Linear DenseGCNConv DenseSAGEConv DenseGraphConv")
    | _in_modules(
        "dgl.nn dgl.nn.pytorch dgl.nn.pytorch.conv",
        """
        GATConv GATv2Conv EGATConv SAGEConv RelGraphConv TAGConv SGConv ChebConv GatedGraphConv GMMConv DenseGraphConv
        DenseSAGEConv DenseChebConv PNAConv HGTConv
        """,
    )
    | _in_modules(
        "timm.layers timm.models.layers",
        """
        Mlp GluMlp GatedMlp ConvMlp PatchEmbed ConvNormAct ConvBnAct SEModule SqueezeExcite EcaModule CbamModule
        StdConv2d ScaledStdConv2d SelectiveKernel SplitAttn LayerScale
        """,
    )
    | _in_modules(
        "torchvision.ops torchvision.ops.misc",
        "Conv2dNormActivation Conv3dNormActivation ConvNormActivation SqueezeExcitation MLP",
    )
    | _in_modules("torchvision.ops", "FeaturePyramidNetwork DeformConv2d")
)

# Criteria of other libraries that have weights to train and move them to the first input (pytorch_metric_learning 2.9,
# losses/large_margin_softmax_loss.py, `cast_types`).
LIBRARY_CRITERIA = _in_modules(
    "pytorch_metric_learning.losses",
    """
    ArcFaceLoss CosFaceLoss LargeMarginSoftmaxLoss ManifoldLoss NormalizedSoftmaxLoss P2SGradLoss ProxyAnchorLoss
    ProxyNCALoss SoftTripleLoss SphereFaceLoss SubCenterArcFaceLoss
    """,
)

# Library modules in which programs look up attributes by computed names, and the name that represents any of them.
HUBS = {
    **dict.fromkeys(
        ("torchvision.models", *(f"torchvision.models.{task}" for task in ("detection", "segmentation", "video"))),
        "torchvision.models.get_model",
    ),
    **dict.fromkeys(("timm", "timm.models"), "timm.create_model"),
    "segmentation_models_pytorch": "segmentation_models_pytorch.create_model",
    **dict.fromkeys(("pretrainedmodels", "pretrainedmodels.models"), "pretrainedmodels.create_model"),
    "torch.optim": "torch.optim.Optimizer",
}

# --- optimizers ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OptimizerFacts:
    """``eager``: the constructor creates the state (torch/optim/adagrad.py); otherwise the first step does."""

    eager: bool = False
    # without this keyword argument (or with 0) the optimizer has no state
    stateful_if: str | None = None
    # the class is unknown: it may be any of these
    unknown: bool = False


OPTIMIZERS = {
    "torch.optim.SGD": OptimizerFacts(stateful_if="momentum"),
    "torch.optim.Adagrad": OptimizerFacts(eager=True),
    "torch.optim.Optimizer": OptimizerFacts(unknown=True),
    **{
        f"torch.optim.{name}": OptimizerFacts()
        for name in (
            "Adam", "AdamW", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS",
            "SparseAdam", "Adafactor", "Muon",
        )
    },
    "transformers.AdamW": OptimizerFacts(),
    "transformers.optimization.AdamW": OptimizerFacts(),
}  # fmt: skip

# Schedulers that set the learning rate of the optimizer passed as their first argument.
SCHEDULERS = {
    *(
        f"torch.optim.{name}"
        for name in (
            "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR",
            "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ReduceLROnPlateau", "CyclicLR",
            "OneCycleLR", "SequentialLR",
        )
    ),
    *(
        f"transformers{place}.get_{name}"
        for place in ("", ".optimization")
        for name in (
            "constant_schedule", "constant_schedule_with_warmup", "linear_schedule_with_warmup",
            "cosine_schedule_with_warmup", "cosine_with_hard_restarts_schedule_with_warmup",
            "polynomial_decay_schedule_with_warmup", "inverse_sqrt_schedule",
        )
    ),
}  # fmt: skip

# The names of dtypes, and of the methods that convert to them.
DTYPES = {
    "float32": "float32", "float": "float32", "float64": "float64", "double": "float64", "float16": "float16",
    "half": "float16", "bfloat16": "bfloat16",
}  # fmt: skip
# Functions that replace a weight by one computed from the same Parameter object.
REPARAMETRIZATIONS = {
    "torch.nn.utils.parametrizations.spectral_norm",
    "torch.nn.utils.parametrizations.orthogonal",
    "torch.nn.utils.parametrize.register_parametrization",
}
# Functions that replace the Parameters of their module by new objects: sharded tensors or one flat Parameter.
SHARDING = {
    "torch.distributed.fsdp.FullyShardedDataParallel": "FullyShardedDataParallel",
    "torch.distributed.fsdp.fully_shard": "fully_shard",
    "torch.distributed.tensor.parallel.parallelize_module": "parallelize_module",
    "torch.distributed.tensor.distribute_module": "distribute_module",
    "fairscale.nn.FullyShardedDataParallel": "FullyShardedDataParallel",
    "fairscale.nn.data_parallel.FullyShardedDataParallel": "FullyShardedDataParallel",
}


class Surgery(Enum):
    """How an operation on a module replaces Parameters; an operation that keeps the Parameter objects has none."""

    SPLITS = auto()  # one Parameter of the module becomes several
    JOINS = auto()  # the parts of a split Parameter become one Parameter again
    JOINS_SPLIT = auto()  # the same, but Parameters that were never split stay unchanged
    ADDS = auto()  # the existing Parameters are frozen, and others are added
    REPLACES = auto()
    COPIES = auto()  # the result is a copy, unless an argument requests an in-place operation


SURGERY = {
    "torch.nn.utils.weight_norm": Surgery.SPLITS,
    "torch.nn.utils.parametrizations.weight_norm": Surgery.SPLITS,
    "torch.nn.utils.remove_weight_norm": Surgery.JOINS,
    "torch.nn.utils.remove_spectral_norm": Surgery.JOINS,
    "torch.nn.utils.parametrize.remove_parametrizations": Surgery.JOINS_SPLIT,
    "peft.get_peft_model": Surgery.ADDS,
    "peft.inject_adapter_in_model": Surgery.ADDS,
    "torchao.quantization.quantize_": Surgery.REPLACES,
    "torch.ao.quantization.prepare_qat": Surgery.COPIES,
}

# --- transfers ---------------------------------------------------------------------------------------------

# Functions that wait for the GPU; the methods of streams and events with these names do so, too.
WAITS = {"torch.cuda.synchronize", "torch.accelerator.synchronize"}
WAITING_METHODS = {"synchronize", "wait_stream", "wait_event", "wait"}
# Methods of a tensor that wait for what is on its GPU, and return it.
WAITING_READS = {"cpu", "item", "tolist"}

# --- samplers ----------------------------------------------------------------------------------------------

# Samplers that replace ``shuffle=True``.
SAMPLERS = {f"torch.utils.data.{kind}Sampler" for kind in ("Random", "Sequential", "SubsetRandom", "WeightedRandom")}

# --- processes ---------------------------------------------------------------------------------------------

# Functions that initialise CUDA (torch/cuda/__init__.py: `_lazy_init`, or a driver call); setting a seed does not.
CUDA_INITIALISERS = {
    *(
        f"torch.cuda.{name}"
        for name in (
            "init", "get_device_name", "get_device_properties", "get_device_capability", "synchronize", "mem_get_info",
            "get_rng_state", "current_stream", "Stream", "is_bf16_supported",
        )
    ),
}  # fmt: skip

# Functions that start another program, or this one again, with the current environment.
PROCESS_STARTERS = {
    *(f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "Popen")),
    *(f"{package}.{name}" for package in ("multiprocessing", "torch.multiprocessing") for name in ("Process", "Pool")),
    "os.system", "os.execv", "os.execvp", "os.execve",
    "vllm.LLM",  # its engine runs in a separate process
}  # fmt: skip

# Frameworks that assign a GPU to each process.
PLACING_FRAMEWORKS = re.compile(
    r"accelerate\.PartialState|lightning(?:\.fabric)?\.Fabric|transformers\.(?:Seq2Seq)?Trainer|deepspeed\.(?:initialize|init_distributed)|horovod\.torch\.init|ray\.\w+(?:\.\w+)*"
    r"|ignite\.distributed\.(?:Parallel|initialize|spawn)"
)

# With NCCL these run on the current device (torch/distributed/distributed_c10d.py: `_get_object_coll_device`).
COLLECTIVES_ON_THE_CURRENT_DEVICE = {
    f"torch.distributed.{name}"
    for name in ("barrier", "all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list")
}

# Collectives that give each process results of other processes.
REDUCTIONS_OVER_RANKS = {
    f"torch.distributed.{name}"
    for name in (
        "all_reduce", "all_reduce_coalesced", "reduce", "all_gather", "all_gather_into_tensor", "broadcast",
        "reduce_scatter", "reduce_scatter_tensor", "_broadcast_coalesced",
    )
}  # fmt: skip

# --- host --------------------------------------------------------------------------------------------------

# Calls that read a tensor's memory on the host and raise for one on another device. ``scipy.optimize`` and
# ``scipy.integrate`` are excluded because they may only pass their arguments on to a function of the program.
_HOST_READERS = re.compile(
    r"numpy\.(?:(?:linalg|fft|testing)\.)?[a-z]\w*|sklearn\.metrics\.\w+"
    r"|matplotlib\.pyplot\.(?:plot|imshow|matshow|scatter|hist|hist2d|hexbin|bar|barh|boxplot|violinplot|contourf?"
    r"|errorbar|fill_between|loglog|semilog[xy]|pcolor|pcolormesh|stem|step)"
    # ``scipy.sparse.issparse`` checks the type only
    r"|scipy\.(?!optimize\.|integrate\.|(?:\w+\.)*is[a-z_]+$)\w+(?:\.\w+)*"
)

# Functions of NumPy that only read the shape of an argument, call a method of it, or take no arrays
# (tested with numpy 2.4: the others call ``Tensor.__array__``).
NOT_ON_HOST = {
    f"numpy.{name}"
    for name in (
        "shape", "ndim", "size", "squeeze", "real", "imag", "swapaxes", "rollaxis", "moveaxis", "split", "array_split",
        "hsplit", "vsplit", "dsplit", "diff", "array_equal", "array_equiv", "bmat", "isscalar", "iterable", "fromiter",
        "fromfunction", "frompyfunc", "vectorize", "interp", "put", "fill_diagonal", "take_along_axis", "ix_",
        "diag_indices_from", "tril_indices_from", "triu_indices_from", "printoptions", "set_printoptions", "seterr",
        "errstate", "dtype", "can_cast", "result_type", "issubdtype", "finfo", "iinfo", "ndarray", "info", "load",
        # sizes, which NumPy asks of any integer tensor (``Tensor.__index__``)
        "zeros", "ones", "empty", "eye", "identity", "tri",
        # they refuse a tensor as the array that they change, wherever it is
        "copyto", "place", "putmask",
    )
}  # fmt: skip

# Given a tensor, these call its method with arguments that torch rejects on any device.
_REDUCTIONS_OF_ITEMS = {
    f"numpy.{name}" for name in ("sum", "prod", "max", "min", "amax", "amin", "any", "all", "mean", "std", "var")
}


@lru_cache(maxsize=8192)
def reads_on_host(name: str) -> bool:
    """Whether a function reads its tensor arguments, or tensors in a list argument, on the host."""
    return _HOST_READERS.fullmatch(name) is not None and name not in NOT_ON_HOST


def reads_items_alone(name: str) -> bool:
    """Whether a function reads only tensors in a list argument on the host, not a tensor argument."""
    return name in _REDUCTIONS_OF_ITEMS


# Functions that return a tensor's sizes as a host tensor (aten/src/ATen/native/TensorShape.cpp: `_shape_as_tensor`).
SHAPES_AS_TENSORS = {"torch.onnx.operators.shape_as_tensor", "torch._shape_as_tensor"}

# --- tracing -----------------------------------------------------------------------------------------------

# Whether PyTorch's compilers or exporters run the function: a program that trains runs it as Python.
COMPILATION_TESTS = {
    "torch.compiler.is_compiling",
    "torch.compiler.is_dynamo_compiling",
    "torch.compiler.is_exporting",
    "torch.jit.is_scripting",
    "torch.jit.is_tracing",
    "torch.onnx.is_in_onnx_export",
    "torch._C._get_tracing_state",
    "torch._dynamo.is_compiling",
    "torchvision._is_tracing",
}

# Functions, in any module, that are equivalent to ``isinstance(x, torch.fx.Proxy)``.
PROXY_TESTS = {"is_torch_fx_proxy"}

# Every name in the tables, for ``from torch.nn import *``.
KNOWN_NAMES = frozenset(
    {
        *FACTORIES, *CUDA_CONSTRUCTORS, *LIKE_FACTORIES, *LOSS_MODULES, *MODULE_BASES, *PARAMETRIC_LAYERS, *CONTAINERS,
        *PARAMETER_CONTAINERS, *WRAPPERS, *OPTIMIZERS,
        *(f"torch.{name}" for name in SAME_DEVICE),
        *(f"torch.nn.functional.{name}" for name in (*FUNCTIONAL_SAME_DEVICE, *FUNCTIONAL_LOSSES)),
        "torch.nn", "torch.cuda", "torch.optim", "torch.device", "torch.no_grad", "torch.nn.functional",
        "torch.nn.Parameter", "torch.nn.ReLU", "torch.nn.Flatten", "torch.nn.Dropout", "torch.nn.Identity",
        "torch.nn.utils", "torch.nn.init", "torch.utils.data.DataLoader", "torch.utils.data.Dataset",
        "torch.utils.data.TensorDataset", "torch.autograd.Variable", "torch.save", "torch.load",
    }
)  # fmt: skip

# Functions that return arrays: those whose argument says how many dimensions it has, and the position of the size
# without which the others return a number.
ARRAYS_OF_DATA = {"numpy.array", "numpy.asarray"}
SIZES_OF_ARRAYS = {
    **dict.fromkeys(("numpy.random.randn", "numpy.random.rand"), 0),
    **dict.fromkeys(("numpy.random.normal", "numpy.random.uniform", "numpy.random.randint"), 2),
}
ARRAY_MAKERS = {
    *ARRAYS_OF_DATA,
    *SIZES_OF_ARRAYS,
    *(
        f"numpy.{name}"
        for name in (
            "stack",
            "concatenate",
            "vstack",
            "hstack",
            "zeros",
            "ones",
            "full",
            "arange",
            "ascontiguousarray",
        )
    ),
}
