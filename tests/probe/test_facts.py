"""Experiments depend on their facts: cases that a rule does not report are refuted; a flipped fact flips a verdict."""

from __future__ import annotations

from typing import Any

import pytest

from placement_lint.finding import Outcome

REPRODUCED: list[tuple[str, dict[str, Any]]] = [
    ("DPL101", {"name": "[]"}),
    ("DPL101", {"name": "act", "wrapper": "DistributedDataParallel"}),
    ("DPL102", {"name": "flag", "part": False, "wrapper": "DistributedDataParallel"}),
    ("DPL103", {"prefixed": False, "into_wrapper": True}),
    ("DPL103", {"strict": False}),
    *(("DPL104", {"use": use}) for use in ("backward", "item", "float", "int", "bool", "format")),
    ("DPL105", {"device_ids": [1, 0, 2]}),
    ("DPL105", {"how": "mean", "uneven": True}),
    *(
        ("DPL107", {"type": name})
        for name in ("number", "int", "bool", "str", "list", "torch.Size", "torch.device", "numpy.ndarray", "Output")
    ),
    *(("DPL108", {"rows": count}) for count in (None, 3)),
    ("DPL108", {"rows": None, "device_ids": [0]}),
    ("DPL108", {"keyword": True}),
    *(("DPL110", {"rows": count, "device_ids": [0, 1, 2, 3]}) for count in (1, 3, 5, 6, 9)),
    *(("DPL111", {"layer": layer}) for layer in ("GRU", "TransformerEncoderLayer", "MultiheadAttention")),
    *(("DPL111", {"what": what, "layer": "GRU", "batch_first": True}) for what in ("state", "output")),
    ("DPL111", {"dim": 1, "batch_first": True}),
    *(("DPL112", {"what": what}) for what in ("argument", "output")),
    *(("DPL112", {"what": what, "device_ids": [0]}) for what in ("argument", "lengths")),
    ("DPL113", {"dtype": "float32"}),
    ("DPL114", {"rank": 0}),
    ("DPL115", {"device_ids": [0, 1, 2, 3]}),
    *(
        ("DPL116", {"how": how})
        for how in (
            *("converted", "assigned", "replaced", "frozen", "trainable"),
            *("weight_norm", "spectral_norm", "orthogonal"),
        )
    ),
    ("DPL116", {"how": "replaced", "find_unused_parameters": True}),
    ("DPL117", {"called": "a part"}),
    *(("DPL120", {"how": how}) for how in ("tuple", "dict", "bound method", "lambda", "partial")),
    ("DPL118", {"stray": "cuda:1"}),
    ("DPL118", {"device_ids": [1, 0]}),
    ("DPL118", {"operation": "call", "layer": "Embedding"}),
    ("DPL118", {"operation": "masked_fill"}),
    *(
        ("DPL119", {"method": method})
        for method in ("named_parameters", "state_dict", "isinstance", "requires_grad_", "zero_grad")
    ),
    ("DPL122", {"wrapper": "DistributedDataParallel", "already": "DistributedDataParallel"}),
    ("DPL122", {"wrapper": "DistributedDataParallel"}),
    ("DPL123", {"parameter": True}),
    *(
        ("DPL201", {"optimizer": name, "state": "stepped"})
        for name in (
            *("SGD", "Adam", "AdamW", "Adadelta", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS"),
            *("SparseAdam", "Adafactor", "Muon"),
        )
    ),
    ("DPL201", {"source": "cuda:0", "target": "cpu"}),
    ("DPL201", {"optimizer": "Adam", "state": "loaded"}),
    ("DPL202", {"how": "converted"}),
    ("DPL202", {"optimizer": "AdamW"}),
    *(("DPL203", {"how": how}) for how in ("FullyShardedDataParallel", "parallelize_module", "distribute_module")),
    *(
        ("DPL204", {"how": how})
        for how in (
            *("remove_weight_norm", "remove_spectral_norm", "remove_parametrizations", "prepare_qat"),
            *("get_peft_model", "quantize_"),
        )
    ),
    *(("DPL205", {"how": how}) for how in ("assigned", "succeeded", "copied", "weight_norm")),
    ("DPL205", {"optimizer": "Adam"}),
    ("DPL208", {"optimizer": "AdamW"}),
    ("DPL209", {"how": "clip_grad_norm"}),
    *(("DPL206", {"how": how}) for how in ("a criterion", "a Parameter")),
    *(("DPL207", {"how": how}) for how in (".cuda(…)", ".double()", "`*`", "indexing", "empty", "clipped")),
    *(
        ("DPL301", {"conversion": how})
        for how in (
            ".cuda(…)",
            ".double()",
            ".clone()",
            ".view()",
            ".t()",
            ".T",
            "`+`",
            "`*`",
            "indexing",
            ".to(dtype)",
        )
    ),
    *(("DPL302", {"operation": operation}) for operation in ("+=", "conv2d", "masked_fill", "cdist", "==")),
    ("DPL302", {"wrapper": "DataParallel"}),
    ("DPL302", {"stray": "cuda:0", "wrapper": "DataParallel"}),
    ("DPL303", {"container": "dict"}),
    ("DPL303", {"container": "tuple", "content": "parameter"}),
    *(("DPL304", {"how": how}) for how in ("assigned", "converted")),
    ("DPL305", {"buffer": True}),
    *(("DPL306", {"how": how}) for how in ("extend", "[]=", "update", "in place")),
    ("DPL306", {"device_ids": [1, 0]}),
    ("DPL307", {"device_ids": [1, 0]}),
    *(("DPL308", {"made": made, "kept": "each time"}) for made in ("Linear", "Parameter")),
    ("DPL308", {"kept": "once"}),
    ("DPL308", {"kept": "each time", "called_before": True}),
    ("DPL309", {"module": False, "name": "require_grad", "value": True}),
    *(("DPL310", {"operation": operation}) for operation in ("*", "masked_fill", "cat")),
    ("DPL310", {"stray": "cuda:0", "home": "cpu"}),
    ("DPL310", {"wrapper": "DataParallel"}),
    ("DPL311", {"parameters": True}),
    ("DPL312", {"parameters": False}),
    *(("DPL508", {"how": how}) for how in (".data", "torch.tensor")),
    ("DPL401", {"place": "cuda:1", "device_ids": [0, 1]}),
    ("DPL401", {"place": "cuda:0", "device_ids": [1, 0]}),
    ("DPL401", {"device_ids": None}),
    ("DPL401", {"place": "cuda:0", "device_ids": ["cuda:2", "cuda:0"]}),
    ("DPL501", {"method": "pin_memory"}),
    ("DPL501", {"method": "cpu", "place": "cuda:0", "target": "cpu"}),
    ("DPL503", {"stray": "cuda:1", "home": "cuda:0"}),
    ("DPL503", {"operation": "the weight of a loss"}),
    ("DPL503", {"operation": "indexing", "stray": "cpu", "home": "cuda:0"}),
    *(
        ("DPL503", {"operation": "call", "layer": layer, "module": module})
        for layer in ("", "Embedding", "Conv2d", "LSTM", "BatchNorm2d", "LayerNorm")
        for module in ("home", "stray")
    ),
    ("DPL504", {"wrapper": "DataParallel"}),
    ("DPL504", {"wrapper": "DataParallel", "default_device": "cuda"}),
    ("DPL504", {"operation": "call", "layer": "LSTM"}),
    ("DPL506", {"choice": "cuda:1"}),
    ("DPL506", {"legacy": True}),
    ("DPL507", {"place": "cuda:1", "reader": "asarray"}),
    ("DPL904", {"optimizer": "Adagrad"}),
]

REFUTED: list[tuple[str, dict[str, Any]]] = [
    *(("DPL101", {"name": name}) for name in ("training", "parameters", "module", "device_ids")),
    ("DPL101", {"wrapper": ""}),
    ("DPL103", {"prefixed": True, "into_wrapper": True}),
    ("DPL103", {"prefixed": False, "into_wrapper": False}),
    ("DPL104", {"reduced": True}),
    ("DPL104", {"device_ids": [0]}),
    ("DPL105", {"reduction": "sum"}),
    ("DPL105", {"how": "mean"}),
    ("DPL105", {"device_ids": [1]}),
    *(("DPL107", {"type": name}) for name in ("None", "dict", "tensor")),
    ("DPL107", {"device_ids": [1]}),
    ("DPL108", {"rows": 8}),
    ("DPL108", {"device_ids": [0]}),
    *(("DPL110", {"rows": count, "device_ids": [0, 1, 2, 3]}) for count in (4, 7, 8)),
    ("DPL110", {"by_name": True}),
    ("DPL110", {"tensor": True}),
    ("DPL111", {"dim": 1}),
    ("DPL111", {"batch_first": True}),
    ("DPL111", {"what": "inside"}),
    ("DPL111", {"what": "transposed", "layer": "GRU", "batch_first": True}),
    ("DPL112", {"what": "output", "same": True}),
    ("DPL112", {"what": "output", "device_ids": [0]}),
    ("DPL113", {"dtype": "float16"}),
    ("DPL113", {"enabled": False}),
    ("DPL115", {"on_wrapper": True}),
    ("DPL115", {"device_ids": [0]}),
    ("DPL114", {"world_size": 1}),
    *(("DPL116", {"how": how}) for how in ("nothing", "moved to where it is", "loaded", "pruned")),
    ("DPL117", {"called": "both"}),
    *(("DPL120", {"how": how}) for how in ("ModuleList", "static")),
    ("DPL120", {"device_ids": [0]}),
    ("DPL118", {"stray": "cuda"}),
    ("DPL118", {"device_ids": [0]}),
    ("DPL118", {"wrapper": ""}),
    ("DPL118", {"operation": "copy_"}),
    ("DPL119", {"method": "buffers"}),
    ("DPL119", {"method": "modules"}),
    ("DPL119", {"device_ids": [0]}),
    ("DPL121", {"wrapper": "DataParallel"}),
    ("DPL121", {"wrapper": "DistributedDataParallel"}),
    ("DPL122", {"already": ""}),
    ("DPL123", {"frozen": True}),
    *(("DPL201", {"optimizer": name}) for name in ("Adam", "AdamW", "SGD", "RMSprop", "LBFGS")),
    ("DPL201", {"optimizer": "SGD", "momentum": 0.0, "state": "stepped"}),
    ("DPL201", {"optimizer": "Adam", "state": "stepped", "loaded_after": True}),
    ("DPL201", {"target": "cpu"}),
    ("DPL202", {"how": "of another type"}),
    ("DPL202", {"swapping": True}),
    ("DPL202", {"home": "cpu"}),
    ("DPL203", {"how": "FullyShardedDataParallel", "use_orig_params": True}),
    ("DPL203", {"how": "DistributedDataParallel"}),
    *(("DPL204", {"how": how}) for how in ("spectral_norm", "orthogonal", "prune", "prepare_qat in place")),
    ("DPL204", {"added": True}),
    *(("DPL205", {"how": how}) for how in ("spectral_norm", "loaded", "filled", "moved")),
    ("DPL205", {"added": True}),
    ("DPL209", {"copied": False}),
    ("DPL206", {"all_given": True}),
    ("DPL206", {"unfrozen": False}),
    *(("DPL206", {"how": how, "added": True}) for how in ("unfrozen", "a criterion", "a Parameter")),
    *(("DPL207", {"how": how}) for how in (".float()", ".detach()")),
    ("DPL207", {"target": "cpu"}),
    ("DPL207", {"asked": "afterwards"}),
    ("DPL301", {"target": "cpu"}),
    ("DPL301", {"source": "cuda:0", "target": "cuda:0"}),
    *(("DPL301", {"conversion": how}) for how in (".float()", ".contiguous()", ".requires_grad_()")),
    ("DPL302", {"role": "buffer"}),
    ("DPL302", {"role": "parameter"}),
    ("DPL302", {"scalar": True}),
    ("DPL302", {"operation": "indexing with it"}),
    ("DPL302", {"home": "cpu"}),
    ("DPL303", {"container": "ModuleList"}),
    ("DPL303", {"container": "ParameterList", "content": "parameter"}),
    ("DPL303", {"registered_too": True}),
    ("DPL304", {"shared": True}),
    ("DPL304", {"how": "moved"}),
    ("DPL305", {"device_ids": [0]}),
    ("DPL305", {"buffer": True, "in_place": True}),
    ("DPL306", {"how": "[]=", "keyed": True}),
    ("DPL306", {"device_ids": [0]}),
    ("DPL307", {"from_batch": False}),
    ("DPL307", {"device_ids": [1]}),
    ("DPL308", {"made": "Softmax"}),
    ("DPL308", {"kept": "once", "called_before": True}),
    ("DPL308", {"kept": "in __init__"}),
    ("DPL309", {"module": False, "name": "requires_grad", "value": True}),
    ("DPL311", {"times": 1}),
    ("DPL312", {"copied": True}),
    ("DPL508", {"also": True}),
    ("DPL401", {"place": "cuda:0"}),
    ("DPL401", {"place": "cuda:1", "device_ids": [1, 0]}),
    ("DPL401", {"place": "cpu", "device_ids": [0]}),
    ("DPL501", {"receiver": "module"}),
    ("DPL501", {"target": "cpu"}),
    ("DPL503", {"stray": "cuda"}),
    ("DPL503", {"home": "cpu"}),
    ("DPL503", {"operation": "+", "scalar": True}),
    ("DPL503", {"operation": "indexing with it"}),
    ("DPL503", {"operation": "copy_"}),
    ("DPL503", {"operation": "call", "through": "DataParallel"}),
    ("DPL504", {"device": "that of the input"}),
    ("DPL504", {"default_device": "cuda"}),
    ("DPL504", {"scalar": True}),
    ("DPL504", {"operation": "indexing with it"}),
    ("DPL506", {"choice": "cuda"}),
    ("DPL507", {"place": "cpu"}),
    ("DPL507", {"reader": "tolist()"}),
    ("DPL507", {"reader": "numpy(force=True)"}),
    ("DPL901", {"optimizer": "Adagrad"}),
    ("DPL901", {"device_ids": [1, 0]}),
    ("DPL905", {"wrapper": "DistributedDataParallel"}),
]


def described(case: object) -> str:
    return case if isinstance(case, str) else ",".join(f"{name}={fact}" for name, fact in case.items())


@pytest.mark.parametrize(("rule", "facts"), REPRODUCED, ids=described)
def test_a_bug_is_reproduced(rule: str, facts: dict[str, Any], probe) -> None:
    verdict = probe(rule, **facts).verdict
    assert verdict.outcome is Outcome.REPRODUCED, verdict.observed


@pytest.mark.parametrize(("rule", "facts"), REFUTED, ids=described)
def test_a_look_alike_is_refuted(rule: str, facts: dict[str, Any], probe) -> None:
    verdict = probe(rule, **facts).verdict
    assert verdict.outcome is Outcome.REFUTED, verdict.observed


@pytest.mark.parametrize(
    ("rule", "facts", "reason"),
    [
        ("DPL205", {"optimizer": "Nonsense"}, "no experiment with the optimizer 'Nonsense'"),
        ("DPL301", {"conversion": ".fold()"}, "no experiment for the conversion '.fold()'"),
        ("DPL401", {"place": "cuda:40"}, "needs 41 GPUs, and at most 16 are simulated"),
        ("DPL401", {"place": "cuda:abc"}, "fails with another error"),
    ],
)
def test_what_cannot_be_built_is_inconclusive(rule: str, facts: dict[str, Any], reason: str, probe) -> None:
    verdict = probe(rule, **facts).verdict
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert reason in verdict.observed
