// Layout of each value: images of convolutions are in channel blocks, and so are elementwise results of them.
module;
#include "../kernels/families.h"
module lamina:plan.layout.impl;
import :core;
import :dtype;
import :emission;
import :emitter;
import :passes;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

namespace {

std::int64_t lanes_of(const request& r) { return kernels::lanes(static_cast<kernels::isa>(r.isa)); }
bool has_partial_block(const request& r, const tensor_type& t) { return t.dims.at(1) % lanes_of(r) != 0; }

// The layouts that an operation on images requests.
image_layouts images_of(const request& r, const usage& u, const layouts& all, std::int32_t at) {
  const node& n = r.of.at(at);
  std::vector<tensor_type> in;
  std::vector<char> in_blocks;
  for (auto v : n.inputs) in.push_back(r.of.type(v)), in_blocks.push_back(all.form[v] == layout::blocked);
  bool first_only = true;
  for (std::int32_t k = 1; k < static_cast<std::int32_t>(n.results.size()); ++k)
    first_only = first_only && !u.is_read({at, k});
  return n.op->images({n.attributes.get(), in, n.results, in_blocks[0] != 0, first_only, r.isa, in_blocks,
                       r.options.compute != dtype::float32});
}

// Whether an operand of a blocked result has one number per channel: it is read in blocks too, with 0 beyond the
// channels if it was plain.
bool reads_channels(const request& r, const layouts& all, const node& n, value_id in) {
  return all.form[in] != layout::uniform && is_for_channels(r.of.type(in), n.results[0]);
}

// The number beyond the channels of an elementwise result, computed from those of its operands.
std::optional<float> padding_after(const request& r, const layouts& all, const node& n) {
  float in[3]{}, out = 0;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const bool is_blocked = all.form[n.inputs[k]] == layout::blocked,
               blocked = is_blocked || reads_channels(r, all, n, n.inputs[k]);
    const std::optional<double> number = is_blocked ? std::optional<double>(padding_of(r, all, n.inputs[k]))
                                         : blocked  ? std::optional<double>(0)
                                                    : r.of.number_of(n.inputs[k]);
    if (blocked && n.op->zeros == zero_rule::any && number == 0) return 0;
    if (!number) return {};
    in[k] = static_cast<float>(*number);
  }
  map_function_of(r, n)(in, in + 1, in + 2, &out, 1, 0);
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

// Whether operands are blocked images of the result's shape, at least one, per-channel numbers, and single numbers.
bool reads_blocked_images(const request& r, const layouts& all, const node& n) {
  bool any = false;
  for (auto in : n.inputs) {
    const tensor_type& t = r.of.type(in);
    const bool same = t.dims == n.results[0].dims && all.form[in] == layout::blocked;
    if (!same && !(t.dims.size() == 1 && t.element == dtype::float32) && !reads_channels(r, all, n, in)) return false;
    any = any || same;
  }
  return any;
}

bool is_image(const tensor_type& t) {
  return (t.element == dtype::float32 || t.element == dtype::int8) && t.dims.rank == 4 && t.dims.size() != 0;
}
// Products of int8 ignore the numbers beyond the channels.
bool has_free_padding(const tensor_type& t) { return t.element == dtype::int8; }

}  // namespace

shape with_four_axes(const shape& s) {
  shape all;
  for (int missing = s.rank; missing < 4; ++missing) all.push_back(1);
  for (int i = 0; i < s.rank; ++i) all.push_back(s[i]);
  return all;
}

bool is_for_channels(const tensor_type& t, const tensor_type& image) {
  const shape of = with_four_axes(t.dims), &y = image.dims;
  return t.element == dtype::float32 && of.rank == 4 && y.rank == 4 && of != y && of.size() != 1 && of[1] == y[1] &&
         of[2] == dim(1) && of[3] == dim(1) && (of[0] == y[0] || of[0] == dim(1));
}

std::size_t bytes_of(const request& r, value_id v, layout form) {
  const tensor_type& t = r.of.type(v);
  if (form != layout::blocked) return form == layout::uniform ? size_of(t.element) : t.bytes();
  shape s = with_four_axes(t.dims);
  s[1] = dim((s.at(1) + lanes_of(r) - 1) / lanes_of(r) * lanes_of(r));
  return tensor_type{t.element, s}.bytes();
}

bool is_same_in(const request& r, const tensor_type& t, layout a, layout b) {
  if (a == b) return true;
  const bool in_blocks = (a == layout::plain && b == layout::blocked) || (a == layout::blocked && b == layout::plain);
  const shape s = with_four_axes(t.dims);
  return in_blocks && t.element == dtype::float32 && s.rank == 4 && s.at(2) == 1 && s.at(3) == 1 &&
         s.at(1) % lanes_of(r) == 0;
}

