// The program IR that every interface produces: inputs, states, constants and operations as a directed graph of nodes,
// each with one or more results; its roots are outputs and assignments of states.
export module lamina:program;
import :context;
import :core;
import :dtype;
import :product_type;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// Names for authors of operations, layers and passes are in their own namespace, because users are likely to have their
// own `value` and `program`. Library code uses them unqualified through declarations that are not exported, so that
// `using namespace lamina` does not bring them in.
export namespace ir {
class program;
class value;
}  // namespace ir
using ir::program;
using ir::value;

export class emission;  // lowers a node to kernel calls; in :emission
export struct node;
export struct gradient_call;  // call of a gradient rule
export struct axis_map;       // how calls on several samples are batched
export class host_call;       // interface of an operation that runs on the host; in :host

/// One result of one node.
export struct value_id {
  std::int32_t node = -1, result = 0;
  constexpr bool operator==(const value_id&) const = default;
  constexpr auto operator<=>(const value_id&) const = default;
  constexpr explicit operator bool() const { return node >= 0; }
};

/// Result of an operation's inference rule: the types of its results, or why they do not exist.
export struct inference {
  static constexpr int max_results = 4;
  tensor_type results[max_results];
  int count = 0;
  text why;
  bool of_elements = false;               // the element types are at fault: the error is a type_error that names them
  view<const any_tensor* const> known{};  // operands with elements that the rule may use; null if not known yet
  /// Elements of operand i, one of the operation's `shape_operands`; null while unknown.
  constexpr const any_tensor* elements_of(std::size_t i) const { return i < known.size() ? known[i] : nullptr; }
  constexpr void result(dtype element, const shape& dims, value_kind kind = value_kind::tensor) {
    if (count < max_results) results[count] = {element, dims, kind};
    ++count;
  }
  /// Rejects an element type: `refuse(in[0].element, "float32 or float64", "float")` reports the accepted types, the
  /// given one, and a type to cast to.
  constexpr void refuse(dtype given, std::string_view taken, std::string_view cast_to) {
    of_elements = true;
    why << "takes " << taken << ", not " << given << "; cast first, as in cast<" << cast_to << ">(x)";
  }
};

/// Values of the named dimensions of inputs, bound when inputs get shapes.
export class dimension_names {
 public:
  /// Binds the names in `pattern` to the extents in `given`. Returns the name bound to two numbers, or a dimension that
  /// is no name on success.
  dim bind(const shape& pattern, const shape& given);
  /// Value of a dimension; the dimension itself if it is not a bound name.
  dim operator()(dim d) const;
  shape operator()(shape s) const;

 private:
  std::vector<std::pair<dim, dim>> known_;
};

/// One attribute of an operation, independent of the member's C++ type; numbers are widened.
export struct attribute_value {
  enum class form : std::uint8_t { integer, real, boolean, element, product, dims, axes };
  form is = form::integer;
  std::int64_t integer = 0;  // boolean: 0 or 1
  double real = 0;
  dtype element = dtype::float32;
  product_type product{};
  shape dims;
  lamina::axes list;
  bool omitted = false;  // equals the default of a member that earlier versions lack: not written to files
  bool operator==(const attribute_value&) const = default;
};
/// Receives an attribute's name and value, and may replace the value by one of the same form.
using attribute_visitor = std::function<void(std::string_view name, attribute_value& v)>;

/// When an operation's result equals its first operand.
export enum class identity_rule : std::uint8_t { never, if_types_agree, always };
/// Which operands must be 0 for an elementwise operation to give 0.
export enum class zero_rule : std::uint8_t { none, all, any };
/// Neutral element: `x op number == x` if `right`, `number op x == x` if `left`.
export struct neutral_number {
  double number = 0;
  bool left = false, right = false;
};
/// Bounds to which an operation clamps its first operand.
export struct value_bounds {
  double low, high;
};
/// Channel axes of a product of operand 0 with weights (operand 1), in the result and in the weights. The result is
/// linear in the weights of each channel.
export struct channel_axes {
  int result, weights;
};
/// Indices of two operands, of the result's type, that an operation adds.
export struct summed_operands {
  int first = -1, second = -1;
};
/// Positions [first, first + count) of an axis.
export struct axis_view {
  int axis;
  std::int64_t first, count;
};

