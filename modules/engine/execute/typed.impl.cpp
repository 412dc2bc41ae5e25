module lamina:execute.typed.impl;
import :context;
import :core;
import :execute;
import :execute.typed;
import :expression;
import :expression.key;
import :passes;
import :plan;
import :plan_cache;
import :program;
import :shape;
import lamina.std;

namespace lamina {

namespace detail {

// Calls f with a number for the memory of each leaf, until f returns false. Not in the unnamed namespace: `prepared`,
// which has linkage, calls it in an inline function.
template <class F> bool each_first_alike(view<const leaf> leaves, F f) {
  address_numbers seen;
  for (const auto& x : leaves)
    if (!f(static_cast<std::int64_t>(seen.number(x.data)))) return false;
  return true;
}

namespace {
// The lowest number not used by a living thread. It passes from an ended thread to a new one under a mutex, so the new
// one may read what the old one wrote in its slots.
class thread_number {
 public:
  thread_number() {
    std::lock_guard lock(mutex());
    auto& all = used();
    while (number_ < all.size() && all[number_]) ++number_;
    if (number_ == all.size()) all.push_back(true);
    else all[number_] = true;
  }
  ~thread_number() {
    known_ = none - 1;
    std::lock_guard lock(mutex());
    used()[number_] = false;
  }
  static inline std::size_t get() {
    if (known_ == none) [[unlikely]]
      known_ = made();
    return known_;
  }

 private:
  static std::mutex& mutex() {
    static auto* m = new std::mutex;
    return *m;
  }
  static std::vector<bool>& used() {
    static auto* v = new std::vector<bool>;
    return *v;
  }
  [[gnu::noinline]] static std::size_t made() {
    thread_local const thread_number number;
    return number.number_;
  }
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  static inline thread_local constinit std::size_t known_ = none;
  std::size_t number_ = 0;
};
}  // namespace

// A cached executor, with everything its plan depends on: the special cases of its context, the words of the
// evaluation, and which operands share memory.
struct evaluation_site::prepared {
  const context_cases* special;
  std::size_t cases;  // version of `special`
  std::vector<std::int64_t> words, first_alike;
  std::vector<std::size_t> leaf_of_input, input_bytes, output_bytes;
  std::vector<const void*> last;  // operands and results still bound since the last run, which do not overlap
  executor run;

