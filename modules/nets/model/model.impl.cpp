module lamina:model.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :execute;
import :io;
import :model;
import :op;
import :op.control;
import :op.elementwise;
import :passes;
import :parameter;
import :parameter.naming;
import :plan;
import :plan_cache;
import :program;
import :runner;
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
  walk_->met.push_back(path);
  return (*walk_->names)(path);
}
bool trace_scope::is_trainable(std::string_view name) const {
  auto names = path_;
  names.push_back(label(name));
  return !walk_->trainable || walk_->trainable(names);
}

// ---- iterations of scans: programs of their own, which read what stands around them as operands of the scan

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

std::vector<value> trace(const model_definition& d, program& into, parameter_store& store, std::int64_t seed,
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
  if (walk.names) walk.names->check({}, walk.met);
  if (walk.random) {
    // The generator moves on by one step a run.
    any_tensor one(tensor_type{dtype::int64, shape{2}});
    const std::int64_t step[] = {0, 1};
    std::memcpy(one.mutable_data(), step, sizeof step);
    value state = into.state(generator_name, {dtype::int64, shape{2}});
    into.assign(state, state + into.constant(one));
  }
  return out;
}

executor& executor_at(plan_runner& plans, view<const shape> inputs, const model_definition& d) {
  try {
    return plans.at(inputs);
  } catch (const shape_error& e) {
    if (std::string_view(e.what()).starts_with("input `")) throw;
  }
  // The program has no layers any more: they are walked again with these extents, and the one that does not fit says so.
  // Into parameters of their own: those of the model are shared, and may have been folded.
  program again;
  parameter_store scratch;
  std::vector<value> in;
  for (std::size_t i = 0; i < d.inputs.size(); ++i)
    in.push_back(again.input(d.inputs[i].name, {d.inputs[i].type.element, inputs[i]}));
  trace(d, again, scratch, 0, false, in);
  return plans.at(inputs);
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
    : definition_(std::move(d)),
      options_(o),
      store_(std::move(parameters)),
      where_(o.where ? o.where : std::make_shared<context>(o.threads, target_isa())) {
  definition_.names = o.tie;
  inference_ = inference_of(definition_, *store_, o.seed);
  runner_ = plan_runner(inference_, {store_.get(), nullptr}, where_, options_.passes);
}
model_core::model_core(const model_core& o)
    : definition_(o.definition_),
      options_(o.options_),
      store_(std::make_unique<parameter_store>(o.parameters())),
      where_(o.where_),
      inference_(o.inference_),
      runner_(inference_, {store_.get(), nullptr}, where_, options_.passes) {}
model_core::model_core(model_core&&) noexcept = default;
// The store stays where it is: others have its address, as a `training` of this model has.
model_core& model_core::operator=(model_core&& o) noexcept {
  if (this == &o) return *this;
  definition_ = std::move(o.definition_);
  options_ = std::move(o.options_);
  where_ = std::move(o.where_);
  inference_ = std::move(o.inference_);
  runner_ = std::move(o.runner_);
  if (store_ && o.store_) {
    *store_ = std::move(*o.store_);
    o.store_.reset();
    runner_.read({store_.get(), nullptr}, nullptr);
  } else store_ = std::move(o.store_);
  return *this;
}
model_core::~model_core() = default;

void model_core::given_away() {
  detail::raise(error_kind::state,
                "this model was given to a factory or moved to another model, and has no parameters any more; "
                "a factory made from a copy leaves it as it is");
}
std::unique_ptr<parameter_store> model_core::take_parameters() {
  here();
  runner_ = {};
  return std::move(store_);
}

void model_core::threads(int n) {
  here();
  options_.threads = n;
  where_ = std::make_shared<context>(n, where_->isa());
  runner_ = plan_runner(inference_, {store_.get(), nullptr}, where_, options_.passes);
}

std::shared_ptr<const plan> model_core::plan_for(view<const shape> inputs) const {
  here();
  return where_->slot<plan_cache>().get(*inference_, inference_->id(), inputs, where_->isa(), options_.passes);
}

std::string model_core::explain(view<const shape> inputs) const {
  here();
  return plan_runner(inference_, {store_.get(), nullptr}, where_, options_.passes).explain(inputs);
}
void detail::leading_is_counted(std::size_t output, const shape& s) {
  text t;
  raise(error_kind::shape,
        t << "output " << output << " is " << s
          << ", and a call without the leading dimension has room for one row; give the inputs all dimensions");
}

// ---- files ----------------------------------------------------------------------------------------------------------

void save_parameters(const parameter_store& store, const std::string& path,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<named_tensor> all;
  for (std::size_t i = 0; i < store.size(); ++i)
    if (store[i].role() == state_role::parameter || store[i].role() == state_role::statistic)
      all.push_back({store[i].name(), store[i].value()});
  write_safetensors(path, view<const named_tensor>(all.data(), all.size()), metadata);
}

namespace {
// PyTorch keeps with the statistics of a batch norm how many batches it has seen; nothing here depends on that number.
bool counts_batches(const parameter_store& store, const safetensors_reader::entry& t) {
  constexpr std::string_view count = ".num_batches_tracked";
  if (!t.name.ends_with(count) || t.type != tensor_type{dtype::int64, {}}) return false;
  return store.find(t.name.substr(0, t.name.size() - count.size()) + ".running_mean") != nullptr;
}
}  // namespace

void load_parameters(parameter_store& store, const std::string& path) {
  const safetensors_reader file(path);
  std::vector<std::pair<parameter*, const safetensors_reader::entry*>> found;
  auto fail = [&](const std::string& name, auto&&... words) {
    text t;
    t << path << ": parameter `" << printable(name) << "` ";
    ((t << words), ...);
    detail::raise(error_kind::file, t);
  };
  for (std::size_t i = 0; i < store.size(); ++i) {
    parameter& p = store[i];
    if (p.role() != state_role::parameter && p.role() != state_role::statistic) continue;
    const auto* v = file.find(p.name());
    if (!v) fail(p.name(), "is missing");
    if (v->type != p.value().type()) fail(p.name(), "is ", v->type, " and the model expects ", p.value().type());
    found.emplace_back(&p, v);
  }
  for (const auto& t : file.tensors)
    if (!store.find(t.name) && !counts_batches(store, t))
      fail(t.name, "is in the file, but the model has none of this name");
  std::vector<any_tensor> values;  // all of them, before one is changed
  for (auto& [p, v] : found) values.push_back(file.read(*v));
  for (std::size_t i = 0; i < found.size(); ++i) found[i].first->assign(values[i]);
}

}  // namespace lamina
