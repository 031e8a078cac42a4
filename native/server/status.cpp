#include <iomanip>
#include <sstream>

#include "server/shard.hpp"

namespace unisono::server {

namespace {

std::string in_quotes(const std::string& text) {
    std::ostringstream out;
    out << '"' << std::hex << std::setfill('0');
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 32) {
            out << "\\u" << std::setw(4) << static_cast<int>(c);
            continue;
        }
        if (c == '"' || c == '\\') out << '\\';
        out << c;
    }
    out << '"';
    return out.str();
}

/// Writes body(element) for each, with commas between.
template <class Range, class Body>
void list(std::ostream& out, const Range& range, Body body) {
    const char* comma = "";
    for (const auto& element : range) {
        out << comma;
        body(element);
        comma = ",";
    }
}

}  // namespace

/// As JSON: it is for people, and for errors.
std::string Shard::status() const {
    std::ostringstream out;
    out << "{\"members\":{";
    list(out, store_.members(), [&](const auto& entry) {
        const auto& [worker, member] = entry;
        const char* state = member.incarnation == 0    ? "expected"
                            : broken_.contains(worker) ? "broken"
                                                       : "here";
        out << '"' << worker << "\":\"" << state << '"';
    });
    out << "},\"tables\":{";
    list(out, store_.tables(), [&](const auto& entry) {
        const Table& table = entry.second;
        out << in_quotes(table.spec.name) << ":{\"slowest\":" << table.slowest()
            << ",\"bytes\":" << table.memory() << ",\"clocks\":{";
        list(out, table.clocks(),
             [&](const auto& clock) { out << '"' << clock.first << "\":" << clock.second; });
        out << "}}";
    });
    out << "},\"waits\":[";
    list(out, waits_, [&](const auto& entry) {
        const auto& [pair, time] = entry;
        out << '[' << pair.first << ',' << pair.second << ',' << static_cast<double>(time) * 1e-9 << ']';
    });
    out << "],\"snapshot\":[";  // shards that have not taken, or loaded, their part
    if (!markings_.empty()) list(out, markings_.front().awaited, [&](std::uint32_t shard) { out << shard; });
    out << "]}";
    return out.str();
}

}  // namespace unisono::server
