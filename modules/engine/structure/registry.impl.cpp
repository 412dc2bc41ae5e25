// The one list of operations by name: a plain table, so that no linker can lose an entry.
module lamina:structure.registry.impl;
import :core;
import :op;
import :op.activation;
import :op.attention;
import :op.computed_shape;
import :op.control;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.loss;
import :op.nn;
import :op.normalize;
import :op.quantized;
import :op.random;
import :op.recurrent;
import :op.reduce;
import :op.shape;
import :op.sized;
import :op.tile;
import :op.view;
import :program;
import :structure;
import lamina.std;

namespace lamina {

namespace {

// clang-format off
constexpr const operation* all[] = {
    &record<op::abs>, &record<op::acos>, &record<op::acosh>, &record<op::add>, &record<op::arange>, &record<op::argmax>, &record<op::argmin>,
    &record<op::as_matrix>, &record<op::asin>, &record<op::asinh>, &record<op::atan>, &record<op::atanh>,
    &record<op::attention>, &record<op::avg_pool2d>, &record<op::avg_pool2d_grad>, &record<op::broadcast_like>,
    &record<op::cached_attention>, &record<op::call>, &record<op::cast>, &record<op::causal_mask>, &record<op::ceil>,
    &record<op::clamp>, &record<op::concat>, &record<op::concat_part>, &record<op::cond>, &record<op::conv2d>,
    &record<op::conv2d_input_grad>, &record<op::conv2d_weight_grad>, &record<op::conv_transpose2d>, &record<op::cos>,
    &record<op::cosh>, &record<op::cumsum>, &record<op::dequantize>, &record<op::divide>, &record<op::dot_result>,
    &record<op::equal>, &record<op::erf>, &record<op::exp>, &record<op::expand_to>, &record<op::expm1>, &record<op::flatten>,
    &record<op::floor>, &record<op::full>, &record<op::gather>, &record<op::gelu>, &record<op::gelu_tanh>, &record<op::gradient_like>,
    &record<op::greater>, &record<op::greater_equal>, &record<op::group_heads>, &record<op::gru_gates>,
    &record<op::gru_gates_grad>, &record<op::in_training>, &record<op::layer_norm>, &record<op::less>,
    &record<op::less_equal>, &record<op::log>, &record<op::log1p>, &record<op::log_softmax>, &record<op::logical_and>,
    &record<op::logical_not>, &record<op::logical_or>, &record<op::logical_xor>, &record<op::lstm_gates>,
    &record<op::lstm_gates_grad>, &record<op::matmul>, &record<op::max_pool2d>, &record<op::max_pool2d_grad>,
    &record<op::maximum>, &record<op::minimum>, &record<op::mish>, &record<op::multiply>, &record<op::negate>,
    &record<op::non_max_suppression>, &record<op::non_zero>, &record<op::not_equal>, &record<op::one_hot_like>,
    &record<op::order>, &record<op::pad>, &record<op::pad_by>, &record<op::pad_by_grad>, &record<op::permute>, &record<op::pick>, &record<op::pick_grad>,
    &record<op::pick_label>, &record<op::pick_label_grad>, &record<op::positions>, &record<op::pow>,
    &record<op::product_of_others>, &record<op::product_of_others_slope>, &record<op::put_rows>, &record<op::quantize>,
    &record<op::quantized_add>, &record<op::quantized_avg_pool2d>, &record<op::quantized_conv2d>,
    &record<op::quantized_linear>, &record<op::random_normal>, &record<op::random_uniform>, &record<op::reciprocal>,
    &record<op::reduce_all>, &record<op::reduce_any>, &record<op::reduce_max>, &record<op::reduce_mean>,
    &record<op::reduce_min>, &record<op::reduce_prod>, &record<op::reduce_sum>, &record<op::relu>, &record<op::repeat>,
    &record<op::repeat_grad>, &record<op::repeat_like>, &record<op::reshape>, &record<op::reshape_like>, &record<op::reshape_to>,
    &record<op::rms_norm>, &record<op::rope>, &record<op::round>, &record<op::same_shape>, &record<op::scan>,
    &record<op::scatter_elements>, &record<op::scatter_rows>, &record<op::select>, &record<op::shape_of>,
    &record<op::sigmoid>, &record<op::sign>, &record<op::silu>, &record<op::sin>, &record<op::sinh>, &record<op::slice>,
    &record<op::slice_at>, &record<op::slice_at_grad>, &record<op::slice_grad>, &record<op::softmax>, &record<op::softplus>, &record<op::section>, &record<op::equal_part>,
    &record<op::split_grad>, &record<op::spread>, &record<op::spread_mean>, &record<op::sqrt>, &record<op::square>,
    &record<op::squeeze>, &record<op::stop_gradient>, &record<op::subtract>, &record<op::sum_like>,
    &record<op::sum_rows_alike>, &record<op::take_along_axis>, &record<op::tan>, &record<op::tanh>, &record<op::tile>,
    &record<op::tile_by>,
    &record<op::tile_grad>, &record<op::tile_like>, &record<op::tile_to>, &record<op::to_one_hot>,
    &record<op::truncate>, &record<op::unique>, &record<op::unsqueeze>, &record<op::where>,
};
// clang-format on
static_assert([] {
  for (std::size_t i = 1; i < std::size(all); ++i)
    if (!(all[i - 1]->name < all[i]->name)) return false;
  return true;
}());

}  // namespace

view<const operation* const> operations() { return {all, std::size(all)}; }

const operation* find_operation(std::string_view name, view<const operation* const> own) {
  for (const operation* o : own)
    if (o->name == name) return o;
  auto at = std::lower_bound(std::begin(all), std::end(all), name,
                             [](const operation* a, std::string_view b) { return a->name < b; });
  return at != std::end(all) && (*at)->name == name ? *at : nullptr;
}

}  // namespace lamina
