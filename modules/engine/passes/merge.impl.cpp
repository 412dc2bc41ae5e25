// Auto-batching: merges similar operations of one level. Samples that are evaluated side by side, each by its own
// operations, become rows of one operation, or columns of sequences; they may differ in their number of rows. The axis
// maps of operations declare which positions are independent: only those are merged, so the bits stay.
module lamina:passes.merge.impl;
import :core;
import :dtype;
import :op;
import :op.shape;
import :passes;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

class merger {
 public:
  merger(const program& from, std::int64_t& merged) : from_(from), merged_(merged) {
    to_.common_subexpressions = from.common_subexpressions;
  }

  program run() {
    auto needed = from_.reachable();
    const auto count = from_.nodes().size();
    made_.resize(count);
    slots_.assign(count, std::numeric_limits<std::size_t>::max());
    for (std::size_t i = 0; i < count; ++i)
      for (std::size_t k = 0; needed[i] && k < from_.nodes()[i].inputs.size(); ++k) {
        auto& slot = slots_[static_cast<std::size_t>(from_.nodes()[i].inputs[k].node)];
        slot = std::min(slot, k);
      }
    std::vector<std::int32_t> level(count);
    std::vector<std::vector<std::int32_t>> levels;
    for (std::size_t i = 0; i < count; ++i) {
      const node& n = from_.nodes()[i];
      if (n.kind == node_kind::input) made_[i] = {to_.input(n.name, n.results[0], n.uniform)};
      else if (!needed[i]) continue;
      else if (n.kind == node_kind::state) made_[i] = {to_.state(n.name, n.results[0])};
      else if (n.kind == node_kind::constant) made_[i] = {to_.constant(n)};
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
  // Positions [first, first + count) along an axis of a value that concatenates all samples.
  struct part {
    value of;
    int axis = 0;
    std::int64_t first = 0, count = 0;
  };
  static constexpr int shared = axis_map::shared, either = axis_map::either;
  // Axes along which operands and results of merged calls are concatenated; `shared` for those that are not.
  struct joint {
    std::vector<int> in, out;
    int axis = 0;          // for an operand that is `either`, if it is joined
    bool stacked = false;  // each call becomes a position of a new first axis
    bool worth_copies = false;
    std::shared_ptr<const void> attributes;  // of an operation on any number of positions
  };
  struct call {
    std::int32_t node;
    joint how;
    std::uint64_t key;                // of operation and attributes
    std::vector<value_id> sources{};  // values that contain the joined operands, if those must agree
  };
  // How the axis of merged calls is chosen: the one along which operands are contiguous already, the first one, or a
  // new one.
  enum class way { operand_axis, first_axis, new_axis };

  static std::vector<tensor_type> operand_types(const program& p, const node& n) {
    std::vector<tensor_type> types;
    for (auto v : n.inputs) types.push_back(p.type(v));
    return types;
  }
  // How calls merge along an axis of their results, or as positions of a new first axis; empty where they cannot.
  static std::optional<joint> along(int axis, const program& p, const node& n, bool stacked = false) {
    if (!n.op->map_axis || !n.op->pure || n.op->may_fail || !n.subprograms.empty() || n.results.empty()) return {};
    for (const auto& r : n.results)
      if (r.dims.rank <= axis || r.dims.size() == 0) return {};
    const auto types = operand_types(p, n);
    axis_map m(axis, types, n.results);
    n.op->map_axis(n.attributes.get(), m);
    if (stacked) return m.leading_axes ? stack_of(types, n) : std::nullopt;
    if (!m.independent) return {};
    for (std::size_t k = 0; k < types.size(); ++k)
      if (m.operands[k] >= types[k].dims.rank) return {};
    return joint{std::move(m.operands), std::move(m.results), axis, false, m.worth_copies, std::move(m.attributes)};
  }
  static std::optional<joint> stack_of(const std::vector<tensor_type>& types, const node& n) {
    const int rank = n.results[0].dims.rank;
    joint j{std::vector<int>(types.size(), either), std::vector<int>(n.results.size(), 0), 0, true, false, nullptr};
    for (const auto& r : n.results)
      if (r.dims.rank != rank || rank == max_rank) return {};
    for (std::size_t k = 0; k < types.size(); ++k)
      if (types[k].dims.rank > rank) return {};
      else if (types[k].dims.rank < rank) j.in[k] = shared;
    return j;
  }
  std::optional<joint> joint_of(const node& n, way how) const {
    if (how != way::operand_axis) return along(0, from_, n, how == way::new_axis);
    if (n.results.empty()) return {};
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (auto p = parts_.find(n.inputs[k]); p != parts_.end()) return joint_along_part(n, k, p->second.axis);
    // Sequences of several iterations have one position per sample on the second axis.
    const shape& out = n.results[0].dims;
    auto j = along(out.rank > 2 && out.at(0) != 1 && out.at(1) == 1 ? 1 : 0, from_, n);
    return j ? j : along(0, from_, n);
  }
  // Prefers the axis of the results for which operand k joins along `part_axis`, where its parts are contiguous; else
  // any.
  std::optional<joint> joint_along_part(const node& n, std::size_t k, int part_axis) const {
    std::optional<joint> other;
    for (int i = -1; i < n.results[0].dims.rank; ++i) {
      if (i == part_axis) continue;
      const int axis = i < 0 ? part_axis : i;
      auto j = along(axis, from_, n);
      if (!j) continue;
      if (j->in[k] == part_axis || (j->in[k] == either && axis == part_axis)) return j;
      if (!other) other = std::move(j);
    }
    return other;
  }

  // Calls with a subprogram: operands that differ between the calls are per sample, if the subprogram keeps positions
  // of an axis independent.
  std::optional<joint> of_bodies(const std::vector<std::int32_t>& nodes) const {
    const node& n = from_.at(nodes[0]);
    const program& body = *n.subprograms[0];
    if (!n.op->map_axis || n.subprograms.size() != 1 || body.inputs().size() != n.inputs.size()) return {};
    const auto types = operand_types(from_, n);
    axis_map m(0, types, n.results);
    n.op->map_axis(n.attributes.get(), m);
    if (!m.independent) return {};
    const auto carried = static_cast<std::size_t>(m.carried);
    joint j{std::vector<int>(n.inputs.size(), shared),
            std::vector<int>(n.results.size(), shared),
            0,
            false,
            true,
            m.attributes};
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!std::all_of(nodes.begin(), nodes.end(), [&](auto i) { return from_.at(i).inputs[k] == n.inputs[k]; }))
        j.in[k] = m.operands[k];
    std::vector<char> apart;
    const auto of_a_sample = [&](value_id v) { return apart[static_cast<std::size_t>(v.node)] != 0; };
    // A carry with a shared initial value is per sample if the body makes it so.
    for (bool more = true; more;) {
      more = false;
      apart = of_samples(body, j);
      for (std::size_t k = 0; k < carried; ++k)
        if (j.in[k] == shared && of_a_sample(body.outputs()[k].value)) j.in[k] = m.operands[k], more = true;
    }
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (const shape& s = types[k].dims; j.in[k] != shared && (s.rank <= j.in[k] || s.size() == 0)) return {};
    for (std::size_t r = 0; r < j.out.size(); ++r) {
      if (of_a_sample(body.outputs()[r].value)) j.out[r] = m.results[r];
      if (r < carried && j.in[r] != j.out[r]) return {};
    }
    if (!keeps_apart(body, apart)) return {};
    return j;
  }
  // Whether the per-sample operations of a body work row by row, so that they can take the rows of all samples.
  static bool keeps_apart(const program& body, const std::vector<char>& of_a_sample) {
    for (std::size_t i = 0; i < of_a_sample.size(); ++i) {
      const node& n = body.nodes()[i];
      if (!of_a_sample[i] || n.kind != node_kind::operation) continue;
      const auto how = along(0, body, n);
      if (!how) return false;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (how->in[k] != either &&
            how->in[k] != (of_a_sample[static_cast<std::size_t>(n.inputs[k].node)] ? 0 : shared))
          return false;
    }
    return true;
  }
  // Marks the per-sample nodes of a body: those that depend on per-sample inputs.
  static std::vector<char> of_samples(const program& body, const joint& how) {
    std::vector<char> apart(body.nodes().size());
    for (std::size_t k = 0; k < how.in.size(); ++k)
      if (how.in[k] != shared) apart[static_cast<std::size_t>(body.inputs()[k])] = 1;
    const auto needed = body.reachable();
    for (std::size_t i = 0; i < body.nodes().size(); ++i)
      if (const node& t = body.nodes()[i]; needed[i] && t.kind == node_kind::operation)
        apart[i] = std::any_of(t.inputs.begin(), t.inputs.end(),
                               [&](value_id v) { return apart[static_cast<std::size_t>(v.node)] != 0; });
    return apart;
  }

  static const void* attributes_of(const node& n, const joint& how) {
    return how.attributes ? how.attributes.get() : n.attributes.get();
  }
  // Whether types differ at most in the extent of an axis; -1 for none.
  static bool alike_but(const tensor_type& a, const tensor_type& b, int axis) {
    if (a.element != b.element || a.dims.rank != b.dims.rank) return false;
    for (int i = 0; i < a.dims.rank; ++i)
      if (i != axis && a.dims[i] != b.dims[i]) return false;
    return true;
  }
  bool alike(const call& a, const call& b) const {
    const node &m = from_.at(a.node), &n = from_.at(b.node);
    if (m.op->id != n.op->id || m.inputs.size() != n.inputs.size() || m.results.size() != n.results.size())
      return false;
    if (a.how.in != b.how.in || a.how.out != b.how.out || a.sources != b.sources ||
        !m.op->equal(attributes_of(m, a.how), attributes_of(n, b.how)))
      return false;
    for (std::size_t k = 0; k < m.inputs.size(); ++k)
      if (const int axis = a.how.in[k];
          axis == shared ? m.inputs[k] != n.inputs[k]
                         : !alike_but(from_.type(m.inputs[k]), from_.type(n.inputs[k]), a.how.stacked ? -1 : axis))
        return false;
    for (std::size_t r = 0; r < m.results.size(); ++r)
      if (!alike_but(m.results[r], n.results[r], a.how.stacked ? -1 : a.how.out[r])) return false;
    return true;
  }
  bool alike_with_bodies(const node& a, const node& b) const {
    if (a.op->id != b.op->id || a.results != b.results || a.inputs.size() != b.inputs.size() ||
        a.subprograms.size() != b.subprograms.size())
      return false;
    if (!a.op->equal(a.attributes.get(), b.attributes.get())) return false;
    for (std::size_t k = 0; k < a.inputs.size(); ++k)
      if (from_.type(a.inputs[k]) != from_.type(b.inputs[k])) return false;
    for (std::size_t i = 0; i < a.subprograms.size(); ++i)
      if (a.subprograms[i] != b.subprograms[i] && a.subprograms[i]->id() != b.subprograms[i]->id()) return false;
    return true;
  }
  static std::uint64_t key_of(const node& n, const joint& how) {
    return std::hash<const void*>()(n.op) * 31 + n.op->hash(attributes_of(n, how));
  }

  // Resolves operands that are `either`. Shared: values that another call can only share, and few values with many
  // readers, such as biases. Joined: the others, such as states of samples with one row each.
  void resolve(std::vector<call>& calls) const {
    struct uses {
      bool joined = false;
      std::set<value_id> shared, open;
      std::int64_t count = 0;  // reads of the open values
    };
    std::map<std::pair<std::uint64_t, std::size_t>, uses> all;
    for (const auto& c : calls)
      for (std::size_t k = 0; k < c.how.in.size(); ++k)
        if (c.how.in[k] == either) all.try_emplace({c.key, k});
    if (all.empty()) return;
    const auto each = [&](auto f) {
      for (auto& c : calls)
        for (std::size_t k = 0; k < c.how.in.size(); ++k)
          if (auto u = all.find({c.key, k}); u != all.end())
            f(c.how.in[k], from_.at(c.node).inputs[k], u->second, c.how.axis);
    };
    each([&](int in, value_id v, uses& u, int) {
      if (in == shared) u.shared.insert(v);
      else if (in != either) u.joined = true;
    });
    each([&](int in, value_id v, uses& u, int) {
      if (in == either && !u.shared.contains(v)) u.open.insert(v), ++u.count;
    });
    each([&](int& in, value_id v, uses& u, int axis) {
      if (in != either) return;
      const auto different = static_cast<std::int64_t>(u.open.size());
      in = u.shared.contains(v) || (!u.joined && different * different < u.count) ? shared : axis;
    });
  }

  void take(const std::vector<std::int32_t>& nodes) {
    std::vector<std::int32_t> left;
    std::vector<std::vector<std::int32_t>> with_bodies;
    for (auto i : nodes) {
      const node& n = from_.at(i);
      if (n.subprograms.empty()) {
        left.push_back(i);
        continue;
      }
      const auto like = std::find_if(with_bodies.begin(), with_bodies.end(),
                                     [&](const auto& s) { return alike_with_bodies(from_.at(s[0]), n); });
      if (like != with_bodies.end()) like->push_back(i);
      else with_bodies.push_back({i});
    }
    for (const auto& s : with_bodies) {
      const auto how = s.size() > 1 ? of_bodies(s) : std::nullopt;
      if (how) merge(s, *how);
      else left.insert(left.end(), s.begin(), s.end());
    }
    for (auto how : {way::operand_axis, way::first_axis, way::new_axis})
      if (left.size() > 1) left = merge_alike(left, how);
    for (auto i : left) copy(i);
  }
  // Merges similar calls; returns the nodes that stay separate.
  std::vector<std::int32_t> merge_alike(const std::vector<std::int32_t>& nodes, way by) {
    std::vector<std::int32_t> left;
    std::vector<call> calls;
    for (auto i : nodes)
      if (auto j = joint_of(from_.at(i), by)) {
        const auto key = key_of(from_.at(i), *j);
        calls.push_back({i, *std::move(j), key});
      } else left.push_back(i);
    resolve(calls);
    if (by == way::operand_axis)
      for (auto& c : calls)
        for (std::size_t k = 0; k < c.how.in.size(); ++k) {
          auto p = c.how.in[k] == shared ? parts_.end() : parts_.find(from_.at(c.node).inputs[k]);
          c.sources.push_back(p == parts_.end() ? value_id() : p->second.of.id());
        }
    struct group {
      const call* first;
      std::vector<std::int32_t> nodes;
    };
    std::vector<group> groups;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> by_key;
    for (const auto& c : calls) {
      auto key = c.key;
      for (std::size_t k = 0; k < c.how.in.size(); ++k) {
        if (c.how.in[k] == shared) key = key * 1000003 + static_cast<std::uint64_t>(from_.at(c.node).inputs[k].node);
        else if (!c.sources.empty()) key = key * 1000003 + static_cast<std::uint64_t>(c.sources[k].node);
      }
      auto& known = by_key[key];
      const auto like = std::find_if(known.begin(), known.end(), [&](auto g) { return alike(*groups[g].first, c); });
      if (like != known.end()) groups[*like].nodes.push_back(c.node);
      else known.push_back(groups.size()), groups.push_back({&c, {c.node}});
    }
    for (auto& g : groups) {
      // Values that are read as the same operand become contiguous.
      std::stable_sort(g.nodes.begin(), g.nodes.end(), [&](auto a, auto b) {
        return slots_[static_cast<std::size_t>(a)] < slots_[static_cast<std::size_t>(b)];
      });
      if (g.nodes.size() > 1 && worthwhile(g.nodes, g.first->how) && fits_together(g.nodes, g.first->how))
        merge(g.nodes, g.first->how);
      else left.insert(left.end(), g.nodes.begin(), g.nodes.end());
    }
    std::sort(left.begin(), left.end());
    return left;
  }

  // Operands that are contiguous in one value need no copy. Other calls are merged where their operation gains more
  // than the copies cost, or where at most half of the operands are copied; products on stacked operands gain less than
  // any copy costs.
  bool worthwhile(const std::vector<std::int32_t>& nodes, const joint& how) const {
    int together = 0, apart = 0;
    for (std::size_t k = 0; k < how.in.size(); ++k)
      if (how.in[k] != shared) (whole_of(nodes, k, how.in[k]) ? together : apart) += 1;
    return together + apart > 0 && (how.worth_copies || (together > 0 && apart <= (how.stacked ? 0 : together)));
  }
  // Type of one operand or result of all calls, joined along an axis.
  template <class F>
  static tensor_type joined_type(const std::vector<std::int32_t>& nodes, const joint& how, int axis, F type_in) {
    tensor_type t = type_in(nodes[0]);
    if (axis == shared) return t;
    if (how.stacked) {
      shape s{static_cast<std::int64_t>(nodes.size())};
      for (int i = 0; i < t.dims.rank; ++i) s.push_back(t.dims[i]);
      return {t.element, s};
    }
    std::int64_t count = 0;
    for (auto i : nodes) count += type_in(i).dims.at(axis);
    t.dims[axis] = dim(count);
    return t;
  }
  // Whether the operation accepts the joined operands and infers the joined results: not every one broadcasts shared
  // operands.
  bool fits_together(const std::vector<std::int32_t>& nodes, const joint& how) const {
    const node& n = from_.at(nodes[0]);
    std::vector<tensor_type> in;
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      in.push_back(joined_type(nodes, how, how.in[k], [&](auto i) { return from_.type(from_.at(i).inputs[k]); }));
    inference found;
    n.op->infer(attributes_of(n, how), in, found);
    if (!found.why.empty() || found.count != static_cast<int>(n.results.size())) return false;
    for (std::size_t r = 0; r < n.results.size(); ++r)
      if (found.results[r] != joined_type(nodes, how, how.out[r], [&](auto i) { return from_.at(i).results[r]; }))
        return false;
    return true;
  }
  // The range of one value that holds operand k of all calls, contiguous along an axis; empty if there is none.
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
  // Operand k of all calls in one value: an existing one, a slice of it, or a concatenation.
  value together(const std::vector<std::int32_t>& nodes, std::size_t k, int axis) {
    if (auto p = whole_of(nodes, k, axis)) {
      const bool whole = p->first == 0 && p->count == p->of.shape().at(axis);
      return whole ? p->of : value(slice(p->of, {.start = p->first, .stop = p->first + p->count, .axis = axis}));
    }
    std::vector<value> all;
    for (auto i : nodes) all.push_back(at(from_.at(i).inputs[k]));
    return apply_outside_patterns<op::concat>({axis}, all);
  }
  // Reshapes [a, ...], the concatenation of `calls` calls, to [calls, a / calls, ...], and back.
  static value with_call_axis(const value& v, std::int64_t calls) {
    shape s{calls, v.shape().at(0) / calls};
    for (int i = 1; i < v.shape().rank; ++i) s.push_back(v.shape()[i]);
    return reshape(v, s);
  }
  static value without_call_axis(const value& v) {
    shape s{v.shape().at(0) * v.shape().at(1)};
    for (int i = 2; i < v.shape().rank; ++i) s.push_back(v.shape()[i]);
    return reshape(v, s);
  }

  void merge(const std::vector<std::int32_t>& nodes, const joint& how) {
    const node& first = from_.at(nodes[0]);
    const auto calls = static_cast<std::int64_t>(nodes.size());
    std::vector<value> in;
    for (std::size_t k = 0; k < how.in.size(); ++k) {
      if (how.in[k] == shared) in.push_back(at(first.inputs[k]));
      else in.push_back(together(nodes, k, how.in[k]));
      if (how.stacked && how.in[k] != shared) in.back() = with_call_axis(in.back(), calls);
    }
    to_.path = first.path;
    std::vector<std::shared_ptr<const program>> inside;
    if (!first.subprograms.empty()) inside.push_back(body_of(first, how, in));
    const value_id id = to_.add(*first.op, how.attributes ? how.attributes : first.attributes, in, std::move(inside));
    for (std::size_t r = 0; r < first.results.size(); ++r) {
      const auto result = static_cast<std::int32_t>(r);
      value all(&to_, {id.node, result});
      if (how.stacked) all = without_call_axis(all);
      std::int64_t before = 0;
      for (auto i : nodes) {
        if (how.out[r] == shared) {
          auto& made = made_[static_cast<std::size_t>(i)];
          made.resize(first.results.size());
          made[r] = all;
          continue;
        }
        const auto count = from_.at(i).results[r].dims.at(how.out[r]);
        parts_[{i, result}] = {all, how.out[r], before, count};
        before += count;
      }
    }
    merged_ += calls - 1;
  }
  // The body of merged calls.
  static std::shared_ptr<const program> body_of(const node& of, const joint& how, view<const value> in) {
    const program& one = *of.subprograms[0];
    std::vector<tensor_type> types;
    for (const auto& v : in) types.push_back(v.type());
    text why;
    if (of.op->inside) of.op->inside(of.attributes.get(), types, why);
    auto all = std::make_shared<program>();
    const auto apart = of_samples(one, how);
    std::vector<std::vector<value>> made(one.nodes().size());
    const auto needed = one.reachable();
    std::size_t next = 0;
    for (std::size_t i = 0; i < one.nodes().size(); ++i) {
      const node& n = one.nodes()[i];
      if (n.kind == node_kind::input) made[i] = {all->input(n.name, types[next++], n.uniform)};
      else if (!needed[i]) continue;
      else if (n.kind == node_kind::constant) made[i] = {all->constant(n)};
      else {
        std::vector<value> operands;
        for (auto v : n.inputs)
          operands.push_back(made[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]);
        all->path = n.path;
        auto attributes = n.attributes;
        if (apart[i])
          if (auto j = along(0, one, n); j && j->attributes) attributes = j->attributes;
        const value_id id = all->add(*n.op, std::move(attributes), operands, n.subprograms);
        for (std::size_t r = 0; r < n.results.size(); ++r)
          made[i].emplace_back(all.get(), value_id{id.node, static_cast<std::int32_t>(r)});
      }
    }
    all->path.clear();
    for (const auto& o : one.outputs())
      all->output(o.name, made[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.result)]);
    return all;
  }

  void copy(std::int32_t i) {
    const node& n = from_.at(i);
    std::vector<value> in;
    for (auto v : n.inputs) in.push_back(at(v));
    to_.path = n.path;
    value_id id = to_.add(*n.op, n.attributes, in, n.subprograms);
    for (std::size_t r = 0; r < n.results.size(); ++r)
      made_[static_cast<std::size_t>(i)].emplace_back(&to_, value_id{id.node, static_cast<std::int32_t>(r)});
  }
  // A value of one sample, sliced from the merged value on demand.
  value at(value_id v) {
    auto p = parts_.find(v);
    if (p == parts_.end()) return made_[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)];
    return slice(p->second.of,
                 {.start = p->second.first, .stop = p->second.first + p->second.count, .axis = p->second.axis});
  }

  const program& from_;
  std::int64_t& merged_;
  program to_;
  std::vector<std::vector<value>> made_;
  std::vector<std::size_t> slots_;  // of each node the smallest operand index at which it is read
  std::map<value_id, part> parts_;
};

}  // namespace

program merged(const program& p, pass_counters& counters) { return merger(p, counters.merged).run(); }

}  // namespace lamina
