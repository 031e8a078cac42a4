#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <span>

namespace unisono::bind {

/// Of a method of a communicator's, without the communicator.
struct Arguments {
    PyObject* method;
    std::span<PyObject* const> values;  // those without a name first
    PyObject* names;                    // a tuple, or nothing

    std::size_t named() const {
        return names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    }
};

/// Is it an array of NumPy's, and not of a class derived from it?
bool is_array(PyObject* object);

/// An array among the arguments, as NumPy describes it. It is what it says as long as its owner keeps it.
struct View {
    std::size_t argument;
    std::byte* data;
    std::size_t elements;
    std::span<const Py_ssize_t> shape;
    PyObject* dtype;
    bool is_writable;
};

/// The arrays among the arguments. Not by the buffer protocol: what that makes for each array takes longer
/// than the rest of a small call.
class Views {
  public:
    static constexpr std::size_t most = 2;

    /// False if there are more arrays, or some that are not contiguous.
    bool open(const Arguments& arguments);

    std::span<const View> seen() const { return std::span(seen_).first(count_); }

  private:
    std::array<View, most> seen_;
    std::size_t count_ = 0;
};

}  // namespace unisono::bind
