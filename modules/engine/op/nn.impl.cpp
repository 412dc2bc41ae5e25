module;
#include "../kernels/families.h"
module lamina:op.nn.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op.box;
import :op.elementwise;
import :op.half;
import :op.nn;
import :op.products;
import :op.reduce;
import :op.shape;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

const kernels::conv_functions& functions(const emission& e) { return kernels::conv_of(e.isa()); }

// Images one pixel wide are treated as single rows (same memory order), because kernels are made for long rows.
kernels::window with_long_rows(const kernels::window& w) {
  if (w.width != 1 || w.out_width != 1 || w.kernel_w != 1 || w.pad_w != 0) return w;
  return {w.channels, 1,          w.height,   w.out_channels, 1,       w.out_height, 1,
          w.kernel_h, w.stride_w, w.stride_h, w.pad_w,        w.pad_h, w.dilation_w, w.dilation_h,
          w.groups,   w.more_w,   w.more_h};
}

/// A convolution to emit: its window, the type its operands are rounded to, and whether they must be rounded beforehand
/// because its kernels do not round.
struct convolution : kernels::window {
  product_type compute{};
  bool rounds = false;
  std::int64_t sets = 1;  // of filters; more than 1: the window is that of one group
};
// A window of which each group has whole channel blocks as that of one group, an image for each; any other as it is.
convolution in_groups(convolution w, isa set) {
  const long lanes = kernels::lanes(static_cast<kernels::isa>(set));
  if (w.groups == 1 || w.channels % (w.groups * lanes) != 0 || w.out_channels % (w.groups * lanes) != 0) return w;
  w.sets = w.groups;
  static_cast<kernels::window&>(w) = w.of_one_group();
  return w;
}
kernels::window window_of(const conv2d_attributes& a, const shape& x, const shape& w, const shape& y) {
  return with_long_rows({x.at(1), x.at(2), x.at(3), y.at(1), y.at(2), y.at(3), w.at(2), w.at(3), a.stride.h, a.stride.w,
                         a.padding.h, a.padding.w, a.dilation.h, a.dilation.w, a.groups});
}
convolution convolution_of(const emission& e, const conv2d_attributes& a, const shape& x, const shape& w,
                           const shape& y) {
  const bool rounds = a.compute != dtype::float32;
  return {window_of(a, x, w, y), rounds ? a.compute : e.compute(), rounds};
}
kernels::window window_of(const pool2d_attributes& a, const shape& x, const shape& y) {
  const auto step = a.step();
  return with_long_rows({x.at(1), x.at(2), x.at(3), y.at(1), y.at(2), y.at(3), a.kernel_size.h, a.kernel_size.w, step.h,
                         step.w, a.padding.h, a.padding.w, 1, 1, 1, a.padding_more.h, a.padding_more.w});
}

// A convolution of few channels reads plain images directly: up to half a block, or, without rounding and Winograd, up to
// four blocks of which a sixth would be padding.
bool takes_plain_images(const image_call& c) {
  const std::int64_t channels = c.in[0].dims.at(1), lanes = kernels::lanes(static_cast<kernels::isa>(c.isa)),
                     all = detail::divide_up(channels, lanes) * lanes;
  const auto& a = *static_cast<const conv2d_attributes*>(c.attributes);
  if (c.blocked || 2 * channels <= lanes) return !c.blocked;
  if (a.groups != 1 || a.compute != dtype::float32 || c.compute != dtype::float32 || all > 4 * lanes ||
      6 * (all - channels) < all)
    return false;
  const kernels::window w = window_of(a, c.in[0].dims, c.in[1].dims, c.out[0].dims);
  return !kernels::conv_of(c.isa).blocked.by_winograd(&w, 0);
}

// Channels rounded up to whole blocks.
std::int64_t in_whole_blocks(const emission& e, std::int64_t channels) {
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa()));
  return detail::divide_up(channels, lanes) * lanes;
}

// Bytes between consecutive images of a buffer.
std::int64_t image_bytes(const emission& e, const shape& s, dtype element, layout form) {
  const std::int64_t map = s.at(2) * s.at(3), lanes = kernels::lanes(static_cast<kernels::isa>(e.isa()));
  if (form == layout::rounded)
    return detail::divide_up(s.at(1), 2 * lanes) * 2 * lanes * map *
           static_cast<std::int64_t>(size_of(dtype::bfloat16));
  const std::int64_t channels = form == layout::blocked ? in_whole_blocks(e, s.at(1)) : s.at(1);
  return channels * map * static_cast<std::int64_t>(size_of(element));
}

void emit_zeros(emission& e) { detail::emit_fill(e, e.out(0), e.out_type(0).dims.size(), e.out_type(0).element); }

enum role { forward, input_grad, weight_grad };

kernels::conv_plain_args plain_args(emission& e, const kernels::window& w) {
  kernels::conv_plain_args a{};
  a.w = w;
  a.product_run = kernels::gemm_of(e.isa(), static_cast<kernels::element>(e.out_type(0).element)).run;
  return a;
}

// The operands of a convolution, rounded here if its kernels do not round.
std::array<buffer_ref, 2> operands_of(emission& e, const convolution& w) {
  if (!w.rounds) return {e.in(0), e.in(1)};
  const std::array<buffer_ref, 2> rounded{detail::rounded_operand(e, 0, w.compute),
                                          detail::rounded_operand(e, 1, w.compute)};
  e.stage();
  return rounded;
}