/// Call of an operation on images [N, C, H, W] of float32 or int8, from which it chooses layouts (`layout`, in
/// :emission).
export struct image_call {
  const void* attributes;
  view<const tensor_type> in, out;
  bool blocked;     // operand 0 is channel-blocked
  bool first_only;  // only result 0 is read
  lamina::isa isa;
  view<const char> in_blocks{};  // for each operand, whether it is channel-blocked
  product_type compute{};        // type to which products round their operands (`pass_options::compute`)
};
/// What an operation computes per window of each channel's map: nothing, maximum, mean, or a sum weighted by one filter
/// per channel. The attributes are those of a pool or a convolution.
export enum class window_rule : std::uint8_t { none, maximum, mean, filter };
/// Chosen layouts: whether result and operand 0 are channel-blocked; `others` adds operands of the result's type,
/// `every_operand` all operands of any type.
export struct image_layouts {
  bool result = false, operand = false, others = false, every_operand = false;
  bool zero_padding = false;  // padding channels of the result are zeroed, whatever the operands contain there
  bool rounded = false;       // reads a channel-blocked operand 0, and its residual, that is stored as bfloat16, and
                              // can store its result so
};

namespace rewriting {
struct pattern;
}
extern "C++" {
namespace kernels {
struct map_functions;
}
}

/// Run-time descriptor of an operation: everything the lower layers need.
export struct operation {
  std::string_view name;
  std::string_view type;  // the defining class; operation names need not be unique
  const void* id;         // `operation_id` of that class
  bool library;           // defined by the library
  int version = 1;
  int operands;             // -1: any number
  bool pure = true;         // equal calls are merged into one node
  unsigned shape_only = 0;  // bit i: only the shape of operand i is read
  int alias = -1;           // the result may be a view of this operand; -1: never
  bool layout_free;         // elementwise: runs in any layout of its operands
  void (*infer)(const void* attributes, view<const tensor_type> in, inference& out);
  void (*gradient)(gradient_call&) = nullptr;  // null: not differentiable
  void (*emit)(emission&) = nullptr;
  void (*host)(host_call&) = nullptr;  // instead of `emit`: runs on the host, between plans
  /// Micro-operation of an elementwise operation, or null.
  const kernels::map_functions& (*map)(lamina::isa) = nullptr;
  std::uint64_t (*hash)(const void* attributes);
  bool (*equal)(const void* a, const void* b);
  /// Visits all attributes, and returns new ones with the visitor's changes; starts from the defaults if `attributes`
  /// is null.
  std::shared_ptr<const void> (*visit)(const void* attributes, const attribute_visitor& each);
  double (*flops)(const void* attributes, view<const tensor_type> in, view<const tensor_type> out);
  bool may_fail = false;  // a run may reject its operands, such as an index out of range
  /// The attributes with dimension names replaced by their values; null for attributes without shapes.
  std::shared_ptr<const void> (*bound)(const void* attributes, const dimension_names&) = nullptr;
  /// For operations with a subprogram: maps the node's operands to the subprogram's inputs, and the subprogram's
  /// outputs to the node's results. Null: identical. Several subprograms have the same signature.
  void (*inside)(const void* attributes, std::vector<tensor_type>& operands, text& why) = nullptr;
  void (*outside)(const void* attributes, view<const tensor_type> operands, std::vector<tensor_type>& results,
                  text& why) = nullptr;
  int subprograms = 0;  // number per node

  // ---- properties for passes, each from a member of the definition; the defaults claim nothing ----

