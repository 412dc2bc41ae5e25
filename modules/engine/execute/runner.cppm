// Plans by shape: the executors of one program.
export module lamina:runner;
import :context;
import :core;
import :execute;
import :optimize;
import :program;
import :shape;
import :workspace;
import lamina.std;

namespace lamina {

/// Executors of one program for the input shapes met so far; the latest 512 are kept, as long as they and their plans
/// are less than 32 MiB and less than the cache of plans may keep. They work in one memory, and their plans come from the
/// cache of the context. For one thread.
export class plan_runner {
 public:
  plan_runner();
  plan_runner(plan_runner&&) noexcept;
  plan_runner& operator=(plan_runner&&) noexcept;
  ~plan_runner();
  /// `packs` are those of a store that several runners share. With `arenas` memory is lent for each run.
  plan_runner(std::shared_ptr<const program> p, state_source states, std::shared_ptr<context> where, pass_options passes, shared_packs* packs = nullptr,
              std::shared_ptr<arena_pool> arenas = nullptr);
  /// The executor for these input extents, made if need be. It may run until the next call, or until `rest`.
  /// Errors: as those of `make_plan` and of an executor.
  executor& at(view<const shape> inputs);
  /// Has executors read other states of the same names and types from the next `at` on.
  void read(state_source states, shared_packs* packs);
  /// After a run: gives back memory that was lent.
  void rest() noexcept;
  /// Bytes of the executors and of memory that is not lent.
  std::size_t bytes() const;

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina
