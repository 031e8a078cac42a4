#include "server/server.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bind/bind.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"
#include "server/apply_log.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using server::RuleCall;

/// Calls Python's rules from a thread of the server's. What one raises while it is made is a refusal; after
/// that, it ends the server: half an update has been made.
server::PythonRules in_python(const nb::object& rules) {
    // Never let go of: the last copy may go where there is no interpreter.
    auto* kept = new nb::object(rules);
    const auto require = [kept](const server::TableSpec& spec) {
        const nb::gil_scoped_acquire gil;
        try {
            kept->attr("require")(spec.name, spec.rule, spec.slots);
        } catch (nb::python_error& error) {
            throw server::Refused("table '" + spec.name + "': a server cannot make the rule " + spec.rule +
                                  ": " + nb::cast<std::string>(nb::str(error.value())));
        }
    };
    const auto run = [kept](const RuleCall& call) {
        const nb::gil_scoped_acquire gil;
        const server::TableSpec& spec = *call.spec;
        const std::size_t bytes = call.rows * call.width * spec.value_bytes();
        const auto view = [](std::byte* data, std::size_t size, int flags) {
            return nb::steal(
                PyMemoryView_FromMemory(reinterpret_cast<char*>(data), static_cast<Py_ssize_t>(size), flags));
        };
        try {
            (*kept)(spec.name, spec.rule, name_of(spec.dtype), view(call.values, bytes, PyBUF_WRITE),
                    view(call.state, bytes * spec.slots, PyBUF_WRITE),
                    view(const_cast<std::byte*>(call.gradients), bytes, PyBUF_READ), call.rows, call.width,
                    call.step);
        } catch (nb::python_error& error) {
            throw std::runtime_error("the rule " + spec.rule + " of table '" + spec.name + "' raised " +
                                     error.what());
        }
    };
    return {require, run};
}

void translate(const std::exception_ptr& pointer, void*) {
    const auto raise = [](const char* kind, const std::exception& error) {
        PyErr_SetString(nb::module_::import_("unisono.errors").attr(kind).ptr(), error.what());
    };
    try {
        std::rethrow_exception(pointer);
    } catch (const server::Refused& error) {
        raise(error.trouble == server::Trouble::mismatch ? "MismatchError" : "ConfigError", error);
    } catch (const server::Malformed& error) {
        raise("ConfigError", error);
    }
}

/// The values of the tables that the events of a log make: by name, as bytes; of sparse ones with their keys.
nb::list replay(const std::string& path, std::uint32_t workers, const nb::object& rules) {
    server::Store store(workers, {}, in_python(rules));
    {
        const WithoutInterpreter elsewhere;
        server::read_log(
            path, [&](const server::Header& head, server::Bytes payload) { store.replay(head, payload); });
    }
    nb::list result;
    for (auto& [_, table] : store.tables()) {
        server::Packer packer;
        table.save(packer);
        result.append(nb::make_tuple(table.spec.name, name_of(table.spec.dtype),
                                     table.spec.layout == server::Layout::dense, table.spec.extent,
                                     table.slowest(), nb::bytes(packer.bytes.data(), packer.bytes.size())));
    }
    return result;
}

nb::list events(const std::string& path) {
    nb::list result;
    server::read_log(path, [&](const server::Header& head, server::Bytes payload) {
        result.append(nb::make_tuple(static_cast<int>(head.kind), head.table, head.worker, head.incarnation,
                                     head.sequence, head.clock, head.first, head.count,
                                     nb::bytes(payload.data(), payload.size())));
    });
    return result;
}

}  // namespace

void server(nb::module_& module) {
    using server::Server;
    nb::register_exception_translator(translate);
    nb::class_<Server>(module, "ParameterShards",
                       "The shards of a parameter server that are in this process.")
        .def(
            "__init__",
            [](Server* self, std::uint32_t number, std::uint32_t servers, std::uint32_t threads,
               std::uint32_t workers, double grace, const std::string& log, std::size_t memory,
               const nb::object& rules) {
                server::ServerOptions options;
                options.server = number;
                options.servers = servers;
                options.threads = threads;
                options.shards.workers = workers;
                options.shards.grace = std::chrono::milliseconds(static_cast<std::int64_t>(grace * 1000));
                options.shards.log = log;
                options.shards.quotas.memory = memory;
                options.shards.rules = in_python(rules);
                const WithoutInterpreter elsewhere;
                new (self) Server(std::move(options));
            },
            nb::arg("server"), nb::arg("servers"), nb::arg("threads"), nb::arg("workers"), nb::arg("grace"),
            nb::arg("log"), nb::arg("memory"), nb::arg("rules"))
        .def(
            "adopt_worker",
            [](Server& self, int socket, std::uint32_t worker, std::uint32_t thread, int lane) {
                Fd taken(socket);
                if (lane < 0) return self.adopt_worker(server::Connection(std::move(taken)), worker, thread);
                auto inbox = std::make_shared<Inbox>(Inbox::open(Fd(lane)));
                self.adopt_worker({std::move(taken), std::move(inbox), 1}, worker, thread);
            },
            nb::arg("socket"), nb::arg("worker"), nb::arg("thread"), nb::arg("lane") = -1,
            "Takes the socket of an authenticated worker, and the descriptor of the memory that it shares.")
        .def(
            "adopt_peer",
            [](Server& self, int socket, std::uint32_t shard) { self.adopt_peer(Fd(socket), shard); },
            nb::arg("socket"), nb::arg("shard"), "The first server: takes the socket of another's shard.")
        .def(
            "adopt_coordinator",
            [](Server& self, int socket, std::uint32_t thread) {
                self.adopt_coordinator(Fd(socket), thread);
            },
            nb::arg("socket"), nb::arg("thread"), "Another server: takes a socket to the first one.")
        .def("give_up", &Server::give_up, nb::arg("worker"),
             "The first server: this worker will not come, and is not waited for unless it has joined.")
        .def(
            "close",
            [](Server& self) {
                const WithoutInterpreter elsewhere;
                self.close();
            },
            "Ends in good order.")
        .def("present", &Server::present, "Workers that have joined and have not ended.")
        .def("failure", &Server::failure, "Why it cannot go on, if it cannot.")
        .def("failure_descriptor", &Server::failure_descriptor, "Becomes readable when it cannot go on.");
    module.def("replay_apply_log", &replay, nb::arg("path"), nb::arg("workers"), nb::arg("rules"),
               "Of each table: name, dtype, whether it is dense, extent, slowest clock, saved bytes.");
    module.def("read_apply_log", &events, nb::arg("path"),
               "Kind, table, worker, incarnation, sequence, clock, first, count and payload of each event.");
}

}  // namespace unisono::bind
