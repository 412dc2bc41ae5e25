module lamina:optimize.impl;
import :context;
import :core;
import :dtype;
import :op;
import :op.control;
import :op.elementwise;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.sized;
import :optimize;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {


const node& node_of(const value& v) { return v.owner().at(v.id()); }
value operand(const node& n, std::size_t i, program& p) { return {&p, n.inputs[i]}; }

/// The same elements under another shape, however it was spelled.
bool reshapes(const node& n) {
  for (auto name : {"reshape", "flatten", "reshape_like", "unsqueeze", "squeeze", "as_matrix", "dot_result"})
    if (n.is(name)) return true;
  return false;
}

/// The number that every element of a constant is.
std::optional<double> constant_number(const value& v) {
  const node& n = node_of(v);
  if (n.kind != node_kind::constant || n.results[0].dims.size() < 1) return {};
  return with_type(n.results[0].element, [&]<class T>() -> std::optional<double> {
    auto all = n.constant.elements<T>();
    double first = static_cast<double>(all[0]);
    for (const auto& x : all)
      if (!(static_cast<double>(x) == first)) return {};
    return first;
  });
}

// ---- rules: each gives the value that stands for the operation, or an empty one --------------------------------------

using rule = value (*)(const node& n, view<const value> in, program& p);

value identity_number(const node& n, view<const value> in, program&) {
  if (in.size() != 2 || n.results.size() != 1) return {};
  auto neutral = [&](std::size_t at, double wanted) {
    auto c = constant_number(in[at]);
    return c && *c == wanted && in[1 - at].type() == n.results[0];
  };
  if (n.is("add")) {
    if (neutral(1, 0)) return in[0];
    if (neutral(0, 0)) return in[1];
  }
  if (n.is("subtract") && neutral(1, 0)) return in[0];
  if (n.is("multiply")) {
    if (neutral(1, 1)) return in[0];
    if (neutral(0, 1)) return in[1];
  }
  if ((n.is("divide") || n.is("pow")) && neutral(1, 1)) return in[0];
  return {};
}

value same_shape(const node& n, view<const value> in, program&) {
  bool moves = n.is("sum_like") || n.is("broadcast_like") || n.is("cast") || reshapes(n);
  return moves && in[0].type() == n.results[0] ? in[0] : value();
}

value stopped_gradient(const node& n, view<const value> in, program&) {
  return n.is("stop_gradient") || n.is("in_training") ? in[0] : value();
}

value double_inverse(const node& n, view<const value> in, program& p) {
  if (!(n.is("negate") || n.is("reciprocal") || n.is("logical_not"))) return {};
  const node& inner = node_of(in[0]);
  return inner.is(n.op->name) ? operand(inner, 0, p) : value();
}

value log_of(const node& n, view<const value> in, program& p) {
  if (!n.is("log")) return {};
  const node& inner = node_of(in[0]);
  if (inner.is("exp")) return operand(inner, 0, p);
  if (inner.is("softmax")) return log_softmax(operand(inner, 0, p), *static_cast<const softmax_attributes*>(inner.attributes.get()));
  return {};
}

value composed_permutation(const node& n, view<const value> in, program& p) {
  if (!n.is("permute")) return {};
  const auto& outer = static_cast<const permute_attributes*>(n.attributes.get())->order;
  axes order = outer;
  bool identity = true;
  const node& inner = node_of(in[0]);
  bool composed = inner.is("permute");
  for (int i = 0; i < outer.count; ++i) {
    int axis = detail::normal_axis(outer[i], outer.count);
    if (composed) axis = detail::normal_axis(static_cast<const permute_attributes*>(inner.attributes.get())->order[axis], outer.count);
    order.values[i] = axis;
    identity = identity && axis == i;
  }
  value from = composed ? operand(inner, 0, p) : in[0];
  if (identity) return from;
  return composed ? permute(from, order) : value();
}

// An input in a message: operands of an expression have no names, and are counted from 1.
std::string named(const node& input, std::size_t number) {
  text t;
  if (input.name.empty()) t << "input " << number;
  else t << "input `" << input.name << "`";
  return t.string();
}

value composed_reshape(const node& n, view<const value> in, program& p) {
  const shape& becomes = n.results[0].dims;
  if (!reshapes(n) || std::count(becomes.dims, becomes.dims + becomes.rank, dim(dyn)) > 1) return {};   // which `in` may not imply
  const node& inner = node_of(in[0]);
  if (reshapes(inner)) {
    value from = operand(inner, 0, p);
    return from.type() == n.results[0] ? from : reshape(from, n.results[0].dims);
  }
  // One spelling for all: a reshape to known extents.
  return n.is("reshape") && static_cast<const reshape_attributes*>(n.attributes.get())->to == n.results[0].dims ? value() : reshape(in[0], n.results[0].dims);
}

value transposed_operand(const node& n, view<const value> in, program& p) {
  if (!n.is("matmul")) return {};
  auto swaps_last = [&](const value& v) {
    const node& t = node_of(v);
    if (!t.is("permute")) return false;
    const auto& order = static_cast<const permute_attributes*>(t.attributes.get())->order;
    int rank = order.count;
    for (int i = 0; i < rank; ++i) {
      int wanted = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
      if (detail::normal_axis(order[i], rank) != wanted) return false;
    }
    return true;
  };
  auto at = *static_cast<const matmul_attributes*>(n.attributes.get());
  bool a = swaps_last(in[0]), b = swaps_last(in[1]);
  if (!a && !b) return {};
  return matmul(a ? operand(node_of(in[0]), 0, p) : in[0], b ? operand(node_of(in[1]), 0, p) : in[1], {at.transpose_a != a, at.transpose_b != b});
}

value known_shape(const node& n, view<const value> in, program& p) {
  if (!n.is("shape_of")) return {};
  const shape& s = in[0].shape();
  any_tensor t(tensor_type{dtype::int64, shape{dim(s.rank)}});
  for (int i = 0; i < s.rank; ++i) reinterpret_cast<std::int64_t*>(t.mutable_data())[i] = s.at(i);
  return p.constant(std::move(t));
}

/// A product with a number: the other operand and the number.
struct scaled {
  value x;
  double by = 0;
  explicit operator bool() const { return !x.empty(); }
};
scaled scaled_by_number(const node& n, view<const value> in) {
  if (!n.is("multiply") || !is_real(n.results[0].element)) return {};
  for (std::size_t side : {1u, 0u})
    if (auto by = constant_number(in[side]); by && in[1 - side].type() == n.results[0]) return {in[1 - side], *by};
  return {};
}
scaled scaled_by_number(const value& v) {
  const node& n = node_of(v);
  if (!n.is("multiply")) return {};
  const value in[] = {operand(n, 0, v.owner()), operand(n, 1, v.owner())};
  return scaled_by_number(n, in);
}

value joined_scale(const node& n, view<const value> in, program& p) {
  dtype element = n.results[0].element;
  if (n.is("negate")) {
    scaled inner = scaled_by_number(in[0]);
    return inner ? value(inner.x * p.number(-inner.by, element)) : value();
  }
  scaled outer = scaled_by_number(n, in);
  if (!outer) return {};
  const node& of = node_of(outer.x);
  if (of.is("negate")) return operand(of, 0, p) * p.number(-outer.by, element);
  scaled inner = scaled_by_number(outer.x);
  if (!inner) return {};
  // Where both shrink or both grow, x * a leaves the range of numbers only if x * a * b does.
  double a = std::abs(inner.by), b = std::abs(outer.by), both = a * b;
  bool alike = (a <= 1 && b <= 1) || (a >= 1 && b >= 1);
  double least = element == dtype::float32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  double most = element == dtype::float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (!alike || !(both >= least && both <= most)) return {};
  return inner.x * p.number(inner.by * outer.by, element);
}

// (u / y) * y is what the gradient of log y makes, for y a softmax or an exp.
value gradient_of_log(const node& n, view<const value> in, program& p) {
  if (!n.is("multiply")) return {};
  auto bare = [&](const value& v) { return reshapes(node_of(v)) ? operand(node_of(v), 0, p) : v; };
  for (std::size_t side : {0u, 1u}) {
    value y = bare(in[side]), quotient = bare(in[1 - side]);
    const node& q = node_of(quotient);
    if (!(node_of(y).is("softmax") || node_of(y).is("exp")) || !q.is("divide") || !bare(operand(q, 1, p)).same(y)) continue;
    value u = operand(q, 0, p);
    if (u.type() != q.results[0] || in[0].shape() != in[1].shape()) continue;
    return u.type() == n.results[0] ? u : value(reshape(u, n.results[0].dims));
  }
  return {};
}

// In the order of `rewrite`.
constexpr rule rules[] = {identity_number, same_shape, stopped_gradient, double_inverse, log_of, composed_permutation,
                          composed_reshape, transposed_operand, joined_scale, gradient_of_log};
static_assert(std::size(rules) == rewrite_count);

// Scans of the same operands that become one, and what each gives of its results.
struct joined_loop {
  std::shared_ptr<const program> turn;
  std::vector<std::pair<std::int32_t, std::vector<std::int32_t>>> members;    // node, and the place of each result or -1
};

// Scans over the same operands whose carries agree, as a scan and the one that its gradient reads from, run as one; results
// that nobody reads are dropped. By the node that comes first.
std::map<std::int32_t, joined_loop> joined_loops(const program& p, const std::vector<char>& needed) {
  std::map<std::int32_t, joined_loop> found;
  std::set<value_id> read;
  std::vector<std::int32_t> scans;
  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    if (!needed[i]) continue;
    const node& n = p.nodes()[i];
    for (auto v : n.inputs) read.insert(v);
    if (n.is("scan")) scans.push_back(static_cast<std::int32_t>(i));
  }
  for (const auto& o : p.outputs()) read.insert(o.value);
  for (const auto& a : p.assignments()) read.insert(a.value);

  std::vector<char> taken(scans.size());
  for (std::size_t first = 0; first < scans.size(); ++first) {
    if (taken[first]) continue;
    const node& leader = p.at(scans[first]);
    const auto carries = static_cast<std::size_t>(static_cast<const scan_attributes*>(leader.attributes.get())->carries);
    auto turn = std::make_shared<program>();
    std::vector<value> inputs;
    for (auto i : leader.subprograms[0]->inputs()) inputs.push_back(turn->input(leader.subprograms[0]->at(i).name, leader.subprograms[0]->at(i).results[0]));
    std::vector<value> common = turn->inlined(*leader.subprograms[0], inputs);
    common.resize(carries);
    std::vector<value> outputs = common;
    joined_loop joint;
    for (std::size_t k = first; k < scans.size(); ++k) {
      const node& n = p.at(scans[k]);
      if (taken[k] || n.inputs != leader.inputs || !n.op->equal(n.attributes.get(), leader.attributes.get())) continue;
      auto mine = turn->inlined(*n.subprograms[0], inputs);
      bool agree = true;
      for (std::size_t c = 0; c < carries; ++c) agree = agree && mine[c].same(common[c]);
      if (!agree) continue;
      taken[k] = 1;
      std::vector<std::int32_t> places;
      for (std::size_t r = 0; r < mine.size(); ++r) {
        std::int32_t place = -1;
        if (r < carries) place = static_cast<std::int32_t>(r);
        else if (read.contains({scans[k], static_cast<std::int32_t>(r)})) {
          auto at = std::find_if(outputs.begin() + static_cast<std::ptrdiff_t>(carries), outputs.end(), [&](const value& v) { return v.same(mine[r]); });
          if (at == outputs.end()) at = outputs.insert(at, mine[r]);
          place = static_cast<std::int32_t>(at - outputs.begin());
        }
        places.push_back(place);
      }
      joint.members.emplace_back(scans[k], std::move(places));
    }
    turn->path.clear();
    for (const auto& v : outputs) turn->output("result", v);
    joint.turn = std::move(turn);
    found[scans[first]] = std::move(joint);
  }
  return found;
}