  [[gnu::always_inline]] inline bool serves(const evaluation& e) const {
    if (special->version() != cases || words.size() != e.words.size()) return false;
    for (std::size_t i = 0; i < words.size(); ++i)
      if (words[i] != e.words[i]) return false;
    if (e.each_apart || same_operands(e)) return true;
    const std::int64_t *at = first_alike.data(), *end = at + first_alike.size();
    return each_first_alike(e.leaves, [&](std::int64_t first) { return at != end && *at++ == first; });
  }
  [[gnu::always_inline]] inline void bind_inputs(const evaluation& e) {
    for (std::size_t i = 0; i < leaf_of_input.size(); ++i) run.bind_input(i, e.leaves[leaf_of_input[i]].data);
  }
  // Whether operands and results are already bound: then a run consists only of its steps.
  [[gnu::always_inline]] inline bool is_bound(const evaluation& e, view<void* const> results) const {
    if (last.size() != e.leaves.size() + results.size() || !same_operands(e)) return false;
    const void* const* at = last.data() + e.leaves.size();
    for (std::size_t i = 0; i < results.size(); ++i)
      if (at[i] != results[i]) return false;
    return true;
  }
  [[gnu::always_inline]] inline bool same_operands(const evaluation& e) const {
    if (last.size() < e.leaves.size()) return false;
    const void* const* at = last.data();
    for (std::size_t i = 0; i < e.leaves.size(); ++i)
      if (at[i] != e.leaves[i].data) return false;
    return true;
  }
  [[gnu::always_inline]] inline void run_into(const evaluation& e, view<void* const> results) {
    if (!is_bound(e, results)) [[unlikely]] {
      last.clear();
      bind_inputs(e);
      if (e.overlapping && overlaps(e, results)) return run_aside(e, results);
      bind_results(e, results);
    }
    run.run();
  }
  [[gnu::noinline]] void bind_results(const evaluation& e, view<void* const> results) {
    for (std::size_t i = 0; i < results.size(); ++i) run.bind_output(i, results[i]);
    last.reserve(e.leaves.size() + results.size());
    for (const leaf& x : e.leaves) last.push_back(x.data);
    for (const void* to : results) last.push_back(to);
  }
  // Whether an operand and a result overlap.
  bool overlaps(const evaluation& e, view<void* const> results) const {
    for (std::size_t o = 0; o < results.size(); ++o)
      for (std::size_t i = 0; i < leaf_of_input.size(); ++i)
        if (overlap(e, i, results, o)) return true;
    return false;
  }
  bool overlap(const evaluation& e, std::size_t i, view<void* const> results, std::size_t o) const {
    const auto from = reinterpret_cast<std::uintptr_t>(e.leaves[leaf_of_input[i]].data),
               to = reinterpret_cast<std::uintptr_t>(results[o]);
    return from < to + output_bytes[o] && to < from + input_bytes[i];
  }
  // Results that may not overwrite operands are computed into temporary memory and copied.
  void run_aside(const evaluation& e, view<void* const> results) {
    std::vector<storage> aside(results.size());
    bool replaced = false;
    for (std::size_t o = 0; o < results.size(); ++o) {
      bool overlapping = false;
      for (std::size_t i = 0; i < leaf_of_input.size() && !aside[o]; ++i)
        if (overlap(e, i, results, o)) {
          overlapping = true;
          if (e.leaves[leaf_of_input[i]].data != results[o] || !run.plan().in_place(i, o))
            aside[o] = storage(output_bytes[o]);
        }
      replaced = replaced || (overlapping && !aside[o]);
      run.bind_output(o, aside[o] ? aside[o].data() : results[o]);
    }
    replaced ? run.run_undivided() : run.run();
    for (std::size_t o = 0; o < results.size(); ++o)
      if (aside[o]) std::memcpy(results[o], aside[o].data(), aside[o].bytes());
  }
  /// Calls `run` with a matching executor; false if `known` and none is cached.
  template <class F> [[gnu::always_inline]] static inline bool with_executor(evaluation_site& site, const evaluation& e,
                                                                             context& where, bool known, F run);
  template <class F> [[gnu::noinline]] static bool with_other_executor(evaluation_site& site, const evaluation& e,
                                                                       context& where, bool known, F run) {
    auto p = site.take(e, where, known);
    if (!p) return false;
    run(*p);
    site.rest(std::move(p));
    return true;
  }
};

evaluation_site::evaluation_site(std::size_t max) : max_(max) {}
evaluation_site::~evaluation_site() {
  for (auto& p : places_) delete p.ready;
}

std::unique_ptr<evaluation_site::prepared> evaluation_site::find(const evaluation& e) {
  if (const auto thread = thread_number::get(); thread < places) {
    place& own = places_[thread];
    if (own.ready && !own.busy && own.ready->serves(e))
      return std::unique_ptr<prepared>(std::exchange(own.ready, nullptr));
  }
  std::lock_guard lock(mutex_);
  for (std::size_t i = idle_.size(); i-- > 0;)
    if (idle_[i]->serves(e)) {
      auto p = std::move(idle_[i]);
      idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
      return p;
    }
  return nullptr;
}

std::unique_ptr<evaluation_site::prepared> evaluation_site::make(const evaluation& e, context& where) {
  auto& special = where.slot<context_cases>();
  const auto cases = special.version();  // of the list below or an earlier one: then the next call replans
  program source;
  lowering l(source);
  e.lower(source, l, e.expression);
  std::vector<shape> shapes;
  for (const auto& x : l.leaves()) shapes.push_back(x.extents ? *x.extents : shape{});
  auto plan = where.slot<plan_cache>().get(source, source.id(), shapes, where.isa(),
                                           {.cases = special.all(),
                                            .merge = e.merge,
                                            .parallel = e.merge && where.threads() > 1,
                                            .parallel_loops = where.threads() > 1});
  std::unique_ptr<prepared> p(
      new prepared{&special,
                   cases,
                   {},
                   {},
                   {},
                   {},
                   {},
                   {},
                   executor(std::move(plan), nullptr, where.threads() > 1 ? &where.pool() : nullptr)});
  p->words.assign(e.words.begin(), e.words.end());
  if (!e.each_apart)
    each_first_alike(e.leaves, [&](std::int64_t first) { return p->first_alike.push_back(first), true; });
  const auto& inputs = source.inputs();
  p->leaf_of_input.assign(inputs.size(), 0);
  for (std::size_t i = l.aliases().size(); i-- > 0;) {
    const auto input = std::find(inputs.begin(), inputs.end(), l.aliases()[i]) - inputs.begin();
    p->leaf_of_input[static_cast<std::size_t>(input)] = e.order.empty() ? i : e.order[i];
  }
  for (const tensor_type& t : p->run.plan().input_types()) p->input_bytes.push_back(t.bytes());
  for (const tensor_type& t : p->run.plan().output_types()) p->output_bytes.push_back(t.bytes());
  return p;
}

std::unique_ptr<evaluation_site::prepared> evaluation_site::take(const evaluation& e, context& where, bool known) {
  auto p = find(e);
  return p || known ? std::move(p) : make(e, where);
}

void evaluation_site::rest(std::unique_ptr<prepared> p) {
  // Keeps the last one in the thread's slot.
  if (const auto thread = thread_number::get(); thread < places && !places_[thread].busy) {
    p = std::unique_ptr<prepared>(std::exchange(places_[thread].ready, p.release()));
    if (!p) return;
  }
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(p));
  std::size_t bytes = 0, kept = 0;
  while (kept < idle_.size() && kept < max_ &&
         (bytes += idle_.end()[-1 - static_cast<std::ptrdiff_t>(kept)]->run.bytes()) <= max_bytes)
    ++kept;
  idle_.erase(idle_.begin(), idle_.end() - static_cast<std::ptrdiff_t>(kept));
}

// Runs the thread's last executor in its slot, if it matches.
template <class F> bool evaluation_site::prepared::with_executor(evaluation_site& site, const evaluation& e,
                                                                 context& where, bool known, F run) {
  if (const auto thread = thread_number::get(); thread < places) {
    place& own = site.places_[thread];
    if (own.ready && !own.busy && own.ready->serves(e)) [[likely]] {
      struct leave {
        bool& busy;
        ~leave() { busy = false; }
      } when_done{own.busy = true};
      run(*own.ready);
      return true;
    }
  }
  return with_other_executor(site, e, where, known, run);
}

bool evaluation_site::run(const evaluation& e, context& where, view<void* const> results, bool known) {
  return prepared::with_executor(*this, e, where, known,
                                 [&](prepared& p) __attribute__((always_inline)) { p.run_into(e, results); });
}

bool evaluation_site::run_known(const evaluation& e, context& where, void* (*memory)(void*, const shape&), void* to) {
  return prepared::with_executor(*this, e, where, true, [&](prepared& p) {
    void* const results[] = {memory(to, p.run.plan().output_types()[0].dims)};
    p.run_into(e, results);
  });
}

void evaluation_site::with_executor(const evaluation& e, context& where, void (*use)(void*, executor&), void* to) {
  prepared::with_executor(*this, e, where, false, [&](prepared& p) {
    p.last.clear();
    p.bind_inputs(e);
    use(to, p.run);
  });
}

}  // namespace detail

