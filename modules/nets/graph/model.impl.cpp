module lamina:graph.model.impl;
import :core;
import :dtype;
import :graph;
import :graph.symbol_table;
import :graph.fill;
import :graph.model;
import :graph.scope;
import :model;
import :op;
import :op.control;
import :op.elementwise;
import :op.index;
import :parameter;
import :parameter.naming;
import :program;
import :shape;
import :tensor;
import :train.optim;
import lamina.std;

namespace lamina::graph {

// ---- arguments ------------------------------------------------------------------------------------------------------

namespace {

// Calls f(name, member of a, member of b) for each argument but name and model.
template <class A, class F> void each_argument(A& a, const arguments& b, F f) {
  f("kernel", a.kernel, b.kernel), f("stride", a.stride, b.stride), f("padding", a.padding, b.padding),
      f("dilation", a.dilation, b.dilation);
  f("groups", a.groups, b.groups), f("size", a.size, b.size), f("bias", a.bias, b.bias);
  f("probability", a.probability, b.probability), f("epsilon", a.epsilon, b.epsilon),
      f("momentum", a.momentum, b.momentum);
  f("alpha", a.alpha, b.alpha), f("beta", a.beta, b.beta), f("weight_fill", a.weight_fill, b.weight_fill);
  f("bias_fill", a.bias_fill, b.bias_fill), f("activation", a.activation, b.activation);
}
void fill_in(arguments& a, const arguments& from) {
  each_argument(a, from, [](std::string_view, auto& mine, const auto& theirs) {
    if (!mine) mine = theirs;
  });
}

struct known_function {
  std::string_view name;
  std::vector<std::string_view> takes;
};
const std::vector<known_function>& functions() {
  static const std::vector<known_function> all{
      {"fc", {"bias", "weight_fill", "bias_fill", "activation"}},
      {"conv", {"kernel", "stride", "padding", "dilation", "bias", "weight_fill", "bias_fill", "activation"}},
      {"group_conv",
       {"kernel", "stride", "padding", "dilation", "groups", "bias", "weight_fill", "bias_fill", "activation"}},
      {"conv_transpose", {"kernel", "stride", "padding", "dilation", "bias", "weight_fill", "bias_fill", "activation"}},
      {"max_pool", {"kernel", "stride", "padding"}},
      {"average_pool", {"kernel", "stride", "padding"}},
      {"spatial_bn", {"epsilon", "momentum", "activation"}},
      {"layer_norm", {"epsilon", "activation"}},
      {"instance_norm", {"epsilon", "activation"}},
      {"lrn", {"size", "alpha", "beta"}},
      {"dropout", {"probability"}},
      {"prelu", {}},
      {"embedding", {"weight_fill"}},
      {"rnn", {"bias"}},
      {"gru", {"bias"}},
      {"lstm", {"bias"}},
  };
  return all;
}
const known_function* find_function(std::string_view name) {
  for (const auto& f : functions())
    if (f.name == name) return &f;
  return nullptr;
}
// Raises an error for arguments that a function does not take; user-defined functions take all.
void check(std::string_view function, const arguments& a, std::string_view before, bool must_be_known) {
  const auto* f = find_function(function);
  text t;
  t << before;
  if (!f) {
    if (!must_be_known) return;
    std::vector<std::string_view> names;
    for (const auto& known : functions()) names.push_back(known.name);
    t << "there is no layer function `" << function << "`";
    suggest_names(t, function, names);
    lamina::detail::raise(error_kind::value, t);
  }
  each_argument(a, a, [&](std::string_view name, const auto& given, const auto&) {
    if (!given || std::find(f->takes.begin(), f->takes.end(), name) != f->takes.end()) return;
    t << function << " takes no `" << name << "`";
    suggest_names(t, name, f->takes);
    lamina::detail::raise(error_kind::value, t);
  });
}

struct scoped_arguments {
  std::string function;
  arguments a;
};
thread_local std::vector<scoped_arguments> scopes_of_arguments;
thread_local model* innermost = nullptr;

// One entry of a sharing: full names of scopes, without trailing slash.
struct shared_scope {
  std::string from, to;
  bool whole;  // whether a layer named exactly `from` is shared, too
  bool applied = false;
  // Maps a name; empty if it is outside the scope.
  std::optional<std::string> operator()(std::string_view name) const {
    if (!name.starts_with(from)) return {};
    name.remove_prefix(from.size());
    if (name.empty()) return whole ? std::optional(to) : std::nullopt;
    if (name[0] != '/') return {};
    return to.empty() ? std::string(name.substr(1)) : to + std::string(name);
  }
};
// An active parameter_sharing, and what was created while it lived.
struct named_sharing {
  std::string place;  // prefix of messages
  std::vector<shared_scope> scopes;
  std::set<std::string> made;  // scopes of created layers and parameters, or their names if they have no scope
  std::set<std::shared_ptr<std::string>> complaints;  // pending errors of the models involved
};
thread_local std::vector<named_sharing> sharings;

// Maps a name through all sharings. `terminates`: whether the mapping terminates. `used`: marks the applied entries as
// met.
std::string shared_name(std::string name, bool used = false, bool* terminates = nullptr) {
  if (terminates) *terminates = true;
  for (int iterations = 0; iterations < 64; ++iterations) {
    shared_scope* best = nullptr;
    for (auto s = sharings.rbegin(); s != sharings.rend(); ++s)
      for (auto& scope : s->scopes)
        if ((!best || scope.from.size() > best->from.size()) && scope(name)) best = &scope;
    if (!best) return name;
    name = *(*best)(name);
    best->applied = best->applied || used;
  }
  if (terminates) *terminates = false;
  return name;
}
void made_in_sharings(const std::string& name, const std::shared_ptr<std::string>& complaint) {
  for (auto& s : sharings) {
    s.made.insert(name.substr(0, name.rfind('/')));
    s.complaints.insert(complaint);
  }
}
// Checks the arguments of a scope: `name` and `model` are allowed only in a call.
void check_scope(std::string_view what, std::string_view function, const arguments& a) {
  const std::string before = origin::prefix() + std::string(what) + ": ";
  check(function, a, before, true);
  if (!a.name.empty())
    lamina::detail::raise(error_kind::value, before + "`name` can only be set in a call of " + std::string(function));
  if (a.model)
    lamina::detail::raise(error_kind::value, before + "`model` can only be set in a call of " + std::string(function));
}

}  // namespace

arg_scope::arg_scope(std::string_view function, const arguments& a, const origin&) {
  check_scope("arg_scope", function, a);
  scopes_of_arguments.push_back({std::string(function), a});
}
arg_scope::~arg_scope() { scopes_of_arguments.pop_back(); }
parameter_sharing::parameter_sharing(const renaming& names, const origin&) : errors_(std::uncaught_exceptions()) {
  const std::string before = origin::prefix() + "parameter_sharing: ";
  const auto in_scope = [](std::string name) {
    while (name.ends_with('/')) name.pop_back();
    name = name_scope::current() + name;
    if (name.ends_with('/')) name.pop_back();  // the name was empty: the scope itself
    return name;
  };
  named_sharing added{before, {}, {}, {}};
  for (const auto& [from, to] : names) {
    if (from.find_first_not_of('/') == from.npos)
      lamina::detail::raise(error_kind::value,
                            before + "a first name is empty; expected a scope inside the current one");
    added.scopes.push_back({in_scope(from), in_scope(to), to.find_first_not_of('/') != to.npos});
  }
  sharings.push_back(std::move(added));
  for (const auto& s : sharings)
    for (const auto& scope : s.scopes) {
      bool terminates = scope.from != scope.to;
      if (terminates) shared_name(scope.from + "/x", false, &terminates);
      if (terminates) continue;
      text t;
      t << before << "`" << scope.from << "` shares with itself or a scope inside it";
      sharings.pop_back();  // the destructor does not run if the constructor throws
      lamina::detail::raise(error_kind::value, t);
    }
}
parameter_sharing::~parameter_sharing() {
  const named_sharing ended = std::move(sharings.back());
  sharings.pop_back();
  if (ended.complaints.empty() || std::uncaught_exceptions() > errors_) return;
  for (const auto& scope : ended.scopes) {
    if (scope.applied) continue;
    text t;
    t << ended.place << "no parameters were created in scope `" << scope.from << "`, which was to share those of `"
      << scope.to << "`";
    const std::vector<std::string_view> there(ended.made.begin(), ended.made.end());
    suggest_names(t, scope.from, there);
    for (const auto& c : ended.complaints)
      if (c->empty()) *c = t.string();
  }
}

// ---- models ---------------------------------------------------------------------------------------------------------

struct model::implementation {
  implementation(std::string_view name, const model_options& o)
      : options(o), main(name, {.seed = o.seed}), init(std::string(name) + "_init", {.seed = o.seed}) {}
  implementation(net of, net filling, const model_options& o, std::vector<parameter_info> all)
      : options(o), main(std::move(of)), init(std::move(filling)) {
    for (auto& p : all) keep(std::move(p));
  }
  void keep(parameter_info p) {
    const bool learned = p.tag != parameter_tag::computed;
    const auto role = learned ? state_role::parameter : state_role::statistic;
    main.symbols().kinds.insert_or_assign(p.name, symbol_table::kind{role, learned && !p.frozen});
    by_name.try_emplace(p.name, parameters.size());
    parameters.push_back(std::move(p));
  }
  parameter_info* find(std::string_view name) {
    const auto known = by_name.find(name);
    return known == by_name.end() ? nullptr : &parameters[known->second];
  }
  // Whether a layer with this name has parameters.
  bool has_layer(const std::string& name) const {
    return std::any_of(std::begin(after_layers), std::end(after_layers), [&](char after) {
      const std::string beginning = name + after;
      const auto at = by_name.lower_bound(beginning);
      return at != by_name.end() && at->first.starts_with(beginning);
    });
  }
  static constexpr char after_layers[] = {'_', '.'};
  // Raises the pending error of an ended parameter_sharing.
  void raise_pending() const {
    if (!complaint->empty()) [[unlikely]]
      lamina::detail::raise(error_kind::value, std::exchange(*complaint, {}));
  }
  // Adds a blob with a full name, initialized by the init net.
  value add(const std::string& name, const value& v, const fill_rule& fill, const any_tensor& given) {
    const name_scope root("", true);
    if (fill) init.fill(name, v.shape(), fill, v.type().element);
    else if (given) init.given(name, given);
    return main.symbols().add(name, v, true);
  }
  // Factor for learning rates with `allow_lr_injection`; a parameter, so that it is saved.
  value lr_injection() {
    if (auto* known = find("lr_injection")) return known->at;
    main.symbols().check_free("lr_injection");
    const value v =
        add("lr_injection", main.symbols().body.state("lr_injection", {options.element, {}}), op::constant{1}, {});
    keep({"lr_injection", v, parameter_tag::computed});
    return v;
  }

