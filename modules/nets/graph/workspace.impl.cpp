module lamina:graph.workspace.impl;
import :context;
import :core;
import :dtype;
import :execute;
import :graph;
import :graph.workspace;
import :passes;
import :parameter;
import :plan;
import :program;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

// Not the unnamed namespace: `workspace::implementation`, which has linkage, has members of these types.
namespace workspaces {

// A blob in a space. `version` counts writes, so that nets notice writes by others; 0: allocated, but no value yet.
struct slot {
  any_tensor value;
  std::uint64_t version = 0;
};
using slots = std::map<std::string, slot, std::less<>>;

[[noreturn]] void no_such(std::string_view what, std::string_view requested, const auto& there) {
  text t;
  std::vector<std::string_view> names;
  for (const auto& n : there) names.push_back(n.first);
  t << "workspace: there is no " << what << " `" << requested << "`";
  suggest_names(t, requested, names);
  detail::raise(error_kind::value, t);
}

any_tensor cleared(storage memory, const tensor_type& type) {
  if (type.bytes()) std::memset(memory.data(), 0, type.bytes());
  return any_tensor(std::move(memory), type);
}

// Calls f; prefixes its errors with the name of the net.
template <class F> void as_of(const runnable& n, F f) {
  auto again = [&](error_kind kind, const std::exception& e) {
    text t;
    detail::raise(kind, t << "net `" << n.name << "`: " << e.what());
  };
  try {
    f();
  } catch (const shape_error& e) { again(error_kind::shape, e); } catch (const type_error& e) {
    again(error_kind::type, e);
  } catch (const value_error& e) { again(error_kind::value, e); } catch (const state_error& e) {
    again(error_kind::state, e);
  }
}

operation_cost cost_of(const plan_line& l) { return {l.what, l.where, l.result, l.flops, l.bytes}; }

// A net created in a space: its executors, and the blobs that they read and write.
class instance {
 public:
  instance(std::shared_ptr<const runnable> n, slots& blobs, std::shared_ptr<context> where, const create_options& o)
      : net_(std::move(n)), blobs_(blobs), where_(std::move(where)) {
    passes_.parallel = o.execution != execution::simple && where_->threads() > 1;
    passes_.parallel_loops = false;  // part of `parallel`
    passes_.memory = o.memory;
    for (const auto& own : net_->own)
      if (auto [at, fresh] = blobs_.try_emplace(own.name); fresh) at->second = {own.first.copy(), 1};
    const program& p = *net_->body;
    for (auto i : p.inputs()) inputs_.push_back({p.at(i).name, p.at(i).results[0]});
    for (auto s : p.states()) states_.push_back({p.at(s).name, p.at(s).results[0]});
    for (const auto& a : p.assignments())
      assigned_.push_back(static_cast<std::size_t>(std::lower_bound(p.states().begin(), p.states().end(), a.state) -
                                                   p.states().begin()));
  }