  identity_rule identity = identity_rule::never;
  zero_rule zeros = zero_rule::none;
  neutral_number neutral{};
  bool involution = false;  // applying it twice is the identity
  bool stops_gradient = false;
  bool keeps_elements = false;  // each result element is an element of operand 0, or of any operand if variadic
  bool adds = false;            // sum of both operands: can be fused into a product as bias or residual
  summed_operands sums{};       // operands that it adds, for fusion into an operation with `joins_sums`
  bool joins_sums = false;      // channel-blocked, `emit` can fuse the emission's `epilogue().sum`
  /// How each result element depends on a window of its own channel alone, so that bands of rows can be computed
  /// separately.
  window_rule (*windows)(const image_call&) = nullptr;
  /// Whether `emit` of a channel-blocked product can apply the emission's `epilogue().windows`, an operation of this
  /// rule and call, band by band.
  bool (*joins_windows)(const image_call&, window_rule, const image_call& windows) = nullptr;
  bool plain_images = false;  // plans with this operation keep images in the plain layout
  int updates = -1;           // the result may overwrite this operand, element by element or row by row
  /// Computes the logarithm of its result from operand 0, more exactly or faster than from the result.
  value (*logarithm)(const void* attributes, const value& operand) = nullptr;
  /// The steps of `emit` read an operand of a result's type only at the position they write: the two may share memory.
  bool by_element = false;
  bool takes_kinds = false;   // operands and results may be sequences and optionals
  bool results_vary = false;  // subprograms of a node may have results of different extents
  /// Name of subprogram `s` of a node in drawings.
  std::string_view (*subprogram_name)(int s) = nullptr;
  /// Channel axes of a product with weights whose `emit` applies the emission's `epilogue` per channel.
  channel_axes (*channels)(const void* attributes, const shape& result, const shape& weights) = nullptr;
  /// For a product whose weights, operand 1, do not change: the same result by operations that are faster, plus `term`,
  /// one number for each channel, axis 1, unless it is empty. An empty value where this operation is as fast.
  value (*with_known_weights)(const void* attributes, const value& x, const value& weights,
                              const value& term) = nullptr;
  /// Bounds of an operation that clamps operand 0, from the constants among its other operands.
  std::optional<value_bounds> (*bounds)(view<const std::optional<double>> operands) = nullptr;
  /// For a product of float32 operands: attributes that round them to a half type before multiplying; null if
  /// unsupported.
  std::shared_ptr<const void> (*rounded)(const void* attributes, product_type to) = nullptr;
  /// The contiguous positions of operand 0, whose extents are `whole`, that the result is a view of.
  std::optional<axis_view> (*part_of)(const void* attributes, const shape& whole) = nullptr;
  /// Positions of the result that are an unchanged copy of operand i: `emit` skips the copy if it is already there.
  axis_view (*operand_place)(const void* attributes, view<const tensor_type> in, std::size_t i) = nullptr;
  /// Of an operation that adds its operand 0 along axes, for fusion with the operations before: a bit for each axis.
  unsigned (*summed_axes)(const void* attributes, view<const tensor_type> in) = nullptr;
  image_layouts (*images)(const image_call&) = nullptr;
  /// Number of leading operands that `emit` can read with rows before heads (`layout::rows_first`); if nonzero, it also
  /// writes its result so.
  int rows_first = 0;
  /// Whether it only swaps the third axis from the end (heads) with the second (rows).
  bool (*swaps_heads_and_rows)(const void* attributes) = nullptr;
  /// Rewrite patterns that contain this operation: a program is searched for the patterns of its operations.
  view<const rewriting::pattern* const> patterns{};
  /// How calls on several samples are batched; null: positions of all axes depend on each other.
  void (*map_axis)(const void* attributes, axis_map&) = nullptr;
  /// Whether a run may reject operands of this node; defaults to `may_fail`.
  bool (*node_may_fail)(const program&, const node&) = nullptr;

  /// Bit i: the elements of operand i determine the extents of a result, like the target shape of a reshape. They come
  /// from constants and shapes at planning time; otherwise the program is split there and the rest is planned once they
  /// are known.
  unsigned shape_operands = 0;
  /// Replaces a call in a plan once those elements are known; built with operations, in a program whose shapes are
  /// numbers and in which those operands are constants.
  value (*bind)(const void* attributes, view<const value> operands) = nullptr;

  /// Whether the elements of operand i are read, or only its shape.
  constexpr bool reads_data(std::size_t i) const { return !(shape_only >> (i < 31 ? i : 31) & 1u); }
  /// Whether the elements of operand i determine the extents of a result.
  constexpr bool decides_shape(std::size_t i) const { return i < 32 && (shape_operands >> i & 1u); }
};

export enum class node_kind : std::uint8_t { input, state, constant, operation };

