#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/dtype.hpp"
#include "server/packing.hpp"

namespace unisono::server {

enum class Layout : std::uint8_t { dense, sparse };
enum class Update : std::uint8_t { add, assign, sgd, momentum, adagrad, adam, python };
enum class Consistency : std::uint8_t { bsp, ssp, essp, asynchronous };
enum class Init : std::uint8_t { constant, uniform, given };

/// What a table is, as all workers have to describe it to a shard.
struct TableSpec {
    std::string name;
    Layout layout = Layout::dense;
    Dtype dtype = Dtype::f32;
    Dtype wire = Dtype::f32;   // of values on their way
    std::uint64_t extent = 0;  // elements: of the shard's part if it is dense, of a row if it is sparse
    std::uint64_t whole = 0;   // elements of a dense table on all shards
    Update update = Update::add;
    std::array<double, 4> rates{};  // of the update
    std::string rule;               // Python's class, module:name, with its arguments as JSON
    std::uint32_t slots = 0;        // arrays of state for each value, of a rule of Python's
    Consistency consistency = Consistency::bsp;
    std::uint64_t bound = 0;  // of staleness
    Init init = Init::constant;
    double start = 0;        // the constant, or the bound of uniform numbers
    std::uint64_t seed = 0;  // of uniform numbers; the checksum of those that are given

    bool clocked() const { return consistency != Consistency::asynchronous; }
    std::size_t value_bytes() const { return size_of(dtype); }
    std::size_t chunk() const { return chunk_bytes / value_bytes(); }

    void pack(Packer& into) const;
    /// Malformed or Refused if there can be no such table.
    static TableSpec unpack(Unpacker& from);
};

}  // namespace unisono::server
