// Serving: accepts single samples from any number of threads and computes them in batches on reference models.
export module lamina:serve;
import :context;
import :core;
import :dtype;
import :execute;
import :expression;
import :model;
import :reference;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- options and statistics -----------------------------------------------------------------------------------------

/// Batching and capacity of a queue.
export struct queue_options {
  int workers = 1;                       // worker threads, each with its own reference model: 1..1024
  std::int64_t batch = 32;               // maximum samples per run: 1..32768
  std::chrono::microseconds delay{200};  // maximum wait of a sample for others while a worker is free: 0..60 s
  std::int64_t capacity = 1024;          // maximum waiting requests; when full, submit blocks and try_submit refuses
};

/// Latency of computed requests, from `submit` to the answer.
export struct latency_histogram {
  /// Upper bounds in seconds; the last count is for latencies above the last bound.
  static constexpr std::array<double, 19> bounds{1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2,
                                                 2e-2, 5e-2, 0.1,  0.2,  0.5,  1,    2,    5,    10};
  std::array<std::int64_t, 20> counts{};
  double sum = 0;  // seconds
};

/// Counters of a queue. requests = answered + failed + expired + stopped + waiting + running.
struct queue_statistics {
  std::int64_t requests = 0;  // accepted
  std::int64_t answered = 0;  // computed
  std::int64_t failed = 0;    // their run raised an error
  std::int64_t expired = 0;   // their deadline passed
  std::int64_t stopped = 0;   // canceled by shutdown_now or cancel
  std::int64_t refused = 0;   // refused by try_submit; not counted as accepted
  std::int64_t waiting = 0, running = 0;
  std::int64_t batches = 0;
  std::vector<std::int64_t> batch_sizes;  // [n]: runs of n samples
  latency_histogram latency;
};

// ---- non-template part ----------------------------------------------------------------------------------------------

namespace detail {

/// Elements that pass between threads. Uses `new`, not lamina's allocator, which keeps memory with the thread that
/// frees it.
struct kept {
  shape dims;
  std::unique_ptr<std::byte[]> bytes;
  void keep(const shape& s, const void* from, std::size_t n) {
    dims = s;
    bytes.reset(new std::byte[n]);
    if (n) std::memcpy(bytes.get(), from, n);
  }
};

/// A request, owned jointly by the caller's answer and the queue.
class queued {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr clock::time_point never = clock::time_point::max();
  struct failure;

  queued(view<kept> samples_of, view<kept> rows_of) : samples(samples_of), rows(rows_of) {}
  queued(const queued&) = delete;
  queued& operator=(const queued&) = delete;
  virtual ~queued();
  bool ready() const noexcept { return now_.load(std::memory_order_acquire) >= state::computed; }
  /// Waits until ready. At its deadline, a request that no worker has started fails with a deadline_error, so deadlines
  /// hold while all workers are busy. Errors: state_error in a forked child, which has no workers.
  void wait();
  /// Waits until ready or `t`; returns whether it is ready.
  bool wait_until(clock::time_point t);
  /// Calls `f` when ready: on the thread that finishes the request, or immediately.
  void set_callback(std::function<void()> f);
  /// Claims the right to finish this request; false if another thread has claimed it.
  bool claim() noexcept;
  /// Raises the error of a request that was not computed.
  void check() const;
  void finish(std::shared_ptr<const failure> why = nullptr, bool failed = false) noexcept;

  /// The time point `d` from now; `never` on overflow.
  static clock::time_point in(std::chrono::nanoseconds d);

  const view<kept> samples, rows;  // one per input; one per output
  std::shared_ptr<queued> next;    // next request in the queue's intrusive list
  clock::time_point arrived{}, until = never;

