#include "simulate/sharing.hpp"

#include <cmath>

#include "expect.hpp"

using unisono::simulate::Sharing;

namespace {

bool equal(double a, double b) { return std::abs(a - b) < 1e-12; }

void add(Sharing& sharing, std::int64_t rank, double weight, std::initializer_list<Sharing::Use> uses) {
    sharing.flows.push_back({rank, weight, static_cast<std::uint32_t>(sharing.uses.size()),
                             static_cast<std::uint32_t>(uses.size()), 0});
    sharing.uses.insert(sharing.uses.end(), uses);
}

void who_is_held_up_elsewhere_leaves_the_rest_to_others() {
    Sharing sharing(3);
    add(sharing, 0, 1, {{0, 1.0}, {1, 1.0}});
    add(sharing, 0, 1, {{0, 1.0}});
    add(sharing, 0, 1, {{1, 1.0}});
    add(sharing, 0, 1, {{1, 1.0}});
    sharing.solve();
    expect(equal(sharing.flows[0].rate, 1.0 / 3), "the fullest resource decides");
    expect(equal(sharing.flows[1].rate, 2.0 / 3), "the other flow of an emptier one has the rest");
    expect(equal(sharing.flows[2].rate, 1.0 / 3) && equal(sharing.flows[3].rate, 1.0 / 3), "equal shares");
}

void weights_and_uses_count() {
    Sharing sharing(1);
    add(sharing, 0, 1, {{0, 2.0}});
    add(sharing, 0, 3, {{0, 1.0}});
    sharing.solve();
    expect(equal(sharing.flows[0].rate, 0.2), "one level, by weight 1");
    expect(equal(sharing.flows[1].rate, 0.6), "one level, by weight 3");
}

void older_rounds_go_first() {
    Sharing sharing(2);
    add(sharing, 7, 1, {{0, 1.0}});
    add(sharing, 3, 1, {{0, 1.0}, {1, 2.0}});
    add(sharing, 9, 1, {{0, 1.0}});
    sharing.solve();
    expect(equal(sharing.flows[1].rate, 0.5), "the oldest has all that it can use");
    expect(equal(sharing.flows[0].rate, 0.5), "the next one the rest");
    expect(equal(sharing.flows[2].rate, 0), "and the last one waits");
}

}  // namespace

int main() {
    who_is_held_up_elsewhere_leaves_the_rest_to_others();
    weights_and_uses_count();
    older_rounds_go_first();
}