  std::string explain() {
    std::string s;
    as_of(*net_, [&] {
      refresh();
      s = session_.explain(view<const shape>(shapes_));
    });
    return s;
  }
  std::vector<operation_cost> costs() {
    std::vector<operation_cost> all;
    as_of(*net_, [&] {
      refresh();
      for (const auto& plan : session_.fresh_plans(view<const shape>(shapes_), memory_sharing::best))
        for (const auto& l : plan->lines()) all.push_back(cost_of(l));
    });
    return all;
  }
  memory_estimate estimate(memory_sharing how) {
    memory_estimate m;
    as_of(*net_, [&] {
      refresh();
      for (const auto& plan : session_.fresh_plans(view<const shape>(shapes_), how)) {  // segments share no memory
        const plan_cost& c = plan->cost();
        m.arena += c.arena;
        m.least = std::max(m.least, c.live_peak);
        m.unshared += c.unshared;
        m.scratch += c.scratch;
        m.packed += c.packed;
      }
    });
    return m;
  }
  void run(std::int64_t times) { run(times, nullptr); }
  // For concurrent nets: `making` guards shared data during preparation.
  void run(std::int64_t times, std::mutex* making) {
    if (times <= 0) return;
    as_of(*net_, [&] {
      auto lock = making ? std::unique_lock(*making) : std::unique_lock<std::mutex>();
      refresh();
      if (session_.in_segments()) {  // segments are prepared during the run: keep the lock
        for (std::int64_t i = 0; i < times; ++i) run_in_segments();
        return;
      }
      executor& e = ready();
      if (making) lock.unlock();
      for (std::int64_t i = 0; i < times; ++i) {
        e.run();
        written();
      }
    });
  }
  net_times benchmark(std::int64_t times, std::int64_t warm_up) {
    net_times t;
    as_of(*net_, [&] {
      refresh();
      executor* e = session_.in_segments() ? nullptr : &ready();
      const auto run = [&] {
        const auto begin = std::chrono::steady_clock::now();
        if (e) {
          e->run();
          written();
        } else run_in_segments();
        const auto end = std::chrono::steady_clock::now();
        return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
      };
      for (std::int64_t i = 0; i < warm_up; ++i) run();
      std::vector<double> all;
      for (std::int64_t i = 0; i < times; ++i) all.push_back(run());
      std::sort(all.begin(), all.end());
      t.least_ns = all.front();
      t.median_ns = all[all.size() / 2];

      std::vector<timed_plan> timed;
      for (std::int64_t i = 0; i < warm_up + times; ++i) {
        if (i == warm_up)
          for (auto& plan : timed) std::fill(plan.nanoseconds.begin(), plan.nanoseconds.end(), 0);
        run_in_segments(&timed);
      }
      for (const auto& plan : timed) {
        const auto mean = [&](std::size_t line) {
          return static_cast<double>(plan.nanoseconds[line]) / static_cast<double>(times);
        };
        const auto lines = plan.lines();
        for (std::size_t l = 0; l < lines.size(); ++l) {
          t.operations.push_back(cost_of(lines[l]));
          t.operations.back().nanoseconds = mean(l);
        }
        t.rest_ns += mean(lines.size());
      }
    });
    return t;
  }

  // Blobs that a run reads or writes.
  std::vector<std::string> reads() const {
    std::vector<std::string> all;
    for (const auto& i : inputs_) all.push_back(i.name);
    for (const auto& s : states_) all.push_back(s.name);
    return all;
  }
  std::vector<std::string> writes() const {
    std::vector<std::string> all;
    for (const auto& o : net_->body->outputs()) all.push_back(o.name);
    for (auto s : assigned_) all.push_back(states_[s].name);
    return all;
  }

 private:
  struct bound {
    std::string name;
    tensor_type type;
    slot* at = nullptr;
    parameter* held = nullptr;
    std::uint64_t seen = 0;
  };

  slot& found(bound& b) {
    if (!b.at) {
      auto at = blobs_.find(b.name);
      if (at == blobs_.end() || at->second.version == 0) {
        text t;
        t << "blob `" << b.name << "` is not in the workspace; feed it, or run the net that makes it";
        detail::raise(error_kind::value, t << taken_at(b.name));
      }
      b.at = &at->second;
    }
    return *b.at;
  }
  // Message suffix with the place in the user's code where the net declares a blob.
  std::string taken_at(const std::string& blob) const {
    const auto at = net_->where.find(blob);
    return at == net_->where.end() ? std::string() : "; the net takes it at " + at->second;
  }
  void check(const bound& b, const tensor_type& is) const {
    if (is.element == b.type.element && fits(b.type.dims, is.dims)) return;
    text t;
    t << "blob `" << b.name << "` must be " << b.type << "; the workspace has " << is << taken_at(b.name);
    detail::raise(is.element == b.type.element ? error_kind::shape : error_kind::type, t);
  }