// Pieces of an image are rows of results, or channels of the input whose gradient is computed.
void emit_plain(emission& e, const convolution& w, std::int64_t images, double flops_per_image, role r) {
  const auto operands = operands_of(e, w);
  const auto& f = functions(e).plain[static_cast<int>(e.out_type(0).element)];
  const bool by_channels = r == input_grad && w.groups == 1 && (w.stride_h > 1 || w.stride_w > 1);
  const std::int64_t pieces = r == forward ? w.out_height : by_channels ? w.channels : 1;
  for (const auto& part : detail::parts_of_images(e, images, flops_per_image, 3e6, 1e6, pieces)) {
    auto a = plain_args(e, w);
    a.first = part.first, a.count = part.count;
    std::int64_t channels_before = 0;
    if (r == forward) a.first_row = part.first_piece, a.row_count = part.pieces;
    else if (part.pieces) {
      channels_before = part.first_piece * static_cast<std::int64_t>(size_of(e.out_type(0).element));
      a.whole_channels = w.channels, a.w.channels = part.pieces;
    }
    const auto& tail = e.epilogue();
    a.clamp = tail.clamp;
    a.low = tail.low;
    a.high = tail.high;
    f.prepare(&a, r);
    if (r == forward) e.kernel(f.by_columns(&a) ? "im2col" : f.forward_of(a) == f.forward ? "product" : "tiles");
    std::vector<address> where{{&a.in, operands[0]},
                               {&a.weight, operands[1].at(channels_before * w.kernel_h * w.kernel_w)},
                               {&a.out, e.out(0).at(channels_before * w.height * w.width)}};
    if (tail.bias) where.push_back({&a.bias, e.operand(tail.bias)});
    e.step(r == forward ? f.forward_of(a) : f.input_grad, a, where, f.scratch_bytes(&a, r));
  }
}

// The kernels of a convolution in channel blocks: for float32, or for operands rounded to bfloat16.
const kernels::conv_blocked_functions& blocked_functions(const emission& e, const convolution& w, bool planar) {
  if (w.compute == dtype::bfloat16) {
    const auto& f = detail::bfloat_products(w.compute, e.isa()).conv;
    if (f.supports(&w, planar)) return f;
  }
  return functions(e).blocked;
}

// Whether the chosen kernels round the operands of a convolution.
bool rounds_operands(const emission& e, const kernels::conv_blocked_functions& f) {
  return &f != &functions(e).blocked;
}

// How kernels compute a convolution in channel blocks; in bands if windows are fused over its results.
std::string_view name_of(const kernels::conv_blocked_functions& f, const convolution& w, bool planar,
                         bool in_bands = false) {
  if (w.groups > 1) return "depthwise";
  const int rows = f.by_winograd(&w, planar);
  if (in_bands) return rows == 0 ? "direct bands" : "winograd bands";
  if (rows == 0) return "direct";
  return w.kernel_h == 1 ? rows == 2 ? "winograd 1x2" : "winograd 1x4" : rows == 2 ? "winograd 2x2" : "winograd 4x4";
}

// Weights packed for a convolution in channel blocks, or, with `turned`, for the gradient of its input: the operation's
// own, or the weights `of` its epilogue.
buffer_ref packed_weights(emission& e, const convolution& w, bool planar, bool turned = false, value_id of = {}) {
  const auto& f = blocked_functions(e, w, planar);
  const bool rounds = rounds_operands(e, f), computed = f.by_winograd(&w, planar) != 0;
  const auto format = (computed ? 0x63770000u : 0x63760000u) | (planar ? 1u : 0u) |
                      static_cast<unsigned>(w.groups > 1) << 1 | (rounds ? 4u : 0u) | (turned ? 8u : 0u) |
                      (w.large_tiles ? 16u : 0u) | (f.by_amx ? 32u : 0u) | static_cast<unsigned>(e.isa()) << 8 |
                      static_cast<std::uint64_t>(w.sets - 1) << 32;
  return detail::packed_or_temporary(
      e, of ? of : e.of().inputs[1], [&] { return of ? e.operand(of) : e.in(1); }, format,
      static_cast<std::size_t>(w.sets) * f.packed_bytes(&w, planar),
      [&](buffer_ref from, buffer_ref to) {
        kernels::conv_pack_args p{};
        p.w = w;
        p.planar_in = planar, p.turned = turned;
        p.sets = w.sets;
        e.step(f.pack, p, {{&p.weight, from}, {&p.packed, to}});
      },
      !computed && !rounds && !turned);
}

// The bias padded with zeros to whole blocks; empty if there is none.
buffer_ref padded_bias(emission& e, value_id bias, std::int64_t channels, std::int64_t padded) {
  if (!bias) return {};
  if (padded == channels) return e.operand(bias);
  return detail::packed_or_temporary(
      e, bias, [&] { return e.operand(bias); }, 0x62730000u | static_cast<unsigned>(e.isa()) << 8,
      static_cast<std::size_t>(padded) * 4,
      [&](buffer_ref from, buffer_ref to) {
        detail::emit_fill(e, to.at(channels * 4), padded - channels, dtype::float32);
        detail::emit_box(e, detail::box::whole(shape{dim(channels)}), from, to, dtype::float32);
      },
      true);
}

// Minimum of flops for a part of an image, which reads all of its channels again; of a depthwise convolution, or one in
// groups, it reads its own. Such a part takes 2 to 5 us with AVX2.
constexpr double part_flops = 4e5, part_flops_of_groups = 40e3, part_flops_of_amx = 4e6;

// A part of a convolution in channel blocks: whole images; or of one image, blocks of output channels, or pieces (0:
// all of it).
struct blocked_part {
  std::int64_t first_image, images, first_block, blocks, first_piece = 0, pieces = 0;
};

// The arguments of a convolution in channel blocks of images in this layout, without addresses.
kernels::conv_blocked_args blocked_args(const emission& e, const convolution& w, layout in) {
  const auto& tail = e.epilogue();
  kernels::conv_blocked_args a{};
  a.w = w;
  a.planar_in = in == layout::plain;
  a.rounded_in = in == layout::rounded;
  a.clamp = tail.clamp;
  a.low = static_cast<float>(tail.low);
  a.high = static_cast<float>(tail.high);
  return a;
}