// A scan of one turn: the turn takes its place.
std::vector<value> only_turn(program& into, const node& scan, view<const value> in, const std::vector<tensor_type>& inside, const program& turn,
                             pass_counters& counters) {
  std::vector<tensor_type> operands, results;
  for (const auto& v : in) operands.push_back(v.type());
  for (const auto& o : turn.outputs()) results.push_back(turn.type(o.value));
  text why;
  scan.op->outside(scan.attributes.get(), operands, results, why);
  if (!why.empty()) {
    text w;
    if (!into.path.empty()) w << into.path << ": ";
    detail::raise(error_kind::shape, w << "scan: " << why);
  }
  ++counters.inlined_calls;
  auto under = [](const value& v, const shape& dims) { return v.shape() == dims ? v : value(reshape(v, dims)); };
  std::vector<value> given;
  for (std::size_t i = 0; i < in.size(); ++i) given.push_back(under(in[i], inside[i].dims));
  auto made = into.inlined(turn, given);
  for (std::size_t i = 0; i < made.size(); ++i) made[i] = under(made[i], results[i].dims);
  return made;
}

void checked_case(const node& call, const value& v) {
  if (v.type() == call.results[0]) return;
  text t;
  t << call.op->name << ": a special case gives " << v.type() << " for a call that is " << call.results[0];
  detail::raise(v.type().element == call.results[0].element ? error_kind::shape : error_kind::type, t);
}

