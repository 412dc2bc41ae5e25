// Chooses the memory of results. An output is written directly into the caller's memory, an assigned value into its
// state if no item reads the old value afterwards, and an operand of a concatenation into its place in the result. The
// plain form of a blocked output is written into the caller's memory, too. A chain may overwrite an operand that no item
// reads later.
module lamina:plan.place.impl;
import :core;
import :emission;
import :passes;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

namespace {

class placer {
 public:
  placer(const request& r, const usage& u, const layouts& forms, const grouping& groups, const view_table& views,
         const item_order& order)
      : r_(r), p_(r.of), u_(u), forms_(forms), groups_(groups), views_(views), order_(order) {
    made_.homes = value_table<home>(u.first_value);
  }

  placement run() {
    place_outputs();
    if (!p_.assignments().empty()) place_assignments();
    if (r_.options.reuse_memory) {
      taken_ = value_table<char>(u_.first_value);
      write_inside_results();
      write_over_operands();
    }
    return std::move(made_);
  }

 private:
  bool has_own_memory(value_id v) const {
    return p_.at(v).kind == node_kind::operation && !views_[v].of && made_.homes[v].in == home::place::own;
  }
  bool may_leave(value_id v) const { return has_own_memory(v) && forms_.form[v] == layout::plain; }
  const plan_item& item_of(value_id v) const {
    return order_.items[static_cast<std::size_t>(order_.item_of[static_cast<std::size_t>(v.node)])];
  }

  // Bytes of a value as an output.
  std::size_t bytes_in_output(value_id v) const {
    return bytes_of(r_, v, forms_.form[v] == layout::blocked ? layout::plain : forms_.form[v]);
  }
  void place_outputs() {
    made_.output_written.assign(p_.outputs().size(), 0);
    for (std::size_t o = 0; o < p_.outputs().size(); ++o) {
      value_id v = p_.outputs()[o].value;
      while (views_[v].of && forms_.form[v] == layout::plain) {
        const memory_view& seen = views_[v];
        if (seen.offset != 0 || bytes_in_output(seen.of) != bytes_of(r_, v, layout::plain)) break;
        v = seen.of;
      }
      const value_id base = views_[v].base;
      if (forms_.form[v] == layout::blocked && p_.at(base).kind == node_kind::operation && !item_of(base).once) {
        made_.output_written[o] = made_.plain_in.try_emplace(v, static_cast<std::int32_t>(o)).second;
        continue;
      }
      if (!may_leave(v) || item_of(v).once) continue;
      made_.homes[v] = {.in = home::place::output, .index = static_cast<std::int32_t>(o)};
      made_.leaving.push_back(v);
      made_.output_written[o] = v == p_.outputs()[o].value || views_[p_.outputs()[o].value].of;
    }
  }

  // For each state the last item that reads its old value.
  std::vector<std::int32_t> last_readers() const {
    std::vector<std::int32_t> last(p_.nodes().size(), none);
    for (std::size_t i = 0; i < order_.items.size(); ++i)
      each_read(p_, groups_, order_, order_.items[i], [&](value_id v) {
        last[static_cast<std::size_t>(views_[v].base.node)] = static_cast<std::int32_t>(i);
      });
    return last;
  }

  void place_assignments() {
    made_.state_written.assign(p_.assignments().size(), 0);
    const auto last_reader = last_readers();
    std::int32_t last_failure = none;
    for (std::size_t i = 0; i < order_.items.size(); ++i)
      if (order_.items[i].may_fail) last_failure = static_cast<std::int32_t>(i);
    // States that are read after all items, as outputs or copied into other states.
    std::vector<char> read_at_the_end(p_.nodes().size());
    for (const auto& o : p_.outputs()) read_at_the_end[static_cast<std::size_t>(views_[o.value].base.node)] = 1;
    for (const auto& a : p_.assignments()) read_at_the_end[static_cast<std::size_t>(views_[a.value].base.node)] = 1;
    for (std::size_t k = 0; k < p_.assignments().size(); ++k) {
      const auto& a = p_.assignments()[k];
      if (!may_leave(a.value)) continue;
      const auto own_item = order_.item_of[static_cast<std::size_t>(a.value.node)];
      const auto state = static_cast<std::size_t>(a.state);
      // The item overwrites the state: no later item may read the old value, and no run may fail afterwards.
      if (last_failure >= own_item || last_reader[state] > own_item || read_at_the_end[state] ||
          reads_old_value(order_.items[static_cast<std::size_t>(own_item)], a))
        continue;
      made_.homes[a.value] = {.in = home::place::state, .index = index_in(p_.states(), a.state)};
      made_.leaving.push_back(a.value);
      made_.state_written[k] = 1;
      made_.commit_item = std::min(made_.commit_item, own_item);
    }
  }

  // Whether the item that computes a state's new value reads the old one after it was overwritten; in the chain that
  // replaces it, reads up to the step that does so are harmless.
  bool reads_old_value(const plan_item& it, const assignment& a) const {
    const group* g = groups_.of(a.value.node);
    const auto reads = [&](value_id v) { return views_[v].base.node == a.state; };
    for (auto m : order_.nodes(groups_, it)) {
      const node& n = p_.at(m);
      const bool before_write = it.what == plan_item::kind::chain && m <= a.value.node && g->sum != a.value.node;
      const int replaced = a.value.node == m ? n.op->updates : none;
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        const value_id v = n.inputs[k];
        const bool in_step =
            ((before_write && p_.type(v).dims == p_.type(a.value).dims) || static_cast<int>(k) == replaced) &&
            v.node == a.state;
        if (n.reads_data(k) && reads(v) && !in_step) return true;
      }
    }
    bool found = false;
    if (g) each_operand(g->tail, [&](value_id v) { found = found || reads(v); });
    return found;
  }

