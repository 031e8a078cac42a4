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

constexpr std::uint64_t snapshot_magic = 0x3250414e53494e55;  // "UNISNAP2"

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

Fd open_to_read(const std::string& path) {
    Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.valid()) throw_errno("cannot read the snapshot " + path);
    return file;
}

/// As many bytes as there are, up to the end of the target.
std::size_t read_some(const Fd& file, std::span<std::byte> target, const std::string& path) {
    std::size_t got = 0;
    while (got < target.size()) {
        const ssize_t count = ::read(file.number(), target.data() + got, target.size() - got);
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) throw_errno("cannot read the snapshot " + path);
        if (count == 0) break;
        got += static_cast<std::size_t>(count);
    }
    return got;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
    throw Refused("the snapshot " + path + " is refused: " + why);
}

Preamble read_preamble(const Fd& file, const std::string& path) {
    Preamble preamble;
    if (read_some(file, std::as_writable_bytes(std::span(&preamble, 1)), path) < sizeof preamble)
        refuse(path, "it is cut short");
    if (preamble.magic != snapshot_magic) refuse(path, "it is no snapshot");
    if (sealed(preamble).check_of_this != preamble.check_of_this) refuse(path, "its head is damaged");
    return preamble;
}

std::string path_of(const std::string& directory, std::uint32_t shard) {
    return directory + "/shard-" + std::to_string(shard) + ".snapshot";
}

std::string beside(const std::string& path) { return path + ".new"; }

bool is_of(const std::string& path, std::uint64_t number) {
    const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    try {
        return file.valid() && read_preamble(file, path).label.number == number;
    } catch (const std::exception&) {
        return false;
    }
}

}  // namespace

void write_snapshot(const std::string& directory, SnapshotLabel label, Bytes content) {
    if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) throw_errno("cannot make " + directory);
    const std::string path = beside(path_of(directory, label.shard));
    {
        const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
        if (!file.valid()) throw_errno("cannot write " + path);
        Preamble preamble;
        preamble.label = label;
        preamble.length = content.size();
        preamble.check = checksum(content);
        preamble = sealed(preamble);
        write_all(file, std::as_bytes(std::span(&preamble, 1)), path);
        write_all(file, content, path);
        if (::fsync(file.number()) != 0) throw_errno("cannot sync " + path);
    }
    sync(directory, O_RDONLY | O_DIRECTORY);
}

void keep_snapshot(const std::string& directory, std::uint32_t shard) {
    const std::string path = path_of(directory, shard);
    if (std::rename(beside(path).c_str(), path.c_str()) != 0) throw_errno("cannot rename " + beside(path));
    sync(directory, O_RDONLY | O_DIRECTORY);
}

void discard_snapshot(const std::string& directory, std::uint32_t shard) {
    ::unlink(beside(path_of(directory, shard)).c_str());
}

std::uint64_t snapshot_number(const std::string& directory, std::uint32_t shard) {
    const std::string path = path_of(directory, shard);
    return read_preamble(open_to_read(path), path).label.number;
}

std::vector<std::byte> read_snapshot(const std::string& directory, SnapshotLabel label) {
    std::string path = path_of(directory, label.shard);
    if (is_of(beside(path), label.number)) path = beside(path);
    const Fd file = open_to_read(path);
    const Preamble preamble = read_preamble(file, path);
    struct stat state{};
    if (::fstat(file.number(), &state) != 0) throw_errno("cannot read the snapshot " + path);
    if (preamble.length != static_cast<std::uint64_t>(state.st_size) - sizeof preamble)
        refuse(path, "it is cut short");
    std::vector<std::byte> content(preamble.length);
    if (read_some(file, content, path) < content.size()) refuse(path, "it is cut short");
    if (checksum(content) != preamble.check) refuse(path, "it is damaged");
    if (preamble.label.shard != label.shard || preamble.label.shards != label.shards)
        refuse(path, "it is of shard " + std::to_string(preamble.label.shard) + " of " +
                         std::to_string(preamble.label.shards) + ", this is shard " +
                         std::to_string(label.shard) + " of " + std::to_string(label.shards));
    if (preamble.label.number != label.number)
        refuse(path, "it is of another snapshot than that of the first shard");
    return content;
}

}  // namespace unisono::server
