// Cache of plans, shared by all evaluations in one context.
export module lamina:plan_cache;
import :cache;
import :cache.lru;
import :context;
import :core;
import :passes;
import :plan;
import :program;
import :shape;
import lamina.std;

namespace lamina {

/// Everything that a plan depends on: the program's structure, the extents of its inputs, the elements of inputs that
/// determine shapes, the instruction set, and the options.
struct plan_key {
  using plain_key = void;
  program_id structure;
  std::vector<shape> inputs;
  lamina::isa isa;
  pass_options passes;
  std::vector<std::byte> known{};
  std::size_t hash() const;
  bool operator==(const plan_key&) const = default;
};

/// Elements of the inputs that determine shapes, as a cache key.
std::vector<std::byte> bytes_of(const program& p, view<const shape> inputs, view<const known_input> known);

/// Cache of a context's plans: `where.slot<plan_cache>()`. Thread-safe; each plan is made once.
/// The environment variable LAMINA_PLAN_CACHE=N sets its capacity; N <= 0 disables it, and an empty value is ignored.
export class plan_cache {
 public:
  static constexpr cache_limits usual{5000, std::size_t(256) << 20};
  /// Errors: value_error if LAMINA_PLAN_CACHE is no whole number.
  plan_cache();
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;
  /// Clears the cache and sets its limits. Not thread-safe.
  void limit(const cache_limits& limits);
  const cache_limits& limits() const { return kept_->limits(); }
  /// The plan of a program, whose id is `structure`, for these extents. Errors: like `make_plan`; nothing is cached
  /// then.
  std::shared_ptr<const plan> get(const program& p, const program_id& structure, view<const shape> inputs, isa set,
                                  const pass_options& passes, view<const known_input> known = {});
  cache_statistics statistics() const { return kept_->statistics(); }
  void clear() { kept_->clear(); }

 private:
  using kept = shared_cache<plan_key, std::shared_ptr<const plan>>;
  std::unique_ptr<kept> kept_;
};

}  // namespace lamina
