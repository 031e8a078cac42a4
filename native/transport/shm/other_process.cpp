#include "transport/shm/other_process.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>

#include <cerrno>
#include <string>

#include "base/error.hpp"

namespace unisono {

namespace {

using Transfer = ssize_t (*)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);

/// Half-mapped memory shows as a short count, and the rest of it as EFAULT.
void transfer(Transfer move, pid_t process, std::uint64_t address, std::byte* local, std::size_t size) {
    while (size > 0) {
        const iovec here{local, size};
        const iovec there{reinterpret_cast<void*>(address), size};
        const ssize_t moved = move(process, &here, 1, &there, 1, 0);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0 && errno == ESRCH)
            throw PeerLost("its process " + std::to_string(process) + " has ended");
        if (moved <= 0) throw_errno("using the memory of process " + std::to_string(process));
        local += moved;
        address += static_cast<std::uint64_t>(moved);
        size -= static_cast<std::size_t>(moved);
    }
}

}  // namespace

void read_from(pid_t process, std::uint64_t address, std::span<std::byte> into) {
    transfer(&::process_vm_readv, process, address, into.data(), into.size());
}

void write_to(pid_t process, std::uint64_t address, std::span<const std::byte> bytes) {
    transfer(&::process_vm_writev, process, address, const_cast<std::byte*>(bytes.data()), bytes.size());
}

bool can_read(pid_t process, std::uint64_t address, std::uint64_t word) {
    std::uint64_t found = 0;
    const iovec here{&found, sizeof found};
    const iovec there{reinterpret_cast<void*>(address), sizeof found};
    return ::process_vm_readv(process, &here, 1, &there, 1, 0) == sizeof found && found == word;
}

void let_others_read() { ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); }  // EINVAL without Yama

}  // namespace unisono
