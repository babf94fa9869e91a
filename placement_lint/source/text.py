"""From bytes to text the way Python itself reads a source file."""

from __future__ import annotations

import codecs
import io
import tokenize

UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
ASCII_ONLY = bytes(byte if byte < 128 else ord("?") for byte in range(256))


class Unreadable(Exception):
    """The file cannot be decoded or parsed; carries the reason and, if known, the position."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def decode(data: bytes) -> str:
    """The text of a source file: PEP 263 cookie and BOM honoured, line endings kept as they are."""
    if data.startswith(UTF16_MARKS):
        raise Unreadable("the file is UTF-16, which Python does not accept as source; save it as UTF-8")
    _refuse_null_bytes(data)
    encoding = encoding_of(data)
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        place = _place_of_byte(data, error.start)
        raise Unreadable(
            f"byte 0x{data[error.start]:02x} is not valid {encoding}: declare the encoding or save as UTF-8",
            *place,
        ) from None
    except (LookupError, UnicodeError) as error:
        raise Unreadable(f"the declared encoding `{encoding}` does not yield text: {error}") from None


def _refuse_null_bytes(data: bytes) -> None:
    offset = data.find(b"\0")
    if offset >= 0:
        raise Unreadable("the file contains a null byte, so it is not Python source", *_place_of_byte(data, offset))


def encoding_of(data: bytes) -> str:
    """The encoding that Python reads the source in, with a BOM `utf-8-sig`."""
    mark = codecs.BOM_UTF8 if data.startswith(codecs.BOM_UTF8) else b""
    # An undecodable byte up here is left to the decoder, whose error has its position.
    first_lines = b"\n".join(data[len(mark) :].split(b"\n", 2)[:2]).translate(ASCII_ONLY)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(mark + first_lines).readline)
    except SyntaxError as error:
        raise Unreadable(str(error.msg)) from None
    return encoding


def _place_of_byte(data: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte in data that may not be decodable; each other byte counts as a character."""
    before = data[:offset].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    start_of_line = before.rfind(b"\n") + 1
    return before.count(b"\n") + 1, len(before[start_of_line:].decode("utf-8", "replace")) + 1
