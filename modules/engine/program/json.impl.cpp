// Writes programs as JSON, for `read_program`.
module lamina:program.json.impl;
import :core;
import :dtype;
import :io.json_writer.impl;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// Larger constants are written as hexadecimal bytes.
constexpr std::int64_t max_numbers = 64;

text& quoted(text& t, std::string_view s) { return detail::quoted(t, s, "to_json"); }
// Writes non-finite numbers as strings, since JSON lacks them.
text& number(text& t, double v) {
  if (std::isnan(v)) return t << "\"nan\"";
  if (std::isinf(v)) return t << (v < 0 ? "\"-inf\"" : "\"inf\"");
  return detail::append_number(t, v);
}

text& dims(text& t, const shape& s) {
  t << "[";
  for (int i = 0; i < s.rank; ++i) {
    t << (i ? ", " : "");
    if (s[i].is_number()) t << s[i].code;
    else if (s[i].is_name()) t << '"' << s[i] << '"';
    else t << "null";
  }
  return t << "]";
}
text& type(text& t, const tensor_type& v) {
  dims(t << "{\"dtype\": \"" << v.element << "\", \"shape\": ", v.dims);
  if (!v.is_tensor()) t << ", \"kind\": \"" << kind_names[static_cast<std::size_t>(v.kind)] << '"';
  return t << "}";
}

text& attribute(text& t, const attribute_value& v) {
  switch (v.is) {
    case attribute_value::form::integer: t << v.integer; break;
    case attribute_value::form::real: number(t, v.real); break;
    case attribute_value::form::boolean: t << (v.integer != 0); break;
    case attribute_value::form::element: t << '"' << v.element << '"'; break;
    case attribute_value::form::product: t << '"' << dtype(v.product) << '"'; break;
    case attribute_value::form::dims: dims(t, v.dims); break;
    case attribute_value::form::axes:
      t << "[";
      for (int i = 0; i < v.list.count; ++i) t << (i ? ", " : "") << v.list[i];
      t << "]";
      break;
  }
  return t;
}

// Whether JSON can represent a number exactly.
template <class T> bool is_plain(const T& v) {
  if constexpr (std::same_as<T, std::uint64_t>) return v <= std::uint64_t(std::numeric_limits<std::int64_t>::max());
  else return std::isfinite(static_cast<double>(v));
}

text& elements(text& t, const any_tensor& c) {
  const bool plain = c.shape().size() <= max_numbers && with_type(c.element(), [&]<class T>() {
                       const auto all = c.elements<T>();
                       return std::all_of(all.begin(), all.end(), is_plain<T>);
                     });
  if (!plain) {
    constexpr std::string_view digits = "0123456789abcdef";
    t << '"';
    for (std::size_t i = 0; i < c.bytes(); ++i) {
      const auto byte = static_cast<unsigned>(c.data()[i]);
      t << digits[byte >> 4] << digits[byte & 15];
    }
    return t << '"';
  }
  t << "[";
  with_type(c.element(), [&]<class T>() {
    bool first = true;
    for (const T& v : c.elements<T>()) {
      t << (std::exchange(first, false) ? "" : ", ");
      if constexpr (std::same_as<T, bool>) t << (v ? 1 : 0);
      else if constexpr (std::is_integral_v<T>) t << static_cast<std::int64_t>(v);
      else if constexpr (is_small_integer<T>) t << static_cast<int>(v);
      else number(t, static_cast<double>(v));
    }
  });
  return t << "]";
}

// All programs, each once, after its subprograms.
struct collection {
  std::vector<const program*> all;
  std::map<const program*, std::size_t> place;
  void add(const program& p) {
    if (place.contains(&p)) return;
    for (const auto& n : p.nodes())
      for (const auto& s : n.subprograms) add(*s);
    place[&p] = all.size();
    all.push_back(&p);
  }
};

