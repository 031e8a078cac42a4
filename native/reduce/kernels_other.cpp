#include "reduce/kernels.hpp"

namespace unisono {

std::vector<Kernels> supported_kernels() { return {kernels_for<AnyCpu>}; }

}  // namespace unisono