void emit_part(emission& e, const convolution& w, const detail::read_images& in, buffer_ref weight, buffer_ref bias,
               const blocked_part& part) {
  const auto& f = blocked_functions(e, w, e.in(0).form == layout::plain);
  const auto& tail = e.epilogue();
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa())), block_bytes = lanes * 4;
  const bool depthwise = w.groups > 1;
  kernels::conv_blocked_args a = blocked_args(e, w, e.in(0).form);
  a.joined_in = in.joined;
  a.rounded_out = e.out(0).form == layout::rounded;
  a.rounded_residual = tail.residual && e.operand(tail.residual).form == layout::rounded;
  a.first = part.first_image;
  a.count = part.images;
  a.first_piece = part.first_piece, a.piece_count = part.pieces;
  // Bytes before a block of output channels; of rounded images it begins a pair.
  const auto place_of_block = [&](layout form, std::int64_t n, std::int64_t block) {
    const std::int64_t map = w.out_height * w.out_width * block_bytes;
    return n * image_bytes(e, e.out_type(0).dims, dtype::float32, form) +
           (form == layout::rounded ? block / 2 : block) * map;
  };
  std::int64_t in_at = 0, out_at = 0, residual_at = 0;
  if (const std::int64_t blocks = detail::divide_up(w.out_channels, lanes); part.blocks != blocks) {
    a.first = 0;
    a.whole_out_channels = w.out_channels;
    a.w.out_channels = std::min(part.blocks * lanes, w.out_channels - part.first_block * lanes);
    in_at = part.first_image * in.bytes;
    if (depthwise) {
      in_at += part.first_block * w.height * w.width * block_bytes;
      // Whole blocks: with a single channel it would not be a depthwise convolution.
      a.w.channels = a.w.groups = a.w.out_channels = part.blocks * lanes;
    }
    out_at = place_of_block(e.out(0).form, part.first_image, part.first_block);
    residual_at = tail.residual ? place_of_block(e.operand(tail.residual).form, part.first_image, part.first_block) : 0;
  }
  const auto weights_before = part.first_block * static_cast<std::int64_t>(f.filter_bytes(&w, a.planar_in));
  const auto run = f.prepare(&a);
  std::vector<address> where{
      {&a.in, in.at.at(in_at)}, {&a.weight, weight.at(weights_before)}, {&a.out, e.out(0).at(out_at)}};
  if (bias) where.push_back({&a.bias, bias.at(part.first_block * block_bytes)});
  if (tail.residual) where.push_back({&a.residual, e.operand(tail.residual).at(residual_at)});
  e.step(run, a, where, f.scratch_bytes(&a));
}

// Sets what a call by groups, or through blocks, needs beside its images: the convolution, prepared for one image.
void prepare_grouped(const convolution& w, const kernels::conv_blocked_functions& f, kernels::conv_grouped_args& a) {
  a.conv.count = 1;
  a.groups = w.sets;
  a.filters = static_cast<long>(f.packed_bytes(&w, 0) / 4);
  a.conv_run = f.prepare(&a.conv);
}

// A convolution in groups of whole channel blocks: `images` has one for each group.
void emit_grouped(emission& e, const convolution& w, std::int64_t images, double flops_per_image, buffer_ref weight,
                  buffer_ref bias) {
  const auto& f = blocked_functions(e, w, false);
  const auto& tail = e.epilogue();
  const std::int64_t pieces = std::max<std::int64_t>(f.pieces(&w, 0), 1);
  for (const auto& p :
       detail::parts_of_images(e, images, flops_per_image, 3 * part_flops_of_groups, part_flops, pieces)) {
    kernels::conv_grouped_args a{};
    a.conv = blocked_args(e, w, layout::blocked);
    a.conv.first_piece = p.first_piece, a.conv.piece_count = p.pieces;
    a.first = p.first, a.count = p.count;
    prepare_grouped(w, f, a);
    std::vector<address> where{{&a.conv.in, e.in(0)}, {&a.conv.weight, weight}, {&a.conv.out, e.out(0)}};
    if (bias) where.push_back({&a.conv.bias, bias});
    if (tail.residual) where.push_back({&a.conv.residual, e.operand(tail.residual)});
    e.step(functions(e).grouped, a, where, f.scratch_bytes(&a.conv));
  }
}

// The window of the fused operation over a map of its operand.
kernels::window maps_of(window_rule rule, const image_call& c) {
  const shape &x = c.in[0].dims, &y = c.out[0].dims;
  return rule == window_rule::filter
             ? window_of(*static_cast<const conv2d_attributes*>(c.attributes), x, c.in[1].dims, y)
             : window_of(*static_cast<const pool2d_attributes*>(c.attributes), x, y);
}

// Bytes of intermediate results between a convolution and its fused windows that stay in cache beside weights and
// images.
constexpr std::int64_t band_bytes = 512 * 1024;