  // Refreshes states and input shapes from the current blobs.
  void refresh() {
    bool moved = !made_;
    for (auto& s : states_) {
      const any_tensor& v = found(s).value;
      check(s, v.type());
      if (!moved && s.held->value().data() != v.data()) moved = true;
    }
    if (moved) {
      store_ = std::make_unique<parameter_store>();
      for (auto& s : states_) s.held = &store_->add(s.name, s.at->value, state_role::parameter);
      if (!made_) session_ = session(net_->body, {store_.get(), nullptr}, where_, passes_);
      else session_.read({store_.get(), nullptr});
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
  // Runs a net with data-dependent shapes; exchanges the output blobs after the run, when their shapes are known.
  void run_in_segments(std::vector<timed_plan>* times = nullptr) {
    bind_outputs();
    {
      std::vector<any_tensor> values;
      for (auto& i : inputs_) values.push_back(i.at->value);
      if (times) session_.run_timed(values, next_, *times);
      else session_.run(values, next_);
    }
    for (std::size_t i = 0; i < outputs_.size(); ++i) std::swap(outputs_[i].at->value, next_[i]);
    written();
  }

  // Binds outputs by this net's names; its plan may be shared with an equal net that uses other names.
  void bind_outputs() {
    if (outputs_.empty())
      for (const auto& o : net_->body->outputs()) outputs_.push_back({o.name, {}, &blobs_[o.name]});
  }
  // The executor for the current shapes, with all memory bound.
  executor& ready() {
    executor& e = session_.at(view<const shape>(shapes_));
    bind(e);
    return e;
  }
  void bind(executor& e) {
    for (std::size_t i = 0; i < inputs_.size(); ++i) e.bind_input(i, inputs_[i].at->value.data());
    bind_outputs();
    const auto& types = e.plan().output_types();
    for (std::size_t i = 0; i < types.size(); ++i) {
      any_tensor& v = outputs_[i].at->value;
      if (!v || v.type() != types[i] || !v.memory().unique()) v = cleared(e.result_memory(i), types[i]);
      e.bind_output(i, v.mutable_data());
    }
  }
  // Increments the versions of the blobs that a run wrote.
  void written() {
    for (auto s : assigned_) states_[s].seen = ++states_[s].at->version;
    for (auto& o : outputs_) ++o.at->version;
  }

  std::shared_ptr<const runnable> net_;
  slots& blobs_;
  std::shared_ptr<context> where_;
  pass_options passes_{};
  std::vector<bound> inputs_, states_, outputs_;
  std::vector<std::size_t> assigned_;
  std::unique_ptr<parameter_store> store_;
  session session_;
  bool made_ = false;
  std::vector<shape> shapes_;
  std::vector<any_tensor> next_;  // output buffers of the next segmented run
};

// An asynchronous run; joined when its space is destroyed.
class started {
 public:
  started() = default;
  started(std::shared_ptr<void> run, void (*join)(void*)) : run_(std::move(run)), join_(join) {}
  started(const started&) = delete;
  started(started&&) = default;
  started& operator=(started&& other) {
    std::swap(run_, other.run_);
    std::swap(join_, other.join_);
    return *this;
  }
  ~started() {
    if (run_) join_(run_.get());
  }
  void* run() const { return run_.get(); }

 private:
  std::shared_ptr<void> run_;
  void (*join_)(void*) = nullptr;
};
struct space {
  slots blobs;
  std::map<std::string, std::unique_ptr<instance>, std::less<>> nets;
  started under_way;
};

template <class Map> std::vector<std::string> names_in(const Map& all) {
  std::vector<std::string> names;
  for (const auto& n : all) names.push_back(n.first);
  return names;
}

}  // namespace workspaces
using namespace workspaces;

// ---- asynchronous runs ----------------------------------------------------------------------------------------------

struct running::implementation {
  std::string net;
  std::atomic<bool> done{false};
  std::exception_ptr error{};
  bool reported = false, left = false;  // the error was requested; the handle is gone
  const std::uint32_t process = detail::process_number();
  std::mutex joining;
  std::thread thread;
  void join() {
    if (process != detail::process_number()) return abandon();
    std::lock_guard lock(joining);
    if (thread.joinable()) thread.join();
  }
  // In a forked child, the parent's thread does not exist: leak its handle instead of joining.
  void abandon() {
    if (!thread.joinable()) return;
    if (!done)
      error = std::make_exception_ptr(
          state_error("workspace: the run of `" + net + "` was begun in another process, before a fork"));
    (void)new std::thread(std::move(thread));
  }
  void leave() {
    join();
    left = true;
  }
  ~implementation() { join(); }
};
running::running() = default;
running::running(std::shared_ptr<implementation> impl) : impl_(std::move(impl)) {}
running::running(running&&) noexcept = default;
running& running::operator=(running&& other) noexcept {
  if (impl_ && impl_ != other.impl_) impl_->leave();
  impl_ = std::move(other.impl_);
  return *this;
}
running::~running() {
  if (impl_) impl_->leave();
}
bool running::done() const { return !impl_ || impl_->done.load(std::memory_order_acquire); }
void running::wait() {
  if (!impl_) return;
  impl_->join();
  impl_->reported = true;
  if (impl_->error) std::rethrow_exception(impl_->error);
}

struct workspace::implementation {
  std::shared_ptr<context> where;
  std::map<std::string, std::unique_ptr<space>, std::less<>> spaces;
  std::string current = "default";
  // The current space. Errors: state_error while an asynchronous run is in progress in it.
  space& here() const {
    space& s = *spaces.find(current)->second;
    if (s.under_way.run()) {
      auto& run = *static_cast<running::implementation*>(s.under_way.run());
      if (!run.done.load(std::memory_order_acquire)) {
        text t;
        detail::raise(error_kind::state, t << "workspace: net `" << run.net << "` is running in space `" << current
                                           << "`; wait for it first");
      }
      if (run.left && !run.reported) {
        run.reported = true;
        if (run.error) std::rethrow_exception(run.error);
      }
      s.under_way = {};
    }
    return s;
  }
  instance& net(std::string_view name) const {
    auto& nets = here().nets;
    auto at = nets.find(name);
    if (at == nets.end()) no_such("net", name, nets);
    return *at->second;
  }
};

workspace::workspace(std::shared_ptr<context> where) : impl_(std::make_unique<implementation>()) {
  impl_->where = where ? std::move(where) : std::make_shared<context>(1, target_isa());
  switch_to(impl_->current, true);
}
workspace::workspace(workspace&&) noexcept = default;
workspace& workspace::operator=(workspace&&) noexcept = default;
workspace::~workspace() = default;
workspace::implementation& workspace::all() const {
  if (!impl_) [[unlikely]]
    detail::raise(error_kind::state, "workspace: it was moved from and has no blobs and nets");
  return *impl_;
}

// ---- blobs ----------------------------------------------------------------------------------------------------------

void workspace::feed(std::string_view name, const any_tensor& v) {
  if (name.empty()) detail::raise(error_kind::value, "workspace: a blob needs a name");
  slot& s = all().here().blobs.try_emplace(std::string(name)).first->second;
  if (s.value && s.value.type() == v.type()) std::memcpy(s.value.mutable_data(), v.data(), v.bytes());
  else s.value = v.copy();
  ++s.version;
}
any_tensor workspace::fetch(std::string_view name) const {
  const auto& blobs = all().here().blobs;
  auto at = blobs.find(name);
  if (at == blobs.end() || at->second.version == 0) no_such("blob", name, blobs);
  return at->second.value.copy();
}
bool workspace::has(std::string_view name) const {
  auto at = all().here().blobs.find(name);
  return at != all().here().blobs.end() && at->second.version != 0;
}
std::vector<std::string> workspace::blobs() const {
  std::vector<std::string> names;
  for (const auto& [name, b] : all().here().blobs)
    if (b.version) names.push_back(name);
  return names;
}

// ---- spaces ---------------------------------------------------------------------------------------------------------

void workspace::switch_to(std::string_view name, bool create) {
  auto& there = all().spaces;
  if (there.find(name) == there.end()) {
    if (!create) no_such("space", name, there);
    there.emplace(std::string(name), std::make_unique<space>());
  }
  all().current = name;
}
const std::string& workspace::current() const { return all().current; }
std::vector<std::string> workspace::spaces() const { return names_in(all().spaces); }
void workspace::reset() {
  all().here();
  auto& at = all().spaces.find(all().current)->second;
  at = std::make_unique<space>();
}

// ---- nets -----------------------------------------------------------------------------------------------------------

void workspace::create(const net& n, const create_options& o) {
  auto& here = all().here();
  if (!o.overwrite && here.nets.contains(n.name())) {
    text t;
    t << "workspace: net `" << n.name() << "` already exists; create(net, {.overwrite = true}) replaces it";
    detail::raise(error_kind::state, t);
  }
  auto made = std::make_unique<instance>(n.to_run(), here.blobs, all().where, o);
  here.nets.insert_or_assign(n.name(), std::move(made));
}
std::vector<std::string> workspace::nets() const { return names_in(all().here().nets); }
namespace {
void check_times(std::string_view what, std::int64_t times) {
  text t;
  if (times < 0)
    detail::raise(error_kind::value, t << "workspace: " << what << " is " << times << " and must not be below 0");
}
}  // namespace
void workspace::run(std::string_view name, std::int64_t times) {
  check_times("the number of runs", times);
  all().net(name).run(times);
}
running workspace::start(std::string_view name, std::int64_t times) {
  check_times("the number of runs", times);
  instance& net = all().net(name);
  auto r = std::make_shared<running::implementation>();
  r->net = name;
  auto* run = r.get();  // outlives the thread
  r->thread = detail::start_thread("workspace", 1, 1, [run, &net, times] {
    try {
      net.run(times);
    } catch (...) { run->error = std::current_exception(); }
    run->done.store(true, std::memory_order_release);
  });
  all().here().under_way = {r, [](void* of) { static_cast<running::implementation*>(of)->join(); }};
  return running(r);
}
std::string workspace::explain(std::string_view name) { return all().net(name).explain(); }
std::vector<operation_cost> workspace::costs(std::string_view name) { return all().net(name).costs(); }
net_times workspace::benchmark(std::string_view name, std::int64_t times, std::int64_t warm_up) {
  if (times < 1) detail::raise(error_kind::value, "workspace: a benchmark takes at least one run");
  check_times("the number of runs before a benchmark", warm_up);
  return all().net(name).benchmark(times, warm_up);
}
memory_estimate workspace::estimate_memory(std::string_view name, memory_sharing how) {
  return all().net(name).estimate(how);
}
void workspace::run_once(const net& n) { instance(n.to_run(), all().here().blobs, all().where, {}).run(1); }

// ---- plans of steps -------------------------------------------------------------------------------------------------

namespace {

// Runs a plan of steps: nets on one or several threads, and periodic steps between them.
class step_runner {
 public:
  explicit step_runner(space& s) : space_(s) {}