export struct node {
  node_kind kind = node_kind::operation;
  const lamina::operation* op = nullptr;
  std::shared_ptr<const void> attributes;
  std::vector<value_id> inputs;
  std::vector<tensor_type> results;
  std::string name;  // name of an input or a state
  any_tensor constant;
  std::vector<std::shared_ptr<const program>> subprograms;
  std::string path;              // path of the operation's layer, for messages
  std::uint64_t hash = 0;        // structural hash: operation names, attributes, edges, types
  std::uint64_t digest[2] = {};  // digest of a constant's elements
  bool uniform = false;          // an input whose memory is one element, broadcast to all
  /// Whether the elements of operand i are read, or only its shape.
  bool reads_data(std::size_t i) const { return op->reads_data(i); }
  /// Attributes of a call, as the operation's attribute class.
  template <class A> const A& attributes_as() const { return *static_cast<const A*>(attributes.get()); }
};

struct program_output {
  std::string name;
  value_id value;
};
struct assignment {
  std::int32_t state;
  value_id value;
};  // `state`: index of the state's node

/// 128-bit hash of operation names, attributes, edges and types: equal programs have equal ids.
export struct program_id {
  std::uint64_t words[2]{};
  bool operator==(const program_id&) const = default;
};

/// RAII: the place in the user's code that adds operations to a program. Library functions end with a defaulted
/// parameter of this type; of nested calls the outermost counts, not the library's internal ones. Used only by
/// messages.
export class origin {
 public:
  origin(std::source_location at = std::source_location::current()) noexcept;
  ~origin();
  origin(const origin&) = delete;
  origin& operator=(const origin&) = delete;
  /// Location of the outermost active call of this thread, or null.
  static const std::source_location* current() noexcept;
  /// Prefix for messages outside a program: "main.cpp:12: ", or empty without a current location.
  static std::string prefix();

 private:
  std::source_location at_;
  const std::source_location* outer_;
};

class placed_value;
class value_or_number;
namespace detail {
/// Raises the value_error for an empty value.
[[noreturn]] void empty_value(const std::source_location* at = nullptr);
}  // namespace detail
/// A subscript with its source location.
class placed_position {
 public:
  template <std::integral T> placed_position(T i, std::source_location at = std::source_location::current())
      : i_(static_cast<std::int64_t>(i)), at_(at) {}
  std::int64_t operator()() const { return i_; }
  const std::source_location& at() const { return at_; }

 private:
  std::int64_t i_;
  std::source_location at_;
};
/// A value of a program under construction; the run-time evaluation mode of operations.
struct program_mode;
export class ir::value : public operand_base {
 public:
  using evaluation_mode = program_mode;
  value() = default;
  value(program* owner, value_id id) : owner_(owner), id_(id) {}
  const tensor_type& type() const;
  const lamina::shape& shape() const { return type().dims; }
  /// Errors: value_error for an empty value, as for all operations on one.
  program& owner() const {
    if (!owner_) [[unlikely]]
      detail::empty_value();
    return *owner_;
  }
  value_id id() const { return id_; }
  bool empty() const { return owner_ == nullptr; }
  /// Element or slice at a position of the first axis. Errors: shape_error for a position out of bounds.
  value operator[](const placed_position& i) const;
  bool same(const value& o) const { return owner_ == o.owner_ && id_ == o.id_; }

  // Operators as for typed expressions; defined with the elementwise operations.
  friend value operator-(const placed_value& x);
  friend value operator!(const placed_value& x);
  friend value operator&&(const placed_value& a, const placed_value& b);
  friend value operator||(const placed_value& a, const placed_value& b);
  friend value operator+(const value_or_number& a, const value_or_number& b);
  friend value operator-(const value_or_number& a, const value_or_number& b);
  friend value operator*(const value_or_number& a, const value_or_number& b);
  friend value operator/(const value_or_number& a, const value_or_number& b);
  friend value operator==(const value_or_number& a, const value_or_number& b);
  friend value operator!=(const value_or_number& a, const value_or_number& b);
  friend value operator<(const value_or_number& a, const value_or_number& b);
  friend value operator<=(const value_or_number& a, const value_or_number& b);
  friend value operator>(const value_or_number& a, const value_or_number& b);
  friend value operator>=(const value_or_number& a, const value_or_number& b);
  friend value operator^(const value_or_number& a, const value_or_number& b);

 private:
  program* owner_ = nullptr;
  value_id id_;
};

