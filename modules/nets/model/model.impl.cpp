module lamina:model.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :execute;
import :model;
import :model.adapted;
import :op;
import :op.control;
import :op.elementwise;
import :passes;
import :parameter;
import :parameter.naming;
import :plan;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- tracing --------------------------------------------------------------------------------------------------------

trace_scope trace_scope::nested(const label& name) const {
  trace_scope s = *this;
  s.path_.push_back(name);
  return s;
}
void trace_scope::enter(const entered_layer& l, view<const value> in) const {
  text why;
  std::vector<tensor_type> types;
  for (const auto& v : in) types.push_back(v.type());
  walk_->into.path = where(l.kind);
  l.check(l.layer, view<const tensor_type>(types), why);
  if (!why.empty()) refuse(why.view());
  if (walk_->listener) walk_->listener->entered(path_, l.kind, l.inputs, l.outputs, in);
}
std::string trace_scope::full(std::string_view name) const {
  std::string s;
  for (const auto& l : path_) s += l.string() + ".";
  return s += name;
}
std::string trace_scope::where(std::string_view kind) const {
  std::string s;
  for (const auto& l : path_) s += (s.empty() ? "" : ".") + l.string();
  return s.empty() ? std::string(kind) : "sublayer `" + s + "` (" + std::string(kind) + ")";
}
void trace_scope::refuse(std::string_view why) const {
  detail::raise(error_kind::shape, walk_->into.place() + ": " + std::string(why));
}
value trace_scope::constant(const shape& dims, double v) const {
  any_tensor numbers(tensor_type{walk_->element, dims});
  fill(numbers, initializer::constant(v), 0, {});
  return walk_->into.constant(numbers);
}

value trace_scope::leaf(const std::string& path, const tensor_type& type, const initializer& how, state_role role,
                        bool trainable) const {
  for (const auto& l : walk_->leaves->all)
    if (l.path == path) return l.at;
  walk_->leaves->all.push_back({path, type, how, role, trainable, walk_->into.input(path, type)});
  return walk_->leaves->all.back().at;
}
std::string trace_scope::renamed(const std::string& path) const {
  walk_->requested.push_back(path);
  return (*walk_->names)(path);
}
bool trace_scope::is_trainable(std::string_view name) const {
  auto names = path_;
  names.push_back(label(name));
  return !walk_->trainable || walk_->trainable(names);
}

// ---- scan bodies: separate programs, which read enclosing values as operands of the scan

trace_walk trace_scope::iteration_walk(program& body) const {
  body.path = walk_->into.path;
  return {body,    walk_->store, walk_->seed, walk_->element, walk_->training, false, walk_->trainable, nullptr,
          nullptr, walk_,        {},          walk_->listener};
}
std::vector<value> trace_scope::iteration_inputs(program& body, view<const value> outer, bool sliced) {
  std::vector<value> inputs;
  for (const auto& v : outer) {
    tensor_type t = v.type();
    if (sliced) t.dims = without_first(t.dims);
    inputs.push_back(body.input(sliced ? "sequence" : "carry", t));
  }
  return inputs;
}
void trace_scope::finish_scan(std::shared_ptr<program> body, const trace_walk& inner, view<const value> carries,
                              view<const value> sequences, view<const value> made, view<value> results,
                              bool reverse) const {
  for (const auto& v : made) body->output("result", v);
  body->path.clear();
  std::vector<value> invariants;
  for (const auto& c : inner.captured) invariants.push_back(c.first);
  auto found = lamina::scan(std::move(body), carries, sequences, invariants, reverse);
  std::copy(found.begin(), found.end(), results.begin());
}
trace_scope trace_scope::around() const {
  trace_scope s = *this;
  s.walk_ = walk_->outer;
  return s;
}
value trace_scope::outside(const value& v) const {
  if (!walk_->outer) return v;
  value near = v.same(value()) || &v.owner() == &walk_->outer->into ? v : around().outside(v);
  for (const auto& [outer, inner] : walk_->captured)
    if (outer.same(near)) return inner;
  return walk_->captured.emplace_back(near, walk_->into.input("invariant", near.type())).second;
}

