// Cancellation: scopes in which a thread's runs poll a stop token.
export module lamina:stop;
import :core;
import lamina.std;

namespace lamina {

/// Token that a `stop_scope` polls: std::stop_token, std::stop_source, or a user's type, such as one that reads a
/// signal handler's flag. Several threads may poll it at once.
template <class T>
concept StopToken = std::constructible_from<T, const T&> && requires(const T& t) {
  { t.stop_requested() } noexcept -> std::same_as<bool>;
};

template <class T> struct stop_token_check {
  static consteval text message() {
    text t;
    if constexpr (!StopToken<T>)
      t << type_name<T>()
        << " is not a stop token: it needs `bool stop_requested() const noexcept`, as in std::stop_token";
    return t;
  }
};

namespace detail {

/// A stop scope of a thread, linked to its enclosing scopes.
class stop_link {
 public:
  stop_link(const stop_link&) = delete;
  stop_link& operator=(const stop_link&) = delete;
  /// Whether a stop of this scope or an enclosing one was requested. Sticky: an incomplete run must not count as
  /// complete.
  bool requested() const noexcept {
    if (seen_.load(std::memory_order_relaxed)) return true;
    if (!ask_(this) && !(outer_ && outer_->requested())) return false;
    seen_.store(true, std::memory_order_relaxed);
    return true;
  }

 protected:
  explicit stop_link(bool (*ask)(const stop_link*) noexcept) noexcept;
  ~stop_link();

 private:
  bool (*ask_)(const stop_link*) noexcept;
  const stop_link* outer_;
  mutable std::atomic<bool> seen_{false};
};

/// The innermost scope of this thread; null if its runs cannot be stopped.
extern constinit thread_local const stop_link* innermost_stop;

/// RAII: this thread's runs poll `link` and its enclosing scopes instead; null disables stopping.
class stopped_by {
 public:
  explicit stopped_by(const stop_link* link) noexcept : kept_(std::exchange(innermost_stop, link)) {}
  stopped_by(const stopped_by&) = delete;
  stopped_by& operator=(const stopped_by&) = delete;
  ~stopped_by() { innermost_stop = kept_; }

 private:
  const stop_link* kept_;
};

}  // namespace detail

/// RAII: every run that this thread begins polls a token before each of its operations, also in the iterations of a
/// `scan` or `loop`: calls of models and reference models, `evaluate`, steps of a `training`, `fit`, streams, nets of a
/// workspace. Another thread ends them by `source.request_stop()`: `std::stop_source source; lamina::stop_scope
/// scope(source.get_token()); net(x);`. Scopes nest; all enclosing ones are polled.
///
/// A stopped run raises stopped_error, which names the first operation that it skipped. States keep their values from
/// before the run, and the model can run again. The contents of results are undefined. A run that has begun to assign
/// its states completes.
///
/// A scope belongs to the thread that made it, and must end before its enclosing scopes. Threads that work for this
/// thread, in a pool or `parallel_workers`, poll it too; independent threads, of a `batching_queue` or started by
/// `workspace::start`, do not.
export template <class Token> class [[nodiscard]] stop_scope : detail::stop_link {
 public:
  explicit stop_scope(Token token) requires accepted<diagnostic<stop_token_check<Token>>()>
      : stop_link([](const stop_link* link) noexcept {
          return static_cast<const stop_scope*>(link)->token_.stop_requested();
        }),
        token_(std::move(token)) {}

 private:
  Token token_;
};

/// Whether a stop was requested for a `stop_scope` of this thread; for loops between runs.
export inline bool stop_requested() noexcept { return detail::innermost_stop && detail::innermost_stop->requested(); }

}  // namespace lamina
