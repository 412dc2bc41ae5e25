module lamina:op.control.impl;
import :core;
import :dtype;
import :op;
import :op.box;
import :op.control;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.sized;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
std::vector<value> results_of(program& owner, value_id first, std::size_t count) {
  std::vector<value> results;
  for (std::size_t i = 0; i < count; ++i)
    results.emplace_back(&owner, value_id{first.node, static_cast<std::int32_t>(i)});
  return results;
}
// Raises an error of a function, with the call's location and the function's name.
[[noreturn]] void refuse(const program* owner, std::string_view function, error_kind kind, const text& why) {
  text t;
  if (!owner) t << origin::prefix();
  else if (const std::string here = owner->place(); !here.empty()) t << here << ": ";
  detail::raise(kind, t << function << ": " << why);
}
// Checks the requirements on any subprogram; `which` names it in messages.
void check_subprogram(const program* owner, std::string_view function, const program* sub, std::string_view which) {
  text t;
  if (!sub) refuse(owner, function, error_kind::value, t << "the " << which << " is a null pointer");
  if (!sub->states().empty() || !sub->assignments().empty())
    refuse(owner, function, error_kind::state, t << "a subprogram cannot have states");
}
// Checks that an operand fits the subprogram's input.
void check_operand(const program& owner, std::string_view function, const tensor_type& given, std::string_view what,
                   std::size_t i, const tensor_type& expected, std::string_view which) {
  text t;
  if (accepts(expected, given)) return;
  refuse(&owner, function,
         expected.element != given.element || expected.kind != given.kind ? error_kind::type : error_kind::shape,
         t << what << " " << i << " is " << given << "; the " << which << " takes " << expected);
}
const tensor_type& input_type(const program& p, std::size_t i) { return p.at(p.inputs()[i]).results[0]; }
}  // namespace

std::vector<value> call(std::shared_ptr<const program> subprogram, view<const value> operands, const origin&) {
  text t;
  if (operands.empty()) refuse(nullptr, "call", error_kind::value, t << "a subprogram takes at least one operand");
  program& owner = operands[0].owner();
  check_subprogram(&owner, "call", subprogram.get(), "subprogram");
  if (operands.size() != subprogram->inputs().size())
    refuse(&owner, "call", error_kind::value,
           t << "the subprogram takes " << subprogram->inputs().size() << " operands; got " << operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i)
    check_operand(owner, "call", operands[i].type(), "operand", i, input_type(*subprogram, i), "subprogram");
  auto outputs = subprogram->outputs().size();
  value_id id = owner.add(record<op::call>, std::make_shared<const no_attributes>(), operands, {std::move(subprogram)});
  return results_of(owner, id, outputs);
}

namespace {
// The program that computes the wanted gradients of a subprogram's inputs from its inputs and the gradients of its
// outputs. Its inputs are the node's operands from `first` on.
std::shared_ptr<const program> backward_of(const gradient_call& c, const program& forward, std::size_t first) {
  auto backward = std::make_shared<program>();
  std::vector<value> inputs, of, start, wanted;
  for (std::size_t i = first; i < c.inputs.size(); ++i)
    inputs.push_back(backward->input(forward.at(forward.inputs()[i - first]).name, c(i).type()));
  auto outputs = backward->inlined(forward, inputs);
  for (std::size_t r = 0; r < outputs.size(); ++r) {
    if (c.gradients[r].empty()) continue;
    of.push_back(outputs[r]);
    start.push_back(backward->input("gradient", c.gradients[r].type()));
  }
  for (std::size_t i = first; i < c.inputs.size(); ++i)
    if (c.wanted[i]) wanted.push_back(inputs[i - first]);
  for (const auto& g : c.reverse(*backward, of, start, wanted)) backward->output("gradient", g);
  return backward;
}
// Operands of such a program, and assignment of its results.
std::vector<value> operands_of_backward(const gradient_call& c, std::size_t first) {
  std::vector<value> given;
  for (std::size_t i = first; i < c.inputs.size(); ++i) given.push_back(c(i));
  for (const auto& g : c.gradients)
    if (!g.empty()) given.push_back(g);
  return given;
}
void take_gradients(gradient_call& c, view<const value> results, std::size_t first) {
  for (std::size_t i = first, next = 0; i < c.inputs.size(); ++i)
    if (c.wanted[i]) c.out[i] = results[next++];
}
}  // namespace

