// Finds results that alias others, and the order of items.
module;
#include "../kernels/families.h"
module lamina:plan.schedule.impl;
import :core;
import :emission;
import :op.control;
import :passes;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

namespace {

// Whether only chains read a value, in the plain layout, which can take its elements from any strides.
bool is_read_by_chains(const usage& u, const layouts& forms, const grouping& groups, value_id v) {
  if (u.root[v] || forms.form[v] != layout::plain) return false;
  const auto readers = u.readers_of(v);
  return std::all_of(readers.begin(), readers.end(), [&](std::int32_t n) {
    const group* g = groups.of(n);
    return g && g->chain && g->sum == none && forms.form[g->result] == layout::plain;
  });
}
// Part of an axis that is not contiguous, but whose pieces a chain reads as fast as a copy of them.
memory_view pieces_of(const request& r, const usage& u, const layouts& forms, const grouping& groups,
                      const view_table& views, value_id v, const axis_view& at) {
  constexpr std::int64_t min_piece = 256, block = 64;  // elements
  const value_id whole = r.of.at(v).inputs[0];
  const tensor_type& t = r.of.type(whole);
  const std::int64_t inner = t.dims.size(at.axis + 1, t.dims.rank), piece = at.count * inner;
  if (t.dims.rank != r.of.type(v).dims.rank || forms.form[whole] != layout::plain || views[whole].in_pieces ||
      (piece < min_piece && (piece < block || piece % block != 0)) || !is_read_by_chains(u, forms, groups, v))
    return {};
  return {.of = whole, .offset = at.first * inner * static_cast<std::int64_t>(size_of(t.element)), .in_pieces = true};
}

// Whether operations that take rows first read all of a value, in rows of `piece` elements: heads that are swapped with
// rows.
bool is_read_by_rows(const request& r, const usage& u, const layouts& forms, const grouping& groups, value_id v,
                     std::int64_t piece) {
  if (u.root[v] || forms.form[v] != layout::plain) return false;
  const auto readers = u.readers_of(v);
  return !readers.empty() && std::all_of(readers.begin(), readers.end(), [&](std::int32_t at) {
    const node& n = r.of.at(at);
    if (n.kind != node_kind::operation || groups.of(at)) return false;
    if (n.op->alias == 0 && n.inputs.size() == 1) return is_read_by_rows(r, u, forms, groups, {at, 0}, piece);
    const shape& s = r.of.type(v).dims;
    return n.op->swaps_heads_and_rows && forms.form[{at, 0}] == layout::rows_first && s.rank >= 3 &&
           s.size(s.rank - 2, s.rank) == piece;
  });
}
// Part of an axis that is not contiguous, but whose pieces are rows of heads, such as the queries in a product that also
// gives keys and values.
memory_view rows_of(const request& r, const usage& u, const layouts& forms, const grouping& groups,
                    const view_table& views, value_id v, const axis_view& at) {
  const value_id whole = r.of.at(v).inputs[0];
  const tensor_type& t = r.of.type(whole);
  const std::int64_t inner = t.dims.size(at.axis + 1, t.dims.rank);
  const memory_view& seen = views[whole];
  if (forms.form[whole] != layout::plain || seen.in_pieces || seen.pitch != 0 ||
      !is_read_by_rows(r, u, forms, groups, v, at.count * inner))
    return {};
  return {.of = whole,
          .offset = at.first * inner * static_cast<std::int64_t>(size_of(t.element)),
          .pitch = t.dims.at(at.axis) * inner};
}

memory_view view_of(const request& r, const usage& u, const layouts& forms, const grouping& groups,
                    const view_table& views, value_id v) {
  const program& p = r.of;
  const node& n = p.at(v);
  if (n.op->alias >= 0) {
    const value_id of = n.inputs[static_cast<std::size_t>(n.op->alias)];
    return forms.form[of] == layout::uniform ? memory_view{} : memory_view{.of = of};
  }
  const auto has_rows_first = [&](value_id x) { return forms.form[x] == layout::rows_first; };
  if (n.op->swaps_heads_and_rows && has_rows_first(v) != has_rows_first(n.inputs[0])) return {.of = n.inputs[0]};
  if (!n.op->part_of) return {};
  const auto at = n.op->part_of(n.attributes.get(), p.type(n.inputs[0]).dims);
  if (!at) return {};
  if (const auto offset = offset_inside(r, forms, n.inputs[0], v, *at)) return {.of = n.inputs[0], .offset = *offset};
  if (const auto rows = rows_of(r, u, forms, groups, views, v, *at); rows.of) return rows;
  return pieces_of(r, u, forms, groups, views, v, *at);
}

}  // namespace

