// Programs with static shapes: calls inlined, constants folded, rules applied.
module lamina:passes.impl;
import :context;
import :core;
import :dtype;
import :op;
import :op.control;
import :op.elementwise;
import :op.shape;
import :op.sized;
import :passes;
import :passes.cheap;
import :passes.images;
import :passes.loop_division;
import :passes.loops;
import :passes.patterns;
import :passes.rules;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using rewriting::node_of;

// Name of an input in a message; operands of an expression have no names and are numbered from 1.
std::string named(const node& input, std::size_t number) {
  text t;
  if (input.name.empty()) t << "input " << number;
  else t << "input `" << input.name << "`";
  return t.string();
}

// The extents of an operand as a constant.
value known_shape(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::shape_of>(n)) return {};
  const shape& s = in[0].shape();
  any_tensor t(tensor_type{dtype::int64, shape{dim(s.rank)}});
  for (int i = 0; i < s.rank; ++i) reinterpret_cast<std::int64_t*>(t.mutable_data())[i] = s.at(i);
  return p.constant(std::move(t));
}

void checked_case(const node& call, const value& v) {
  if (v.type() == call.results[0]) return;
  text t;
  t << call.op->name << ": a special case gives " << v.type() << " for a call that is " << call.results[0];
  detail::raise(v.type().element == call.results[0].element ? error_kind::shape : error_kind::type, t);
}

constexpr std::int64_t max_folded = 1 << 16;  // elements of a constant that folding may make

class specializer {
 public:
  specializer(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
              const constant_evaluator& evaluate, view<const known_input> known)
      : p_(p),
        given_(inputs),
        known_(known),
        options_(options),
        counters_(counters),
        evaluate_(evaluate),
        copy_(p, to_) {
    to_.path = p.path;
    to_.common_subexpressions = options.common;
  }