// Chooses the kernels that compute a convolution in bands, low enough for the parts of an image; returns the number of
// bands per image. `scratch`: of one kernel.
std::int64_t prepare_bands(emission& e, const convolution& w, const kernels::window& maps, std::int64_t images,
                           double flops_per_image, kernels::conv_bands& a, std::size_t& scratch) {
  const bool planar = e.in(0).form == layout::plain;
  const auto& f = blocked_functions(e, w, planar);
  // Bands begin at whole rows of windows and of tiles of transformed inputs.
  const std::int64_t row_bytes = in_whole_blocks(e, w.out_channels) * w.out_width * 4,
                     tile = std::max(f.by_winograd(&w, planar), 1), unit = tile * maps.stride_h,
                     units = detail::divide_up(w.out_height, unit),
                     parts = detail::parts_of_image(e, images, flops_per_image, part_flops);
  a.maps = maps;
  const std::int64_t min = std::min(detail::divide_up(2 * a.reach(), unit), units),
                     max = std::min(band_bytes / row_bytes / unit, detail::divide_up(units, parts));
  a.rows = (parts == 1 ? std::max(min, max) : detail::balanced_band(units, min, std::max(min, max))) * unit;
  a.bytes = static_cast<std::size_t>(a.rows_held() * row_bytes);
  const auto prepare = [&](int kind, std::int64_t rows) {
    if (rows <= 0) return;
    auto& of = a.conv[kind];
    of = blocked_args(e, w, e.in(0).form);
    of.count = 1;
    of.piece_count = tile > 1 ? detail::divide_up(rows, tile) * detail::divide_up(w.out_width, tile) : rows;
    a.run[kind] = f.prepare(&of);
    scratch = std::max(scratch, f.scratch_bytes(&of));
  };
  if (a.rows <= w.out_height) prepare(kernels::conv_bands::whole, a.rows);
  prepare(kernels::conv_bands::rest, w.out_height % a.rows);
  if (a.rows < w.out_height) prepare(kernels::conv_bands::above, a.rows_before(a.rows));
  a.in_image = image_bytes(e, e.in_type(0).dims, dtype::float32, e.in(0).form) / 4;
  return detail::divide_up(w.out_height, a.rows);
}

// Emits a convolution and the fused windows over its results, in bands of rows.
template <class Arguments, class Step> void cut_bands(emission& e, std::int64_t images, double flops_per_image,
                                                      std::int64_t bands, Arguments& a, std::vector<address> where,
                                                      buffer_ref weight, buffer_ref bias, Step step) {
  for (auto& of : a.conv) {
    where.push_back({&of.in, e.in(0)});
    where.push_back({&of.weight, weight});
    if (bias) where.push_back({&of.bias, bias});
  }
  for (const auto& part : detail::parts_of_images(e, images, flops_per_image, 3e6, part_flops, bands)) {
    a.first = part.first, a.count = part.count;
    a.first_band = part.first_piece, a.bands = part.pieces ? part.pieces : bands;
    step(where);
  }
}

// The call of the operation whose windows are fused over a convolution's results.
image_call call_of_windows(const emission& e, std::vector<tensor_type>& in) {
  const node& n = *e.epilogue().windows;
  in.push_back(e.out_type(0));
  for (auto v : e.epilogue().windows_operands()) in.push_back(e.operand_type(v));
  return {n.attributes.get(), in, n.results, true, true, e.isa()};
}

void emit_pooled(emission& e, const convolution& w, std::int64_t images, double flops_per_image, buffer_ref weight,
                 buffer_ref bias, window_rule rule, const kernels::window& maps) {
  kernels::conv_pooled_args a{};
  a.pool.images = 1;
  a.pool.count_padding = e.epilogue().windows->attributes_as<pool2d_attributes>().count_padding;
  a.pool_run =
      rule == window_rule::maximum ? kernels::max_pool_of(e.isa()).blocked : kernels::average_pool_of(e.isa()).blocked;
  std::size_t scratch = 0;
  const auto bands = prepare_bands(e, w, maps, images, flops_per_image, a, scratch);
  cut_bands(e, images, flops_per_image, bands, a, {{&a.pool.out, e.out(0)}}, weight, bias,
            [&](view<const address> where) { e.step(functions(e).pooled, a, where, a.bytes + scratch); });
}

void emit_depthwise_after(emission& e, const convolution& w, std::int64_t images, double flops_per_image,
                          buffer_ref weight, buffer_ref bias, const kernels::window& maps) {
  const auto& tail = e.epilogue();
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa()));
  // The filters are multiplied unrounded, in float32.
  const convolution of{{maps}, dtype::float32};
  const auto& f = functions(e).blocked;
  kernels::conv_depthwise_args a{};
  a.depthwise.w = of;
  a.depthwise.w.channels = a.depthwise.w.out_channels = a.depthwise.w.groups = lanes;
  a.depthwise.count = 1;
  if (const auto& b = tail.windows_bounds) {
    a.depthwise.clamp = 1;
    a.depthwise.low = static_cast<float>(b->low), a.depthwise.high = static_cast<float>(b->high);
  }
  a.depthwise_run = f.prepare(&a.depthwise);
  std::size_t scratch = f.scratch_bytes(&a.depthwise);
  std::vector<address> where{{&a.depthwise.weight, packed_weights(e, of, false, false, tail.windows->inputs[1])},
                             {&a.depthwise.out, e.out(0)}};
  if (const buffer_ref b = padded_bias(e, tail.windows_bias, w.out_channels, in_whole_blocks(e, w.out_channels)))
    where.push_back({&a.depthwise.bias, b});
  const double flops = flops_per_image + 2.0 *
                                             static_cast<double>(maps.out_channels * maps.out_height * maps.out_width) *
                                             static_cast<double>(maps.kernel_h * maps.kernel_w);
  const auto bands = prepare_bands(e, w, maps, images, flops, a, scratch);
  cut_bands(e, images, flops, bands, a, where, weight, bias,
            [&](view<const address> at) { e.step(functions(e).depthwise_after, a, at, a.bytes + scratch); });
}

