// Like operations of one level as one: samples that are evaluated side by side, each by operations of its own, become rows
// of one operation. Only operations whose rows do not see each other are merged, so the bits stay.
module lamina:optimize.merge.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.normalise;
import :op.reduce;
import :op.shape;
import :optimize;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

class merger {
 public:
  merger(const program& from, std::int64_t& merged) : from_(from), merged_(merged) { to_.joins = from.joins; }

  program run() {
    auto needed = from_.reachable();
    const auto count = from_.nodes().size();
    made_.resize(count);
    std::vector<std::int32_t> level(count);
    std::vector<std::vector<std::int32_t>> levels;
    for (std::size_t i = 0; i < count; ++i) {
      const node& n = from_.nodes()[i];
      if (n.kind == node_kind::input) made_[i] = {to_.input(n.name, n.results[0], n.uniform)};
      else if (!needed[i]) continue;
      else if (n.kind == node_kind::state) made_[i] = {to_.state(n.name, n.results[0])};
      else if (n.kind == node_kind::constant) made_[i] = {to_.constant(n.constant)};
      else {
        for (auto v : n.inputs) level[i] = std::max(level[i], level[static_cast<std::size_t>(v.node)] + 1);
        if (levels.size() <= static_cast<std::size_t>(level[i])) levels.resize(static_cast<std::size_t>(level[i]) + 1);
        levels[static_cast<std::size_t>(level[i])].push_back(static_cast<std::int32_t>(i));
      }
    }
    for (const auto& nodes : levels) take(nodes);
    to_.path = from_.path;
    for (const auto& o : from_.outputs()) to_.output(o.name, at(o.value));
    for (const auto& a : from_.assignments()) to_.assign(at({a.state, 0}), at(a.value));
    return std::move(to_);
  }

 private:
  // Rows [first, first + rows) of a value that holds those of all samples.
  struct part { value of; std::int64_t first = 0, rows = 0; };
  // What the operands of merged calls are: one for all; or one each, which are put below or beside each other.
  enum class slot : char { same, rows, columns };

  // Which of its operands are put together, if rows of a call do not see each other; nothing otherwise.
  std::vector<slot> slots_of(const node& n) const {
    std::vector<slot> s(n.inputs.size(), slot::rows);
    const auto none = std::vector<slot>();
    if (!n.op->pure || n.op->may_fail || !n.subprograms.empty() || n.results.empty()) return none;
    for (const auto& r : n.results)
      if (r.dims.rank == 0 || r.dims.size() == 0) return none;
    const shape& out = n.results[0].dims;
    auto operand = [&](std::size_t k) -> const shape& { return from_.type(n.inputs[k]).dims; };
    auto when = [&](bool apart) { return apart ? s : none; };
    auto below_first = [&](std::int64_t axis) { return operand(0).rank >= 2 && detail::normal_axis(axis, operand(0).rank) > 0; };
    const std::string_view name = n.op->name;
    if (n.op->map || name == "cast") {
      for (std::size_t k = 0; k < s.size(); ++k)
        if (operand(k) != out) {
          s[k] = slot::same;
          if (operand(k).rank == out.rank && operand(k).at(0) != 1) return none;
        }
      return s;
    }
    if (name == "matmul") {
      const bool across = attributes_of<matmul_attributes>(n).transpose_a;
      const shape &a = operand(0), &b = operand(1);
      if (a.rank < out.rank || (out.rank > 2 && a.at(0) != out.at(0))) return none;
      if (b.rank == 2) s[1] = slot::same;
      else if (b.rank < out.rank || b.at(0) != out.at(0)) return none;
      if (out.rank == 2 && across) s[0] = slot::columns;
      return s;
    }
    if (name == "conv2d" || name == "conv_transpose2d") {
      s[1] = slot::same;
      return s;
    }
    if (name == "softmax" || name == "log_softmax") return when(below_first(attributes_of<softmax_attributes>(n).axis));
    if (name == "slice") return when(below_first(attributes_of<slice_attributes>(n).axis));
    if (name == "concat") return when(below_first(attributes_of<axis_attributes>(n).axis));
    if (name == "permute") return when(attributes_of<permute_attributes>(n).order[0] == 0);
    if (name == "flatten") return when(below_first(attributes_of<flatten_attributes>(n).from));
    if (name == "reshape") return when(operand(0).rank > 0 && operand(0).at(0) == out.at(0));
    if (name.starts_with("reduce_")) {
      const auto& axes = attributes_of<reduce_attributes>(n).axes;
      bool apart = axes.count > 0;
      for (int i = 0; i < axes.count; ++i) apart = apart && below_first(axes[i]);
      return when(apart);
    }
    if (name == "layer_norm" || name == "rms_norm") {
      for (std::size_t k = 1; k < s.size(); ++k) s[k] = slot::same;
      return when(attributes_of<normalise_attributes>(n).axes < out.rank);
    }
    return when(name == "max_pool2d" || name == "avg_pool2d" || name == "lstm_gates" || name == "gru_gates");
  }
  template <class A>
  static const A& attributes_of(const node& n) { return *static_cast<const A*>(n.attributes.get()); }

  bool alike(const node& a, const node& b, const std::vector<slot>& s) const {
    if (a.op != b.op || a.results != b.results || !a.op->equal(a.attributes.get(), b.attributes.get())) return false;
    for (std::size_t k = 0; k < s.size(); ++k)
      if (s[k] == slot::same ? a.inputs[k] != b.inputs[k] : from_.type(a.inputs[k]) != from_.type(b.inputs[k])) return false;
    return true;
  }

