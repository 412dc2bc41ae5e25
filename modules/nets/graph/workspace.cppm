// Where nets run: blobs by name, and the nets that were created.
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

/// How the operations of a net run on the threads of the workspace's context; results have the same bits.
export enum class execution : std::uint8_t {
  simple,  ///< one after the other; threads share the work within each
  dag,     ///< those that do not depend on each other at once; on one thread as `simple`
  async,   ///< as `dag`; `start` is for nets of any kind
};

struct create_options {
  bool overwrite = false;  // replaces a net of the name
  graph::execution execution = graph::execution::simple;
  memory_sharing memory = memory_sharing::best;
};

/// A net, or steps one after the other or at once, a number of times.
export struct execution_step {
  std::string net{};
  std::vector<execution_step> steps{};
  std::int64_t times = 1;
  std::string stop_when{};  // a blob of one element: no iteration comes after one that leaves it other than 0
  bool concurrent = false;  // each of its steps has a thread of its own; none writes what another one touches
  // Above 0: not one of the steps in their order, but runs between the nets of the others each so many milliseconds, and
  // once after them.
  double every_ms = 0;
};

/// What an operation of a net, or several that run as one, costs in a run.
struct operation_cost {
  std::string operation, where;  // as in `explain`, and the place in the user's code
  tensor_type result;
  double flops = 0;
  std::size_t bytes = 0;   // read and written
  double nanoseconds = 0;  // of a run; 0 where nothing was timed
};
/// What runs of a net took.
struct net_times {
  double least_ns = 0, median_ns = 0;        // of whole runs
  std::vector<operation_cost> operations{};  // with the mean time of each
  double rest_ns = 0;                        // of copies that belong to no operation
};
/// Bytes that a run of a net works in.
struct memory_estimate {
  std::size_t arena = 0;                // of results, as they share memory
  std::size_t least = 0;                // most bytes that are alive at once
  std::size_t unshared = 0;             // of results, if none shared memory
  std::size_t scratch = 0, packed = 0;  // of kernels, and of weights in the form that these read
};

/// A run that is under way. Its destructor waits for it; an error that no `wait` has raised is raised by the next call on
/// the run's space, once.
export class running {
 public:
  running();
  running(running&&) noexcept;
  running& operator=(running&&) noexcept;
  ~running();
  bool done() const;
  /// Errors: the error of the run, each time.
  void wait();

 private:
  friend class workspace;
  struct implementation;
  explicit running(std::shared_ptr<implementation> impl);
  std::shared_ptr<implementation> impl_;
};

/// Blobs by name, and nets that run on them. A run is one run of one plan: it reads blobs, and writes those that the net
/// names or assigns when it has ended without an error. For one thread at a time. While a run that was started is under
/// way, its space does nothing else: state_error; as for one that was moved, which has no spaces any more.
export class workspace {
 public:
  explicit workspace(std::shared_ptr<context> where = nullptr);
  workspace(workspace&&) noexcept;
  workspace& operator=(workspace&&) noexcept;
  ~workspace();

  // ---- blobs

  /// A copy of a tensor under a name; one that is there is replaced.
  void feed(std::string_view name, const any_tensor& v);
  /// A copy of a blob. Errors: value_error where there is none, with the nearest name.
  any_tensor fetch(std::string_view name) const;
  template <Element T> std::vector<T> fetch_numbers(std::string_view name) const {
    const any_tensor t = fetch(name);
    const view<const T> all = t.elements<T>();
    return std::vector<T>(all.begin(), all.end());
  }
  bool has(std::string_view name) const;
  std::vector<std::string> blobs() const;

  // ---- spaces: each has blobs and nets of its own

  /// Errors: value_error for an unknown space unless `create` is set.
  void switch_to(std::string_view space, bool create = false);
  const std::string& current() const;
  std::vector<std::string> spaces() const;
  /// Forgets blobs and nets of the current space.
  void reset();

  // ---- nets

  /// Takes the present state of a net. Errors: state_error for a net of the same name, unless it may be replaced.
  void create(const net& n, const create_options& = {});
  std::vector<std::string> nets() const;
  /// Runs a net a number of times. Errors: value_error for a net or a blob that is not there, and for a number below 0;
  /// shape_error, type_error for a blob of another type than the net takes; errors of its operations, with operation and place.
  /// Results of the runs before the failing one stay.
  void run(std::string_view name, std::int64_t times = 1);
  /// The same without waiting for it. Errors: state_error while another run is under way in the space.
  running start(std::string_view name, std::int64_t times = 1);
  /// Runs a plan of steps. Errors: errors of its nets; value_error for a step that is net and steps at once, or neither,
  /// whose `stop_when` is not a blob of one element, for numbers below 0, or for concurrent steps where one writes a
  /// blob that another one uses: nothing has run then.
  /// If several concurrent steps fail, the first in time gives the type of the error, which is also a `worker_failures`.
  void run(const execution_step& plan);
  /// Runs a net that need not be created.
  void run_once(const net& n);
  /// Describes a run on the present blobs: operations, shapes, flops, bytes. Errors: as a run.
  std::string explain(std::string_view name);
  /// The same by operation. Where extents are counted when the net runs, its segments come one after the other; all
  /// after the first are for the largest number of rows.
  std::vector<operation_cost> costs(std::string_view name);
  /// Runs a net, some times first that do not count, and says how long whole runs and each of its operations took; operations
  /// are timed in as many runs of their own, one after the other. Blobs change with each of these runs. Errors: as a
  /// run; value_error below one time. A segment has its operations once for each extents that were counted.
  net_times benchmark(std::string_view name, std::int64_t times = 10, std::int64_t warm_up = 1);
  /// Memory of a run: the sum over segments, and `least` of the largest segment. Errors: as a run.
  memory_estimate estimate_memory(std::string_view name, memory_sharing how = memory_sharing::best);

 private:
  struct implementation;
  implementation& all() const;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina::graph
