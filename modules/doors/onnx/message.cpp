// The messages of an ONNX file as structs whose text and raw data are views into the file. Only the wire format is
// checked here: the parser compares each length with the remaining bytes before it allocates.
module lamina.onnx:message;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// Element type of a tensor; the values of TensorProto.DataType.
enum class element_code : std::int32_t {
  none,
  float32,
  uint8,
  int8,
  uint16,
  int16,
  int32,
  int64,
  string,
  boolean,
  float16,
  float64,
  uint32,
  uint64,
  complex64,
  complex128,
  bfloat16,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  uint4,
  int4,
  float4_e2m1,
  float8_e8m0,
  uint2,
  int2
};

struct key_value {
  std::string_view key, value;
};

struct tensor_message {
  std::string_view name, raw;
  std::vector<std::int64_t> dims;
  element_code element = element_code::none;
  bool has_raw = false, is_external = false;
  std::vector<float> floats;
  std::vector<std::int32_t> integers;  // all types up to 32 bits except float
  std::vector<std::int64_t> longs;
  std::vector<double> doubles;
  std::vector<std::uint64_t> unsigned_longs;
  std::vector<std::string_view> strings;
  std::vector<key_value> external;
};
struct sparse_tensor_message {
  tensor_message values, indices;
  std::vector<std::int64_t> dims;
};

/// One extent of a declared type: a number, a name, or unknown.
struct extent_message {
  std::optional<std::int64_t> number;
  std::string_view name;
};
struct type_message {
  enum class form : std::uint8_t { none, tensor, sequence, optional, map, sparse_tensor };
  form is = form::none;
  element_code element = element_code::none;
  bool has_shape = false;
  std::vector<extent_message> extents;
  std::shared_ptr<const type_message> inner;  // element type of a sequence or an optional
};
struct value_message {
  std::string_view name;
  type_message type;
};

struct graph_message;
struct attribute_message {
  enum class form : std::int32_t {
    none,
    real,
    integer,
    string,
    tensor,
    graph,
    reals,
    integers,
    strings,
    tensors,
    graphs,
    sparse_tensor,
    sparse_tensors,
    type,
    types
  };
  std::string_view name, refers_to, string;
  form is = form::none;
  float real = 0;
  std::int64_t integer = 0;
  std::vector<float> reals;
  std::vector<std::int64_t> integers;
  std::vector<std::string_view> strings;
  std::vector<tensor_message> tensors;  // a single one for `tensor`
  std::vector<std::shared_ptr<const graph_message>> graphs;
  std::vector<sparse_tensor_message> sparse_tensors;
  std::vector<type_message> types;
};
struct node_message {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<attribute_message> attributes;
};
struct graph_message {
  std::string_view name;
  std::vector<node_message> nodes;
  std::vector<tensor_message> initializers;
  std::vector<sparse_tensor_message> sparse_initializers;
  std::vector<value_message> inputs, outputs, values;
};
struct opset_message {
  std::string_view domain;
  std::int64_t version = 0;
};
struct function_message {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs, attributes;
  std::vector<attribute_message> defaults;
  std::vector<node_message> nodes;
  std::vector<opset_message> opsets;
};
struct model_message {
  std::int64_t ir_version = 0;
  std::string_view producer, producer_version, domain;
  std::vector<opset_message> opsets;
  std::optional<graph_message> graph;
  std::vector<function_message> functions;
  std::vector<key_value> metadata;
};
/// A sequence or an optional in a file of its own, as in test data.
struct sequence_message {
  std::string_view name;
  std::int32_t element = 0;
  std::vector<tensor_message> tensors;
  std::vector<sequence_message> sequences, optionals;
};

/// Each raises a file_error that begins with `file`: for bytes that are no such message, for nesting deeper than 100,
/// or for more messages than a valid file of this size can have.
model_message parse_model(std::string_view bytes, const std::string& file);
tensor_message parse_tensor(std::string_view bytes, const std::string& file);
sequence_message parse_sequence(std::string_view bytes, const std::string& file);
sequence_message parse_optional(std::string_view bytes, const std::string& file);

/// Sorts nodes topologically if the file has them in another order; a cycle is left unchanged.
void order_nodes(std::vector<node_message>& nodes);

}  // namespace lamina::onnx
