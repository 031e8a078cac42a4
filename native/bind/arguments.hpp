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

/// The arrays among the arguments, as long as this lives. An array that appears twice is looked at once.
class Views {
  public:
    static constexpr std::size_t most = 2;

    struct Seen {
        std::size_t argument;
        const Py_buffer* buffer;
    };

    Views() = default;
    Views(const Views&) = delete;
    Views& operator=(const Views&) = delete;
    ~Views();

    /// False if there are more arrays, or some that are not contiguous.
    bool open(const Arguments& arguments);

    std::span<const Seen> seen() const { return std::span(seen_).first(count_); }

  private:
    std::array<Py_buffer, most> buffers_;
    std::array<Seen, most> seen_;
    std::size_t opened_ = 0;
    std::size_t count_ = 0;
};

}  // namespace unisono::bind
