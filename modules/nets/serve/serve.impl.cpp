module lamina:serve.impl;
import :context;
import :core;
import :serve;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {

// ---- a request ------------------------------------------------------------------------------------------------------

struct queued::failure {
  std::optional<error_kind> kind;
  std::string what;
  std::size_t requested = 0, planned = 0;  // details of an out_of_memory error
  std::int64_t used = 0, limit = 0;
};
queued::~queued() = default;

namespace {

constexpr const char* late = "the deadline passed before the request was computed";
constexpr const char* stopped = "the queue was stopped before the request was computed";

std::shared_ptr<const queued::failure> failure_of(std::optional<error_kind> kind, const char* what,
                                                  const out_of_memory* numbers = nullptr) noexcept {
  try {
    auto made = std::make_shared<queued::failure>(kind, what);
    if (numbers) {
      made->requested = numbers->requested();
      made->planned = numbers->planned();
      made->used = numbers->used();
      made->limit = numbers->limit();
    }
    return made;
  } catch (...) {  // no memory for a message
    return nullptr;
  }
}

// Raises a state_error in a forked child: the workers are threads of the process that created the queue.
void check_process(const char* whose, std::uint32_t process) {
  if (process == process_number()) return;
  text t;
  raise(error_kind::state, t << whose
                             << ": used in a forked child of the process that made the queue; threads do not survive a "
                                "fork, so make the queue after it");
}

}  // namespace

void queued::wait() { wait_until(never); }
bool queued::wait_until(clock::time_point t) {
  if (ready()) return true;
  check_process("answer", process_);
  std::unique_lock lock(mutex_);
  const auto is_ready = [&] { return ready(); };
  if (t < until) return changed_.wait_until(lock, t, is_ready);
  if (until != never && !changed_.wait_until(lock, until, is_ready)) {
    lock.unlock();
    if (claim()) finish(failure_of(error_kind::deadline, late), true);
    lock.lock();
  }
  if (t != never) return changed_.wait_until(lock, t, is_ready);
  changed_.wait(lock, is_ready);
  return true;
}
void queued::set_callback(std::function<void()> f) {
  {
    std::lock_guard lock(mutex_);
    callback_.swap(f);
    if (!ready()) return;
    f = std::exchange(callback_, nullptr);
  }
  if (f) f();
}
bool queued::claim() noexcept {
  auto was = state::open;
  return now_.compare_exchange_strong(was, state::claimed, std::memory_order_acq_rel);
}
void queued::check() const {
  if (now_.load(std::memory_order_acquire) != state::failed) return;
  if (!why_) raise(error_kind::memory, "out of memory");
  if (why_->kind == error_kind::memory)
    throw out_of_memory(why_->what, why_->requested, why_->used, why_->limit, why_->planned);
  if (why_->kind) raise(*why_->kind, why_->what);
  throw error(why_->what);
}
queued::clock::time_point queued::in(std::chrono::nanoseconds d) {
  const auto now = clock::now();
  return d < never - now ? now + d : never;
}
void queued::finish(std::shared_ptr<const failure> why, bool failed) noexcept {
  why_ = std::move(why);
  std::function<void()> callback;
  {
    std::lock_guard lock(mutex_);
    now_.store(failed ? state::failed : state::computed, std::memory_order_release);
    callback.swap(callback_);
  }
  changed_.notify_all();
  if (callback) callback();
}

batch_runner::~batch_runner() = default;

storage batch_memory(std::size_t bytes, std::size_t planned) {
  try {
    return storage(bytes);
  } catch (const out_of_memory& e) {
    text t;
    t << e.what() << "; the plan of the batch needs " << planned << " bytes";
    throw out_of_memory(t.string(), e.requested(), e.used(), e.limit(), planned);
  }
}

// Intrusive list of requests. Moving requests allocates nothing, so none is lost when memory runs out.
// Not in the unnamed namespace: `queue_core::implementation`, which has linkage, has members of this type.
class request_list {
 public:
  request_list() = default;
  request_list(request_list&& o) noexcept
      : first_(std::move(o.first_)), last_(std::exchange(o.last_, nullptr)), size_(std::exchange(o.size_, 0)) {}
  request_list& operator=(request_list&&) = delete;
  ~request_list() { clear(); }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  const std::shared_ptr<queued>& front() const { return first_; }
  void push_back(std::shared_ptr<queued> r) noexcept {
    queued* const one = r.get();
    (last_ ? last_->next : first_) = std::move(r);
    last_ = one;
    ++size_;
  }
  std::shared_ptr<queued> pop_front() noexcept {
    auto r = std::move(first_);
    first_ = std::move(r->next);
    if (--size_ == 0) last_ = nullptr;
    return r;
  }
  // Moves all elements of `o` to the end.
  void append(request_list& o) noexcept {
    if (o.empty()) return;
    (last_ ? last_->next : first_) = std::move(o.first_);
    last_ = std::exchange(o.last_, nullptr);
    size_ += std::exchange(o.size_, 0);
  }
  void clear() noexcept {
    while (!empty()) pop_front();
  }
  template <class F> void each(F f) const {
    for (const std::shared_ptr<queued>* r = &first_; *r; r = &(*r)->next) f(*r);
  }

 private:
  std::shared_ptr<queued> first_;
  queued* last_ = nullptr;
  std::size_t size_ = 0;
};

namespace {

std::optional<error_kind> kind_of(const std::exception& e) {
  if (dynamic_cast<const shape_error*>(&e)) return error_kind::shape;
  if (dynamic_cast<const type_error*>(&e)) return error_kind::type;
  if (dynamic_cast<const value_error*>(&e)) return error_kind::value;
  if (dynamic_cast<const file_error*>(&e)) return error_kind::file;
  if (dynamic_cast<const state_error*>(&e)) return error_kind::state;
  if (dynamic_cast<const stopped_error*>(&e)) return error_kind::stopped;
  if (dynamic_cast<const unsupported_error*>(&e)) return error_kind::unsupported;
  if (dynamic_cast<const resource_error*>(&e)) return error_kind::resource;
  if (dynamic_cast<const out_of_memory*>(&e) || dynamic_cast<const std::bad_alloc*>(&e)) return error_kind::memory;
  return {};
}

// Fails all requests, which are claimed, with one shared failure; each caller raises its own error from it.
void fail(request_list& all, std::optional<error_kind> kind, const char* what,
          const out_of_memory* numbers = nullptr) noexcept {
  if (all.empty()) return;
  const auto why = failure_of(kind, what, numbers);
  while (!all.empty()) all.pop_front()->finish(why, true);
}

// Workers trim periodically: memory that other threads allocated and a worker freed, such as replaced weights, stays
// with the worker's thread.
constexpr std::int64_t batches_between_trims = 256;

template <class T> void check_option(const char* name, T value, T least, T max, const char* unit = "") {
  if (value >= least && value <= max) return;
  text t;
  t << "batching_queue: `" << name << "` must be " << least << " to " << max << unit << "; got " << value;
  raise(error_kind::value, t);
}

struct cancellation {
  const std::atomic<bool>* is;
  bool stop_requested() const noexcept { return is->load(std::memory_order_relaxed); }
};

// Allowed batch sizes; few, since each needs a plan.
std::vector<std::int64_t> sizes_up_to(std::int64_t batch) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n < batch; n *= 2) {
    all.push_back(n);
    if (batch <= 64 && n >= 2 && n / 2 * 3 < batch) all.push_back(n / 2 * 3);
  }
  all.push_back(batch);
  return all;
}

}  // namespace

