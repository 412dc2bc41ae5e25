// Plans by what they depend on, for all who evaluate in one context.
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

/// What a plan depends on: the program's structure, the extents of its inputs, the elements of those that decide shapes,
/// the instruction set, and the options.
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

/// The elements of inputs that decide shapes, as a key.
std::vector<std::byte> bytes_of(const program& p, view<const shape> inputs, view<const known_input> known);

/// Keeps the plans of a context: `where.slot<plan_cache>()`. Any thread may ask it; a plan is made once.
/// The environment variable LAMINA_PLAN_CACHE=N sets how many it keeps; 0, or less, turns it off, and where it is
/// empty it says nothing.
export class plan_cache {
 public:
  static constexpr cache_limits usual{5000, std::size_t(256) << 20};
  /// Errors: value_error where LAMINA_PLAN_CACHE is no whole number.
  plan_cache();
  plan_cache(const plan_cache&) = delete;
  plan_cache& operator=(const plan_cache&) = delete;
  /// Forgets all plans and keeps so many from now on. Nobody may use the cache meanwhile.
  void limit(const cache_limits& limits);
  const cache_limits& limits() const { return kept_->limits(); }
  /// The plan of a program for these extents, whose id is `structure`. Errors: as `make_plan`; nothing is kept then.
  std::shared_ptr<const plan> get(const program& p, const program_id& structure, view<const shape> inputs, isa set,
                                  const pass_options& passes, view<const known_input> known = {});
  cache_statistics statistics() const { return kept_->statistics(); }
  void clear() { kept_->clear(); }

 private:
  using kept = shared_cache<plan_key, std::shared_ptr<const plan>>;
  std::unique_ptr<kept> kept_;
};

}  // namespace lamina
