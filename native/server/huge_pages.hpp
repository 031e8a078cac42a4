#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <memory>
#include <new>

namespace unisono::server {

/// An allocator of huge pages for what is large, where the system has them: rows are used at random, and each
/// page is one more to be translated.
template <class T>
struct HugePages {
    using value_type = T;
    static constexpr std::size_t page = std::size_t{2} << 20;
    static constexpr std::size_t large = 2 * page;  // bytes

    HugePages() = default;
    template <class U>
    HugePages(const HugePages<U>&) {}

    T* allocate(std::size_t count) {
        if (count * sizeof(T) < large) return std::allocator<T>().allocate(count);
        auto* memory = static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{page}));
        ::madvise(memory, count * sizeof(T), MADV_HUGEPAGE);  // a system that has none is slower
        return memory;
    }
    void deallocate(T* memory, std::size_t count) {
        if (count * sizeof(T) < large)
            std::allocator<T>().deallocate(memory, count);
        else
            ::operator delete(memory, std::align_val_t{page});
    }
    bool operator==(const HugePages&) const { return true; }
};

/// Bytes that nobody has written to.
class Block {
  public:
    explicit Block(std::size_t bytes) : memory_(HugePages<std::byte>().allocate(bytes), Release{bytes}) {}
    std::byte* data() const { return memory_.get(); }
    std::size_t size() const { return memory_.get_deleter().bytes; }

  private:
    struct Release {
        std::size_t bytes;
        void operator()(std::byte* memory) const { HugePages<std::byte>().deallocate(memory, bytes); }
    };
    std::unique_ptr<std::byte, Release> memory_;
};

}  // namespace unisono::server