  // A parameter to update, or some of its rows.
  struct update {
    std::size_t parameter;
    value weight, gradient;  // of the rows, if `positions` is set
    value positions;
  };
  // Raises an error for update options that are invalid or conflict.
  void check(const update_options& o, double rate, bool by_rows) const {
    const auto fail = [&](error_kind kind, const text& why) {
      main.symbols().fail(kind, text("add_updates: ") << why);
    };
    if (!gradients) fail(error_kind::state, text("there are no gradients; call add_gradient_operators first"));
    if (o.by_rows && !by_rows)
      fail(error_kind::value, text("`by_rows` takes an optimizer whose rows do not depend on each other: sgd, adagrad, "
                                   "ftrl or adam"));
    if (o.by_rows && o.max_gradient_norm > 0)
      fail(error_kind::value, text("`by_rows` and `max_gradient_norm` do not go together; clip dense gradients"));
    const auto from_0 = [&](std::string_view name, double x) {
      if (const text problem = lamina::detail::hyperparameter_problem(name, x, options.element); !problem.empty())
        fail(error_kind::value, problem);
    };
    if (o.rate.empty()) from_0("`lr`", rate);
    from_0("`max_gradient_norm`", o.max_gradient_norm);
  }
  // Parameters with a gradient and without an update, with their gradients after applying the options.
  std::vector<update> updates(const update_options& o) const {
    std::vector<update> all;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto& p = parameters[i];
      if (p.updated || p.frozen || p.gradient.empty() || (o.tag && p.tag != *o.tag)) continue;
      if (o.by_rows && p.at.shape().rank > 1 && gradients->is_sparse(p.at)) {
        const auto slices = gradients->slices(p.at);
        const value sums = apply<op::sum_rows_alike>({}, slices.values, slices.indices, p.at),
                    rows = gather(p.at, slices.indices);
        all.push_back({i, rows, o.regularizer.gradient(rows, sums), slices.indices});
      } else all.push_back({i, p.at, o.regularizer.gradient(p.at, p.gradient), {}});
    }
    if (all.empty())
      main.symbols().fail(error_kind::state, text("add_updates: no parameter with a gradient is left to update"));
    if (o.max_gradient_norm > 0) {
      std::vector<value> whole;
      for (const auto& u : all) whole.push_back(u.gradient);
      const auto clipped = optim::clip_by_global_norm(view<const value>(whole), o.max_gradient_norm);
      for (std::size_t i = 0; i < all.size(); ++i) all[i].gradient = clipped[i];
    }
    return all;
  }
  // Assigns a blob its next value, or the next values of its rows at `positions`.
  void assign(const std::string& name, const value& blob, const value& positions, const value& next) {
    auto& symbols = main.symbols();
    symbols.assign(name, symbols.blobs.find(name)->second,
                   positions.empty() ? next : value(apply<op::put_rows>({}, blob, positions, next)));
  }

