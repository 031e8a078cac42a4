"""A process that puts a word into PMIx, or waits for it there. Run by path, without the package: it must start at once.

python pmix_client.py LIBRARY NAME SECONDS; rank 0's word is its standard input, and the standard output of all.
"""

import ctypes
import sys
from ctypes import POINTER, Structure, Union, byref, c_char, c_int, c_size_t, c_uint8, c_uint16, c_uint32, c_void_p

GLOBAL, INT, BYTE_OBJECT = 3, 6, 27  # PMIX_GLOBAL, PMIX_INT, PMIX_BYTE_OBJECT
ERR_TIMEOUT = -24
TIMED_OUT = 3  # our exit code


class PmixError(Exception):
    """What a function of the library returned, in its own words."""


class Process(Structure):
    _fields_ = (("namespace", c_char * 256), ("rank", c_uint32))


class ByteObject(Structure):
    _fields_ = (("bytes", c_void_p), ("size", c_size_t))


class Content(Union):
    _fields_ = (("number", c_int), ("bytes", ByteObject), ("largest", c_char * 24))


class Value(Structure):
    _fields_ = (("type", c_uint16), ("content", Content))


class Info(Structure):
    _fields_ = (("key", c_char * 512), ("flags", c_uint32), ("value", Value))


def main(path: str, name: str, seconds: int) -> None:
    try:
        word = exchange(ctypes.CDLL(path), name, sys.stdin.buffer.read(), seconds)
    except TimeoutError:
        sys.exit(TIMED_OUT)
    except (OSError, PmixError) as error:
        sys.exit(str(error))
    sys.stdout.buffer.write(word)


def exchange(pmix: ctypes.CDLL, name: str, word: bytes, seconds: int) -> bytes:
    """The word; rank 0, which has it, puts it there. TimeoutError if it does not come."""
    me = Process()
    check(pmix, "PMIx_Init", pmix.PMIx_Init(byref(me), None, c_size_t(0)))
    try:
        if not word:
            return get(pmix, me.namespace, name, seconds)
        put(pmix, name, word)
        return word
    finally:
        pmix.PMIx_Finalize(None, c_size_t(0))  # as often as PMIx_Init


def put(pmix: ctypes.CDLL, name: str, word: bytes) -> None:
    memory = ctypes.create_string_buffer(word, len(word))
    value = Value(type=BYTE_OBJECT)
    value.content.bytes = ByteObject(ctypes.cast(memory, c_void_p), len(word))
    check(pmix, "PMIx_Put", pmix.PMIx_Put(c_uint8(GLOBAL), name.encode(), byref(value)))
    check(pmix, "PMIx_Commit", pmix.PMIx_Commit())


def get(pmix: ctypes.CDLL, namespace: bytes, name: str, seconds: int) -> bytes:
    """Waits in the daemon until rank 0 has committed it: no fence, which a rank that died would hold up."""
    patience = Info(key=b"pmix.timeout", value=Value(type=INT))
    patience.value.content.number = max(1, seconds)
    found = POINTER(Value)()
    rank_0 = Process(namespace, 0)
    code = pmix.PMIx_Get(byref(rank_0), name.encode(), byref(patience), c_size_t(1), byref(found))
    if code == ERR_TIMEOUT:
        raise TimeoutError
    check(pmix, "PMIx_Get", code)
    content = found.contents.content.bytes
    return ctypes.string_at(content.bytes, content.size)


def check(pmix: ctypes.CDLL, function: str, code: int) -> None:
    if code:
        pmix.PMIx_Error_string.restype = ctypes.c_char_p
        raise PmixError(f"{function}: {pmix.PMIx_Error_string(code).decode()}")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
