"""Messages between the server and its worker: pickled, each after its length in eight bytes."""

from __future__ import annotations

import pickle
from asyncio import StreamReader
from typing import Any, BinaryIO

LENGTH = 8


def packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return len(data).to_bytes(LENGTH, "big") + data


def read(stream: BinaryIO) -> Any:
    """The next message; ``EOFError`` where there is none."""
    return pickle.loads(_exactly(stream, int.from_bytes(_exactly(stream, LENGTH), "big")))


async def received(stream: StreamReader) -> Any:
    """The next message; ``asyncio.IncompleteReadError`` where there is none."""
    length = int.from_bytes(await stream.readexactly(LENGTH), "big")
    return pickle.loads(await stream.readexactly(length))


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data
