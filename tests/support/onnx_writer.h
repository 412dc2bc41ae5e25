// ONNX models written field by field, so that tests can write invalid ones too. Functions return one message's bytes.
// Include it after <cstdint>, <string>, <string_view>, <type_traits>, <utility>, <vector>.
#pragma once
#include <protozero/pbf_writer.hpp>

namespace onnx_test {

using bytes = std::string;
using names = std::vector<std::string>;
using numbers = std::vector<std::int64_t>;

/// TensorProto.DataType.
enum : std::int32_t {
  float32 = 1,
  uint8,
  int8,
  uint16,
  int16,
  int32,
  int64,
  text,
  boolean,
  float16,
  float64,
  uint32,
  uint64,
  complex64,
  complex128,
  bfloat16,
  uint4 = 21,
  int4 = 22,
  uint2 = 25,
  int2 = 26
};

/// A message, built field by field.
class message {
 public:
  message& number(std::uint32_t field, std::int64_t v) { return w_.add_int64(field, v), *this; }
  message& real(std::uint32_t field, float v) { return w_.add_float(field, v), *this; }
  message& put(std::uint32_t field, const bytes& v) { return w_.add_bytes(field, v), *this; }
  message& put(std::uint32_t field, const std::vector<bytes>& all) {
    for (const auto& v : all) put(field, v);
    return *this;
  }
  message& packed(std::uint32_t field, const numbers& v) {
    return w_.add_packed_int64(field, v.begin(), v.end()), *this;
  }
  message& packed(std::uint32_t field, const std::vector<float>& v) {
    return w_.add_packed_float(field, v.begin(), v.end()), *this;
  }
  message& packed(std::uint32_t field, const std::vector<double>& v) {
    return w_.add_packed_double(field, v.begin(), v.end()), *this;
  }
  message& one_by_one(std::uint32_t field, const numbers& v) {
    for (auto n : v) number(field, n);
    return *this;
  }
  bytes done() const { return data_; }
  message() = default;
  message(const message&) = delete;
  message& operator=(const message&) = delete;

 private:
  bytes data_;
  protozero::pbf_writer w_{data_};
};

/// The bytes of numbers, as `raw_data` stores them.
template <class T> bytes raw(const std::vector<T>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)};
}

// ---- tensors --------------------------------------------------------------------------------------------------------

inline bytes tensor(const bytes& name, std::int32_t type, const numbers& dims, const bytes& raw_data) {
  return message().packed(1, dims).number(2, type).put(8, name).put(9, raw_data).done();
}
/// Elements in the repeated field of their type: 4 floats, 5 int32, 7 int64, 10 doubles, 11 uint64.
template <class T> bytes typed_tensor(const bytes& name, std::int32_t type, const numbers& dims, std::uint32_t field,
                                      const std::vector<T>& v) {
  return message().packed(1, dims).number(2, type).put(8, name).packed(field, v).done();
}
inline bytes floats(const bytes& name, const numbers& dims, const std::vector<float>& v) {
  return typed_tensor(name, float32, dims, 4, v);
}
inline bytes longs(const bytes& name, const numbers& dims, const numbers& v) {
  return typed_tensor(name, int64, dims, 7, v);
}
inline bytes entry(const bytes& key, const bytes& value) { return message().put(1, key).put(2, value).done(); }
inline bytes external_tensor(const bytes& name, std::int32_t type, const numbers& dims,
                             const std::vector<std::pair<bytes, bytes>>& entries) {
  message m;
  m.packed(1, dims).number(2, type).put(8, name);
  for (const auto& [key, value] : entries) m.put(13, entry(key, value));
  return m.number(14, 1).done();
}
inline bytes sparse_tensor(const bytes& values, const bytes& indices, const numbers& dims) {
  return message().put(1, values).put(2, indices).packed(3, dims).done();
}

// ---- values ---------------------------------------------------------------------------------------------------------

/// An extent: a number, a name, or unknown.
struct extent {
  template <class T> requires std::is_integral_v<T>
  extent(T n) : is(message().number(1, static_cast<std::int64_t>(n)).done()) {}
  extent(const char* name) : is(*name ? message().put(2, name).done() : bytes()) {}
  bytes is;
};
using extents = std::vector<extent>;
inline bytes tensor_type(std::int32_t element, const extents& dims) {
  message shape;
  for (const auto& e : dims) shape.put(1, e.is);
  return message().put(1, message().number(1, element).put(2, shape.done()).done()).done();
}
inline bytes value(const bytes& name, std::int32_t element, const extents& dims) {
  return message().put(1, name).put(2, tensor_type(element, dims)).done();
}
inline bytes value_of_type(const bytes& name, const bytes& type) { return message().put(1, name).put(2, type).done(); }
/// A value without a shape; below, one without a type.
inline bytes unshaped(const bytes& name, std::int32_t element) {
  return value_of_type(name, message().put(1, message().number(1, element).done()).done());
}
inline bytes untyped(const bytes& name) { return message().put(1, name).done(); }

