#pragma once

#include <string>
#include <vector>

#include "server/content.hpp"

namespace unisono::server {

/// Which part of which snapshot a file is.
struct SnapshotLabel {
    std::uint32_t shard = 0;
    std::uint32_t shards = 1;
    std::uint64_t number = 0;  // the same on all shards, and of no other snapshot
};

// A snapshot is the files of all shards. Each writes its own beside the last one; when all have done so, the
// first shard renames its file, and then the others do. So the file of the first shard says which snapshot
// there is, and all others have that one, under one name or the other.

/// Beside the last one. On disk when it returns.
void write_snapshot(const std::string& directory, SnapshotLabel label, Bytes content);
/// What was written takes the place of the last one.
void keep_snapshot(const std::string& directory, std::uint32_t shard);
/// What was written is removed, and the last one stays.
void discard_snapshot(const std::string& directory, std::uint32_t shard);

/// Of the file that a shard keeps.
std::uint64_t snapshot_number(const std::string& directory, std::uint32_t shard);
/// Refused, which says what is wrong, if there is no file of this label, or not as it was written.
std::vector<std::byte> read_snapshot(const std::string& directory, SnapshotLabel label);

}  // namespace unisono::server