std::optional<float> padding_of(const request& r, const layouts& all, value_id v) {
  if (!has_partial_block(r, r.of.type(v)) || has_free_padding(r.of.type(v))) return 0;
  return all.padding[v];
}

layouts lay_out(const request& r, const usage& u) {
  layouts all{value_table<layout>(u.first_value, layout::plain), value_table<std::optional<float>>(u.first_value)};
  for (auto i : r.of.inputs())
    if (r.of.at(i).uniform) {
      all.form[{i, 0}] = layout::uniform;
      all.any_uniform = true;
    }
  extend_layouts(r, u, all);
  return all;
}

void put_rows_first(const request& r, const usage& u, const grouping& groups, layouts& all) {
  const auto swaps = [&](std::int32_t at) {
    const node& n = r.of.at(at);
    return n.kind == node_kind::operation && n.op->swaps_heads_and_rows &&
           n.op->swaps_heads_and_rows(n.attributes.get()) && !groups.of(at) && u.needed[static_cast<std::size_t>(at)];
  };
  const auto every_reader = [&](value_id v, auto accepts) {
    if (u.root[v] || u.reader_count[v] == 0) return false;
    for (auto c : u.readers_of(v))
      if (!accepts(c)) return false;
    return true;
  };
  // Whether a node reads a value only among the operands that it accepts in this layout.
  const auto takes = [&](std::int32_t at, value_id v) {
    const node& n = r.of.at(at);
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k] == v && static_cast<int>(k) >= n.op->rows_first) return false;
    return true;
  };
  const auto is_plain = [&](value_id v) { return all.form[v] == layout::plain; };
  for (std::size_t i = 0; i < r.of.nodes().size(); ++i) {
    const auto at = static_cast<std::int32_t>(i);
    const node& n = r.of.at(at);
    const value_id v{at, 0};
    if (n.kind != node_kind::operation || !u.needed[i] || !is_plain(v)) continue;
    if (swaps(at) ? is_plain(n.inputs[0]) && every_reader(v, [&](std::int32_t c) { return takes(c, v); })
                  : n.op->rows_first > 0 && every_reader(v, swaps))
      all.form[v] = layout::rows_first;
  }
}

void extend_layouts(const request& r, const usage& u, layouts& all) {
  if (!r.options.blocked_layout || u.gradients) return;
  const auto block = [&](value_id v) {
    all.form[v] = layout::blocked;
    all.any_blocked = true;
  };
  for (std::size_t i = 0; i < r.of.nodes().size(); ++i) {
    const node& n = r.of.nodes()[i];
    if (!u.needed[i] || n.kind != node_kind::operation || !is_image(n.results[0])) continue;
    const value_id v{static_cast<std::int32_t>(i), 0};
    if (n.op->channels && r.of.is_assigned(n.inputs[1].node)) continue;  // its weights are not packed
    if (n.op->images) {
      const auto forms = images_of(r, u, all, v.node);
      if (!forms.result) continue;
      block(v);
      if (n.op->channels || !forms.operand || forms.zero_padding || padding_of(r, all, n.inputs[0]) == 0)
        all.padding[v] = 0;
    } else if (is_elementwise(n) && n.results[0].element == dtype::float32 && reads_blocked_images(r, all, n)) {
      const auto beyond = padding_after(r, all, n);
      if (beyond) all.padding[v] = beyond;
      if (beyond || !has_partial_block(r, n.results[0])) block(v);
    }
  }
}

layout operand_layout(const request& r, const usage& u, const layouts& all, std::int32_t at, std::size_t k) {
  const node& n = r.of.at(at);
  const value_id in = n.inputs[k];
  if (all.form[in] == layout::rows_first) return layout::rows_first;
  if (n.op->layout_free && all.form[in] == layout::uniform) return layout::uniform;
  if (!all.any_blocked || n.results.empty() || all.form[{at, 0}] != layout::blocked) return layout::plain;
  const bool alike = r.of.type(in).dims == n.results[0].dims;
  if (!n.op->images) return alike || reads_channels(r, all, n, in) ? layout::blocked : layout::plain;
  const auto forms = images_of(r, u, all, at);
  if (forms.every_operand) return layout::blocked;
  if (k > 0 && r.of.type(in) != n.results[0]) return layout::plain;
  return (k == 0 ? forms.operand : forms.others) ? layout::blocked : layout::plain;
}

}  // namespace lamina::planning