std::optional<std::int64_t> offset_inside(const request& r, const layouts& forms, value_id whole, value_id part,
                                          const axis_view& at) {
  const tensor_type& t = r.of.type(whole);
  const shape& dims = t.dims;
  const layout form = forms.form[whole];
  if (form != forms.form[part] || (form != layout::plain && form != layout::blocked) || dims.size(0, at.axis) != 1 ||
      at.count * dims.size(at.axis + 1, dims.rank) != r.of.type(part).dims.size())
    return {};
  // Whole blocks of one image's channels are contiguous; beyond the last channel both values have zeros.
  const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(r.isa));
  const bool whole_blocks =
      at.axis == 1 && at.first % lanes == 0 &&
      (at.count % lanes == 0 ||
       (at.first + at.count == dims.at(1) && padding_of(r, forms, whole) == 0 && padding_of(r, forms, part) == 0));
  if (form == layout::blocked && !whole_blocks) return {};
  return at.first * dims.size(at.axis + 1, dims.rank) * static_cast<std::int64_t>(size_of(t.element));
}

view_table find_views(const request& r, const usage& u, const layouts& forms, const grouping& groups) {
  view_table views(u.first_value);
  for (std::size_t i = 0; i < r.of.nodes().size(); ++i) {
    const node& n = r.of.nodes()[i];
    const auto at = static_cast<std::int32_t>(i);
    memory_view seen;
    if (n.kind == node_kind::operation && u.needed[i] && !groups.of(at))
      seen = view_of(r, u, forms, groups, views, {at, 0});
    value_id v{at, 0};
    do {
      views[v] = seen;
      views[v].base = seen.of ? views[seen.of].base : v;
    } while (++v.result < static_cast<std::int32_t>(n.results.size()));
  }
  return views;
}

