// A program with its states in a context; used by models, reference models, training, nets by name and the command-line
// tool.
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

/// Returns the memory for output i of a run; called once its type is known, also for empty outputs.
using output_place = std::function<void*(std::size_t i, const tensor_type& type)>;

/// Times of operations in runs of one plan. A program in segments has one for each plan of each segment, and one for
/// each host operation, including its subprograms.
export struct timed_plan {
  std::shared_ptr<const lamina::plan> plan;  // null for a host operation
  std::size_t segment = 0;
  std::vector<shape> inputs;              // input extents of the plan
  std::vector<std::int64_t> nanoseconds;  // per line; the last element is for everything else
  std::shared_ptr<executor> run;
  std::vector<std::byte> known_elements{};  // elements of inputs that determine shapes
  std::int32_t node = -1;                   // node of a host operation
  plan_line line{};                         // line of a host operation
  view<const plan_line> lines() const {
    return plan ? view<const plan_line>(plan->lines()) : view<const plan_line>(&line, 1);
  }
};

namespace ir {

/// Runs one program for any extents of its inputs: `session(p, {&states}).run(inputs)`. It caches executors for the
/// latest 512 sets of extents, limited to 32 MiB including their plans and to the limit of the plan cache. They share
/// one workspace, and their plans come from the context's cache. Not thread-safe.
///
/// If the extent of a result is known only after running (`non_zero`, `unique`, ...), the program is split there into
/// segments, which are planned and run one after the other for the extents found so far. Values between segments are in
/// memory of the session, which grows to the largest: runs with extents seen before allocate nothing. States are
/// assigned in the last segment, so that a failing run assigns none.
///
/// Host operations (`host_loop`, `sequence_at`, ...) also separate segments. Their subprograms run in sessions that
/// this one keeps, so that iterations reuse plans.
///
/// If the shared store is assigned other parameters, executors read those from the next run on. A `stop_scope` of the
/// thread ends a run.
///
/// Errors: state_error for a session without a program, such as a moved-from one.
export class session {
 public:
  session();
  session(session&&) noexcept;
  session& operator=(session&&) noexcept;
  ~session();
  /// Without a context it runs on one thread. `packs` belongs to a store that several sessions share. With `arenas`,
  /// the workspace is borrowed for each run.
  explicit session(std::shared_ptr<const program> p, state_source states = {}, std::shared_ptr<context> where = nullptr,
                   pass_options passes = {}, shared_packs* packs = nullptr,
                   std::shared_ptr<arena_pool> arenas = nullptr);
  /// Takes ownership of the states: elements of weights are freed if plans read only their packed forms.
  static session owning(std::shared_ptr<const program> p, parameter_store states,
                        std::shared_ptr<context> where = nullptr, pass_options passes = {});
  /// Sets a callback for mismatched input extents; it may raise a more specific error.
  void on_mismatch(std::function<void(view<const shape> inputs)> explain);

  /// Runs the program on inputs in order; results are in the order of its outputs. Errors: value_error for a wrong
  /// number of inputs, type_error, shape_error; value_error if a computed extent is out of range; those of an
  /// executor's run.
  std::vector<any_tensor> run(view<const any_tensor> inputs);
  /// Same, into existing tensors: one of the result's type with unshared memory is reused, others are replaced.
  void run(view<const any_tensor> inputs, std::vector<any_tensor>& results) { run(inputs, results, nullptr); }
  /// Same, with plans that run one operation at a time, adding to `times` what each took. Entries are reused between
  /// runs, in the order of segments. Their lines name this program's operations.
  void run_timed(view<const any_tensor> inputs, std::vector<any_tensor>& results, std::vector<timed_plan>& times) {
    run(inputs, results, &times);
  }
  /// Inputs and results by name. Errors: also value_error for an unknown, missing or repeated name.
  std::vector<named_tensor> run(view<const named_tensor> inputs);
  /// Same, for inputs and results that need not be tensors, as lists of `any_value` and `named_value`. Results of host
  /// operations share their memory. Errors: also type_error for a value of another kind.
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
  /// Same, on raw memory: extents and addresses of inputs, and a callback for the memory of outputs.
  void run(view<const shape> extents, view<const void* const> inputs, const output_place& place) {
    run(extents, inputs, place, nullptr);
  }

  /// The executor for these input extents and elements of inputs that determine shapes, created if needed. It may run
  /// until the next call, or until `rest`.
  /// Errors: like `make_plan` and executors; unsupported_error for a program that runs in segments.
  executor& at(view<const shape> inputs, view<const known_input> known = {});
  /// Whether the program runs in segments: then it has no single executor, only `run`.
  bool in_segments() const;
  /// Uncached plans for these input extents, which name this program's operations. Segments after the first are planned
  /// for the maximum number of rows.
  std::vector<std::shared_ptr<const plan>> fresh_plans(view<const shape> inputs, memory_sharing how) const;
  /// Describes a run for these input extents. Segments after the first are planned for the maximum number of rows.
  std::string explain(view<const shape> inputs) const;
  /// The plans that `explain` describes, from the cache.
  std::vector<std::shared_ptr<const plan>> plans(view<const shape> inputs) const;
  /// Switches executors to other states of the same names and types from the next run on.
  void read(state_source states, shared_packs* packs = nullptr);
  /// Returns borrowed workspaces after a run.
  void rest() noexcept;
  /// Bytes of the executors and of memory that is not borrowed.
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
