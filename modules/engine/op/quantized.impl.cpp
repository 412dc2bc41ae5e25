module;
#include "../kernels/table.h"
module lamina:op.quantized.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.nn;
import :op.quantized;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

const kernels::quantized_functions& functions(const emission& e) {
  return *kernels::kernels_of(static_cast<kernels::isa>(e.isa())).quantized;
}
// The form of the products that this machine has, and what tells weights in one form from those in another.
const kernels::quantized_products& products(const emission& e) { return functions(e).products[functions(e).form()]; }
std::uint64_t form_of(const emission& e) { return static_cast<std::uint64_t>(functions(e).form()); }

// Weights that `make` packs, once if they are a state.
buffer_ref weights_of(emission& e, std::uint64_t format, std::size_t bytes,
                      const std::function<void(buffer_ref, buffer_ref)>& make) {
  return detail::packed_or_temporary(e, e.of().inputs[3], [&] { return e.in(3); }, format, bytes, make, false);
}

bool is(const tensor_type& t, dtype wanted, std::string_view what, inference& out) {
  if (t.element == wanted) return true;
  out.of_elements = true;
  out.why << what << " " << (what.ends_with("s") && what != "bias" ? "are" : "is") << " to be " << wanted << ", not "
          << t.element;
  return false;
}
bool one(const tensor_type& t, dtype wanted, std::string_view what, inference& out) {
  if (!is(t, wanted, what, out)) return false;
  if (t.dims.rank == 0) return true;
  out.why << what << " is to be one number, []";
  return false;
}
// A scale or offset for all, or one for each position of an axis.
bool along(const tensor_type& t, dim extent, std::string_view what, inference& out) {
  if (t.dims.rank == 0 || (t.dims.rank == 1 && may_equal(t.dims[0], extent))) return true;
  out.why << what << " are to be [] or [" << extent << "]";
  return false;
}

void infer_change(const quantize_attributes& a, view<const tensor_type> in, dtype from, dtype to, inference& out) {
  const shape& x = in[0].dims;
  if (in[0].element != from)
    return out.refuse(in[0].element, name_of(from), from == dtype::float32 ? "float" : "std::int8_t");
  if (!is(in[1], dtype::float32, "scales", out) || !is(in[2], dtype::int8, "offsets", out)) return;
  if (in[1].dims.rank || in[2].dims.rank) {
    const int axis = detail::normal_axis(a.axis, x.rank);
    if (axis < 0) {
      out.why << "the axis " << a.axis << " is outside of the rank";
      return;
    }
    if (in[1].dims.rank != 1 || in[2].dims.rank != 1 || !along(in[1], x[axis], "scales", out) ||
        !along(in[2], x[axis], "offsets", out)) {
      if (out.why.empty()) out.why << "there are to be as many scales as offsets";
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
            {&part.offset, e.in(2)}});
  });
}

