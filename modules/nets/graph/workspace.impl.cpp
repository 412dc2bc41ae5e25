module lamina:graph.workspace.impl;
import :context;
import :core;
import :dtype;
import :execute;
import :graph;
import :graph.workspace;
import :parameter;
import :plan;
import :program;
import :runner;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

namespace {

// A blob in a space. `version` counts what wrote it, so that nets see what another one did.
struct slot {
  any_tensor value;
  std::uint64_t version = 0;
};
using slots = std::map<std::string, slot, std::less<>>;

[[noreturn]] void no_such(std::string_view what, std::string_view wanted, const auto& there) {
  text t;
  std::vector<std::string_view> names;
  for (const auto& n : there) names.push_back(n.first);
  t << "workspace: there is no " << what << " `" << wanted << "`";
  list_for(t, wanted, names);
  detail::raise(error_kind::value, t);
}

// Calls f; its error is told again as one of this net.
template <class F>
void as_of(const runnable& n, F f) {
  auto again = [&](error_kind kind, const std::exception& e) {
    text t;
    detail::raise(kind, t << "net `" << n.name << "`: " << e.what());
  };
  try {
    f();
  } catch (const shape_error& e) {
    again(error_kind::shape, e);
  } catch (const type_error& e) {
    again(error_kind::type, e);
  } catch (const value_error& e) {
    again(error_kind::value, e);
  } catch (const state_error& e) {
    again(error_kind::state, e);
  }
}

// A net in a space: its executors, and the blobs that they read and write.
class instance {
 public:
  instance(std::shared_ptr<const runnable> n, slots& blobs, std::shared_ptr<context> where) : net_(std::move(n)), blobs_(blobs), where_(std::move(where)) {
    for (const auto& o : net_->own)
      if (auto [at, fresh] = blobs_.try_emplace(o.name); fresh) at->second.value = o.first.copy();
    const program& p = *net_->body;
    for (auto i : p.inputs()) inputs_.push_back({p.at(i).name, p.at(i).results[0]});
    for (auto s : p.states()) states_.push_back({p.at(s).name, p.at(s).results[0]});
    for (const auto& a : p.assignments()) assigned_.push_back(static_cast<std::size_t>(std::find(p.states().begin(), p.states().end(), a.state) - p.states().begin()));
  }

  std::string explain() {
    std::string s;
    as_of(*net_, [&] {
      look();
      s = plans_.explain(view<const shape>(shapes_));
    });
    return s;
  }
  void run(std::int64_t times) {
    if (times <= 0) return;
    as_of(*net_, [&] {
      look();
      if (plans_.in_segments()) {
        for (std::int64_t i = 0; i < times; ++i) run_in_segments();
        return;
      }
      executor& e = ready();
      for (std::int64_t i = 0; i < times; ++i) {
        e.run();
        for (auto s : assigned_) states_[s].seen = ++states_[s].at->version;
      }
      for (auto& o : outputs_) ++o.at->version;
    });
  }

 private:
  struct bound { std::string name; tensor_type type; slot* at = nullptr; parameter* held = nullptr; std::uint64_t seen = 0; };

  slot& found(bound& b) {
    if (!b.at) {
      auto at = blobs_.find(b.name);
      if (at == blobs_.end()) {
        text t;
        t << "blob `" << b.name << "` is not in the workspace; feed it, or run the net that makes it";
        detail::raise(error_kind::value, t);
      }
      b.at = &at->second;
    }
    return *b.at;
  }
  void check(const bound& b, const tensor_type& is) const {
    if (is.element == b.type.element && fits(b.type.dims, is.dims)) return;
    text t;
    t << "blob `" << b.name << "` is to be " << b.type << " and the workspace has " << is;
    detail::raise(is.element == b.type.element ? error_kind::shape : error_kind::type, t);
  }

  // What the blobs are now: states that are read, and the shapes of inputs.
  void look() {
    bool moved = !made_;
    for (auto& s : states_) {
      const any_tensor& v = found(s).value;
      check(s, v.type());
      if (!moved && s.held->value().data() != v.data()) moved = true;
    }
    if (moved) {
      store_ = std::make_unique<parameter_store>();
      for (auto& s : states_) s.held = &store_->add(s.name, s.at->value, state_role::parameter);
      if (!made_) plans_ = plan_runner(net_->body, {store_.get(), nullptr}, where_, {});
      else plans_.read({store_.get(), nullptr}, nullptr);
      made_ = true;
    }
    for (auto& s : states_)
      if (s.seen != s.at->version) {
        s.held->changed();
        s.seen = s.at->version;
      }
    shapes_.clear();
    for (auto& i : inputs_) {
      check(i, found(i).value.type());
      shapes_.push_back(i.at->value.shape());
    }
  }
  // What the run gives has extents that are known only then: a blob is exchanged when the run is over.
  void run_in_segments() {
    if (outputs_.empty())
      for (const auto& o : net_->body->outputs()) outputs_.push_back({o.name, {}, &blobs_[o.name]});
    next_.resize(outputs_.size());
    memory_.clear();
    for (auto& i : inputs_) memory_.push_back(i.at->value.data());
    plans_.run(view<const shape>(shapes_), view<const void* const>(memory_), [this](std::size_t i, const tensor_type& type) -> void* {
      any_tensor& v = next_[i];
      if (!v || v.type() != type || !v.memory().unique()) v = any_tensor(type);
      return v.mutable_data();
    });
    for (auto s : assigned_) states_[s].seen = ++states_[s].at->version;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      std::swap(outputs_[i].at->value, next_[i]);
      ++outputs_[i].at->version;
    }
  }

