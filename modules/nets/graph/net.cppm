// Nets built by name at run time. A net is a program whose values have names: operations are the
// library's functions on its values; the net adds sources, effects and the symbol table of names.
export module lamina:graph;
import :core;
import :dtype;
export import :graph.fill;
export import :graph.scope;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

class symbol_table;

/// The runnable form of a net: its program; inputs, outputs and states are blobs, by name.
struct runnable {
  struct own_state {
    std::string name;
    any_tensor first;
  };  // a state and its initial value
  std::string name;
  std::shared_ptr<const program> body;  // inputs, outputs and states have the names of their blobs
  std::vector<own_state> own;
  std::map<std::string, std::string> where;  // places in the user's code of blobs that the workspace must provide
};

/// One operation of a net, for listings.
struct operation_entry {
  std::string_view name;  // of the operation
  std::vector<std::string> inputs, outputs;
  std::string scope, device, where;  // where: the place in the user's code
};

/// A value to differentiate, and the initial gradient; ones if none is given.
struct gradient_target {
  value of, start;
  gradient_target(const value& v) : of(v) {}
  gradient_target(const value& v, const value& first) : of(v), start(first) {}
};
/// Sparse gradient of a table: indices and gradients of the rows that were looked up; indices may repeat.
struct gradient_slices {
  value indices, values;
};

/// The gradients added to a net, by blob. Refers to its net, which must outlive it.
class gradient_map {
 public:
  /// The gradient of a value. Errors: value_error if it has none.
  value operator[](const value& blob) const;
  /// The gradient of the newest version of a blob. Errors: value_error if it has none; the error lists the versions if
  /// an older version has one.
  value operator[](std::string_view blob) const;
  bool contains(const value& blob) const { return all_.contains(blob.id()); }
  std::size_t size() const { return all_.size(); }
  /// Whether a gradient consists only of sums of looked-up rows.
  bool is_sparse(const value& blob) const;
  /// Indices [n] and rows [n, ...] of a gradient that comes only from lookups along the first axis; several lookups are
  /// concatenated. Errors: value_error if a part comes from another operation.
  gradient_slices slices(const value& blob) const;

 private:
  friend class net;
  symbol_table* symbols_ = nullptr;
  std::map<value_id, value> all_;
};

export struct net_options {
  std::int64_t seed = 0;  // of its fills, combined with the net's name
};
/// Maps names of blobs in a net to names in its copy; other blobs keep their names. A gradient keeps its
/// name unless it is listed itself.
using renaming = std::map<std::string, std::string>;
/// Options of adding gradients.
struct gradient_options {
  std::vector<value> with_respect_to{};  // empty: all floating inputs and named blobs that the targets depend on
};

/// A net: a blob is a name with versions, each a value of the net's program. Values belong to their net and must not
/// outlive it. The last parameter of members is the place in the user's code; omit it. Errors begin with that place. On
/// a moved-from net all members raise a state_error.
export class net {
 public:
  explicit net(std::string_view name, const net_options& options = {});
  net(net&&) noexcept;
  net& operator=(net&&) noexcept;
  ~net();
  const std::string& name() const;

  // ---- sources: blobs that the net produces. Errors: state_error if the name is taken.

  /// A filled blob: `net.fill<op::uniform>("W", {1, 2}, {.low = -1, .high = 1})`. Random fills draw again in each run.
  template <Fill F> value fill(std::string_view name, const shape& s, const F& how = {}, dtype element = dtype::float32,
                               const origin& = {}) {
    fill_scope scope = begin_fill(name, {element, s});
    return output(name, how(scope));
  }
  /// A blob with the given elements. Errors: shape_error if their number differs from the shape's.
  value given(std::string_view name, const shape& s, std::initializer_list<double> numbers,
              dtype element = dtype::float32, const origin& = {});
  value given(std::string_view name, const any_tensor& numbers, const origin& = {});
  /// A constant without a blob name.
  value constant(const any_tensor& numbers, const origin& = {});
  /// A blob that the workspace provides for a run. Extents may be `dyn` or named, unless the net assigns the blob.
  value external(std::string_view name, const tensor_type& type, const origin& = {});
  /// The same, with the name and type of another net's blob. Errors: value_error if that has no name.
  value external(const value& of_another_net, const origin& = {});
  /// The number of the run, starting at 1: int64 []. The workspace stores it as `<net>/iterations`.
  value iterations(const origin& = {});

