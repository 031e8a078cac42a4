#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>

#include "bind/bind.hpp"
#include "bind/columns.hpp"
#include "simulate/flows.hpp"
#include "simulate/ports.hpp"

namespace nb = nanobind;

namespace unisono::bind {

namespace {

using unisono::simulate::Album;
using unisono::simulate::Flight;
using unisono::simulate::Messages;
using unisono::simulate::Ranks;
using unisono::simulate::Round;

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Shown = nb::ndarray<const std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
using Result = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <class T>
Result<T> given(std::vector<T> values) {
    auto* kept = new std::vector<T>(std::move(values));
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Result<T>(kept->data(), {kept->size()}, owner);
}

template <class Array>
std::span<const typename Array::Scalar> seen(const Array& column) {
    return {column.data(), column.size()};
}

struct Rows7 {
    const Column& source;
    const Column& target;
    const Doubles& nbytes;
    const Doubles& start;
    const Doubles& out;
    const Doubles& into;
    const Doubles& plain;
};

/// Refuses rows that would be read beyond their ends, or ranks and links that there are not.
void check(const Rows7& rows, std::size_t ranks) {
    const std::size_t count = rows.source.size();
    for (const std::size_t size : {rows.target.size(), rows.nbytes.size(), rows.start.size(), rows.out.size(),
                                   rows.into.size(), rows.plain.size()})
        if (size != count) throw std::invalid_argument("columns of a round differ in length");
    for (const Column* column : {&rows.source, &rows.target})
        for (const std::int32_t rank : seen(*column))
            if (rank < 0 || static_cast<std::size_t>(rank) >= ranks)
                throw std::invalid_argument("a message has an end that is no rank");
}

class FlowSimulation {
  public:
    FlowSimulation(std::size_t ranks, std::size_t parts, const Doubles& link_beta, bool fair,
                   const Shown& shown, std::size_t room)
        : ranks_(ranks * parts), album_(copied(shown), room), network_{ranks, copied(link_beta), fair} {
        if (ranks == 0 || parts == 0 || shown.size() != ranks * parts)
            throw std::invalid_argument("ranks and shown differ in length");
    }

    void fail(std::int32_t rank) {
        if (rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size())
            throw std::invalid_argument("no such rank");
        ranks_.stall(static_cast<std::size_t>(rank), round_, -1,
                     ranks_.begin[static_cast<std::size_t>(rank)]);
        ranks_.begin[static_cast<std::size_t>(rank)] = simulate::never;
    }

    bool advance_ports(const Rows7& rows, std::int64_t repeat) {
        check(rows, ranks_.size());
        const Messages messages{seen(rows.source), seen(rows.target), seen(rows.nbytes), seen(rows.start),
                                seen(rows.out),    seen(rows.into),   seen(rows.plain)};
        nb::gil_scoped_release released;
        if (!simulate::advance_ports(ranks_, album_, messages, repeat, round_)) return false;
        round_ += repeat;
        return true;
    }

    void advance_all(double seconds, double alpha, double beta, double gamma, std::int64_t repeat) {
        const auto times = static_cast<double>(repeat);
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
            ranks_.begin[rank] += seconds * times;
            ranks_.alpha[rank] += alpha * times;
            ranks_.beta[rank] += beta * times;
            ranks_.gamma[rank] += gamma * times;
        }
        round_ += repeat;
    }

    void add(const Rows7& rows, const Column& route_begin, const Column& links, std::int64_t repeat,
             std::int32_t dies) {
        check(rows, ranks_.size());
        check_routes(rows.source.size(), route_begin, links);
        Round round{copied(rows.source),
                    copied(rows.target),
                    copied(rows.nbytes),
                    copied(rows.start),
                    copied(rows.out),
                    copied(rows.into),
                    copied(rows.plain),
                    {route_begin.data(), route_begin.data() + route_begin.size()},
                    {links.data(), links.data() + links.size()},
                    {},
                    {},
                    repeat,
                    dies};
        round.index(ranks_.size());
        rounds_.push_back(std::move(round));
    }

    void run() {
        nb::gil_scoped_release released;
        simulate::run_flows(ranks_, album_, rounds_, network_, round_);
        for (const Round& round : rounds_) round_ += round.repeat;
        rounds_.clear();
    }

    const Ranks& ranks() const { return ranks_; }