/// A value operand with its source location, for operators, which have no room for a last parameter.
/// Errors: value_error for an empty value.
class placed_value {
 public:
  placed_value(const value& v, std::source_location at = std::source_location::current()) : value_(v), at_(at) {
    if (v.empty()) [[unlikely]]
      detail::empty_value(&at_);
  }
  const value& held() const { return value_; }
  const std::source_location& at() const { return at_; }

 private:
  value value_;
  std::source_location at_;
};
/// Same, or a number combined with a value.
class value_or_number {
 public:
  value_or_number(const value& v, std::source_location at = std::source_location::current()) : value_(v), at_(at) {
    if (v.empty()) [[unlikely]]
      detail::empty_value(&at_);
  }
  template <class T> requires std::is_arithmetic_v<T>
  value_or_number(T number, std::source_location at = std::source_location::current()) : at_(at) {
    if constexpr (std::floating_point<T>) number_ = static_cast<double>(number);
    else if constexpr (std::is_signed_v<T>) number_ = static_cast<std::int64_t>(number);
    else number_ = static_cast<std::uint64_t>(number);
  }
  /// Empty for a number.
  const value& held() const { return value_; }
  const std::source_location& at() const { return at_; }
  /// The number as a constant of `p`, for operation `op`; a value is returned as it is. Errors: value_error if an
  /// integer type cannot represent the number.
  value in(program& p, dtype element, std::string_view op) const;

 private:
  value value_;
  std::variant<double, std::int64_t, std::uint64_t> number_;
  std::source_location at_;
};

namespace detail {
/// Copies trivially copyable attributes.
std::shared_ptr<const void> copy_of(const void* attributes, std::size_t bytes);
/// Raises the value_error for a number that an attribute's type cannot represent.
[[noreturn]] void attribute_out_of_range(std::string_view name);
}  // namespace detail

/// Format name in programs' JSON.
inline constexpr std::string_view program_format = "lamina program";
inline constexpr std::int64_t program_format_version = 1;
/// Names of value kinds in JSON.
inline constexpr std::string_view kind_names[] = {"tensor", "sequence", "optional", "optional_sequence"};

// Base class that makes ADL find functions of `lamina` for classes in inner namespaces.
struct found_in_lamina {};

/// Nodes are append-only; operands precede their users.
class ir::program : found_in_lamina {
 public:
  program() = default;
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  program(program&&) = default;
  program& operator=(program&&) = default;

  value input(std::string_view name, const tensor_type& type, bool uniform = false);
  /// The state with a name, created on first use. Errors: shape_error, type_error if the types differ.
  value state(std::string_view name, const tensor_type& type);
  value constant(any_tensor data);
  /// Copies a constant node of any program.
  value constant(const node& of);
  /// A number as a rank-0 constant. Errors: value_error if an integer type cannot represent it.
  value number(double v, dtype element);
  value number(std::int64_t v, dtype element);
  value number(std::uint64_t v, dtype element);
  /// Adds an operation, or returns an equal existing one unless `common_subexpressions` is off. Errors: shape_error,
  /// type_error naming operation and operand types; value_error for a wrong number of operands or subprograms.
  value_id add(const operation& op, std::shared_ptr<const void> attributes, view<const value> inputs,
               std::vector<std::shared_ptr<const program>> subprograms = {});
  /// The existing operation that `add` would return; empty if there is none.
  value_id find_operation(const operation& op, std::shared_ptr<const void> attributes, view<const value> inputs) const;
  /// Errors: state_error for a value of another program.
  void output(std::string_view name, const value& v);
  /// Replaces the value of output `i`. Errors: state_error for a value of another program.
  void replace_output(std::size_t i, const value& v);
  /// Assigns a state's value for the next run; once per state. Errors: state_error, shape_error, type_error.
  void assign(const value& state, const value& v);

  const std::vector<node>& nodes() const { return nodes_; }
  const node& at(value_id v) const { return nodes_[static_cast<std::size_t>(v.node)]; }
  const node& at(std::int32_t n) const { return nodes_[static_cast<std::size_t>(n)]; }
  const tensor_type& type(value_id v) const { return at(v).results[static_cast<std::size_t>(v.result)]; }
  const std::vector<std::int32_t>& inputs() const { return inputs_; }
  const std::vector<std::int32_t>& states() const { return states_; }
  const std::vector<program_output>& outputs() const { return outputs_; }
  const std::vector<assignment>& assignments() const { return assignments_; }
  /// The node of a state, or -1.
  std::int32_t find_state(std::string_view name) const;
  /// Whether a state is assigned in each run.
  bool is_assigned(std::int32_t state) const { return assigned_.contains(state); }
  /// The node of an input, or -1.
  std::int32_t find_input(std::string_view name) const;

