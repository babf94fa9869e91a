"""Random numbers: each GPU has a generator of its own, as `aten/src/ATen/cuda/CUDAGeneratorImpl.cpp` has.

Its state is a seed and an offset. A draw seeds the CPU's algorithm with both, so the numbers of a GPU depend neither on
the CPU's draws nor on another GPU's, and a state that is restored gives the same numbers again.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from typing import TYPE_CHECKING, Any

import torch

from .hollow import computed
from .machine import Device, NotSimulated, here, running

if TYPE_CHECKING:
    from collections.abc import Iterator

Base: Any = torch._C.Generator

# Two words of 64 bits: seed and offset.
STATE_SIZE = 16
# Offsets advance by multiples of this.
STEP = 4
_WORD = 2**64

# The CPU's own generator lends its algorithm, in one thread at a time.
_lock = threading.RLock()
_thread = threading.local()


class Generator(Base):  # type: ignore[misc]
    """``torch.Generator``: the CPU's, or a GPU's with a seed and an offset."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        generator: Generator = super().__new__(cls)
        # The machine's own devices need no driver, which is waking up when it asks for its generators.
        known = running() and any(device is own for own in here().devices)
        generator._placed_on = here().resolve(device) if running() and not known else Device(device)
        generator._seed = Base.initial_seed(generator)
        generator._offset = 0
        generator._on_gpu = running() and generator._placed_on.type == here().kind
        if generator._on_gpu:
            generator._known = here().generators
            generator._known[generator._cdata] = generator
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()

    def __del__(self) -> None:
        if self._on_gpu:
            self._known.pop(self._cdata, None)

    @property
    def device(self) -> Device:
        device: Device = self._placed_on
        return device

    def manual_seed(self, seed: int) -> Generator:
        Base.manual_seed(self, seed)
        self._seed, self._offset = Base.initial_seed(self), 0
        return self

    def seed(self) -> int:
        self._seed, self._offset = Base.seed(self), 0
        return int(self._seed)

    def initial_seed(self) -> int:
        return int(self._seed if self._on_gpu else Base.initial_seed(self))

    def get_state(self) -> torch.Tensor:
        if not self._on_gpu:
            state: torch.Tensor = Base.get_state(self)
            return state
        words = [_signed(self._seed), _signed(self._offset)]
        return torch.tensor(words, dtype=torch.int64, device="cpu").view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> Generator:
        if not self._on_gpu:
            Base.set_state(self, state)
            return self
        if state.dtype is not torch.uint8:
            raise TypeError("RNG state must be a torch.ByteTensor")
        if state.numel() != STATE_SIZE:
            raise RuntimeError("RNG state is wrong size")
        self._seed, self._offset = (word % _WORD for word in state.clone().view(torch.int64).tolist())
        return self

    def get_offset(self) -> int:
        return int(self._offset if self._on_gpu else Base.get_offset(self))

    def set_offset(self, offset: int) -> Generator:
        if not self._on_gpu:
            Base.set_offset(self, offset)
        elif offset % STEP:
            raise RuntimeError("offset must be a multiple of 4")
        self._offset = offset
        return self

    def clone_state(self) -> Generator:
        copy = type(self)(self.device)
        return copy.set_state(self.get_state())

    def graphsafe_get_state(self) -> Any:
        if self._on_gpu:
            raise NotSimulated("random numbers in CUDA graphs")
        return Base.graphsafe_get_state(self)

    def graphsafe_set_state(self, state: Any) -> Any:
        if self._on_gpu:
            raise NotSimulated("random numbers in CUDA graphs")
        return Base.graphsafe_set_state(self, state)


def _signed(word: int) -> int:
    return word - _WORD if word >= _WORD // 2 else word


def default_generators() -> tuple[Generator, ...]:
    """The generators of the visible GPUs; they begin with the seed of the process."""
    machine = here()
    if not machine.default_generators:
        with _lock:
            made = [Generator(device) for device in machine.devices]
            for generator in made:
                generator.manual_seed(torch.default_generator.initial_seed())
            machine.default_generators = tuple(made)
    return tuple(machine.default_generators[: machine.count])


@contextlib.contextmanager
def drawing_on(index: int | None) -> Iterator[None]:
    """Whatever this thread draws is for a GPU."""
    before, _thread.index = getattr(_thread, "index", None), index
    try:
        yield
    finally:
        _thread.index = before


def draw(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: int | None) -> Any:
    """Run a random operator with the numbers of the device it runs on."""
    wanted = getattr(_thread, "index", None)
    index = where if wanted is None else wanted
    with _lock:
        if index is None or index < 0:
            return computed(func, args, kwargs)
        given = kwargs.get("generator")
        source = default_generators()[index] if given is None else here().generators.get(given._cdata)
        if source is None:
            return computed(func, args, kwargs)
        with _lent(torch.default_generator if given is None else source, source):
            result = computed(func, args, kwargs)
        source._offset += STEP * -(-_drawn(result) // STEP)
    return result


@contextlib.contextmanager
def _lent(engine: Any, source: Generator) -> Iterator[None]:
    """The CPU's generator at the seed and the offset of a GPU's."""
    before = None if engine is source else Base.get_state(engine)
    Base.manual_seed(engine, _mixed(source._seed, source._offset))
    try:
        yield
    finally:
        if before is not None:
            Base.set_state(engine, before)


def _mixed(seed: int, offset: int) -> int:
    """The first numbers after a seed are those of the CPU."""
    if offset == 0:
        return seed
    digest = hashlib.blake2b(f"{seed} {offset}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _drawn(result: Any) -> int:
    if isinstance(result, torch.Tensor):
        return max(result.numel(), 1)
    return max((_drawn(part) for part in result), default=1) if isinstance(result, (list, tuple)) else 1
