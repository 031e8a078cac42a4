#include "server/apply_log.hpp"

#include <vector>

#include "base/error.hpp"
#include "server/checksum.hpp"

namespace unisono::server {

ApplyLog::ApplyLog(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "wbe")) {
    if (!file_) throw_errno("cannot write the apply log " + path);
}

void ApplyLog::note(Header head, Bytes payload) {
    head.length = static_cast<std::uint32_t>(payload.size());
    head = sealed(head);
    const std::uint32_t check = checksum(payload);
    write(bytes_of(head));
    write(payload);
    write(std::as_bytes(std::span(&check, 1)));
}

void ApplyLog::write(Bytes bytes) {
    if (!bytes.empty() && std::fwrite(bytes.data(), bytes.size(), 1, file_.get()) != 1)
        throw_errno("cannot write the apply log " + path_);
}

void ApplyLog::flush() {
    if (std::fflush(file_.get()) != 0) throw_errno("cannot write the apply log " + path_);
}

void read_log(const std::string& path, const std::function<void(const Header&, Bytes)>& body) {
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"), &std::fclose);
    if (!file) throw_errno("cannot read the apply log " + path);
    Header head;
    std::vector<std::byte> payload;
    while (std::fread(&head, sizeof head, 1, file.get()) == 1) {
        require_valid(head);
        std::uint32_t check;
        payload.resize(head.length);
        if (head.length > 0 && std::fread(payload.data(), head.length, 1, file.get()) != 1) return;
        if (std::fread(&check, sizeof check, 1, file.get()) != 1) return;
        if (check != checksum(payload)) throw Malformed("the apply log " + path + " is damaged");
        body(head, payload);
    }
}

}  // namespace unisono::server