void gradient_of_call(gradient_call& c, const program& forward) {
  take_gradients(c, lamina::call(backward_of(c, forward, 0), operands_of_backward(c, 0)), 0);
}
void op::call::gradient(gradient_call& c) { gradient_of_call(c, *c.of.subprograms[0]); }

void op::in_training::gradient(gradient_call& c) {
  c(0, [&] { return c.gradient(); });
}
void op::in_training::emit(emission& e) { detail::emit_copy(e); }

// ---- cond -----------------------------------------------------------------------------------------------------------

void op::cond::inside(const void*, std::vector<tensor_type>& in, text& why) {
  if (in[0].element != dtype::boolean || (in[0].dims.is_static() && in[0].dims.size() != 1))
    why << "the predicate is " << in[0] << "; expected one bool";
  in.erase(in.begin());
}

std::vector<value> cond(const value& predicate, std::shared_ptr<const program> then,
                        std::shared_ptr<const program> otherwise, view<const value> operands, const origin&) {
  const program* both[] = {then.get(), otherwise.get()};
  const std::string_view names[] = {"first program", "second program"};
  program& owner = predicate.owner();
  for (std::size_t b = 0; b < 2; ++b) {
    check_subprogram(&owner, "cond", both[b], names[b]);
    const program& p = *both[b];
    text t;
    refuse_counted(p, "cond", owner.place());
    if (p.inputs().size() != operands.size() || operands.empty())
      refuse(&owner, "cond", error_kind::value,
             t << "the " << names[b] << " takes " << p.inputs().size() << " operands; got " << operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i)
      check_operand(owner, "cond", operands[i].type(), "operand", i, input_type(p, i), names[b]);
  }
  if (then->outputs().size() != otherwise->outputs().size()) {
    text t;
    refuse(&owner, "cond", error_kind::value,
           t << "the first program gives " << then->outputs().size() << " results and the second "
             << otherwise->outputs().size());
  }
  std::vector<value> all{predicate};
  all.insert(all.end(), operands.begin(), operands.end());
  const auto outputs = then->outputs().size();
  value_id id = owner.add(record<op::cond>, std::make_shared<const no_attributes>(), all,
                          {std::move(then), std::move(otherwise)});
  return results_of(owner, id, outputs);
}

// Gradient of the branch that ran; it recomputes the forward values that it reads.
void op::cond::gradient(gradient_call& c) {
  const auto backward = [&](std::size_t branch) { return backward_of(c, *c.of.subprograms[branch], 1); };
  take_gradients(c, lamina::cond(c(0), backward(0), backward(1), operands_of_backward(c, 1)), 1);
}

