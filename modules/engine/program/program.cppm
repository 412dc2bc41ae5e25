// The one program that every door leads to: inputs, states, constants and operations as a directed graph of nodes, each
// with one or more results; outputs and assignments of states as its roots.
export module lamina:program;
import :context;
import :core;
import :dtype;
import :product_type;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// What authors of operations, layers and passes write, and who trains a model seldom names, stands in a namespace of its own:
// `value` and `program` are names that users have themselves. The library's code has them as they are; these declarations are
// not exported, so that `using namespace lamina` does not bring them.
export namespace ir {
class program;
class value;
}  // namespace ir
using ir::program;
using ir::value;

export class emission;  // how a node becomes kernel calls, in :emission
export struct node;
export struct gradient_call;  // how a node passes its gradient on
export struct axis_map;       // how calls on several samples become one
export class host_call;       // what an operation sees that runs on the host, in :host

/// One result of one node.
export struct value_id {
  std::int32_t node = -1, result = 0;
  constexpr bool operator==(const value_id&) const = default;
  constexpr auto operator<=>(const value_id&) const = default;
  constexpr explicit operator bool() const { return node >= 0; }
};

/// What an operation's rule finds: the types of its results, or the reason why there are none.
export struct inference {
  static constexpr int max_results = 4;
  tensor_type results[max_results];
  int count = 0;
  text why;
  bool of_elements = false;  // the reason lies in the element types: the error is a type_error and names them
  view<const any_tensor* const> known{};  // operands whose elements the rule may use; null where they are not known yet
  /// The elements of operand i, which is one of the operation's `shape_operands`, or null while they are not known.
  constexpr const any_tensor* elements_of(std::size_t i) const { return i < known.size() ? known[i] : nullptr; }
  constexpr void result(dtype element, const shape& dims, value_kind kind = value_kind::tensor) {
    if (count < max_results) results[count] = {element, dims, kind};
    ++count;
  }
  /// Refuses an element type: `refuse(in[0].element, "float32 or float64", "float")` says what is taken, what was given,
  /// and to which type a cast helps.
  constexpr void refuse(dtype given, std::string_view taken, std::string_view cast_to) {
    of_elements = true;
    why << "takes " << taken << ", not " << given << "; cast first, as in cast<" << cast_to << ">(x)";
  }
};

/// What the named dimensions of inputs are, found where the inputs meet shapes.
export class dimension_names {
 public:
  /// Takes the names of `pattern` to mean what stands at their places in `given`. The name that means two numbers, or a
  /// dimension that is no name where all is well.
  dim bind(const shape& pattern, const shape& given);
  /// What a dimension means; itself where it is no name that is known.
  dim operator()(dim d) const;
  shape operator()(shape s) const;

 private:
  std::vector<std::pair<dim, dim>> known_;
};

/// One attribute of an operation, whatever member of the attributes holds it; narrower numbers are the wider ones here.
export struct attribute_value {
  enum class form : std::uint8_t { integer, real, boolean, element, product, dims, axes };
  form is = form::integer;
  std::int64_t integer = 0;  // boolean: 0 or 1
  double real = 0;
  dtype element = dtype::float32;
  product_type product{};
  shape dims;
  lamina::axes list;
  bool omitted = false;  // at the default of a member that files of earlier versions lack: it is not written
  bool operator==(const attribute_value&) const = default;
};
/// Is told an attribute's name and value, which it may change for another one of the same form.
using attribute_visitor = std::function<void(std::string_view name, attribute_value& v)>;

