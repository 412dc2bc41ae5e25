module;
#include "../kernels/families.h"
module lamina:op.quantized.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.products;
import :op.quantized;
import :op.reduce;
import :op.shape;
import :op.switches;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

const kernels::quantized_functions& functions(const emission& e) { return kernels::quantized_of(e.isa()); }
// The fastest form of products with any weights for this machine, without AMX, for which a process must ask the system;
// if LAMINA_VNNI is 0, without dot products of bytes.
int portable_form(const kernels::quantized_functions& f) {
  static const bool without_vnni = detail::is_switched_off("LAMINA_VNNI");
  return without_vnni ? 0 : f.form_without_amx();
}
// The form of products with weights of some bits. It distinguishes weights packed for different machines.
int form_of(const kernels::quantized_functions& f, std::int64_t weight_bits = 8) {
  const int any = portable_form(f);
  return any == 0 && weight_bits <= 7 && f.products[2].linear ? 2 : any;
}
const kernels::quantized_products& products(const emission& e, int form) { return functions(e).products[form]; }
const kernels::quantized_products& products(const emission& e) { return products(e, form_of(functions(e))); }
// The form with AMX in place of the one with VNNI where a process may use it, but not in a bundle; results are the same.
int with_amx(const emission& e, int form) {
  static const bool without = detail::is_switched_off("LAMINA_AMX");
  // Found once: to ask the processor takes longer than to emit a product.
  static const bool there =
      !without && kernels::quantized_of(lamina::isa::avx512).form() == kernels::quantized_form_of_amx;
  return form == 1 && there && e.isa() == lamina::isa::avx512 && !e.compact() ? kernels::quantized_form_of_amx : form;
}
// Matrix products from weights that `products` of a form packed.
const kernels::quantized_products& matrix_products(const emission& e, int form) {
  return products(e, with_amx(e, form));
}
// Kernels that compute a result in channel blocks, which the planner chooses only where they are.
const kernels::quantized_blocked_functions& blocks_of(const emission& e) { return *functions(e).blocked; }

// Channels of a block, also of other elements.
std::int64_t block_channels(lamina::isa set) { return kernels::lanes(static_cast<kernels::isa>(set)); }
std::int64_t block_channels(const emission& e) { return block_channels(e.isa()); }
// Filters of a panel of packed weights.
constexpr std::int64_t panel_columns = 16;

// Weights packed by `make`, once if they are a state. `moves`: the packed form contains each byte at a place
// that does not depend on it; what it adds, sums and an order of words, is computed.
buffer_ref weights_of(emission& e, std::size_t i, std::uint64_t format, std::size_t bytes,
                      const std::function<void(buffer_ref, buffer_ref)>& make, bool moves = true) {
  return detail::packed_or_temporary(e, e.of().inputs[i], [&] { return e.in(i); }, format, bytes, make, moves);
}

bool is(const tensor_type& t, dtype expected, std::string_view what, inference& out) {
  if (t.element == expected) return true;
  out.of_elements = true;
  out.why << what << " must be " << expected << ", not " << t.element;
  return false;
}
bool one(const tensor_type& t, dtype expected, std::string_view what, inference& out) {
  if (!is(t, expected, what, out)) return false;
  if (t.dims.rank == 0) return true;
  out.why << what << " must be one number, []";
  return false;
}
// Checks a scale or zero point: one number, or one per position of an axis.
bool along(const tensor_type& t, dim extent, std::string_view what, inference& out) {
  if (t.dims.rank == 0 || (t.dims.rank == 1 && may_equal(t.dims[0], extent))) return true;
  out.why << what << " must be [] or [" << extent << "]";
  return false;
}

// Checks the bits of weights, or of numbers to dequantize.
bool bits_of_numbers(std::int64_t bits, std::string_view what, inference& out) {
  if (bits == 7 || bits == 8) return true;
  out.why << what << " have 7 or 8 bits, not " << bits;
  return false;
}

