#include "transport/shm/other_process.hpp"

#include <nanobind/nanobind.h>

#include <stdexcept>

#include "bind/bind.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

bool read_process(pid_t process, std::uint64_t address, std::uintptr_t into, std::size_t bytes) {
    try {
        read_from(process, address, {reinterpret_cast<std::byte*>(into), bytes});
        return true;
    } catch (const std::runtime_error&) {
        return false;
    }
}

}  // namespace

void other_process(nb::module_& module) {
    module.def("let_processes_read", &let_others_read,
               "Lets other processes of this user read the memory of this one, where Yama asks for that.");
    module.def("can_read_process", &can_read, nb::arg("process"), nb::arg("address"), nb::arg("word"),
               "Is this word there in the memory of another process?");
    module.def("read_process", &read_process, nb::arg("process"), nb::arg("address"), nb::arg("into"),
               nb::arg("bytes"), nb::call_guard<nb::gil_scoped_release>(),
               "Copies out of the memory of another process; False if that cannot be.");
}

}  // namespace unisono::bind