void emit_blocked(emission& e, convolution w, std::int64_t images, double flops_per_image) {
  images *= w.sets, flops_per_image /= static_cast<double>(w.sets);
  // Bands are convolved as separate maps, whose choice of tiles could differ from that of the packed weights.
  w.large_tiles = e.fast_convolutions() && w.compute == dtype::float32 && !e.epilogue().windows;
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa())),
                     blocks = detail::divide_up(w.out_channels, lanes);
  const bool planar = e.in(0).form == layout::plain;
  const auto& f = blocked_functions(e, w, planar);
  if (rounds_operands(e, f)) e.note("bfloat16");
  e.kernel(name_of(f, w, planar, e.epilogue().windows != nullptr));
  const buffer_ref weight = packed_weights(e, w, planar),
                   bias = padded_bias(e, e.epilogue().bias, w.out_channels, blocks * lanes);
  if (const node* windows = e.epilogue().windows) {
    std::vector<tensor_type> in;
    const image_call call = call_of_windows(e, in);
    const window_rule rule = windows->op->windows(call);
    const kernels::window maps = maps_of(rule, call);
    if (rule == window_rule::filter) emit_depthwise_after(e, w, images, flops_per_image, weight, bias, maps);
    else emit_pooled(e, w, images, flops_per_image, weight, bias, rule, maps);
    return;
  }
  if (w.sets > 1) return emit_grouped(e, w, images, flops_per_image, weight, bias);
  // Pieces of an image are rows, Winograd tiles, or blocks of output channels.
  const std::int64_t unit = w.groups > 1 ? 1 : f.by_amx ? 2 : detail::blocks_of_piece(blocks);
  std::int64_t pieces = f.pieces(&w, planar);
  // A depthwise convolution is cut as a 1x1 convolution to its channels is: each thread reads what it wrote.
  const auto weight_bytes = w.channels * static_cast<std::int64_t>(size_of(w.compute));
  if (w.groups > 1 && (w.height < 8 || weight_bytes > w.height * w.width * 4)) pieces = 0;
  const double grain = w.groups > 1 ? part_flops_of_groups : f.by_amx ? part_flops_of_amx : part_flops;
  const auto parts = detail::parts_of_images(e, images, flops_per_image, 3 * grain, grain,
                                             pieces ? pieces : detail::divide_up(blocks, unit));
  const auto args = blocked_args(e, w, e.in(0).form);
  detail::read_images in{e.in(0), image_bytes(e, e.in_type(0).dims, dtype::float32, e.in(0).form)};
  if (!pieces && f.join && !f.reads_in_place(&args) && parts.begin()->pieces != 0) {
    kernels::conv_join_args a{};
    a.w = w, a.planar_in = args.planar_in, a.rounded_in = args.rounded_in;
    in = detail::join_images(e, f, a, planar, images, {{&a.in, in.at}});
  }
  for (const auto& p : parts) {
    blocked_part part{p.first, p.count, 0, blocks};
    if (pieces) part.first_piece = p.first_piece, part.pieces = p.pieces;
    else if (p.pieces)
      part.first_block = unit * p.first_piece, part.blocks = std::min(unit * p.pieces, blocks - part.first_block);
    emit_part(e, w, in, weight, bias, part);
  }
}

// Whether plain images are converted to channel blocks, which is cheaper unless the blocks are mostly padding or the
// convolution is a matrix product of the images as they are.
bool goes_through_blocks(emission& e, const convolution& plain, const convolution& w, role r) {
  if (e.out_type(0).element != dtype::float32 || w.pad_h < 0 || w.pad_w < 0 ||
      2 * in_whole_blocks(e, w.channels) * in_whole_blocks(e, w.out_channels) > 3 * w.channels * w.out_channels)
    return false;
  const auto& blocks = blocked_functions(e, w, false);
  if (w.rounds) return rounds_operands(e, blocks);
  if (!blocks.supports(&w, 0)) return false;
  if (w.kernel_h > 1 || w.kernel_w > 1) return true;
  const auto& f = functions(e).plain[0];
  auto a = plain_args(e, plain);
  a.count = 1;
  f.prepare(&a, r);
  return f.by_columns(&a) != 0;
}
void emit_through_blocks(emission& e, const convolution& w, std::int64_t images, double flops_per_image, bool turned) {
  images *= w.sets, flops_per_image /= static_cast<double>(w.sets);
  const auto& f = blocked_functions(e, w, false);
  if (rounds_operands(e, f)) e.note("bfloat16");
  e.kernel(name_of(f, w, false));
  const std::int64_t channels = in_whole_blocks(e, w.channels), outs = in_whole_blocks(e, w.out_channels);
  const buffer_ref weight = packed_weights(e, w, false, turned),
                   bias = padded_bias(e, e.epilogue().bias, w.out_channels, outs);
  kernels::conv_through_args a{};
  const auto prepare = [&](std::int64_t out_channels) {
    a.conv = blocked_args(e, w, layout::blocked);
    if (out_channels != w.out_channels)
      a.conv.whole_out_channels = w.out_channels, a.conv.w.out_channels = out_channels;
    prepare_grouped(w, f, a);
  };
  const std::int64_t map = w.out_height * w.out_width * 4;  // bytes
  a.in_bytes = static_cast<std::size_t>(channels * w.height * w.width * 4);
  a.out_bytes = static_cast<std::size_t>(outs * map);
  // Adds a call for the prepared output channels, from this one on.
  const auto part = [&](std::int64_t channel) {
    kernels::window before = w;
    before.out_channels = channel;
    std::vector<address> where{{&a.in, e.in(0)},
                               {&a.conv.weight, weight.at(static_cast<std::int64_t>(f.packed_bytes(&before, false)))},
                               {&a.out, e.out(0).at(channel * map)}};
    if (bias) where.push_back({&a.conv.bias, bias.at(channel * 4)});
    e.step(functions(e).through_blocks, a, where, a.in_bytes + a.out_bytes + f.scratch_bytes(&a.conv));
  };
  // Each image reads all filters: if these are much larger, and more than the cache holds, parts are output channels of
  // all images.
  constexpr std::size_t near = 512 * 1024;
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa())), blocks = outs / lanes, few = 4;
  const std::size_t packed = f.packed_bytes(&w, false);
  if (w.groups == 1 && w.sets == 1 && images > 1 && blocks >= few &&
      packed > std::max(near, 4 * (a.in_bytes + a.out_bytes)) && f.by_winograd(&w, false) == 0) {
    const auto unit = std::clamp(static_cast<std::int64_t>(near) * blocks / static_cast<std::int64_t>(packed),
                                 std::int64_t{1}, blocks / few) *
                      lanes;
    const std::int64_t units = detail::divide_up(w.out_channels, unit);
    a.count = images;
    e.cut_for_threads(
        units, flops_per_image * static_cast<double>(images) / static_cast<double>(units),
        [&](std::int64_t first, std::int64_t count) {
          prepare(std::min(count * unit, w.out_channels - first * unit));
          part(first * unit);
        },
        3e6);
    return;
  }
  prepare(w.out_channels);
  e.cut_for_threads(
      images, flops_per_image,
      [&](std::int64_t first, std::int64_t count) {
        a.first = first, a.count = count;
        part(0);
      },
      3e6);
}

