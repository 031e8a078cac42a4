/// A frame is accepted if it is the one that is due, byte for byte; any other is a Mismatch that says so.

#include <array>

#include "base/error.hpp"
#include "demand.hpp"
#include "execute/frame.hpp"
#include "script.hpp"

using namespace unisono;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Script script({data, size});
    const Frame due{script.number<std::uint64_t>(), script.number<std::uint64_t>(),
                    script.number<std::uint64_t>()};
    const Route route{script.number<std::int32_t>(), script.number<std::int32_t>(), 0};
    std::array<std::byte, sizeof(Frame)> arrived{};
    std::memcpy(arrived.data(), &due, sizeof(Frame));
    bool same = true;
    for (auto& each : arrived) {
        const auto change = script.number<std::byte>();
        each ^= change;
        same = same && change == std::byte{0};
    }
    try {
        require_frame(arrived, due, route);
        demand(same, "another frame to be refused");
    } catch (const Mismatch& error) {
        demand(!same, "the frame that is due to be accepted");
        demand(std::strstr(error.what(), " and awaits ") != nullptr, "words of both ranks");
    }
    return 0;
}