// ---- nodes ----------------------------------------------------------------------------------------------------------

inline bytes integer(const bytes& name, std::int64_t v) {
  return message().put(1, name).number(3, v).number(20, 2).done();
}
inline bytes real(const bytes& name, float v) { return message().put(1, name).real(2, v).number(20, 1).done(); }
inline bytes string(const bytes& name, const bytes& v) { return message().put(1, name).put(4, v).number(20, 3).done(); }
inline bytes strings(const bytes& name, const std::vector<bytes>& all) {
  return message().put(1, name).put(9, all).number(20, 8).done();
}
inline bytes integers(const bytes& name, const numbers& v) {
  return message().put(1, name).one_by_one(8, v).number(20, 7).done();
}
inline bytes reals(const bytes& name, const std::vector<float>& v) {
  return message().put(1, name).packed(7, v).number(20, 6).done();
}
inline bytes tensor_attribute(const bytes& name, const bytes& t) {
  return message().put(1, name).put(5, t).number(20, 4).done();
}
inline bytes sparse_attribute(const bytes& name, const bytes& t) {
  return message().put(1, name).put(22, t).number(20, 11).done();
}
inline bytes graph_attribute(const bytes& name, const bytes& g) {
  return message().put(1, name).put(6, g).number(20, 5).done();
}
/// Inside a function body: refers to the attribute of the function's call, of the given kind.
inline bytes reference(const bytes& name, const bytes& of_call, std::int32_t kind) {
  return message().put(1, name).put(21, of_call).number(20, kind).done();
}

struct node_names {
  bytes name{}, domain{}, overload{};
};
inline bytes node(const bytes& op, const names& inputs, const names& outputs, const std::vector<bytes>& attributes = {},
                  const node_names& n = {}) {
  message m;
  m.put(1, inputs).put(2, outputs).put(4, op).put(5, attributes);
  if (!n.name.empty()) m.put(3, n.name);
  if (!n.domain.empty()) m.put(7, n.domain);
  if (!n.overload.empty()) m.put(8, n.overload);
  return m.done();
}

// ---- graphs, functions, models --------------------------------------------------------------------------------------

struct graph {
  std::vector<bytes> nodes{}, inputs{}, outputs{}, initializers{}, sparse_initializers{};
  bytes name = "g";
  bytes done() const {
    return message()
        .put(1, nodes)
        .put(2, name)
        .put(5, initializers)
        .put(11, inputs)
        .put(12, outputs)
        .put(15, sparse_initializers)
        .done();
  }
};
inline bytes opset(const bytes& domain, std::int64_t version) {
  return message().put(1, domain).number(2, version).done();
}
struct function {
  bytes name, domain = "own";
  names inputs{}, outputs{};
  std::vector<bytes> nodes{}, defaults{}, opsets{opset("", 18), opset("own", 1)};
  names attributes{};
  bytes done() const {
    return message()
        .put(1, name)
        .put(4, inputs)
        .put(5, outputs)
        .put(6, attributes)
        .put(7, nodes)
        .put(9, opsets)
        .put(10, domain)
        .put(11, defaults)
        .done();
  }
};
struct model {
  graph main{};
  std::vector<bytes> functions{}, opsets{opset("", 18), opset("own", 1)}, metadata{};
  std::int64_t ir = 9;
  bytes producer{};
  bytes done() const {
    message m;
    m.number(1, ir).put(8, opsets).put(7, main.done()).put(25, functions).put(14, metadata);
    if (!producer.empty()) m.put(2, producer);
    return m.done();
  }
};
/// A model of these nodes, with input x and output y.
inline bytes model_of(const std::vector<bytes>& nodes, const std::vector<bytes>& initializers = {},
                      const std::vector<bytes>& inputs = {value("x", float32, {2, 3})},
                      const std::vector<bytes>& outputs = {untyped("y")}) {
  return model{.main = {.nodes = nodes, .inputs = inputs, .outputs = outputs, .initializers = initializers}}.done();
}

/// Pseudorandom numbers in [-1, 1].
inline std::vector<float> noise(std::size_t n, std::uint32_t seed) {
  std::vector<float> made;
  for (std::size_t i = 0; i < n; ++i) {
    seed = seed * 1664525u + 1013904223u;
    made.push_back(static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return made;
}

}  // namespace onnx_test