// A scan over a counter: each iteration runs the body, or passes its carries on once the predicate is false.
std::vector<value> loop(std::int64_t max, const value& first, std::shared_ptr<const program> body,
                        view<const value> carries, view<const value> invariants, const origin&) {
  const std::size_t given = carries.size() + invariants.size();
  program& owner = first.owner();
  text t;
  const auto fail = [&](error_kind kind, const text& why) { refuse(&owner, "loop", kind, why); };
  if (max < 1) fail(error_kind::value, t << "max is " << max << "; expected at least 1");
  if (carries.empty()) fail(error_kind::value, t << "expected at least one carry");
  check_subprogram(&owner, "loop", body.get(), "subprogram");
  if (body->inputs().size() != given)
    fail(error_kind::value, t << "the subprogram takes " << body->inputs().size() << " operands; got " << given);
  if (body->outputs().size() != carries.size() + 1)
    fail(error_kind::value, t << "the subprogram gives " << body->outputs().size()
                              << " results; expected a predicate and " << carries.size() << " carries");
  refuse_counted(*body, "loop", owner.place());
  const tensor_type predicate{dtype::boolean, {}}, next = body->type(body->outputs()[0].value);
  const auto check_truth = [&](const tensor_type& is, std::string_view which) {
    if (is != predicate)
      fail(is.element == dtype::boolean ? error_kind::shape : error_kind::type,
           t << "the predicate for the " << which << " iteration is " << is << "; expected bool []");
  };
  check_truth(first.type(), "first");
  check_truth(next, "next");
  for (std::size_t i = 0; i < carries.size(); ++i) {
    const tensor_type &is = carries[i].type(), &made = body->type(body->outputs()[i + 1].value);
    check_operand(owner, "loop", is, "carry", i, input_type(*body, i), "subprogram");
    if (made.element != is.element || (!fits(made.dims, is.dims) && !fits(is.dims, made.dims)))
      fail(made.element != is.element ? error_kind::type : error_kind::shape,
           t << "carry " << i << " is " << is << "; an iteration gives " << made << " for it");
  }
  for (std::size_t i = 0; i < invariants.size(); ++i)
    check_operand(owner, "loop", invariants[i].type(), "invariant", i, input_type(*body, carries.size() + i),
                  "subprogram");

  auto wait = std::make_shared<program>();
  std::vector<value> waiting;
  for (auto i : body->inputs()) waiting.push_back(wait->input(body->at(i).name, body->at(i).results[0]));
  any_tensor no(predicate);
  std::memset(no.mutable_data(), 0, no.bytes());
  wait->output("predicate", wait->constant(std::move(no)));
  for (std::size_t i = 0; i < carries.size(); ++i) wait->output("carry", waiting[i]);

  auto each = std::make_shared<program>();
  each->path = owner.path;
  each->origins = owner.origins;
  const value active = each->input("predicate", predicate);
  std::vector<value> operands;
  for (std::size_t i = 0; i < carries.size(); ++i) operands.push_back(each->input("carry", carries[i].type()));
  each->input("iteration", {dtype::boolean, {}});
  for (std::size_t i = 0; i < invariants.size(); ++i)
    operands.push_back(each->input("invariant", invariants[i].type()));
  for (const auto& v : lamina::cond(active, std::move(body), std::move(wait), operands)) each->output("carry", v);

  std::vector<value> all{first};
  all.insert(all.end(), carries.begin(), carries.end());
  any_tensor iterations(tensor_type{dtype::boolean, {max}});
  std::memset(iterations.mutable_data(), 0, iterations.bytes());
  const value counted = owner.constant(std::move(iterations));
  auto results = lamina::scan(std::move(each), all, {&counted, 1}, invariants);
  results.erase(results.begin());
  return results;
}

// ---- scan -----------------------------------------------------------------------------------------------------------

void op::scan::inside(const void* attributes, std::vector<tensor_type>& in, text& why) {
  const auto& a = *static_cast<const scan_attributes*>(attributes);
  const auto count = static_cast<std::int64_t>(in.size());
  if (a.carries < 0 || a.carries > count || a.sequences < 1 || a.sequences > count - a.carries) {
    why << a.carries << " carries and " << a.sequences << " sequences do not fit " << count << " operands";
    return;
  }
  auto first = static_cast<std::size_t>(a.carries), end = first + static_cast<std::size_t>(a.sequences);
  dim length = dyn;
  for (std::size_t i = first; i < end && why.empty(); ++i) {
    shape& s = in[i].dims;
    if (s.rank == 0) why << "sequence " << i - first << " is a scalar; expected a first axis to iterate over";
    else if (!may_equal(length, s[0])) why << "the sequences differ in length: " << length << " and " << s[0];
    else {
      length = better(length, s[0]);
      s = without_first(s);
    }
  }
}

// Sequences and stacked results have the iterations as first axis.
void op::scan::map_axis(const scan_attributes& a, axis_map& m) {
  const auto carries = static_cast<std::size_t>(a.carries), moving = carries + static_cast<std::size_t>(a.sequences);
  for (std::size_t k = carries; k < moving; ++k) ++m.operands[k];
  for (std::size_t r = carries; r < m.results.size(); ++r) ++m.results[r];
  m.carried = a.carries;
  m.independent = true;
}

