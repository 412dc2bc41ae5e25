// Like operations of one level as one: samples that are evaluated side by side, each by operations of its own, become rows
// of one operation, or columns of sequences. Only operations whose samples do not see each other are merged, so the bits stay.
module lamina:optimize.merge.impl;
import :core;
import :dtype;
import :op;
import :op.control;
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
  // Positions [first, first + count) along an axis of a value that holds those of all samples.
  struct part { value of; int axis = 0; std::int64_t first = 0, count = 0; };
  static constexpr int same = -1, either = -2;
  // Along which axes operands of merged calls are put together and their results stand; `same`: one for all; `either`: one for
  // all or one for each, which has one position there as the result has.
  struct joint {
    std::vector<int> in, out;
    bool operator==(const joint&) const = default;
  };

  // How calls are merged along an axis of theirs, if positions of it do not see each other.
  static std::optional<joint> along(int axis, const program& p, const node& n) {
    joint j{std::vector<int>(n.inputs.size(), axis), std::vector<int>(n.results.size(), axis)};
    const std::optional<joint> none;
    if (!n.op->pure || n.op->may_fail || !n.subprograms.empty() || n.results.empty()) return none;
    for (const auto& r : n.results)
      if (r.dims.rank <= axis || r.dims.size() == 0) return none;
    const shape& out = n.results[0].dims;
    auto operand = [&](std::size_t k) -> const shape& { return p.type(n.inputs[k]).dims; };
    auto when = [&](bool apart) { return apart ? j : none; };
    auto below = [&](std::int64_t other) { return operand(0).rank > axis + 1 && detail::normal_axis(other, operand(0).rank) > axis; };
    const std::string_view name = n.op->library ? n.op->name : std::string_view();
    if (n.op->map || name == "cast") {
      for (std::size_t k = 0; k < j.in.size(); ++k)
        if (operand(k) != out) {
          const int at = operand(k).rank - out.rank + axis;
          const bool one = at < 0 || operand(k).at(at) == 1, matches = at == axis && operand(k).at(at) == out.at(axis);
          if (!one && !matches) return none;
          j.in[k] = !matches ? same : one ? either : axis;
        }
      return j;
    }
    if (name == "matmul") {
      const bool across = attributes_of<matmul_attributes>(n).transpose_a;
      const shape &a = operand(0), &b = operand(1);
      if (a.rank < out.rank || (out.rank > 2 && a.at(axis) != out.at(axis))) return none;
      if (axis > 0 && (across || b.rank > 2 || out.rank <= axis + 1)) return none;
      if (b.rank == 2) j.in[1] = same;
      else if (b.rank < out.rank || b.at(0) != out.at(0)) return none;
      if (out.rank == 2 && across) {
        if (out.at(1) == 1) return none;       // a single column is summed in another order where it lies in one piece
        j.in[0] = 1;
      }
      return j;
    }
    if (name == "softmax" || name == "log_softmax") return when(below(attributes_of<softmax_attributes>(n).axis));
    if (name == "slice") return when(below(attributes_of<slice_attributes>(n).axis));
    if (name == "concat") return when(below(attributes_of<axis_attributes>(n).axis));
    if (name == "layer_norm" || name == "rms_norm") {
      for (std::size_t k = 1; k < j.in.size(); ++k) j.in[k] = same;
      return when(attributes_of<normalise_attributes>(n).axes < out.rank - axis);
    }
    if (axis > 0) return none;
    if (name == "conv2d" || name == "conv_transpose2d") {
      j.in[1] = same;
      return j;
    }
    if (name == "permute") return when(attributes_of<permute_attributes>(n).order[0] == 0);
    if (name == "flatten") return when(below(attributes_of<flatten_attributes>(n).from));
    if (name == "reshape") return when(operand(0).rank > 0 && operand(0).at(0) == out.at(0));
    if (name.starts_with("reduce_")) {
      const auto& axes = attributes_of<reduce_attributes>(n).axes;
      bool apart = axes.count > 0;
      for (int i = 0; i < axes.count; ++i) apart = apart && below(axes[i]);
      return when(apart);
    }
    return when(name == "max_pool2d" || name == "avg_pool2d" || name == "lstm_gates" || name == "gru_gates");
  }
  // Scans of one turn: rows of the carries, columns of the sequences and rows of the invariants that are not the same ones are
  // samples, if a turn keeps them apart.
  std::optional<joint> of_scans(const std::vector<std::int32_t>& nodes) const {
    const node& n = from_.at(nodes[0]);
    const auto& a = attributes_of<scan_attributes>(n);
    const auto carries = static_cast<std::size_t>(a.carries), moving = carries + static_cast<std::size_t>(a.sequences);
    joint j{std::vector<int>(n.inputs.size(), same), std::vector<int>(n.results.size(), same)};
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!std::all_of(nodes.begin(), nodes.end(), [&](auto i) { return from_.at(i).inputs[k] == n.inputs[k]; }))
        j.in[k] = k >= carries && k < moving ? 1 : 0;
    const program& turn = *n.subprograms[0];
    std::vector<char> apart;
    const auto of_a_sample = [&](value_id v) { return apart[static_cast<std::size_t>(v.node)] != 0; };
    // A carry that begins as one for all is each sample's own if a turn makes it that.
    for (bool more = true; more;) {
      more = false;
      apart = of_samples(turn, j);
      for (std::size_t k = 0; k < carries; ++k)
        if (j.in[k] == same && of_a_sample(turn.outputs()[k].value)) j.in[k] = 0, more = true;
    }
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (const shape& s = from_.type(n.inputs[k]).dims; j.in[k] != same && (s.rank <= j.in[k] || s.size() == 0)) return {};
    for (std::size_t r = 0; r < j.out.size(); ++r) {
      if (of_a_sample(turn.outputs()[r].value)) j.out[r] = r < carries ? 0 : 1;
      if (r < carries && j.in[r] != j.out[r]) return {};
    }
    for (std::size_t i = 0; i < turn.nodes().size(); ++i) {
      const node& t = turn.nodes()[i];
      if (!apart[i] || t.kind != node_kind::operation) continue;
      const auto inner = along(0, turn, t);
      if (!inner) return {};
      for (std::size_t k = 0; k < t.inputs.size(); ++k)
        if (inner->in[k] != either && inner->in[k] != (of_a_sample(t.inputs[k]) ? 0 : same)) return {};
    }
    return j;
  }
  // Which nodes of a turn are there for each sample: they depend on inputs that are.
  static std::vector<char> of_samples(const program& turn, const joint& how) {
    std::vector<char> apart(turn.nodes().size());
    for (std::size_t k = 0; k < how.in.size(); ++k)
      if (how.in[k] != same) apart[static_cast<std::size_t>(turn.inputs()[k])] = 1;
    const auto needed = turn.reachable();
    for (std::size_t i = 0; i < turn.nodes().size(); ++i)
      if (const node& t = turn.nodes()[i]; needed[i] && t.kind == node_kind::operation)
        apart[i] = std::any_of(t.inputs.begin(), t.inputs.end(), [&](value_id v) { return apart[static_cast<std::size_t>(v.node)] != 0; });
    return apart;
  }
  // Along the axis where the operands stand together already; else along the first one, or the second if samples have one
  // position there and several before it, as sequences of turns do.
  std::optional<joint> joint_of(const node& n) const {
    if (n.results.empty()) return {};
    const shape& out = n.results[0].dims;
    int axis = out.rank > 2 && out.at(0) != 1 && out.at(1) == 1 ? 1 : 0;
    for (auto v : n.inputs)
      if (auto p = parts_.find(v); p != parts_.end()) {
        axis = p->second.axis;
        break;
      }
    auto j = along(axis, from_, n);
    if (!j && axis > 0) j = along(0, from_, n);
    if (j) std::replace(j->in.begin(), j->in.end(), static_cast<int>(either), static_cast<int>(same));
    return j;
  }
  template <class A>
  static const A& attributes_of(const node& n) { return *static_cast<const A*>(n.attributes.get()); }

  static bool alike_inside(const node& a, const node& b) {
    for (std::size_t i = 0; i < a.subprograms.size(); ++i)
      if (a.subprograms[i] != b.subprograms[i] && a.subprograms[i]->id() != b.subprograms[i]->id()) return false;
    return true;
  }
  bool alike(const node& a, const node& b, const joint& j) const {
    if (a.op != b.op || a.results != b.results || !a.op->equal(a.attributes.get(), b.attributes.get())) return false;
    if (a.inputs.size() != b.inputs.size()) return false;
    for (std::size_t k = 0; k < a.inputs.size(); ++k)
      if (k < j.in.size() && j.in[k] == same ? a.inputs[k] != b.inputs[k] : from_.type(a.inputs[k]) != from_.type(b.inputs[k])) return false;
    return alike_inside(a, b);
  }

  void take(const std::vector<std::int32_t>& nodes) {
    struct group { joint how; std::vector<std::int32_t> nodes; };
    std::vector<group> groups;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_key;
    std::vector<std::vector<std::int32_t>> scans;
    for (auto i : nodes) {
      const node& n = from_.at(i);
      if (n.is("scan")) {
        const auto like = std::find_if(scans.begin(), scans.end(), [&](const auto& s) { return alike(from_.at(s[0]), n, {}); });
        if (like != scans.end()) like->push_back(i);
        else scans.push_back({i});
        continue;
      }
      auto j = joint_of(n);
      if (!j) {
        copy(i);
        continue;
      }
      std::uint64_t key = std::hash<const void*>()(n.op) * 31 + n.op->hash(n.attributes.get());
      for (std::size_t k = 0; k < j->in.size(); ++k)
        if (j->in[k] == same) key = key * 1000003 + static_cast<std::uint64_t>(n.inputs[k].node);
      bool found = false;
      for (auto g : by_key[key])
        if (*j == groups[g].how && alike(from_.at(groups[g].nodes[0]), n, *j)) {
          groups[g].nodes.push_back(i);
          found = true;
          break;
        }
      if (found) continue;
      by_key[key].push_back(groups.size());
      groups.push_back({*std::move(j), {i}});
    }
    for (const auto& s : scans) {
      const auto how = s.size() > 1 ? of_scans(s) : std::nullopt;
      if (how) merge(s, *how);
      else
        for (auto i : s) copy(i);
    }
    for (const auto& g : groups) {
      if (g.nodes.size() > 1 && worthwhile(g.nodes, g.how)) merge(g.nodes, g.how);
      else
        for (auto i : g.nodes) copy(i);
    }
  }

  // What stands together in one value needs no copy. A product or convolution that shares its weights gains more than a copy
  // of its rows costs, a scan always; others only if nothing or less than half of their operands is copied.
  bool worthwhile(const std::vector<std::int32_t>& nodes, const joint& how) const {
    int together = 0, apart = 0;
    for (std::size_t k = 0; k < how.in.size(); ++k)
      if (how.in[k] != same) (whole_of(nodes, k, how.in[k]) ? together : apart) += 1;
    const node& n = from_.at(nodes[0]);
    const bool heavy = n.is("matmul") || n.is("conv2d") || n.is("conv_transpose2d");
    return (heavy && how.in[1] == same) || (together > 0 && apart <= together);
  }
  // The value in which operand k of the calls stands, one behind the other along an axis, and from where on.
  std::optional<part> whole_of(const std::vector<std::int32_t>& nodes, std::size_t k, int axis) const {
    std::optional<part> all;
    for (auto i : nodes) {
      auto p = parts_.find(from_.at(i).inputs[k]);
      if (p == parts_.end() || p->second.axis != axis) return {};
      if (!all) all = p->second;
      else if (!p->second.of.same(all->of) || p->second.first != all->first + all->count) return {};
      else all->count += p->second.count;
    }
    return all;
  }

  void merge(const std::vector<std::int32_t>& nodes, const joint& how) {
    const node& first = from_.at(nodes[0]);
    std::vector<value> in;
    for (std::size_t k = 0; k < how.in.size(); ++k) {
      const int axis = how.in[k];
      if (axis == same) in.push_back(at(first.inputs[k]));
      else if (auto p = whole_of(nodes, k, axis)) {
        bool whole = p->first == 0 && p->count == p->of.shape().at(axis);
        in.push_back(whole ? p->of : value(slice(p->of, {.start = p->first, .stop = p->first + p->count, .axis = axis})));
      } else {
        std::vector<value> all;
        for (auto i : nodes) all.push_back(at(from_.at(i).inputs[k]));
        in.push_back(apply_all<op::concat>(axis_attributes{axis}, all));
      }
    }
    to_.path = first.path;
    std::vector<std::shared_ptr<const program>> inside;
    if (first.is("scan")) inside.push_back(turn_of(first, how, in));
    const value_id id = of_more_rows(first, to_, in, std::move(inside));
    for (std::size_t s = 0; s < nodes.size(); ++s)
      for (std::size_t r = 0; r < first.results.size(); ++r) {
        const value all(&to_, {id.node, static_cast<std::int32_t>(r)});
        if (how.out[r] == same) {
          auto& made = made_[static_cast<std::size_t>(nodes[s])];
          made.resize(first.results.size());
          made[r] = all;
          continue;
        }
        const auto count = first.results[r].dims.at(how.out[r]);
        parts_[{nodes[s], static_cast<std::int32_t>(r)}] = {all, how.out[r], static_cast<std::int64_t>(s) * count, count};
      }
    merged_ += static_cast<std::int64_t>(nodes.size()) - 1;
  }
  // A call on operands of another number of rows.
  static value_id of_more_rows(const node& n, program& to, view<const value> in, std::vector<std::shared_ptr<const program>> inside) {
    if (!n.is("reshape")) return to.add(*n.op, n.attributes, in, std::move(inside));
    shape dims = n.results[0].dims;
    dims[0] = in[0].shape()[0];
    return value(reshape(in[0], dims)).id();
  }
  // The turn of a scan for the operands of all samples.
  static std::shared_ptr<const program> turn_of(const node& scan, const joint& how, view<const value> in) {
    const program& one = *scan.subprograms[0];
    std::vector<tensor_type> types;
    for (const auto& v : in) types.push_back(v.type());
    text why;
    scan.op->inside(scan.attributes.get(), types, why);
    auto all = std::make_shared<program>();
    const auto apart = of_samples(one, how);
    std::vector<std::vector<value>> made(one.nodes().size());
    const auto needed = one.reachable();
    std::size_t next = 0;
    for (std::size_t i = 0; i < one.nodes().size(); ++i) {
      const node& n = one.nodes()[i];
      if (n.kind == node_kind::input) made[i] = {all->input(n.name, types[next++], n.uniform)};
      else if (!needed[i]) continue;
      else if (n.kind == node_kind::constant) made[i] = {all->constant(n.constant)};
      else {
        std::vector<value> operands;
        for (auto v : n.inputs) operands.push_back(made[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]);
        all->path = n.path;
        const value_id id = apart[i] ? of_more_rows(n, *all, operands, n.subprograms) : all->add(*n.op, n.attributes, operands, n.subprograms);
        for (std::size_t r = 0; r < n.results.size(); ++r) made[i].emplace_back(all.get(), value_id{id.node, static_cast<std::int32_t>(r)});
      }
    }
    all->path.clear();
    for (const auto& o : one.outputs()) all->output(o.name, made[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.result)]);
    return all;
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
    return slice(p->second.of, {.start = p->second.first, .stop = p->second.first + p->second.count, .axis = p->second.axis});
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
