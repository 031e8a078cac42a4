#include "bind/arguments.hpp"

namespace unisono::bind {

bool is_array(PyObject* object) {
    // Borrowed for the life of the process: NumPy cannot be unloaded.
    static PyTypeObject* const array = reinterpret_cast<PyTypeObject*>(
        nanobind::object(nanobind::module_::import_("numpy").attr("ndarray")).release().ptr());
    return Py_TYPE(object) == array;
}

Views::~Views() {
    for (std::size_t i = 0; i < opened_; ++i) PyBuffer_Release(&buffers_[i]);
}

bool Views::open(const Arguments& arguments) {
    for (std::size_t i = 0; i < arguments.values.size(); ++i) {
        PyObject* const value = arguments.values[i];
        if (!is_array(value)) continue;
        if (count_ == most) return false;
        if (count_ == 1 && arguments.values[seen_[0].argument] == value) {
            seen_[count_++] = {i, seen_[0].buffer};
            continue;
        }
        auto& buffer = buffers_[opened_];
        if (PyObject_GetBuffer(value, &buffer, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) != 0) {
            PyErr_Clear();
            return false;
        }
        ++opened_;
        seen_[count_++] = {i, &buffer};
    }
    return true;
}

}  // namespace unisono::bind