void infer_change(const quantize_attributes& a, view<const tensor_type> in, dtype from, dtype to, inference& out) {
  const shape& x = in[0].dims;
  if (in[0].element != from)
    return out.refuse(in[0].element, name_of(from), from == dtype::float32 ? "float" : "std::int8_t");
  if (!is(in[1], dtype::float32, "scales", out) || !is(in[2], dtype::int8, "zero points", out)) return;
  if (!bits_of_numbers(a.bits, "int8 numbers", out)) return;
  if (in[1].dims.rank || in[2].dims.rank) {
    const int axis = detail::normal_axis(a.axis, x.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (in[1].dims.rank != 1 || in[2].dims.rank != 1 || !along(in[1], x[axis], "scales", out) ||
        !along(in[2], x[axis], "zero points", out)) {
      if (out.why.empty()) out.why << "scales and zero points must have the same shape";
      return;
    }
  }
  out.result(to, x);
}
void emit_change(emission& e, kernels::kernel run) {
  const shape& x = e.in_type(0).dims;
  if (x.size() == 0) return;
  const auto& a = e.attributes<quantize_attributes>();
  const auto in_size = static_cast<std::int64_t>(size_of(e.in_type(0).element)),
             out_size = static_cast<std::int64_t>(size_of(e.out_type(0).element));
  kernels::quantize_args q{1, 1, x.size(), nullptr, nullptr, nullptr, nullptr};
  if (e.in_type(1).dims.rank) {
    const int axis = detail::normal_axis(a.axis, x.rank);
    q.outer = x.size(0, axis), q.channels = x.at(axis), q.inner = x.size(axis + 1, x.rank);
  }
  const std::int64_t items = q.channels == 1 ? q.inner : q.outer, each = x.size() / items;
  emission::cut(items, static_cast<double>(each) * 2, [&](std::int64_t first, std::int64_t count) {
    auto part = q;
    (q.channels == 1 ? part.inner : part.outer) = count;
    e.step(run, part,
           {{&part.in, e.in(0).at(first * each * in_size)},
            {&part.out, e.out(0).at(first * each * out_size)},
            {&part.scale, e.in(1)},
            {&part.zero_point, e.in(2)}});
  });
}

// Checks the operands and bounds of a result: scale, zero point, and the range to clamp to.
bool result_operands(const tensor_type& scale, const tensor_type& zero_point, std::int64_t low, std::int64_t high,
                     inference& out) {
  if (!one(scale, dtype::float32, "the scale of the result", out)) return false;
  if (!one(zero_point, dtype::int8, "the zero point of the result", out)) return false;
  if (low >= -128 && high <= 127 && low <= high) return true;
  out.why << "results must stay within [-128, 127], not [" << low << ", " << high << "]";
  return false;
}
// Checks the common operands of both products, except x and weights; `out_channels` is the first extent of the weights.
template <class Attributes> bool product_operands(const Attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) {
    out.refuse(in[0].element, "int8", "std::int8_t");
    return false;
  }
  if (!one(in[1], dtype::float32, "the scale of x", out) || !one(in[2], dtype::int8, "the zero point of x", out))
    return false;
  if (!is(in[3], dtype::int8, "weights", out) || !is(in[4], dtype::float32, "scales of weights", out) ||
      !is(in[5], dtype::int32, "bias", out))
    return false;
  return bits_of_numbers(a.weight_bits, "weights", out) && result_operands(in[6], in[7], a.low, a.high, out);
}
bool product_channels(view<const tensor_type> in, dim channels, inference& out) {
  if (!along(in[4], channels, "scales of weights", out)) return false;
  if (in[5].dims.rank == 1 && may_equal(in[5].dims[0], channels)) return true;
  out.why << "the bias must be [" << channels << "]";
  return false;
}
// The shape of a product of rows of features with weights.
std::optional<shape> linear_result(const shape& x, const shape& w, bool transposed, inference& out) {
  if (w.rank != 2 || x.rank < 1) {
    out.why << "x [..., in] and weights " << (transposed ? "[in, out]" : "[out, in]") << " are expected";
    return {};
  }
  if (!may_equal(x[x.rank - 1], w[transposed ? 0 : 1])) {
    out.why << "the inner sizes differ";
    return {};
  }
  shape y = x;
  y[y.rank - 1] = w[transposed ? 1 : 0];
  return y;
}
kernels::requantization requantization_of(const emission& e, std::int64_t low, std::int64_t high) {
  kernels::requantization r{};
  r.w_scale_step = e.in_type(4).dims.rank;
  r.low = static_cast<std::int32_t>(low);
  r.high = static_cast<std::int32_t>(high);
  return r;
}
// Adds the addresses of a requantization; `first` is the first output channel of the call.
void add_operands(emission& e, const kernels::requantization& r, std::int64_t first, std::vector<address>& where) {
  where.insert(where.end(), {{&r.x_scale, e.in(1)},
                             {&r.x_zero_point, e.in(2)},
                             {&r.w_scale, e.in(4).at(first * r.w_scale_step * 4)},
                             {&r.bias, e.in(5).at(first * 4)},
                             {&r.y_scale, e.in(6)},
                             {&r.y_zero_point, e.in(7)}});
}

// Whether filters have two weights per channel.
bool twice(const quantized_conv2d_attributes& a, const shape& x, const shape& w) {
  return x.rank == 4 && w.rank == 4 && x[1].is_number() && w[1].is_number() && a.conv.groups > 0 && x.at(1) > 0 &&
         x.at(1) <= std::numeric_limits<std::int32_t>::max() && x.at(1) % a.conv.groups == 0 &&
         w.at(1) == 2 * (x.at(1) / a.conv.groups);
}

// A product of rows with packed weights, operand `weights`, and how it is cut.
struct linear_call {
  std::int64_t all, columns, depth, rows;
  buffer_ref packed{};
  std::int64_t panel_bytes = 0, tile_rows = 0;

  linear_call(emission& e, int form, std::size_t weights, bool transposed) {
    const shape &w = e.in_type(weights).dims, &y = e.out_type(0).dims;
    all = y.size();
    columns = w.at(transposed ? 1 : 0), depth = w.at(transposed ? 0 : 1);
    rows = all ? all / columns : 0;
    if (all == 0) return;
    const auto& f = products(e, form);
    const auto bytes = f.linear_packed_bytes(columns, depth);
    tile_rows = matrix_products(e, form).tile_rows;
    panel_bytes = static_cast<std::int64_t>(f.linear_packed_bytes(panel_columns, depth));
    const std::uint64_t format = 0x716c0000u | static_cast<std::uint64_t>(form) | (transposed ? 0x100u : 0u);
    packed = weights_of(e, weights, format, bytes, [&](buffer_ref from, buffer_ref to) {
      kernels::quantized_linear_pack_args p{columns, depth,  transposed ? 1 : depth, transposed ? columns : 1,
                                            nullptr, nullptr};
      e.step(f.linear_pack, p, {{&p.w, from}, {&p.packed, to}});
    });
  }
  buffer_ref panel(std::int64_t column) const { return packed.at(column / panel_columns * panel_bytes); }
  // Cuts rows, or panels if there are few rows; depends on size alone. Calls part(row, rows, column, columns).
  template <class F> void cut(F part) const {
    const double flops = 2.0 * static_cast<double>(all) * static_cast<double>(depth);
    if (rows >= 16)
      emission::cut(
          rows, flops / static_cast<double>(rows),
          [&](std::int64_t first, std::int64_t count) { part(first, count, 0, columns); }, 4e6, tile_rows);
    else
      emission::cut(
          columns, flops / static_cast<double>(columns),
          [&](std::int64_t first, std::int64_t count) { part(0, rows, first, count); }, 5e5, 4 * panel_columns);
  }
};