// The gradient of a convolution's input; with stride 1 it is a convolution of the result's gradient with the rotated
// kernels.
void emit_input_grad(emission& e, const convolution& w, std::int64_t images, double flops_per_image) {
  if (w.stride_h == 1 && w.stride_w == 1) {
    convolution back = w;
    back.channels = w.out_channels, back.height = w.out_height, back.width = w.out_width;
    back.out_channels = w.channels, back.out_height = w.height, back.out_width = w.width;
    back.pad_h = w.dilation_h * (w.kernel_h - 1) - w.pad_h, back.pad_w = w.dilation_w * (w.kernel_w - 1) - w.pad_w;
    back.more_h = back.more_w = 0;
    back = in_groups(back, e.isa());
    if (goes_through_blocks(e, w, back, input_grad)) return emit_through_blocks(e, back, images, flops_per_image, true);
  }
  emit_plain(e, w, images, flops_per_image, input_grad);
}

}  // namespace

image_layouts conv2d::images(const image_call& c) {
  const auto& a = *static_cast<const conv2d_attributes*>(c.attributes);
  const convolution w = in_groups({window_of(a, c.in[0].dims, c.in[1].dims, c.out[0].dims)}, c.isa);
  // Blocks of few channels are mostly padding; there are no blocked kernels for float16 rounding.
  if (a.compute == dtype::float16) return {};
  const product_type compute = a.compute != dtype::float32 ? a.compute : c.compute;
  const auto* rounding = compute == dtype::bfloat16 ? &detail::bfloat_products(compute, c.isa).conv : nullptr;
  const auto& blocks = a.compute == dtype::bfloat16 ? *rounding : kernels::conv_of(c.isa).blocked;
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(c.isa));
  const bool plain = takes_plain_images(c), taken = w.out_channels * 2 > lanes && blocks.supports(&w, plain) != 0;
  return {.result = taken,
          .operand = taken && !plain,
          .rounded = taken && w.sets == 1 && rounding && rounding->by_amx && rounding->supports(&w, plain)};
}

window_rule conv2d::windows(const image_call& c) {
  const auto& a = *static_cast<const conv2d_attributes*>(c.attributes);
  const kernels::window w = window_of(a, c.in[0].dims, c.in[1].dims, c.out[0].dims);
  const bool depthwise = w.groups > 1 && w.groups == w.channels && w.channels == w.out_channels;
  return depthwise && a.compute == dtype::float32 && w.pad_h >= 0 && kernels::conv_of(c.isa).blocked.supports(&w, 0)
             ? window_rule::filter
             : window_rule::none;
}

// Fuses windows if the results are too large to stay in cache and the weights, which each band reads again, are small.
bool conv2d::joins_windows(const image_call& c, window_rule rule, const image_call& next) {
  const std::int64_t many = (rule == window_rule::filter ? 1024 : 512) * 1024, few = 512 * 1024, max_rows = 8;
  const auto& a = *static_cast<const conv2d_attributes*>(c.attributes);
  const shape &x = c.in[0].dims, &weights = c.in[1].dims, &y = c.out[0].dims;
  if (a.groups != 1 || y.at(2) == 1 || y.at(3) == 1 || y.size(1, 4) * 4 < many || weights.size() * 4 > few)
    return false;
  const kernels::window w = window_of(a, x, weights, y), maps = maps_of(rule, next);
  // Winograd tiles begin at even rows, but rows above a part's first band, which windows read, may begin at odd ones;
  // with dilation they are no bands.
  const bool reads_above = maps.rows_under(1) > maps.stride_h || maps.pad_h > 0,
             is_dilated = w.dilation_h > 1 || w.dilation_w > 1, has_flat_tiles = w.kernel_h == 1;
  return maps.rows_under(1) <= max_rows && !((reads_above || is_dilated || has_flat_tiles) &&
                                             kernels::conv_of(c.isa).blocked.by_winograd(&w, takes_plain_images(c)));
}

void conv2d::emit(emission& e) {
  const shape &x = e.in_type(0).dims, &weights = e.in_type(1).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto w = convolution_of(e, e.attributes<conv2d_attributes>(), x, weights, y);
  // An image of few channels takes the time of its memory traffic, here in flops, rather than of its products.
  constexpr double flops_per_element = 20;
  double flops = 2.0 * static_cast<double>(y.size(1, 4)) * static_cast<double>(weights.size(1, 4));
  if (w.groups != x.at(1)) flops += flops_per_element * static_cast<double>(x.size(1, 4) + y.size(1, 4));
  const auto group = in_groups(w, e.isa());
  if (is_in_blocks(e.out(0).form)) emit_blocked(e, group, x.at(0), flops);
  else if (goes_through_blocks(e, w, group, forward)) emit_through_blocks(e, group, x.at(0), flops, false);
  else emit_plain(e, w, x.at(0), flops, forward);
}