  program run() {
    counters_.common += p_.joined();
    const auto needed = p_.reachable();
    const auto loops = joined_loops(p_, needed);
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(p_.nodes().size()); ++i) {
      const node& n = p_.at(i);
      check_numbers(n, next_input_ + 1);
      if (n.kind == node_kind::input) copy_.set({i, 0}, bound_input(n));
      else if (!needed[static_cast<std::size_t>(i)]) continue;
      else if (n.kind != node_kind::operation) copy_.copy(i);
      else if (!taken_.contains(i)) operation(i, n, loops);
    }
    copy_.roots();
    if (auto found = rewriting::recognized(to_, options_, counters_)) to_ = *std::move(found);
    if (options_.simplify && options_.blocked_layout)
      if (auto found = rewriting::image_shapes(to_).run()) to_ = *std::move(found);
    if (options_.simplify && options_.fuse_elementwise)
      if (auto found = rewriting::cheap_values(to_).run()) to_ = *std::move(found);
    counters_.nodes = static_cast<std::int64_t>(to_.nodes().size());
    return std::move(to_);
  }

 private:
  // Programs can hold strings, but no plan computes with them.
  void check_numbers(const node& n, std::size_t next_input = 0) const {
    for (const auto& t : n.results) {
      if (t.element != dtype::string) continue;
      text w;
      if (n.kind == node_kind::input) w << named(n, next_input);
      else if (n.kind == node_kind::state) w << "state `" << n.name << "`";
      else if (n.kind == node_kind::constant) w << "a constant";
      else w << "a result of `" << n.op->name << "`";
      fail(error_kind::unsupported, w << " is " << t << "; strings cannot be computed with");
    }
  }
  // An input with its given extents, which bind its dimension names.
  value bound_input(const node& n) {
    tensor_type t = n.results[0];
    if (next_input_ >= given_.size())
      detail::raise(error_kind::value, "a program is planned with fewer input shapes than it has inputs");
    const shape& given = given_[next_input_++];
    text w;
    if (!t.is_tensor())
      detail::raise(error_kind::unsupported, w << named(n, next_input_) << " is " << t
                                               << "; a plan takes tensors only; run the program in a session");
    if (!fits(t.dims, given))
      detail::raise(error_kind::shape, w << named(n, next_input_) << " is " << t.dims << "; got " << given);
    if (dim clash = names_.bind(t.dims, given); clash.is_name()) {
      int at = 0;
      while (t.dims[at] != clash || given[at] == names_(clash)) ++at;
      w << named(n, next_input_) << ": dimension `" << clash << "` is " << given[at] << " here and " << names_(clash)
        << " in another input";
      detail::raise(error_kind::shape, w);
    }
    t.dims = given;
    const value made = to_.input(n.name, t, n.uniform);
    const auto known =
        std::find_if(known_.begin(), known_.end(), [&](const known_input& k) { return k.input == next_input_ - 1; });
    if (known == known_.end()) return made;
    any_tensor elements(t);
    if (t.bytes()) std::memcpy(elements.mutable_data(), known->data, t.bytes());
    return to_.constant(std::move(elements));
  }

  void operation(std::int32_t i, const node& n, const std::map<std::int32_t, joined_loop>& loops) {
    const auto in = copy_.operands(n);
    to_.path = n.path.empty() ? p_.path : n.path;  // errors about these extents name the layer
    const auto joint = loops.find(i);
    if (joint == loops.end()) return copy_.set(i, add(n, in, names_));
    node all = n;
    all.subprograms = {joint->second.body};
    const auto results = add(all, in, names_);
    for (const auto& [member, places] : joint->second.members) {
      taken_.insert(member);
      for (std::size_t r = 0; r < places.size(); ++r)
        if (places[r] >= 0)
          copy_.set({member, static_cast<std::int32_t>(r)}, results[static_cast<std::size_t>(places[r])]);
    }
    counters_.joined_loops += static_cast<std::int64_t>(joint->second.members.size()) - 1;
  }

  // Adds an operation on these operands, specialized; `names` are the dimension names of the program that contains it.
  std::vector<value> add(const node& n, view<const value> in, const dimension_names& names) {
    if (n.op->host)
      fail(error_kind::unsupported, text() << n.op->name
                                           << ": it runs on the host, between plans; the program runs in segments, "
                                              "which one plan cannot hold");
    if (is_call_of<op::scan>(n) || is_call_of<op::cond>(n)) return add_control(n, in);
    if (!n.subprograms.empty()) {
      ++counters_.inlined_calls;
      return in_place_of_call(*n.subprograms[0], n, in);
    }
    if (n.op->bind) return with_known_shapes(n, in);
    if (is_call_of<op::cast>(n))
      if (const auto through = through_another(n, in[0]); !through.inputs.empty()) {
        const auto between = add(through, in, names);
        return add_alone(n, between, names);
      }
    return add_alone(n, in, names);
  }
  // The first of two casts that replace one; without operands where one cast suffices.
  node through_another(const node& cast, const value& x) const {
    const auto& a = cast.attributes_as<cast_attributes>();
    node first;
    const dtype between = op::cast::between(x.type().element, a.to);
    if (between == a.to) return first;
    first = cast;
    first.attributes = std::make_shared<cast_attributes>(cast_attributes{between});
    return first;
  }
  std::vector<value> add_alone(const node& n, view<const value> in, const dimension_names& names) {
    const auto before = to_.nodes().size();
    const value_id id = to_.add(*n.op, n.op->bound ? n.op->bound(n.attributes.get(), names) : n.attributes, in);
    const node made = to_.at(id);
    check_extents(made);
    if (to_.nodes().size() == before) ++counters_.common;
    if (value v = known_shape(made, in, to_); !v.empty()) return ++counters_.folded, std::vector{v};
    if (value v = folded(made, in); !v.empty()) return {v};
    if (value v = special(made, in); !v.empty()) return {v};
    if (value v = simplified(made, in); !v.empty()) return {v};
    return results_of(id, made.results.size());
  }
  std::vector<value> results_of(value_id id, std::size_t count) {
    std::vector<value> results;
    for (std::size_t k = 0; k < count; ++k) results.emplace_back(&to_, value_id{id.node, static_cast<std::int32_t>(k)});
    return results;
  }
  [[noreturn]] void fail(error_kind kind, const text& why) const {
    text w;
    if (!to_.path.empty()) w << to_.path << ": ";
    detail::raise(kind, w << why);
  }

  // Specializes the subprograms for these extents; inlines one where the condition is known or there is one iteration.
  std::vector<value> add_control(const node& n, view<const value> in) {
    std::vector<tensor_type> inside;
    for (const auto& v : in) inside.push_back(v.type());
    text why;
    n.op->inside(n.attributes.get(), inside, why);
    if (!why.empty()) fail(error_kind::shape, text() << n.op->name << ": " << why);
    std::vector<shape> extents;
    for (const auto& t : inside) extents.push_back(t.dims);
    std::vector<std::shared_ptr<const program>> subprograms;
    for (const auto& sub : n.subprograms)
      subprograms.push_back(
          std::make_shared<program>(specializer(*sub, extents, options_, counters_, evaluate_, {}).run()));
    if (is_call_of<op::cond>(n)) {
      if (const auto holds = to_.number_of(in[0].id())) {
        ++counters_.inlined_calls;
        return to_.inlined(*subprograms[*holds != 0 ? 0 : 1], view<const value>(in.data() + 1, in.size() - 1));
      }
    } else if (in[static_cast<std::size_t>(n.attributes_as<scan_attributes>().carries)].shape()[0] == dim(1))
      return single_iteration(to_, n, in, inside, *subprograms[0], counters_);
    else if (auto results = divided(n, in, *subprograms[0]); !results.empty()) return results;
    const auto count = subprograms[0]->outputs().size();
    return results_of(to_.add(*n.op, n.attributes, in, std::move(subprograms)), count);
  }
  // Adds a scan without what is computed before it; no results where that is nothing.
  std::vector<value> divided(const node& n, view<const value> in, const program& body) {
    if (!options_.simplify) return {};
    const auto carries = static_cast<std::size_t>(n.attributes_as<scan_attributes>().carries);
    const loop_division division(n, body, in[carries].shape().at(0));
    if (!division.moves()) return {};
    return division.run(in, to_, [&](const node& m, view<const value> operands) {
      ++counters_.moved_before_loops;
      return add_alone(m, operands, names_)[0];
    });
  }

  // Specializes a call whose operands decide shapes; the elements of those operands must be known by now.
  std::vector<value> with_known_shapes(const node& n, view<const value> in) {
    program alone;
    std::vector<value> operands(in.begin(), in.end()), inside, arguments;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!n.op->decides_shape(i)) {
        inside.push_back(alone.input({}, in[i].type()));
        arguments.push_back(in[i]);
        continue;
      }
      operands[i] = known_elements(in[i]);
      if (operands[i].empty())
        fail(error_kind::unsupported, text() << n.op->name << ": operand " << static_cast<std::int64_t>(i)
                                             << " decides the shape of its result and is known only at run time; the "
                                                "program runs in segments, which one plan cannot hold");
      inside.push_back(alone.constant(node_of(operands[i])));
    }
    (void)to_.add(*n.op, n.attributes, operands);  // reports elements that do not fit
    alone.path = to_.path;
    alone.output({}, n.op->bind(n.attributes.get(), inside));
    return in_place_of_call(alone, n, arguments);
  }
  // The value as a constant, evaluated from constants if necessary; empty where only a run computes it.
  value known_elements(const value& v) {
    if (node_of(v).kind == node_kind::constant) return v;
    if (!evaluate_ || !made_of_constants(v.id())) return {};
    program alone;
    rewriter copy(to_, alone);
    alone.output({}, copy.reach(v.id()));
    return to_.constant(evaluate_(alone));
  }
  bool made_of_constants(value_id v) const {
    std::set<std::int32_t> seen;
    std::vector<std::int32_t> stack{v.node};
    while (!stack.empty()) {
      const auto i = stack.back();
      stack.pop_back();
      if (!seen.insert(i).second) continue;
      const node& n = to_.at(i);
      if (n.kind != node_kind::constant && (n.kind != node_kind::operation || !n.op->pure)) return false;
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (n.reads_data(k)) stack.push_back(n.inputs[k].node);
    }
    return true;
  }

  // Inlines a called program, with its own dimension names.
  std::vector<value> in_place_of_call(const program& sub, const node& n, view<const value> in) {
    rewriter inner(sub, to_);
    std::vector<tensor_type> types;
    for (const auto& v : in) types.push_back(v.type());
    const dimension_names own = names_of(sub, types, n.op->name, to_.path);
    const std::string outer = to_.path;
    const auto reached = sub.reachable();
    std::size_t next = 0;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(sub.nodes().size()); ++i) {
      const node& m = sub.at(i);
      check_numbers(m);
      if (m.kind == node_kind::input) inner.set({i, 0}, in[next++]);
      else if (!reached[static_cast<std::size_t>(i)]) continue;
      else if (m.kind != node_kind::operation) inner.copy(i);
      else {
        to_.path = m.path.empty() ? outer : m.path;
        inner.set(i, add(m, inner.operands(m), own));
      }
    }
    to_.path = outer;
    std::vector<value> results;
    for (const auto& o : sub.outputs()) results.push_back(inner.at(o.value));
    return results;
  }

  void check_extents(const node& n) const {
    for (const auto& t : n.results)
      if (!t.dims.is_static()) {
        text w;
        w << n.op->name;
        if (is_call_of<op::truncate>(n))
          fail(error_kind::unsupported, w << ": the extent of its result is known only at run time; the program "
                                             "runs in segments, which one plan cannot hold");
        fail(error_kind::shape, w << ": result " << t.dims << " has a dimension that no input has");
      }
  }

  // Evaluates an operation on constants, or on shapes alone.
  value folded(const node& n, view<const value> in) {
    if (!options_.fold_constants || !evaluate_ || !n.op->pure || in.empty() || n.results.size() != 1 ||
        n.results[0].dims.size() > max_folded)
      return {};
    for (std::size_t k = 0; k < in.size(); ++k)
      if (n.reads_data(k) && node_of(in[k]).kind != node_kind::constant) return {};
    program alone;
    std::vector<value> operands;
    for (const auto& v : in) {
      const node& c = node_of(v);
      operands.push_back(alone.constant(c.kind == node_kind::constant ? c.constant : any_tensor(v.type())));
    }
    alone.output("folded", value(&alone, alone.add(*n.op, n.attributes, operands)));
    ++counters_.folded;
    return to_.constant(evaluate_(alone));
  }
  // Applies the first of the user's special cases that fits.
  value special(const node& n, view<const value> in) {
    for (const auto& c : options_.cases)
      if (c.operation == n.op->name && n.results.size() == 1)
        if (value v = c.rewrite({n, in, to_}); !v.empty()) {
          checked_case(n, v);
          ++counters_.cases;
          return v;
        }
    return {};
  }
  // Applies the first rule that fits.
  value simplified(const node& n, view<const value> in) {
    if (!options_.simplify) return {};
    for (int k = 0; k < static_cast<int>(std::size(rewriting::rules)); ++k) {
      if (options_.without.has(static_cast<rewrite>(k))) continue;
      if (value v = rewriting::rules[k](n, in, to_); !v.empty()) {
        ++counters_.simplified;
        ++counters_.rewritten[k];
        return v;
      }
    }
    return {};
  }

  const program& p_;
  view<const shape> given_;
  view<const known_input> known_;
  const pass_options& options_;
  pass_counters& counters_;
  const constant_evaluator& evaluate_;
  program to_;
  rewriter copy_;
  dimension_names names_;
  std::size_t next_input_ = 0;
  std::set<std::int32_t> taken_;  // scans that were merged into another one
};

}  // namespace

