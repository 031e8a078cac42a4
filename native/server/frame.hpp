#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>

namespace unisono::server {

enum class Kind : std::uint8_t {
    // from a worker
    hello = 1,  // first: worker and incarnation
    create,     // a table: its description and a part of its first values
    push,       // apply at once
    prepare,    // hold for the clock that the worker will commit
    pull,
    push_pull,
    commit,  // to the coordinator: the worker's next clock
    leave,   // to the coordinator
    status,
    snapshot,
    restore,
    withdraw,  // what was prepared for the clock is forgotten: not all of it was taken
    confirm,   // to the coordinator: all shards have taken the table
    abandon,   // not all have: it is forgotten, unless others have made it, too
    // from a shard
    welcome = 32,
    ack,     // all pushes and prepares up to this sequence
    done,    // one request
    values,  // the answer to one pull
    eager,   // values that nobody asked for now
    failed,  // one request, or, with sequence 0, all of them
    // between shards: the coordinator puts these into one order, which is the same everywhere
    joined = 64,
    committed,
    ended,
    mark,     // a snapshot is taken here
    keep,     // all have written it: it takes the place of the last one
    discard,  // somebody could not: the last one stays
    examine,  // the snapshot of number `first` is read, and made ready
    reload,   // all have it ready: it is loaded here
    forget,   // somebody could not: nothing is loaded
    marked,   // to the coordinator: this has been done
    bye,      // what follows is an orderly end
    made,     // a table, by somebody: it stays
    unmade,   // a table that nobody has made in the end; in logs only
};

enum Flag : std::uint16_t {
    with_clocks = 1,  // an answer begins with how many clocks of each worker it has
};

/// Why a request failed, in the header's `first`.
enum class Trouble : std::uint64_t { config = 1, mismatch, lost };

inline constexpr std::uint32_t magic = 0x31535055;  // "UPS1"
inline constexpr std::uint8_t version = 3;
inline constexpr std::size_t most_payload = std::size_t{4} << 20;
/// Of a dense table, what is pushed and pulled at a time, and has its own clock.
inline constexpr std::size_t chunk_bytes = std::size_t{256} << 10;

/// Of the first values that a table is given, what is sent at a time.
inline constexpr std::size_t given_bytes = std::size_t{1} << 20;

/// Between the end of a payload and the next header: on every link, frames begin where keys may.
constexpr std::size_t padding_of(std::size_t payload) { return -payload % alignof(std::int64_t); }

/// Comes before every payload. Little-endian, like all that follows it.
struct Header {
    std::uint32_t magic = server::magic;
    std::uint8_t version = server::version;
    Kind kind{};
    std::uint16_t flags = 0;
    std::uint32_t table = 0;
    std::uint32_t worker = 0;  // in an answer to a pull: who was awaited last
    std::uint64_t incarnation =
        0;                       // of the worker; in an answer: nanoseconds for which the request had to wait
    std::uint64_t sequence = 0;  // of the worker's requests to this shard, from 1
    std::uint64_t clock = 0;     // of the worker; in an answer: up to which all workers' updates are in it
    std::uint64_t first = 0;     // dense: the first element; otherwise as the kind says
    std::uint64_t count = 0;     // of elements, or of keys
    std::uint32_t length = 0;    // of the payload
    std::uint32_t check = 0;     // of the header, with this field 0
};
static_assert(sizeof(Header) == 64);

/// Among the workers of an answer's clocks: it has ended, and nothing of it is missing.
inline constexpr std::uint64_t has_ended = std::uint64_t{1} << 63;

inline constexpr std::uint32_t nobody = ~std::uint32_t{0};

/// These bytes are no frame, or a frame that nobody of ours would send.
struct Malformed : std::runtime_error {
    using std::runtime_error::runtime_error;
};

/// A request that makes no sense here; the connection is as good as before.
struct Refused : std::runtime_error {
    Refused(const std::string& text, Trouble about = Trouble::config)
        : std::runtime_error(text), trouble(about) {}
    Trouble trouble;
};

/// With its check.
Header sealed(Header header);

/// Malformed unless this can be trusted so far that its payload may be received.
void require_valid(const Header& header);

bool is_push(Kind kind);

inline std::span<const std::byte> bytes_of(const Header& header) {
    return std::as_bytes(std::span(&header, 1));
}

}  // namespace unisono::server