value trace_scope::parameter(std::string_view name, const shape& dims, const initializer& how) const {
  if (walk_->outer) return outside(around().parameter(name, dims, how));
  auto path = full(name);
  tensor_type type{walk_->element, dims};
  if (walk_->leaves) return leaf(path, type, how, state_role::parameter, is_trainable(name));
  if (walk_->names) path = renamed(path);
  if (!walk_->store.find(path))
    walk_->store.make(path, type, how, walk_->seed, state_role::parameter, is_trainable(name));
  return walk_->into.state(path, type);
}
value trace_scope::state(std::string_view name, const shape& dims, double initial) const {
  if (walk_->outer) return outside(around().state(name, dims, initial));
  auto path = full(name);
  tensor_type type{walk_->element, dims};
  if (walk_->leaves) return leaf(path, type, initializer::constant(initial), state_role::statistic, false);
  if (walk_->names) path = renamed(path);
  if (!walk_->store.find(path))
    walk_->store.make(path, type, initializer::constant(initial), walk_->seed, state_role::statistic, false);
  return walk_->into.state(path, type);
}
void trace_scope::assign(const value& state, const value& v) const {
  if (!walk_->training) return;
  if (walk_->outer) refuse("a layer in the body of a recurrent layer cannot keep running statistics");
  if (!walk_->leaves) return walk_->into.assign(state, v);
  for (std::size_t i = 0; i < walk_->leaves->all.size(); ++i)
    if (walk_->leaves->all[i].at.same(state)) walk_->leaves->assigned.emplace_back(i, v);
}
value trace_scope::random_state() const {
  if (walk_->outer) return outside(around().random_state());
  tensor_type type{dtype::int64, shape{2}};
  if (walk_->leaves) return leaf(std::string(generator_name), type, {}, state_role::generator, false);
  if (!walk_->store.find(generator_name)) {
    any_tensor state(type);
    std::memcpy(state.mutable_data(), &walk_->seed, sizeof walk_->seed);
    walk_->store.add(std::string(generator_name), state, state_role::generator, false);
  }
  walk_->random = true;
  return walk_->into.state(generator_name, type);
}

namespace {
std::vector<value> trace_layers(const model_definition& d, program& into, parameter_store& store, std::int64_t seed,
                                bool training, view<const value> inputs) {
  if (d.of) {
    into.path.clear();
    return into.inlined(*d.of, inputs);
  }
  trace_walk walk{
      into,    store, seed, d.element, training, false, d.trainable, nullptr, d.names.empty() ? nullptr : &d.names,
      nullptr, {}};
  trace_scope scope(walk);
  std::vector<value> out(d.outputs.size());
  d.trace(scope, inputs, view<value>(out));
  into.path.clear();
  if (walk.names) walk.names->check({}, walk.requested);
  if (walk.random) {
    // Advance the generator by one step per run.
    any_tensor one(tensor_type{dtype::int64, shape{2}});
    const std::int64_t step[] = {0, 1};
    std::memcpy(one.mutable_data(), step, sizeof step);
    value state = into.state(generator_name, {dtype::int64, shape{2}});
    into.assign(state, state + into.constant(one));
  }
  return out;
}

}  // namespace
std::vector<value> trace(const model_definition& d, program& into, parameter_store& store, std::int64_t seed,
                         bool training, view<const value> inputs) {
  if (d.adapters.empty()) return trace_layers(d, into, store, seed, training, inputs);
  program plain;
  std::vector<value> in;
  for (std::size_t i = 0; i < inputs.size(); ++i) in.push_back(plain.input(d.inputs[i].name, inputs[i].type()));
  const auto out = trace_layers(d, plain, store, seed, training, in);
  for (std::size_t o = 0; o < out.size(); ++o) plain.output(d.outputs[o].name, out[o]);
  return with_adapters(plain, into, d.adapters, inputs);
}

// The program no longer has layers: trace them again with these shapes, so that the mismatched layer raises the error.
// Uses scratch parameters: the model's are shared and may have been folded.
void explain_mismatch(const model_definition& d, view<const shape> inputs) {
  program again;
  parameter_store scratch;
  std::vector<value> in;
  for (std::size_t i = 0; i < d.inputs.size(); ++i)
    in.push_back(again.input(d.inputs[i].name, {d.inputs[i].type.element, inputs[i]}));
  trace(d, again, scratch, 0, false, in);
}