  // ---- effects

  /// Assigns a blob its next version, which the workspace receives after the run. Values computed from the old version
  /// are unaffected. Errors: value_error for an unknown blob, or a value that two blobs share; shape_error, type_error
  /// if the blob's type would change.
  value assign(const value& blob, const value& next, const origin& = {});
  value assign(std::string_view blob, const value& next, const origin& = {});
  /// Names a value, which the workspace then receives after each run. A value that already has a name keeps both.
  /// Errors: state_error if the name is taken.
  value output(std::string_view name, const value& v, const origin& = {});

  // ---- gradients

  /// Adds operations that compute gradients of the sum of the targets. The gradient of blob `x` is named `x_grad`, or,
  /// if that name is taken, `x_grad_auto_0`, `x_grad_auto_1`.
  /// Errors: value_error for a target after stop_gradient, or if an operation on the path has no gradient; type_error
  /// for a target that is not floating; shape_error, type_error for an initial gradient whose type differs from its
  /// target's.
  gradient_map add_gradient_operators(const std::vector<gradient_target>& targets, const gradient_options& = {},
                                      const origin& = {});
  template <std::same_as<value> Target>
  gradient_map add_gradient_operators(const Target& target, const gradient_options& o = {}, const origin& at = {}) {
    return add_gradient_operators(std::vector<gradient_target>{target}, o, at);
  }

  // ---- copies. Errors: value_error for unknown names; state_error if two blobs would get the same name.

  /// A copy of the net under another name, with separate internal states.
  net clone(std::string_view name, const renaming& = {}, const origin& = {}) const;
  /// The part that computes the outputs from the inputs, which become external; omits everything else, including
  /// effects. Other external blobs that are needed stay external. A gradient listed by its name becomes a blob. Errors:
  /// value_error for an input of which the outputs need the version before an assignment.
  net clone_partial(std::string_view name, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const renaming& = {}, const origin& = {}) const;
  /// Appends the operations of another net. External blobs of the other net that this net has are bound to their newest
  /// versions; other blobs that both nets have get a new version. Errors: shape_error, type_error if the type of a blob
  /// differs from what the other net takes.
  void append(const net& other, const renaming& = {}, const origin& = {});
  /// Infers the types of all values, by name, for these shapes of external blobs. Errors: shape_error if they do not
  /// fit, with operation and place.
  std::map<std::string, tensor_type> infer(const std::map<std::string, shape>& inputs, const origin& = {}) const;

  // ---- lookup

  /// The newest version of a blob, an automatic name, or a gradient. Errors: value_error, with the nearest name.
  value operator[](std::string_view name) const;
  /// Whether `operator[]` finds a name.
  bool has(std::string_view name) const;
  /// The name of a value: its blob's, or an automatic one from net and operation, such as `train/matmul_2`.
  std::string name_of(const value& v) const;
  /// A name that is not in use: `x`, then `x_auto_0`, `x_auto_1`.
  std::string free_name(std::string_view preferred) const;
  /// Blobs that the workspace must provide, and blobs that a run writes to it.
  std::vector<std::string> external_inputs() const;
  std::vector<std::string> external_outputs() const;
  std::vector<operation_entry> operations() const;
  /// The net as a program; inputs are external blobs, outputs named ones.
  const program& body() const;
  /// The net as a graph in Graphviz's DOT language, and as JSON.
  std::string to_dot() const { return to_run()->body->to_dot(); }
  std::string to_json() const { return to_run()->body->to_json(); }

  /// Snapshot of the net for a workspace.
  std::shared_ptr<const runnable> to_run() const;
  /// For modules of the library that extend nets.
  symbol_table& symbols() const;

 private:
  fill_scope begin_fill(std::string_view name, const tensor_type& type);
  std::unique_ptr<symbol_table> symbols_;
};

/// An empty program for `cond`, `loop`, `scan` or `call`. Like a net, it records the place in the user's code of each
/// operation for messages; a plain `program` does not.
export std::shared_ptr<program> subprogram();

/// Identity whose gradient is zeros; with `stop_gradient` there would be no gradient. Infinite gradients become 0, too.
/// Shapes:  x [...] -> [...].   Errors: type_error unless `x` is floating.
export value zero_gradient(const value& x, const origin& = {});

}  // namespace lamina::graph