// What a result asks: its scale and offset, and the numbers that it stays within.
bool result_operands(const tensor_type& scale, const tensor_type& offset, std::int64_t low, std::int64_t high,
                     inference& out) {
  if (!one(scale, dtype::float32, "the scale of the result", out)) return false;
  if (!one(offset, dtype::int8, "the offset of the result", out)) return false;
  if (low >= -128 && high <= 127 && low <= high) return true;
  out.why << "results are to stay within [-128, 127], not [" << low << ", " << high << "]";
  return false;
}
// What both products ask of their operands but x and weights; `out_channels` are the first extent of the weights.
bool product_operands(view<const tensor_type> in, std::int64_t low, std::int64_t high, inference& out) {
  if (in[0].element != dtype::int8) {
    out.refuse(in[0].element, "int8", "std::int8_t");
    return false;
  }
  if (!one(in[1], dtype::float32, "the scale of x", out) || !one(in[2], dtype::int8, "the offset of x", out))
    return false;
  if (!is(in[3], dtype::int8, "weights", out) || !is(in[4], dtype::float32, "scales of weights", out) ||
      !is(in[5], dtype::int32, "bias", out))
    return false;
  return result_operands(in[6], in[7], low, high, out);
}
bool product_channels(view<const tensor_type> in, inference& out) {
  if (!along(in[4], in[3].dims[0], "scales of weights", out)) return false;
  if (in[5].dims.rank == 1 && may_equal(in[5].dims[0], in[3].dims[0])) return true;
  out.why << "the bias is to be [" << in[3].dims[0] << "]";
  return false;
}
kernels::requantization requantization_of(const emission& e, std::int64_t low, std::int64_t high) {
  kernels::requantization r{};
  r.w_scale_step = e.in_type(4).dims.rank;
  r.low = static_cast<std::int32_t>(low);
  r.high = static_cast<std::int32_t>(high);
  return r;
}
// The addresses of it; `first` is the output channel that the call begins with.
void add_operands(emission& e, const kernels::requantization& r, std::int64_t first, std::vector<address>& where) {
  where.insert(where.end(), {{&r.x_scale, e.in(1)},
                             {&r.x_offset, e.in(2)},
                             {&r.w_scale, e.in(4).at(first * r.w_scale_step * 4)},
                             {&r.bias, e.in(5).at(first * 4)},
                             {&r.y_scale, e.in(6)},
                             {&r.y_offset, e.in(7)}});
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

void quantized_linear::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!product_operands(in, a.low, a.high, out)) return;
  const shape &x = in[0].dims, &w = in[3].dims;
  if (w.rank != 2 || x.rank < 1) {
    out.why << "x [..., in] and weights [out, in] are expected";
    return;
  }
  if (!may_equal(x[x.rank - 1], w[1])) {
    out.why << "the inner sizes differ";
    return;
  }
  if (!product_channels(in, out)) return;
  shape y = x;
  y[y.rank - 1] = w[0];
  out.result(dtype::int8, y);
}
void quantized_linear::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &w = e.in_type(3).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto& f = products(e);
  kernels::quantized_linear_args a{};
  a.columns = w.at(0);
  a.depth = a.x_row = w.at(1);
  a.y_row = a.columns;
  a.rows = y.size() / a.columns;
  a.to = requantization_of(e, at.low, at.high);
  const auto bytes = f.linear_packed_bytes(a.columns, a.depth);
  const buffer_ref packed = weights_of(e, 0x716c0000u | form_of(e), bytes, [&](buffer_ref from, buffer_ref to) {
    kernels::quantized_linear_pack_args p{a.columns, a.depth, nullptr, nullptr};
    e.step(f.linear_pack, p, {{&p.w, from}, {&p.packed, to}});
  });
  // Rows are cut, or the panels of few rows: by size alone.
  constexpr std::int64_t panel = 16;
  const auto panel_bytes = static_cast<std::int64_t>(f.linear_packed_bytes(panel, a.depth));
  const auto part_of = [&](std::int64_t row, std::int64_t rows, std::int64_t column, std::int64_t columns) {
    auto part = a;
    part.rows = rows;
    part.columns = columns;
    std::vector<address> where{{&part.x, e.in(0).at(row * a.x_row)},
                               {&part.packed, packed.at(column / panel * panel_bytes)},
                               {&part.y, e.out(0).at(row * a.y_row + column)}};
    add_operands(e, part.to, column, where);
    e.step(f.linear, part, where, f.linear_scratch_bytes(&part));
  };
  const double all = 2.0 * static_cast<double>(y.size()) * static_cast<double>(a.depth);
  if (a.rows >= 16)
    emission::cut(
        a.rows, all / static_cast<double>(a.rows),
        [&](std::int64_t first, std::int64_t count) { part_of(first, count, 0, a.columns); }, 4e6, 4);
  else
    emission::cut(
        a.columns, all / static_cast<double>(a.columns),
        [&](std::int64_t first, std::int64_t count) { part_of(0, a.rows, first, count); }, 4e6, 4 * panel);
}

void quantized_conv2d::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!product_operands(in, a.low, a.high, out)) return;
  const tensor_type as_float[] = {{dtype::float32, in[0].dims}, {dtype::float32, in[3].dims}};
  inference found;
  conv2d::infer(a.conv, as_float, found);
  if (!found.why.empty()) {
    out.why = found.why;
    return;
  }
  if (!product_channels(in, out)) return;
  out.result(dtype::int8, found.results[0].dims);
}
void quantized_conv2d::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &x = e.in_type(0).dims, &w = e.in_type(3).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto& f = products(e);
  const auto& c = at.conv;
  const kernels::window window{x.at(1),      x.at(2),      x.at(3),    y.at(1),          y.at(2),         y.at(3),
                               w.at(2),      w.at(3),      c.stride.h, c.stride.w,       c.padding.h,     c.padding.w,
                               c.dilation.h, c.dilation.w, c.groups,   c.padding_more.h, c.padding_more.w};
  const auto order = static_cast<std::uint64_t>(f.conv_order(&window)) << 4;
  const auto format = 0x71630000u | static_cast<std::uint64_t>(c.groups) << 32 | order | form_of(e);
  const buffer_ref packed = weights_of(e, format, f.conv_packed_bytes(&window), [&](buffer_ref from, buffer_ref to) {
    kernels::quantized_conv_pack_args p{window, nullptr, nullptr};
    e.step(f.conv_pack, p, {{&p.weight, from}, {&p.packed, to}});
  });
  const double flops = 2.0 * static_cast<double>(y.size(1, 4)) * static_cast<double>(w.size(1, 4));
  emission::cut(
      x.at(0), flops,
      [&](std::int64_t first, std::int64_t count) {
        const auto to = requantization_of(e, at.low, at.high);
        kernels::quantized_conv_args a{window, first, count, nullptr, nullptr, nullptr, to};
        std::vector<address> where{{&a.in, e.in(0)}, {&a.packed, packed}, {&a.out, e.out(0)}};
        add_operands(e, a.to, 0, where);
        e.step(f.conv, a, where, f.conv_scratch_bytes(&a));
      },
      8e6);
}

