#include "server/snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/fd.hpp"
#include "server/checksum.hpp"

namespace unisono::server {

namespace {

constexpr std::uint64_t snapshot_magic = 0x3150414e53494e55;  // "UNISNAP1"

struct Preamble {
    std::uint64_t magic = snapshot_magic;
    SnapshotLabel label;
    std::uint64_t length = 0;
    std::uint32_t check = 0;          // of the content
    std::uint32_t check_of_this = 0;  // with this field 0
};

Preamble sealed(Preamble preamble) {
    preamble.check_of_this = 0;
    preamble.check_of_this = checksum(std::as_bytes(std::span(&preamble, 1)));
    return preamble;
}

void write_all(const Fd& file, Bytes bytes, const std::string& path) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file.number(), bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) throw_errno("cannot write " + path);
        bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
}

void sync(const std::string& path, int flags) {
    const Fd file(::open(path.c_str(), flags | O_CLOEXEC));
    if (!file.valid() || ::fsync(file.number()) != 0) throw_errno("cannot sync " + path);
}

std::vector<std::byte> read_file(const std::string& path) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat state{};
    if (!file.valid() || ::fstat(file.number(), &state) != 0) throw_errno("cannot read the snapshot " + path);
    std::vector<std::byte> bytes(static_cast<std::size_t>(state.st_size));
    std::size_t got = 0;
    while (got < bytes.size()) {
        const ssize_t count = ::read(file.number(), bytes.data() + got, bytes.size() - got);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) throw_errno("cannot read the snapshot " + path);
        got += static_cast<std::size_t>(count);
    }
    return bytes;
}

}  // namespace

std::string snapshot_path(const std::string& directory, std::uint32_t shard) {
    return directory + "/shard-" + std::to_string(shard) + ".snapshot";
}

void write_snapshot(const std::string& directory, SnapshotLabel label, Bytes content) {
    if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) throw_errno("cannot make " + directory);
    const std::string path = snapshot_path(directory, label.shard);
    const std::string beside = path + ".new";
    {
        const Fd file(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
        if (!file.valid()) throw_errno("cannot write " + beside);
        Preamble preamble;
        preamble.label = label;
        preamble.length = content.size();
        preamble.check = checksum(content);
        preamble = sealed(preamble);
        write_all(file, std::as_bytes(std::span(&preamble, 1)), beside);
        write_all(file, content, beside);
        if (::fsync(file.number()) != 0) throw_errno("cannot sync " + beside);
    }
    if (std::rename(beside.c_str(), path.c_str()) != 0) throw_errno("cannot rename " + beside);
    sync(directory, O_RDONLY | O_DIRECTORY);
}

std::vector<std::byte> read_snapshot(const std::string& directory, SnapshotLabel& label) {
    const std::string path = snapshot_path(directory, label.shard);
    std::vector<std::byte> bytes = read_file(path);
    Preamble preamble;
    const auto refuse = [&](const std::string& why) {
        throw Refused("the snapshot " + path + " is refused: " + why);
    };
    if (bytes.size() < sizeof preamble) refuse("it is cut short");
    std::memcpy(&preamble, bytes.data(), sizeof preamble);
    if (preamble.magic != snapshot_magic) refuse("it is no snapshot");
    if (sealed(preamble).check_of_this != preamble.check_of_this) refuse("its head is damaged");
    if (preamble.length != bytes.size() - sizeof preamble) refuse("it is cut short");
    bytes.erase(bytes.begin(), bytes.begin() + sizeof preamble);
    if (checksum(bytes) != preamble.check) refuse("it is damaged");
    if (preamble.label.shard != label.shard || preamble.label.shards != label.shards)
        refuse("it is of shard " + std::to_string(preamble.label.shard) + " of " +
               std::to_string(preamble.label.shards) + ", this is shard " + std::to_string(label.shard) +
               " of " + std::to_string(label.shards));
    label = preamble.label;
    return bytes;
}

}  // namespace unisono::server