// ---- the queue ------------------------------------------------------------------------------------------------------

struct queue_core::implementation {
  using clock = queued::clock;

  const queue_options options;
  const std::uint32_t process = process_number();
  const std::vector<std::int64_t> sizes;
  const std::size_t capacity, enough;  // maximum waiting requests; number that completes a batch

  mutable std::mutex mutex;
  std::condition_variable work_ready;  // for workers: there is work and no other worker is forming a batch
  std::condition_variable grown;       // for the worker that is forming a batch: it may be complete
  std::condition_variable not_full;    // for callers: the queue has space
  request_list waiting;
  clock::time_point urgent = queued::never;  // earliest deadline of the waiting requests
  clock::time_point closing{};               // when the batch being formed starts
  bool forming = false, over = false;
  std::atomic<bool> canceled{false};  // stops running batches
  std::int64_t blocked = 0;
  queue_statistics figures;

  std::mutex joining;
  std::vector<std::unique_ptr<batch_runner>> runners;
  std::vector<std::thread> threads;

  explicit implementation(const queue_options& o)
      : options(o),
        sizes(sizes_up_to(o.batch)),
        capacity(static_cast<std::size_t>(o.capacity)),
        enough(static_cast<std::size_t>(std::min(o.batch, o.capacity))) {
    figures.batch_sizes.resize(static_cast<std::size_t>(o.batch) + 1);
  }

  // Number of samples to take of n, and rows to compute: pads to the next size if that adds at most n / 8 rows, else
  // takes the next smaller size.
  std::pair<std::size_t, std::int64_t> cut(std::size_t n) const {
    const auto count = static_cast<std::int64_t>(n);
    const auto above = std::lower_bound(sizes.begin(), sizes.end(), count);
    if ((*above - count) * 8 <= count) return {n, *above};
    return {static_cast<std::size_t>(*(above - 1)), *(above - 1)};
  }

