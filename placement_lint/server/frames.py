"""Messages between the server and its worker: pickled, each after its length in eight bytes."""

from __future__ import annotations

import pickle
from typing import IO, Any

LENGTH = 8


def packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(LENGTH, "big") + data


def read(stream: IO[bytes]) -> Any:
    """The next message; ``EOFError`` if there is none."""
    return pickle.loads(_exactly(stream, int.from_bytes(_exactly(stream, LENGTH), "big")))


def _exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