namespace {

// Records the item that runs each node.
void number_items(const grouping& groups, item_order& order) {
  for (std::size_t i = 0; i < order.items.size(); ++i)
    for (auto m : order.nodes(groups, order.items[i]))
      order.item_of[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(i);
}

// Orders items by dependency: each comes after its operands.
class scheduler {
 public:
  scheduler(const request& r, const usage& u, const layouts& forms, const grouping& groups, const view_table& views)
      : r_(r), p_(r.of), u_(u), forms_(forms), groups_(groups), views_(views) {
    made_.item_of.assign(p_.nodes().size(), none);
    made_.reordered = value_table<std::uint8_t>(u.first_value);
  }

  item_order run() {
    std::vector<std::int32_t> late;
    std::vector<char> is_late(p_.nodes().size());
    for (const auto& a : p_.assignments()) {
      late.push_back(a.value.node);
      is_late[static_cast<std::size_t>(a.value.node)] = 1;
    }
    for (const auto& o : p_.outputs()) visit(o.value.node);
    // All values that assigned values need come before the first of them: assignments run last. They follow program
    // order, in which gradients of weights appear as the reverse pass reaches them, so their operands need not be kept
    // for later ones.
    std::set<std::int32_t> needed;
    for (auto n : late)
      each_dependency(n, [&](value_id d) {
        if (!is_late[static_cast<std::size_t>(d.node)]) needed.insert(d.node);
      });
    for (auto n : needed) visit(n);
    late_ = true;
    for (auto n : late) visit(n);
    put_once_first();
    for (std::size_t i = 0; i < made_.items.size(); ++i)
      made_.items[i].order = made_.items[i].level = static_cast<std::int32_t>(i);
    number_items(groups_, made_);
    return std::move(made_);
  }

 private:
  static constexpr std::size_t max_once_bytes = 64 * 1024;  // of a result, of which every executor keeps a copy

  // Values that the item of a node reads from other items.
  template <class F> void each_dependency(std::int32_t n, F f) const {
    if (p_.at(n).kind != node_kind::operation) return;
    const auto take = [&](std::int32_t member, auto is_needed) {
      const node& m = p_.at(member);
      for (std::size_t k = 0; k < m.inputs.size(); ++k)
        if (m.reads_data(k) && is_needed(m.inputs[k])) f(m.inputs[k]);
    };
    const auto all = [](value_id) { return true; };
    const group* g = groups_.of(n);
    if (!g) take(n, all);
    else if (g->chain) {
      const auto own_group = groups_.group_of[static_cast<std::size_t>(n)];
      for (auto m : g->nodes)
        take(m, [&](value_id v) { return groups_.group_of[static_cast<std::size_t>(v.node)] != own_group; });
    } else {
      take(g->nodes[0], all);
      each_operand(g->tail, f);
    }
  }

  bool is_open(std::int32_t n) const {
    return p_.at(n).kind == node_kind::operation && made_.item_of[static_cast<std::size_t>(n)] == none;
  }

  void visit(std::int32_t root) {
    stack_.push_back(root);
    while (!stack_.empty()) {
      const auto n = stack_.back();
      const auto size = stack_.size();
      if (is_open(n))
        each_dependency(n, [&](value_id d) {
          if (is_open(d.node)) stack_.push_back(d.node);
        });
      if (stack_.size() > size) continue;
      stack_.pop_back();
      if (is_open(n)) append(n);
    }
  }

  void append(std::int32_t n) {
    plan_item it{.late = late_, .group = groups_.group_of[static_cast<std::size_t>(n)], .result = {n, 0}};
    if (const group* g = groups_.of(n)) {
      if (g->chain) it.what = plan_item::kind::chain;
      it.result = g->result;
    }
    if (forms_.any_blocked || forms_.any_uniform) reorder_operands(it);
    for (auto m : made_.nodes(groups_, it)) {
      it.may_fail = it.may_fail || p_.may_fail(p_.at(m));
      made_.item_of[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(made_.items.size());
    }
    made_.items.push_back(it);
  }

  void reorder_operands(const plan_item& it) {
    const group* g = it.group == none ? nullptr : &groups_.groups[static_cast<std::size_t>(it.group)];
    const auto nodes = made_.nodes(groups_, it);
    for (auto m : g && !g->chain ? nodes.subview(0, 1) : nodes) {
      const node& n = p_.at(m);
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (n.reads_data(k)) reorder(n.inputs[k], operand_layout(r_, u_, forms_, m, k));
    }
    if (!g) return;
    for (const value_id v : {g->tail.bias, g->tail.windows_bias})
      if (v) reorder(v, layout::plain);
    if (g->tail.residual) reorder(g->tail.residual, residual_layout(forms_, *g));
    for (auto v : g->tail.windows_operands()) reorder(v, layout::plain);
  }

  void reorder(value_id v, layout to) {
    if (is_same_in(r_, p_.type(v), forms_.form[v], to) || made_.is_reordered(v, to)) return;
    if (forms_.form[v] == layout::blocked && to == layout::uniform) return;
    made_.reordered[v] |= static_cast<std::uint8_t>(1u << static_cast<int>(to));
    made_.items.push_back({.what = plan_item::kind::reorder, .to = to, .late = late_, .result = v});
  }

  // Items that depend on states alone come first: they run when states change, not in every run.
  void put_once_first() {
    bool any = false;
    for (auto& it : made_.items) any = (it.once = runs_once(it)) || any;
    if (any) detail::sort_stably<plan_item>(made_.items, [](const auto& a, const auto& b) { return a.once > b.once; });
  }

  bool runs_once(const plan_item& it) const {
    if (it.what != plan_item::kind::chain || r_.first_invariant) return false;
    bool reads_states = false;
    for (auto m : made_.nodes(groups_, it)) {
      const node& n = p_.at(m);
      const value_id made{m, 0};
      if (!u_.parameter_only[static_cast<std::size_t>(m)] || u_.root[made] || forms_.form[made] != layout::plain ||
          bytes_of(r_, made, layout::plain) > max_once_bytes)
        return false;
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        if (!n.reads_data(k)) continue;
        const value_id base = views_[n.inputs[k]].base;
        const node& from = p_.at(base);
        if (forms_.form[base] == layout::blocked) return false;
        const bool inside = groups_.group_of[static_cast<std::size_t>(base.node)] == it.group;
        if (from.kind == node_kind::constant || inside) continue;
        if (from.kind == node_kind::operation &&
            !made_.items[static_cast<std::size_t>(made_.item_of[static_cast<std::size_t>(base.node)])].once)
          return false;
        reads_states = true;
      }
    }
    return reads_states;
  }

  const request& r_;
  const program& p_;
  const usage& u_;
  const layouts& forms_;
  const grouping& groups_;
  const view_table& views_;
  item_order made_;
  std::vector<std::int32_t> stack_;
  bool late_ = false;
};

// Puts independent items into one level. An item runs as soon as its operands are available; one without operands from
// other items runs just before the first that needs it. Items for assigned values alone come last. A state is written
// after all items that read it, and after all that may fail.
class leveler {
 public:
  leveler(const request& r, const grouping& groups, const view_table& views, item_order& order)
      : p_(r.of), groups_(groups), views_(views), order_(order), items_(order.items), assigned_by_(items_.size()) {
    for (const auto& a : p_.assignments())
      if (const auto i = order.item_of[static_cast<std::size_t>(a.value.node)]; i != none)
        assigned_by_[static_cast<std::size_t>(i)].push_back(a.state);
    find_needs();
  }

  void run() {
    as_soon_as_possible();
    as_late_as_needed();
    detail::sort_stably<plan_item>(items_, [](const auto& a, const auto& b) { return a.level < b.level; });
  }

 private:
  view<const std::int32_t> needs(std::size_t i) const {
    const auto first = static_cast<std::size_t>(first_need_[i]);
    return {needs_.data() + first, static_cast<std::size_t>(first_need_[i + 1]) - first};
  }

  void find_needs() {
    std::map<value_id, std::vector<std::int32_t>> reorders;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const plan_item& it = items_[i];
      first_need_.push_back(static_cast<std::int32_t>(needs_.size()));
      takes_time_.push_back(it.what != plan_item::kind::operation || !views_[{order_.nodes(groups_, it)[0], 0}].of);
      each_read(p_, groups_, order_, it, [&](value_id v) {
        const auto from = order_.item_of[static_cast<std::size_t>(v.node)];
        if (from != none && from != static_cast<std::int32_t>(i)) needs_.push_back(from);
        if (order_.reordered[v])
          if (auto c = reorders.find(v); c != reorders.end())
            needs_.insert(needs_.end(), c->second.begin(), c->second.end());
      });
      if (it.what == plan_item::kind::reorder) reorders[it.result].push_back(static_cast<std::int32_t>(i));
    }
    first_need_.push_back(static_cast<std::int32_t>(needs_.size()));
  }

  void as_soon_as_possible() {
    std::vector<std::int32_t> last_reader(p_.nodes().size(), none);  // level of the last reader, by state
    std::int32_t begin = 0, last = -1, last_failure = -1;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      plan_item& it = items_[i];
      if (it.once || (i > 0 && (items_[i - 1].once || it.late != items_[i - 1].late))) begin = last + 1;
      it.level = begin;
      for (auto d : needs(i)) it.level = std::max(it.level, items_[static_cast<std::size_t>(d)].level + takes_time_[i]);
      for (auto s : assigned_by_[i])
        it.level = std::max({it.level, last_failure + 1, last_reader[static_cast<std::size_t>(s)] + 1});
      each_read(p_, groups_, order_, it, [&](value_id v) {
        auto& level = last_reader[static_cast<std::size_t>(views_[v].base.node)];
        level = std::max(level, it.level);
      });
      if (it.may_fail) last_failure = std::max(last_failure, it.level);
      last = std::max(last, it.level);
    }
  }