void quantized_add::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  for (std::size_t k : {0u, 3u})
    if (in[k].element != dtype::int8) return out.refuse(in[k].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::float32, "the scale of a", out) || !one(in[2], dtype::int8, "the offset of a", out)) return;
  if (!one(in[4], dtype::float32, "the scale of b", out) || !one(in[5], dtype::int8, "the offset of b", out)) return;
  if (!result_operands(in[6], in[7], a.low, a.high, out)) return;
  const shape &x = in[0].dims, &y = in[3].dims;
  bool same = x.rank == y.rank;
  for (int i = 0; same && i < x.rank; ++i) same = may_equal(x[i], y[i]);
  if (!same) {
    out.why << "both are to have one shape, not " << x << " and " << y;
    return;
  }
  out.result(dtype::int8, x);
}
void quantized_add::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const std::int64_t all = e.out_type(0).dims.size();
  if (all == 0) return;
  emission::cut(all, 3, [&](std::int64_t first, std::int64_t count) {
    kernels::quantized_add_args a{};
    a.count = count;
    a.low = static_cast<std::int32_t>(at.low), a.high = static_cast<std::int32_t>(at.high);
    e.step(functions(e).add, a,
           {{&a.a, e.in(0).at(first)},
            {&a.a_scale, e.in(1)},
            {&a.a_offset, e.in(2)},
            {&a.b, e.in(3).at(first)},
            {&a.b_scale, e.in(4)},
            {&a.b_offset, e.in(5)},
            {&a.y_scale, e.in(6)},
            {&a.y_offset, e.in(7)},
            {&a.y, e.out(0).at(first)}});
  });
}

void quantized_avg_pool2d::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int8) return out.refuse(in[0].element, "int8", "std::int8_t");
  if (!one(in[1], dtype::float32, "the scale of x", out) || !one(in[2], dtype::int8, "the offset of x", out)) return;
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
void quantized_avg_pool2d::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &x = e.in_type(0).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto step = at.step();
  const double flops =
      static_cast<double>(y.size(1, 4)) * static_cast<double>(at.kernel_size.h) * static_cast<double>(at.kernel_size.w);
  emission::cut(x.at(0), flops, [&](std::int64_t first, std::int64_t count) {
    kernels::quantized_average_args a{};
    a.pool.w = {
        x.at(1), x.at(2),      x.at(3),      y.at(1), y.at(2), y.at(3), at.kernel_size.h,  at.kernel_size.w, step.h,
        step.w,  at.padding.h, at.padding.w, 1,       1,       1,       at.padding_more.h, at.padding_more.w};
    a.pool.images = count;
    a.pool.count_padding = at.count_padding;
    e.step(functions(e).average_pool, a,
           {{&a.pool.in, e.in(0).at(first * x.size(1, 4))},
            {&a.x_scale, e.in(1)},
            {&a.x_offset, e.in(2)},
            {&a.y_scale, e.in(3)},
            {&a.y_offset, e.in(4)},
            {&a.pool.out, e.out(0).at(first * y.size(1, 4))}});
  });
}

}  // namespace op

namespace {
template <class Op> value product(const typename Op::attributes& a, const value& x, const quantization& x_as,
                                  const quantized_weights& w, const quantization& y_as) {
  return apply<Op>(a, x, x_as.scale, x_as.offset, w.weight, w.scale, w.bias, y_as.scale, y_as.offset);
}
}  // namespace

value quantize(const value& x, const quantization& as, quantize_attributes a, const origin&) {
  return apply<op::quantize>(a, x, as.scale, as.offset);
}
value dequantize(const value& q, const quantization& as, quantize_attributes a, const origin&) {
  return apply<op::dequantize>(a, q, as.scale, as.offset);
}
value quantized_linear(const value& x, const quantization& x_as, const quantized_weights& w, const quantization& y_as,
                       quantized_linear_attributes a, const origin&) {
  return product<op::quantized_linear>(a, x, x_as, w, y_as);
}
value quantized_conv2d(const value& x, const quantization& x_as, const quantized_weights& w, const quantization& y_as,
                       quantized_conv2d_attributes a, const origin&) {
  return product<op::quantized_conv2d>(a, x, x_as, w, y_as);
}

value quantized_add(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                    const quantization& y_as, quantized_linear_attributes within, const origin&) {
  return apply<op::quantized_add>(within, a, a_as.scale, a_as.offset, b, b_as.scale, b_as.offset, y_as.scale,
                                  y_as.offset);
}
value quantized_avg_pool2d(const value& x, const quantization& x_as, const quantization& y_as, pool2d_attributes a,
                           const origin&) {
  return apply<op::quantized_avg_pool2d>(a, x, x_as.scale, x_as.offset, y_as.scale, y_as.offset);
}

}  // namespace lamina