// How tensors a and b combine, where b broadcasts along the first axes of a, or along the last ones.
struct rows_of_two {
  int axis = 0;        // first axis of a row of a
  bool first = false;  // b has one number per row
};
std::optional<rows_of_two> rows_of_both(const shape& a, const shape& b) {
  if (b.rank > a.rank) return {};
  const auto at = [&](int i) { return i < a.rank - b.rank ? dim(1) : b[i - a.rank + b.rank]; };
  // An unknown extent may differ from 1, so it does not match 1.
  const auto alike = [&](int from, int to) {
    for (int i = from; i < to; ++i)
      if (at(i) == dim(1) ? a[i] != dim(1) : !may_equal(a[i], at(i))) return false;
    return true;
  };
  int axis = 0, end = a.rank;
  while (axis < a.rank && at(axis) == dim(1)) ++axis;
  if (axis < a.rank && alike(axis, a.rank)) return rows_of_two{axis, false};
  while (end > 0 && at(end - 1) == dim(1)) --end;
  if (alike(0, end)) return rows_of_two{end, true};
  return {};
}
// Checks the operands of operations on two tensors, and their result.
bool both_operands(view<const tensor_type> in, std::int64_t low, std::int64_t high, inference& out) {
  for (std::size_t k : {0u, 3u})
    if (in[k].element != dtype::int8) {
      out.refuse(in[k].element, "int8", "std::int8_t");
      return false;
    }
  return one(in[1], dtype::float32, "the scale of a", out) && one(in[2], dtype::int8, "the zero point of a", out) &&
         one(in[4], dtype::float32, "the scale of b", out) && one(in[5], dtype::int8, "the zero point of b", out) &&
         result_operands(in[6], in[7], low, high, out);
}
// Shape inference of operations on two tensors.
void infer_both(const quantized_bounds& a, view<const tensor_type> in, inference& out) {
  if (!both_operands(in, a.low, a.high, out)) return;
  const shape &x = in[0].dims, &y = in[3].dims;
  if (!rows_of_both(x, y)) {
    out.why << "b must have the shape of a, or its last axes, or its first with 1 for the others, not " << x << " and "
            << y;
    return;
  }
  out.result(dtype::int8, x);
}
void emit_both(emission& e, kernels::kernel run) {
  const auto& at = e.attributes<quantized_bounds>();
  const shape& y = e.out_type(0).dims;
  const std::int64_t all = e.stored(e.out(0), e.out_type(0));
  if (all == 0) return;
  const auto how = *rows_of_both(y, e.in_type(3).dims);
  kernels::quantized_add_args whole{};
  whole.rows = y.size(0, how.axis), whole.count = y.size(how.axis, y.rank);
  whole.b_row = how.first ? 1 : 0, whole.b_step = how.first ? 0 : 1;
  whole.low = static_cast<std::int32_t>(at.low), whole.high = static_cast<std::int32_t>(at.high);
  if (e.out(0).form == layout::blocked) {  // same layout
    run = blocks_of(e).add;
    whole.count = whole.b_row = block_channels(e), whole.rows = all / whole.count;
  }
  // A single row is cut into parts.
  const bool part = whole.rows == 1;
  const std::int64_t items = part ? whole.count : whole.rows, each = all / items;
  emission::cut(items, 3.0 * static_cast<double>(each), [&](std::int64_t first, std::int64_t count) {
    auto a = whole;
    (part ? a.count : a.rows) = count;
    e.step(run, a,
           {{&a.a, e.in(0).at(first * each)},
            {&a.a_scale, e.in(1)},
            {&a.a_zero_point, e.in(2)},
            {&a.b, e.in(3).at(first * (part ? a.b_step : a.b_row))},
            {&a.b_scale, e.in(4)},
            {&a.b_zero_point, e.in(5)},
            {&a.y_scale, e.in(6)},
            {&a.y_zero_point, e.in(7)},
            {&a.y, e.out(0).at(first * each)}});
  });
}

kernels::window window_of(const conv2d_attributes& c, const shape& x, const shape& w, const shape& y) {
  return {
      w.at(1) * c.groups, x.at(2),    x.at(3),     y.at(1),     y.at(2),      y.at(3),      w.at(2),  w.at(3),
      c.stride.h,         c.stride.w, c.padding.h, c.padding.w, c.dilation.h, c.dilation.w, c.groups, c.padding_more.h,
      c.padding_more.w};
}

// Adds the sum of the epilogue to a convolution's arguments.
void add_sum(emission& e, kernels::quantized_blocked_args& a, std::vector<address>& where) {
  const auto& tail = e.epilogue();
  if (!tail.sum) return;
  const auto& within = tail.sum->attributes_as<quantized_bounds>();
  a.sum_low = static_cast<std::int32_t>(within.low), a.sum_high = static_cast<std::int32_t>(within.high);
  const auto& of = tail.sum->inputs;
  const bool first = of[3] == tail.residual;  // the convolution's result is operand a of the sum
  where.insert(where.end(), {{&a.b, e.operand(tail.residual)},
                             {&a.b_scale, e.operand(of[first ? 4 : 1])},
                             {&a.b_zero_point, e.operand(of[first ? 5 : 2])},
                             {&a.a_scale, e.operand(of[first ? 1 : 4])},
                             {&a.a_zero_point, e.operand(of[first ? 2 : 5])},
                             {&a.sum_scale, e.operand(of[6])},
                             {&a.sum_zero_point, e.operand(of[7])}});
}

