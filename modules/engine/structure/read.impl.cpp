// Reads programs from JSON. Every number of the text is validated before use; the graph is built by `program::add`,
// whose rules check it like a program built by hand.
module lamina:structure.read.impl;
import :core;
import :dtype;
import :io.document.impl;
import :io.file.impl;
import :io;
import :product_type;
import :program;
import :shape;
import :structure;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
std::shared_ptr<const program> read_program(const json_value& v, view<const operation* const> own,
                                            std::string_view file);
}

namespace {

using detail::json_kind;
using detail::json_value;

// Limit of extents and of elements per tensor: products of a few of them fit 64 bits.
constexpr std::int64_t largest_extent = std::int64_t(1) << 40;
// Limit of nodes after inlining every subprogram into each caller, counted twice per nesting level.
constexpr double max_unfolded = 1e8;

class program_reader {
 public:
  program_reader(view<const operation* const> own, std::string_view file) : own_(own), file_(file) {}

  std::shared_ptr<const program> read(std::string_view document_text) {
    const detail::json_document document(document_text);
    if (!document.reason.empty()) fail(document.reason.view());
    return read(document.root());
  }
  std::shared_ptr<const program> read(const json_value& top) {
    need(top, json_kind::object, "a program");
    if (const auto format = member(top, "format", json_kind::string).string(); format != program_format)
      fail("`format` is `", printable(format), "`; expected `", program_format, "`");
    if (const auto version = member(top, "version", json_kind::integer).integer(); version != program_format_version)
      unsupported("version ", version, " of `", program_format, "`; this library reads version ",
                  program_format_version);
    known(top, {"format", "version", "programs"}, "the document");
    member(top, "programs", json_kind::array).each([&](const json_value& p) { add_program(p); });
    if (programs_.empty()) fail("there is no program");
    return programs_.back();
  }

 private:
  // ---- diagnostics

  template <class... T> text diagnostic(const T&... parts) const {
    text t;
    t << file_ << ": ";
    if (node_ >= 0) {
      t << "node " << node_;
      if (!operation_.empty()) t << " (" << printable(operation_) << ")";
      t << " of program " << programs_.size();
      t << ": ";
    }
    ((t << parts), ...);
    return t;
  }
  template <class... T> [[noreturn]] void fail(const T&... parts) const {
    detail::raise(error_kind::file, diagnostic(parts...));
  }
  template <class... T> [[noreturn]] void unsupported(const T&... parts) const {
    detail::raise(error_kind::unsupported, diagnostic(parts...));
  }

  // The name of a member or an attribute in a message; written only where there is one.
  struct quoted {
    std::string_view before, name;
    friend text& operator<<(text& t, const quoted& q) { return t << q.before << "`" << q.name << "`"; }
  };
  template <class What> json_value need(const json_value& v, json_kind kind, const What& what) const {
    if (!v) fail(what, " is missing");
    if (!v.is(kind)) fail(what, " must be ", name_of(kind), "; got ", name_of(v.kind()));
    return v;
  }
  json_value member(const json_value& of, std::string_view name, json_kind kind) const {
    return need(of[name], kind, quoted{"", name});
  }
  // Checks that an object has no other members than these.
  void known(const json_value& of, std::initializer_list<std::string_view> names, std::string_view what) const {
    of.each_member([&](std::string_view name, const json_value&) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
      text t;
      suggest_names(t, printable(name), names);
      unsupported(what, " has a member `", printable(name), "` that is not known", t);
    });
  }

  // ---- parts

