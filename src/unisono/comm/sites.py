"""Which line of the user's program made a call: found cheaply, named when somebody asks."""

from __future__ import annotations

import os
import threading
from sys import _getframe
from types import CodeType, FrameType

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
PROGRAMS = PACKAGE + "bench" + os.sep
"""Uses unisono as any program does."""

_libraries: tuple[str, ...] = (PACKAGE,)
"""Folders whose code is not the user's."""

MOST_SITES = 1 << 16
"""A program that generates its code has ever new lines: those beyond are not told apart."""

UNKNOWN = 0


class Sites:
    """The lines that calls came from, numbered from 1."""

    def __init__(self) -> None:
        # By the address of the instruction, which lies inside of its code object; hashing that object takes longer than
        # all else here. The list keeps the objects, so that no later one is at the same address.
        self._numbers: dict[int, int] = {}
        self._places: list[tuple[CodeType, int]] = []
        self._adding = threading.Lock()

    def caller(self, depth: int) -> int:
        """The number of the line outside of unisono that we are called from; it is at least so many frames up.

        Each frame that is looked at costs 100 ns, so those that are known to be ours are passed over at once.
        """
        try:
            frame = _getframe(depth)
        except ValueError:  # the stack is not that high
            return UNKNOWN
        return self._numbers.get(id(frame.f_code) + frame.f_lasti) or self._find(frame)

    def at(self, code: CodeType, instruction: int) -> int:
        """The number of a line that this thread is in; UNKNOWN for one of ours."""
        frame: FrameType | None = _getframe(1)
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if _is_ours(code) or (frame is not None and _is_made_by_ours(frame)):
            return UNKNOWN
        return self._numbers.get(id(code) + instruction) or self._add(code, instruction)

    def name(self, number: int) -> str:
        """file:line, or nothing if the line is not known."""
        if number == UNKNOWN:
            return ""
        code, instruction = self._places[number - 1]
        return f"{code.co_filename}:{_line(code, instruction)}"

    def _find(self, start: FrameType) -> int:
        frame: FrameType | None = start
        while frame is not None and (_is_ours(frame.f_code) or _is_made_by_ours(frame)):
            frame = frame.f_back
        if frame is None:
            return UNKNOWN
        code, instruction = frame.f_code, frame.f_lasti
        return self._numbers.get(id(code) + instruction) or self._add(code, instruction)

    def _add(self, code: CodeType, instruction: int) -> int:
        with self._adding:
            if len(self._places) >= MOST_SITES:
                return UNKNOWN
            self._places.append((code, instruction))
            number = len(self._places)
            self._numbers[id(code) + instruction] = number
            return number


def pass_over(folder: str) -> None:
    """Lines of this library, which makes calls for a program, are not those that somebody looks for."""
    global _libraries
    _libraries = tuple(dict.fromkeys((*_libraries, folder.rstrip(os.sep) + os.sep)))


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(_libraries) and not code.co_filename.startswith(PROGRAMS)


def _is_made_by_ours(frame: FrameType) -> bool:
    """Code without a file, such as what `dataclass` writes, belongs to the module in which it was made."""
    file = frame.f_globals.get("__file__")
    return frame.f_code.co_filename.startswith("<") and isinstance(file, str) and file.startswith(_libraries)


def _line(code: CodeType, instruction: int) -> int:
    lines = (line for start, end, line in code.co_lines() if start <= instruction < end and line is not None)
    return next(lines, code.co_firstlineno)
