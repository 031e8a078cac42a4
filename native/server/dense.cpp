#include <algorithm>
#include <cstring>

#include "server/content.hpp"

namespace unisono::server {

namespace {

/// Malformed unless the request is about one whole chunk.
void require_chunk(const TableSpec& spec, const Header& head) {
    if (head.first >= spec.extent || head.first % spec.chunk() != 0 ||
        head.count != std::min<std::uint64_t>(spec.chunk(), spec.extent - head.first))
        throw Malformed("elements " + std::to_string(head.first) + " to " +
                        std::to_string(head.first + head.count) + " are no chunk of table '" + spec.name +
                        "'");
}

void require_values(const TableSpec& spec, const Header& head, Bytes payload) {
    require_chunk(spec, head);
    if (payload.size() != head.count * size_of(spec.wire))
        throw Malformed("values of another length than they say");
}

class DenseContribution final : public Contribution {
  public:
    explicit DenseContribution(const TableSpec& spec)
        : spec_(spec),
          values_(spec.extent * spec.value_bytes()),
          has_((spec.extent + spec.chunk() - 1) / spec.chunk()) {}

    void take(const Header& head, Bytes payload) override {
        require_values(spec_, head, payload);
        std::byte* into = at(head.first);
        if (!has_[head.first / spec_.chunk()]) {
            convert(spec_.wire, payload.data(), spec_.dtype, into, head.count);
            has_[head.first / spec_.chunk()] = true;
            return;
        }
        std::vector<std::byte> converted(head.count * spec_.value_bytes());
        convert(spec_.wire, payload.data(), spec_.dtype, converted.data(), head.count);
        accumulate(spec_, into, converted.data(), head.count);
    }

    void merge(const Contribution& contribution) override {
        const auto& other = static_cast<const DenseContribution&>(contribution);
        other.each([&](std::uint64_t first, std::uint64_t count, const std::byte* more) {
            if (has_[first / spec_.chunk()])
                accumulate(spec_, at(first), more, count);
            else
                std::memcpy(at(first), more, count * spec_.value_bytes());
            has_[first / spec_.chunk()] = true;
        });
    }

    std::size_t memory() const override { return values_.size(); }
    std::size_t memory_of_more(const Header&, Bytes) const override { return 0; }

    template <class Body>
    void each(Body body) const {
        for (std::size_t chunk = 0; chunk < has_.size(); ++chunk) {
            const std::uint64_t first = chunk * spec_.chunk();
            if (has_[chunk])
                body(first, std::min<std::uint64_t>(spec_.chunk(), spec_.extent - first),
                     values_.data() + first * spec_.value_bytes());
        }
    }

  private:
    std::byte* at(std::uint64_t first) { return values_.data() + first * spec_.value_bytes(); }

    const TableSpec& spec_;
    std::vector<std::byte> values_;
    std::vector<bool> has_;  // by chunk
};

class Dense final : public Content {
  public:
    Dense(const TableSpec& spec, const PythonRules& rules)
        : spec_(spec),
          rules_(rules),
          values_(spec.extent * spec.value_bytes()),
          state_(values_.size() * slots_of(spec)),
          steps_((spec.extent + spec.chunk() - 1) / spec.chunk()) {
        if (spec.init != Init::given)
            initialise(spec, 0, 0, values_.data(), spec.extent);
        else
            given_.resize((values_.size() + given_bytes - 1) / given_bytes);
    }

    bool give(std::uint64_t first_byte, Bytes part) override {
        if (part.empty() || given_[first_byte / given_bytes]) return false;
        given_[first_byte / given_bytes] = true;
        std::memcpy(values_.data() + first_byte, part.data(), part.size());
        return true;
    }

    bool complete() const override { return std::find(given_.begin(), given_.end(), false) == given_.end(); }

    void apply(const Header& head, Bytes payload) override {
        require_values(spec_, head, payload);
        const std::byte* gradients = payload.data();
        if (spec_.wire != spec_.dtype) {
            converted_.resize(head.count * spec_.value_bytes());
            convert(spec_.wire, gradients, spec_.dtype, converted_.data(), head.count);
            gradients = converted_.data();
        }
        update(head.first, head.count, gradients);
    }

    void apply(const Contribution& contribution) override {
        static_cast<const DenseContribution&>(contribution)
            .each([&](std::uint64_t first, std::uint64_t count, const std::byte* gradients) {
                update(first, count, gradients);
            });
    }

    std::unique_ptr<Contribution> hold() const override { return std::make_unique<DenseContribution>(spec_); }

    void read(const Header& head, Bytes payload, std::vector<std::byte>& into) override {
        require_chunk(spec_, head);
        if (!payload.empty()) throw Malformed("a pull of a dense table with keys");
        const std::size_t before = into.size();
        into.resize(before + head.count * size_of(spec_.wire));
        convert(spec_.dtype, values_.data() + head.first * spec_.value_bytes(), spec_.wire,
                into.data() + before, head.count);
    }

    Bytes borrow(const Header& head) const override {
        require_chunk(spec_, head);
        if (spec_.wire != spec_.dtype) return {};
        return Bytes(values_).subspan(head.first * spec_.value_bytes(), head.count * spec_.value_bytes());
    }

    std::size_t memory() const override { return values_.size() + state_.size(); }

    void save(Packer& into) const override {
        into.put(Bytes(values_)).put(Bytes(state_)).put(std::as_bytes(std::span(steps_)));
    }

    void load(Unpacker& from) override {
        const auto copy = [&](std::span<std::byte> to) {
            const auto bytes = from.take(to.size());
            if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
        };
        copy(values_);
        copy(state_);
        copy(std::as_writable_bytes(std::span(steps_)));
        given_.assign(given_.size(), true);
    }

  private:
    /// The state of a chunk lies together: slot after slot.
    void update(std::uint64_t first, std::uint64_t count, const std::byte* gradients) {
        std::byte* values = values_.data() + first * spec_.value_bytes();
        std::byte* state = state_.data() + slots_of(spec_) * first * spec_.value_bytes();
        const std::uint64_t step = ++steps_[first / spec_.chunk()];
        if (spec_.update == Update::python)
            rules_.run({&spec_, values, state, gradients, 1, count, step});
        else
            server::apply(spec_, {values, state, step}, gradients, count);
    }

    const TableSpec& spec_;
    const PythonRules& rules_;
    std::vector<std::byte> values_;
    std::vector<std::byte> state_;
    std::vector<std::uint64_t> steps_;  // by chunk
    std::vector<bool> given_;           // by part of the first values, if these are given
    std::vector<std::byte> converted_;
};

}  // namespace

std::unique_ptr<Content> make_dense(const TableSpec& spec, const PythonRules& rules) {
    return std::make_unique<Dense>(spec, rules);
}

}  // namespace unisono::server
