#pragma once

#include <Python.h>

#if PY_VERSION_HEX < 0x030C0000
#include <internal/pycore_frame.h>
#endif

namespace unisono::bind {

/// A place in a program of Python's.
struct Spot {
    const void* code = nullptr;
    int instruction = 0;

    bool operator==(const Spot&) const = default;
};

/// Where the thread is, as PyFrame_GetCode and PyFrame_GetLasti tell of its frame. Those need a frame object,
/// which the interpreter makes, and throws away, for who asks. Nowhere if this version shows it in no other
/// way.
inline Spot spot_of_thread() {
#if PY_VERSION_HEX < 0x030C0000
    const auto* const frame = PyThreadState_Get()->cframe->current_frame;
    if (frame != nullptr)
        return {frame->f_code,
                static_cast<int>(_PyInterpreterFrame_LASTI(frame)) * static_cast<int>(sizeof(_Py_CODEUNIT))};
#endif
    return {};
}

}  // namespace unisono::bind
