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
  for (auto v : n.inputs) in.push_back(r.of.type(v)), in_blocks.push_back(is_in_blocks(all.form[v]));
  bool first_only = true;
  for (std::int32_t k = 1; k < static_cast<std::int32_t>(n.results.size()); ++k)
    first_only = first_only && !u.is_read({at, k});
  return n.op->images(
      {n.attributes.get(), in, n.results, in_blocks[0] != 0, first_only, r.isa, in_blocks, r.options.compute});
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
  const bool rounded = form == layout::rounded;
  if (form != layout::blocked && !rounded) return form == layout::uniform ? size_of(t.element) : t.bytes();
  shape s = with_four_axes(t.dims);
  const std::int64_t together = rounded ? 2 * lanes_of(r) : lanes_of(r);
  s[1] = dim((s.at(1) + together - 1) / together * together);
  if (rounded) return tensor_type{dtype::bfloat16, s}.bytes() + static_cast<std::size_t>(kernels::rounded_slack);
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

namespace {

// Whether a node is a view of its operand with the same heads, rows and columns.
bool keeps_heads(const request& r, const grouping& groups, std::int32_t at) {
  const node& n = r.of.at(at);
  if (n.kind != node_kind::operation || n.op->alias != 0 || n.inputs.size() != 1 || groups.of(at)) return false;
  const shape &from = r.of.type(n.inputs[0]).dims, &to = r.of.type({at, 0}).dims;
  return from.rank >= 3 && to.rank >= 3 &&
         std::equal(from.dims + from.rank - 3, from.dims + from.rank, to.dims + to.rank - 3);
}

}  // namespace

void put_rows_first(const request& r, const usage& u, const grouping& groups, layouts& all) {
  const auto swaps = [&](std::int32_t at, value_id = {}) {
    const node& n = r.of.at(at);
    return n.kind == node_kind::operation && n.op->swaps_heads_and_rows &&
           n.op->swaps_heads_and_rows(n.attributes.get()) && !groups.of(at) && u.needed[static_cast<std::size_t>(at)];
  };
  const auto every_reader = [&](auto& self, value_id v, const auto& accepts) -> bool {
    if (u.root[v] || u.reader_count[v] == 0) return false;
    for (auto c : u.readers_of(v))
      if (!accepts(c, v) && !(keeps_heads(r, groups, c) && self(self, {c, 0}, accepts))) return false;
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
    if (swaps(at)                    ? is_plain(n.inputs[0]) && every_reader(every_reader, v, takes)
        : keeps_heads(r, groups, at) ? all.form[n.inputs[0]] == layout::rows_first
                                     : n.op->rows_first > 0 && every_reader(every_reader, v, swaps))
      all.form[v] = layout::rows_first;
  }
}

namespace {

// Finds images that products store in bfloat16.
class image_rounding {
 public:
  image_rounding(const request& r, const usage& u, const grouping& groups, layouts& all)
      : r_(r), u_(u), groups_(groups), all_(all) {}

  // From the last result to the first: a residual is rounded if the sum is.
  void run() {
    for (auto i = static_cast<std::int32_t>(r_.of.nodes().size()); i-- > 0;) {
      const auto product = product_of(i);
      const value_id v{i, 0};
      if (!u_.needed[static_cast<std::size_t>(i)] || all_.form[v] != layout::blocked || u_.root[v]) continue;
      const bool can_be = product == none ? is_chain_of_images(v)
                                          : result_of(product) == v && can_round(product) && !has_windows(product);
      if (can_be && may_be_rounded(v)) all_.form[v] = layout::rounded;
    }
  }

 private:
  // The product, not a chain, that runs a node alone or with others.
  std::int32_t product_of(std::int32_t at) const {
    const group* g = groups_.of(at);
    return !g ? at : g->chain ? none : g->nodes[0];
  }
  value_id result_of(std::int32_t product) const {
    const group* g = groups_.of(product);
    return g ? g->result : value_id{product, 0};
  }
  bool has_windows(std::int32_t product) const { return groups_.of(product) && groups_.of(product)->tail.windows; }
  // Whether a value is the only result of a chain over whole images.
  bool is_chain_of_images(value_id v) const {
    const group& g = *groups_.of(v.node);
    const tensor_type& t = r_.of.type(v);
    return g.result == v && g.sum == none && t.element == dtype::float32 && t.dims.rank == 4 &&
           padding_of(r_, all_, v) == 0 && std::all_of(g.nodes.begin(), g.nodes.end(), [&](std::int32_t n) {
             return n == v.node || groups_.stays_inside(u_, n);
           });
  }
  // Whether a product reads and writes such images.
  bool can_round(std::int32_t product) const {
    const node& n = r_.of.at(product);
    return n.kind == node_kind::operation && n.op->images && n.op->channels && is_in_blocks(all_.form[{product, 0}]) &&
           images_of(r_, u_, all_, product).rounded;
  }
  // Whether all readers can, and one rounds the value anyway: multiplies it, or adds it to a sum that is rounded.
  bool may_be_rounded(value_id v) const {
    bool rounded = false;
    for (auto reader : u_.readers_of(v)) {
      const auto by = product_of(reader);
      const auto& in = r_.of.at(reader).inputs;
      if (by == none || std::count(in.begin(), in.end(), v) != 1 || !can_round(by)) return false;
      const bool multiplies = by == reader && in[0] == v;
      if (!multiplies && (by == reader || groups_.of(by)->tail.residual != v)) return false;
      rounded = rounded || multiplies || all_.form[result_of(by)] == layout::rounded;
    }
    return rounded;
  }

  const request& r_;
  const usage& u_;
  const grouping& groups_;
  layouts& all_;
};

}  // namespace

void round_images(const request& r, const usage& u, const grouping& groups, layouts& all) {
  if (all.any_blocked && !u.gradients) image_rounding(r, u, groups, all).run();
}

layout residual_layout(const layouts& all, const group& g) {
  const layout stored = all.form[g.tail.residual], made = all.form[g.result];
  if (stored == layout::rounded) return stored;
  return made == layout::rounded ? layout::blocked : made;
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
  if (all.form[in] == layout::rows_first || all.form[in] == layout::rounded) return all.form[in];
  if (n.op->layout_free && all.form[in] == layout::uniform) return layout::uniform;
  if (!all.any_blocked || n.results.empty()) return layout::plain;
  if (!is_in_blocks(all.form[{at, 0}])) return layout::plain;
  const bool alike = r.of.type(in).dims == n.results[0].dims;
  if (!n.op->images) return alike || reads_channels(r, all, n, in) ? layout::blocked : layout::plain;
  const auto forms = images_of(r, u, all, at);
  if (forms.every_operand) return layout::blocked;
  if (k > 0 && r.of.type(in) != n.results[0]) return layout::plain;
  return (k == 0 ? forms.operand : forms.others) ? layout::blocked : layout::plain;
}

}  // namespace lamina::planning
