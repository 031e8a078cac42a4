#include "server/table.hpp"

#include <algorithm>

namespace unisono::server {

namespace {

std::uint64_t slowest_of(const std::map<std::uint32_t, std::uint64_t>& clocks) {
    return std::ranges::min_element(clocks, {}, [](const auto& one) { return one.second; })->second;
}

}  // namespace

Table::Table(TableSpec description, const PythonRules& rules)
    : spec(std::move(description)),
      rules_(rules),
      content_(spec.layout == Layout::dense ? make_dense(spec, rules_) : make_sparse(spec, rules_)) {}

void Table::join(const std::vector<std::uint32_t>& workers) {
    for (const std::uint32_t worker : workers) {
        const auto resumed = resumed_.find(worker);
        clocks_[worker] = resumed == resumed_.end() ? slowest_ : std::max(slowest_, resumed->second);
        departed_.erase(worker);
        resumed_.erase(worker);
    }
    advance();
}

void Table::end(std::uint32_t worker) {
    if (const auto found = clocks_.find(worker); found != clocks_.end()) {
        departed_[worker] = found->second;
        clocks_.erase(found);
    }
    std::erase_if(prepared_, [&](const auto& one) { return one.first.first == worker; });
    advance();
}

void Table::prepare(const Header& head, Bytes payload) {
    const auto clock = clock_of(head.worker);
    if (clock && head.clock < *clock)
        throw Malformed("a contribution to clock " + std::to_string(head.clock) + " of a worker at clock " +
                        std::to_string(*clock));
    auto& contribution = prepared_[{head.worker, head.clock}];
    if (!contribution) contribution = content_->hold();
    contribution->take(head, payload);
}

void Table::commit(std::uint32_t worker, std::uint64_t clock) {
    const auto at = clocks_.find(worker);
    if (at == clocks_.end() || clock != at->second + 1)
        throw Malformed("a clock that is not the worker's next one");
    if (const auto found = prepared_.find({worker, at->second}); found != prepared_.end()) {
        held_[at->second][worker] = std::move(found->second);
        prepared_.erase(found);
    }
    at->second = clock;
    advance();
}

bool Table::may_read(std::uint32_t worker, std::uint64_t clock) const {
    if (!spec.clocked()) return true;
    const auto own = clock_of(worker);
    return own && *own >= clock && slowest_ + spec.bound >= clock;
}

std::uint64_t Table::complete_for(std::uint32_t worker, std::uint64_t clock) const {
    if (spec.clocked()) return slowest_;
    for (const auto& [other, theirs] : clocks_)
        if (other != worker) clock = std::min(clock, theirs);
    return clock;
}

std::optional<std::uint64_t> Table::clock_of(std::uint32_t worker) const {
    const auto found = clocks_.find(worker);
    return found == clocks_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t Table::memory() const { return content_->memory(); }

std::size_t Table::held() const {
    std::size_t bytes = 0;
    for (const auto& [key, contribution] : prepared_) bytes += contribution->memory();
    for (const auto& [clock, contributions] : held_)
        for (const auto& [worker, contribution] : contributions) bytes += contribution->memory();
    return bytes;
}

std::size_t Table::held_of(std::uint32_t worker) const {
    std::size_t bytes = 0;
    for (const auto& [key, contribution] : prepared_)
        if (key.first == worker) bytes += contribution->memory();
    for (const auto& [_, contributions] : held_)
        if (const auto found = contributions.find(worker); found != contributions.end())
            bytes += found->second->memory();
    return bytes;
}

std::size_t Table::to_hold(const Header& head, Bytes payload) const {
    const auto found = prepared_.find({head.worker, head.clock});
    if (found != prepared_.end()) return found->second->memory_of_more(head, payload);
    if (spec.layout == Layout::dense) return spec.extent * spec.value_bytes();
    const auto empty = content_->hold();
    return empty->memory() + empty->memory_of_more(head, payload);
}

void Table::save(Packer& into) const {
    into.put(static_cast<std::uint64_t>(clocks_.size()));
    for (const auto& [worker, clock] : clocks_) into.put(worker).put(applied(clock));
    content_->save(into);
}

void Table::load(Unpacker& from) {
    for (auto left = from.take<std::uint64_t>(); left > 0; --left) {
        const auto worker = from.take<std::uint32_t>();
        resumed_[worker] = from.take<std::uint64_t>();
    }
    if (!resumed_.empty()) slowest_ = slowest_of(resumed_);  // where whoever was not there then begins
    content_->load(from);
}

void Table::advance() {
    if (!clocks_.empty()) slowest_ = std::max(slowest_, slowest_of(clocks_));
    while (!held_.empty() && held_.begin()->first < slowest_ + spec.bound) {
        apply_all(held_.begin()->second);
        held_.erase(held_.begin());
    }
}

void Table::apply_all(std::map<std::uint32_t, std::unique_ptr<Contribution>>& contributions) {
    if (spec.consistency != Consistency::bsp) {
        for (const auto& [_, contribution] : contributions) content_->apply(*contribution);
        return;
    }
    auto& [_, sum] = *contributions.begin();
    for (auto next = std::next(contributions.begin()); next != contributions.end(); ++next)
        sum->merge(*next->second);
    content_->apply(*sum);
}

}  // namespace unisono::server