  clock::time_point leaves() const {
    auto t = waiting.front()->arrived + options.delay;
    if (urgent != queued::never) t = std::min(t, urgent - options.delay);
    return t;
  }

  // Moves compatible samples to `batch` and requests past their deadline to `expired`. Returns the rows of the batch.
  std::int64_t take(const batch_runner& runner, request_list& batch, request_list& expired) {
    const auto now = clock::now();
    request_list like, other;  // compatible requests, and the other ones examined
    const auto max = static_cast<std::size_t>(options.batch);
    for (std::size_t inspected = 0; !waiting.empty() && like.size() < max && inspected < 8 * max; ++inspected) {
      auto r = waiting.pop_front();
      if (r->until <= now || r->ready()) expired.push_back(std::move(r));
      else if (like.empty() || runner.alike(*like.front(), *r)) like.push_back(std::move(r));
      else other.push_back(std::move(r));
    }
    std::int64_t rows = 0;
    if (!like.empty()) {
      std::size_t count = 0;
      std::tie(count, rows) = cut(like.size());
      while (batch.size() < count) batch.push_back(like.pop_front());
    }
    figures.expired += static_cast<std::int64_t>(expired.size()) + keep_claimed(batch);
    keep_claimed(expired);
    // Put the remainder back at the front: it is older than most of the waiting requests.
    like.append(other);
    like.append(waiting);
    waiting.append(like);
    if (urgent != queued::never) {
      urgent = queued::never;
      waiting.each([&](const auto& r) { urgent = std::min(urgent, r->until); });
    }
    figures.running += static_cast<std::int64_t>(batch.size());
    return rows;
  }

  // Keeps the requests that this thread can claim and drops those that callers have failed at their deadline; returns
  // the number dropped.
  static std::int64_t keep_claimed(request_list& all) {
    std::int64_t given_up = 0;
    for (auto left = all.size(); left > 0; --left) {
      auto r = all.pop_front();
      if (r->claim()) all.push_back(std::move(r));
      else ++given_up;
    }
    return given_up;
  }

  // Waits for a batch; false after the shutdown.
  bool next(const batch_runner& runner, request_list& batch, request_list& expired, std::int64_t& rows) {
    std::unique_lock lock(mutex);
    work_ready.wait(lock, [&] { return (!forming && !waiting.empty()) || (over && waiting.empty()); });
    if (waiting.empty()) return false;
    forming = true;
    while (!over && waiting.size() < enough) {
      closing = leaves();
      if (clock::now() >= closing) break;
      grown.wait_until(lock, closing);
      if (waiting.empty()) break;  // a shutdown took them
    }
    forming = false;
    rows = take(runner, batch, expired);
    const bool more = !waiting.empty() || over, callers = blocked > 0;
    lock.unlock();
    if (more) work_ready.notify_one();
    if (callers) not_full.notify_all();
    return true;
  }

  void account(const request_list& batch, std::int64_t queue_statistics::* as) {
    const auto now = clock::now();
    const auto n = static_cast<std::int64_t>(batch.size());
    std::lock_guard lock(mutex);
    figures.running -= n;
    figures.*as += n;
    ++figures.batches;
    ++figures.batch_sizes[batch.size()];
    if (as != &queue_statistics::answered) return;
    batch.each([&](const auto& r) {
      const double seconds = std::chrono::duration<double>(now - r->arrived).count();
      const auto& bounds = latency_histogram::bounds;
      ++figures.latency
            .counts[static_cast<std::size_t>(std::lower_bound(bounds.begin(), bounds.end(), seconds) - bounds.begin())];
      figures.latency.sum += seconds;
    });
  }

  void work(batch_runner& runner) {
    request_list batch, expired;
    std::vector<std::shared_ptr<queued>> together;
    std::int64_t rows = 0;
    const stop_scope until_canceled(cancellation{&canceled});
    for (std::int64_t batch_number = 1; next(runner, batch, expired, rows); ++batch_number) {
      if (batch_number % batches_between_trims == 0) memory::trim();
      if (!expired.empty()) fail(expired, error_kind::deadline, late);
      if (batch.empty()) continue;
      auto give_up = [&](std::optional<error_kind> kind, const char* what, const out_of_memory* numbers = nullptr) {
        account(batch, kind == error_kind::stopped ? &queue_statistics::stopped : &queue_statistics::failed);
        fail(batch, kind, what, numbers);
      };
      try {
        batch.each([&](const auto& r) { together.push_back(r); });
        runner.run(view<const std::shared_ptr<queued>>(together.data(), together.size()), rows);
        account(batch, &queue_statistics::answered);
        while (!batch.empty()) batch.pop_front()->finish();
      } catch (const out_of_memory& e) { give_up(error_kind::memory, e.what(), &e); } catch (const std::exception& e) {
        give_up(kind_of(e), e.what());
      } catch (...) { give_up({}, "the run threw something other than a std::exception"); }
      together.clear();
    }
    work_ready.notify_all();
  }