  model_options options;
  net main, init;
  std::vector<parameter_info> parameters;
  std::map<std::string, std::size_t, std::less<>> by_name;  // index in `parameters`
  std::map<std::string, int> next_auto;                     // next number for unnamed layers, by base name
  std::shared_ptr<std::string> complaint = std::make_shared<std::string>();
  std::set<std::pair<std::string, std::string>> sharing;  // layer names and the names that own their parameters
  std::vector<scoped_arguments> defaults;
  std::optional<gradient_map> gradients;
};

model::model(std::string_view name, const model_options& o) : impl_(std::make_unique<implementation>(name, o)) {}
model::model(net main, net init, const model_options& o, std::vector<parameter_info> parameters)
    : impl_(std::make_unique<implementation>(std::move(main), std::move(init), o, std::move(parameters))) {}
model::~model() = default;
net& model::main() {
  impl_->raise_pending();
  return impl_->main;
}
net& model::init() {
  impl_->raise_pending();
  return impl_->init;
}
const net& model::main() const {
  impl_->raise_pending();
  return impl_->main;
}
const net& model::init() const {
  impl_->raise_pending();
  return impl_->init;
}
const model_options& model::options() const { return impl_->options; }

model::scope::scope(model& m) : outer_(std::exchange(innermost, &m)) {}
model::scope::~scope() { innermost = outer_; }
model& model::current() {
  if (!innermost)
    lamina::detail::raise(error_kind::state,
                          origin::prefix() + "a layer function needs a model: set .model = &m, or open a model::scope");
  return *innermost;
}

