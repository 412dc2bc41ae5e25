// Plans by shape: the executors of one program.
export module lamina:runner;
import :context;
import :core;
import :execute;
import :passes;
import :plan;
import :program;
import :shape;
import :tensor;
import :workspace;
import lamina.std;

namespace lamina {

/// Where output i of a run goes: memory for a tensor of this type, asked for once the type is known. Empty outputs too.
export using output_place = std::function<void*(std::size_t i, const tensor_type& type)>;

/// What operations took in runs of one plan. Of a program in segments each has its own, one for each plan that its runs
/// took.
export struct timed_plan {
  std::shared_ptr<const lamina::plan> plan;
  std::size_t segment = 0;
  std::vector<shape> inputs;              // extents that it is for
  std::vector<std::int64_t> nanoseconds;  // of each line, and last of what belongs to no line
  std::shared_ptr<executor> run;
  std::vector<std::byte> known_elements{};  // of inputs that decide shapes, that it is for
};

/// Executors of one program for the input shapes met so far; the latest 512 are kept, as long as they and their plans
/// are less than 32 MiB and less than the cache of plans may keep. They work in one memory, and their plans come from the
/// cache of the context. For one thread.
///
/// Where the extent of a result is known only when it has run (`non_zero`, `unique`, ...), the program is cut there into
/// segments, which are planned and run one after the other, each for the extents that those before it have found. Values
/// that pass from one to the next lie in memory of the runner, which grows to the largest: runs of extents that were met
/// before allocate nothing. States are assigned in the last segment, so that a run that fails assigns none.
///
/// Where an assignment has given the shared store other parameters, executors read those from the next `at` on.
///
/// Errors: state_error for a runner without a program, as one that was moved.
export class plan_runner {
 public:
  plan_runner();
  plan_runner(plan_runner&&) noexcept;
  plan_runner& operator=(plan_runner&&) noexcept;
  ~plan_runner();
  /// `packs` are those of a store that several runners share. With `arenas` memory is lent for each run.
  plan_runner(std::shared_ptr<const program> p, state_source states, std::shared_ptr<context> where,
              pass_options passes, shared_packs* packs = nullptr, std::shared_ptr<arena_pool> arenas = nullptr);
  /// The executor for these input extents, made if need be, and for the elements of inputs that decide shapes. It may run
  /// until the next call, or until `rest`.
  /// Errors: as those of `make_plan` and of an executor; unsupported_error for a program that runs in segments.
  executor& at(view<const shape> inputs, view<const known_input> known = {});
  /// Whether the program runs in segments: by `run`, since there is no one executor of it.
  bool in_segments() const;
  /// Runs the program: the extents of its inputs, where they lie, and where outputs go. Errors: as those of `at` and of an
  /// executor's run; value_error where an extent that was computed is outside of what there is.
  void run(view<const shape> extents, view<const void* const> inputs, const output_place& place);
  /// The same in plans of one operation after the other, adding to `times` what each took; entries are found again from
  /// run to run, in the order of segments. Their lines have the places of this program's operations.
  void run_timed(view<const shape> extents, view<const void* const> inputs, const output_place& place,
                 std::vector<timed_plan>& times);
  /// Plans for these input extents that are not of the cache, with the places of this program's operations. Of segments
  /// after the first for as many rows as there can be.
  std::vector<std::shared_ptr<const plan>> fresh_plans(view<const shape> inputs, memory_sharing how) const;
  /// What a run for these input extents does. Of segments after the first, for as many rows as there can be.
  std::string explain(view<const shape> inputs);
  /// The plans that `explain` tells of, from the cache.
  std::vector<std::shared_ptr<const plan>> plans(view<const shape> inputs);
  /// Has executors read other states of the same names and types from the next `at` on.
  void read(state_source states, shared_packs* packs);
  /// After a run: gives back memory that was lent.
  void rest() noexcept;
  /// Bytes of the executors and of memory that is not lent.
  std::size_t bytes() const;

 private:
  struct implementation;
  explicit plan_runner(std::unique_ptr<implementation> made);
  implementation& made() const;
  void run(view<const shape> extents, view<const void* const> inputs, const output_place& place,
           std::vector<timed_plan>* times);
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina
