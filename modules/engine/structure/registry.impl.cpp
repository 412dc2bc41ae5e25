// The records of all operations, and the one list of them by name: plain tables, so that no linker can lose an entry.
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

constexpr attention_operations::table attention_records = attention_operations::records();
constexpr channel_operations::table channel_records = channel_operations::records();
constexpr computed_shape_operations::table computed_shape_records = computed_shape_operations::records();
constexpr control_operations::table control_records = control_operations::records();
constexpr coordinate_operations::table coordinate_records = coordinate_operations::records();
constexpr elementwise_operations::table elementwise_records = elementwise_operations::records();
constexpr host_operations::table host_records = host_operations::records();
constexpr index_operations::table index_records = index_operations::records();
constexpr linear_operations::table linear_records = linear_operations::records();
constexpr loss_operations::table loss_records = loss_operations::records();
constexpr nn_operations::table nn_records = nn_operations::records();
constexpr normalize_operations::table normalize_records = normalize_operations::records();
constexpr quantized_operations::table quantized_records = quantized_operations::records();
constexpr random_operations::table random_records = random_operations::records();
constexpr recurrent_operations::table recurrent_records = recurrent_operations::records();
constexpr reduce_by_operations::table reduce_by_records = reduce_by_operations::records();
constexpr reduce_operations::table reduce_records = reduce_operations::records();
constexpr sample_operations::table sample_records = sample_operations::records();
constexpr shape_operations::table shape_records = shape_operations::records();
constexpr signal_operations::table signal_records = signal_operations::records();
constexpr sized_operations::table sized_records = sized_operations::records();
constexpr text_operations::table text_records = text_operations::records();
constexpr tile_operations::table tile_records = tile_operations::records();
constexpr view_operations::table view_records = view_operations::records();

namespace {

template <class... Table> consteval auto by_name(const Table&... tables) {
  std::array<const operation*, (Table::count + ...)> all{};
  std::size_t count = 0;
  const auto add = [&](const auto& table) {
    for (const operation& o : table.of) all[count++] = &o;
  };
  (add(tables), ...);
  std::sort(all.begin(), all.end(), [](const operation* a, const operation* b) { return a->name < b->name; });
  return all;
}
constexpr auto all =
    by_name(attention_records, channel_records, computed_shape_records, control_records, coordinate_records,
            elementwise_records, host_records, index_records, linear_records, loss_records, nn_records,
            normalize_records, quantized_records, random_records, recurrent_records, reduce_by_records, reduce_records,
            sample_records, shape_records, signal_records, sized_records, text_records, tile_records, view_records);
static_assert(
    [] {
      for (std::size_t i = 1; i < all.size(); ++i)
        if (all[i - 1]->name == all[i]->name) return false;
      return true;
    }(),
    "two operations have one name");

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
