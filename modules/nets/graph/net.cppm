// Nets put together by name while a program runs. A net is a program whose values have names: the operations are the
// library's own functions on its values, and the net adds sources, effects and the symbol table of names.
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

/// The runnable part of a net: its program, and the blobs of its inputs, outputs and states by name.
struct runnable {
  struct own_state {
    std::string name;
    any_tensor first;
  };  // begins with these numbers
  std::string name;
  std::shared_ptr<const program> body;  // inputs, outputs and states have the names of their blobs
  std::vector<own_state> own;
  std::map<std::string, std::string> where;  // of blobs that the workspace must hold: the place in the user's code
};

/// One operation of a net, for listings.
struct operation_entry {
  std::string_view name;  // of the operation
  std::vector<std::string> inputs, outputs;
  std::string scope, device, where;  // where: the place in the user's code
};

/// A value to start a gradient from, and the gradient that it starts with: ones if none is given.
struct gradient_target {
  value of, start;
  gradient_target(const value& v) : of(v) {}
  gradient_target(const value& v, const value& first) : of(v), start(first) {}
};
/// A gradient of a table by the rows that were looked up: rows may come more than once.
struct gradient_slices {
  value indices, values;
};

/// The gradients that a net was given, by blob. It refers to its net, which must outlive it.
class gradient_map {
 public:
  /// The gradient of a value. Errors: value_error where it has none.
  value operator[](const value& blob) const;
  /// The gradient of the newest version of a blob. Errors: value_error where it has none; where an older version has, the
  /// error lists the versions.
  value operator[](std::string_view blob) const;
  bool contains(const value& blob) const { return all_.contains(blob.id()); }
  std::size_t size() const { return all_.size(); }
  /// Whether a gradient is sums of looked-up rows and nothing else.
  bool is_sparse(const value& blob) const;
  /// Indices [n] and rows [n, ...] of a gradient that comes from look-ups along the first axis alone; several look-ups are
  /// concatenated. Errors: value_error where a part comes from elsewhere.
  gradient_slices slices(const value& blob) const;

 private:
  friend class net;
  symbol_table* symbols_ = nullptr;
  std::map<value_id, value> all_;
};

export struct net_options {
  std::int64_t seed = 0;  // of its fills, together with the net's name
};
/// New names of blobs in a copy of a net, by their names in the net; other blobs keep their names. A gradient keeps its
/// name unless it is listed itself.
using renaming = std::map<std::string, std::string>;
/// Options of adding gradients.
struct gradient_options {
  std::vector<value> with_respect_to{};  // empty: all floating inputs and named blobs that the targets depend on
};

/// A net: blobs are names with versions, each a value of the net's program. Values belong to their net and may not
/// outlive it. Members end with the place in the user's code, which is left out; errors begin with it. A net that was moved
/// has nothing any more: all members raise a state_error.
export class net {
 public:
  explicit net(std::string_view name, const net_options& options = {});
  net(net&&) noexcept;
  net& operator=(net&&) noexcept;
  ~net();
  const std::string& name() const;

  // ---- sources: blobs that the net makes. Errors: state_error where the name is taken.

  /// A blob of numbers: `net.fill<op::uniform>("W", {1, 2}, {.low = -1, .high = 1})`. Drawn again in each run.
  template <Fill F> value fill(std::string_view name, const shape& s, const F& how = {}, dtype element = dtype::float32,
                               const origin& = {}) {
    fill_scope scope = begin_fill(name, {element, s});
    return output(name, how(scope));
  }
  /// A blob of given numbers. Errors: shape_error where they are not as many as the shape has elements.
  value given(std::string_view name, const shape& s, std::initializer_list<double> numbers,
              dtype element = dtype::float32, const origin& = {});
  value given(std::string_view name, const any_tensor& numbers, const origin& = {});
  /// Numbers without a name of their own.
  value constant(const any_tensor& numbers, const origin& = {});
  /// A blob that the workspace holds when the net runs. Dimensions may be free or named, except where the net assigns it.
  value external(std::string_view name, const tensor_type& type, const origin& = {});
  /// The same by name and type of another net's blob. Errors: value_error where that has no name.
  value external(const value& of_another_net, const origin& = {});
  /// The number of the run, from 1: int64 []. The workspace keeps it as `<net>/iterations`.
  value iterations(const origin& = {});