void model::defaults(std::string_view function, const arguments& a, const origin&) {
  check_scope("model", function, a);
  impl_->defaults.push_back({std::string(function), a});
}

value model::parameter(std::string_view name, const shape& dims, const fill_rule& fill, parameter_tag tag,
                       const origin&) {
  auto& m = *impl_;
  m.raise_pending();
  auto& symbols = m.main.symbols();
  const std::string own = symbols.full(name), full = shared_name(own, true);
  made_in_sharings(own, m.complaint);
  const tensor_type type{m.options.element, dims};
  if (auto* known = m.find(full)) {
    text t;
    if (known->at.type() != type)
      symbols.fail(error_kind::shape,
                   t << "parameter `" << full << "` is " << known->at.type() << "; requested as " << type);
    return known->at;
  }
  symbols.check_free(full);
  const value v = m.add(full, symbols.body.state(full, type), m.options.fill_parameters ? fill : fill_rule(), {});
  m.keep({full, v, tag});
  return v;
}
std::vector<parameter_info> model::parameters(std::optional<parameter_tag> tag, std::string_view beginning) const {
  impl_->raise_pending();
  std::vector<parameter_info> all;
  for (const auto& p : impl_->parameters)
    if ((!tag || p.tag == *tag) && std::string_view(p.name).starts_with(beginning)) all.push_back(p);
  return all;
}

std::vector<std::string> model::set_frozen(view<const std::string_view> patterns, bool on, const origin&) {
  auto& m = *impl_;
  m.raise_pending();
  auto& symbols = m.main.symbols();
  const std::string caller = origin::prefix() + (on ? "freeze" : "unfreeze");
  std::vector<std::string> names;
  for (const auto& p : m.parameters)
    if (p.tag != parameter_tag::computed) names.push_back(p.name);
  auto found = names_that_fit(caller, patterns, "parameter", names);
  for (const auto& n : found) {
    text t;
    if (m.find(n)->updated)
      symbols.fail(error_kind::state, t << "parameter `" << n << "` has its update already; freeze before add_updates");
  }
  for (const auto& n : found) {
    m.find(n)->frozen = on;
    symbols.kinds.find(n)->second.trainable = !on;
  }
  return found;
}

