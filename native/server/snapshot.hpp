#pragma once

#include <string>
#include <vector>

#include "server/content.hpp"

namespace unisono::server {

/// Which part of which snapshot a file is.
struct SnapshotLabel {
    std::uint32_t shard = 0;
    std::uint32_t shards = 1;
    std::uint64_t number = 0;  // the same on all shards
};

/// The file of a shard in a directory.
std::string snapshot_path(const std::string& directory, std::uint32_t shard);

/// Writes beside, syncs and renames: whoever looks finds the old file or the whole new one.
void write_snapshot(const std::string& directory, SnapshotLabel label, Bytes content);

/// Refused, which says what is wrong, if the file is not what was written for this shard.
std::vector<std::byte> read_snapshot(const std::string& directory, SnapshotLabel& label);

}  // namespace unisono::server