/// When the result of an operation is its first operand unchanged.
export enum class identity_rule : std::uint8_t { never, if_types_agree, always };
/// Of which operands being 0 an elementwise operation gives 0.
export enum class zero_rule : std::uint8_t { none, all, any };
/// A number that changes nothing: `x op number == x` where it is on the right, `number op x == x` where on the left.
export struct neutral_number {
  double number = 0;
  bool left = false, right = false;
};
/// The numbers between which an operation holds its first operand.
export struct value_bounds {
  double low, high;
};
/// Of a product of operand 0 and weights, operand 1: the axis of the result and that of the weights that are its channels.
/// The result is linear in the weights of each channel.
export struct channel_axes {
  int result, weights;
};
/// The two operands of an operation, by number, that it adds in one way or another: tensors of the result's type.
export struct summed_operands {
  int first = -1, second = -1;
};
/// Positions [first, first + count) of an axis.
export struct axis_view {
  int axis;
  std::int64_t first, count;
};

/// What decides in which layout an operation takes and gives images [N, C, H, W] of float32 or int8 (`layout`, in :emission).
export struct image_call {
  const void* attributes;
  view<const tensor_type> in, out;
  bool blocked;     // operand 0 is channel-blocked
  bool first_only;  // of several results only result 0 is read
  lamina::isa isa;
  view<const char> in_blocks{};  // of each operand, whether it is channel-blocked
};
/// What an operation makes of the windows of each channel's map: nothing such, their maxima, their means, or sums with one filter for
/// each channel. The attributes are those of a pool, or of a convolution.
export enum class window_rule : std::uint8_t { none, maximum, mean, filter };
/// The answer: whether the result is channel-blocked, whether operand 0 is to be, and others of the result's type with it, or all
/// operands whatever their type.
export struct image_layouts {
  bool result = false, operand = false, others = false, every_operand = false;
  bool zero_padding = false;  // zeros are written beyond the channels of the result, whatever operands have there
};

namespace rewriting {
struct pattern;
}
extern "C++" {
namespace kernels {
struct map_functions;
}
}

/// The run-time record of an operation: everything the rooms below need to know of it.
export struct operation {
  std::string_view name;
  std::string_view type;  // the class that defines it: two operations may have one name
  const void* id;         // of that class: its `operation_id`
  bool library;           // one of the library's own
  int version = 1;
  int operands;             // -1: any number
  bool pure = true;         // equal calls are one node
  unsigned shape_only = 0;  // bit i: only the shape of operand i is read
  int alias = -1;           // the result may be a view of this operand; -1: never
  bool layout_free;         // elementwise: runs in whatever layout its operands have
  void (*infer)(const void* attributes, view<const tensor_type> in, inference& out);
  void (*gradient)(gradient_call&) = nullptr;  // null: not differentiable
  void (*emit)(emission&) = nullptr;
  void (*host)(host_call&) = nullptr;  // instead of `emit`: runs on the host, between plans
  /// The micro-operation of an elementwise operation, or null.
  const kernels::map_functions& (*map)(lamina::isa) = nullptr;
  std::uint64_t (*hash)(const void* attributes);
  bool (*equal)(const void* a, const void* b);
  /// Tells all attributes, and makes new ones of what the visitor leaves: of the defaults where there are none to begin with.
  std::shared_ptr<const void> (*visit)(const void* attributes, const attribute_visitor& each);
  double (*flops)(const void* attributes, view<const tensor_type> in, view<const tensor_type> out);
  bool may_fail = false;  // a run may find its operands wrong: an index out of range
  /// The attributes with names replaced by what they mean, or null for attributes without shapes.
  std::shared_ptr<const void> (*bound)(const void* attributes, const dimension_names&) = nullptr;
  /// Of an operation with a subprogram: what the subprogram's inputs are for the node's operands, and the node's results
  /// for the subprogram's outputs. Null: the same. Several subprograms take and give the same types.
  void (*inside)(const void* attributes, std::vector<tensor_type>& operands, text& why) = nullptr;
  void (*outside)(const void* attributes, view<const tensor_type> operands, std::vector<tensor_type>& results,
                  text& why) = nullptr;
  int subprograms = 0;  // how many a node has

  // ---- what passes may rely on, each from a member of the definition; the defaults claim nothing ----