  // Readers of a value: the item of the highest level, that level, and the highest level of the others.
  struct reader_list {
    std::int32_t item = none, level = none, other_level = none;
    bool viewed = false;
  };
  reader_list readers_of(value_id v) const {
    reader_list all;
    for (auto c : u_.readers_of(v)) {
      const auto i = order_.item_of[static_cast<std::size_t>(c)];
      all.viewed = all.viewed || i == none || views_[{c, 0}].of;
      if (i == none || i == all.item) continue;
      const auto level = order_.items[static_cast<std::size_t>(i)].level;
      if (level > all.level) {
        all.other_level = all.level;
        all.item = i;
        all.level = level;
      } else all.other_level = std::max(all.other_level, level);
    }
    return all;
  }

  // Only operands that are made shortly before the concatenation: its result occupies memory from the first of them on.
  static constexpr std::int32_t max_levels = 8;

  void write_inside_results() {
    std::vector<tensor_type> types;
    for (const plan_item& it : order_.items) {
      if (it.what != plan_item::kind::operation || it.group != none || it.once) continue;
      const value_id whole = it.result;
      const node& n = p_.at(whole.node);
      if (!n.op->operand_place || p_.type(whole).dims.size() == 0 ||
          !(has_own_memory(whole) || made_.homes[whole].in == home::place::output))
        continue;
      types.clear();
      for (auto v : n.inputs) types.push_back(p_.type(v));
      for (std::size_t i = 0; i < n.inputs.size(); ++i)
        if (can_place_inside(it, n.inputs[i]))
          write_inside(whole, n.inputs[i], n.op->operand_place(n.attributes.get(), types, i));
    }
  }
  bool can_place_inside(const plan_item& whole, value_id part) const {
    if (!has_own_memory(part) || u_.root[part] || p_.type(part).dims.size() == 0 || !p_.at(part).subprograms.empty())
      return false;
    const plan_item& it = item_of(part);
    return !it.once && it.late == whole.late && it.level + max_levels >= whole.level;
  }
  void write_inside(value_id whole, value_id part, const axis_view& at) {
    constexpr std::int64_t line = 64;
    const auto offset = offset_inside(r_, forms_, whole, part, at);
    if (!offset || *offset % line != 0) return;
    made_.homes[part] = {.in = home::place::inside, .over = whole, .offset = *offset};
    taken_[whole] = 1;  // nothing overwrites it while its parts are read
  }

  void write_over_operands() {
    readers_ = value_table<reader_list>(u_.first_value);
    known_ = value_table<char>(u_.first_value);
    for (std::size_t i = 0; i < order_.items.size(); ++i) {
      const plan_item& it = order_.items[i];
      if (it.what != plan_item::kind::chain || p_.type(it.result).dims.size() == 0) continue;
      for (auto m : order_.nodes(groups_, it))
        if (made_.homes[{m, 0}].in == home::place::own && !groups_.stays_inside(u_, m) && groups_.of(m)->sum != m)
          write_over_operand(static_cast<std::int32_t>(i), {m, 0});
    }
  }

  // A result may overwrite an operand of the same size and shape that no item reads later.
  void write_over_operand(std::int32_t i, value_id result) {
    const plan_item& it = order_.items[static_cast<std::size_t>(i)];
    for (auto m : order_.nodes(groups_, it))
      for (auto v : p_.at(m).inputs) {
        if (groups_.group_of[static_cast<std::size_t>(v.node)] == it.group || views_[v].of || taken_[v]) continue;
        if (p_.at(v).kind != node_kind::operation || forms_.form[v] != forms_.form[result] ||
            p_.type(v) != p_.type(result) || u_.root[v])
          continue;
        const auto in = made_.homes[v].in;
        if ((in != home::place::own && in != home::place::over) || !is_last_reader(i, v, result.node)) continue;
        taken_[v] = 1;
        made_.homes[result] = {.in = home::place::over, .over = v};
        return;
      }
  }

  // Whether an item, up to its node `until`, is the last to read a value.
  bool is_last_reader(std::int32_t i, value_id v, std::int32_t until) {
    const plan_item& it = order_.items[static_cast<std::size_t>(i)];
    if (item_of(v).once || order_.reordered[v]) return false;
    if (!known_[v]) readers_[v] = readers_of(v);
    known_[v] = 1;
    const reader_list& all = readers_[v];
    if (all.viewed || (all.item == i ? all.other_level : all.level) >= it.level) return false;
    for (auto m : order_.nodes(groups_, it)) {
      const node& n = p_.at(m);
      for (std::size_t k = 0; m > until && k < n.inputs.size(); ++k)
        if (n.inputs[k] == v && n.reads_data(k)) return false;
    }
    return true;
  }

  const request& r_;
  const program& p_;
  const usage& u_;
  const layouts& forms_;
  const grouping& groups_;
  const view_table& views_;
  const item_order& order_;
  placement made_;
  value_table<reader_list> readers_;
  value_table<char> known_, taken_;
};

}  // namespace

placement place(const request& r, const usage& u, const layouts& forms, const grouping& groups, const view_table& views,
                const item_order& order) {
  return placer(r, u, forms, groups, views, order).run();
}

}  // namespace lamina::planning
