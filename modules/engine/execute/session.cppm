// A program with its states in a context: what models, reference models, training, nets by name and the tool run.
export module lamina:session;
import :any_value;
import :context;
import :core;
import :execute;
import :io;
import :parameter;
import :passes;
import :plan;
import :program;
import :shape;
import :tensor;
import :workspace;
import lamina.std;

namespace lamina {

/// Where output i of a run goes: memory for a tensor of this type, asked for once the type is known. Empty outputs too.
using output_place = std::function<void*(std::size_t i, const tensor_type& type)>;

/// What operations took in runs of one plan. Of a program in segments each has its own, one for each plan that its runs
/// took, and one for each operation that runs on the host, with what its subprograms took.
export struct timed_plan {
  std::shared_ptr<const lamina::plan> plan;  // null: of an operation on the host
  std::size_t segment = 0;
  std::vector<shape> inputs;              // extents that it is for
  std::vector<std::int64_t> nanoseconds;  // of each line, and last of what belongs to no line
  std::shared_ptr<executor> run;
  std::vector<std::byte> known_elements{};  // of inputs that decide shapes, that it is for
  std::int32_t node = -1;                   // of an operation on the host
  plan_line line{};                         // its one line
  view<const plan_line> lines() const {
    return plan ? view<const plan_line>(plan->lines()) : view<const plan_line>(&line, 1);
  }
};

namespace ir {

/// Runs one program for any extents of its inputs: `session(p, {&states}).run(inputs)`. It keeps executors for the latest
/// 512 sets of extents, as long as they and their plans are less than 32 MiB and less than the cache of plans may keep. They
/// work in one memory, and their plans come from the cache of the context. For one thread at a time.
///
/// Where the extent of a result is known only when it has run (`non_zero`, `unique`, ...), the program is cut there into
/// segments, which are planned and run one after the other, each for the extents that those before it have found. Values
/// that pass from one to the next lie in memory of the session, which grows to the largest: runs of extents that were met
/// before allocate nothing. States are assigned in the last segment, so that a run that fails assigns none.
///
/// Operations that run on the host (`host_loop`, `sequence_at`, ...) stand between segments too. Their subprograms run in
/// sessions that this one keeps, so that iterations find the plans of those before them.
///
/// Where an assignment has given the shared store other parameters, executors read those from the next run on. A `stop_scope`
/// of the thread ends a run.
///
/// Errors: state_error for a session without a program, as one that was moved.
export class session {
 public:
  session();
  session(session&&) noexcept;
  session& operator=(session&&) noexcept;
  ~session();
  /// Without a context it runs on one thread. `packs` are those of a store that several sessions share. With `arenas` memory
  /// is lent for each run.
  explicit session(std::shared_ptr<const program> p, state_source states = {}, std::shared_ptr<context> where = nullptr,
                   pass_options passes = {}, shared_packs* packs = nullptr,
                   std::shared_ptr<arena_pool> arenas = nullptr);
  /// With states that are given away: elements of weights are freed where plans read packed forms alone.
  static session owning(std::shared_ptr<const program> p, parameter_store states,
                        std::shared_ptr<context> where = nullptr, pass_options passes = {});
  /// Is called where the extents of inputs do not fit, and may raise an error that says more.
  void on_mismatch(std::function<void(view<const shape> inputs)> explain);

  /// Runs the program on inputs in order; results in the order of its outputs. Errors: value_error for another number of
  /// inputs, type_error, shape_error; value_error where an extent that was computed is outside of what there is; those of an
  /// executor's run.
  std::vector<any_tensor> run(view<const any_tensor> inputs);
  /// The same into tensors: one that has the type of a result and its memory alone keeps it, others are replaced.
  void run(view<const any_tensor> inputs, std::vector<any_tensor>& results) { run(inputs, results, nullptr); }
  /// The same in plans of one operation after the other, adding to `times` what each took; entries are found again from
  /// run to run, in the order of segments. Their lines have the places of this program's operations.
  void run_timed(view<const any_tensor> inputs, std::vector<any_tensor>& results, std::vector<timed_plan>& times) {
    run(inputs, results, &times);
  }
  /// Inputs and results by name. Errors: also value_error for a name that is unknown, missing or given twice.
  std::vector<named_tensor> run(view<const named_tensor> inputs);
  /// The same for inputs and results that need not be tensors, as lists of `any_value` and `named_value`. Results of operations
  /// on the host share their memory. Errors: also type_error for a value of another kind.
  template <ValueList R> std::vector<any_value> run(const R& inputs) {
    std::vector<any_value> results;
    run(view<const any_value>(inputs), results, nullptr);
    return results;
  }
  template <ValueList R> void run(const R& inputs, std::vector<any_value>& results) {
    run(view<const any_value>(inputs), results, nullptr);
  }
  template <NamedValueList R> std::vector<named_value> run(const R& inputs) {
    return run_named(view<const named_value>(inputs));
  }
  /// The same on memory: the extents of inputs, where they lie, and where outputs go.
  void run(view<const shape> extents, view<const void* const> inputs, const output_place& place) {
    run(extents, inputs, place, nullptr);
  }

  /// The executor for these input extents, and for the elements of inputs that decide shapes, made if need be. It may run until
  /// the next call, or until `rest`.
  /// Errors: as those of `make_plan` and of an executor; unsupported_error for a program that runs in segments.
  executor& at(view<const shape> inputs, view<const known_input> known = {});
  /// Whether the program runs in segments: by `run`, since there is no one executor of it.
  bool in_segments() const;
  /// Plans for these input extents that are not of the cache, with the places of this program's operations. Of segments
  /// after the first for as many rows as there can be.
  std::vector<std::shared_ptr<const plan>> fresh_plans(view<const shape> inputs, memory_sharing how) const;
  /// What a run for these input extents does. Of segments after the first, for as many rows as there can be.
  std::string explain(view<const shape> inputs) const;
  /// The plans that `explain` tells of, from the cache.
  std::vector<std::shared_ptr<const plan>> plans(view<const shape> inputs) const;
  /// Has executors read other states of the same names and types from the next run on.
  void read(state_source states, shared_packs* packs = nullptr);
  /// After a run: gives back memory that was lent.
  void rest() noexcept;
  /// Bytes of the executors and of memory that is not lent.
  std::size_t bytes() const;

 private:
  struct implementation;
  implementation& made() const;
  void run(view<const any_tensor> inputs, std::vector<any_tensor>& results, std::vector<timed_plan>* times);
  void run(view<const any_value> inputs, std::vector<any_value>& results, std::vector<timed_plan>* times);
  std::vector<named_value> run_named(view<const named_value> inputs);
  void run(view<const shape> extents, view<const void* const> inputs, const output_place& place,
           std::vector<timed_plan>* times);
  std::unique_ptr<implementation> impl_;
};

}  // namespace ir
using ir::session;

}  // namespace lamina