 private:
  enum class state : int { open, claimed, computed, failed };
  std::atomic<state> now_{state::open};
  const std::uint32_t process_ = process_number();
  std::shared_ptr<const failure> why_;  // null if its allocation failed
  std::function<void()> callback_;
  std::mutex mutex_;
  std::condition_variable changed_;
};

/// Computes batches; one per worker.
class batch_runner {
 public:
  virtual ~batch_runner();
  /// Computes the results of all requests. `rows` >= the number of requests; the excess rows are padding.
  virtual void run(view<const std::shared_ptr<queued>> batch, std::int64_t rows) = 0;
  /// Whether two requests can share a batch.
  virtual bool alike(const queued& a, const queued& b) const = 0;
};

class queue_core {
 public:
  /// Errors: value_error naming the option that is out of range; resource_error if no thread can be started.
  queue_core(const queue_options& o, const std::function<std::unique_ptr<batch_runner>()>& make);
  ~queue_core();
  queue_core(const queue_core&) = delete;
  queue_core& operator=(const queue_core&) = delete;
  /// Returns whether the request was accepted. If the queue is full, `wait` blocks until there is space. Errors:
  /// stopped_error.
  bool push(std::shared_ptr<queued> r, bool wait);
  // Shutdown mode: compute all requests; drop waiting ones; also cancel running ones.
  enum class ending { computed, dropped, canceled };
  void shutdown(ending how);
  queue_statistics statistics() const;
  const queue_options& options() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

/// Allocates the samples of a batch. `planned`: working memory of its plan, for the error. Errors: out_of_memory.
storage batch_memory(std::size_t bytes, std::size_t planned);
[[noreturn]] void no_answer();
[[noreturn]] void sample_mismatch(std::size_t input, const shape& expected, const shape& given);
[[noreturn]] void rows_mismatch(std::size_t output, const shape& given, std::int64_t rows);

// ---- checks ---------------------------------------------------------------------------------------------------------

/// Checks that all inputs and outputs of a model have a symbolic leading dimension for samples.
template <class Traits> struct queue_check {
  static consteval text message() {
    text t;
    for (std::size_t i = 0; i < Traits::inputs && t.empty(); ++i) check_leading(t, "input ", i, Traits::patterns[i]);
    for (std::size_t o = 0; o < Traits::outputs.size() && t.empty(); ++o)
      check_leading(t, "output ", o, Traits::outputs[o].dims);
    return t;
  }

 private:
  static consteval void check_leading(text& t, const char* what, std::size_t i, const shape& s) {
    if (s.rank > 0 && !s[0].is_number()) return;
    t << "a batching queue needs a leading dimension that is dyn or named, but " << what << i << " of the model is "
      << s;
  }
};

template <class Traits, class... X> struct sample_check {
  static consteval text message() {
    if constexpr (!(InMemory<X> && ...)) return memory_mismatch<X...>("submit: sample ", "submit");
    else return of_tensors();
  }

 private:
  static consteval text of_tensors() {
    const tensor_type given[] = {{dtype_of<typename X::element_type>, X::pattern}..., {}};
    text t;
    if (sizeof...(X) != Traits::inputs) {
      t << "submit: a sample of this model has " << Traits::inputs << (Traits::inputs == 1 ? " tensor" : " tensors")
        << "; got " << sizeof...(X);
      return t;
    }
    for (std::size_t i = 0; i < sizeof...(X) && t.empty(); ++i) {
      const tensor_type expected{Traits::elements[i], without_leading(Traits::patterns[i])};
      if (expected.element == given[i].element && fits(expected.dims, given[i].dims)) continue;
      t << "submit: a sample for input " << i << " is " << expected << "; got " << given[i];
      if (expected.dims.rank + 1 == given[i].dims.rank) t << "; a sample has no batch dimension";
    }
    return t;
  }
};

// ---- requests of a model --------------------------------------------------------------------------------------------

template <class Traits, std::size_t I> using sample_of =
    tensor<element_of<Traits::elements[I]>, extents_for<without_leading(Traits::patterns[I])>>;
template <class Traits, std::size_t I> using batch_of =
    tensor<element_of<Traits::elements[I]>, extents_for<Traits::patterns[I]>>;
template <class Traits, std::size_t O> using row_of =
    tensor<element_of<Traits::outputs[O].element>, extents_for<without_leading(Traits::outputs[O].dims)>>;

template <class Traits, class Outputs = std::make_index_sequence<Traits::outputs.size()>> struct rows_of;
template <class Traits, std::size_t O> struct rows_of<Traits, std::index_sequence<O>> {
  using type = row_of<Traits, O>;
};
template <class Traits, std::size_t... O> requires(sizeof...(O) > 1) struct rows_of<Traits, std::index_sequence<O...>> {
  using type = results<row_of<Traits, O>...>;
};

/// Member O of `results`, or the single result itself.
template <std::size_t Count, std::size_t O, class R> auto& part(R& r) {
  if constexpr (Count == 1) return r;
  else if constexpr (O == 0) return r.first;
  else if constexpr (O == 1) return r.second;
  else if constexpr (O == 2) return r.third;
  else if constexpr (O == 3) return r.fourth;
  else if constexpr (O == 4) return r.fifth;
  else if constexpr (O == 5) return r.sixth;
  else if constexpr (O == 6) return r.seventh;
  else if constexpr (O == 7) return r.eighth;
  else if constexpr (O == 8) return r.ninth;
  else if constexpr (O == 9) return r.tenth;
  else if constexpr (O == 10) return r.eleventh;
  else return r.twelfth;
}

/// Copies a worker's results into tensors of the caller.
template <class Result> struct taken;
template <class T, class E> struct taken<tensor<T, E>> {
  static tensor<T, E> from(const kept* k) {
    auto t = tensor<T, E>::uninitialized(k->dims);
    if (t.size())
      std::memcpy(static_cast<void*>(t.writable().data()), k->bytes.get(),
                  static_cast<std::size_t>(t.size()) * sizeof(T));
    return t;
  }
};
template <class... T> struct taken<results<T...>> {
  static results<T...> from(const kept* k) { return {taken<T>::from(k++)...}; }
};

template <class Traits> struct request : queued {
  kept samples_kept[Traits::inputs], rows_kept[Traits::outputs.size()];

  // Copies the sample, so that the caller may overwrite its tensors immediately.
  template <class... X> explicit request(const X&... x) : queued(view<kept>(samples_kept), view<kept>(rows_kept)) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (keep<I>(x), ...); }(std::index_sequence_for<X...>());
  }

