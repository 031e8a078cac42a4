#include "simulate/ports.hpp"

#include <algorithm>
#include <cmath>

namespace unisono::simulate {

namespace {

constexpr double rounding = 1e-14;

bool ports_are_shared(const Messages& messages, std::size_t ranks) {
    std::vector<bool> sends(ranks), receives(ranks);
    for (std::size_t m = 0; m < messages.size(); ++m) {
        const auto source = static_cast<std::size_t>(messages.source[m]);
        const auto target = static_cast<std::size_t>(messages.target[m]);
        if (receives[target] || (source != target && sends[source])) return true;
        receives[target] = true;
        if (source != target) sends[source] = true;
    }
    return false;
}

class Round {
  public:
    Round(Ranks& ranks, Album& album, const Messages& messages)
        : ranks_(ranks), album_(album), messages_(messages), end_(ranks.size()), last_(ranks.size()) {}

    void run(std::int64_t round) {
        end_ = ranks_.begin;
        std::fill(last_.begin(), last_.end(), -1);
        const bool recording = album_.is_open();
        for (std::size_t m = 0; m < messages_.size(); ++m) {
            const auto source = static_cast<std::size_t>(messages_.source[m]);
            const auto target = static_cast<std::size_t>(messages_.target[m]);
            const double ready = std::max(ranks_.begin[source], ranks_.begin[target]);
            const double began = ready + messages_.start[m];
            const double ended = began + messages_.alone(m);
            end(source, m, ended);
            end(target, m, ended);
            if (recording && source != target && ended < never)
                album_.add({round, messages_.source[m], messages_.target[m], messages_.nbytes[m],
                            messages_.alone(m), ready, began, ended});
        }
        stall(round);
    }

    /// How far all ranks came, if they came equally far; otherwise `never`.
    double common_step() const {
        const double step = end_[0] - ranks_.begin[0];
        if (!(step < never)) return never;
        for (std::size_t rank = 0; rank < end_.size(); ++rank)
            if (!(std::abs(end_[rank] - ranks_.begin[rank] - step) <= rounding * end_[rank])) return never;
        return step;
    }

    void finish(std::int64_t times, double more) {
        for (std::size_t rank = 0; rank < end_.size(); ++rank) {
            if (last_[rank] >= 0 && end_[rank] < never)
                ranks_.account(rank, messages_, static_cast<std::size_t>(last_[rank]),
                               static_cast<double>(times));
            ranks_.begin[rank] = end_[rank] + more;
        }
    }

  private:
    void end(std::size_t rank, std::size_t m, double ended) {
        if (last_[rank] >= 0 && ended <= end_[rank]) return;
        end_[rank] = ended;
        last_[rank] = static_cast<std::int64_t>(m);
    }

    void stall(std::int64_t round) {
        for (std::size_t rank = 0; rank < end_.size(); ++rank) {
            if (end_[rank] < never || last_[rank] < 0 || ranks_.last_round[rank] >= 0) continue;
            const auto m = static_cast<std::size_t>(last_[rank]);
            const auto source = messages_.source[m], target = messages_.target[m];
            ranks_.stall(rank, round, source == static_cast<std::int32_t>(rank) ? target : source,
                         ranks_.begin[rank]);
        }
    }

    Ranks& ranks_;
    Album& album_;
    const Messages& messages_;
    std::vector<double> end_;
    std::vector<std::int64_t> last_;
};

}  // namespace

bool advance_ports(Ranks& ranks, Album& album, const Messages& messages, std::int64_t repeat,
                   std::int64_t round) {
    if (ports_are_shared(messages, ranks.size())) return false;
    Round step(ranks, album, messages);
    for (std::int64_t i = 0; i < repeat; ++i) {
        step.run(round + i);
        const std::int64_t rest = repeat - i - 1;
        const double common = rest > 0 && !album.is_open() ? step.common_step() : never;
        if (common < never) {
            step.finish(1 + rest, common * static_cast<double>(rest));
            return true;
        }
        step.finish(1, 0);
    }
    return true;
}

}  // namespace unisono::simulate