  identity_rule identity = identity_rule::never;
  zero_rule zeros = zero_rule::none;
  neutral_number neutral{};
  bool involution = false;  // applied twice it changes nothing
  bool stops_gradient = false;
  bool keeps_elements = false;  // each result element is one of operand 0, or of any operand of an operation of many
  bool adds = false;            // the sum of both operands: a product may end with it as its bias or residual
  summed_operands sums{};       // of an operation that `joins_sums` may end with
  bool joins_sums = false;      // in blocks of channels `emit` computes the emission's `epilogue().sum`, too
  /// What each result makes of a window of the map of its own channel alone, so that bands of rows can be taken one by one.
  window_rule (*windows)(const image_call&) = nullptr;
  /// Whether `emit` of a product in blocks of channels takes its result band by band through the emission's `epilogue().windows`, an
  /// operation of this rule and call.
  bool (*joins_windows)(const image_call&, window_rule, const image_call& windows) = nullptr;
  bool plain_images = false;  // a plan in which it stands keeps images in the plain layout
  int updates = -1;           // the result may be written over this operand, element by element or row by row
  /// The logarithm of its result, made of operand 0 more exactly or in less time than of the result.
  value (*logarithm)(const void* attributes, const value& operand) = nullptr;
  /// The steps of `emit` read an operand of a result's type only where they write that result: the two may be one memory.
  bool by_element = false;
  bool takes_kinds = false;   // operands and results may be sequences and optionals
  bool results_vary = false;  // subprograms of a node may give results of different extents
  /// What subprogram `s` of a node is, in drawings.
  std::string_view (*subprogram_name)(int s) = nullptr;
  /// The channels of a product with weights, whose `emit` applies the emission's `epilogue` to each of them.
  channel_axes (*channels)(const void* attributes, const shape& result, const shape& weights) = nullptr;
  /// The bounds of an operation that limits operand 0, from the numbers that its other operands are, where they are constants.
  std::optional<value_bounds> (*bounds)(view<const std::optional<double>> operands) = nullptr;
  /// Of a product of float32 operands: its attributes where it rounds them to a half type before it multiplies; null: it does not.
  std::shared_ptr<const void> (*rounded)(const void* attributes, product_type to) = nullptr;
  /// The neighboring positions of operand 0, which has these extents, that the result is.
  std::optional<axis_view> (*part_of)(const void* attributes, const shape& whole) = nullptr;
  /// The positions of the result that operand i is, as it is: `emit` copies nothing that lies there already.
  axis_view (*operand_place)(const void* attributes, view<const tensor_type> in, std::size_t i) = nullptr;
  image_layouts (*images)(const image_call&) = nullptr;
  /// How many of the first operands `emit` reads where they lie with rows before heads (`layout::rows_first`); if there are any, it
  /// writes its result so, too.
  int rows_first = 0;
  /// Whether all it does is to swap the third axis from the end, heads, and the second, rows.
  bool (*swaps_heads_and_rows)(const void* attributes) = nullptr;
  /// The patterns of several operations that have this one in them: a program is searched for those of its operations.
  view<const rewriting::pattern* const> patterns{};
  /// How calls on several samples become one; null: positions of every axis see each other.
  void (*map_axis)(const void* attributes, axis_map&) = nullptr;
  /// Whether a run may find operands of this node wrong; `may_fail` where there is none.
  bool (*node_may_fail)(const program&, const node&) = nullptr;

  /// Bit i: the elements of operand i decide the extents of a result, as the target shape of a reshape does. They are known
  /// when a plan is made, from constants and shapes, or the program is cut there and the rest planned once they are.
  unsigned shape_operands = 0;
  /// Replacement of a call in a plan once those elements are known: written with operations, in a program whose shapes are
  /// numbers and in which those operands are constants.
  value (*bind)(const void* attributes, view<const value> operands) = nullptr;

  /// Whether the elements of operand i are read, or only its shape.
  constexpr bool reads_data(std::size_t i) const { return !(shape_only >> (i < 31 ? i : 31) & 1u); }
  /// Whether the elements of operand i decide the extents of a result.
  constexpr bool decides_shape(std::size_t i) const { return i < 32 && (shape_operands >> i & 1u); }
};

