// Snapshots: one after the other, each at the same place in the order of all shards.

#include <random>

#include "base/error.hpp"
#include "server/shard.hpp"
#include "server/snapshot.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t most_markings = 64;
constexpr std::size_t longest_path = 4096;

std::uint64_t random_number() {
    std::random_device device;
    return std::uint64_t{device()} << 32 | device();
}

}  // namespace

/// A worker asks for a snapshot, or to load one.
void Shard::mark(Session& session, const Header& head, Bytes payload) {
    if (!coordinates()) throw Malformed("snapshots are the coordinator's");
    if (markings_.size() >= most_markings)
        throw Refused(std::to_string(most_markings) + " snapshots have been asked for and are not taken yet");
    const Kind order = head.kind == Kind::snapshot ? Kind::mark : Kind::examine;
    markings_.push_back(
        {&session, head.sequence, order, Unpacker(payload).text(longest_path), random_number()});
    if (markings_.size() == 1) order_marking(order, true, true);
}

/// Tells some shards what to do next, and waits for them.
void Shard::order_marking(Kind kind, bool of_peers, bool of_us) {
    Marking& marking = markings_.front();
    Header order;
    order.kind = marking.order = kind;
    order.sequence = marking.number;
    try {
        if (kind == Kind::examine) order.first = snapshot_number(marking.directory, options_.shard);
    } catch (const std::exception& error) {
        marking.trouble = error.what();
        return end_marking();
    }
    if (of_us) marking.awaited.insert(options_.shard);
    for (const Session& session : sessions_)
        if (of_peers && session.role == Role::peer && !session.gone) marking.awaited.insert(session.number);
    const std::vector<std::byte> payload = Packer().put(marking.directory).bytes;
    if (of_peers) tell_peers(order, payload);
    if (of_us) follow_marking(order, payload);
}

void Shard::follow_marking(const Header& head, Bytes payload) {
    const std::string directory = Unpacker(payload).text(longest_path);
    const std::uint32_t shard = options_.shard;
    try {
        switch (head.kind) {
            case Kind::mark:  // copied here, written while the shard goes on
                return writer_.start(
                    head.sequence, [directory, label = SnapshotLabel{shard, options_.shards, head.sequence},
                                    content = store_.save()] { write_snapshot(directory, label, content); });
            case Kind::keep:
                return writer_.start(head.sequence, [directory, shard] { keep_snapshot(directory, shard); });
            case Kind::discard:
                return writer_.start(head.sequence,
                                     [directory, shard] { discard_snapshot(directory, shard); });
            case Kind::examine:
                store_.stage(read_snapshot(directory, {shard, options_.shards, head.first}));
                break;
            case Kind::reload:
                store_.load_staged();
                break;
            default:
                store_.forget_staged();
        }
        tell_marked(head.sequence, {});
    } catch (const std::exception& error) {
        tell_marked(head.sequence, error.what());
    }
}

void Shard::tell_marked(std::uint64_t number, const std::string& trouble) {
    Header reply;
    reply.kind = Kind::marked;
    reply.sequence = number;
    if (coordinates()) return note_marked(0, reply, std::as_bytes(std::span(trouble)));
    for (Session& session : sessions_)
        if (session.role == Role::coordinator) {
            session.connection.send(reply, std::as_bytes(std::span(trouble)));
            touch(session);
        }
}

void Shard::note_marked(std::uint32_t shard, const Header& head, Bytes payload) {
    if (markings_.empty() || markings_.front().number != head.sequence) return;
    Marking& marking = markings_.front();
    marking.awaited.erase(shard);
    if (!payload.empty() && marking.trouble.empty())
        marking.trouble.assign(reinterpret_cast<const char*>(payload.data()), payload.size());
    if (marking.awaited.empty()) go_on_marking();
}

/// All have done what they were told. Nobody keeps what not everybody has written, or loads what not
/// everybody can load; what the coordinator keeps is the snapshot from then on.
void Shard::go_on_marking() {
    Marking& marking = markings_.front();
    const bool fine = marking.trouble.empty();
    if (marking.order == Kind::mark && fine) return order_marking(Kind::keep, false, true);
    if (marking.order == Kind::mark) return order_marking(Kind::discard, true, true);
    if (marking.order == Kind::examine) return order_marking(fine ? Kind::reload : Kind::forget, true, true);
    const bool is_news = marking.order == Kind::keep && !std::exchange(marking.kept, true);
    if (is_news && fine && options_.shards > 1) return order_marking(Kind::keep, true, false);
    end_marking();
}

void Shard::end_marking() {
    const Marking marking = std::move(markings_.front());
    markings_.pop_front();
    if (marking.session && !marking.session->gone) {
        Header request;
        request.sequence = marking.sequence;
        if (marking.trouble.empty())
            finish(*marking.session, request);
        else
            refuse(*marking.session, request, marking.trouble, Trouble::config);
    }
    if (!markings_.empty()) order_marking(markings_.front().order, true, true);
}

}  // namespace unisono::server