  void stop(ending how) {
    const bool at_once = how != ending::computed;
    if (how == ending::canceled) canceled.store(true, std::memory_order_relaxed);
    request_list dropped;
    {
      std::lock_guard lock(mutex);
      over = true;
      if (at_once) {
        dropped.append(waiting);
        urgent = queued::never;
        figures.expired += keep_claimed(dropped);
        figures.stopped += static_cast<std::int64_t>(dropped.size());
      }
    }
    work_ready.notify_all();
    grown.notify_all();
    not_full.notify_all();
    fail(dropped, error_kind::stopped, stopped);
    std::lock_guard lock(joining);
    for (auto& t : threads)
      if (t.joinable()) t.join();
  }
};

queue_core::queue_core(const queue_options& o, const std::function<std::unique_ptr<batch_runner>()>& make) {
  check_option<std::int64_t>("workers", o.workers, 1, 1024);
  check_option<std::int64_t>("batch", o.batch, 1, 32768);
  check_option<std::int64_t>("delay", o.delay.count(), 0, 60000000, " microseconds");
  check_option<std::int64_t>("capacity", o.capacity, 1, std::int64_t{1} << 40);
  impl_ = std::make_unique<implementation>(o);
  for (int w = 0; w < o.workers; ++w) impl_->runners.push_back(make());
  try {
    impl_->threads.reserve(impl_->runners.size());
    for (auto& runner : impl_->runners)
      impl_->threads.push_back(start_thread("batching_queue", static_cast<int>(impl_->threads.size()) + 1, o.workers,
                                            [i = impl_.get(), r = runner.get()] { i->work(*r); }));
  } catch (...) {  // no more threads available
    impl_->stop(ending::dropped);
    throw;
  }
}
queue_core::~queue_core() {
  if (!impl_) return;
  if (impl_->process == process_number()) impl_->stop(ending::computed);
  else (void)impl_.release();  // leak: the parent's threads and condition variables cannot be joined or destroyed here
}

bool queue_core::push(std::shared_ptr<queued> r, bool wait) {
  auto& q = *impl_;
  check_process("submit", q.process);
  r->arrived = queued::clock::now();
  std::unique_lock lock(q.mutex);
  auto refuse_if_over = [&] {
    if (q.over) raise(error_kind::stopped, "submit: the queue was stopped");
  };
  refuse_if_over();
  bool in_time = r->until > r->arrived;
  while (in_time && q.waiting.size() >= q.capacity) {
    if (!wait) {
      ++q.figures.refused;
      return false;
    }
    ++q.blocked;
    if (r->until == queued::never) q.not_full.wait(lock);
    else in_time = q.not_full.wait_until(lock, r->until) == std::cv_status::no_timeout;
    --q.blocked;
    refuse_if_over();
  }
  ++q.figures.requests;
  if (!in_time) {
    ++q.figures.expired;
    lock.unlock();
    if (r->claim()) r->finish(failure_of(error_kind::deadline, late), true);
    return true;
  }
  const auto until = r->until;
  q.waiting.push_back(std::move(r));
  q.urgent = std::min(q.urgent, until);
  const bool forming = q.forming;
  const bool leaves =
      forming && (q.waiting.size() >= q.enough || (until != queued::never && until - q.options.delay < q.closing));
  lock.unlock();
  if (leaves) q.grown.notify_one();
  else if (!forming) q.work_ready.notify_one();
  return true;
}

void queue_core::shutdown(ending how) {
  check_process("shutdown", impl_->process);
  impl_->stop(how);
}
queue_statistics queue_core::statistics() const {
  check_process("statistics", impl_->process);
  std::lock_guard lock(impl_->mutex);
  auto s = impl_->figures;
  // Requests that callers have failed at their deadline stay in the list until a worker removes them.
  impl_->waiting.each([&](const auto& r) { ++(r->ready() ? s.expired : s.waiting); });
  return s;
}
const queue_options& queue_core::options() const { return impl_->options; }

// ---- diagnostics ----------------------------------------------------------------------------------------------------

void no_answer() { raise(error_kind::state, "answer: there is none; it was taken already, or nothing was submitted"); }
void sample_mismatch(std::size_t input, const shape& expected, const shape& given) {
  text t;
  t << "submit: a sample for input " << input << " is " << expected << "; got " << given;
  raise(error_kind::shape, t);
}
void rows_mismatch(std::size_t output, const shape& given, std::int64_t rows) {
  text t;
  t << "batching_queue: " << rows << " samples give output " << output << " as " << given
    << "; expected a row for each";
  raise(error_kind::shape, t);
}

}  // namespace detail

}  // namespace lamina
