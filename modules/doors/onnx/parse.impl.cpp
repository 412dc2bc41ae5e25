module;
#include <protozero/pbf_reader.hpp>
module lamina.onnx:parse.impl;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

using protozero::pbf_reader;
using protozero::pbf_wire_type;

constexpr int max_depth = 100;
constexpr std::size_t max_opsets = 1000;

struct wrong_field {};
struct wrong_text {};

// A field with the wrong wire type means damage; protozero only asserts the wire type.
void expect(pbf_reader& r, pbf_wire_type type) {
  if (r.wire_type() != type) throw wrong_field();
}
std::string_view view_of(pbf_reader& r) {
  expect(r, pbf_wire_type::length_delimited);
  const auto v = r.get_view();
  return {v.data(), v.size()};
}
// A name or other UTF-8 text.
std::string_view text_of(pbf_reader& r) {
  const auto s = view_of(r);
  if (!is_utf8(s)) throw wrong_text();
  return s;
}
pbf_reader message_of(pbf_reader& r) {
  expect(r, pbf_wire_type::length_delimited);
  return r.get_message();
}
std::int64_t integer_of(pbf_reader& r) {
  expect(r, pbf_wire_type::varint);
  return r.get_int64();
}
std::int32_t small_integer_of(pbf_reader& r) {
  expect(r, pbf_wire_type::varint);
  return r.get_int32();
}
float real_of(pbf_reader& r) {
  expect(r, pbf_wire_type::fixed32);
  return r.get_float();
}

class parser {
 public:
  // Memory budget for messages: many times the size of a small file, since messages have many fields; twice that of a
  // large file, whose bytes are mostly data.
  parser(std::string_view bytes, const std::string& file)
      : file_(file),
        budget_(std::min(16 * bytes.size() + (std::size_t(1) << 20), 2 * bytes.size() + (std::size_t(256) << 20))) {}

  // Calls `read` and turns protozero's exceptions into file_error.
  template <class M> M run(std::string_view bytes, void (parser::*read)(pbf_reader, M&)) {
    M message;
    try {
      (this->*read)(pbf_reader(bytes.data(), bytes.size()), message);
    } catch (const protozero::end_of_buffer_exception&) {
      fail("a length exceeds the remaining bytes: the file is truncated or damaged");
    } catch (const protozero::exception&) {
      fail("it is damaged: not a protobuf message");
    } catch (const wrong_field&) { fail("it is damaged: a field has an unexpected type"); } catch (const wrong_text&) {
      fail("a name or text in it is not UTF-8");
    }
    return message;
  }

  void model(pbf_reader r, model_message& m) {
    while (r.next()) switch (r.tag()) {
        case 1: m.ir_version = integer_of(r); break;
        case 2: m.producer = text_of(r); break;
        case 3: m.producer_version = text_of(r); break;
        case 4: m.domain = text_of(r); break;
        case 7:
          if (!m.graph) m.graph.emplace();
          graph(message_of(r), *m.graph);
          break;
        case 8: opset(message_of(r), one_of_few(m.opsets)); break;
        case 14: entry(message_of(r), added(m.metadata)); break;
        case 25: function(message_of(r), added(m.functions)); break;
        default: r.skip();
      }
  }
  void tensor(pbf_reader r, tensor_message& t) {
    while (r.next()) switch (r.tag()) {
        case 1: numbers(r, t.dims, &pbf_reader::get_int64, &pbf_reader::get_packed_int64); break;
        case 2: t.element = static_cast<element_code>(small_integer_of(r)); break;
        case 3: fail("a tensor is in segments, which ONNX does not define");
        case 4: numbers(r, t.floats, &pbf_reader::get_float, &pbf_reader::get_packed_float); break;
        case 5: numbers(r, t.integers, &pbf_reader::get_int32, &pbf_reader::get_packed_int32); break;
        case 6: added(t.strings) = view_of(r); break;
        case 7: numbers(r, t.longs, &pbf_reader::get_int64, &pbf_reader::get_packed_int64); break;
        case 8: t.name = text_of(r); break;
        case 9:
          t.raw = view_of(r);
          t.has_raw = true;
          break;
        case 10: numbers(r, t.doubles, &pbf_reader::get_double, &pbf_reader::get_packed_double); break;
        case 11: numbers(r, t.unsigned_longs, &pbf_reader::get_uint64, &pbf_reader::get_packed_uint64); break;
        case 13: entry(message_of(r), added(t.external)); break;
        case 14: t.is_external = small_integer_of(r) == 1; break;
        default: r.skip();
      }
  }
  void sequence(pbf_reader r, sequence_message& s) {
    const deeper in(*this);
    while (r.next()) switch (r.tag()) {
        case 1: s.name = text_of(r); break;
        case 2: s.element = small_integer_of(r); break;
        case 3: tensor(message_of(r), added(s.tensors)); break;
        case 5: sequence(message_of(r), added(s.sequences)); break;
        case 7: sequence(message_of(r), added(s.optionals)); break;
        default: r.skip();
      }
  }

