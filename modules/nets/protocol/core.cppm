// Non-template part of training and inference layers: the traced program, parameters, and the forward results that
// wait for their backward pass.
export module lamina:protocol.core;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.dynamic;
import :model;
import :parameter;
import :parameter.naming;
import :program;
import :protocol.call;
import :protocol.collector;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// Run-time description of a layer: ports, types and policies.
struct layer_definition {
  std::vector<label> inputs, outputs;
  std::vector<tensor_type> input_types;
  dtype element = dtype::float32;
  bool training = false, feedback = false;
  void (*trace)(trace_scope& scope, view<const value> in, view<value> out) = nullptr;
  bool (*trainable)(view<const label> path) = nullptr;
};

/// A state of a layer, with its path inside the layer.
struct layer_state {
  std::string path;
  tensor_type type;
  initializer how;
  state_role role = state_role::parameter;
  bool trainable = false;
  std::shared_ptr<parameter> is;  // empty before init, and always for the generator
};
/// The states of a layer, named `<layer>.<path>`.
class layer_states {
 public:
  explicit layer_states(std::string layer) : layer_(std::move(layer)) {}
  const std::string& layer() const { return layer_; }
  void declare(layer_state s) { all_.push_back(std::move(s)); }
  const std::vector<layer_state>& all() const { return all_; }
  const layer_state* find(std::string_view path) const;
  void init(const initializers& how, load_buffer* buffer);
  void load(const load_buffer& from);
  void save(load_buffer& to) const;
  /// The parameter at a path inside the layer. Errors: value_error, state_error.
  parameter& at(std::string_view path) const;
  std::int64_t seed() const { return seed_; }
  /// For layers that have states. Errors: state_error for a moved-from layer, recognized by its empty list of states.
  void check_here() const;
  /// Errors: state_error if the parameters are not initialized yet.
  void check_ready() const;
  [[noreturn]] void raise(error_kind kind, const text& why) const;

 private:
  std::string full(const layer_state& s) const;
  std::string layer_;
  std::vector<layer_state> all_;
  std::int64_t seed_ = 0;
};

[[noreturn]] void moved_layer();

/// A layer's program without states. Inputs: operands, then states. Outputs: ports, then new values of states.
struct layer_program {
  callee body;
  std::vector<traced_leaf> leaves;
  std::vector<std::size_t> assigned;  // index of the leaf that each output after the ports updates
  std::size_t ports = 0;
};
layer_program trace_layer(const layer_definition& d);

/// Non-template part of a training layer.
class train_core {
 public:
  train_core(std::string name, layer_definition d);
  layer_states& states() { return states_; }
  const layer_states& states() const { return states_; }

  std::shared_ptr<const layer_call> forward(std::vector<dynamic_pointer> operands, view<const shape> in,
                                            view<const shape> out);
  struct reversed {
    std::shared_ptr<const layer_call> call;  // null if nothing is computed
    std::vector<shape> operands;
  };
  /// The first results of the call are the gradients of the operands. `gradients` is null for ports without a gradient.
  reversed backward(std::vector<dynamic_pointer> gradients);
  void collect(gradient_collector& to);
  void assert_neutral() const;
  std::size_t waiting() const { return stack_.size(); }
  void update_statistics();

 private:
  struct forwarded {
    std::shared_ptr<const layer_call> call;
    std::vector<shape> in, out;
  };
  struct collected {
    std::shared_ptr<parameter> weight;
    dynamic_pointer gradient;
  };
  const callee& reverse(const std::vector<bool>& given);

  layer_definition d_;
  layer_program forward_;
  layer_states states_;
  bool keeps_ = false;     // keeps forward results for a backward pass
  std::int64_t step_ = 0;  // of the generator
  std::deque<std::pair<std::vector<bool>, callee>> reverse_;
  std::vector<forwarded> stack_;
  std::vector<collected> gradients_;
  std::vector<std::shared_ptr<const layer_call>> statistics_;
};

/// Calls a traced inference layer; `states` is null if the layer has none.
std::shared_ptr<const layer_call> infer(const layer_program& traced, const layer_states* states, std::string_view layer,
                                        std::vector<dynamic_pointer> operands);
/// Checks given shapes against the ports' patterns, including named dimensions. Errors: shape_error.
void check_extents_of(std::string_view layer, view<const label> ports, view<const tensor_type> patterns,
                      view<const shape> given);
[[noreturn]] void refuse_shapes(std::string_view layer, const text& why);

}  // namespace lamina::detail
