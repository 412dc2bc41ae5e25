module;
#include <protozero/pbf_writer.hpp>
// Serializes models as ONNX files.
module lamina.onnx:write_message.impl;
import :message;
import :source;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

using protozero::pbf_writer;

// Location of an initializer's data in PATH.data.
struct place {
  std::size_t offset, bytes;
};
using places = std::map<std::string_view, place>;

constexpr std::size_t alignment = 64, least_external = 1024;

std::size_t bits_written(dtype t) {
  if (t == dtype::int2 || t == dtype::uint2) return 2;
  if (t == dtype::int4 || t == dtype::uint4 || t == dtype::float4_e2m1) return 4;
  return 8;
}
// Elements in file format: those of fewer than 8 bits share bytes, the first in the lowest bits.
std::string packed(const any_tensor& t) {
  const std::size_t bits = bits_written(t.element()), each = 8 / bits, n = t.bytes();
  std::string all((n + each - 1) / each, '\0');
  for (std::size_t i = 0; i < n; ++i) {
    const auto low = static_cast<unsigned>(t.data()[i]) & ((1u << bits) - 1);
    all[i / each] = static_cast<char>(static_cast<unsigned char>(all[i / each]) | low << bits * (i % each));
  }
  return all;
}

void tensor(pbf_writer&& to, const written_tensor& t, const places& external, const std::string& file) {
  const shape& s = t.data.shape();
  if (s.rank > 0) {
    written_numbers dims;
    for (int i = 0; i < s.rank; ++i) dims.push_back(s.at(i));
    to.add_packed_int64(1, dims.begin(), dims.end());
  }
  to.add_int32(2, static_cast<std::int32_t>(written_element(t.data.element())));
  if (t.data.element() == dtype::string)
    for (auto v : t.data.elements<std::string_view>()) to.add_bytes(6, v.data(), v.size());
  to.add_string(8, t.name);
  if (const auto at = external.find(t.name); at != external.end()) {
    const auto entry = [&](const char* key, const std::string& value) {
      pbf_writer e(to, 13);
      e.add_string(1, key);
      e.add_string(2, value);
    };
    entry("location", file);
    entry("offset", std::to_string(at->second.offset));
    entry("length", std::to_string(at->second.bytes));
    to.add_enum(14, 1);
  } else if (bits_written(t.data.element()) < 8) to.add_bytes(9, packed(t.data));
  else if (t.data.element() != dtype::string)
    to.add_bytes(9, t.data.bytes() ? reinterpret_cast<const char*>(t.data.data()) : "", t.data.bytes());
}

void declared(pbf_writer&& to, const written_value& v) {
  to.add_string(1, v.name);
  pbf_writer type(to, 2);
  pbf_writer of(type, 1);
  of.add_int32(1, static_cast<std::int32_t>(written_element(v.type.element)));
  // Built as bytes: protozero omits empty messages, but an unknown extent and the shape of a scalar are empty messages.
  std::string shape_bytes;
  pbf_writer dims(shape_bytes);
  for (int i = 0; i < v.type.dims.rank; ++i) {
    std::string extent_bytes;
    pbf_writer d(extent_bytes);
    const dim n = v.type.dims[i];
    if (n.is_number()) d.add_int64(1, n.code);
    else if (n.is_name()) {
      text name;
      name << n;
      d.add_string(2, std::string(name.view()));
    }
    dims.add_message(1, extent_bytes);
  }
  of.add_message(2, shape_bytes);
}

void graph(pbf_writer& to, const written_graph& g);

void attribute(pbf_writer&& to, const written_attribute& a) {
  to.add_string(1, std::string(a.name));
  // Values of AttributeProto.AttributeType.
  if (const auto* i = std::get_if<std::int64_t>(&a.value)) to.add_int64(3, *i), to.add_enum(20, 2);
  else if (const auto* r = std::get_if<double>(&a.value)) to.add_float(2, static_cast<float>(*r)), to.add_enum(20, 1);
  else if (const auto* s = std::get_if<std::string>(&a.value)) to.add_string(4, *s), to.add_enum(20, 3);
  else if (const auto* all = std::get_if<written_numbers>(&a.value)) {
    for (auto n : *all) to.add_int64(8, n);
    to.add_enum(20, 7);
  } else {
    {
      pbf_writer inner(to, 6);
      graph(inner, *std::get<std::shared_ptr<const written_graph>>(a.value));
    }
    to.add_enum(20, 5);
  }
}