  // The executor for that, with all memory bound.
  executor& ready() {
    executor& e = plans_.at(view<const shape>(shapes_));
    for (std::size_t i = 0; i < inputs_.size(); ++i) e.bind_input(i, inputs_[i].at->value.data());
    const auto& types = e.plan().output_types();
    if (outputs_.size() != types.size())
      for (const auto& n : e.plan().output_names()) outputs_.push_back({n, {}, &blobs_[n]});
    for (std::size_t i = 0; i < types.size(); ++i) {
      any_tensor& v = outputs_[i].at->value;
      if (!v || v.type() != types[i] || !v.memory().unique()) v = any_tensor(types[i]);
      e.bind_output(i, v.mutable_data());
    }
    return e;
  }

  std::shared_ptr<const runnable> net_;
  slots& blobs_;
  std::shared_ptr<context> where_;
  std::vector<bound> inputs_, states_, outputs_;
  std::vector<std::size_t> assigned_;
  std::unique_ptr<parameter_store> store_;
  plan_runner plans_;
  bool made_ = false;
  std::vector<shape> shapes_;
  std::vector<const void*> memory_;      // of inputs, and what the next run in segments writes
  std::vector<any_tensor> next_;
};

struct space {
  slots blobs;
  std::map<std::string, std::unique_ptr<instance>, std::less<>> nets;
};

template <class Map>
std::vector<std::string> names_in(const Map& all) {
  std::vector<std::string> names;
  for (const auto& n : all) names.push_back(n.first);
  return names;
}

}  // namespace

struct workspace::implementation {
  std::shared_ptr<context> where;
  std::map<std::string, std::unique_ptr<space>, std::less<>> spaces;
  std::string current = "default";
  space& here() const { return *spaces.find(current)->second; }
};

workspace::workspace(std::shared_ptr<context> where) : impl_(std::make_unique<implementation>()) {
  impl_->where = where ? std::move(where) : std::make_shared<context>(1, target_isa());
  switch_to(impl_->current, true);
}
workspace::workspace(workspace&&) noexcept = default;
workspace& workspace::operator=(workspace&&) noexcept = default;
workspace::~workspace() = default;

// ---- blobs ----------------------------------------------------------------------------------------------------------

void workspace::feed(std::string_view name, const any_tensor& v) {
  if (name.empty()) detail::raise(error_kind::value, "workspace: a blob needs a name");
  slot& s = impl_->here().blobs.try_emplace(std::string(name)).first->second;
  if (s.value && s.value.type() == v.type()) std::memcpy(s.value.mutable_data(), v.data(), v.bytes());
  else s.value = v.copy();
  ++s.version;
}
any_tensor workspace::fetch(std::string_view name) const {
  const auto& blobs = impl_->here().blobs;
  auto at = blobs.find(name);
  if (at == blobs.end() || !at->second.value) no_such("blob", name, blobs);
  return at->second.value.copy();
}
bool workspace::has(std::string_view name) const {
  auto at = impl_->here().blobs.find(name);
  return at != impl_->here().blobs.end() && at->second.value;
}
std::vector<std::string> workspace::blobs() const { return names_in(impl_->here().blobs); }

// ---- spaces ---------------------------------------------------------------------------------------------------------

void workspace::switch_to(std::string_view name, bool create) {
  auto& all = impl_->spaces;
  if (all.find(name) == all.end()) {
    if (!create) no_such("space", name, all);
    all.emplace(std::string(name), std::make_unique<space>());
  }
  impl_->current = name;
}
const std::string& workspace::current() const { return impl_->current; }
std::vector<std::string> workspace::spaces() const { return names_in(impl_->spaces); }
void workspace::reset() {
  auto& at = impl_->spaces.find(impl_->current)->second;
  at = std::make_unique<space>();
}

// ---- nets -----------------------------------------------------------------------------------------------------------

void workspace::create(const net& n, const create_options& o) {
  auto& here = impl_->here();
  if (!o.overwrite && here.nets.contains(n.name())) {
    text t;
    t << "workspace: net `" << n.name() << "` is there already; create(net, {.overwrite = true}) replaces it";
    detail::raise(error_kind::state, t);
  }
  auto made = std::make_unique<instance>(n.to_run(), here.blobs, impl_->where);
  here.nets.insert_or_assign(n.name(), std::move(made));
}
std::vector<std::string> workspace::nets() const { return names_in(impl_->here().nets); }
void workspace::run(std::string_view name, std::int64_t times) {
  auto& nets = impl_->here().nets;
  auto at = nets.find(name);
  if (at == nets.end()) no_such("net", name, nets);
  at->second->run(times);
}
void workspace::run(const execution_step& plan) {
  if (plan.net.empty() == plan.steps.empty()) detail::raise(error_kind::value, "workspace: a step is a net or steps, and this one is both or neither");
  for (std::int64_t i = 0; i < plan.times; ++i) {
    if (!plan.net.empty()) run(plan.net);
    for (const auto& s : plan.steps) run(s);
    if (plan.stop_when.empty()) continue;
    const any_tensor stop = fetch(plan.stop_when);
    if (stop.shape().size() != 1) {
      text t;
      detail::raise(error_kind::value, t << "workspace: blob `" << plan.stop_when << "` is to end a step and is " << stop.type() << ", not one element");
    }
    if (std::any_of(stop.data(), stop.data() + stop.bytes(), [](std::byte b) { return b != std::byte{0}; })) return;
  }
}
std::string workspace::explain(std::string_view name) {
  auto& nets = impl_->here().nets;
  auto at = nets.find(name);
  if (at == nets.end()) no_such("net", name, nets);
  return at->second->explain();
}
void workspace::run_once(const net& n) { instance(n.to_run(), impl_->here().blobs, impl_->where).run(1); }

}  // namespace lamina::graph