  void take(const std::vector<std::int32_t>& nodes) {
    struct group { std::vector<slot> slots; std::vector<std::int32_t> nodes; };
    std::vector<group> groups;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_key;
    for (auto i : nodes) {
      const node& n = from_.at(i);
      auto s = slots_of(n);
      if (s.empty()) {
        copy(i);
        continue;
      }
      std::uint64_t key = std::hash<const void*>()(n.op) * 31 + n.op->hash(n.attributes.get());
      for (std::size_t k = 0; k < s.size(); ++k)
        if (s[k] == slot::same) key = key * 1000003 + static_cast<std::uint64_t>(n.inputs[k].node);
      bool found = false;
      for (auto g : by_key[key])
        if (s == groups[g].slots && alike(from_.at(groups[g].nodes[0]), n, s)) {
          groups[g].nodes.push_back(i);
          found = true;
          break;
        }
      if (found) continue;
      by_key[key].push_back(groups.size());
      groups.push_back({std::move(s), {i}});
    }
    for (const auto& g : groups) {
      if (g.nodes.size() > 1 && worthwhile(g.nodes, g.slots)) merge(g.nodes, g.slots);
      else
        for (auto i : g.nodes) copy(i);
    }
  }

  // Rows that lie in one value need no copy. A product or convolution that shares its weights gains more than a copy of
  // its rows costs; others only if nothing or less than half of their operands is copied.
  bool worthwhile(const std::vector<std::int32_t>& nodes, const std::vector<slot>& slots) const {
    int together = 0, apart = 0;
    for (std::size_t k = 0; k < slots.size(); ++k)
      if (slots[k] != slot::same) (slots[k] == slot::rows && rows_of(nodes, k) ? together : apart) += 1;
    const std::string_view name = from_.at(nodes[0]).op->name;
    const bool heavy = name == "matmul" || name == "conv2d" || name == "conv_transpose2d";
    return (heavy && slots[1] == slot::same) || (together > 0 && apart <= together);
  }
  // The value in which operand k of the calls stands row by row, and from where on.
  std::optional<part> rows_of(const std::vector<std::int32_t>& nodes, std::size_t k) const {
    std::optional<part> all;
    for (auto i : nodes) {
      auto p = parts_.find(from_.at(i).inputs[k]);
      if (p == parts_.end()) return {};
      if (!all) all = p->second;
      else if (!p->second.of.same(all->of) || p->second.first != all->first + all->rows) return {};
      else all->rows += p->second.rows;
    }
    return all;
  }

  void merge(const std::vector<std::int32_t>& nodes, const std::vector<slot>& slots) {
    const node& first = from_.at(nodes[0]);
    std::vector<value> in;
    for (std::size_t k = 0; k < slots.size(); ++k) {
      if (slots[k] == slot::same) in.push_back(at(first.inputs[k]));
      else if (auto rows = slots[k] == slot::rows ? rows_of(nodes, k) : std::nullopt) {
        bool whole = rows->first == 0 && rows->rows == rows->of.shape().at(0);
        in.push_back(whole ? rows->of : value(slice(rows->of, {.start = rows->first, .stop = rows->first + rows->rows})));
      } else {
        std::vector<value> all;
        for (auto i : nodes) all.push_back(at(from_.at(i).inputs[k]));
        in.push_back(apply_all<op::concat>(axis_attributes{slots[k] == slot::rows ? 0 : 1}, all));
      }
    }
    to_.path = first.path;
    const value_id id = first.op->name == "reshape" ? with_rows_of(in[0], first.results[0].dims) : to_.add(*first.op, first.attributes, in);
    for (std::size_t s = 0; s < nodes.size(); ++s)
      for (std::size_t r = 0; r < first.results.size(); ++r) {
        auto rows = first.results[r].dims.at(0);
        parts_[{nodes[s], static_cast<std::int32_t>(r)}] = {value(&to_, {id.node, static_cast<std::int32_t>(r)}), static_cast<std::int64_t>(s) * rows, rows};
      }
    merged_ += static_cast<std::int64_t>(nodes.size()) - 1;
  }

  static value_id with_rows_of(const value& x, shape to) {
    to[0] = x.shape()[0];
    return value(reshape(x, to)).id();
  }

  void copy(std::int32_t i) {
    const node& n = from_.at(i);
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(at(v));
    to_.path = n.path;
    value_id id = to_.add(*n.op, n.attributes, in, n.subprograms);
    for (std::size_t r = 0; r < n.results.size(); ++r) made_[static_cast<std::size_t>(i)].emplace_back(&to_, value_id{id.node, static_cast<std::int32_t>(r)});
  }
  // A value of one sample, cut out where it is asked for.
  value at(value_id v) {
    auto p = parts_.find(v);
    if (p == parts_.end()) return made_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)];
    return slice(p->second.of, {.start = p->second.first, .stop = p->second.first + p->second.rows});
  }

  const program& from_;
  std::int64_t& merged_;
  program to_;
  std::vector<std::vector<value>> made_;
  std::map<value_id, part> parts_;
};

}  // namespace

program merged(const program& p, pass_counters& counters) { return merger(p, counters.merged).run(); }

}  // namespace lamina
