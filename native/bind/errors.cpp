#include <nanobind/nanobind.h>

#include "base/error.hpp"
#include "bind/bind.hpp"
#include "execute/mismatch.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

void raise(const char* name, const char* text) {
    const nb::object kind = nb::module_::import_("unisono.errors").attr(name);
    PyErr_SetString(kind.ptr(), text);
}

}  // namespace

/// What the core throws is what unisono.errors has under the same name, or the nearest to it.
void errors(nb::module_&) {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const PeerLost& error) {
            raise("PeerLost", error.what());
        } catch (const DeadlineExceeded& error) {
            raise("DeadlineExceeded", error.what());
        } catch (const Mismatch& error) {
            raise("MismatchError", error.what());
        } catch (const ForkedChild& error) {
            raise("ConfigError", error.what());
        } catch (const SystemError& error) {
            raise("UnisonoError", error.what());
        }
    });
}

}  // namespace unisono::bind
