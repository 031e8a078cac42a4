/// Both ways to copy, from and to any address.

#include "reduce/copy.hpp"

#include <algorithm>
#include <vector>

#include "expect.hpp"

using namespace unisono;

namespace {

constexpr std::size_t page = 4096, room = 600 * 1024;
constexpr std::byte untouched{0xee};

void copies(void (*way)(std::byte*, const std::byte*, std::size_t)) {
    std::vector<std::byte> from(room + 2 * page), to(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i % 251);
    for (const std::size_t bytes : {0, 1, 63, 2047, 2048, 2049, 16383, 16384 + 5, 512 * 1024 + 17})
        for (const std::size_t source : {0, 1, 16, 33})
            for (const std::size_t target : {0, 1, 15, 16, 31, 32, 64, 100}) {
                std::ranges::fill(to, untouched);
                way(to.data() + target, from.data() + source, bytes);
                const auto begin = to.begin() + static_cast<std::ptrdiff_t>(target);
                const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
                expect(std::equal(begin, end, from.begin() + static_cast<std::ptrdiff_t>(source)),
                       "what was copied");
                expect(std::all_of(to.begin(), begin, [](std::byte each) { return each == untouched; }) &&
                           std::all_of(end, to.end(), [](std::byte each) { return each == untouched; }),
                       "nothing else to change");
            }
}

}  // namespace

int main() {
    copies(copy_bytes);
    copies(stream);
}
