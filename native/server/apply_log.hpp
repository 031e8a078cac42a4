#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "server/content.hpp"

namespace unisono::server {

/// Everything that changed a shard, in its order: header, payload, checksum of the payload. The same events
/// make the same bits again.
class ApplyLog {
  public:
    /// SystemError if the file cannot be written.
    explicit ApplyLog(const std::string& path);

    // SystemError if there is no room for it.
    void note(Header head, Bytes payload);
    void flush();

  private:
    void write(Bytes bytes);

    struct Close {
        void operator()(std::FILE* file) const { std::fclose(file); }
    };
    std::string path_;
    std::unique_ptr<std::FILE, Close> file_;
};

/// Calls the body with each event. A last event that is cut short is left out: its server was killed.
/// Malformed if anything else is wrong.
void read_log(const std::string& path, const std::function<void(const Header&, Bytes)>& body);

}  // namespace unisono::server