void detail::result_mismatch(std::string_view given, const shape& result, std::string_view to, const shape& place) {
  text t;
  raise(error_kind::shape, t << given << " is " << result << " and " << to << " " << place);
}

// ---- many results in one run ----------------------------------------------------------------------------------------

struct eval_plan::plans {
  detail::evaluation_site site{16};
};

void eval_plan::run() {
  if (entries_.empty()) return;
  detail::evaluation_key key;
  for (const auto& one : entries_) one.key(one.kept.get(), key);
  const auto lower = [](program& p, lowering& l, const void* entries) {
    for (const auto& one : *static_cast<const std::vector<entry>*>(entries))
      p.output("result", one.lower(one.kept.get(), l));
  };
  const auto into_results = [](void* to, executor& run) {
    auto& own = *static_cast<eval_plan*>(to);
    own.counters_ = run.plan().counters();
    own.cost_ = run.plan().cost();
    for (std::size_t i = 0; i < own.entries_.size(); ++i) {
      const auto& one = own.entries_[i];
      try {
        run.bind_output(i, one.result(one.kept.get()));
      } catch (const out_of_memory& lack) { detail::no_memory_for(run.plan(), run.planned_bytes(), lack); }
    }
    run.run();
  };
  try {
    where_->slot<plans>().site.with_executor(
        {.leaves = key.leaves(), .words = key.words(), .lower = lower, .expression = &entries_, .merge = true}, *where_,
        into_results, this);
  } catch (...) {
    for (const auto& one : entries_) one.forget(one.kept.get());  // results not computed have no value
    throw;
  }
  clear();
}

void eval_plan::clear() {
  for (const auto& one : entries_) one.let_go(one.kept.get());
  entries_.clear();
}

}  // namespace lamina