std::string_view name_of(memory_sharing m) {
  constexpr std::string_view names[] = {"the best of several ways", "greedy", "dynamic programming", "none"};
  return names[static_cast<int>(m)];
}
std::string_view name_of(rewrite r) {
  constexpr std::string_view names[] = {"neutral_number",
                                        "same_type",
                                        "stopped_gradient",
                                        "double_inverse",
                                        "logarithm",
                                        "composed_permutation",
                                        "composed_reshape",
                                        "transposed_operand",
                                        "scale",
                                        "power",
                                        "padding",
                                        "softmax_loss",
                                        "spread_operand",
                                        "known_positions",
                                        "nested_concatenation",
                                        "attention",
                                        "part_of_heads",
                                        "rotary_embedding",
                                        "layer_norm",
                                        "rms_norm",
                                        "softmax",
                                        "gelu",
                                        "gelu_tanh",
                                        "mish",
                                        "silu",
                                        "quick_gelu",
                                        "hard_swish",
                                        "hard_sigmoid",
                                        "sigmoid",
                                        "softplus",
                                        "channel_shuffle",
                                        "product_of_axis",
                                        "quantized_conv2d",
                                        "quantized_matmul",
                                        "quantized_linear",
                                        "quantized_add",
                                        "quantized_multiply",
                                        "quantized_average",
                                        "quantized_move",
                                        "quantized_table",
                                        "integer_linear",
                                        "integer_matmul",
                                        "integer_conv2d",
                                        "same_bytes"};
  static_assert(std::size(names) == rewrite_count);
  return names[static_cast<int>(r)];
}

std::map<std::string, std::int64_t> pass_counters::recognized() const {
  std::map<std::string, std::int64_t> found;
  for (int k = static_cast<int>(rewrite::attention); k < rewrite_count; ++k)
    if (rewritten[k]) found.emplace(name_of(static_cast<rewrite>(k)), rewritten[k]);
  return found;
}

value special_call::through(std::size_t i, std::string_view operation, std::size_t k) const {
  const node& inner = rewriting::node_of(inputs[i]);
  const bool is_it = inner.op && inner.op->library && inner.op->name == operation;  // users pass a name
  return is_it && k < inner.inputs.size() ? rewriting::operand(inner, k, owner) : value();
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

program specialized(const program& p, view<const shape> inputs, const pass_options& options, pass_counters& counters,
                    const constant_evaluator& evaluate, view<const known_input> known) {
  const auto in_int8 = rewriting::recognized_quantized(p, options, counters);
  return specializer(in_int8 ? *in_int8 : p, inputs, options, counters, evaluate, known).run();
}

}  // namespace lamina