  std::int64_t index(const json_value& v, std::int64_t end, std::string_view what) const {
    const auto i = need(v, json_kind::integer, what).integer();
    if (i < 0 || i >= end)
      fail(what, " is ", i, "; ", end == 0 ? text("none exists yet") : text("expected 0..") << end - 1);
    return i;
  }
  dtype element(const json_value& v) const {
    const auto name = need(v, json_kind::string, "`dtype`").string();
    std::vector<std::string_view> names;
    for (int i = 0; i < dtype_count; ++i) {
      if (name_of(static_cast<dtype>(i)) == name) return static_cast<dtype>(i);
      names.push_back(name_of(static_cast<dtype>(i)));
    }
    text t;
    suggest_names(t, printable(name), names);
    unsupported("the element type `", printable(name), "` is not known", t);
  }
  value_kind kind(std::string_view name) const {
    for (std::size_t i = 0; i < std::size(kind_names); ++i)
      if (kind_names[i] == name) return static_cast<value_kind>(i);
    text t;
    suggest_names(t, printable(name), kind_names);
    unsupported("the kind `", printable(name), "` of values is not known", t);
  }
  template <class What> shape dims(const json_value& v, const What& what) {
    need(v, json_kind::array, what);
    if (v.size() > static_cast<std::size_t>(max_rank))
      fail(what, " has ", v.size(), " dimensions; at most ", max_rank, " are allowed");
    shape s;
    v.each([&](const json_value& d) {
      if (d.is(json_kind::null)) s.push_back(dyn);
      else if (d.is(json_kind::string)) s.push_back(dim_name(d.string()));
      else {
        const auto n = need(d, json_kind::integer, what).integer();
        if (n < 0 || n > largest_extent) fail(what, " has the extent ", n, "; expected 0..2^40");
        s.push_back(n);
      }
    });
    return s;
  }
  dim dim_name(std::string_view name) {
    dim d;
    try {
      d = dim::named(name);
    } catch (const value_error& e) { fail("a dimension is named `", printable(name), "`: ", e.what()); }
    names_.insert(d.code);
    return d;
  }
  // Checks that a tensor of this type is representable: unknown extents count as 1.
  void check_size(const tensor_type& t) const {
    std::int64_t elements = 1;
    for (int i = 0; i < t.dims.rank; ++i) {
      // Names are negative codes: one that is not in the file is a negative extent computed by a rule.
      if (t.dims[i].is_name() && !names_.contains(t.dims[i].code))
        fail("dimension ", i, " of ", t.dims.rank, " of a result is negative");
      if (!t.dims[i].is_number() || t.dims[i].code == 0) continue;
      if (t.dims[i].code > largest_extent / elements) fail(t, " has more elements than 2^40");
      elements *= t.dims[i].code;
    }
  }
  tensor_type type(const json_value& v, std::string_view what) {
    need(v, json_kind::object, what);
    known(v, {"dtype", "shape", "kind"}, what);
    tensor_type t{element(v["dtype"]), dims(v["shape"], "`shape`")};
    if (const json_value named = v["kind"]) t.kind = kind(need(named, json_kind::string, "`kind`").string());
    check_size(t);
    return t;
  }
  template <class What> double real(const json_value& v, const What& what) const {
    if (v && v.is(json_kind::string)) {
      if (v.string() == "inf") return std::numeric_limits<double>::infinity();
      if (v.string() == "-inf") return -std::numeric_limits<double>::infinity();
      if (v.string() == "nan") return std::numeric_limits<double>::quiet_NaN();
    }
    if (v && v.is(json_kind::integer)) return v.real();
    return need(v, json_kind::real, what).real();
  }

  // ---- constants

  any_tensor constant(const json_value& n) {
    const tensor_type t = type(n["type"], "`type`");
    if (!t.is_tensor()) fail("a constant is ", t, "; expected a tensor");
    if (!t.dims.is_static()) fail("a constant is ", t, "; expected known extents");
    if (t.element == dtype::string) unsupported("a constant is ", t, "; strings are not supported");
    const json_value data = n["data"];
    if (data && data.is(json_kind::string)) return from_digits(t, data.string());
    need(data, json_kind::array, "`data`");
    if (data.size() != static_cast<std::size_t>(t.dims.size()))
      fail("`data` has ", data.size(), " numbers; expected ", t.dims.size(), " for ", t);
    any_tensor made(t);
    with_type(t.element, [&]<class T>() {
      std::byte* out = made.mutable_data();
      data.each([&](const json_value& v) {
        T x{};
        if constexpr (std::is_integral_v<T>) {
          const auto i = need(v, json_kind::integer, "a number of `data`").integer();
          if (!detail::to_element(i, x)) fail("`data` has ", i, "; expected a number that fits ", t.element);
        } else if (const double r = real(v, "a number of `data`"); !detail::to_element(r, x))
          fail("`data` has ", r, "; expected a number that fits ", t.element);
        std::memcpy(out, &x, sizeof x);
        out += sizeof x;
      });
    });
    return made;
  }
  // Whether a byte is a valid value of an element type narrower than a byte.
  static bool fits_in_byte(dtype element, unsigned byte) {
    if (element == dtype::float4_e2m1) return byte < 16;
    return with_type(element, [&]<class T>() {
      if constexpr (!is_small_integer<T>) return true;
      else return static_cast<unsigned>(static_cast<std::uint8_t>(T(static_cast<int>(byte)).v)) == byte;
    });
  }
  any_tensor from_digits(const tensor_type& t, std::string_view digits) const {
    const auto bytes = static_cast<std::size_t>(t.dims.size()) * size_of(t.element);
    if (digits.size() / 2 != bytes || digits.size() % 2)
      fail("`data` has ", digits.size(), " digits; expected ", 2 * bytes, " for ", t);
    any_tensor made(t);
    auto digit = [&](char c) -> unsigned {
      if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
      if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
      fail("`data` has `", printable({&c, 1}), "`; expected hexadecimal digits");
    };
    for (std::size_t i = 0; i < bytes; ++i) {
      const unsigned byte = digit(digits[2 * i]) << 4 | digit(digits[2 * i + 1]);
      if (t.element == dtype::boolean && byte > 1) fail("`data` has the bool ", byte, "; expected 0 or 1");
      if (!fits_in_byte(t.element, byte)) fail("`data` has the byte ", byte, "; expected one that fits ", t.element);
      made.mutable_data()[i] = static_cast<std::byte>(byte);
    }
    return made;
  }