export enum class node_kind : std::uint8_t { input, state, constant, operation };

export struct node {
  node_kind kind = node_kind::operation;
  const lamina::operation* op = nullptr;
  std::shared_ptr<const void> attributes;
  std::vector<value_id> inputs;
  std::vector<tensor_type> results;
  std::string name;  // of an input or a state
  any_tensor constant;
  std::vector<std::shared_ptr<const program>> subprograms;
  std::string path;              // of the layer that an operation belongs to, for messages
  std::uint64_t hash = 0;        // of structure: names of operations, attributes, edges, types
  std::uint64_t digest[2] = {};  // of a constant's elements
  bool uniform = false;          // an input whose memory holds one element for all
  /// Whether the elements of operand i are read, or only its shape.
  bool reads_data(std::size_t i) const { return op->reads_data(i); }
  /// The attributes of a call, as the class of its operation's.
  template <class A> const A& attributes_as() const { return *static_cast<const A*>(attributes.get()); }
};

struct program_output {
  std::string name;
  value_id value;
};
struct assignment {
  std::int32_t state;
  value_id value;
};  // state: node of the state

/// 128 bits over operation names, attributes, edges and types: equal programs, equal ids.
export struct program_id {
  std::uint64_t words[2]{};
  bool operator==(const program_id&) const = default;
};

/// Where in the user's code an operation is added to a program. The functions of the library end with a parameter of this
/// kind, which is left out; of calls inside of each other the outermost counts, and those that the library makes by itself
/// do not. Only messages read it.
export class origin {
 public:
  origin(std::source_location at = std::source_location::current()) noexcept;
  ~origin();
  origin(const origin&) = delete;
  origin& operator=(const origin&) = delete;
  /// That of the outermost call which this thread is in, or null.
  static const std::source_location* current() noexcept;
  /// How messages begin that know no program: "main.cpp:12: " of the current one, or nothing.
  static std::string prefix();

 private:
  std::source_location at_;
  const std::source_location* outer_;
};

class placed_value;
class value_or_number;
namespace detail {
/// Raises the value_error for a value that is none.
[[noreturn]] void empty_value(const std::source_location* at = nullptr);
}  // namespace detail
/// A position in brackets, and where in the user's code they stand.
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
/// A value while a program is being built; the run-time evaluation mode of operations.
struct program_mode;
export class ir::value : public operand_base {
 public:
  using evaluation_mode = program_mode;
  value() = default;
  value(program* owner, value_id id) : owner_(owner), id_(id) {}
  const tensor_type& type() const;
  const lamina::shape& shape() const { return type().dims; }
  /// Errors: value_error for an empty value, as of all operations on one.
  program& owner() const {
    if (!owner_) [[unlikely]]
      detail::empty_value();
    return *owner_;
  }
  value_id id() const { return id_; }
  bool empty() const { return owner_ == nullptr; }
  /// What stands at a position of the first axis. Errors: shape_error for a position outside of it.
  value operator[](const placed_position& i) const;
  bool same(const value& o) const { return owner_ == o.owner_ && id_ == o.id_; }

  // What the operators of typed expressions are; defined with the elementwise operations.
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

/// A value as an operand, and where in the user's code it stands: for what has no room for a last parameter that says so.
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
/// The same, or a number beside a value.
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
  /// The number as a constant of a program, for an operation; itself for a value. Errors: value_error where an integer type
  /// does not hold it.
  value in(program& p, dtype element, std::string_view op) const;

 private:
  value value_;
  std::variant<double, std::int64_t, std::uint64_t> number_;
  std::source_location at_;
};

namespace detail {
/// A copy of attributes that are plain bytes.
std::shared_ptr<const void> copy_of(const void* attributes, std::size_t bytes);
/// Raises the value_error for a number that an attribute's type does not hold.
[[noreturn]] void attribute_out_of_range(std::string_view name);
}  // namespace detail

