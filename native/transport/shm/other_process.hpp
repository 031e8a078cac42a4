#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace unisono {

// The private memory of another process of this user (process_vm_readv(2)). A process that is gone is a
// PeerLost, memory that is not there or not to be had a SystemError.

void read_from(pid_t process, std::uint64_t address, std::span<std::byte> into);
void write_to(pid_t process, std::uint64_t address, std::span<const std::byte> bytes);

/// Is this word there? Tells whether the system allows reads at all, without an exception.
bool can_read(pid_t process, std::uint64_t address, std::uint64_t word);

/// Lets other processes of this user read and write, where the Yama module asks for that.
void let_others_read();

}  // namespace unisono