 private:
  template <std::size_t I, class X> void keep(const X& x) {
    constexpr shape expected = sample_of<Traits, I>::pattern;
    if (!fits(expected, x.shape())) sample_mismatch(I, expected, x.shape());
    samples_kept[I].keep(x.shape(), x.data().data(), x.data().size() * sizeof(typename X::element_type));
  }
};

template <class Traits> class row_runner final : public batch_runner {
 public:
  explicit row_runner(reference_model<Traits> net) : net_(std::move(net)) {}

  void run(view<const std::shared_ptr<queued>> batch, std::int64_t rows) override {
    auto y = [&]<std::size_t... I>(std::index_sequence<I...>) {
      const shape all[] = {with_first(rows, batch[0]->samples[I].dims)...};
      const std::size_t planned =
          net_.planned(view<const shape>(all, sizeof...(I)));  // build the plan before allocating samples
      return net_(stacked<I>(batch, all[I], planned)...);
    }(std::make_index_sequence<Traits::inputs>());
    [&]<std::size_t... O>(std::index_sequence<O...>) {
      (hand_out<O>(batch, rows, part<outputs, O>(y)), ...);
    }(std::make_index_sequence<outputs>());
  }
  bool alike(const queued& a, const queued& b) const override {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return ((sample_of<Traits, I>::pattern.is_static() || a.samples[I].dims == b.samples[I].dims) && ...);
    }(std::make_index_sequence<Traits::inputs>());
  }

 private:
  static constexpr std::size_t outputs = Traits::outputs.size();

  // Stacks the samples; padding rows repeat the last request.
  template <std::size_t I>
  static auto stacked(view<const std::shared_ptr<queued>> batch, const shape& all, std::size_t planned) {
    batch_of<Traits, I> x(
        batch_memory(static_cast<std::size_t>(all.size()) * sizeof(element_of<Traits::elements[I]>), planned), all);
    auto* to = x.writable().data();
    const auto rows = static_cast<std::size_t>(all[0].code),
               n = static_cast<std::size_t>(batch[0]->samples[I].dims.size());
    for (std::size_t r = 0; n && r < rows; ++r)
      std::memcpy(static_cast<void*>(to + r * n), batch[std::min(r, batch.size() - 1)]->samples[I].bytes.get(),
                  n * sizeof(*to));
    return x;
  }
  template <std::size_t O, class Y>
  static void hand_out(view<const std::shared_ptr<queued>> batch, std::int64_t rows, const Y& y) {
    if (y.shape()[0] != dim(rows)) rows_mismatch(O, y.shape(), rows);
    const shape one = without_leading(y.shape());
    const auto n = static_cast<std::size_t>(one.size());
    const auto* from = y.data().data();
    for (std::size_t r = 0; r < batch.size(); ++r) batch[r]->rows[O].keep(one, from + r * n, n * sizeof(*from));
  }

  reference_model<Traits> net_;
};

}  // namespace detail