  bool reads_assigned_state(const plan_item& it) const {
    bool any = false;
    each_read(p_, groups_, order_, it, [&](value_id v) { any = any || p_.is_assigned(views_[v].base.node); });
    return any;
  }

  void as_late_as_needed() {
    std::vector<std::int32_t> first_use(items_.size(), never);
    for (auto i = items_.size(); i-- > 0;) {
      plan_item& it = items_[i];
      const bool free = !it.once && !it.late && !reads_assigned_state(it);
      const bool source = free && needs(i).empty() && takes_time_[i] && !it.may_fail && assigned_by_[i].empty();
      if ((source || (free && !takes_time_[i])) && first_use[i] != never)
        it.level = std::max(it.level, first_use[i] - 1);
      for (auto d : needs(i)) {
        auto& use = first_use[static_cast<std::size_t>(d)];
        use = std::min(use, it.level + 1 - takes_time_[i]);
      }
    }
  }

  const program& p_;
  const grouping& groups_;
  const view_table& views_;
  item_order& order_;
  std::vector<plan_item>& items_;
  std::vector<std::vector<std::int32_t>> assigned_by_;  // states, by item
  std::vector<std::int32_t> needs_, first_need_;        // operands' items, by item
  std::vector<char> takes_time_;                        // false for a view of another result
};

// Whether two loops do not depend on each other: then both come after equally many loops.
bool has_independent_loops(const program& p) {
  std::vector<std::size_t> before, of_loops;  // loops on the longest path to a node; the same of loops
  for (const node& n : p.nodes()) {
    std::size_t depth = 0;
    for (auto v : n.inputs) depth = std::max(depth, before[static_cast<std::size_t>(v.node)]);
    const bool loops = is_call_of<op::scan>(n);
    before.push_back(depth + loops);
    if (!loops) continue;
    if (std::find(of_loops.begin(), of_loops.end(), depth) != of_loops.end()) return true;
    of_loops.push_back(depth);
  }
  return false;
}
// Whether independent items share a level: on request, or for loops, each of which then runs on one thread.
bool shares_levels(const request& r) {
  if (r.first_invariant) return false;
  return r.options.parallel ||
         (r.options.parallel_loops && !r.options.compact && r.of.assignments().empty() && has_independent_loops(r.of));
}

}  // namespace

item_order schedule(const request& r, const usage& u, const layouts& forms, const grouping& groups,
                    const view_table& views) {
  scheduler s(r, u, forms, groups, views);
  item_order order = s.run();
  if (!shares_levels(r)) return order;
  leveler(r, groups, views, order).run();
  number_items(groups, order);
  return order;
}

}  // namespace lamina::planning