// A convolution with a blocked result, cut into images, rows, or blocks.
void emit_blocked(emission& e, const quantized_conv2d_attributes& at) {
  const shape &x = e.in_type(0).dims, &w = e.in_type(3).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const int form = with_amx(e, form_of(functions(e), at.weight_bits));
  const auto& f = blocks_of(e).convolutions[form];
  const std::int64_t blocks = detail::divide_up(y.at(1), block_channels(e)), height = y.at(2);
  const bool depthwise = at.conv.groups > 1, plain = e.in(0).form == layout::plain;
  kernels::quantized_blocked_args whole{};
  whole.w = window_of(at.conv, x, w, y);
  whole.plain_in = plain, whole.blocks = blocks, whole.rows = height;
  whole.to = requantization_of(e, at.low, at.high);
  const std::uint64_t format =
      0x71620000u | (depthwise ? 1u : 0u) | (plain ? 2u : 0u) | static_cast<std::uint64_t>(form) << 4;
  const buffer_ref packed =
      weights_of(e, 3, format, f.packed_bytes(&whole.w, plain), [&](buffer_ref from, buffer_ref to) {
        kernels::quantized_blocked_pack_args p{whole.w, nullptr, nullptr, plain};
        e.step(f.pack, p, {{&p.weight, from}, {&p.packed, to}});
      });
  e.kernel(depthwise ? "depthwise" : "direct");
  const auto part = [&](kernels::quantized_blocked_args a, buffer_ref in) {
    std::vector<address> where{{&a.in, in}, {&a.packed, packed}, {&a.out, e.out(0)}};
    add_operands(e, a.to, 0, where);
    add_sum(e, a, where);
    e.step(f.conv, a, where, f.scratch_bytes(&a));
  };
  // If the filters are larger than the image, each part reads only some of them. A depthwise convolution is cut as a
  // 1x1 convolution to its channels is: each thread reads what it wrote.
  const bool by_blocks = depthwise ? x.at(1) > x.size(2, 4) : w.size() > x.size(1, 4);
  const std::int64_t unit = depthwise ? 1 : detail::blocks_of_piece(blocks);
  const double flops = 2.0 * static_cast<double>(y.size(1, 4)) * static_cast<double>(w.size(1, 4));
  const auto parts = detail::parts_of_images(e, x.at(0), flops, depthwise ? 2e6 : 8e6, depthwise ? 3e5 : 2e6,
                                             by_blocks ? detail::divide_up(blocks, unit) : height);
  buffer_ref read = e.in(0);
  if (f.join && by_blocks && parts.begin()->pieces != 0 && f.joined_maps(&whole.w, plain) != 0) {
    kernels::quantized_join_args a{};
    a.w = whole.w;
    read = detail::join_images(e, f, a, plain, x.at(0), {{&a.in, e.in(0)}, {&a.zero_point, e.in(2)}}).at;
    whole.joined_in = 1;
  }
  for (const auto& p : parts) {
    auto a = whole;
    a.first = p.first, a.count = p.count;
    if (p.pieces && by_blocks)
      a.first_block = unit * p.first_piece, a.blocks = std::min(unit * p.pieces, blocks - a.first_block);
    else if (p.pieces) a.first_row = p.first_piece, a.rows = p.pieces;
    part(a, read);
  }
}

// A convolution whose weights are operand `weight`, cut into images, or rows or filters of one image's results.
template <class Operands> void emit_convolution(emission& e, const conv2d_attributes& c, int form, std::size_t weight,
                                                const kernels::quantized_conv_args& whole, kernels::kernel run,
                                                Operands add) {
  const shape &x = e.in_type(0).dims, &w = e.in_type(weight).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto& f = products(e, form);
  const kernels::window window = window_of(c, x, w, y);
  const int order = f.conv_order(&window);
  const bool winograd = order == kernels::conv_order_of_winograd;
  const auto format = 0x71630000u | static_cast<std::uint64_t>(c.groups) << 32 |
                      static_cast<std::uint64_t>(order) << 4 | static_cast<std::uint64_t>(form);
  const buffer_ref packed = weights_of(
      e, weight, format, f.conv_packed_bytes(&window),
      [&](buffer_ref from, buffer_ref to) {
        kernels::quantized_conv_pack_args p{window, nullptr, nullptr};
        e.step(f.conv_pack, p, {{&p.weight, from}, {&p.packed, to}});
      },
      order < kernels::conv_order_of_converted);
  e.kernel(winograd ? "winograd 2x2" : order < kernels::conv_order_of_depthwise ? "direct" : "depthwise");
  const std::int64_t height = y.at(2), filters = window.out_channels / window.groups;
  const auto part = [&](kernels::quantized_conv_args a) {
    std::vector<address> where{{&a.in, e.in(0)}, {&a.packed, packed}, {&a.out, e.out(0)}};
    add(a, where);
    e.step(run, a, where, f.conv_scratch_bytes(&a));
  };
  const double flops = 2.0 * static_cast<double>(y.size(1, 4)) * static_cast<double>(w.size(1, 4));
  // Of many filters that are much larger than the image, each part reads only some; it prepares the whole image.
  const bool direct = order < kernels::conv_order_of_depthwise,
             by_filters = direct && c.groups == 1 && filters >= 8 * panel_columns && w.size() > 4 * x.size(1, 4);
  const std::int64_t pieces = by_filters ? detail::divide_up(filters, panel_columns) : height,
                     unit = winograd     ? 2
                            : by_filters ? detail::blocks_of_piece(pieces)
                                         : 1;
  // A depthwise convolution takes longer than its flops say.
  const bool depthwise = !direct && !winograd;
  for (const auto& p : detail::parts_of_images(e, x.at(0), flops, depthwise ? 2e6 : 8e6, depthwise ? 3e5 : 4e6,
                                               detail::divide_up(pieces, unit))) {
    auto a = whole;
    a.w = window, a.first = p.first, a.count = p.count, a.rows = height, a.filters = filters;
    if (p.pieces) {
      long &first = by_filters ? a.first_filter : a.first_row, &count = by_filters ? a.filters : a.rows;
      const std::int64_t step = by_filters ? unit * panel_columns : unit;
      first = step * p.first_piece, count = std::min(step * p.pieces, count - first);
    }
    part(a);
  }
}

}  // namespace