void op::scan::outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results,
                       text& why) {
  const auto& a = *static_cast<const scan_attributes*>(attributes);
  auto carries = static_cast<std::size_t>(a.carries);
  if (results.size() < carries) {
    why << "the subprogram gives " << results.size() << " results for " << carries << " carries";
    return;
  }
  dim length = dyn;
  for (std::size_t i = carries; i < carries + static_cast<std::size_t>(a.sequences); ++i)
    length = better(length, in[i].dims[0]);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (i >= carries) {
      results[i].dims = with_first(length, results[i].dims);
      continue;
    }
    const tensor_type& before = in[i];
    if (before.element != results[i].element || !fits(before.dims, results[i].dims)) {
      why << "carry " << i << " is " << before << "; an iteration gives " << results[i] << " for it";
      return;
    }
    results[i] = before;
  }
}

std::vector<value> scan(std::shared_ptr<const program> body, view<const value> carries, view<const value> sequences,
                        view<const value> invariants, bool reverse, const origin&) {
  text t;
  if (sequences.empty())
    refuse(carries.empty() ? nullptr : &carries[0].owner(), "scan", error_kind::value,
           t << "expected at least one sequence");
  program& owner = sequences[0].owner();
  const auto fail = [&](error_kind kind, const text& why) { refuse(&owner, "scan", kind, why); };
  check_subprogram(&owner, "scan", body.get(), "subprogram");
  refuse_counted(*body, "scan", owner.place());
  std::vector<value> operands(carries.begin(), carries.end());
  operands.insert(operands.end(), sequences.begin(), sequences.end());
  operands.insert(operands.end(), invariants.begin(), invariants.end());
  if (operands.size() != body->inputs().size())
    fail(error_kind::value,
         t << "the subprogram takes " << body->inputs().size() << " operands; got " << operands.size());
  if (body->outputs().size() < carries.size())
    fail(error_kind::value,
         t << "the subprogram gives " << body->outputs().size() << " results for " << carries.size() << " carries");
  const scan_attributes a{static_cast<std::int64_t>(carries.size()), static_cast<std::int64_t>(sequences.size()),
                          reverse};
  std::vector<tensor_type> inside;
  for (const auto& v : operands) inside.push_back(v.type());
  op::scan::inside(&a, inside, t);
  if (!t.empty()) fail(error_kind::shape, t);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (const auto& expected = input_type(*body, i);
        expected.element != inside[i].element || !fits(expected.dims, inside[i].dims))
      fail(error_kind::shape,
           t << "operand " << i << " is " << inside[i] << " in each iteration; the subprogram takes " << expected);
  auto outputs = body->outputs().size();
  value_id id = owner.add(record<op::scan>, std::make_shared<const scan_attributes>(a), operands, {std::move(body)});
  return results_of(owner, id, outputs);
}

namespace {

// Copies the nodes that roots need from one program into another. Values in `stored` are replaced by that value.
// Operands of which only the shape is read are copied themselves: they are never computed.
class copier {
 public:
  copier(const program& from, program& to) : from_(from), to_(to) {}
  std::map<value_id, value> stored, given;  // replaces a value wherever it is read; replaces an input
  value operator()(value_id v) { return reach(v, true); }