  // Validates a plan before anything runs.
  void check(const execution_step& plan) const {
    std::set<std::string> made;  // blobs that any net of the plan writes
    each_net(plan, [&](const instance& net) {
      for (auto& b : net.writes()) made.insert(std::move(b));
    });
    check(plan, made);
  }

  // `alone`: runs exclusively, between the nets of all other steps.
  void run(const execution_step& s, bool alone = false) {
    std::vector<std::shared_ptr<due>> added;
    for (const auto& part : s.steps)
      if (part.every_ms > 0) added.push_back(add_due(part));
    for (std::int64_t i = 0; i < s.times && !failed_; ++i) {
      if (!s.net.empty()) run_net(s.net, alone);
      else run_parts(s, alone);
      if (!s.stop_when.empty() && stops(s.stop_when)) break;
    }
    for (const auto& d : added) {
      remove(d);
      if (!failed_) between_others([&] { run(*d->step, true); }, alone);
    }
  }

 private:
  template <class F> void each_net(const execution_step& s, F f) const {
    if (const auto net = space_.nets.find(s.net); net != space_.nets.end()) f(*net->second);
    for (const auto& part : s.steps) each_net(part, f);
  }
  void check(const execution_step& s, const std::set<std::string>& made) const {
    check_times("`times` of a step", s.times);
    if (text t; !(s.every_ms >= 0))
      detail::raise(error_kind::value,
                    t << "workspace: `every_ms` of a step is " << s.every_ms << " and must not be below 0");
    if (s.net.empty() == s.steps.empty())
      detail::raise(error_kind::value, "workspace: a step is a net or steps, and this one is both or neither");
    if (!s.net.empty() && space_.nets.find(s.net) == space_.nets.end()) no_such("net", s.net, space_.nets);
    if (!s.stop_when.empty() && !made.contains(s.stop_when)) {
      const auto at = space_.blobs.find(s.stop_when);
      if (at == space_.blobs.end() || at->second.version == 0) no_such("blob", s.stop_when, space_.blobs);
      check_stop(s.stop_when, at->second.value.type());
    }
    std::map<std::string, std::size_t> writer, reader;  // 1-based step by blob
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
      check(s.steps[i], made);
      if (!s.concurrent || s.steps[i].every_ms > 0) continue;
      const auto clash = [&](const std::string& blob, std::size_t with) {
        text t;
        detail::raise(error_kind::value, t << "workspace: concurrent steps " << with << " and " << i + 1
                                           << " both touch `" << blob << "`, and one of them writes it");
      };
      touched t;
      collect(s.steps[i], t);
      for (const auto& b : t.written) {
        if (auto other = reader.find(b); other != reader.end()) clash(b, other->second);
        if (auto other = writer.find(b); other != writer.end()) clash(b, other->second);
      }
      for (const auto& b : t.read)
        if (auto other = writer.find(b); other != writer.end()) clash(b, other->second);
      for (const auto& b : t.written) writer.emplace(b, i + 1);
      for (const auto& b : t.read) reader.emplace(b, i + 1);
    }
  }