// ---- model ----------------------------------------------------------------------------------------------------------

namespace {
std::shared_ptr<const program> inference_of(const model_definition& d, parameter_store& store, std::int64_t seed) {
  auto p = std::make_shared<program>();
  std::vector<value> inputs;
  for (const auto& i : d.inputs) inputs.push_back(p->input(i.name, i.type));
  auto outputs = trace(d, *p, store, seed, false, inputs);
  for (std::size_t o = 0; o < outputs.size(); ++o) p->output(d.outputs[o].name, outputs[o]);
  return p;
}
}  // namespace

model_core::model_core(model_definition d, const model_options& o, std::unique_ptr<parameter_store> parameters)
    : options_(o),
      store_(std::move(parameters)),
      where_(o.where ? o.where : std::make_shared<context>(o.threads, target_isa())) {
  d.names = o.tie;
  definition_ = std::make_shared<const model_definition>(std::move(d));
  inference_ = inference_of(*definition_, *store_, o.seed);
  session_ = session_of(inference_, where_);
}
model_core::model_core(const model_core& o)
    : definition_(o.definition_),
      options_(o.options_),
      store_(std::make_unique<parameter_store>(o.parameters())),
      where_(o.where_),
      inference_(o.inference_),
      session_(session_of(inference_, where_)) {}
// A moved-from core keeps its definition, which may still be read.
model_core::model_core(model_core&& o) noexcept
    : definition_(o.definition_),
      options_(std::move(o.options_)),
      store_(std::move(o.store_)),
      where_(std::move(o.where_)),
      inference_(std::move(o.inference_)),
      session_(std::move(o.session_)) {}
// Keeps the address of the store: others point to it, such as a `training` of this model.
model_core& model_core::operator=(model_core&& o) noexcept {
  if (this == &o) return *this;
  definition_ = o.definition_;
  options_ = std::move(o.options_);
  where_ = std::move(o.where_);
  inference_ = std::move(o.inference_);
  session_ = std::move(o.session_);
  if (store_ && o.store_) {
    *store_ = std::move(*o.store_);
    o.store_.reset();
    session_.read({store_.get(), nullptr});
  } else store_ = std::move(o.store_);
  return *this;
}
model_core::~model_core() = default;

void model_core::adapt(std::vector<weight_adapter> adapters, parameter_store parameters) {
  here();
  auto d = std::make_shared<model_definition>(*definition_);
  d->adapters = std::move(adapters);
  auto inference = inference_of(*d, parameters, options_.seed);
  definition_ = std::move(d);
  inference_ = std::move(inference);
  *store_ = std::move(parameters);
  session_ = session_of(inference_, where_);
}

void model_core::given_away() {
  detail::raise(error_kind::state,
                "this model was given to a factory or moved to another model, and has no parameters any more; "
                "a factory made from a copy leaves it as it is");
}
std::unique_ptr<parameter_store> model_core::take_parameters() {
  here();
  session_ = {};
  return std::move(store_);
}

session model_core::session_of(std::shared_ptr<const program> p, std::shared_ptr<context> where) const {
  here();
  session made(std::move(p), {store_.get(), nullptr}, std::move(where), options_.passes);
  made.on_mismatch([d = definition_](view<const shape> inputs) { explain_mismatch(*d, inputs); });
  return made;
}

void model_core::threads(int n) {
  here();
  options_.threads = n;
  where_ = std::make_shared<context>(n, where_->isa());
  session_ = session_of(inference_, where_);
}

std::shared_ptr<const plan> model_core::plan_for(view<const shape> inputs) const {
  here();
  return session_.plans(inputs)[0];
}

std::string model_core::explain(view<const shape> inputs) const {
  here();
  return session_.explain(inputs);
}
void detail::leading_is_counted(std::size_t output, const shape& s) {
  text t;
  raise(error_kind::shape,
        t << "output " << output << " is " << s
          << "; a call without the leading dimension returns one row; give the inputs all dimensions");
}

}  // namespace lamina
