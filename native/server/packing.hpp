#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "server/frame.hpp"

namespace unisono::server {

/// Plain values one after the other, without padding.
class Packer {
  public:
    template <class T>
        requires std::is_trivially_copyable_v<T>
    Packer& put(const T& value) {
        return put(std::as_bytes(std::span(&value, 1)));
    }
    Packer& put(std::span<const std::byte> more) {
        if (more.empty()) return *this;
        bytes.resize(bytes.size() + more.size());
        std::memcpy(bytes.data() + bytes.size() - more.size(), more.data(), more.size());
        return *this;
    }
    Packer& put(const std::string& text) {
        put(static_cast<std::uint32_t>(text.size()));
        return put(std::as_bytes(std::span(text)));
    }

    std::vector<std::byte> bytes;
};

/// Takes them out again; Malformed if there are not so many.
class Unpacker {
  public:
    explicit Unpacker(std::span<const std::byte> bytes) : rest_(bytes) {}

    template <class T>
        requires std::is_trivially_copyable_v<T>
    T take() {
        T value;
        std::memcpy(&value, take(sizeof value).data(), sizeof value);
        return value;
    }
    std::span<const std::byte> take(std::size_t count) {
        if (count > rest_.size()) throw Malformed("a payload that ends too early");
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    std::string text(std::size_t most) {
        const auto length = take<std::uint32_t>();
        if (length > most) throw Malformed("a text that is too long");
        const auto bytes = take(length);
        return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
    }
    std::span<const std::byte> rest() const { return rest_; }

  private:
    std::span<const std::byte> rest_;
};

}  // namespace unisono::server