 private:
  value reach(value_id v, bool read) {
    // Visits operands first, with an explicit stack: bodies may be deep.
    std::vector<std::pair<value_id, bool>> stack{{v, read}};
    while (!stack.empty()) {
      auto [at, reads] = stack.back();
      if (found(at, reads)) {
        stack.pop_back();
        continue;
      }
      const node& n = from_.at(at);
      bool ready = true;
      for (std::size_t k = 0; k < n.inputs.size(); ++k) {
        bool inner = reads && n.reads_data(k);
        if (!found(n.inputs[k], inner)) {
          stack.push_back({n.inputs[k], inner});
          ready = false;
        }
      }
      if (!ready) continue;
      stack.pop_back();
      made_[{at.node, reads}] = copy(n, reads);
    }
    return *found(v, read);
  }
  std::optional<value> found(value_id v, bool read) const {
    if (auto g = given.find(v); g != given.end()) return g->second;
    if (read)
      if (auto s = stored.find(v); s != stored.end()) return s->second;
    auto m = made_.find({v.node, read});
    if (m == made_.end()) return {};
    return value(&to_, {m->second.node, v.result});
  }
  value_id copy(const node& n, bool reads) {
    if (n.kind == node_kind::constant) return to_.constant(n).id();
    std::vector<value> in;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) in.push_back(*found(n.inputs[k], reads && n.reads_data(k)));
    to_.path = n.path;
    return to_.add(*n.op, n.attributes, in, n.subprograms);
  }
  const program& from_;
  program& to_;
  std::map<std::pair<std::int32_t, bool>, value_id> made_;
};

// How the gradient of one iteration contributes to that of an operand.
enum class gathering {
  carried,  // of a carry: passed from iteration to iteration
  stacked,  // of a sequence: one per iteration
  summed,   // of an invariant: summed over the iterations
  multiplied  // of an invariant, if it is a product: stacks the factors, and one product over all iterations gives the sum
};
struct iteration_gradient {
  std::size_t operand;
  value found{};
  gathering how{};
  value_id a{}, b{};  // the factors
};

// The body and its gradient in one program.
struct differentiated_body {
  std::size_t carries = 0, first_invariant = 0;  // of the scan's operands: carries, then sequences, then invariants
  std::shared_ptr<program> both = std::make_shared<program>();
  std::vector<value> inputs, outputs;
  std::vector<value> arriving;                // gradients of the outputs; empty for an output without one
  std::int32_t boundary = 0;                  // nodes before it belong to the body
  std::vector<iteration_gradient> gradients;  // in operand order
};

// Whether the sum of a gradient over all iterations is a product of stacked factors; records the factors.
bool is_product(const program& p, iteration_gradient& g) {
  const node& n = p.at(g.found.id());
  if (!is_call_of<op::matmul>(n)) return false;
  const auto& at = *static_cast<const matmul_attributes*>(n.attributes.get());
  g.a = n.inputs[0];
  g.b = n.inputs[1];
  const auto stacks = [&](value_id v) { return p.type(v).dims.rank == 2 && p.type(v).dims[1] != dim(dyn); };
  return at.transpose_a && !at.transpose_b && stacks(g.a) && stacks(g.b);
}

differentiated_body differentiate(const gradient_call& c) {
  const auto& a = c.attributes<scan_attributes>();
  const program& body = *c.of.subprograms[0];
  const auto floating = [&](std::size_t i) { return is_floating(c(i).type().element); };
  differentiated_body d;
  d.carries = static_cast<std::size_t>(a.carries);
  d.first_invariant = d.carries + static_cast<std::size_t>(a.sequences);
  for (auto i : body.inputs()) d.inputs.push_back(d.both->input(body.at(i).name, body.at(i).results[0]));
  d.outputs = d.both->inlined(body, d.inputs);
  d.boundary = static_cast<std::int32_t>(d.both->nodes().size());
  d.arriving.resize(d.outputs.size());
  std::vector<value> of, start, wanted;
  for (std::size_t r = 0; r < d.outputs.size(); ++r) {
    // Every floating carry has a gradient, because the next iteration may; so has every stacked result that is read.
    if (r < d.carries ? !floating(r) : c.gradients[r].empty()) continue;
    d.arriving[r] = d.both->input("gradient", d.outputs[r].type());
    of.push_back(d.outputs[r]);
    start.push_back(d.arriving[r]);
  }
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!floating(i) || !(i < d.carries || c.wanted[i])) continue;
    d.gradients.push_back({i});
    wanted.push_back(d.inputs[i]);
  }
  const auto found = c.reverse(*d.both, of, start, wanted);
  for (std::size_t k = 0; k < found.size(); ++k) {
    auto& g = d.gradients[k];
    g.found = found[k];
    if (g.operand < d.carries) g.how = gathering::carried;
    else if (g.operand < d.first_invariant) g.how = gathering::stacked;
    else g.how = is_product(*d.both, g) ? gathering::multiplied : gathering::summed;
  }
  return d;
}

