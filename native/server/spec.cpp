#include "server/spec.hpp"

namespace unisono::server {

namespace {

constexpr std::size_t longest_name = 256;
constexpr std::size_t longest_rule = 4096;
constexpr std::uint64_t widest_row = 1 << 16;
constexpr std::uint32_t most_slots = 8;
constexpr std::uint64_t loosest_bound = 1 << 20;  // clocks

template <class E>
E take_enum(Unpacker& from, E last) {
    const auto number = from.take<std::uint8_t>();
    if (number > static_cast<std::uint8_t>(last)) throw Malformed("a table of an unknown kind");
    return static_cast<E>(number);
}

bool is_floating(Dtype dtype) {
    return with_type(dtype, []<class T>() { return Floating<T>; });
}

void require_sense(const TableSpec& spec) {
    const std::string table = "table '" + spec.name + "': ";
    if (spec.dtype == Dtype::f16 || spec.dtype == Dtype::bf16 || spec.dtype == Dtype::boolean)
        throw Refused(table + name_of(spec.dtype) +
                      " is for the wire; tables have float32, float64 or integers");
    if (spec.wire != spec.dtype && !(is_floating(spec.dtype) && is_floating(spec.wire)))
        throw Refused(table + "only floating-point numbers may travel as others");
    if (!is_floating(spec.dtype) && spec.update != Update::add && spec.update != Update::assign &&
        spec.update != Update::python)
        throw Refused(table + "integers can be added and assigned");
    if (spec.layout == Layout::sparse && (spec.extent == 0 || spec.extent > widest_row))
        throw Refused(table + "a row has 1 to 65536 elements");
    if (spec.layout == Layout::sparse && spec.init == Init::given)
        throw Refused(table + "sparse rows start as a number or at random");
    if (spec.bound > loosest_bound) throw Refused(table + "a bound of staleness is 0 to 1048576 clocks");
    if (spec.slots > most_slots) throw Refused(table + "a rule has up to 8 arrays of state");
}

}  // namespace

void TableSpec::pack(Packer& into) const {
    into.put(name).put(layout).put(dtype).put(wire).put(extent).put(whole).put(update).put(rates).put(rule);
    into.put(slots).put(consistency).put(bound).put(init).put(start).put(seed);
}

TableSpec TableSpec::unpack(Unpacker& from) {
    TableSpec spec;
    spec.name = from.text(longest_name);
    spec.layout = take_enum(from, Layout::sparse);
    spec.dtype = take_enum(from, Dtype::boolean);
    spec.wire = take_enum(from, Dtype::boolean);
    spec.extent = from.take<std::uint64_t>();
    spec.whole = from.take<std::uint64_t>();
    spec.update = take_enum(from, Update::python);
    spec.rates = from.take<std::array<double, 4>>();
    spec.rule = from.text(longest_rule);
    spec.slots = from.take<std::uint32_t>();
    spec.consistency = take_enum(from, Consistency::asynchronous);
    spec.bound = from.take<std::uint64_t>();
    spec.init = take_enum(from, Init::given);
    spec.start = from.take<double>();
    spec.seed = from.take<std::uint64_t>();
    require_sense(spec);
    return spec;
}

}  // namespace unisono::server
