#pragma once

#include "server/client.hpp"
#include "server/repeats.hpp"
#include "server/rows.hpp"
#include "server/update.hpp"

namespace unisono::server {

/// A table as a worker sees it. Under a clocked consistency, pushes are summed up here until the clock is
/// committed, and what was read stays here as long as the bound allows to read it again: with the worker's
/// own clocks added, if updates are linear. Then a read shows the pushes of the current clock, too.
class ClientTable {
  public:
    ClientTable(Client& client, TableSpec spec, std::uint32_t number);
    virtual ~ClientTable() = default;
    ClientTable(const ClientTable&) = delete;
    ClientTable& operator=(const ClientTable&) = delete;

    const TableSpec& spec() const { return spec_; }
    std::uint32_t number() const { return number_; }
    std::uint64_t clock() const { return clock_; }

    OperationPtr create(Bytes given);
    /// All shards have taken it: it is made.
    OperationPtr confirm();
    /// A shard has not: the others forget it.
    OperationPtr abandon();
    void created(const Operation& operation) { clock_ = operation.clock; }

    // A clock: prepared on all shards, then committed at the coordinator.
    OperationPtr prepare();
    OperationPtr commit();
    void committed();
    /// A shard has refused to hold its part: no other may keep its own, and the clock begins again.
    OperationPtr withdraw();

    /// Values that a shard sent by itself. With the mutex.
    void take_eager(std::uint32_t shard, const Header& head, Bytes payload);
    /// A shard was connected anew, and will send by itself only what is pulled from now on. With the mutex.
    void renew(std::uint32_t shard);

  protected:
    struct Part {
        std::uint64_t begin = 0;
        std::uint64_t end = 0;
    };

    virtual TableSpec spec_of(std::uint32_t shard) const = 0;
    virtual Bytes given_to(std::uint32_t shard, Bytes given) const = 0;
    virtual void send_pending(const OperationPtr& operation) = 0;
    /// The pushes of this clock are in the table from now on.
    virtual void absorb_pending() = 0;
    virtual void forget_pending() = 0;
    virtual void store_eager(std::uint32_t shard, const Header& head, Bytes payload) = 0;
    /// What the shard will not send by itself any more is not taken for fresh because of what it does send.
    virtual void forget_subscriptions(std::uint32_t /*shard*/) {}

    Header head(Kind kind) const;
    bool linear() const { return keeps_no_state(spec_); }
    bool caches() const {
        return spec_.consistency == Consistency::ssp || spec_.consistency == Consistency::essp;
    }
    bool fresh(std::uint64_t row_clock) const { return row_clock + spec_.bound >= clock_; }
    /// As the server would.
    void show(std::byte* values, const std::byte* gradients, std::size_t elements) const;
    /// Notes what an answer says, and returns its values.
    Bytes open(const Header& head, Bytes payload, std::uint64_t asked_at, Operation& operation) const;
    void note(Operation& operation, std::uint64_t row_clock, std::uint64_t asked_at) const;

    Client& client_;
    TableSpec spec_;
    std::uint32_t number_;
    std::uint64_t clock_ = 0;
    bool committing_ = false;

  private:
    struct Early {
        std::uint32_t shard;
        Header head;
        std::vector<std::byte> payload;
    };
    std::vector<Early> early_;  // with the clock that is being committed
};

class ClientDense final : public ClientTable {
  public:
    ClientDense(Client& client, TableSpec spec, std::uint32_t number);

    /// The memory stays until the operation is done, if the table is asynchronous.
    OperationPtr push(Bytes values);
    OperationPtr pull(std::span<std::byte> out, bool with_info);
    OperationPtr push_pull(Bytes values, std::span<std::byte> out);

  private:
    TableSpec spec_of(std::uint32_t shard) const override;
    Bytes given_to(std::uint32_t shard, Bytes given) const override;
    void send_pending(const OperationPtr& operation) override;
    void absorb_pending() override;
    void forget_pending() override { pending_.reset(); }
    void store_eager(std::uint32_t shard, const Header& head, Bytes payload) override;

    template <class Body>
    void each_chunk(Body body) const;  // (shard, first element of the part, first of all, count)
    void send(Kind kind, const OperationPtr& operation, Bytes values, std::span<std::byte> out);
    void finish(const Header& head, Bytes values, std::uint64_t at, std::uint64_t asked_at, std::byte* out);

    std::vector<Part> parts_;
    std::shared_ptr<std::vector<std::byte>> pending_;  // pulls under way show those of when they were made
    std::vector<std::byte> cache_;
    std::vector<std::vector<std::optional<std::uint64_t>>> clocks_;  // of the cache: by shard and chunk
};

class ClientSparse final : public ClientTable {
  public:
    ClientSparse(Client& client, TableSpec spec, std::uint32_t number);

    /// Keys in any order; the rows of one that is repeated are added up. If the table is asynchronous, the
    /// memory of the rows stays until the operation is done.
    OperationPtr push(std::span<const std::int64_t> keys, Bytes rows);
    /// `out` may be empty: then the rows are only fetched into the cache.
    OperationPtr pull(std::span<const std::int64_t> keys, std::span<std::byte> out, bool with_info);
    OperationPtr push_pull(std::span<const std::int64_t> keys, Bytes rows, std::span<std::byte> out);

  private:
    struct Batch {
        std::vector<std::int64_t> keys;
        std::vector<std::byte> rows;         // as they go over the wire
        std::vector<std::uint32_t> origins;  // which of the caller's keys these are
        std::vector<std::uint32_t> pushed;  // which of them have rows in `own`: pushes that are not committed
        std::vector<std::byte> own;
    };

    TableSpec spec_of(std::uint32_t) const override { return spec_; }
    Bytes given_to(std::uint32_t, Bytes) const override { return {}; }
    void send_pending(const OperationPtr& operation) override;
    void absorb_pending() override;
    void forget_pending() override { pending_.clear(); }
    void store_eager(std::uint32_t shard, const Header& head, Bytes payload) override;
    void forget_subscriptions(std::uint32_t shard) override;

    void push(const OperationPtr& operation, std::span<const std::int64_t> keys, Bytes rows);
    void pull(const OperationPtr& operation, std::span<const std::int64_t> keys, std::byte* out,
              bool with_info);
    void add(Batch& batch, std::int64_t key, const std::byte* row) const;
    void send_batch(Kind kind, const OperationPtr& operation, std::uint32_t shard, Batch& batch);
    void issue_pull(const OperationPtr& operation, std::uint32_t shard, Batch batch, std::byte* out,
                    bool with_info);
    void arrive(const Header& head, Bytes values, const Batch& batch, std::uint64_t asked_at, std::byte* out);
    void note_own(Batch& batch, std::int64_t key) const;
    void store(std::int64_t key, const std::byte* values, std::uint64_t clock);
    bool serve(std::int64_t key, std::uint32_t shard, std::byte* out, Operation& operation);
    void push_at_once(const OperationPtr& operation, std::span<const std::int64_t> keys, Bytes rows);
    void send_slices(const OperationPtr& operation, std::span<const std::int64_t> keys, Bytes rows);
    std::size_t rows_at_once(std::size_t bytes) const;
    std::uint64_t& clock_in(std::byte* row) const;

    std::size_t width_;  // bytes of a row
    Rows pending_;
    Repeats repeats_;
    std::vector<std::byte> merged_;
    Rows cache_;                         // values, and a clock
    std::vector<std::uint64_t> floors_;  // by shard: all that is cached is at least of this clock; essp
};

}  // namespace unisono::server
