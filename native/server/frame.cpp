#include "server/frame.hpp"

#include "server/checksum.hpp"

namespace unisono::server {

namespace {

std::uint32_t check_of(Header header) {
    header.check = 0;
    return checksum(bytes_of(header));
}

bool is_kind(std::uint8_t number) {
    const auto within = [&](Kind first, Kind last) {
        return number >= static_cast<std::uint8_t>(first) && number <= static_cast<std::uint8_t>(last);
    };
    return within(Kind::hello, Kind::abandon) || within(Kind::welcome, Kind::failed) ||
           within(Kind::joined, Kind::unmade);
}

}  // namespace

Header sealed(Header header) {
    header.check = check_of(header);
    return header;
}

void require_valid(const Header& header) {
    if (header.magic != magic) throw Malformed("not a frame of a parameter server");
    if (header.version != version)
        throw Malformed("version " + std::to_string(header.version) +
                        " of the parameter server's frames; this is " + std::to_string(version) +
                        ": install the same unisono everywhere");
    if (header.check != check_of(header)) throw Malformed("a header whose checksum is wrong");
    if (!is_kind(static_cast<std::uint8_t>(header.kind)))
        throw Malformed("a frame of kind " + std::to_string(static_cast<int>(header.kind)));
    if (header.length > most_payload)
        throw Malformed("a payload of " + std::to_string(header.length) + " bytes, where " +
                        std::to_string(most_payload) + " are the most");
}

bool is_push(Kind kind) { return kind == Kind::push || kind == Kind::prepare || kind == Kind::push_pull; }

}  // namespace unisono::server
