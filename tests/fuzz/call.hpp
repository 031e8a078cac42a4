#pragma once

#include <functional>

#include "base/error.hpp"
#include "demand.hpp"
#include "execute/executor.hpp"
#include "execute/frame.hpp"
#include "scripted_link.hpp"

namespace unisono {

constexpr std::uint64_t fingerprint = 0x0123456789abcdef;

/// A plan in which blocks lie one after the other.
inline LinkPlan plan_for(std::shared_ptr<const Program> program, std::vector<std::uint64_t> sizes,
                         Arithmetic arithmetic) {
    std::vector<std::uint64_t> offsets;
    std::uint64_t end = 0;
    for (const auto size : sizes) {
        offsets.push_back(end);
        end += size;
    }
    LinkPlan plan{.program = std::move(program),
                  .sizes = std::move(sizes),
                  .in_offsets = offsets,
                  .out_offsets = offsets,
                  .arithmetic = arithmetic,
                  .fingerprint = fingerprint,
                  .pairwise = false};
    plan.check();
    return plan;
}

/// What a peer that does everything right sends in the first call: frames, and between them bytes of
/// `payload`.
inline std::vector<std::byte> genuine(const LinkPlan& plan, const Program::Traffic& traffic,
                                      const std::function<std::byte()>& payload) {
    const auto rows = plan.program->instructions();
    const auto size_of_row = [&](const Instruction& row) {
        return plan.sizes[static_cast<std::size_t>(row.block)];
    };
    std::vector<std::byte> stream;
    std::int32_t message = -1;
    for (const auto number : traffic.receives) {
        const auto& row = rows[static_cast<std::size_t>(number)];
        if (std::exchange(message, row.message) != row.message) {
            Frame frame{0, fingerprint, 0};
            for (const auto& each : rows)
                if (each.kind <= Kind::receive && each.message == message) frame.bytes += size_of_row(each);
            const auto bytes = std::as_bytes(std::span(&frame, 1));
            stream.insert(stream.end(), bytes.begin(), bytes.end());
        }
        for (std::uint64_t i = 0; i < size_of_row(row); ++i) stream.push_back(payload());
    }
    return stream;
}

enum class End { success, lost, mismatch };

struct CallResult {
    End end;
    std::vector<std::byte> out;
};

/// Makes one call as rank 0, with peers that send these bytes. It has to end: a deadline is a hang.
inline CallResult make_call(const LinkPlan& plan, const std::vector<std::vector<std::byte>>& incoming,
                            const std::vector<std::uint8_t>& pieces) {
    std::vector<std::unique_ptr<Link>> links;
    for (const auto& each : incoming) links.push_back(std::make_unique<ScriptedLink>(each, pieces));
    links[0].reset();
    Executor executor(0, std::move(links), Host{.own = nullptr, .more_ranks_than_cores = true});
    std::uint64_t bytes = 0;
    for (const auto size : plan.sizes) bytes += size;
    // On the heap and of exactly this size: one byte beyond is an error that AddressSanitizer sees.
    std::vector<std::byte> in(bytes, std::byte{3}), out(bytes, std::byte{5});
    const Request request{
        {in.data(), in.size()}, {out.data(), out.size()}, Clock::now() + std::chrono::seconds(20)};
    try {
        Caller nobody;
        executor.run(plan, request, nobody);
        return {End::success, std::move(out)};
    } catch (const PeerLost&) {
        return {End::lost, {}};
    } catch (const Mismatch&) {
        return {End::mismatch, {}};
    } catch (const DeadlineExceeded&) {
        demand(false, "a call whose peers are gone to end before its deadline");
    }
    return {End::lost, {}};
}

}  // namespace unisono