// Values of the body that its gradient reads, except loop invariants.
std::set<value_id> values_to_store(const differentiated_body& d) {
  const program& both = *d.both;
  std::vector<char> varies(static_cast<std::size_t>(d.boundary));
  for (std::size_t i = 0; i < d.first_invariant; ++i) varies[static_cast<std::size_t>(d.inputs[i].id().node)] = 1;
  for (std::size_t i = 0; i < varies.size(); ++i)
    for (auto v : both.nodes()[i].inputs) varies[i] = varies[i] || varies[static_cast<std::size_t>(v.node)];

  std::vector<value_id> stack;
  for (const auto& g : d.gradients) {
    if (g.how == gathering::multiplied) stack.insert(stack.end(), {g.a, g.b});
    else stack.push_back(g.found.id());
  }
  std::set<value_id> seen, stored;
  while (!stack.empty()) {
    const auto v = stack.back();
    stack.pop_back();
    if (!seen.insert(v).second) continue;
    const node& n = both.at(v);
    if (n.kind != node_kind::operation) continue;
    if (v.node < d.boundary && varies[static_cast<std::size_t>(v.node)]) {
      stored.insert(v);
      continue;
    }
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k)) stack.push_back(n.inputs[k]);
  }
  return stored;
}

// Values of the body, stacked over all iterations: the sequences, and, from a scan like the forward one with more
// results, the carries at the start of each iteration and the values to store.
std::map<value_id, value> stacked_values(const gradient_call& c, const differentiated_body& d,
                                         const std::set<value_id>& to_store) {
  const program& body = *c.of.subprograms[0];
  auto storing = std::make_shared<program>();
  copier copy(*d.both, *storing);
  std::vector<value> inputs;
  for (std::size_t i = 0; i < d.inputs.size(); ++i) {
    const node& n = body.at(body.inputs()[i]);
    inputs.push_back(storing->input(n.name, n.results[0]));
    copy.given[d.inputs[i].id()] = inputs[i];
  }
  for (std::size_t r = 0; r < d.outputs.size(); ++r) storing->output(body.outputs()[r].name, copy(d.outputs[r].id()));
  for (std::size_t i = 0; i < d.carries; ++i) storing->output("before", inputs[i]);
  for (auto v : to_store) storing->output("stored", copy(v));
  const auto results = lamina::scan(std::move(storing), c.inputs.subview(0, d.carries),
                                    c.inputs.subview(d.carries, d.first_invariant - d.carries),
                                    c.inputs.subview(d.first_invariant, c.inputs.size() - d.first_invariant),
                                    c.attributes<scan_attributes>().reverse);
  auto next = results.begin() + static_cast<std::ptrdiff_t>(d.outputs.size());
  std::map<value_id, value> stacked;
  for (std::size_t i = 0; i < d.carries; ++i) stacked[d.inputs[i].id()] = *next++;
  for (std::size_t i = d.carries; i < d.first_invariant; ++i) stacked[d.inputs[i].id()] = c(i);
  for (auto v : to_store) stacked[v] = *next++;
  return stacked;
}

// The backward body and the operands of its scan. Carries: gradients of the carries, then sums of the invariants'
// gradients. Sequences: carries before the iteration, the sequences, arriving gradients, stored values.
struct backward_body {
  explicit backward_body(const program& both) : copy(both, *body) {}
  std::shared_ptr<program> body = std::make_shared<program>();
  copier copy;  // of the body and its gradient
  std::vector<value> carries, sequences, invariants;
  std::vector<value> sums;  // inputs for the sums so far
};

