// Where nets run: blobs by name, and the nets that were created.
export module lamina:graph.workspace;
import :context;
import :core;
import :dtype;
import :graph;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

export struct create_options {
  bool overwrite = false;                   // replaces a net of the name
};

/// A net, or steps one after the other, a number of times.
export struct execution_step {
  std::string net{};
  std::vector<execution_step> steps{};
  std::int64_t times = 1;
  std::string stop_when{};                  // a blob of one element: no turn comes after one that leaves it other than 0
};

/// Blobs by name, and nets that run on them. A run is one run of one plan: it reads blobs, and writes those that the net
/// names or assigns when it has ended without an error. For one thread at a time.
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
  template <Element T>
  std::vector<T> fetch_numbers(std::string_view name) const {
    const any_tensor t = fetch(name);
    const view<const T> all = t.elements<T>();
    return std::vector<T>(all.begin(), all.end());
  }
  bool has(std::string_view name) const;
  std::vector<std::string> blobs() const;

  // ---- spaces: each has blobs and nets of its own

  /// Errors: value_error where there is no such space and none is to be made.
  void switch_to(std::string_view space, bool create = false);
  const std::string& current() const;
  std::vector<std::string> spaces() const;
  /// Forgets blobs and nets of the current space.
  void reset();

  // ---- nets

  /// Takes a net as it stands now. Errors: state_error where a net of the name is there and is not to be replaced.
  void create(const net& n, const create_options& = {});
  std::vector<std::string> nets() const;
  /// Runs a net a number of times. Errors: value_error for a net or a blob that is not there; shape_error, type_error for a
  /// blob of another type than the net takes; those of its operations, with operation and place. What the runs before the
  /// failing one wrote stays.
  void run(std::string_view name, std::int64_t times = 1);
  /// Runs a plan of steps. Errors: those of its nets; value_error for a step that is net and steps at once, or neither, or
  /// whose `stop_when` is not a blob of one element.
  void run(const execution_step& plan);
  /// Runs a net that need not be created.
  void run_once(const net& n);
  /// What a run of a net does on the blobs as they are: operations, shapes, flops, bytes. Errors: as those of a run.
  std::string explain(std::string_view name);

 private:
  struct implementation;
  std::unique_ptr<implementation> impl_;
};

}  // namespace lamina::graph