/// What JSON of programs says it is.
inline constexpr std::string_view program_format = "lamina program";
inline constexpr std::int64_t program_format_version = 1;
/// The kinds of values, as it writes them.
inline constexpr std::string_view kind_names[] = {"tensor", "sequence", "optional", "optional_sequence"};

// As a base, what has functions of `lamina` found without their namespace for an argument of a class in an inner one.
struct found_in_lamina {};

/// Nodes are only added; operands stand before their users.
class ir::program : found_in_lamina {
 public:
  program() = default;
  program(const program&) = delete;
  program& operator=(const program&) = delete;
  program(program&&) = default;
  program& operator=(program&&) = default;

  value input(std::string_view name, const tensor_type& type, bool uniform = false);
  /// The state of a name; asked for twice it is the same. Errors: shape_error, type_error if the types differ.
  value state(std::string_view name, const tensor_type& type);
  value constant(any_tensor data);
  /// The constant that a node of any program is.
  value constant(const node& of);
  /// A number as a rank-0 constant. Errors: value_error where an integer type does not hold it.
  value number(double v, dtype element);
  value number(std::int64_t v, dtype element);
  value number(std::uint64_t v, dtype element);
  /// Adds an operation, or finds the equal one unless `common_subexpressions` is off. Errors: shape_error, type_error naming operation and
  /// operand types; value_error for a wrong number of operands or subprograms.
  value_id add(const operation& op, std::shared_ptr<const void> attributes, view<const value> inputs,
               std::vector<std::shared_ptr<const program>> subprograms = {});
  /// Errors: state_error for a value of another program.
  void output(std::string_view name, const value& v);
  /// Gives output `i` another value. Errors: state_error for a value of another program.
  void replace_output(std::size_t i, const value& v);
  /// Gives a state its value for the next run; once per state. Errors: state_error, shape_error, type_error.
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

  /// The number that all elements of a constant are; empty for values that are no such constant.
  std::optional<double> number_of(value_id v) const;
  /// Between which numbers a node holds its operand 0, where it does nothing else; empty where one of them is NaN.
  std::optional<value_bounds> bounds_of(const node& n) const;
  /// Whether a run may find an operand of a node wrong, or one of a node in its subprograms.
  bool may_fail(const node& n) const;

  /// Which nodes the roots reach.
  std::vector<char> reachable() const;
  program_id id() const;
  /// A listing, one line a node, numbered in the order in which the roots reach them.
  std::string dump() const;
  std::string to_dot() const;
  /// What `read_program` reads: nodes with all attributes, subprograms, constants, every number exactly.
  std::string to_json() const;