    nb::tuple flights() const {
        const auto column = [this]<class T>(T Flight::* field) {
            std::vector<T> values;
            values.reserve(album_.flights().size());
            for (const Flight& flight : album_.flights()) values.push_back(flight.*field);
            return given(std::move(values));
        };
        return nb::make_tuple(column(&Flight::round), column(&Flight::source), column(&Flight::target),
                              column(&Flight::nbytes), column(&Flight::alone), column(&Flight::ready),
                              column(&Flight::began), column(&Flight::ended));
    }

  private:
    void check_routes(std::size_t messages, const Column& route_begin, const Column& links) const {
        if (route_begin.size() == 0 && links.size() == 0) return;
        std::int32_t last = 0;
        for (const std::int32_t begin : seen(route_begin)) {
            if (begin < last) throw std::invalid_argument("routes do not follow each other");
            last = begin;
        }
        if (route_begin.size() != messages + 1 || static_cast<std::size_t>(last) != links.size())
            throw std::invalid_argument("routes and messages differ in number");
        for (const std::int32_t link : seen(links))
            if (link < 0 || static_cast<std::size_t>(link) >= network_.link_beta.size())
                throw std::invalid_argument("a route has a link that there is not");
    }

    Ranks ranks_;
    Album album_;
    simulate::Network network_;
    std::int64_t round_ = 0;
    std::vector<Round> rounds_;
};

}  // namespace

void simulate(nb::module_& module) {
    nb::class_<FlowSimulation>(module, "FlowSimulation",
                               "Ranks that go through rounds, each as fast as its messages let it.")
        .def(nb::init<std::size_t, std::size_t, const Doubles&, bool, const Shown&, std::size_t>(),
             nb::arg("ranks"), nb::arg("parts"), nb::arg("link_beta"), nb::arg("fair"), nb::arg("shown"),
             nb::arg("room"))
        .def("fail", &FlowSimulation::fail, nb::arg("rank"), "From its next round on, a rank does nothing.")
        .def(
            "advance_ports",
            [](FlowSimulation& self, const Column& source, const Column& target, const Doubles& nbytes,
               const Doubles& start, const Doubles& out, const Doubles& into, const Doubles& plain,
               std::int64_t repeat) {
                return self.advance_ports({source, target, nbytes, start, out, into, plain}, repeat);
            },
            nb::arg("source"), nb::arg("target"), nb::arg("nbytes"), nb::arg("start"), nb::arg("out"),
            nb::arg("into"), nb::arg("plain"), nb::arg("repeat"),
            "A round in which no port is shared, some times; False, and nothing is done, if one is.")
        .def("advance_all", &FlowSimulation::advance_all, nb::arg("seconds"), nb::arg("alpha"),
             nb::arg("beta"), nb::arg("gamma"), nb::arg("repeat"),
             "A round that takes every rank equally long, some times.")
        .def(
            "add",
            [](FlowSimulation& self, const Column& source, const Column& target, const Doubles& nbytes,
               const Doubles& start, const Doubles& out, const Doubles& into, const Doubles& plain,
               const Column& route_begin, const Column& links, std::int64_t repeat, std::int32_t dies) {
                self.add({source, target, nbytes, start, out, into, plain}, route_begin, links, repeat, dies);
            },
            nb::arg("source"), nb::arg("target"), nb::arg("nbytes"), nb::arg("start"), nb::arg("out"),
            nb::arg("into"), nb::arg("plain"), nb::arg("route_begin"), nb::arg("links"), nb::arg("repeat"),
            nb::arg("dies"), "A round for `run`, some times.")
        .def("run", &FlowSimulation::run, "Go through the rounds that were added.")
        .def("begin", [](const FlowSimulation& self) { return given(std::vector(self.ranks().begin)); })
        .def("terms",
             [](const FlowSimulation& self) {
                 const Ranks& ranks = self.ranks();
                 return nb::make_tuple(given(std::vector(ranks.alpha)), given(std::vector(ranks.beta)),
                                       given(std::vector(ranks.gamma)));
             })
        .def("stalled",
             [](const FlowSimulation& self) {
                 const Ranks& ranks = self.ranks();
                 return nb::make_tuple(given(std::vector(ranks.last_round)),
                                       given(std::vector(ranks.waits_for)),
                                       given(std::vector(ranks.stuck_since)));
             })
        .def("flights", &FlowSimulation::flights);
}

}  // namespace unisono::bind
