#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>

#include "bind/bind.hpp"
#include "bind/held.hpp"
#include "bind/interpreter.hpp"
#include "server/client_table.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using server::Client;
using server::ClientDense;
using server::ClientSparse;
using server::ClientTable;
using server::Operation;
using server::OperationPtr;
using server::TableSpec;

/// What Python has of a request. Its memory is the caller's, who keeps it.
struct Asked {
    OperationPtr operation;
};

/// Tables outlive the client, whose requests know them.
struct Worker {
    std::map<std::uint32_t, std::shared_ptr<ClientTable>> tables;
    Client client;

    Worker(std::uint32_t worker, std::uint64_t incarnation, std::uint32_t shards)
        : client(worker, incarnation, shards) {
        client.set_eager([this](std::uint32_t shard, const server::Header& head, server::Bytes payload) {
            const auto table = tables.find(head.table);
            if (table != tables.end()) table->second->take_eager(shard, head, payload);
        });
        client.set_renewed([this](std::uint32_t shard) {
            for (const auto& [_, table] : tables) table->renew(shard);
        });
    }

    template <class Table>
    std::shared_ptr<Table> add(TableSpec spec, std::uint32_t number) {
        const std::lock_guard lock(client.mutex());
        auto table = std::make_shared<Table>(client, std::move(spec), number);
        tables[number] = table;
        return table;
    }
};

using Buffer = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using ConstBuffer = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

server::Bytes bytes(const ConstBuffer& array) {
    return {reinterpret_cast<const std::byte*>(array.data()), array.size()};
}
std::span<std::byte> bytes(const Buffer& array) {
    return {reinterpret_cast<std::byte*>(array.data()), array.size()};
}
std::span<const std::int64_t> span(const Keys& keys) { return {keys.data(), keys.size()}; }

template <class Body>
Asked asked(Body body) {
    const WithoutInterpreter elsewhere;
    return {body()};
}

/// done, broken or late
std::string wait(Worker& worker, const Asked& what, double seconds) {
    const WithoutInterpreter elsewhere;
    switch (worker.client.wait(*what.operation, after(seconds), [] { check_signals(); })) {
        case Client::Progress::done:
            return "done";
        case Client::Progress::broken:
            return "broken";
        case Client::Progress::late:
            break;
    }
    return "late";
}

Asked request(Worker& worker, const std::string& kind, const std::string& text, std::uint32_t shard) {
    const std::map<std::string, server::Kind> kinds{{"status", server::Kind::status},
                                                    {"leave", server::Kind::leave},
                                                    {"snapshot", server::Kind::snapshot},
                                                    {"restore", server::Kind::restore}};
    server::Header head;
    head.kind = kinds.at(kind);
    server::Packer packer;
    if (!text.empty()) packer.put(text);
    return asked([&] {
        const std::lock_guard lock(worker.client.mutex());
        auto operation = std::make_shared<Operation>();
        worker.client.issue(shard, {head, std::move(packer.bytes), {}, operation, {}, {}});
        return operation;
    });
}

TableSpec spec(const nb::kwargs& options) {
    TableSpec result;
    const auto set = [&](auto& field, const char* name) {
        field = nb::cast<std::remove_reference_t<decltype(field)>>(options[name]);
    };
    const auto set_enum = [&]<class E>(E& field, const char* name) {
        field = static_cast<E>(nb::cast<std::uint8_t>(options[name]));
    };
    set(result.name, "name");
    set_enum(result.dtype, "dtype");
    set_enum(result.wire, "wire");
    set(result.extent, "extent");
    set(result.whole, "whole");
    set_enum(result.update, "update");
    const auto rates = nb::cast<std::vector<double>>(options["rates"]);
    std::copy_n(rates.begin(), std::min<std::size_t>(rates.size(), 4), result.rates.begin());
    set(result.rule, "rule");
    set(result.slots, "slots");
    set_enum(result.consistency, "consistency");
    set(result.bound, "bound");
    set_enum(result.init, "init");
    set(result.start, "start");
    set(result.seed, "seed");
    return result;
}

template <class Table>
void table_methods(nb::class_<Table>& binding) {
    binding
        .def("create",
             [](Table& self, const ConstBuffer& given) {
                 return asked([&] { return self.create(bytes(given)); });
             })
        .def("confirm", [](Table& self) { return asked([&] { return self.confirm(); }); })
        .def("abandon", [](Table& self) { return asked([&] { return self.abandon(); }); })
        .def("created", [](Table& self, const Asked& what) { self.created(*what.operation); })
        .def("prepare", [](Table& self) { return asked([&] { return self.prepare(); }); })
        .def("withdraw", [](Table& self) { return asked([&] { return self.withdraw(); }); })
        .def("commit", [](Table& self) { return asked([&] { return self.commit(); }); })
        .def("committed",
             [](Table& self) {
                 const WithoutInterpreter elsewhere;
                 self.committed();
             })
        .def_prop_ro("clock", [](const Table& self) { return self.clock(); });
}

}  // namespace