  /// Path of the layer being traced; errors begin with it, and the nodes that are added keep it.
  std::string path;
  /// Whether nodes also keep where in the user's code they were added: `main.cpp:12: encoder`.
  bool origins = false;
  /// What a node that is added now keeps as its path.
  std::string place() const;
  /// Is told of each node that is added.
  std::function<void(std::int32_t node)> added;
  /// What messages call it where values of two programs are mixed up.
  std::string title;
  /// Whether an operation that is equal to one that is there is that one.
  bool common_subexpressions = true;
  /// How often an operation was found instead of added.
  std::int64_t joined() const { return joined_; }
  /// Randomness: each call site has its own number, so that two never merge.
  std::int64_t next_site() { return sites_++; }
  /// How many sites there are.
  std::int64_t sites() const { return sites_; }
  void sites(std::int64_t count) { sites_ = count; }
  /// Moves a value's program into this one as a copy of the reachable part, with inputs replaced; used by `call` and passes.
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

/// While it lives, what is added to a program belongs to a path that says already where it comes from.
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

/// Whether a value of a type may stand where another type is expected: the same kind, element type and rank, and extents that
/// may be equal.
constexpr bool accepts(const tensor_type& wanted, const tensor_type& given) {
  return wanted.kind == given.kind && wanted.element == given.element && fits(wanted.dims, given.dims);
}
/// The extents that two shapes of one rank have in common; `dyn` where they differ.
constexpr shape common_extents(shape a, const shape& b) {
  for (int i = 0; i < a.rank; ++i)
    if (a[i] != b[i]) a[i] = dyn;
  return a;
}

/// What the names of a subprogram mean for these operands; its names that no input has are unknown outside.
/// Errors: shape_error where a name would mean two numbers.
dimension_names names_of(const program& subprogram, view<const tensor_type> operands, std::string_view op,
                         std::string_view path);

namespace detail {
/// Raises the value_error of a definition that asks for an operand or result which there is not.
[[noreturn]] void no_such_part(std::string_view op, std::string_view member, std::string_view what, std::size_t i,
                               std::size_t count);
// What a definition says for passes, checked where it enters. Errors: value_error, which names operation and member.
channel_axes checked_channels(std::string_view op, channel_axes said, const shape& result, const shape& weights);
axis_view checked_part(std::string_view op, axis_view said, const shape& whole);
image_layouts checked_images(std::string_view op, image_layouts said, const image_call& call);
void check_map(const axis_map& said);
}  // namespace detail

/// The call of a gradient rule: the gradients of the results, the node's operands and results, and what is wanted.
export struct gradient_call {
  program& owner;
  const node& of;
  view<const value> inputs, results, gradients;  // gradients: an empty value where a result has none
  view<const bool> wanted;
  view<value> out;  // to be filled where wanted
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
  /// Sets the gradient of the only operand: of operations that have one, no rule is called where it is not wanted.
  void operator()(const value& of_operand) { out[0] = of_operand; }

 private:
  std::size_t checked(std::string_view what, std::size_t i, std::size_t count) const {
    if (i >= count) [[unlikely]]
      detail::no_such_part(of.op->name, "gradient", what, i, count);
    return i;
  }
};

/// How operands and results of a call take part in one axis of its first result. An operation says in `static void
/// map_axis(const attributes&, axis_map&)` whether positions of that axis are independent; calls on samples, which may have
/// different numbers of positions, are then merged into one call on the positions of all. Nothing is independent by default.
/// Of an operation with a subprogram, `axis` is one of the subprogram's operands, and the answer says where it lies in the
/// operands and results of the call.
export struct axis_map {
  static constexpr int shared = -1;  ///< of an operand: all merged calls have the same one
  static constexpr int either = -2;  ///< it has one position, as the result does: shared, or joined along `axis`

  axis_map(int along, view<const tensor_type> operand_types, view<const tensor_type> result_types);
  int axis;
  view<const tensor_type> in, out;  ///< types of the call
  std::string_view operation;       ///< its name, for messages
  bool independent = false;  ///< positions do not see each other, and the bits of one do not depend on their number
  std::vector<int> operands, results;  ///< the axis along which each is joined, `axis` at first; or `shared`, `either`
  bool leading_axes = false;  ///< operands of equal rank may have one more axis in front: calls become its positions
  bool worth_copies = false;  ///< one call gains more than copying its operands together costs
  std::int64_t carried = 0;   ///< of a subprogram: its first results are its first operands when it runs again
  std::shared_ptr<const void> attributes;  ///< those for any number of positions, where the call's name that number

  /// Whether the axis stands before one of the first operand; negative ones count from its end.
  bool before(std::int64_t other) const;
  /// Whether it is another one.
  bool beside(std::int64_t other) const;
  void share(std::size_t operand) { operands[checked(operand)] = shared; }
  /// An operand that broadcasts to the first result; false where the axis is a different one of the operand.
  bool broadcast(std::size_t operand);
  /// Of an operation on elements at the same position, with operands that broadcast.
  void elementwise();

 private:
  std::size_t checked(std::size_t operand) const {
    if (operand >= in.size()) [[unlikely]]
      detail::no_such_part(operation, "map_axis", "operand", operand, in.size());
    return operand;
  }
};

/// The words of a mismatch: "matmul: the inner sizes differ: [2x3] [4x5]". Element types stand there where they matter.
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