// ---- the queue ------------------------------------------------------------------------------------------------------

/// Future for the result of a sample, or for the error of its run. Not thread-safe. The sample is computed even if
/// nothing waits for the answer.
export template <class Result> class answer {
 public:
  answer() = default;
  explicit answer(std::shared_ptr<detail::queued> r) : request_(std::move(r)) {}
  answer(answer&&) = default;
  answer& operator=(answer&&) = default;

  /// Whether there is a request to wait for: false if default-constructed, and after `get`.
  bool valid() const { return request_ != nullptr; }
  bool ready() const { return pending().ready(); }
  void wait() const { pending().wait(); }
  /// Calls `f` once when ready: on the thread that finished the request, or immediately. `f` must not throw, block or
  /// call the queue. A later call replaces an earlier callback.
  void on_ready(std::function<void()> f) const { pending().set_callback(std::move(f)); }
  /// Waits until ready or `t`; returns whether it is ready. If the wait reaches the request's deadline before a worker
  /// starts it, the answer becomes a deadline_error.
  bool wait_until(std::chrono::steady_clock::time_point t) const { return pending().wait_until(t); }
  bool wait_for(std::chrono::nanoseconds d) const { return wait_until(detail::queued::in(d)); }
  /// Waits, then moves out the result: one row per output, without the leading dimension. Errors: deadline_error if
  /// the deadline passed before the sample was computed, stopped_error after `shutdown_now` or `cancel`, the error of
  /// its batch, state_error on a second call.
  Result get() {
    pending().wait();
    auto r = std::move(request_);
    r->check();
    return detail::taken<Result>::from(r->rows.data());
  }

 private:
  detail::queued& pending() const {
    if (!request_) detail::no_answer();
    return *request_;
  }
  std::shared_ptr<detail::queued> request_;
};