 private:
  struct deeper {
    explicit deeper(parser& p) : p(p) {
      if (++p.depth_ > max_depth) p.fail("messages are nested deeper than 100");
    }
    ~deeper() { --p.depth_; }
    deeper(const deeper&) = delete;
    deeper& operator=(const deeper&) = delete;
    parser& p;
  };

  [[noreturn]] void fail(std::string_view why) const {
    message_text t;
    throw file_error((t << printable(file_, 1024) << ": is not an ONNX file: " << why).string());
  }
  void charge(std::size_t bytes) {
    if (bytes > budget_) fail("it describes far more than its size allows");
    budget_ -= bytes;
  }
  template <class T> T& added(std::vector<T>& to) {
    charge(sizeof(T));
    return to.emplace_back();
  }
  opset_message& one_of_few(std::vector<opset_message>& to) {
    if (to.size() == max_opsets) fail("it imports more than 1000 opsets");
    return added(to);
  }
  // A repeated numeric field, packed or not.
  template <class T, class One, class Packed> void numbers(pbf_reader& r, std::vector<T>& to, One one, Packed packed) {
    if (r.wire_type() != pbf_wire_type::length_delimited) {
      expect(r, std::is_same_v<T, float>    ? pbf_wire_type::fixed32
                : std::is_same_v<T, double> ? pbf_wire_type::fixed64
                                            : pbf_wire_type::varint);
      charge(sizeof(T));
      to.push_back((r.*one)());
      return;
    }
    const auto all = (r.*packed)();
    const auto count = static_cast<std::size_t>(all.size());
    charge(count * sizeof(T));
    if (to.empty()) to.reserve(count);
    to.insert(to.end(), all.begin(), all.end());
  }

