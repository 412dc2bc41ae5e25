module lamina:protocol.core.impl;
import :context;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.dynamic;
import :gradient;
import :initializer;
import :model;
import :parameter;
import :parameter.naming;
import :program;
import :protocol.call;
import :protocol.collector;
import :protocol.core;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

// ---- states ---------------------------------------------------------------------------------------------------------

const layer_state* layer_states::find(std::string_view path) const {
  for (const auto& s : all_)
    if (s.path == path) return &s;
  return nullptr;
}
std::string layer_states::full(const layer_state& s) const { return layer_.empty() ? s.path : layer_ + "." + s.path; }
void layer_states::raise(error_kind kind, const text& why) const {
  text t;
  t << "layer `" << layer_ << "`: " << why;
  detail::raise(kind, t);
}

void moved_layer() { raise(error_kind::state, "this layer was moved to another one, and computes nothing any more"); }
void layer_states::check_here() const {
  if (all_.empty()) moved_layer();
}
void layer_states::init(const initializers& how, load_buffer* buffer) {
  check_here();
  std::vector<std::string> names;
  for (const auto& s : all_)
    if (s.role != state_role::generator) names.push_back(full(s));
  how.check(layer_, names);
  std::vector<std::shared_ptr<parameter>> made;  // all or none
  load_buffer known = buffer ? *buffer : load_buffer();
  for (const auto& s : all_)
    made.push_back(s.role == state_role::generator ? nullptr
                                                   : how.make(full(s), s.type, s.how, s.role, s.trainable, &known));
  if (buffer) *buffer = std::move(known);
  for (std::size_t i = 0; i < all_.size(); ++i) all_[i].is = std::move(made[i]);
  seed_ = how.seed();
}
void layer_states::load(const load_buffer& from) {
  check_here();
  for (const auto& s : all_) {
    if (s.role == state_role::generator) continue;
    const auto name = s.is ? s.is->name() : full(s);
    const auto p = from.find(name);
    text t;
    if (!p) raise(error_kind::value, t << "parameter `" << name << "` is not among the weights to load");
    if (p->value().type() != s.type)
      raise(p->value().element() == s.type.element ? error_kind::shape : error_kind::type,
            t << "parameter `" << name << "` is " << s.type << "; cannot load it from " << p->value().type());
  }
  for (auto& s : all_) {
    if (s.role == state_role::generator) continue;
    if (!s.is) s.is = std::make_shared<parameter>(full(s), any_tensor(s.type), s.role, s.trainable);
    s.is->assign(from.find(s.is->name())->value());
  }
}
void layer_states::save(load_buffer& to) const {
  check_here();
  check_ready();
  for (const auto& s : all_)
    if (s.is && !to.contains(s.is->name())) to.set(s.is->name(), s.is->value());
}
parameter& layer_states::at(std::string_view path) const {
  check_here();
  check_ready();
  const auto* s = find(path);
  if (s && s->is) return *s->is;
  text t;
  t << "no parameter `" << path << "`; there are";
  bool first = true;
  for (const auto& x : all_)
    if (x.is) {
      t << (first ? " `" : ", `") << x.path << "`";
      first = false;
    }
  raise(error_kind::value, t);
}
void layer_states::check_ready() const {
  for (const auto& s : all_) {
    text t;
    if (!s.is && s.role != state_role::generator)
      raise(error_kind::state,
            t << "parameter `" << s.path << "` has no value yet; call `init` or `load_weights` first");
  }
}

// ---- tracing --------------------------------------------------------------------------------------------------------

layer_program trace_layer(const layer_definition& d) {
  layer_program made;
  auto p = std::make_shared<program>();
  parameter_store unused;
  traced_leaves leaves;
  std::vector<value> in, out(d.outputs.size());
  for (std::size_t i = 0; i < d.inputs.size(); ++i) in.push_back(p->input(d.inputs[i].string(), d.input_types[i]));
  trace_walk walk{*p, unused, 0, d.element, d.training, false, d.trainable, &leaves};
  trace_scope scope(walk);
  d.trace(scope, in, view<value>(out));
  p->path.clear();
  for (std::size_t i = 0; i < out.size(); ++i) p->output(d.outputs[i].string(), out[i]);
  for (const auto& [leaf, v] : leaves.assigned) {
    p->output(leaves.all[leaf].path, v);
    made.assigned.push_back(leaf);
  }
  made.ports = out.size();
  made.leaves = std::move(leaves.all);
  made.body = callee(std::move(p));
  return made;
}

void refuse_shapes(std::string_view layer, const text& why) {
  text t;
  t << "layer `" << layer << "`: " << why;
  detail::raise(error_kind::shape, t);
}
void check_extents_of(std::string_view layer, view<const label> ports, view<const tensor_type> patterns,
                      view<const shape> given) {
  dimension_names names;
  for (std::size_t i = 0; i < given.size(); ++i) {
    text t;
    if (!fits(patterns[i].dims, given[i]))
      refuse_shapes(layer, t << "port `" << ports[i] << "` is " << patterns[i].dims << "; got " << given[i]);
    if (dim clash = names.bind(patterns[i].dims, given[i]); clash.is_name())
      refuse_shapes(layer, t << "dimension `" << clash << "` has two extents; port `" << ports[i] << "` is "
                             << patterns[i].dims << "; got " << given[i]);
  }
}

// ---- training -------------------------------------------------------------------------------------------------------

train_core::train_core(std::string name, layer_definition d)
    : d_(std::move(d)), forward_(trace_layer(d_)), states_(std::move(name)), keeps_(d_.feedback) {
  for (const auto& l : forward_.leaves) {
    states_.declare({l.path, l.type, l.how, l.role, l.trainable, nullptr});
    keeps_ = keeps_ || l.trainable;
  }
}

