// Records of all operations, and the list of them by name: a plain table, so that the linker cannot drop an entry.
module lamina:structure.registry.impl;
import :core;
import :op;
import :op.activation;
import :op.attention;
import :op.channels;
import :op.computed_shape;
import :op.control;
import :op.coordinates;
import :op.elementwise;
import :op.host;
import :op.index;
import :op.linear;
import :op.loss;
import :op.nn;
import :op.normalize;
import :op.quantized;
import :op.random;
import :op.recurrent;
import :op.reduce;
import :op.reduce_by;
import :op.sample;
import :op.shape;
import :op.signal;
import :op.sized;
import :op.text;
import :op.tile;
import :op.view;
import :program;
import :structure;
import lamina.std;

namespace lamina {

template <class Op> constinit const operation library_record<Op>::is = detail::recorded<Op>::record();

namespace {
template <class Op> consteval operation without_patterns() {
  operation r = detail::recorded<Op>::record();
  r.patterns = {};
  return r;
}
}  // namespace
template <> constinit const operation library_record<op::concat>::outside_patterns = without_patterns<op::concat>();
template <> constinit const operation library_record<op::exp>::outside_patterns = without_patterns<op::exp>();
template <> constinit const operation library_record<op::permute>::outside_patterns = without_patterns<op::permute>();
template <> constinit const operation library_record<op::sqrt>::outside_patterns = without_patterns<op::sqrt>();

namespace {

struct named_record {
  std::string_view name;
  const operation* is;
};
template <class... Op> consteval auto records_of(operation_list<Op...>) {
  return std::array{named_record{Op::name, &library_record<Op>::is}...};
}
// Sorted by name; duplicate names fail to compile.
template <class... List> consteval auto by_name() {
  std::array<named_record, (List::count + ...)> named{};
  std::size_t count = 0;
  const auto add = [&](const auto& records) {
    for (const named_record& one : records) named[count++] = one;
  };
  (add(records_of(List())), ...);
  std::sort(named.begin(), named.end(), [](const named_record& a, const named_record& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < count; ++i)
    if (named[i - 1].name == named[i].name) throw "two operations have one name";
  std::array<const operation*, (List::count + ...)> all{};
  std::transform(named.begin(), named.end(), all.begin(), [](const named_record& one) { return one.is; });
  return all;
}
constexpr auto all =
    by_name<attention_operations, channel_operations, computed_shape_operations, control_operations,
            coordinate_operations, elementwise_operations, host_operations, index_operations, linear_operations,
            loss_operations, nn_operations, normalize_operations, quantized_operations, random_operations,
            recurrent_operations, reduce_operations, reduce_by_operations, sample_operations, shape_operations,
            signal_operations, sized_operations, text_operations, tile_operations, view_operations>();

}  // namespace

view<const operation* const> operations() { return all; }

const operation* find_operation(std::string_view name, view<const operation* const> own) {
  for (const operation* o : own)
    if (o->name == name) return o;
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const operation* a, std::string_view b) { return a->name < b; });
  return at != all.end() && (*at)->name == name ? *at : nullptr;
}

}  // namespace lamina