class program_writer {
 public:
  program_writer(text& to, const program& p, const collection& programs)
      : t_(to), p_(p), programs_(programs), number_(p.nodes().size(), -1) {}
  void write() {
    auto kept = p_.reachable();
    for (auto i : p_.inputs()) kept[static_cast<std::size_t>(i)] = 1;
    t_ << "{\"nodes\": [";
    std::int32_t count = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (!kept[i]) continue;
      number_[i] = count++;
      t_ << (count == 1 ? "\n  " : ",\n  ");
      node_line(p_.nodes()[i]);
    }
    t_ << "\n], \"outputs\": [";
    for (std::size_t k = 0; k < p_.outputs().size(); ++k) {
      quoted(t_ << (k ? ", " : "") << "{\"name\": ", p_.outputs()[k].name);
      reference(t_ << ", \"value\": ", p_.outputs()[k].value) << "}";
    }
    t_ << "], \"assignments\": [";
    for (std::size_t k = 0; k < p_.assignments().size(); ++k) {
      const auto& a = p_.assignments()[k];
      t_ << (k ? ", " : "") << "{\"state\": " << number_[static_cast<std::size_t>(a.state)];
      reference(t_ << ", \"value\": ", a.value) << "}";
    }
    t_ << "], \"sites\": " << p_.sites() << "}";
  }

 private:
  text& reference(text& t, value_id v) {
    return t << "[" << number_[static_cast<std::size_t>(v.node)] << ", " << v.result << "]";
  }
  void node_line(const node& n) {
    switch (n.kind) {
      case node_kind::input:
        type(quoted(t_ << "{\"kind\": \"input\", \"name\": ", n.name) << ", \"type\": ", n.results[0]);
        if (n.uniform) t_ << ", \"uniform\": true";
        break;
      case node_kind::state:
        type(quoted(t_ << "{\"kind\": \"state\", \"name\": ", n.name) << ", \"type\": ", n.results[0]);
        break;
      case node_kind::constant:
        type(t_ << "{\"kind\": \"constant\", \"type\": ", n.results[0]);
        elements(t_ << ", \"data\": ", n.constant);
        break;
      case node_kind::operation: operation_line(n); break;
    }
    t_ << "}";
  }
  void operation_line(const node& n) {
    quoted(t_ << "{\"kind\": \"operation\", \"name\": ", n.op->name)
        << ", \"version\": " << n.op->version << ", \"attributes\": {";
    bool first = true;
    n.op->visit(n.attributes.get(), [&](std::string_view name, attribute_value& v) {
      if (v.omitted) return;
      attribute(quoted(t_ << (std::exchange(first, false) ? "" : ", "), name) << ": ", v);
    });
    t_ << "}, \"inputs\": [";
    for (std::size_t k = 0; k < n.inputs.size(); ++k) reference(t_ << (k ? ", " : ""), n.inputs[k]);
    t_ << "], \"results\": [";
    for (std::size_t k = 0; k < n.results.size(); ++k) type(t_ << (k ? ", " : ""), n.results[k]);
    t_ << "]";
    if (!n.subprograms.empty()) {
      t_ << ", \"subprograms\": [";
      for (std::size_t k = 0; k < n.subprograms.size(); ++k)
        t_ << (k ? ", " : "") << programs_.place.at(n.subprograms[k].get());
      t_ << "]";
    }
    if (!n.path.empty()) quoted(t_ << ", \"path\": ", n.path);
  }
  text& t_;
  const program& p_;
  const collection& programs_;
  std::vector<std::int32_t> number_;
};

}  // namespace

std::string program::to_json() const {
  collection programs;
  programs.add(*this);
  text t;
  t << "{\"format\": \"" << program_format << "\", \"version\": " << program_format_version << ", \"programs\": [\n";
  for (std::size_t i = 0; i < programs.all.size(); ++i) {
    t << (i ? ",\n" : "");
    program_writer(t, *programs.all[i], programs).write();
  }
  t << "\n]}\n";
  return t.string();
}

}  // namespace lamina