std::shared_ptr<const layer_call> train_core::forward(std::vector<dynamic_pointer> operands, view<const shape> in,
                                                      view<const shape> out) {
  if (!forward_.body.what) moved_layer();
  states_.check_ready();
  std::vector<any_tensor> leaves;
  for (const auto& s : states_.all()) {
    if (s.is) {
      leaves.push_back(s.is->value());
      continue;
    }
    any_tensor generator(s.type);  // each forward pass draws different numbers
    const std::int64_t now[] = {states_.seed(), step_++};
    std::memcpy(generator.mutable_data(), now, sizeof now);
    leaves.push_back(generator);
  }
  auto call = std::make_shared<const layer_call>(forward_.body, std::move(operands), std::move(leaves));
  if (keeps_) stack_.push_back({call, {in.begin(), in.end()}, {out.begin(), out.end()}});
  if (!forward_.assigned.empty()) statistics_.push_back(call);
  return call;
}

// The backward program for the given set of port gradients. Inputs: operands, port gradients, states. Outputs:
// gradients of the operands (with feedback), then of the trained parameters.
const callee& train_core::reverse(const std::vector<bool>& given) {
  for (const auto& [key, p] : reverse_)
    if (key == given) return p;
  auto p = std::make_shared<program>();
  std::vector<value> arguments, start, of, variables;
  for (std::size_t i = 0; i < d_.inputs.size(); ++i)
    arguments.push_back(p->input(d_.inputs[i].string(), d_.input_types[i]));
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i])
      start.push_back(p->input("gradient of " + d_.outputs[i].string(),
                               forward_.body.what->type(forward_.body.what->outputs()[i].value)));
  for (const auto& l : forward_.leaves) arguments.push_back(p->input(l.path, l.type));
  auto results = p->inlined(*forward_.body.what, arguments);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (given[i]) of.push_back(results[i]);
  if (d_.feedback)
    for (std::size_t i = 0; i < d_.inputs.size(); ++i)
      if (is_floating(d_.input_types[i].element)) variables.push_back(arguments[i]);
  for (std::size_t i = 0; i < forward_.leaves.size(); ++i)
    if (forward_.leaves[i].trainable) variables.push_back(arguments[d_.inputs.size() + i]);
  for (const auto& g : gradients(*p, of, start, variables)) p->output("gradient", g);
  return reverse_.emplace_back(given, std::move(p)).second;
}

train_core::reversed train_core::backward(std::vector<dynamic_pointer> given) {
  if (!forward_.body.what) moved_layer();
  if (!keeps_) return {};
  if (stack_.empty()) states_.raise(error_kind::state, text("backward, but no forward result waits for it"));
  const forwarded last = stack_.back();
  std::vector<bool> has;
  for (std::size_t i = 0; i < given.size(); ++i) {
    has.push_back(given[i] != nullptr);
    text t;
    if (given[i] && given[i]->shape() != last.out[i])
      states_.raise(error_kind::shape, t << "the gradient of port `" << d_.outputs[i] << "` is " << given[i]->shape()
                                         << "; expected " << last.out[i]);
  }
  stack_.pop_back();
  reversed r{nullptr, last.in};
  if (std::find(has.begin(), has.end(), true) == has.end()) return r;
  auto operands = last.call->operands();
  for (auto& g : given)
    if (g) operands.push_back(std::move(g));
  r.call = std::make_shared<const layer_call>(reverse(has), std::move(operands), last.call->leaves());
  std::size_t at = 0;
  if (d_.feedback)
    for (const auto& t : d_.input_types) at += is_floating(t.element);
  for (const auto& s : states_.all())
    if (s.trainable) gradients_.push_back({s.is, result_of(r.call, at++, s.type.dims)});
  return r;
}

void train_core::collect(gradient_collector& to) {
  for (auto& g : gradients_) to.add(g.weight, g.weight->value().element(), g.gradient);
  gradients_.clear();
}
void train_core::assert_neutral() const {
  if (stack_.empty()) return;
  text t;
  t << stack_.size() << (stack_.size() == 1 ? " forward result waits" : " forward results wait")
    << " for a backward pass";
  states_.raise(error_kind::state, t);
}
void train_core::update_statistics() {
  for (const auto& call : std::exchange(statistics_, {})) {
    std::vector<dynamic_pointer> now;
    for (std::size_t i = 0; i < forward_.assigned.size(); ++i) {
      const auto& s = states_.all()[forward_.assigned[i]];
      now.push_back(result_of(call, forward_.ports + i, s.type.dims));
    }
    auto values = evaluate_all(now, default_context());
    for (std::size_t i = 0; i < values.size(); ++i) states_.all()[forward_.assigned[i]].is->assign(values[i]);
  }
}

// ---- inference ------------------------------------------------------------------------------------------------------

std::shared_ptr<const layer_call> infer(const layer_program& traced, const layer_states* states, std::string_view layer,
                                        std::vector<dynamic_pointer> operands) {
  if (states) {
    states->check_here();
    states->check_ready();
  }
  std::vector<any_tensor> leaves;
  for (const auto& l : traced.leaves) {
    const auto* s = states ? states->find(l.path) : nullptr;
    text t;
    if (!s || !s->is || s->type != l.type)
      refuse_shapes(layer, t << "its parameter `" << l.path
                             << "` depends on the shapes of its inputs; use a train_layer or a model");
    leaves.push_back(s->is->value());
  }
  return std::make_shared<const layer_call>(traced.body, std::move(operands), std::move(leaves));
}

}  // namespace lamina::detail