/// Accepts single samples from any thread and computes them in batches on its own worker threads, one reference model
/// each: `batching_queue queue(factory, {.workers = 2}); auto y = queue.submit(x).get();`. A batch starts when it is
/// full, when its first sample has waited for `delay`, or when less than `delay` is left to a deadline in it. Every
/// accepted request is answered. If the net treats samples independently, the bits of an answer do not depend on its
/// batch. Only a few batch sizes are used, to limit the number of plans; samples of different shapes go into different
/// batches. Threads do not survive fork(2): in a child of the process that created it, a queue raises state_error.
/// Shapes: neither samples nor results have the leading dimension.
export template <class Traits> class batching_queue {
  static_assert(accepted<diagnostic<detail::queue_check<Traits>>()>);

 public:
  using result_type = typename detail::rows_of<Traits>::type;
  using answer_type = answer<result_type>;

  /// Creates the reference models and starts the workers. Errors: value_error for an option out of range;
  /// resource_error if no thread can be started.
  template <const auto& Topology, class... Rest>
  requires std::same_as<typename reference_factory<Topology, Rest...>::traits, Traits>
  explicit batching_queue(const reference_factory<Topology, Rest...>& f, const queue_options& o = {})
      : core_(o, [&]() -> std::unique_ptr<detail::batch_runner> {
          return std::make_unique<detail::row_runner<Traits>>(f.create());
        }) {}
  batching_queue(const batching_queue&) = delete;
  batching_queue& operator=(const batching_queue&) = delete;

  /// Copies and enqueues a sample, one tensor per input, and returns a future for its result; blocks while the queue is
  /// full. Errors: shape_error, stopped_error after a shutdown.
  template <class... X> requires accepted<diagnostic<detail::sample_check<Traits, X...>>()>
  answer_type submit(const X&... x) {
    return pushed(detail::queued::never, x...);
  }
  /// The same with a deadline `d` from now, which also bounds the wait for space: `queue.submit_within(5ms, x)`. If it
  /// passes before the sample is computed, the answer is a deadline_error.
  template <class... X> requires accepted<diagnostic<detail::sample_check<Traits, X...>>()>
  answer_type submit_within(std::chrono::nanoseconds d, const X&... x) {
    return pushed(detail::queued::in(d), x...);
  }
  /// Like `submit`, but returns an empty optional if the queue is full. Errors: shape_error, stopped_error after a
  /// shutdown.
  template <class... X> requires accepted<diagnostic<detail::sample_check<Traits, X...>>()>
  std::optional<answer_type> try_submit(const X&... x) {
    return tried(detail::queued::never, x...);
  }
  /// The same with a deadline.
  template <class... X> requires accepted<diagnostic<detail::sample_check<Traits, X...>>()>
  std::optional<answer_type> try_submit_within(std::chrono::nanoseconds d, const X&... x) {
    return tried(detail::queued::in(d), x...);
  }

  /// Stops accepting requests, computes the accepted ones, then joins the workers; the destructor does the same.
  void shutdown() { core_.shutdown(detail::queue_core::ending::computed); }
  /// Stops accepting requests and joins the workers after their current batches; waiting requests fail with a
  /// stopped_error.
  void shutdown_now() { core_.shutdown(detail::queue_core::ending::dropped); }
  /// Like `shutdown_now`, but also stops running batches before their next operation; their requests fail with a
  /// stopped_error, too.
  void cancel() { core_.shutdown(detail::queue_core::ending::canceled); }
  queue_statistics statistics() const { return core_.statistics(); }
  const queue_options& options() const { return core_.options(); }

 private:
  using time = std::chrono::steady_clock::time_point;
  template <class... X> static auto make_request(time until, const X&... x) {
    auto r = std::make_shared<detail::request<Traits>>(x...);
    r->until = until;
    return r;
  }
  template <class... X> answer_type pushed(time until, const X&... x) {
    auto r = make_request(until, x...);
    core_.push(r, true);
    return answer_type(std::move(r));
  }
  template <class... X> std::optional<answer_type> tried(time until, const X&... x) {
    auto r = make_request(until, x...);
    if (!core_.push(r, false)) return {};
    return answer_type(std::move(r));
  }
  detail::queue_core core_;
};
export template <const auto& Topology, class... Rest>
batching_queue(const reference_factory<Topology, Rest...>&, const queue_options& = {})
    -> batching_queue<typename reference_factory<Topology, Rest...>::traits>;

}  // namespace lamina
