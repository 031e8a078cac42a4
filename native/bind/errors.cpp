#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "base/error.hpp"
#include "bind/bind.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

nb::object kind(const char* name) { return nb::module_::import_("unisono.errors").attr(name); }

/// With what whoever tells the other ranks about it needs to know.
void raise(const char* name, const CallFailed& failed, std::optional<std::uint64_t> message = std::nullopt) {
    const nb::object error = kind(name)(failed.what());
    error.attr("ranks") = nb::tuple(nb::cast(failed.ranks));
    error.attr("reason") = failed.reason;
    error.attr("second_hand") = failed.second_hand;
    error.attr("sequence") = failed.sequence;
    error.attr("message") = message;
    if (failed.round > 0)
        error.attr("round") =
            "round " + std::to_string(failed.round) + " of " + std::to_string(failed.rounds);
    PyErr_SetObject(error.type().ptr(), error.ptr());
}

}  // namespace

/// What the core throws is what unisono.errors has under the same name, or the nearest to it.
void errors(nb::module_&) {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const PeerLost& error) {
            raise("PeerLost", error);
        } catch (const DeadlineExceeded& error) {
            raise("DeadlineExceeded", error);
        } catch (const Mismatch& error) {
            raise("MismatchError", error, error.message);
        } catch (const ForkedChild& error) {
            PyErr_SetString(kind("ConfigError").ptr(), error.what());
        } catch (const SystemError& error) {
            PyErr_SetString(kind("UnisonoError").ptr(), error.what());
        }
    });
}

}  // namespace unisono::bind
