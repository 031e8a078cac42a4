#include "transport/shm/segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <string>
#include <utility>

#include "base/error.hpp"

namespace unisono {

namespace {

/// fallocate, which signals may interrupt.
int allocate(int descriptor, off_t size) {
    int result;
    do result = ::fallocate(descriptor, 0, 0, size);
    while (result < 0 && errno == EINTR);
    return result;
}

}  // namespace

Segment Segment::create(std::size_t size, std::size_t reserved) {
    constexpr auto most = static_cast<std::size_t>(std::numeric_limits<off_t>::max());
    if (size == 0 || size > most || reserved > most - size)
        throw SystemError("a shared segment of " + std::to_string(size) + " bytes cannot be");
    Fd descriptor(::memfd_create("unisono", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!descriptor.valid()) throw_errno("creating shared memory");
    if (allocate(descriptor.number(), static_cast<off_t>(size)) < 0)
        throw_errno("allocating " + std::to_string(size) + " bytes of shared memory");
    if (reserved > 0 && ::ftruncate(descriptor.number(), static_cast<off_t>(size + reserved)) < 0)
        throw_errno("reserving " + std::to_string(reserved) + " bytes of shared memory");
    if (::fcntl(descriptor.number(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        throw_errno("sealing the size of shared memory");
    return Segment(std::move(descriptor), size + reserved, size);
}

Segment Segment::map(Fd descriptor) {
    const int seals = ::fcntl(descriptor.number(), F_GET_SEALS);
    if (seals < 0) throw_errno("asking a descriptor for its seals (is it a shared segment?)");
    if ((seals & F_SEAL_SHRINK) == 0) throw SystemError("a shared segment that may shrink is not mapped");
    struct stat status{};
    if (::fstat(descriptor.number(), &status) < 0) throw_errno("asking for the size of a shared segment");
    if (status.st_size <= 0) throw SystemError("an empty shared segment is not mapped");
    constexpr off_t block = 512;  // the unit of st_blocks, whatever st_blksize says
    return Segment(std::move(descriptor), static_cast<std::size_t>(status.st_size),
                   static_cast<std::size_t>(status.st_blocks * block));
}

Segment::Segment(Fd descriptor, std::size_t size, std::size_t allocated)
    : descriptor_(std::move(descriptor)), allocated_(allocated) {
    void* const address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_.number(), 0);
    if (address == MAP_FAILED) throw_errno("mapping " + std::to_string(size) + " bytes of shared memory");
    bytes_ = {static_cast<std::byte*>(address), size};
}

Segment::Segment(Segment&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      allocated_(other.allocated_),
      bytes_(std::exchange(other.bytes_, {})) {}

Segment::~Segment() {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace unisono