void conv2d_input_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {{in[0].element, in[2].dims}, in[1]};
  if (detail::is_result_of<conv2d>(a, forward, in[0], out)) out.result(in[0].element, in[2].dims);
}
void conv2d_input_grad::emit(emission& e) {
  const shape &g = e.in_type(0).dims, &weights = e.in_type(1).dims, &x = e.out_type(0).dims;
  if (x.size() == 0) return;
  if (g.size() == 0) {
    emit_zeros(e);
    return;
  }  // no output channels
  emit_input_grad(e, convolution_of(e, e.attributes<conv2d_attributes>(), x, weights, g), x.at(0),
                  2.0 * static_cast<double>(g.size(1, 4)) * static_cast<double>(weights.size(1, 4)));
}

void conv_transpose2d::emit(emission& e) {
  const shape &x = e.in_type(0).dims, &weights = e.in_type(1).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  if (x.size() == 0) {
    emit_zeros(e);
    return;
  }  // no input channels
  emit_input_grad(e, convolution_of(e, e.attributes<conv_transpose2d_attributes>().forward(), y, weights, x), y.at(0),
                  2.0 * static_cast<double>(x.size(1, 4)) * static_cast<double>(weights.size(1, 4)));
}

void conv2d_weight_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {in[1], {in[0].element, in[2].dims}};
  if (detail::is_result_of<conv2d>(a, forward, in[0], out)) out.result(in[0].element, in[2].dims);
}
namespace {
// Runs of images or, if `by_channels`, of output channels: first and count.
struct gradient_runs {
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;
  bool by_channels = false;
};
// Each run of images writes a partial gradient of the filters; these are summed in order. If together they exceed the
// cache, runs of output channels write parts of the gradient instead, unless each would build the same im2col matrix.
gradient_runs runs_of_gradient(emission& e, const convolution& w, std::int64_t images, double flops_per_image) {
  constexpr std::size_t cached = 1 << 20;
  constexpr std::int64_t few = 4;
  gradient_runs made;
  const auto cut = [&](std::int64_t count, double flops, std::int64_t unit) {
    made.runs.clear();
    emission::cut(
        count, flops, [&](std::int64_t first, std::int64_t n) { made.runs.emplace_back(first * unit, n * unit); }, 3e6);
  };
  cut(images, flops_per_image, 1);
  const std::int64_t unit = 2 * kernels::lanes(static_cast<kernels::isa>(e.isa())),
                     units = detail::divide_up(w.out_channels, unit);
  if (w.groups > 1 || units < few || made.runs.size() < 2 || made.runs.size() * e.out_type(0).bytes() <= cached)
    return made;
  const auto& f = functions(e).plain[static_cast<int>(e.out_type(0).element)];
  auto part = plain_args(e, w);
  part.count = images, part.whole_out_channels = w.out_channels, part.w.out_channels = unit;
  f.prepare(&part, weight_grad);
  if (f.by_columns(&part)) return made;
  made.by_channels = true;
  cut(units, flops_per_image * static_cast<double>(images) / static_cast<double>(units), unit);
  return made;
}
}  // namespace
void conv2d_weight_grad::emit(emission& e) {
  const shape &g = e.in_type(0).dims, &x = e.in_type(1).dims, &weights = e.out_type(0).dims;
  dtype element = e.out_type(0).element;
  const auto w = convolution_of(e, e.attributes<conv2d_attributes>(), x, weights, g);
  double flops = 2.0 * static_cast<double>(g.size(1, 4)) * static_cast<double>(weights.size(1, 4));
  auto bytes = static_cast<std::int64_t>(e.out_type(0).bytes());
  const auto [runs, by_channels] = runs_of_gradient(e, w, x.at(0), flops);
  if (runs.empty() || g.size() == 0 || x.size() == 0) {
    emit_zeros(e);
    return;
  }
  const auto* halves =
      w.rounds && w.compute == dtype::bfloat16 ? &detail::bfloat_products(w.compute, e.isa()).weight_grad : nullptr;
  const auto* rounding = halves && halves->supports(&w) ? halves : nullptr;
  const bool rounds = rounding != nullptr;
  if (rounds) e.note("bfloat16");
  const auto read = rounds ? std::array{e.in(0), e.in(1)} : operands_of(e, w);
  const auto& f = functions(e).plain[static_cast<int>(element)];
  const bool sums = runs.size() > 1 && !by_channels;
  buffer_ref parts = sums ? e.temporary(runs.size() * static_cast<std::size_t>(bytes)) : e.out(0);
  const auto size = static_cast<std::int64_t>(size_of(element));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto a = plain_args(e, w);
    std::int64_t first_channel = 0, out_at = static_cast<std::int64_t>(i) * bytes;
    if (by_channels) {
      a.count = x.at(0);
      first_channel = runs[i].first;
      a.whole_out_channels = w.out_channels;
      a.w.out_channels = std::min(runs[i].second, w.out_channels - first_channel);
      out_at = first_channel * weights.size(1, 4) * size;
    } else a.first = runs[i].first, a.count = runs[i].second;
    const auto run = rounds ? rounding->prepare(&a) : (f.prepare(&a, weight_grad), f.weight_grad);
    e.step(run, a,
           {{&a.in, read[1]}, {&a.weight, read[0].at(first_channel * g.size(2, 4) * size)}, {&a.out, parts.at(out_at)}},
           rounds ? rounding->scratch_bytes(&a) : f.scratch_bytes(&a, weight_grad));
  }
  if (!sums) return;
  e.stage();
  kernels::reduce_args sum{};
  sum.outer = 1;
  sum.length = static_cast<long>(runs.size());
  sum.inner = weights.size();
  auto add = kernels::reduce_sum_of(e.isa()).of[static_cast<int>(element)];
  e.step(add, sum, {{&sum.in, parts}, {&sum.out, e.out(0)}});
}

