#pragma once

#include <functional>
#include <span>

#include "server/spec.hpp"

namespace unisono::server {

/// A row, or a chunk of a dense table, with the state that its update keeps.
struct Target {
    std::byte* values = nullptr;
    std::byte* state = nullptr;  // slots times `elements`, one slot after the other
    std::uint64_t step = 0;      // updates of these values so far, this one included
};

/// Python's part: the rule of a table, several rows at once. Arrays are contiguous: values and gradients rows
/// × width, state slots × rows × width.
struct RuleCall {
    const TableSpec* spec = nullptr;
    std::byte* values = nullptr;
    std::byte* state = nullptr;
    const std::byte* gradients = nullptr;
    std::size_t rows = 0;
    std::size_t width = 0;
    std::uint64_t step = 0;
};
struct PythonRules {
    std::function<void(const TableSpec&)> require;  // Refused if the rule of such a table cannot be made
    std::function<void(const RuleCall&)> run;
};

/// Arrays of state for each value.
std::size_t slots_of(const TableSpec& spec);

/// A compiled update; gradients have the table's own type. Products are rounded before they are added, so
/// that the result has the bits that NumPy gives.
void apply(const TableSpec& spec, const Target& target, const std::byte* gradients, std::size_t elements);

/// The same for many rows of updates that keep no state; their gradients lie one after the other.
bool keeps_no_state(const TableSpec& spec);
void apply_to_rows(const TableSpec& spec, std::span<std::byte* const> rows, const std::byte* gradients);

/// into += more; for tables that are assigned, into = more.
void accumulate(const TableSpec& spec, std::byte* into, const std::byte* more, std::size_t elements);

/// Between a table's type and that of the wire.
void convert(Dtype from, const std::byte* source, Dtype to, std::byte* target, std::size_t elements);

/// What elements are before their first update. `place` is the index of the first one, and `key` that of its
/// row.
void initialise(const TableSpec& spec, std::int64_t key, std::uint64_t place, std::byte* values,
                std::size_t elements);

}  // namespace unisono::server
