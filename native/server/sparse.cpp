#include <cstring>
#include <utility>

#include "server/content.hpp"
#include "server/rows.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t ahead = 16;  // rows are fetched so long before they are used

std::span<const std::int64_t> keys_of(const Header& head, Bytes payload) {
    // A payload starts where malloc says: aligned for keys.
    return {reinterpret_cast<const std::int64_t*>(payload.data()), head.count};
}

/// The gradients that follow the keys; Malformed if there are not so many of either.
const std::byte* values_of(const TableSpec& spec, const Header& head, Bytes payload) {
    const std::size_t each = sizeof(std::int64_t) + spec.extent * size_of(spec.wire);
    if (head.count > most_payload || payload.size() != head.count * each)
        throw Malformed("rows of table '" + spec.name + "' of another length than they say");
    return payload.data() + head.count * sizeof(std::int64_t);
}

class SparseContribution final : public Contribution {
  public:
    SparseContribution(const TableSpec& spec, std::size_t row_of_table)
        : spec_(spec), row_of_table_(row_of_table), rows(spec.extent * spec.value_bytes()) {}

    void take(const Header& head, Bytes payload) override {
        const std::byte* values = values_of(spec_, head, payload);
        std::vector<std::byte> converted(rows.row_bytes());
        for (const std::int64_t key : keys_of(head, payload)) {
            convert(spec_.wire, values, spec_.dtype, converted.data(), spec_.extent);
            add(key, converted.data());
            values += spec_.extent * size_of(spec_.wire);
        }
    }

    void merge(const Contribution& contribution) override {
        const auto& other = static_cast<const SparseContribution&>(contribution).rows;
        for (std::uint32_t i = 0; i < other.size(); ++i) add(other.key(i), other.row(i));
    }

    /// With what its rows may take in the table, when they are applied.
    std::size_t memory() const override { return rows.memory() + rows.size() * row_of_table_; }
    std::size_t memory_of_more(const Header& head, Bytes payload) const override {
        values_of(spec_, head, payload);
        return rows.memory_of_more(head.count) + head.count * row_of_table_;
    }

  private:
    void add(std::int64_t key, const std::byte* more) {
        const auto [index, added] = rows.insert(key);
        if (added)
            std::memcpy(rows.row(index), more, rows.row_bytes());
        else
            accumulate(spec_, rows.row(index), more, spec_.extent);
    }

    const TableSpec& spec_;
    std::size_t row_of_table_;  // bytes

  public:
    Rows rows;
};

/// A row has its values, their state, and, for Adam, the number of its updates.
class Sparse final : public Content {
  public:
    Sparse(const TableSpec& spec, const PythonRules& rules)
        : spec_(spec),
          rules_(rules),
          width_(spec.extent * spec.value_bytes()),
          slots_(slots_of(spec)),
          counts_(spec.update == Update::adam),
          rows_((width_ * (1 + slots_) + 7) / 8 * 8 + (counts_ ? 8 : 0)) {}

    void apply(const Header& head, Bytes payload) override {
        const std::byte* values = values_of(spec_, head, payload);
        if (spec_.wire != spec_.dtype) {
            converted_.resize(head.count * width_);
            convert(spec_.wire, values, spec_.dtype, converted_.data(), head.count * spec_.extent);
            values = converted_.data();
        }
        if (keeps_no_state(spec_)) return apply_simply(keys_of(head, payload), values);
        apply(keys_of(head, payload), [&](std::size_t i) { return values + i * width_; });
    }

    void apply(const Contribution& contribution) override {
        const Rows& rows = static_cast<const SparseContribution&>(contribution).rows;
        apply(rows.keys(), [&](std::size_t i) { return rows.row(static_cast<std::uint32_t>(i)); });
    }

    std::unique_ptr<Contribution> hold() const override {
        return std::make_unique<SparseContribution>(spec_, rows_.row_bytes());
    }

    void read(const Header& head, Bytes payload, std::vector<std::byte>& into) override {
        const std::size_t each = spec_.extent * size_of(spec_.wire);
        if (head.count > most_payload || payload.size() != head.count * sizeof(std::int64_t) ||
            head.count * each > most_payload)
            throw Malformed("keys of table '" + spec_.name + "' that are too many, or fewer than they say");
        std::size_t at = into.size();
        into.resize(at + head.count * each);
        const auto keys = keys_of(head, payload);
        indices_.resize(keys.size());
        rows_.find(keys, [&](std::size_t i, std::uint32_t index) { indices_[i] = index; });
        std::vector<std::byte> first(width_);
        for (std::size_t i = 0; i < keys.size(); ++i, at += each) {
            const bool there = indices_[i] != Rows::absent;
            if (!there) initialise(spec_, keys[i], 0, first.data(), spec_.extent);
            convert(spec_.dtype, there ? rows_.row(indices_[i]) : first.data(), spec_.wire, into.data() + at,
                    spec_.extent);
        }
    }