constexpr std::int64_t most_folded = 1 << 16;   // elements of a constant that folding may make

}  // namespace

std::string_view name_of(memory_sharing m) {
  constexpr std::string_view names[] = {"best of several orders", "greedy", "dynamic programming", "none"};
  return names[static_cast<int>(m)];
}
std::string_view name_of(rewrite r) {
  constexpr std::string_view names[] = {"neutral_number", "same_type", "stopped_gradient", "double_inverse", "logarithm",
                                        "composed_permutation", "composed_reshape", "transposed_operand", "scale", "softmax_loss"};
  static_assert(std::size(names) == rewrite_count);
  return names[static_cast<int>(r)];
}

value special_call::through(std::size_t i, std::string_view operation, std::size_t k) const {
  const node& inner = node_of(inputs[i]);
  return inner.is(operation) && k < inner.inputs.size() ? operand(inner, k, owner) : value();
}

void detail::context_cases::add(const special_case& added) {
  std::lock_guard lock(mutex_);
  all_.push_back(added);
  version_.fetch_add(1, std::memory_order_release);
}
std::vector<special_case> detail::context_cases::all() {
  std::lock_guard lock(mutex_);
  return all_;
}
void add_case(context& where, const special_case& added) { where.slot<detail::context_cases>().add(added); }