  void entry(pbf_reader r, key_value& e) {
    while (r.next()) switch (r.tag()) {
        case 1: e.key = text_of(r); break;
        case 2: e.value = text_of(r); break;
        default: r.skip();
      }
  }
  void opset(pbf_reader r, opset_message& o) {
    while (r.next()) switch (r.tag()) {
        case 1: o.domain = text_of(r); break;
        case 2: o.version = integer_of(r); break;
        default: r.skip();
      }
  }
  void sparse_tensor(pbf_reader r, sparse_tensor_message& s) {
    while (r.next()) switch (r.tag()) {
        case 1: tensor(message_of(r), s.values); break;
        case 2: tensor(message_of(r), s.indices); break;
        case 3: numbers(r, s.dims, &pbf_reader::get_int64, &pbf_reader::get_packed_int64); break;
        default: r.skip();
      }
  }
  void extent(pbf_reader r, extent_message& e) {
    while (r.next()) switch (r.tag()) {
        case 1: e.number = integer_of(r); break;
        case 2: e.name = text_of(r); break;
        default: r.skip();
      }
  }
  // TypeProto.Tensor, or the inner type of a sequence or optional.
  void type_of_form(pbf_reader r, type_message& t) {
    while (r.next()) {
      if (t.is == type_message::form::tensor || t.is == type_message::form::sparse_tensor) {
        if (r.tag() == 1) t.element = static_cast<element_code>(small_integer_of(r));
        else if (r.tag() == 2) {
          t.has_shape = true;
          auto s = message_of(r);
          while (s.next())
            if (s.tag() == 1) extent(message_of(s), added(t.extents));
            else s.skip();
        } else r.skip();
      } else if (r.tag() == 1 && t.is != type_message::form::map) {
        charge(sizeof(type_message));
        auto inner = std::make_shared<type_message>();
        type(message_of(r), *inner);
        t.inner = std::move(inner);
      } else r.skip();
    }
  }
  void type(pbf_reader r, type_message& t) {
    using form = type_message::form;
    const deeper in(*this);
    while (r.next()) {
      const form is = r.tag() == 1   ? form::tensor
                      : r.tag() == 4 ? form::sequence
                      : r.tag() == 5 ? form::map
                      : r.tag() == 8 ? form::sparse_tensor
                      : r.tag() == 9 ? form::optional
                                     : form::none;
      if (is == form::none) {
        r.skip();
        continue;
      }
      t = {};
      t.is = is;
      type_of_form(message_of(r), t);
    }
  }
  void value(pbf_reader r, value_message& v) {
    while (r.next()) switch (r.tag()) {
        case 1: v.name = text_of(r); break;
        case 2: type(message_of(r), v.type); break;
        default: r.skip();
      }
  }
  std::shared_ptr<const graph_message> shared_graph(pbf_reader r) {
    charge(sizeof(graph_message));
    auto g = std::make_shared<graph_message>();
    graph(r, *g);
    return g;
  }
  void attribute(pbf_reader r, attribute_message& a) {
    using form = attribute_message::form;
    form found = form::none;
    const auto note = [&](form f) { found = f; };
    while (r.next()) switch (r.tag()) {
        case 1: a.name = text_of(r); break;
        case 2: a.real = real_of(r), note(form::real); break;
        case 3: a.integer = integer_of(r), note(form::integer); break;
        case 4: a.string = view_of(r), note(form::string); break;
        case 5: tensor(message_of(r), added(a.tensors)), note(form::tensor); break;
        case 6: a.graphs.push_back(shared_graph(message_of(r))), note(form::graph); break;
        case 7: numbers(r, a.reals, &pbf_reader::get_float, &pbf_reader::get_packed_float), note(form::reals); break;
        case 8:
          numbers(r, a.integers, &pbf_reader::get_int64, &pbf_reader::get_packed_int64), note(form::integers);
          break;
        case 9: added(a.strings) = view_of(r), note(form::strings); break;
        case 10: tensor(message_of(r), added(a.tensors)), note(form::tensors); break;
        case 11: a.graphs.push_back(shared_graph(message_of(r))), note(form::graphs); break;
        case 14: type(message_of(r), added(a.types)), note(form::type); break;
        case 15: type(message_of(r), added(a.types)), note(form::types); break;
        case 20: a.is = static_cast<form>(small_integer_of(r)); break;
        case 21: a.refers_to = text_of(r); break;
        case 22: sparse_tensor(message_of(r), added(a.sparse_tensors)), note(form::sparse_tensor); break;
        case 23: sparse_tensor(message_of(r), added(a.sparse_tensors)), note(form::sparse_tensors); break;
        default: r.skip();
      }
    if (a.is == form::none) a.is = found;  // IR versions below 2 have no field for it
  }
  void node(pbf_reader r, node_message& n) {
    const deeper in(*this);
    while (r.next()) switch (r.tag()) {
        case 1: added(n.inputs) = text_of(r); break;
        case 2: added(n.outputs) = text_of(r); break;
        case 3: n.name = text_of(r); break;
        case 4: n.op = text_of(r); break;
        case 5: attribute(message_of(r), added(n.attributes)); break;
        case 7: n.domain = text_of(r); break;
        case 8: n.overload = text_of(r); break;
        default: r.skip();
      }
    if (n.op.empty()) fail("a node names no operator");
  }
  void graph(pbf_reader r, graph_message& g) {
    const deeper in(*this);
    while (r.next()) switch (r.tag()) {
        case 1: node(message_of(r), added(g.nodes)); break;
        case 2: g.name = text_of(r); break;
        case 5: tensor(message_of(r), added(g.initializers)); break;
        case 11: value(message_of(r), added(g.inputs)); break;
        case 12: value(message_of(r), added(g.outputs)); break;
        case 13: value(message_of(r), added(g.values)); break;
        case 15: sparse_tensor(message_of(r), added(g.sparse_initializers)); break;
        default: r.skip();
      }
    order_nodes(g.nodes);
  }
  void function(pbf_reader r, function_message& f) {
    while (r.next()) switch (r.tag()) {
        case 1: f.name = text_of(r); break;
        case 4: added(f.inputs) = text_of(r); break;
        case 5: added(f.outputs) = text_of(r); break;
        case 6: added(f.attributes) = text_of(r); break;
        case 7: node(message_of(r), added(f.nodes)); break;
        case 9: opset(message_of(r), one_of_few(f.opsets)); break;
        case 10: f.domain = text_of(r); break;
        case 11: attribute(message_of(r), added(f.defaults)); break;
        case 13: f.overload = text_of(r); break;
        default: r.skip();
      }
    order_nodes(f.nodes);
  }

  const std::string& file_;
  std::size_t budget_;
  int depth_ = 0;
};

}  // namespace

model_message parse_model(std::string_view bytes, const std::string& file) {
  return parser(bytes, file).run<model_message>(bytes, &parser::model);
}
tensor_message parse_tensor(std::string_view bytes, const std::string& file) {
  return parser(bytes, file).run<tensor_message>(bytes, &parser::tensor);
}
sequence_message parse_sequence(std::string_view bytes, const std::string& file) {
  return parser(bytes, file).run<sequence_message>(bytes, &parser::sequence);
}
// An optional has the fields of a sequence with at most one element.
sequence_message parse_optional(std::string_view bytes, const std::string& file) { return parse_sequence(bytes, file); }

}  // namespace lamina::onnx
