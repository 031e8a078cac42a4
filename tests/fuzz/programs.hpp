#pragma once

#include "execute/program.hpp"

namespace unisono {

constexpr int ranks_of_programs = 3;

constexpr Home nowhere{-1, -1};

inline Home in(int block) { return {static_cast<int>(Area::in), block}; }
inline Home out(int block) { return {static_cast<int>(Area::out), block}; }
inline Home slot(int number) { return {static_cast<int>(Area::slot), number}; }

/// Rank 0 sends two blocks and receives two, in one message each, from one peer.
inline Program swapping() {
    return Program(0, ranks_of_programs, 3, {},
                   {{Kind::send, 1, How::copy, 0, 0, nowhere, in(0), nowhere},
                    {Kind::send, 1, How::copy, 0, 1, nowhere, in(1), nowhere},
                    {Kind::receive, 1, How::copy, 1, 1, out(1), nowhere, nowhere},
                    {Kind::receive, 1, How::copy, 1, 2, out(2), nowhere, nowhere}},
                   {}, {}, {0, 0, 0, 0, 0});
}

/// Receives and adds what arrives to its input, passes it on byte by byte, and overwrites it with what comes
/// back.
inline Program reducing(How how) {
    return Program(0, ranks_of_programs, 3, {},
                   {{Kind::receive, 2, how, 0, 0, out(0), nowhere, in(0)},
                    {Kind::send, 1, How::copy, 1, 0, nowhere, out(0), nowhere},
                    {Kind::receive, 2, how, 2, 1, out(1), nowhere, in(1)},
                    {Kind::local, -1, how, -1, 1, out(1), in(1), out(1)},
                    {Kind::receive, 1, How::copy, 3, 0, out(0), nowhere, nowhere}},
                   {}, {0, 2, 1}, {0, 0, 1, 1, 2, 3});
}

/// Blocks of two peers wait in slots, are folded with its own, and go to both.
inline Program folding() {
    return Program(0, ranks_of_programs, 3, {2, 2},
                   {{Kind::receive, 1, How::copy, 0, 2, slot(0), nowhere, nowhere},
                    {Kind::receive, 2, How::copy, 1, 2, slot(1), nowhere, nowhere},
                    {Kind::fold, -1, How::copy, -1, 2, out(2), nowhere, {0, 3}},
                    {Kind::send, 1, How::copy, 2, 2, nowhere, out(2), nowhere},
                    {Kind::send, 2, How::copy, 3, 2, nowhere, out(2), nowhere}},
                   {in(2), slot(0), slot(1)}, {0, 1, 2, 2}, {0, 0, 0, 2, 3, 4});
}

}  // namespace unisono