namespace op {

void quantize::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  infer_change(a, in, dtype::float32, dtype::int8, out);
}
void quantize::emit(emission& e) { emit_change(e, functions(e).quantize); }
void dequantize::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  infer_change(a, in, dtype::int8, dtype::float32, out);
}
void dequantize::emit(emission& e) { emit_change(e, functions(e).dequantize); }

void block_linear::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::float32) return out.refuse(in[0].element, "float32", "float");
  if (!is(in[1], dtype::uint8, "weights", out) || !is(in[2], dtype::float32, "scales", out) ||
      !is(in[3], dtype::float32, "zero points", out))
    return;
  const shape &x = in[0].dims, &w = in[1].dims, &s = in[2].dims, &z = in[3].dims;
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
  if ((a.bits != 4 && a.bits != 8) || a.block < 16 || a.block % 16 || a.block > max) {
    out.why << "expected 4 or 8 bits in blocks of a multiple of 16, not " << a.bits << " in blocks of " << a.block;
    return;
  }
  const bool whole = z.rank == 0 || (z.rank == 2 && may_equal(z[0], w[0]) && may_equal(z[1], w[1]));
  if (x.rank < 1 || w.rank != 3 || s.rank != 2 || !may_equal(w[2], a.block * a.bits / 8) || !may_equal(s[0], w[0]) ||
      !may_equal(s[1], w[1]) || !whole) {
    out.why << "x [..., in], weights [out, blocks, " << a.block * a.bits / 8
            << "], scales [out, blocks] and zero points [] or [out, blocks] are expected";
    return;
  }
  const dim k = x[x.rank - 1];
  if (k.is_number() && w[1].is_number() && (k.code + a.block - 1) / a.block != w[1].code) {
    out.why << "the " << k << " features of x do not match " << w[1] << " blocks of " << a.block;
    return;
  }
  shape y = x;
  y[y.rank - 1] = w[0];
  out.result(dtype::float32, y);
}
void block_linear::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &x = e.in_type(0).dims, &w = e.in_type(1).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  kernels::block_linear_args whole{};
  whole.columns = w.at(0), whole.blocks = w.at(1), whole.block = at.block;
  whole.rows = y.size() / whole.columns;
  whole.y_row = whole.columns;
  whole.zero_point_step = e.in_type(3).dims.rank ? 1 : 0;
  const auto& f = functions(e);
  const auto form = form_of(functions(e));
  const auto depth = x.at(x.rank - 1);
  kernels::block_rows_args round{};
  round.rows = whole.rows, round.depth = depth, round.block = whole.block, round.blocks = whole.blocks;
  const buffer_ref rounded = e.temporary(f.block_rows_bytes(&round));
  emission::cut(whole.rows, 4.0 * static_cast<double>(depth), [&](std::int64_t first, std::int64_t count) {
    auto a = round;
    a.first = first, a.count = count;
    e.step(f.block_rows[form][at.bits == 8], a, {{&a.x, e.in(0).at(first * depth * 4)}, {&a.rounded, rounded}});
  });
  e.stage();
  emission::cut(
      whole.columns, 2.0 * static_cast<double>(whole.rows) * static_cast<double>(depth),
      [&](std::int64_t first, std::int64_t count) {
        auto a = whole;
        a.columns = count;
        e.step(f.block_linear[form][at.bits == 8], a,
               {{&a.rounded, rounded},
                {&a.weight, e.in(1).at(first * w.at(1) * w.at(2))},
                {&a.scale, e.in(2).at(first * w.at(1) * 4)},
                {&a.zero_point, e.in(3).at(first * w.at(1) * a.zero_point_step * 4)},
                {&a.y, e.out(0).at(first * 4)}},
               f.block_linear_scratch_bytes(&a));
      },
      emission::usual_grain, 16);
}

void quantized_linear::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!product_operands(a, in, out)) return;
  const auto y = linear_result(in[0].dims, in[3].dims, a.transposed, out);
  if (y && product_channels(in, y->back(), out)) out.result(dtype::int8, *y);
}
void quantized_linear::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const int form = form_of(functions(e), at.weight_bits);
  const linear_call call(e, form, 3, at.transposed);
  if (call.all == 0) return;
  e.kernel("packed");
  const auto& f = matrix_products(e, form);
  call.cut([&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    kernels::quantized_linear_args part{};
    part.rows = rows, part.columns = columns, part.depth = part.x_row = call.depth;
    part.y_row = call.columns;
    part.to = requantization_of(e, at.low, at.high);
    std::vector<address> where{{&part.x, e.in(0).at(row * part.x_row)},
                               {&part.packed, call.panel(column)},
                               {&part.y, e.out(0).at(row * part.y_row + column)}};
    add_operands(e, part.to, column, where);
    e.step(f.linear, part, where, f.linear_scratch_bytes(&part));
  });
}