const gradient_map& model::add_gradient_operators(const std::vector<gradient_target>& targets, const origin&) {
  auto& m = *impl_;
  m.raise_pending();
  if (m.gradients)
    m.main.symbols().fail(error_kind::state, text("add_gradient_operators: the model has its gradients already"));
  m.gradients = m.main.add_gradient_operators(targets);
  for (auto& p : m.parameters)
    if (p.tag != parameter_tag::computed && m.gradients->contains(p.at)) p.gradient = (*m.gradients)[p.at];
  return *m.gradients;
}

void model::add_updates(const update_rule& rule, double rate, bool by_rows, const update_options& o) {
  auto& m = *impl_;
  auto& symbols = m.main.symbols();
  m.check(o, rate, by_rows);
  const auto all = m.updates(o);
  value speed = !o.rate.empty() ? o.rate : symbols.body.number(rate, m.options.element);
  if (o.allow_lr_injection) speed = speed * apply<op::cast>(cast_attributes{speed.type().element}, m.lr_injection());
  const value number = m.main.iterations();
  joint_update joint{{}, {}, {}, number};
  std::vector<std::size_t> updated;  // indices in `all`
  for (std::size_t i = 0; i < all.size(); ++i)
    if (rule.takes(joint, m.parameters[all[i].parameter].name, all[i].weight, all[i].gradient)) updated.push_back(i);
  if (rule.prepare) rule.prepare(joint);
  for (std::size_t k = 0; k < updated.size(); ++k) {
    const auto& u = all[updated[k]];
    parameter_info& p = m.parameters[u.parameter];
    std::map<value_id, value> whole;  // full slots by their gathered rows
    auto slot = [&](std::string_view name, tensor_type type) {
      const std::string full = p.name + "_" + std::string(name);
      symbols.check_free(full);
      if (!u.positions.empty()) type.dims[0] = p.at.shape()[0];
      const value v = m.add(full, symbols.body.state(full, type), op::constant{0}, {});
      if (u.positions.empty()) return v;
      const value rows = gather(v, u.positions);
      whole.insert_or_assign(rows.id(), v);
      return rows;
    };
    auto write = [&](const value& v, const value& next) {
      const value of = u.positions.empty() ? v : whole.at(v.id());
      m.assign(symbols.names.at(of.id()), of, u.positions, next);
    };
    auto s = update_scope(slot, write, speed, number, p.name).prepared(joint.prepared);
    m.assign(p.name, p.at, u.positions, o.regularizer.projected(rule.step(s, u.weight, joint.gradients[k])));
    p.updated = true;
  }
}

net model::predictor(std::string_view name, const std::vector<std::string>& inputs,
                     const std::vector<std::string>& outputs, const origin&) const {
  return part_of(main(), name, inputs, outputs, {}, purpose::inference);
}

// ---- layers ---------------------------------------------------------------------------------------------------------