program specialised(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
                    const constant_evaluator& evaluate) {
  program r;
  r.path = p.path;
  r.joins = options.common;
  counters.common += p.joined();
  std::vector<std::vector<value>> made(p.nodes().size());
  auto needed = p.reachable();
  auto loops = joined_loops(p, needed);
  std::size_t next_input = 0;
  dimension_names names;

  auto add = [&](const node& n, view<const value> in, const dimension_names& names, auto& self) -> std::vector<value> {
    if (n.is("scan") || n.is("cond")) {
      // The programs for these extents; they stay programs of their own.
      std::vector<tensor_type> inside;
      std::vector<shape> extents;
      for (const auto& v : in) inside.push_back(v.type());
      text why;
      n.op->inside(n.attributes.get(), inside, why);
      if (!why.empty()) {
        text w;
        if (!r.path.empty()) w << r.path << ": ";
        detail::raise(error_kind::shape, w << n.op->name << ": " << why);
      }
      for (const auto& t : inside) extents.push_back(t.dims);
      std::vector<std::shared_ptr<const program>> subprograms;
      for (const auto& sub : n.subprograms) subprograms.push_back(std::make_shared<program>(specialised(*sub, extents, options, counters, evaluate)));
      const program& first = *subprograms[0];
      if (n.is("cond")) {
        if (const node& truth = node_of(in[0]); truth.kind == node_kind::constant && truth.constant.data()) {
          ++counters.inlined_calls;
          bool holds;
          std::memcpy(&holds, truth.constant.data(), sizeof holds);
          return r.inlined(holds ? first : *subprograms[1], view<const value>(in.data() + 1, in.size() - 1));
        }
      } else if (in[static_cast<std::size_t>(static_cast<const scan_attributes*>(n.attributes.get())->carries)].shape()[0] == dim(1))
        return only_turn(r, n, in, inside, first, counters);
      const auto count = first.outputs().size();
      value_id id = r.add(*n.op, n.attributes, in, std::move(subprograms));
      std::vector<value> results;
      for (std::size_t k = 0; k < count; ++k) results.emplace_back(&r, value_id{id.node, static_cast<std::int32_t>(k)});
      return results;
    }
    if (!n.subprograms.empty()) {
      // A call's nodes take its place, under their own shapes.
      ++counters.inlined_calls;
      const program& sub = *n.subprograms[0];
      std::vector<std::vector<value>> inner(sub.nodes().size());
      auto reached = sub.reachable();
      std::size_t next = 0;
      std::vector<tensor_type> types;
      for (const auto& v : in) types.push_back(v.type());
      const dimension_names own = names_of(sub, types, n.op->name, r.path);
      const std::string outer = r.path;
      for (std::size_t i = 0; i < sub.nodes().size(); ++i) {
        const node& m = sub.nodes()[i];
        r.path = m.path.empty() ? outer : m.path;
        if (m.kind == node_kind::input) inner[i] = {in[next++]};
        else if (!reached[i]) continue;
        else if (m.kind == node_kind::constant) inner[i] = {r.constant(m.constant)};
        else {
          std::vector<value> operands;
          for (auto v : m.inputs) operands.push_back(inner[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]);
          inner[i] = self(m, operands, own, self);
        }
      }
      r.path = outer;
      std::vector<value> results;
      for (const auto& o : sub.outputs()) results.push_back(inner[static_cast<std::size_t>(o.value.node)][static_cast<std::size_t>(o.value.result)]);
      return results;
    }
    auto before = r.nodes().size();
    value_id id = r.add(*n.op, n.op->bound ? n.op->bound(n.attributes.get(), names) : n.attributes, in);
    for (const auto& t : r.at(id).results)
      if (!t.dims.is_static()) {
        text w;
        if (!r.path.empty()) w << r.path << ": ";
        if (n.op == &record<op::first_rows>)
          detail::raise(error_kind::unsupported, w << n.op->name << ": the extent of its result is known only when it has run; such a program runs in segments, which one plan cannot hold");
        w << n.op->name << ": not all dimensions of " << t.dims << " are those of an input";
        detail::raise(error_kind::shape, w);
      }
    if (r.nodes().size() == before) ++counters.common;
    const node copy = r.at(id);
    if (value v = known_shape(copy, in, r); !v.empty()) { ++counters.folded; return {v}; }
    bool constant = copy.op->pure && !in.empty() && copy.results.size() == 1;
    for (std::size_t k = 0; k < in.size(); ++k)
      constant = constant && (node_of(in[k]).kind == node_kind::constant || copy.op->shape_only >> (k < 31 ? k : 31) & 1u);
    if (options.fold_constants && constant && evaluate && copy.results[0].dims.size() <= most_folded) {
      program alone;
      std::vector<value> operands;
      for (const auto& v : in) {
        const node& c = node_of(v);
        operands.push_back(alone.constant(c.kind == node_kind::constant ? c.constant : any_tensor(v.type())));
      }
      value_id at = alone.add(*copy.op, copy.attributes, operands);
      alone.output("folded", value(&alone, at));
      ++counters.folded;
      return {r.constant(evaluate(alone))};
    }
    for (const auto& c : options.cases)
      if (c.operation == copy.op->name && copy.results.size() == 1)
        if (value v = c.rewrite({copy, in, r}); !v.empty()) {
          checked_case(copy, v);
          ++counters.cases;
          return {v};
        }
    if (options.simplify)
      for (int k = 0; k < rewrite_count; ++k) {
        if (options.without.has(static_cast<rewrite>(k))) continue;
        if (value v = rules[k](copy, in, r); !v.empty()) {
          ++counters.simplified;
          ++counters.rewritten[k];
          return {v};
        }
      }
    std::vector<value> results;
    for (std::size_t k = 0; k < copy.results.size(); ++k) results.emplace_back(&r, value_id{id.node, static_cast<std::int32_t>(k)});
    return results;
  };

  for (std::size_t i = 0; i < p.nodes().size(); ++i) {
    const node& n = p.nodes()[i];
    switch (n.kind) {
      case node_kind::input: {
        tensor_type t = n.results[0];
        if (next_input >= inputs.size()) detail::raise(error_kind::value, "a program is planned with fewer input shapes than it has inputs");
        const shape& given = inputs[next_input++];
        if (!fits(t.dims, given)) {
          text w;
          w << named(n, next_input) << " is " << t.dims << " and is given " << given;
          detail::raise(error_kind::shape, w);
        }
        if (dim clash = names.bind(t.dims, given); clash.is_name()) {
          int at = 0;
          while (t.dims[at] != clash || given[at] == names(clash)) ++at;
          text w;
          w << named(n, next_input) << ": dimension `" << clash << "` is " << given[at] << " here and " << names(clash) << " in another input";
          detail::raise(error_kind::shape, w);
        }
        t.dims = given;
        made[i] = {r.input(n.name, t, n.uniform)};
        break;
      }
      case node_kind::state:
        if (needed[i]) made[i] = {r.state(n.name, n.results[0])};
        break;
      case node_kind::constant:
        if (needed[i]) made[i] = {r.constant(n.constant)};
        break;
      case node_kind::operation: {
        if (!needed[i] || !made[i].empty()) break;
        std::vector<value> in;
        for (auto v : n.inputs) in.push_back(made[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]);
        r.path = n.path.empty() ? p.path : n.path;    // what is found wrong with these extents names the layer
        if (auto joint = loops.find(static_cast<std::int32_t>(i)); joint != loops.end()) {
          node all = n;
          all.subprograms = {joint->second.turn};
          auto results = add(all, in, names, add);
          for (const auto& [member, places] : joint->second.members) {
            auto& mine = made[static_cast<std::size_t>(member)];
            for (auto place : places) mine.push_back(place < 0 ? value() : results[static_cast<std::size_t>(place)]);
          }
          counters.joined_loops += static_cast<std::int64_t>(joint->second.members.size()) - 1;
        } else made[i] = add(n, in, names, add);
        break;
      }
    }
  }
  auto moved = [&](value_id v) { return made[static_cast<std::size_t>(v.node)][static_cast<std::size_t>(v.result)]; };
  for (const auto& o : p.outputs()) r.output(o.name, moved(o.value));
  r.path = p.path;
  for (const auto& a : p.assignments()) r.assign(made[static_cast<std::size_t>(a.state)][0], moved(a.value));
  counters.nodes = static_cast<std::int64_t>(r.nodes().size());
  return r;
}

}  // namespace lamina