  // ---- effects

  /// Gives a blob its next version; the workspace has it after the run. Values computed from the old version stay.
  /// Errors: value_error where there is no such blob, or a value that two blobs are; shape_error, type_error: a blob keeps
  /// its type.
  value assign(const value& blob, const value& next, const origin& = {});
  value assign(std::string_view blob, const value& next, const origin& = {});
  /// Names a value, which the workspace then has after each run. A value that has a name keeps it beside this one. Errors:
  /// state_error where the name is taken.
  value output(std::string_view name, const value& v, const origin& = {});

  // ---- gradients

  /// Adds what computes gradients of the targets, all of them summed. The gradient of blob `x` is found as `x_grad`, or where
  /// a blob or an earlier gradient is called so as `x_grad_auto_0`, `x_grad_auto_1`.
  /// Errors: value_error for a target behind stop_gradient, or where an operation on the way has no gradient; type_error
  /// for one that is not floating; shape_error, type_error for a start that is not of its target's type.
  gradient_map add_gradient_operators(const std::vector<gradient_target>& targets, const gradient_options& = {},
                                      const origin& = {});
  template <std::same_as<value> Target>
  gradient_map add_gradient_operators(const Target& target, const gradient_options& o = {}, const origin& at = {}) {
    return add_gradient_operators(std::vector<gradient_target>{target}, o, at);
  }

  // ---- copies. Errors: value_error for names that the net does not have; state_error where two blobs would get one.

  /// The same net under another name; states of its own are its own.
  net clone(std::string_view name, const renaming& = {}, const origin& = {}) const;
  /// What computes some blobs from others, which become external; everything else is left out, effects too. Other external
  /// blobs on the way stay external. A gradient that is asked for by its name becomes a blob. Errors: value_error for
  /// an input that the outputs need as it was before it was assigned.
  net clone_partial(std::string_view name, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, const renaming& = {}, const origin& = {}) const;
  /// Adds what another net does, behind what this one does: external blobs of the other that this one has are its newest
  /// versions, and blobs of the other that this one has get another version. Errors: shape_error, type_error where a blob
  /// is not of the type that the other takes.
  void append(const net& other, const renaming& = {}, const origin& = {});
  /// The types of all values, by name, where external blobs have these shapes. Errors: shape_error where they do not fit,
  /// with operation and place.
  std::map<std::string, tensor_type> infer(const std::map<std::string, shape>& inputs, const origin& = {}) const;

  // ---- lookup

  /// The newest version of a blob, an automatic name, or a gradient. Errors: value_error, with the nearest name.
  value operator[](std::string_view name) const;
  /// Whether `operator[]` finds a name.
  bool has(std::string_view name) const;
  /// The name of a value: its blob's, or one made of net and operation, as `train/matmul_2`.
  std::string name_of(const value& v) const;
  /// A name that the net does not have: `x`, then `x_auto_0`, `x_auto_1`.
  std::string free_name(std::string_view wanted) const;
  /// Blobs that the workspace must hold, and those that it has after a run.
  std::vector<std::string> external_inputs() const;
  std::vector<std::string> external_outputs() const;
  std::vector<operation_entry> operations() const;
  /// The net as a program; inputs are external blobs, outputs named ones.
  const program& body() const;
  /// A picture in graphviz's language, and the same as JSON.
  std::string to_dot() const { return to_run()->body->to_dot(); }
  std::string to_json() const { return to_run()->body->to_json(); }

  /// The present state of the net, for a workspace.
  std::shared_ptr<const runnable> to_run() const;
  /// For rooms of the library that add to nets.
  symbol_table& symbols() const;

 private:
  fill_scope begin_fill(std::string_view name, const tensor_type& type);
  std::unique_ptr<symbol_table> symbols_;
};

/// An empty program for `cond`, `loop`, `scan` or `call`. Messages about its operations say where in the user's code
/// they were added, as in a net; a plain `program` does not record this.
export std::shared_ptr<program> subprogram();

/// `x`, whose operands get a gradient of zeros through it, where `stop_gradient` would give them none. An infinite
/// gradient becomes 0, too.
/// Shapes:  x [...] -> [...].   Errors: type_error unless `x` is floating.
export value zero_gradient(const value& x, const origin& = {});

}  // namespace lamina::graph
