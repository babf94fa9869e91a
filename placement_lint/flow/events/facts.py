"""The input of the rules' experiments: abstract values as plain data."""

from __future__ import annotations

from placement_lint.flow.domain.values import CPU, Device, Place
from placement_lint.flow.events.schema import DevicesMixed, Scene


def place_fact(place: Place) -> str:
    """``cpu``, ``cuda:1``, or ``cuda`` if only the analysis distinguishes the GPUs.

    A GPU with an unknown index is a single one as well: the first stands for it.
    """
    if isinstance(place, Device) and (place == CPU or isinstance(place.index, int)):
        return str(place)
    if isinstance(place, Device) and place.kind == "cuda" and place.index is not None:
        return "cuda:0"
    return "cuda"


def replica_facts(scene: Scene) -> dict[str, object]:
    """The ids of the wrapper in whose replica something happens, if they are literal."""
    return {"device_ids": scene.replica_ids} if len(scene.replica_ids) > 1 else {}


def mixed_facts(event: DevicesMixed) -> dict[str, object]:
    """The operation with operands on different devices, their devices, and the kind of model."""
    whole = event.home if event.home.whole else event.stray
    stray, home = place_fact(event.stray.tensor.place), place_fact(event.home.tensor.place)
    return {
        "operation": _operation(event),
        "layer": whole.layer.rpartition(".")[2],
        # What is kept where an argument was is left behind there, perhaps on the CPU.
        "stray": "cpu" if stray == home else stray,
        "home": home,
        "module": "stray" if event.stray.whole else "home",
        # One without dimensions meets any other, but nothing is written into it.
        "scalar": event.stray.tensor.scalar is True and not event.stray.output,
        "wrapper": "DataParallel" if event.scene.replica else "",
        **replica_facts(event.scene),
    }


def _operation(event: DevicesMixed) -> str:
    if event.home.whole or event.stray.whole:
        return "call"
    if event.stray.source == "the criterion's weight":
        return "the weight of a loss"
    if event.operation == "a comparison":
        return "=="
    return event.operation.strip("`").rpartition(".")[2]