void graph(pbf_writer& to, const written_graph& g) {
  for (const auto& n : g.nodes) {
    pbf_writer m(to, 1);
    for (const auto& i : n.inputs) m.add_string(1, i);
    for (const auto& o : n.outputs) m.add_string(2, o);
    m.add_string(3, n.name);
    m.add_string(4, std::string(n.op));
    for (const auto& a : n.attributes) attribute(pbf_writer(m, 5), a);
  }
  to.add_string(2, g.name);
  for (const auto& v : g.inputs) declared(pbf_writer(to, 11), v);
  for (const auto& v : g.outputs) declared(pbf_writer(to, 12), v);
}

// The oldest IR version that supports an opset.
std::int64_t ir_of(std::int64_t opset) {
  return opset < 19 ? 8 : opset < 21 ? 9 : opset < 23 ? 10 : opset == 23 ? 11 : opset == 24 ? 12 : 13;
}

std::string bytes_of(const written_model& m, const places& external, const std::string& file) {
  std::string bytes;
  pbf_writer to(bytes);
  to.add_int64(1, ir_of(m.opset));
  to.add_string(2, m.producer);
  {
    pbf_writer g(to, 7);
    graph(g, m.graph);
    for (const auto& t : m.initializers) tensor(pbf_writer(g, 5), t, external, file);
  }
  pbf_writer(to, 8).add_int64(2, m.opset);
  for (const auto& [key, v] : m.metadata) {
    pbf_writer e(to, 14);
    e.add_string(1, key);
    e.add_string(2, v);
  }
  return bytes;
}

}  // namespace

std::int64_t written_element(dtype t) {
  constexpr element_code codes[] = {element_code::float32,
                                    element_code::float64,
                                    element_code::float16,
                                    element_code::bfloat16,
                                    element_code::int8,
                                    element_code::int16,
                                    element_code::int32,
                                    element_code::int64,
                                    element_code::uint8,
                                    element_code::boolean,
                                    element_code::uint16,
                                    element_code::uint32,
                                    element_code::uint64,
                                    element_code::float8_e4m3fn,
                                    element_code::float8_e4m3fnuz,
                                    element_code::float8_e5m2,
                                    element_code::float8_e5m2fnuz,
                                    element_code::float8_e8m0,
                                    element_code::float4_e2m1,
                                    element_code::int4,
                                    element_code::uint4,
                                    element_code::int2,
                                    element_code::uint2,
                                    element_code::string};
  static_assert(std::size(codes) == static_cast<std::size_t>(dtype_count));
  return static_cast<std::int64_t>(codes[static_cast<std::size_t>(t)]);
}

void write_model(const std::string& path, const written_model& m, std::size_t external_above) {
  std::size_t bytes = 0, end = 0;
  for (const auto& t : m.initializers) bytes += t.data.bytes();
  places external;
  std::vector<const written_tensor*> outside;
  if (bytes > external_above)
    for (const auto& t : m.initializers)
      if (t.data.bytes() >= least_external && t.data.element() != dtype::string &&
          bits_written(t.data.element()) == 8) {
        end = (end + alignment - 1) / alignment * alignment;
        external[t.name] = {end, t.data.bytes()};
        end += t.data.bytes();
        outside.push_back(&t);
      }
  const std::string data = path + ".data";
  if (!outside.empty())
    write_file_atomically(data, [&](writer& to) {
      std::size_t at = 0;
      for (const auto* t : outside) {
        const std::string gap(external.at(t->name).offset - at, '\0');
        to.write(gap);
        to.write(t->data.data(), t->data.bytes());
        at += gap.size() + t->data.bytes();
      }
    });
  const std::string model = bytes_of(m, external, std::filesystem::path(data).filename().string());
  write_file_atomically(path, [&](writer& to) { to.write(model); });
}

}  // namespace lamina::onnx
