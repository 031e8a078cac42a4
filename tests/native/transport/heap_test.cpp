// Pieces of a shared segment.

#include "transport/shm/heap.hpp"

#include <sys/stat.h>

#include <cstring>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "expect.hpp"
#include "transport/shm/segment.hpp"

namespace {

using unisono::Heap;
using unisono::Segment;

constexpr std::size_t page = 4096;
constexpr std::size_t pages = 64;

struct Fixture {
    Segment segment = Segment::create(page, pages* page);
    Heap heap{segment.bytes().subspan(page), segment.descriptor(), page};

    std::size_t allocated_pages() const {
        struct stat status{};
        expect(::fstat(segment.descriptor(), &status) == 0, "a status");
        return static_cast<std::size_t>(status.st_blocks) * 512 / page;
    }
};

bool is_refused(Heap& heap, std::size_t size) {
    try {
        heap.allocate(size);
    } catch (const unisono::SystemError&) {
        return true;
    }
    return false;
}

void test_pieces_do_not_overlap_and_come_back() {
    Fixture fixture;
    std::mt19937 random(5);
    struct Piece {
        std::byte* bytes;
        std::size_t size;
        std::byte mark;
    };
    std::vector<Piece> pieces;
    for (int turn = 0; turn < 2000; ++turn) {
        if (pieces.size() < 10 && random() % 3 != 0) {
            const Piece piece{nullptr, random() % (5 * page), static_cast<std::byte>(turn)};
            pieces.push_back(piece);
            pieces.back().bytes = fixture.heap.allocate(piece.size);
            std::memset(pieces.back().bytes, std::to_integer<int>(piece.mark), piece.size);
        } else if (!pieces.empty()) {
            std::swap(pieces[random() % pieces.size()], pieces.back());
            const Piece piece = pieces.back();
            pieces.pop_back();
            for (std::size_t i = 0; i < piece.size; ++i)
                expect(piece.bytes[i] == piece.mark, "what was written");
            fixture.heap.free(piece.bytes);
        }
    }
    for (const auto& piece : pieces) fixture.heap.free(piece.bytes);
    expect(!is_refused(fixture.heap, pages * page), "one piece again when all have come back");
}

void test_pages_exist_when_they_are_handed_out_and_are_used_again() {
    Fixture fixture;
    expect(fixture.allocated_pages() == 1, "nothing allocated for the heap at first");
    std::byte* const first = fixture.heap.allocate(3 * page);
    expect(fixture.allocated_pages() == 4, "pages for the array");
    fixture.heap.free(first);
    expect(fixture.heap.allocate(2 * page + 1) == first && fixture.allocated_pages() == 4, "the same pages");
}

void test_more_than_there_is_is_refused() {
    Fixture fixture;
    expect(is_refused(fixture.heap, pages * page + 1), "too large an array to be refused");
    fixture.heap.allocate(pages * page);
    expect(is_refused(fixture.heap, 1), "no memory left");
}

void test_an_address_is_found_with_as_much_as_lies_in_the_heap() {
    Fixture fixture;
    const std::byte* const start = fixture.segment.bytes().data() + page;
    expect(fixture.heap.offset_of(start + 100, 50) == 100, "the offset");
    expect(fixture.heap.offset_of(start, pages * page) == 0, "the whole heap");
    expect(!fixture.heap.offset_of(start + 1, pages * page), "not what ends behind it");
    expect(!fixture.heap.offset_of(start - 1, 1), "not what starts before it");
}

}  // namespace

int main() {
    test_pieces_do_not_overlap_and_come_back();
    test_pages_exist_when_they_are_handed_out_and_are_used_again();
    test_more_than_there_is_is_refused();
    test_an_address_is_found_with_as_much_as_lies_in_the_heap();
}