void server_client(nb::module_& module) {
    module.def(
        "make_lane",
        [] {
            const auto sizes = SocketRingLink::sizes(server::Connection::ring_bytes);
            return Held<Inbox>{std::make_shared<Inbox>(Inbox::create(sizes))};
        },
        "Memory for a worker and a shard of one host.");
    nb::class_<Asked>(module, "Asked", "Requests to parameter servers that belong together.")
        .def_prop_ro("done", [](const Asked& self) { return self.operation->done(); })
        .def_prop_ro("failed", [](const Asked& self) { return self.operation->failed; })
        .def_prop_ro("trouble", [](const Asked& self) { return static_cast<int>(self.operation->trouble); })
        .def_prop_ro("text",
                     [](const Asked& self) {
                         return nb::bytes(self.operation->text.data(), self.operation->text.size());
                     })
        .def_prop_ro(
            "read",
            [](const Asked& self) {
                const auto& r = self.operation->read;
                return std::make_tuple(r.staleness, r.waited,
                                       static_cast<std::int64_t>(static_cast<std::int32_t>(r.awaited)),
                                       r.missing, r.extra, r.cached, r.parts);
            },
            "Staleness, nanoseconds waited, who was awaited (-1: nobody), updates missing and extra, parts "
            "served "
            "here, parts.");

    nb::class_<Worker>(module, "ParameterWorker",
                       "A worker's connections to the shards of parameter servers.")
        .def(nb::init<std::uint32_t, std::uint64_t, std::uint32_t>(), nb::arg("worker"),
             nb::arg("incarnation"), nb::arg("shards"))
        .def(
            "attach",
            [](Worker& self, std::uint32_t shard, int socket, const Held<Inbox>* lane) {
                const WithoutInterpreter elsewhere;
                Fd taken(socket);
                self.client.attach(shard, lane == nullptr
                                              ? server::Connection(std::move(taken))
                                              : server::Connection(std::move(taken), lane->value, 0));
            },
            nb::arg("shard"), nb::arg("socket"), nb::arg("lane").none() = nb::none(),
            "Takes an authenticated socket, and the memory that the other end has mapped; what was not "
            "answered "
            "is sent again.")
        .def(
            "close",
            [](Worker& self) {
                const WithoutInterpreter elsewhere;
                self.client.close();
            },
            "Ends all connections.")
        .def("detached", [](const Worker& self) { return self.client.detached(); })
        .def("why_detached",
             [](const Worker& self, std::uint32_t shard) { return self.client.why_detached(shard); })
        .def("wait", &wait, nb::arg("what"), nb::arg("seconds"), "done, broken or late")
        .def("awaited",
             [](const Worker& self, const Asked& what) { return self.client.awaited(what.operation); })
        .def("let_go",
             [](Worker& self, const Asked& what) {
                 const WithoutInterpreter elsewhere;
                 self.client.let_go(what.operation);
             })
        .def("in_background",
             [](Worker& self) {
                 const WithoutInterpreter elsewhere;
                 self.client.in_background();
             })
        .def("take_news",
             [](Worker& self) {
                 const WithoutInterpreter elsewhere;
                 self.client.take_news();
             })
        .def("request", &request, nb::arg("kind"), nb::arg("text") = "", nb::arg("shard") = 0)
        .def(
            "dense",
            [](Worker& self, std::uint32_t number, const nb::kwargs& options) {
                return self.add<ClientDense>(spec(options), number);
            },
            nb::keep_alive<0, 1>(), nb::sig("def dense(self, number: int, **options: object) -> DenseTable"))
        .def(
            "sparse",
            [](Worker& self, std::uint32_t number, const nb::kwargs& options) {
                TableSpec described = spec(options);
                described.layout = server::Layout::sparse;
                return self.add<ClientSparse>(std::move(described), number);
            },
            nb::keep_alive<0, 1>(),
            nb::sig("def sparse(self, number: int, **options: object) -> SparseTable"));

    nb::class_<ClientDense> dense(module, "DenseTable", "A dense table, as one worker has it.");
    table_methods(dense);
    dense
        .def("push",
             [](ClientDense& self, const ConstBuffer& values) {
                 return asked([&] { return self.push(bytes(values)); });
             })
        .def("pull", [](ClientDense& self, const Buffer& out,
                        bool info) { return asked([&] { return self.pull(bytes(out), info); }); })
        .def("push_pull", [](ClientDense& self, const ConstBuffer& values, const Buffer& out) {
            return asked([&] { return self.push_pull(bytes(values), bytes(out)); });
        });
    nb::class_<ClientSparse> sparse(module, "SparseTable", "A sparse table, as one worker has it.");
    table_methods(sparse);
    sparse
        .def("push",
             [](ClientSparse& self, const Keys& keys, const ConstBuffer& rows) {
                 return asked([&] { return self.push(span(keys), bytes(rows)); });
             })
        .def("pull", [](ClientSparse& self, const Keys& keys, const Buffer& out,
                        bool info) { return asked([&] { return self.pull(span(keys), bytes(out), info); }); })
        .def("push_pull",
             [](ClientSparse& self, const Keys& keys, const ConstBuffer& rows, const Buffer& out) {
                 return asked([&] { return self.push_pull(span(keys), bytes(rows), bytes(out)); });
             });
}

}  // namespace unisono::bind