  /// The number that all elements of a constant equal; empty for other values.
  std::optional<double> number_of(value_id v) const;
  /// Bounds of a node that only clamps its operand 0; empty if a bound is NaN.
  std::optional<value_bounds> bounds_of(const node& n) const;
  /// Whether a run may reject an operand of a node, or of a node in its subprograms.
  bool may_fail(const node& n) const;

  /// For each node, whether a root reaches it.
  std::vector<char> reachable() const;
  program_id id() const;
  /// A listing, one line per node, numbered in the order in which the roots reach them.
  std::string dump() const;
  std::string to_dot() const;
  /// JSON for `read_program`: nodes with all attributes, subprograms and constants, every number exact.
  std::string to_json() const;

  /// Path of the layer being traced; errors begin with it, and added nodes store it.
  std::string path;
  /// Whether nodes also store their source location: `main.cpp:12: encoder`.
  bool origins = false;
  /// Path that a node added now stores.
  std::string place() const;
  /// Called for each added node.
  std::function<void(std::int32_t node)> added;
  /// Name in messages about mixing values of two programs.
  std::string title;
  /// Whether equal operations are merged (CSE).
  bool common_subexpressions = true;
  /// Number of operations found instead of added.
  std::int64_t joined() const { return joined_; }
  /// Number for the next call site of a random operation; unique, so that two are never merged.
  std::int64_t next_site() { return sites_++; }
  /// Number of sites.
  std::int64_t sites() const { return sites_; }
  void sites(std::int64_t count) { sites_ = count; }
  /// Inlines a copy of the part of `sub` that its roots reach, with inputs replaced by `arguments`; used by `call` and
  /// passes.
  std::vector<value> inlined(const program& sub, view<const value> arguments);

 private:
  value_id push(node n);
  void same_results(const program& other, view<const tensor_type> inside, const operation& op, text& why,
                    view<tensor_type> results) const;
  template <class V> value rank_0(V v, dtype element);
  void check_owner(const value& v, std::string_view what) const;
  std::vector<node> nodes_;
  std::vector<std::int32_t> inputs_, states_;
  std::vector<program_output> outputs_;
  std::vector<assignment> assignments_;
  std::map<std::string, std::int32_t, std::less<>> state_by_name_;
  std::set<std::int32_t> assigned_;  // states
  std::unordered_map<std::uint64_t, std::vector<std::int32_t>> known_;
  std::int64_t sites_ = 0, joined_ = 0;
};

/// RAII: nodes added to the program store this path, which already includes their origin.
class path_of {
 public:
  path_of(program& p, std::string path);
  ~path_of();
  path_of(const path_of&) = delete;
  path_of& operator=(const path_of&) = delete;

 private:
  program& p_;
  std::string outer_;
  bool origins_;
};

/// Whether a value of type `given` is acceptable as `expected`: same kind, element type and rank, and compatible extents.
constexpr bool accepts(const tensor_type& expected, const tensor_type& given) {
  return expected.kind == given.kind && expected.element == given.element && fits(expected.dims, given.dims);
}
/// The equal extents of two shapes of one rank; `dyn` where they differ.
constexpr shape common_extents(shape a, const shape& b) {
  for (int i = 0; i < a.rank; ++i)
    if (a[i] != b[i]) a[i] = dyn;
  return a;
}

/// Binds the names of a subprogram for these operands; names of no input are unknown outside.
/// Errors: shape_error if a name would be bound to two numbers.
dimension_names names_of(const program& subprogram, view<const tensor_type> operands, std::string_view op,
                         std::string_view path);

namespace detail {
/// Raises the value_error for a definition that uses a nonexistent operand or result.
[[noreturn]] void no_such_part(std::string_view op, std::string_view member, std::string_view what, std::size_t i,
                               std::size_t count);
// Validation of a definition's answers for passes. Errors: value_error, which names operation and member.
channel_axes checked_channels(std::string_view op, channel_axes declared, const shape& result, const shape& weights);
axis_view checked_part(std::string_view op, axis_view declared, const shape& whole);
image_layouts checked_images(std::string_view op, image_layouts declared, const image_call& call);
void check_map(const axis_map& declared);
}  // namespace detail