void quantized_matmul::infer(const attributes& at, view<const tensor_type> in, inference& out) {
  if (!both_operands(in, at.low, at.high, out)) return;
  const tensor_type as_float[] = {{dtype::float32, in[0].dims}, {dtype::float32, in[3].dims}};
  inference found;
  matmul::infer({false, at.transpose_b}, as_float, found);
  if (found.why.empty()) out.result(dtype::int8, found.results[0].dims);
  else out.why = found.why;
}
namespace {
// Matrix products of operands 0 and `right`, cut by rows; the matrices of `right` are packed in the run.
// Calls part(first, row, rows, panels) with offsets in elements and bytes.
template <class Part> void emit_matrices(emission& e, bool transpose_b, std::size_t right, Part part) {
  const shape& y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto all = detail::products_of({false, transpose_b}, e.in_type(0).dims, e.in_type(right).dims, y);
  const auto& p = all.one;
  const auto& f = products(e);
  const auto packed_bytes = static_cast<std::int64_t>(f.linear_packed_bytes(p.n, p.k));
  e.kernel("unpacked");
  const buffer_ref packed = e.temporary(static_cast<std::size_t>(packed_bytes * all.b.size()));
  for (std::int64_t i = 0; i < all.b.size(); ++i) {
    const kernels::quantized_linear_pack_args pack{p.n, p.k, p.b_column, p.b_row, nullptr, nullptr};
    e.step(f.linear_pack, pack,
           {{&pack.w, e.in(right).at(i * all.step.b)}, {&pack.packed, packed.at(i * packed_bytes)}});
  }
  e.stage();
  for (std::int64_t i = 0; i < all.count; ++i) {
    const auto first = all.at(i);
    const buffer_ref panels = packed.at(all.step.b ? first.b / all.step.b * packed_bytes : 0);
    emission::cut(
        p.m, 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k),
        [&](std::int64_t row, std::int64_t rows) {
          kernels::quantized_linear_args of_size{};
          of_size.rows = rows, of_size.columns = p.n, of_size.depth = p.k;
          of_size.x_row = p.a_row, of_size.y_row = p.c_row;
          of_size.has_w_zero_point = true;
          part(of_size, first.a + row * p.a_row, first.c + row * p.c_row, panels);
        },
        4e6, matrix_products(e, form_of(functions(e))).tile_rows);
  }
}
}  // namespace

void quantized_matmul::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const auto& f = matrix_products(e, form_of(functions(e)));
  emit_matrices(e, at.transpose_b, 3,
                [&](kernels::quantized_linear_args part, std::int64_t a, std::int64_t y, buffer_ref panels) {
                  part.to.low = static_cast<std::int32_t>(at.low), part.to.high = static_cast<std::int32_t>(at.high);
                  e.step(f.linear, part,
                         {{&part.x, e.in(0).at(a)},
                          {&part.to.x_scale, e.in(1)},
                          {&part.to.x_zero_point, e.in(2)},
                          {&part.packed, panels},
                          {&part.to.w_scale, e.in(4)},
                          {&part.w_zero_point, e.in(5)},
                          {&part.to.y_scale, e.in(6)},
                          {&part.to.y_zero_point, e.in(7)},
                          {&part.y, e.out(0).at(y)}},
                         f.linear_scratch_bytes(&part));
                });
}

void integer_matmul::infer(const attributes& at, view<const tensor_type> in, inference& out) {
  for (std::size_t k : {0u, 2u})
    if (in[k].element != dtype::int8) return out.refuse(in[k].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::int8, "the zero point of a", out) || !one(in[3], dtype::int8, "the zero point of b", out))
    return;
  const tensor_type as_float[] = {{dtype::float32, in[0].dims}, {dtype::float32, in[2].dims}};
  inference found;
  matmul::infer({false, at.transpose_b}, as_float, found);
  if (found.why.empty()) out.result(dtype::int32, found.results[0].dims);
  else out.why = found.why;
}
void integer_matmul::emit(emission& e) {
  const auto& f = matrix_products(e, form_of(functions(e)));
  emit_matrices(e, e.attributes<attributes>().transpose_b, 2,
                [&](const kernels::quantized_linear_args& of_size, std::int64_t a, std::int64_t y, buffer_ref panels) {
                  kernels::integer_linear_args part{};
                  part.rows = of_size.rows, part.columns = of_size.columns, part.depth = of_size.depth;
                  part.x_row = of_size.x_row, part.y_row = of_size.y_row;
                  part.has_w_zero_point = true;
                  e.step(f.sums, part,
                         {{&part.x, e.in(0).at(a)},
                          {&part.packed, panels},
                          {&part.y, e.out(0).at(y * 4)},
                          {&part.x_zero_point, e.in(1)},
                          {&part.w_zero_point, e.in(3)}},
                         f.linear_scratch_bytes(&of_size));
                });
}

void integer_linear::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) return out.refuse(in[0].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::int8, "the zero point of x", out) || !is(in[2], dtype::int8, "weights", out)) return;
  if (const auto y = linear_result(in[0].dims, in[2].dims, a.transposed, out)) out.result(dtype::int32, *y);
}
void integer_linear::emit(emission& e) {
  const int form = form_of(functions(e));
  const linear_call call(e, form, 2, e.attributes<attributes>().transposed);
  if (call.all == 0) return;
  e.kernel("packed");
  const auto& f = matrix_products(e, form);
  call.cut([&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    kernels::integer_linear_args part{};
    part.rows = rows, part.columns = columns, part.depth = part.x_row = call.depth;
    part.y_row = call.columns;
    kernels::quantized_linear_args of_size{};
    of_size.rows = rows, of_size.columns = columns, of_size.depth = call.depth;
    e.step(f.sums, part,
           {{&part.x, e.in(0).at(row * part.x_row)},
            {&part.packed, call.panel(column)},
            {&part.y, e.out(0).at((row * part.y_row + column) * 4)},
            {&part.x_zero_point, e.in(1)}},
           f.linear_scratch_bytes(&of_size));
  });
}