  // ---- operations

  std::int64_t version_of(const json_value& n) const { return member(n, "version", json_kind::integer).integer(); }
  const operation& known_operation(const json_value& n) const {
    const auto name = n["name"].string();
    const operation* op = find_operation(name, own_);
    if (!op) {
      std::vector<std::string_view> names;
      for (auto* o : operations()) names.push_back(o->name);
      for (auto* o : own_) names.push_back(o->name);
      text t;
      suggest_names(t, printable(name), names);
      unsupported("the operation `", printable(name), "` is not known", t);
    }
    if (const auto version = version_of(n); version < 1 || version > op->version)
      unsupported("version ", version, " of the operation; this library has version ", op->version);
    return *op;
  }
  void attribute(const json_value& v, std::string_view name, attribute_value& a) {
    const quoted what{"attribute ", name};
    switch (a.is) {
      case attribute_value::form::integer: a.integer = need(v, json_kind::integer, what).integer(); break;
      case attribute_value::form::real: a.real = real(v, what); break;
      case attribute_value::form::boolean: a.integer = need(v, json_kind::boolean, what).boolean(); break;
      case attribute_value::form::element: a.element = element(v); break;
      case attribute_value::form::product: a.product = element(v); break;
      case attribute_value::form::dims:
        a.dims = dims(v, what);
        check_size({dtype::float32, a.dims});
        break;
      case attribute_value::form::axes:
        need(v, json_kind::array, what);
        if (v.size() > static_cast<std::size_t>(max_rank))
          fail(what, " has ", v.size(), " axes; at most ", max_rank, " are allowed");
        a.list = axes();
        v.each([&](const json_value& i) {
          const auto axis = need(i, json_kind::integer, what).integer();
          if (axis < -max_rank || axis >= max_rank)
            fail(what, " names the axis ", axis, "; expected ", -max_rank, "..", max_rank - 1);
          a.list.values[a.list.count++] = static_cast<std::int32_t>(axis);
        });
        break;
    }
  }
  // Attributes that an earlier version of the operation lacks get their defaults.
  std::shared_ptr<const void> attributes(const operation& op, std::int64_t version, const json_value& given) {
    std::vector<std::string_view> names;
    op.visit(nullptr, [&](std::string_view name, attribute_value&) { names.push_back(name); });
    given.each_member([&](std::string_view name, const json_value&) {
      if (std::find(names.begin(), names.end(), name) != names.end()) return;
      text t;
      suggest_names(t, printable(name), names);
      unsupported("the attribute `", printable(name), "` is not known", t);
    });
    return op.visit(nullptr, [&](std::string_view name, attribute_value& a) {
      if (const json_value v = given[name]; v || (version == op.version && !a.omitted)) attribute(v, name, a);
    });
  }
  value_id reference(const json_value& v, std::string_view what) const {
    need(v, json_kind::array, what);
    if (v.size() != 2) fail(what, " must be [node, result]");
    value_id id;
    bool first = true;
    v.each([&](const json_value& i) {
      if (std::exchange(first, false))
        id = values_[static_cast<std::size_t>(index(i, static_cast<std::int64_t>(values_.size()), what))];
      else
        id.result = static_cast<std::int32_t>(index(i, static_cast<std::int64_t>(made_->at(id).results.size()), what));
    });
    return id;
  }
  value_id add_operation(const json_value& n) {
    const operation& op = known_operation(n);
    auto attributes_of = attributes(op, version_of(n), member(n, "attributes", json_kind::object));
    std::vector<value> inputs;
    member(n, "inputs", json_kind::array).each([&](const json_value& v) {
      inputs.emplace_back(made_.get(), reference(v, "an operand"));
    });
    std::vector<std::shared_ptr<const program>> subprograms;
    if (const json_value of = n["subprograms"])
      need(of, json_kind::array, "`subprograms`").each([&](const json_value& v) {
        const auto at = static_cast<std::size_t>(index(v, static_cast<std::int64_t>(programs_.size()), "a subprogram"));
        subprograms.push_back(programs_[at]);
        unfolded_ += 2 * weights_[at];
      });
    if (unfolded_ > max_unfolded) fail("the subprograms unfold to more than ", max_unfolded, " nodes");
    made_->path.clear();
    if (const json_value path = n["path"]) made_->path = need(path, json_kind::string, "`path`").string();
    const value_id id = made_->add(op, std::move(attributes_of), inputs, std::move(subprograms));
    const auto& found = made_->at(id).results;
    std::size_t i = 0;
    member(n, "results", json_kind::array).each([&](const json_value& v) {
      const tensor_type recorded = type(v, "a result");
      if (i < found.size() && recorded != found[i])
        fail("result ", i, " is declared as ", recorded, " but is ", found[i]);
      ++i;
    });
    if (i != found.size()) fail(i, " results are declared; expected ", found.size());
    for (const auto& t : found) check_size(t);
    return id;
  }