backward_body backward_inputs(const gradient_call& c, const differentiated_body& d,
                              const std::map<value_id, value>& stacked, const std::set<value_id>& stored) {
  const auto zero_like = [](const value& v) {
    return value(lamina::broadcast_like(v.owner().number(0.0, v.type().element), v));
  };
  backward_body b(*d.both);
  program& back = *b.body;
  const auto walk = [&](const value& sequence) {
    b.sequences.push_back(sequence);
    return back.input("sequence", {sequence.type().element, without_first(sequence.shape())});
  };
  for (const auto& g : d.gradients) {
    const auto i = g.operand;
    if (g.how == gathering::carried) {
      b.copy.given[d.arriving[i].id()] = back.input("gradient", c(i).type());
      b.carries.push_back(c.gradients[i].empty() ? zero_like(c.result(i)) : c.gradient(i));
    } else if (g.how == gathering::summed) {
      b.sums.push_back(back.input("sum", c(i).type()));
      b.carries.push_back(zero_like(c(i)));
    }
  }
  for (std::size_t i = 0; i < d.first_invariant; ++i)
    b.copy.given[d.inputs[i].id()] = walk(stacked.at(d.inputs[i].id()));
  for (std::size_t r = d.carries; r < d.outputs.size(); ++r)
    if (!d.arriving[r].empty()) b.copy.given[d.arriving[r].id()] = walk(c.gradients[r]);
  for (auto v : stored) b.copy.stored[v] = walk(stacked.at(v));
  for (std::size_t i = d.first_invariant; i < c.inputs.size(); ++i) {
    b.invariants.push_back(c(i));
    b.copy.given[d.inputs[i].id()] = back.input("invariant", c(i).type());
  }
  return b;
}

}  // namespace

// Reverse pass over the iterations: the gradients of the carries are the carries of a scan in the other direction;
// gradients of invariants are summed, or computed from stacked factors after it. Forward values that the gradients read
// are stored by a second scan with more results; planning merges it with the original scan.
void op::scan::gradient(gradient_call& c) {
  const auto d = differentiate(c);
  const auto stored = values_to_store(d);
  const auto stacked = stacked_values(c, d, stored);
  backward_body b = backward_inputs(c, d, stacked, stored);
  program& back = *b.body;

  std::vector<value> gradients;  // of the body
  for (const auto& g : d.gradients)
    gradients.push_back(g.how == gathering::multiplied ? value() : b.copy(g.found.id()));
  for (std::size_t k = 0; k < gradients.size(); ++k)
    if (d.gradients[k].how == gathering::carried) back.output("gradient", gradients[k]);
  for (std::size_t k = 0, next = 0; k < gradients.size(); ++k)
    if (d.gradients[k].how == gathering::summed) back.output("sum", b.sums[next++] + gradients[k]);
  std::map<value_id, std::size_t> given;  // stacked results
  const auto give = [&](std::string_view name, value_id v) {
    if (!stacked.contains(v) && given.try_emplace(v, back.outputs().size()).second) back.output(name, b.copy(v));
  };
  for (const auto& g : d.gradients) {
    if (g.how == gathering::multiplied) give("factor", g.a), give("factor", g.b);
    else if (g.how == gathering::stacked) give("gradient", g.found.id());
  }
  back.path.clear();
  const auto made =
      lamina::scan(std::move(b.body), b.carries, b.sequences, b.invariants, !c.attributes<scan_attributes>().reverse);
  const auto all = [&](value_id v) {
    const auto known = stacked.find(v);
    return known != stacked.end() ? known->second : made[given.at(v)];
  };
  const auto rows = [&](value_id v) { return lamina::reshape(all(v), shape{dyn, all(v).shape()[2]}); };
  std::size_t next = 0;  // among the scan's carries
  for (const auto& g : d.gradients) {
    value& out = c.out[g.operand];
    if (g.how == gathering::multiplied) out = lamina::matmul(rows(g.a), rows(g.b), {.transpose_a = true});
    else if (g.how == gathering::stacked) out = all(g.found.id());
    else if (const value& sum = made[next++]; c.wanted[g.operand]) out = sum;
  }
}

}  // namespace lamina
