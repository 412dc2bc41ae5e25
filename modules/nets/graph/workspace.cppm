// Workspaces, in which nets run: named blobs and created nets.
export module lamina:graph.workspace;
import :context;
import :core;
import :dtype;
import :graph;
import :passes;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

/// Scheduling of a net's operations on the threads of the workspace's context; results are bitwise equal.
export enum class execution : std::uint8_t {
  simple,  ///< sequential; threads share the work of each operation
  dag,     ///< independent operations run in parallel; on one thread like `simple`
  async,   ///< same as `dag`; `start` works with any mode
};

struct create_options {
  bool overwrite = false;  // replaces an existing net with this name
  graph::execution execution = graph::execution::simple;
  memory_sharing memory = memory_sharing::best;
};

/// Runs a net, or nested steps sequentially or concurrently, `times` times.
export struct execution_step {
  std::string net{};
  std::vector<execution_step> steps{};
  std::int64_t times = 1;
  std::string stop_when{};  // a blob of one element: iteration stops once it is not 0
  bool concurrent = false;  // each nested step has its own thread; none may write a blob that another one uses
  // Above 0: a periodic step, outside the order of the others. It runs between their nets every `every_ms`
  // milliseconds, and once at the end.
  double every_ms = 0;
};

/// Cost of an operation, or of several fused ones, in a run of a net.
struct operation_cost {
  std::string operation, where;  // as in `explain`, and the place in the user's code
  tensor_type result;
  double flops = 0;
  std::size_t bytes = 0;   // read and written
  double nanoseconds = 0;  // per run; 0 if not timed
};
/// Run times of a net.
struct net_times {
  double least_ns = 0, median_ns = 0;        // of whole runs
  std::vector<operation_cost> operations{};  // with mean times
  double rest_ns = 0;                        // copies that belong to no operation
};
/// Working memory of a run of a net, in bytes.
struct memory_estimate {
  std::size_t arena = 0;                // results, with memory sharing
  std::size_t least = 0;                // maximum of simultaneously live bytes, a lower bound of `arena`
  std::size_t unshared = 0;             // results, without memory sharing
  std::size_t scratch = 0, packed = 0;  // scratch of kernels; packed weights
};

/// Handle of an asynchronous run. Its destructor waits for the run; an error that no `wait` has raised is raised once,
/// by the next call on the run's space.
export class running {
 public:
  running();
  running(running&&) noexcept;
  running& operator=(running&&) noexcept;
  ~running();
  bool done() const;
  /// Waits for the run. Errors: the error of the run, on each call.
  void wait();

 private:
  friend class workspace;
  struct implementation;
  explicit running(std::shared_ptr<implementation> impl);
  std::shared_ptr<implementation> impl_;
};

/// Named blobs, and nets that run on them. A run executes one plan: it reads blobs, and after success writes the blobs
/// that the net names or assigns. Not thread-safe. During an asynchronous run, other calls on its space raise a
/// state_error, and so does a moved-from workspace.
export class workspace {
 public:
  explicit workspace(std::shared_ptr<context> where = nullptr);
  workspace(workspace&&) noexcept;
  workspace& operator=(workspace&&) noexcept;
  ~workspace();

  // ---- blobs

  /// Stores a copy of a tensor under a name, replacing an existing blob.
  void feed(std::string_view name, const any_tensor& v);
  /// A copy of a blob. Errors: value_error for an unknown name, with the nearest one.
  any_tensor fetch(std::string_view name) const;
  template <Element T> std::vector<T> fetch_numbers(std::string_view name) const {
    const any_tensor t = fetch(name);
    const view<const T> all = t.elements<T>();
    return std::vector<T>(all.begin(), all.end());
  }
  bool has(std::string_view name) const;
  std::vector<std::string> blobs() const;

  // ---- spaces: each has its own blobs and nets

  /// Errors: value_error for an unknown space unless `create` is set.
  void switch_to(std::string_view space, bool create = false);
  const std::string& current() const;
  std::vector<std::string> spaces() const;
  /// Deletes the blobs and nets of the current space.
  void reset();

  // ---- nets

  /// Takes a snapshot of a net. Errors: state_error for an existing net with this name, unless `overwrite` is set.
  void create(const net& n, const create_options& = {});
  std::vector<std::string> nets() const;
  /// Runs a net `times` times. Errors: value_error for an unknown net or blob, and for `times` below 0;
  /// shape_error, type_error for a blob whose type the net does not accept; errors of operations, with operation and
  /// place. Results of the runs before the failing one are kept.
  void run(std::string_view name, std::int64_t times = 1);
  /// Starts the run asynchronously. Errors: state_error while another run is in progress in the space.
  running start(std::string_view name, std::int64_t times = 1);
  /// Runs a plan of steps. Errors: errors of its nets; value_error, before anything runs, for a step with both a net
  /// and steps, or neither, for a `stop_when` that is not a blob of one element, for numbers below 0, or for concurrent
  /// steps of which one writes a blob that another one uses.
  /// If several concurrent steps fail, the first in time determines the type of the error, which is also a
  /// `worker_failures`.
  void run(const execution_step& plan);
  /// Runs a net without creating it.
  void run_once(const net& n);
  /// Describes a run on the current blobs: operations, shapes, flops, bytes. Errors: as a run.
  std::string explain(std::string_view name);
  /// Costs by operation. For a net with data-dependent shapes, lists its segments in order; all
  /// after the first assume the maximum number of rows.
  std::vector<operation_cost> costs(std::string_view name);
  /// Measures whole runs and each operation after `warm_up` untimed runs; operations are timed sequentially in `times`
  /// separate runs. Every run changes blobs. Errors: as a run; value_error for `times` below 1. Operations of a segment
  /// are listed once per data-dependent shape that occurred.
  net_times benchmark(std::string_view name, std::int64_t times = 10, std::int64_t warm_up = 1);
  /// Memory of a run: sums over segments, but `least` is the maximum over them. Errors: as a run.
  memory_estimate estimate_memory(std::string_view name, memory_sharing how = memory_sharing::best);

 private:
  struct implementation;
  implementation& all() const;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina::graph
