#include "bind/arguments.hpp"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL unisono_uses_no_function_of_numpy
#define NO_IMPORT_ARRAY
#include <numpy/ndarraytypes.h>

namespace unisono::bind {

namespace {

View view_of(std::size_t argument, PyArrayObject* array) {
    const std::span shape(PyArray_DIMS(array), static_cast<std::size_t>(PyArray_NDIM(array)));
    std::size_t elements = 1;
    for (const auto extent : shape) elements *= static_cast<std::size_t>(extent);
    return {argument,
            static_cast<std::byte*>(PyArray_DATA(array)),
            elements,
            shape,
            reinterpret_cast<PyObject*>(PyArray_DESCR(array)),
            (PyArray_FLAGS(array) & NPY_ARRAY_WRITEABLE) != 0};
}

}  // namespace

bool is_array(PyObject* object) {
    // Borrowed for the life of the process: NumPy cannot be unloaded.
    static PyTypeObject* const array = reinterpret_cast<PyTypeObject*>(
        nanobind::object(nanobind::module_::import_("numpy").attr("ndarray")).release().ptr());
    return Py_TYPE(object) == array;
}

bool Views::open(const Arguments& arguments) {
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        if (!is_array(arguments.values[i])) continue;
        auto* const array = reinterpret_cast<PyArrayObject*>(arguments.values[i]);
        if (count_ == most || (PyArray_FLAGS(array) & NPY_ARRAY_C_CONTIGUOUS) == 0) return false;
        seen_[count_++] = view_of(i, array);
    }
    return true;
}

}  // namespace unisono::bind