/// Call of a gradient rule: the gradients of the results, the node's operands and results, and the wanted gradients.
export struct gradient_call {
  program& owner;
  const node& of;
  view<const value> inputs, results, gradients;  // gradients: an empty value for a result without one
  view<const bool> wanted;
  view<value> out;  // filled by the rule if wanted
  std::vector<value> (*reverse)(program&, view<const value> of, view<const value> start,
                                view<const value> with_respect_to) = nullptr;

  template <class A> const A& attributes() const { return *static_cast<const A*>(of.attributes.get()); }
  const value& operator()(std::size_t i) const { return inputs[checked("operand", i, inputs.size())]; }
  const value& result(std::size_t i = 0) const { return results[checked("result", i, results.size())]; }
  const value& gradient(std::size_t i = 0) const { return gradients[checked("result", i, gradients.size())]; }
  /// Sets the gradient of operand i if it is wanted; `rule` is called only then.
  template <class F> void operator()(std::size_t i, F rule) {
    if (wanted[checked("operand", i, wanted.size())]) out[i] = rule();
  }
  /// Sets the gradient of the only operand: unary operations' rules run only if it is wanted.
  void operator()(const value& of_operand) { out[0] = of_operand; }

 private:
  std::size_t checked(std::string_view what, std::size_t i, std::size_t count) const {
    if (i >= count) [[unlikely]]
      detail::no_such_part(of.op->name, "gradient", what, i, count);
    return i;
  }
};

/// How operands and results of a call relate to one axis of its first result. An operation's `static void
/// map_axis(const attributes&, axis_map&)` states whether positions of that axis are independent; calls on samples,
/// possibly with different numbers of positions, are then batched into one call on all positions. The default is not
/// independent. For an operation with a subprogram, `axis` is one of the subprogram's operands, and the answer is its
/// axis in the call's operands and results.
export struct axis_map {
  static constexpr int shared = -1;  ///< for an operand: all merged calls share it
  static constexpr int either = -2;  ///< it has one position, like the result: shared, or concatenated along `axis`

  axis_map(int along, view<const tensor_type> operand_types, view<const tensor_type> result_types);
  int axis;
  view<const tensor_type> in, out;     ///< types of the call
  std::string_view operation;          ///< operation name, for messages
  bool independent = false;            ///< positions are independent, and the bits of one do not depend on their number
  std::vector<int> operands, results;  ///< axes of concatenation, initially `axis`; or `shared`, `either`
  bool leading_axes = false;           ///< operands of equal rank may get a leading axis whose positions are the calls
  bool worth_copies = false;           ///< one call saves more than concatenating its operands costs
  std::int64_t carried = 0;  ///< subprogram: number of leading results that are its next run's leading operands
  std::shared_ptr<const void> attributes;  ///< valid for any number of positions, if the call's are not

  /// Whether the axis precedes axis `other` of the first operand; negative ones count from its end.
  bool before(std::int64_t other) const;
  /// Whether it differs from `other`.
  bool beside(std::int64_t other) const;
  void share(std::size_t operand) { operands[checked(operand)] = shared; }
  /// Handles an operand that broadcasts to the first result; false if the axis is a different one of the operand.
  bool broadcast(std::size_t operand);
  /// Handles an elementwise operation with broadcasting operands.
  void elementwise();

 private:
  std::size_t checked(std::size_t operand) const {
    if (operand >= in.size()) [[unlikely]]
      detail::no_such_part(operation, "map_axis", "operand", operand, in.size());
    return operand;
  }
};

/// Message of a mismatch: "matmul: the inner sizes differ: [2x3] [4x5]". Includes element types if relevant.
constexpr text mismatch_diagnostic(std::string_view op, const inference& found, view<const tensor_type> in) {
  text t;
  t << op << ": " << found.why << ":";
  bool elements = found.of_elements;
  for (const auto& x : in) elements = elements || x.element != in[0].element || !x.is_tensor();
  for (const auto& x : in) {
    if (elements) t << " " << x;
    else t << " " << x.dims;
  }
  return t;
}

}  // namespace lamina