namespace {
void emit_pool(emission& e, const kernels::pool_functions& f) {
  const shape &x = e.in_type(0).dims, &y = e.out_type(0).dims;
  if (y.size() == 0) return;
  const auto& at = e.attributes<pool2d_attributes>();
  dtype element = e.in_type(0).element;
  layout form = e.in(0).form;
  const bool index = f.pairs_with_index && e.used(1);
  // Every map, or block of maps, is pooled independently.
  kernels::window map = window_of(at, x, y);
  const auto& bytes = kernels::byte_images_of(e.isa());
  auto run = element == dtype::int8    ? (form == layout::blocked ? bytes.max_pool_blocked : bytes.max_pool)
             : form == layout::blocked ? f.blocked
                                       : f.of(map, static_cast<int>(element), index);
  map.channels = map.out_channels = form == layout::blocked ? kernels::lanes(static_cast<kernels::isa>(e.isa())) : 1;
  const std::int64_t maps_of_image = (x.at(1) + map.channels - 1) / map.channels, maps = x.at(0) * maps_of_image,
                     in_bytes = image_bytes(e, x, element, form) / maps_of_image,
                     out_bytes = image_bytes(e, y, element, form) / maps_of_image,
                     index_bytes = image_bytes(e, y, dtype::int32, layout::plain) / maps_of_image;
  e.cut_for_threads(maps,
                    4.0 * static_cast<double>(y.size(2, 4)) * static_cast<double>(map.channels) *
                        static_cast<double>(at.kernel_size.h) * static_cast<double>(at.kernel_size.w),
                    [&](std::int64_t first, std::int64_t count) {
                      kernels::pool_args a{};
                      a.w = map;
                      a.images = count;
                      a.count_padding = at.count_padding;
                      std::vector<address> where{{&a.in, e.in(0).at(first * in_bytes)},
                                                 {&a.out, e.out(0).at(first * out_bytes)}};
                      if (index) where.push_back({&a.index, e.out(1).at(first * index_bytes)});
                      e.step(run, a, where);
                    });
}
void emit_pool_grad(emission& e, const kernels::pool_grad_functions& f, bool maximum) {
  const shape &g = e.in_type(0).dims, &x = e.out_type(0).dims;
  if (x.size() == 0) return;
  const auto& at = e.attributes<pool2d_attributes>();
  dtype element = e.out_type(0).element;
  auto run = f.of[static_cast<int>(element)];
  emission::cut(x.at(0), static_cast<double>(4 * x.size(1, 4)), [&](std::int64_t first, std::int64_t count) {
    kernels::pool_grad_args a{};
    a.w = window_of(at, x, g);
    a.images = count;
    a.count_padding = at.count_padding;
    std::vector<address> where{{&a.in, e.in(0).at(first * image_bytes(e, g, element, layout::plain))},
                               {&a.out, e.out(0).at(first * image_bytes(e, x, element, layout::plain))}};
    if (maximum) {
      where.push_back({&a.index, e.in(1).at(first * image_bytes(e, g, dtype::int32, layout::plain))});
      text wrong = detail::named(e);
      wrong << ": a position of a maximum is outside its map of " << x.at(2) << "x" << x.at(3);
      where.push_back({&a.invalid, e.status_with_first(wrong.view(), {.of = g, .begin = first * g.size(1, 4)})});
    }
    e.step(run, a, where);
  });
}
}  // namespace

void max_pool2d::emit(emission& e) { emit_pool(e, kernels::max_pool_of(e.isa())); }
bool max_pool2d_grad::node_may_fail(const program& p, const node& n) {
  const node& pool = p.at(n.inputs[1]);
  if (!is_call_of<max_pool2d>(pool) || n.inputs[1].result != 1) return true;
  const shape &from = p.type(pool.inputs[0]).dims, &to = n.results[0].dims;
  return from[2] != to[2] || from[3] != to[3];
}
void max_pool2d_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {{in[0].element, in[2].dims}};
  if (!detail::takes(domain::real, in[0].element, out)) return;
  if (in[1].element != dtype::int32) return out.refuse(in[1].element, "int32 positions in the maps", "std::int32_t");
  if (!detail::is_result_of<max_pool2d>(a, forward, in[0], out)) return;
  if (!fits(in[0].dims, in[1].dims)) out.why << "gradient and positions must have the same shape";
  else out.result(in[0].element, in[2].dims);
}
void max_pool2d_grad::emit(emission& e) { emit_pool_grad(e, kernels::max_pool_grad_of(e.isa()), true); }

void avg_pool2d::emit(emission& e) { emit_pool(e, kernels::average_pool_of(e.isa())); }
void avg_pool2d_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {{in[0].element, in[1].dims}};
  if (detail::is_result_of<avg_pool2d>(a, forward, in[0], out)) out.result(in[0].element, in[1].dims);
}
void avg_pool2d_grad::emit(emission& e) { emit_pool_grad(e, kernels::average_pool_grad_of(e.isa()), false); }

void conv2d::map_axis(const attributes&, axis_map& m) {
  m.share(1);
  m.independent = m.axis == 0;
  m.worth_copies = true;
}
void conv_transpose2d::map_axis(const attributes&, axis_map& m) {
  m.share(1);
  m.independent = m.axis == 0;
  m.worth_copies = true;
}
void max_pool2d::map_axis(const attributes&, axis_map& m) { m.independent = m.axis == 0; }
void avg_pool2d::map_axis(const attributes&, axis_map& m) { m.independent = m.axis == 0; }

}  // namespace lamina::op
