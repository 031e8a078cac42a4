/// Stands in for libFuzzer where there is none: runs the inputs in the folders that it is given, once each.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "demand.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

int main(int count, char** arguments) {
    int replayed = 0;
    for (int i = 1; i < count; ++i)
        for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
            std::ifstream file(entry.path(), std::ios::binary);
            const std::vector<char> input{std::istreambuf_iterator<char>(file), {}};
            LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
            ++replayed;
        }
    demand(replayed > 0, "a corpus to replay");
    std::cout << replayed << " inputs replayed" << std::endl;
}
