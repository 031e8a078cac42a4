#pragma once

#include <nanobind/ndarray.h>

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace unisono::bind {

template <int columns>
using Rows = nanobind::ndarray<const std::int32_t, nanobind::shape<-1, columns>, nanobind::c_contig,
                               nanobind::device::cpu>;
using Column =
    nanobind::ndarray<const std::int32_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;
using Sizes =
    nanobind::ndarray<const std::uint64_t, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu>;

template <class Array>
auto copied(const Array& column) {
    return std::vector<std::remove_const_t<typename Array::Scalar>>(column.data(),
                                                                    column.data() + column.size());
}

/// Rows of numbers as the structures that they are.
template <class Row, class Array>
std::vector<Row> as(const Array& rows) {
    std::vector<Row> result(rows.shape(0));
    if (!result.empty()) std::memcpy(result.data(), rows.data(), result.size() * sizeof(Row));
    return result;
}

}  // namespace unisono::bind