void quantized_conv2d::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!product_operands(a, in, out)) return;
  shape x = in[0].dims;
  if (twice(a, x, in[3].dims)) x[1] = dim(2 * x.at(1));
  const tensor_type as_float[] = {{dtype::float32, x}, {dtype::float32, in[3].dims}};
  inference found;
  conv2d::infer(a.conv, as_float, found);
  if (!found.why.empty()) {
    out.why = found.why;
    return;
  }
  if (!product_channels(in, in[3].dims[0], out)) return;
  out.result(dtype::int8, found.results[0].dims);
}
image_layouts quantized_conv2d::images(const image_call& c) {
  const auto& at = *static_cast<const attributes*>(c.attributes);
  const shape &x = c.in[0].dims, &w = c.in[3].dims, &y = c.out[0].dims;
  const auto& all = kernels::quantized_of(c.isa);
  const std::int64_t channels = block_channels(c.isa);
  const auto* f = all.blocked ? &all.blocked->convolutions[form_of(all, at.weight_bits)] : nullptr;
  if (!f || !f->conv || twice(at, x, w) || 2 * y.at(1) <= channels) return {};
  const kernels::window window = window_of(at.conv, x, w, y);
  const bool plain = !c.blocked && 2 * x.at(1) <= channels && at.conv.groups == 1;
  const bool taken = f->supports(&window, plain) != 0;
  return {taken, taken && !plain};
}
void quantized_conv2d::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  if (e.out(0).form == layout::blocked) return emit_blocked(e, at);
  const shape &x = e.in_type(0).dims, &w = e.in_type(3).dims;
  kernels::quantized_conv_args whole{};
  whole.repeats = twice(at, x, w) ? 2 : 1;
  whole.to = requantization_of(e, at.low, at.high);
  const int form = form_of(functions(e), at.weight_bits);
  emit_convolution(e, at.conv, form, 3, whole, products(e, form).conv,
                   [&](auto& a, auto& where) { add_operands(e, a.to, 0, where); });
}

void integer_conv2d::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) return out.refuse(in[0].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::int8, "the zero point of x", out) || !is(in[2], dtype::int8, "weights", out)) return;
  const tensor_type as_float[] = {{dtype::float32, in[0].dims}, {dtype::float32, in[2].dims}};
  inference found;
  conv2d::infer(a, as_float, found);
  if (found.why.empty()) out.result(dtype::int32, found.results[0].dims);
  else out.why = found.why;
}
void integer_conv2d::emit(emission& e) {
  kernels::quantized_conv_args whole{};
  whole.repeats = 1;
  emit_convolution(e, e.attributes<attributes>(), form_of(functions(e)), 2, whole, products(e).conv_sums,
                   [&](auto& a, auto& where) { where.push_back({&a.to.x_zero_point, e.in(1)}); });
}

void quantized_add::infer(const attributes& a, view<const tensor_type> in, inference& out) { infer_both(a, in, out); }
image_layouts quantized_add::images(const image_call& c) {
  const bool taken = c.blocked && c.in[0].dims == c.in[3].dims;
  return {taken, taken, taken};
}
void quantized_add::emit(emission& e) { emit_both(e, functions(e).add); }
void quantized_multiply::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  infer_both(a, in, out);
}
void quantized_multiply::emit(emission& e) { emit_both(e, functions(e).multiply); }

void quantized_table::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) return out.refuse(in[0].element, "int8", "std::int8_t");
  if (!is(in[1], dtype::int8, "the table", out)) return;
  if (in[1].dims.rank != 1 || !may_equal(in[1].dims[0], 256)) {
    out.why << "the table must be [256]";
    return;
  }
  out.result(dtype::int8, in[0].dims);
}
image_layouts quantized_table::images(const image_call& c) { return {c.blocked, c.blocked}; }
void quantized_table::emit(emission& e) {
  const std::int64_t all = e.stored(e.out(0), e.out_type(0));
  if (all == 0) return;
  const auto run = e.out(0).form == layout::blocked ? blocks_of(e).table : functions(e).table;
  emission::cut(all, 4, [&](std::int64_t first, std::int64_t count) {
    kernels::quantized_table_args a{};
    a.count = count;
    e.step(run, a, {{&a.in, e.in(0).at(first)}, {&a.table, e.in(1)}, {&a.out, e.out(0).at(first)}});
  });
}

void quantized_avg_pool2d::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) return out.refuse(in[0].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::float32, "the scale of x", out) || !one(in[2], dtype::int8, "the zero point of x", out))
    return;
  if (!result_operands(in[3], in[4], -128, 127, out)) return;
  const tensor_type as_float[] = {{dtype::float32, in[0].dims}};
  inference found;
  avg_pool2d::infer(a, as_float, found);
  if (!found.why.empty()) {
    out.why = found.why;
    return;
  }
  out.result(dtype::int8, found.results[0].dims);
}
image_layouts quantized_avg_pool2d::images(const image_call& c) { return {c.blocked, c.blocked}; }
void quantized_avg_pool2d::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &x = e.in_type(0).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto step = at.step();
  const bool blocked = e.out(0).form == layout::blocked;
  const auto run = blocked ? blocks_of(e).average_pool : functions(e).average_pool;
  const std::int64_t channels = blocked ? detail::divide_up(x.at(1), block_channels(e)) * block_channels(e) : x.at(1);
  const double flops =
      static_cast<double>(y.size(1, 4)) * static_cast<double>(at.kernel_size.h) * static_cast<double>(at.kernel_size.w);
  emission::cut(x.at(0), flops, [&](std::int64_t first, std::int64_t count) {
    kernels::quantized_average_args a{};
    a.pool.w = {
        x.at(1), x.at(2),      x.at(3),      y.at(1), y.at(2), y.at(3), at.kernel_size.h,  at.kernel_size.w, step.h,
        step.w,  at.padding.h, at.padding.w, 1,       1,       1,       at.padding_more.h, at.padding_more.w};
    a.pool.images = count;
    a.pool.count_padding = at.count_padding;
    e.step(run, a,
           {{&a.pool.in, e.in(0).at(first * channels * x.size(2, 4))},
            {&a.x_scale, e.in(1)},
            {&a.x_zero_point, e.in(2)},
            {&a.y_scale, e.in(3)},
            {&a.y_zero_point, e.in(4)},
            {&a.pool.out, e.out(0).at(first * channels * y.size(2, 4))}});
  });
}

}  // namespace op