  // ---- programs

  void add_node(const json_value& n) {
    const auto kind = member(n, "kind", json_kind::string).string();
    if (kind == "constant") {
      known(n, {"kind", "type", "data"}, "a constant");
      values_.push_back(made_->constant(constant(n)).id());
      return;
    }
    const auto name = member(n, "name", json_kind::string).string();
    operation_ = name;
    if (kind == "input") {
      known(n, {"kind", "name", "type", "uniform"}, "an input");
      const json_value uniform = n["uniform"];
      const bool one = uniform && need(uniform, json_kind::boolean, "`uniform`").boolean();
      values_.push_back(made_->input(name, type(n["type"], "`type`"), one).id());
    } else if (kind == "state") {
      known(n, {"kind", "name", "type"}, "a state");
      if (made_->find_state(name) >= 0) fail("two states have this name");
      values_.push_back(made_->state(name, type(n["type"], "`type`")).id());
    } else if (kind == "operation") {
      known(n, {"kind", "name", "version", "attributes", "inputs", "results", "subprograms", "path"}, "an operation");
      values_.push_back(add_operation(n));
    } else
      unsupported("the kind `", printable(kind), "` is not known; there are `input`, `state`, `constant`, `operation`");
  }
  void add_program(const json_value& p) {
    need(p, json_kind::object, "a program");
    known(p, {"nodes", "outputs", "assignments", "sites"}, "a program");
    made_ = std::make_shared<program>();
    made_->common_subexpressions = false;  // keeps node numbers
    values_.clear();
    unfolded_ = 0;
    node_ = 0;
    member(p, "nodes", json_kind::array).each([&](const json_value& n) {
      operation_.clear();
      need(n, json_kind::object, "a node");
      rules([&] { add_node(n); });
      ++node_;
    });
    node_ = -1;
    made_->path.clear();
    member(p, "outputs", json_kind::array).each([&](const json_value& o) {
      need(o, json_kind::object, "an output");
      known(o, {"name", "value"}, "an output");
      made_->output(member(o, "name", json_kind::string).string(),
                    value(made_.get(), reference(o["value"], "an output's `value`")));
    });
    member(p, "assignments", json_kind::array).each([&](const json_value& a) {
      need(a, json_kind::object, "an assignment");
      known(a, {"state", "value"}, "an assignment");
      const auto state = values_[static_cast<std::size_t>(
          index(a["state"], static_cast<std::int64_t>(values_.size()), "an assignment's `state`"))];
      rules([&] {
        made_->assign(value(made_.get(), state), value(made_.get(), reference(a["value"], "an assignment's `value`")));
      });
    });
    const auto sites = member(p, "sites", json_kind::integer).integer();
    if (sites < 0) fail("`sites` is ", sites, "; expected 0 or more");
    made_->sites(sites);
    made_->common_subexpressions = true;
    weights_.push_back(unfolded_ + static_cast<double>(values_.size()));
    programs_.push_back(std::move(made_));
  }
  // Reports errors of operations' rules as errors of the file.
  template <class F> void rules(F f) const {
    try {
      f();
    } catch (const file_error&) { throw; } catch (const unsupported_error&) {
      throw;
    } catch (const out_of_memory&) { throw; } catch (const error& e) {
      fail(e.what());
    }
  }

  view<const operation* const> own_;
  std::string_view file_;
  std::vector<std::shared_ptr<const program>> programs_;
  std::vector<double> weights_;
  std::shared_ptr<program> made_;
  std::vector<value_id> values_;  // by node number
  std::set<std::int64_t> names_;  // codes of dimension names
  double unfolded_ = 0;
  std::int64_t node_ = -1;
  std::string operation_;
};

}  // namespace

std::shared_ptr<const program> read_program(std::string_view json, view<const operation* const> own,
                                            std::string_view file) {
  return program_reader(own, file).read(json);
}
/// Same, for a part of a document.
std::shared_ptr<const program> detail::read_program(const json_value& v, view<const operation* const> own,
                                                    std::string_view file) {
  return program_reader(own, file).read(v);
}

}  // namespace lamina