    Bytes borrow(const Header&) const override { return {}; }

    void watch_changes() override { watched_ = true; }
    std::vector<std::int64_t> take_changes() override { return std::exchange(changes_, {}); }

    std::size_t memory() const override { return rows_.memory(); }
    std::size_t memory_of_more(const Header& head, Bytes payload, bool exactly) const override {
        values_of(spec_, head, payload);
        if (!exactly) return rows_.memory_of_more(head.count);
        Rows unknown(0);
        for (const std::int64_t key : keys_of(head, payload))
            if (rows_.find(key) == Rows::absent) unknown.insert(key);
        return rows_.memory_of_more(unknown.size());
    }

    void save(Packer& into) const override {
        into.put(steps_).put(static_cast<std::uint64_t>(rows_.size()));
        for (std::uint32_t i = 0; i < rows_.size(); ++i)
            into.put(rows_.key(i)).put(Bytes(rows_.row(i), rows_.row_bytes()));
    }

    void load(Unpacker& from) override {
        rows_.clear();
        steps_ = from.take<std::uint64_t>();
        for (auto left = from.take<std::uint64_t>(); left > 0; --left) {
            const auto key = from.take<std::int64_t>();
            std::memcpy(rows_.row(rows_.insert(key).index), from.take(rows_.row_bytes()).data(),
                        rows_.row_bytes());
        }
    }

  private:
    /// Their rows, in targets_: they appear when they are first pushed to, with their first values.
    void find(std::span<const std::int64_t> keys) {
        targets_.resize(keys.size());
        rows_.insert(keys, [&](std::size_t i, std::byte* row, bool added) {
            targets_[i] = row;
            if (added) initialise(spec_, keys[i], 0, row, spec_.extent);
        });
        if (watched_) changes_.insert(changes_.end(), keys.begin(), keys.end());
    }

    void apply_simply(std::span<const std::int64_t> keys, const std::byte* gradients) {
        find(keys);
        apply_to_rows(spec_, targets_, gradients);
    }

    template <class Gradients>
    void apply(std::span<const std::int64_t> keys, Gradients gradients) {
        find(keys);
        if (spec_.update == Update::python) return apply_rule(gradients);
        for (std::size_t i = 0; i < keys.size(); ++i) {
            if (i + ahead < keys.size()) __builtin_prefetch(targets_[i + ahead], 1);
            std::byte* row = targets_[i];
            server::apply(spec_, {row, row + width_, counts_ ? ++step_of(row) : 0}, gradients(i),
                          spec_.extent);
        }
    }

    /// Python has the rows in arrays of its own; a key that comes twice would be updated once.
    template <class Gradients>
    void apply_rule(Gradients gradients) {
        const std::size_t n = targets_.size();
        std::vector<std::byte> values(n * width_), state(n * width_ * slots_), more(n * width_);
        const auto exchange = [&](bool out) {
            for (std::size_t i = 0; i < n; ++i) {
                std::byte* row = targets_[i];
                const auto copy = [&](std::byte* mine, std::byte* theirs) {
                    std::memcpy(out ? theirs : mine, out ? mine : theirs, width_);
                };
                copy(row, values.data() + i * width_);
                for (std::size_t slot = 0; slot < slots_; ++slot)
                    copy(row + width_ * (1 + slot), state.data() + (slot * n + i) * width_);
            }
        };
        exchange(true);
        for (std::size_t i = 0; i < n; ++i) std::memcpy(more.data() + i * width_, gradients(i), width_);
        rules_.run({&spec_, values.data(), state.data(), more.data(), n, spec_.extent, ++steps_});
        exchange(false);
    }

    std::uint64_t& step_of(std::byte* row) {
        return *reinterpret_cast<std::uint64_t*>(row + rows_.row_bytes() - sizeof(std::uint64_t));
    }

    const TableSpec& spec_;
    const PythonRules& rules_;
    std::size_t width_;  // bytes of a row's values
    std::size_t slots_;
    bool counts_;
    Rows rows_;
    std::uint64_t steps_ = 0;  // of a rule of Python's, which has many rows at once
    std::vector<std::byte*> targets_;
    std::vector<std::uint32_t> indices_;
    std::vector<std::byte> converted_;
    bool watched_ = false;
    std::vector<std::int64_t> changes_;
};

}  // namespace

std::unique_ptr<Content> make_sparse(const TableSpec& spec, const PythonRules& rules) {
    return std::make_unique<Sparse>(spec, rules);
}

}  // namespace unisono::server