  struct touched {
    std::set<std::string> read, written;
  };
  struct due {
    const execution_step* step;
    std::chrono::steady_clock::time_point next;
    void advance() {
      next = std::chrono::steady_clock::now() +
             std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(step->every_ms * 1e6, 1e18)));
    }
  };

  void collect(const execution_step& s, touched& t) const {
    if (!s.net.empty()) {
      const auto& net = *space_.nets.find(s.net)->second;
      for (auto& b : net.reads()) t.read.insert(std::move(b));
      for (auto& b : net.writes()) t.written.insert(std::move(b));
      t.written.insert("net " + s.net);  // a net has a single working memory
    }
    if (!s.stop_when.empty()) t.read.insert(s.stop_when);
    for (const auto& part : s.steps)
      if (part.every_ms <= 0) collect(part, t);
  }
  void run_parts(const execution_step& s, bool alone) {
    std::vector<const execution_step*> parts;
    for (const auto& part : s.steps)
      if (part.every_ms <= 0) parts.push_back(&part);
    if (!s.concurrent || alone || parts.size() < 2) {
      for (const auto* part : parts)
        if (!failed_) run(*part, alone);
      return;
    }
    parallel_workers(static_cast<int>(parts.size()), [&](int i) {
      try {
        run(*parts[static_cast<std::size_t>(i)]);
      } catch (...) {
        failed_ = true;  // the others stop after their current net
        throw;
      }
    });
  }
  void run_net(const std::string& name, bool alone) {
    instance& net = *space_.nets.find(name)->second;
    if (alone) return net.run(1, &making_);
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !alone_; });
      ++active_;
    }
    const auto leave = [&] {
      std::lock_guard lock(mutex_);
      --active_;
      changed_.notify_all();
    };
    try {
      net.run(1, &making_);
    } catch (...) {
      leave();
      throw;
    }
    leave();
    while (const auto d = take_due())
      if (!failed_) between_others([&] { run(*d->step, true); }, false);
  }
  static void check_stop(const std::string& blob, const tensor_type& is) {
    text t;
    if (!is.dims.is_static() || is.dims.size() != 1)
      detail::raise(error_kind::value,
                    t << "workspace: blob `" << blob << "` of `stop_when` is " << is << "; expected one element");
  }
  bool stops(const std::string& blob) {
    std::lock_guard lock(making_);
    const auto at = space_.blobs.find(blob);
    if (at == space_.blobs.end() || at->second.version == 0) no_such("blob", blob, space_.blobs);
    const any_tensor& stop = at->second.value;
    check_stop(blob, stop.type());
    return with_type(stop.type().element, [&]<class T>() {
      T x{};
      std::memcpy(&x, stop.data(), sizeof x);
      if constexpr (std::is_arithmetic_v<T>) return x != T{};
      else return static_cast<float>(x) != 0;
    });
  }

  // ---- periodic steps
  std::shared_ptr<due> add_due(const execution_step& s) {
    auto d = std::make_shared<due>(due{&s, {}});
    d->advance();
    std::lock_guard lock(mutex_);
    dues_.push_back(d);
    return d;
  }
  void remove(const std::shared_ptr<due>& d) {
    std::lock_guard lock(mutex_);
    std::erase(dues_, d);
  }
  std::shared_ptr<due> take_due() {
    std::lock_guard lock(mutex_);
    for (const auto& d : dues_)
      if (std::chrono::steady_clock::now() >= d->next) {
        d->advance();
        return d;
      }
    return nullptr;
  }
  template <class F> void between_others(F f, bool alone) {
    if (alone) return f();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !alone_; });
    alone_ = true;  // no other net starts from here on
    changed_.wait(lock, [&] { return active_ == 0; });
    lock.unlock();
    const auto leave = [&] {
      std::lock_guard again(mutex_);
      alone_ = false;
      changed_.notify_all();
    };
    try {
      f();
    } catch (...) {
      leave();
      throw;
    }
    leave();
  }

  space& space_;
  std::mutex making_;  // guards shared data during preparation of nets
  std::mutex mutex_;
  std::condition_variable changed_;
  int active_ = 0;
  bool alone_ = false;
  std::atomic<bool> failed_{false};
  std::vector<std::shared_ptr<due>> dues_;
};

}  // namespace

void workspace::run(const execution_step& plan) {
  step_runner runner(all().here());
  runner.check(plan);
  runner.run(plan);
}

}  // namespace lamina::graph