namespace {
template <class Op> value product(const typename Op::attributes& a, const value& x, const quantization& x_as,
                                  const quantized_weights& w, const quantization& y_as) {
  return apply<Op>(a, x, x_as.scale, x_as.zero_point, w.weight, w.scale, w.bias, y_as.scale, y_as.zero_point);
}
}  // namespace

value quantize(const value& x, const quantization& as, quantize_attributes a, const origin&) {
  return apply<op::quantize>(a, x, as.scale, as.zero_point);
}
value dequantize(const value& q, const quantization& as, quantize_attributes a, const origin&) {
  return apply<op::dequantize>(a, q, as.scale, as.zero_point);
}
value quantized_linear(const value& x, const quantization& x_as, const quantized_weights& w, const quantization& y_as,
                       quantized_linear_attributes a, const origin&) {
  return product<op::quantized_linear>(a, x, x_as, w, y_as);
}
value quantized_conv2d(const value& x, const quantization& x_as, const quantized_weights& w, const quantization& y_as,
                       quantized_conv2d_attributes a, const origin&) {
  return product<op::quantized_conv2d>(a, x, x_as, w, y_as);
}

value block_linear(const value& x, const value& weight, const value& scale, const value& zero_point,
                   block_linear_attributes a, const origin&) {
  return apply<op::block_linear>(a, x, weight, scale, zero_point);
}
value integer_conv2d(const value& x, const value& x_zero_point, const value& weight, conv2d_attributes a,
                     const value& w_zero_point, const origin&) {
  const value sums = apply<op::integer_conv2d>(a, x, x_zero_point, weight);
  if (w_zero_point.empty()) return sums;
  // Subtracts the zero point times the sum of each window, computed with a filter of ones.
  shape one = weight.shape();
  one[0] = 1;
  any_tensor ones({dtype::int8, one});
  std::memset(ones.mutable_data(), 1, ones.type().bytes());
  const value read = apply<op::integer_conv2d>(a, x, x_zero_point, x.owner().constant(std::move(ones)));
  const value zero_point = apply<op::cast>({.to = dtype::int32}, w_zero_point);
  return sums - (zero_point.shape().rank ? value(lamina::reshape(zero_point, shape{zero_point.shape()[0], 1, 1}))
                                         : zero_point) *
                    read;
}
value integer_linear(const value& x, const value& x_zero_point, const value& weight, const value& w_zero_point,
                     bool transposed, const origin&) {
  const value sums = apply<op::integer_linear>({transposed}, x, x_zero_point, weight);
  if (w_zero_point.empty()) return sums;
  const auto wide = [](const value& v) { return apply<op::cast>({.to = dtype::int32}, v); };
  const int last = x.shape().rank - 1;
  return sums - wide(w_zero_point) * reduce_sum(wide(x) - wide(x_zero_point), {.axes = axes(last), .keepdim = true});
}
value integer_matmul(const value& a, const value& a_zero_point, const value& b, const value& b_zero_point,
                     bool transpose_b, const origin&) {
  return apply<op::integer_matmul>({transpose_b}, a, a_zero_point, b, b_zero_point);
}

namespace {
template <class Op> value both(const typename Op::attributes& within, const value& a, const quantization& a_as,
                               const value& b, const quantization& b_as, const quantization& y_as) {
  return apply<Op>(within, a, a_as.scale, a_as.zero_point, b, b_as.scale, b_as.zero_point, y_as.scale, y_as.zero_point);
}
}  // namespace

value quantized_add(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                    const quantization& y_as, quantized_bounds within, const origin&) {
  return both<op::quantized_add>(within, a, a_as, b, b_as, y_as);
}
value quantized_multiply(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                         const quantization& y_as, quantized_bounds within, const origin&) {
  return both<op::quantized_multiply>(within, a, a_as, b, b_as, y_as);
}
value quantized_matmul(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                       const quantization& y_as, quantized_matmul_attributes with, const origin&) {
  return both<op::quantized_matmul>(with, a, a_as, b, b_as, y_as);
}
value quantized_table(const value& x, const value& table, const origin&) {
  return apply<op::quantized_table>({}, x, table);
}
value quantized_avg_pool2d(const value& x, const quantization& x_as, const quantization& y_as, pool2d_attributes a,
                           const origin&) {
  return apply<op::quantized_avg_pool2d>(a, x, x_as.scale, x_as.zero_point, y_as.scale, y_as.zero_point);
}

namespace detail {
std::optional<pool2d_attributes> window_of_average(const program& p, const node& n) {
  if (is_call_of<op::avg_pool2d>(n)) return n.attributes_as<pool2d_attributes>();
  if (!is_call_of<op::reduce_mean>(n)) return {};
  const auto& a = n.attributes_as<reduce_attributes>();
  const shape& x = p.type(n.inputs[0]).dims;
  unsigned axes = 0;
  if (!a.keepdim || x.rank != 4 || !reduced_axes(a, 4, axes) || axes != 0b1100u) return {};
  if (!x[2].is_number() || !x[3].is_number() || x.at(2) < 1 || x.at(3) < 1) return {};
  return pool2d_attributes{.kernel_size = {x.at(2), x.at(3)}};
}
}  // namespace detail

}  // namespace lamina