namespace detail {

layer_run::layer_run(graph::model& m, std::string_view function, const arguments& call)
    : model_(m),
      function_(function),
      outer_path_(m.main().symbols().body.path),
      given_(call),
      walk_{m.main().symbols().body,
            store_,
            m.options().seed,
            m.options().element,
            m.options().training,
            false,
            nullptr,
            nullptr,
            &names_},
      assigned_(m.main().symbols().body.assignments().size()) {
  auto& symbols = m.main().symbols();
  const std::string here = symbols.body.place();
  for (auto s = scopes_of_arguments.rbegin(); s != scopes_of_arguments.rend(); ++s)
    if (s->function == function) fill_in(given_, s->a);
  for (auto s = m.impl_->defaults.rbegin(); s != m.impl_->defaults.rend(); ++s)
    if (s->function == function) fill_in(given_, s->a);
  check(function, given_, here.empty() ? here : here + ": ", false);
  std::string full = call.name.empty() ? symbols.full(function) : symbols.full(call.name);
  const auto taken = [&] {
    const std::string shared = shared_name(full);
    return shared != full ? m.impl_->sharing.contains({full, shared}) : m.impl_->has_layer(full);
  };
  if (call.name.empty() && taken()) {
    const std::string first = full;
    int unshared = 0, &from = sharings.empty() ? m.impl_->next_auto[first] : unshared;
    for (;; ++from)
      if (full = first + "_auto_" + std::to_string(from); !taken()) break;
  }
  own_name_ = full;
  name_ = full.substr(full.rfind('/') + 1).substr(0, label::limit);
  shared_name_ = full = shared_name(full, true);
  names_.add(name_, full);
  names_.add(name_ + ".weight",
             full + (function == "spatial_bn" || function == "layer_norm" || function == "instance_norm" ? "_s"
                     : function == "prelu"                                                               ? "_slope"
                                                                                                         : "_w"));
  names_.add(name_ + ".bias", full + "_b");
  names_.add(name_ + ".running_mean", full + "_rm");
  names_.add(name_ + ".running_var", full + "_riv");
}
layer_run::~layer_run() { model_.impl_->main.symbols().body.path = outer_path_; }

void layer_run::takes(const value& x) {
  if (&x.owner() != &model_.main().symbols().body) other_program_ = &x.owner();
}
value layer_run::run(const std::function<value(const trace_scope&)>& forward) {
  auto& symbols = model_.main().symbols();
  const auto trace = [&] { return forward(trace_scope(walk_).nested(label(name_))); };
  value made;
  try {
    made = trace();
  } catch (const state_error&) {
    if (!other_program_) throw;
    symbols.body.path = outer_path_;
    text t;
    t << function_ << ": an operand belongs to ";
    if (other_program_->title.empty()) t << "a program that is not a net and has no parameters; pass weights as inputs";
    else t << other_program_->title << "; `external(v)` makes it an input here, by its name";
    symbols.fail(error_kind::state, t);
  }
  if (walk_.training) {
    struct aside {  // RAII: added nodes belong to the inference form
      trace_walk& walk;
      symbol_table& symbols;
      aside(trace_walk& w, symbol_table& b) : walk(w), symbols(b) {
        walk.training = false, symbols.for_inference = true;
      }
      ~aside() { walk.training = true, symbols.for_inference = false; }
    };
    const value other = [&] {
      const aside now(walk_, symbols);
      return trace();
    }();
    if (!other.same(made)) made = apply<op::in_training>({}, made, other);
  }
  keep_parameters();
  return given_.activation(made);
}

void layer_run::keep_parameters() {
  auto& m = *model_.impl_;
  auto& symbols = m.main.symbols();
  for (std::size_t i = 0; i < store_.size(); ++i) {
    const auto& p = store_[i];
    if (p.role() == state_role::generator) continue;
    made_in_sharings(own_name_, m.complaint);
    m.sharing.emplace(own_name_, shared_name_);
    if (m.find(p.name())) continue;
    if (const auto known = symbols.blobs.find(p.name()); known != symbols.blobs.end()) {
      text t;
      symbols.fail(error_kind::state, t << function_ << ": its parameter `" << p.name()
                                        << "` has the name of a blob, from " << known->second.where[0]
                                        << "; give one of them another name");
    }
    const bool is_bias = p.name().ends_with("_b") || p.name().find(".bias") != std::string::npos;
    const bool filled = function_ == "fc" || function_.find("conv") != std::string::npos;
    fill_rule fill = is_bias ? given_.bias_fill : p.name().ends_with("_w") ? given_.weight_fill : fill_rule();
    if (!fill && filled) fill = is_bias ? fill_rule(op::constant{0}) : fill_rule(op::xavier{});
    const value at(&symbols.body, {symbols.body.find_state(p.name()), 0});
    if (m.options.fill_parameters) m.add(p.name(), at, fill, p.value());
    else m.add(p.name(), at, {}, {});
    m.keep({p.name(), at,
            p.role() == state_role::statistic ? parameter_tag::computed
            : is_bias                         ? parameter_tag::bias
                                              : parameter_tag::weight});
  }
  if (walk_.random) symbols.generator();
  const auto assignments = symbols.body.assignments();
  for (std::size_t i = assigned_; i < assignments.size(); ++i) {
    const std::string& blob = symbols.body.at(assignments[i].state).name;
    symbols.assign(blob, symbols.blobs.find(blob)->second, symbols.at(assignments[i].value));
  }
}

}  // namespace detail

}  // namespace lamina::graph
