module lamina.onnx:convert.impl;
import :convert;
import :message;
import :scope;
import :source;
import lamina;
import lamina.std;

namespace lamina::onnx {

using form = attribute_message::form;

// Limit for integer lists that converters evaluate while a file is read: shapes, axes, positions.
constexpr std::int64_t max_known = 1 << 20;
constexpr std::int64_t max_elements = std::int64_t(1) << 40;
// Limit for integer attributes that are sizes, counts and axes: the product of two fits in 63 bits.
constexpr std::int64_t max_integer = std::int64_t(1) << 31;
// Limit for zeros that a converter allocates while a file is read.
constexpr std::size_t max_zeros = std::size_t(64) << 20;

// Attributes whose integers are data or positions: any value is valid.
bool holds_data(const node_message& n, std::string_view name) {
  constexpr std::string_view names[] = {"start", "end", "starts", "ends", "ignore_index"};
  return n.domain == "ai.onnx.ml" || name.starts_with("value") || name.ends_with("int64") || name.ends_with("int64s") ||
         std::find(std::begin(names), std::end(names), name) != std::end(names);
}

node_call::node_call(const node_message& n, std::int64_t version, program& to, scope& outer,
                     std::vector<known_value*> operands)
    : node(n), opset(version), p(to), around(outer), results(n.outputs.size()), operands_(std::move(operands)) {}

// ---- operands -------------------------------------------------------------------------------------------------------

value node_call::operator[](std::size_t i) {
  if (!has(i)) fail("operand ", i, " is missing");
  if (operands_[i]->open_sequence) unsupported("operand ", i, " is an empty sequence of unknown rank");
  return around.value_of(*operands_[i]);
}
void node_call::statistic(std::size_t i) {
  if (!is_parameter(i)) return;
  operands_[i]->is_statistic = true;
  const auto& made = operands_[i]->state;  // another node may have used it before
  if (made && !made->empty()) around.context().states.find(made->owner().at(made->id().node).name)->trainable(false);
}
bool has_real_numbers(dtype e) { return is_floating(e) || (e >= dtype::float8_e4m3fn && e <= dtype::float4_e2m1); }
value node_call::number(std::size_t i) {
  value v = operator[](i);
  const dtype e = v.type().element;
  if (is_real(e) || is_integer(e) || e == dtype::boolean) return v;
  if (e == dtype::string) unsupported("it does not support strings");
  return cast_to(v, has_real_numbers(e) ? dtype::float32 : dtype::int64);
}
namespace {
// Adds or takes 2^63.
value moved(const value& v) { return lamina::bit_xor(v, std::numeric_limits<std::int64_t>::min()); }
}  // namespace
value node_call::ordered(std::size_t i) {
  const bool large = type(i).element == dtype::uint64 && type(0).element == dtype::uint64;
  return large ? moved(number(i)) : number(i);
}
void node_call::give_ordered(std::size_t i, const value& v) {
  give_like(i, type(0).element == dtype::uint64 ? moved(v) : v);
}
value node_call::bias(std::size_t i, dim channels) {
  value b = number(i);
  const bool known = channels.is_number() && b.shape().rank == 1 && b.shape()[0].is_number();
  if (b.shape().rank != 1 || (known && b.shape()[0] != channels))
    fail("its bias is ", b.shape(), "; expected ", shape{channels});
  return b;
}
value node_call::positions(std::size_t i) {
  if (has_real_numbers(type(i).element)) fail("operand ", i, " is ", type(i), "; expected integers");
  return cast_to(operator[](i), dtype::int64);
}
const any_tensor* node_call::known(std::size_t i) const {
  return has(i) && operands_[i]->data ? &operands_[i]->data : nullptr;
}
std::optional<std::vector<std::int64_t>> node_call::known_integers(std::size_t i) const {
  if (const any_tensor* t = known(i)) {
    if (!is_integer(t->element()) && t->element() != dtype::boolean) return {};
    if (t->shape().size() > max_known) return {};
    std::vector<std::int64_t> all;
    with_type(t->element(), [&]<class T>() {
      if constexpr (std::is_integral_v<T>)
        for (auto v : t->elements<T>()) all.push_back(static_cast<std::int64_t>(v));
    });
    return all;
  }
  const auto& e = extents(i);
  if (!e) return {};
  std::vector<std::int64_t> all;
  for (dim d : *e) {
    if (!d.is_number()) return {};
    all.push_back(d.code);
  }
  return all;
}
std::vector<std::int64_t> node_call::integers(std::size_t i, std::string_view what) const {
  if (!has(i)) fail("operand ", i, ", its ", what, ", is missing");
  auto all = known_integers(i);
  if (!all)
    unsupported("its ", what, ", operand ", i, " `", printable(node.inputs[i]),
                "`, must be known when the model is loaded");
  return *std::move(all);
}
double node_call::known_number(std::size_t i, std::string_view what, double otherwise) const {
  if (!has(i)) return otherwise;
  const any_tensor* t = known(i);
  if (!t || t->shape().size() != 1)
    unsupported("its ", what, ", operand ", i, " `", printable(node.inputs[i]),
                "`, must be one number known when the model is loaded");
  double v = 0;
  with_type(t->element(), [&]<class T>() {
    if constexpr (std::is_convertible_v<T, double>) v = static_cast<double>(t->elements<T>()[0]);
  });
  return v;
}
const std::optional<std::vector<dim>>& node_call::extents(std::size_t i) const {
  static const std::optional<std::vector<dim>> none;
  if (!has(i)) return none;
  known_value& k = *operands_[i];
  if (!k.extents && k.data && is_integer(k.data.element()) && k.data.shape().rank <= 1 && k.data.shape().size() <= 64) {
    std::vector<dim> all;
    with_type(k.data.element(), [&]<class T>() {
      if constexpr (std::is_integral_v<T>)
        for (auto v : k.data.elements<T>()) {
          dim d;
          d.code = static_cast<std::int64_t>(v);  // including -1, which is `dyn`: an inferred extent
          all.push_back(d);
        }
    });
    if (std::all_of(all.begin(), all.end(), [](dim d) { return d.code >= -1; })) k.extents = std::move(all);
  }
  return k.extents;
}

// ---- attributes -----------------------------------------------------------------------------------------------------

const attribute_message* node_call::find(std::string_view name) const {
  for (const auto& a : node.attributes)
    if (a.name == name) {
      const auto* means = around.meant(a);
      if (means) around.charge((means->integers.size() + means->reals.size() + means->strings.size()) / 64);
      return means;
    }
  return nullptr;
}
const attribute_message* node_call::find(std::string_view name, form is) const {
  const auto* a = find(name);
  if (a && a->is != is) fail("attribute `", name, "` has an unexpected type");
  return a;
}
std::int64_t node_call::in_range(std::string_view name, std::int64_t i) const {
  if ((i > max_integer || i < -max_integer) && !holds_data(node, name))
    fail("attribute `", name, "` has the value ", i, "; expected -2^31 to 2^31");
  return i;
}
std::int64_t node_call::integer(std::string_view name, std::int64_t otherwise) const {
  const auto* a = find(name, form::integer);
  return a ? in_range(name, a->integer) : otherwise;
}
std::int64_t node_call::integer(std::string_view name) const {
  const auto* a = find(name, form::integer);
  if (!a) fail("attribute `", name, "` is missing");
  return in_range(name, a->integer);
}
double node_call::real(std::string_view name, double otherwise) const {
  const auto* a = find(name, form::real);
  return a ? static_cast<double>(a->real) : otherwise;
}
std::string node_call::string(std::string_view name, std::string_view otherwise) const {
  const auto* a = find(name, form::string);
  return std::string(a ? a->string : otherwise);
}
std::vector<std::int64_t> node_call::integers(std::string_view name, std::vector<std::int64_t> otherwise) const {
  const auto* a = find(name, form::integers);
  if (!a) return otherwise;
  for (auto i : a->integers) in_range(name, i);
  return a->integers;
}
std::vector<double> node_call::reals(std::string_view name, std::vector<double> otherwise) const {
  const auto* a = find(name, form::reals);
  return a ? std::vector<double>(a->reals.begin(), a->reals.end()) : std::move(otherwise);
}
std::vector<std::string> node_call::strings(std::string_view name, std::vector<std::string> otherwise) const {
  const auto* a = find(name, form::strings);
  return a ? std::vector<std::string>(a->strings.begin(), a->strings.end()) : std::move(otherwise);
}
std::optional<any_tensor> node_call::tensor(std::string_view name) const {
  const auto* a = find(name, form::tensor);
  if (!a) return {};
  if (a->tensors.empty()) fail("attribute `", name, "` has no tensor");
  text what;
  what << "attribute `" << name << "` of node `" << printable(node.name) << "`";
  return elements_of(a->tensors[0], around.context().from, what.view());
}
std::optional<any_tensor> node_call::sparse_tensor(std::string_view name) const {
  const auto* a = find(name, form::sparse_tensor);
  if (!a) return {};
  if (a->sparse_tensors.empty()) fail("attribute `", name, "` has no tensor");
  text what;
  what << "attribute `" << name << "` of node `" << printable(node.name) << "`";
  return elements_of(a->sparse_tensors[0], around.context().from, what.view());
}
const graph_message& node_call::graph(std::string_view name) const {
  const auto* a = find(name, form::graph);
  if (!a || a->graphs.empty()) fail("attribute `", name, "`, a graph, is missing");
  return *a->graphs[0];
}
const type_message* node_call::type_attribute(std::string_view name) const {
  const auto* a = find(name, form::type);
  return a && !a->types.empty() ? &a->types[0] : nullptr;
}
dtype node_call::element(std::string_view name, dtype otherwise) const {
  return find(name, form::integer) ? element(name) : otherwise;
}
dtype node_call::element(std::string_view name) const {
  const auto* a = find(name, form::integer);
  if (!a) fail("attribute `", name, "` is missing");
  const bool is_code = a->integer >= 0 && a->integer < (1 << 16);
  const auto code = is_code ? static_cast<element_code>(a->integer) : element_code::none;
  const auto e = element_of(code);
  if (!e) unsupported("attribute `", name, "` names the unsupported element type ", onnx::name_of(code));
  return *e;
}

// ---- results --------------------------------------------------------------------------------------------------------

void node_call::give(std::size_t i, const value& v) {
  if (i < results.size()) results[i].v = v;
}
void node_call::give(std::size_t i, any_tensor data) {
  if (i >= results.size()) return;
  results[i].data = std::move(data);
  results[i].name = std::string(node.outputs[i]);
}

int node_call::axis(std::int64_t a, int rank) const {
  if (a >= rank || a < -rank) fail("axis ", a, " is outside of rank ", rank);
  return static_cast<int>(a < 0 ? a + rank : a);
}
lamina::axes node_call::axes_of(const std::vector<std::int64_t>& a, int rank) const {
  lamina::axes made;
  if (a.size() > static_cast<std::size_t>(max_rank)) fail(a.size(), " axes for rank ", rank);
  for (auto i : a) made.values[made.count++] = axis(i, rank);
  return made;
}
value node_call::cast_to(const value& v, dtype element) {
  return v.type().element == element ? v : value(lamina::apply<op::cast>(cast_attributes{.to = element}, v));
}
void node_call::take(std::size_t bytes) const {
  if (!around.context().from.account->take(bytes))
    unsupported("its tables need ", bytes, " bytes, far more than the file has");
}
value node_call::zeros(const tensor_type& type) {
  if (!type.dims.is_static() || !type.dims.countable() || type.bytes() > max_zeros)
    unsupported("it needs a zero tensor ", type, "; the limit is ", max_zeros >> 20, " MiB");
  take(type.bytes());
  return constant(any_tensor(type));
}
value node_call::constant(const std::vector<std::int64_t>& v) {
  any_tensor t({dtype::int64, {static_cast<std::int64_t>(v.size())}});
  if (!v.empty()) std::memcpy(t.mutable_data(), v.data(), v.size() * sizeof v[0]);
  return p.constant(std::move(t));
}
value node_call::extents_of(const value& x) {
  if (!x.shape().is_static()) return lamina::shape_of(x);
  std::vector<std::int64_t> all;
  for (int i = 0; i < x.shape().rank; ++i) all.push_back(x.shape().at(i));
  return constant(all);
}
value node_call::extent_of(const value& x, int a) {
  if (x.shape()[a].is_number()) return constant(std::vector<std::int64_t>{x.shape().at(a)});
  return lamina::slice(lamina::shape_of(x), {.start = a, .stop = a + 1});
}

void node_call::fail(const text& why) const { detail::raise(error_kind::file, why); }
void node_call::unsupported(const text& why) const { detail::raise(error_kind::unsupported, why); }

// ---- graphs inside a node -------------------------------------------------------------------------------------------

std::vector<subgraph> node_call::subgraphs(const std::vector<const graph_message*>& graphs,
                                           const std::vector<tensor_type>& types,
                                           const std::vector<std::optional<dtype>>& open) {
  std::vector<std::string_view> names;
  std::set<std::string_view> known;
  for (const auto* g : graphs)
    for (auto name : free_names(*g))
      if (known.insert(name).second) names.push_back(name);
  std::vector<subgraph> made;
  for (const auto* g : graphs) {
    subgraph s;
    s.body = std::make_shared<program>();
    scope inside(around.context(), *s.body, around.opsets());
    inside.is_inner = true;
    inside.path = p.path;
    inside.attributes = around.attributes;
    if (g->inputs.size() != types.size())
      fail("its graph `", printable(g->name), "` has ", g->inputs.size(), " inputs; expected ", types.size());
    for (std::size_t i = 0; i < types.size(); ++i)
      if (i < open.size() && open[i]) inside.define(g->inputs[i].name, {.open_sequence = open[i]});
      else inside.define(g->inputs[i].name, {.v = s.body->input(g->inputs[i].name, types[i])});
    for (auto name : names) {
      known_value* k = around.find(name);
      if (!k) fail("its graph `", printable(g->name), "` reads `", printable(name), "`, which is not defined");
      if (k->open_sequence || (k->data && !k->is_parameter)) {
        inside.define(name, {.data = k->data, .open_sequence = k->open_sequence});
        continue;
      }
      const value v = around.value_of(*k);
      s.captured.push_back(v);
      inside.define(name, {.v = s.body->input(name, v.type())});
    }
    inside.read_initializers(*g);
    inside.run(g->nodes);
    std::vector<std::string_view> outputs;
    for (const auto& o : g->outputs) outputs.push_back(o.name);
    for (auto& k : inside.outputs(outputs)) {
      s.open.push_back(k.open_sequence);
      if (k.open_sequence) {
        s.results.emplace_back();
        continue;
      }
      const value v = as_result(inside.value_of(k));
      s.body->output(outputs[s.results.size()], v);
      s.results.push_back(v.type());
    }
    made.push_back(std::move(s));
  }
  return made;
}

std::vector<known_value> node_call::inlined(const graph_message& g, const std::vector<known_value>& inputs) {
  if (g.inputs.size() != inputs.size())
    fail("its graph `", printable(g.name), "` has ", g.inputs.size(), " inputs; expected ", inputs.size());
  scope inside(around.context(), p, around.opsets(), &around);
  inside.is_inner = around.is_inner;
  inside.path = p.path;
  inside.attributes = around.attributes;
  for (std::size_t i = 0; i < inputs.size(); ++i) inside.define(g.inputs[i].name, inputs[i]);
  inside.read_initializers(g);
  inside.run(g.nodes);
  std::vector<std::string_view> names;
  for (const auto& o : g.outputs) names.push_back(o.name);
  return inside.outputs(names);
}

// ---- the table ------------------------------------------------------------------------------------------------------

const std::vector<domain_converters>& all_converters() {
  // clang-format off
  static const std::vector<domain_converters> all = {
      {"", elementwise_converters()},
      {"", shape_converters()},
      {"", reduce_converters()},
      {"", linear_converters()},
      {"", control_converters()},
      {"", sequence_converters()},
      {"", text_converters()},
      {"", image_converters()},
      {"", picture_converters()},
      {"", resize_converters()},
      {"", gather_converters()},
      {"", position_converters()},
      {"", bit_converters()},
      {"", signal_converters()},
      {"", random_converters()},
      {"", normalize_converters()},
      {"", attention_converters()},
      {"", recurrent_converters()},
      {"", quantized_converters()},
      {"ai.onnx.preview", preview_attention_converters()},
      {"ai.onnx.ml", machine_learning_converters()},
      {"ai.onnx.ml", tree_converters()},
      {"ai.onnx.ml", machine_learning_text_converters()},
      {"ai.onnx.preview.training", training_converters()},
      {"com.microsoft", microsoft_normalize_converters()},
      {"com.microsoft", microsoft_attention_converters()},
      {"com.microsoft", microsoft_quantized_converters()},
      {"com.microsoft", microsoft_recurrent_converters()},
  };
  // clang-format on
  return all;
}

const converter_entry* find_converter(std::string_view domain, std::string_view op, std::int64_t opset) {
  using key = std::pair<std::string_view, std::string_view>;
  static const auto table = [] {
    std::map<key, std::vector<const converter_entry*>> made;
    for (const auto& d : all_converters())
      for (const auto& e : d.entries) made[{d.domain, e.op}].push_back(&e);
    return made;
  }();
  const auto known = table.find({domain, op});
  if (known == table.end()) return nullptr;
  const converter_entry* newest = nullptr;
  for (const auto* e : known->second)
    if (e->since <= opset && (!newest || e->since > newest->since)) newest = e;
  return newest;
}

// ---- types ----------------------------------------------------------------------------------------------------------

namespace {
// An extent name, with characters replaced that lamina's names do not allow. Files use names without a letter, such as
// `?` and `-1`, for unknown extents.
dim named_extent(std::string_view name) {
  std::string kept(name.substr(0, 100));
  bool letters = false;
  for (char& c : kept) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool good =
        letter || (c >= '0' && c <= '9') || std::string_view("_.+-*/() ").find(c) != std::string_view::npos;
    if (!good) c = '_';
    letters = letters || letter;
  }
  return letters ? dim::named(kept) : dim(dyn);
}
}  // namespace

namespace {
// The type that a message declares; `name` appears in messages. Sequences and optionals take the tensor type of their
// inner type.
tensor_type type_inside(const type_message& m, const text& name, const source& from, int depth) {
  using form = type_message::form;
  text t;
  const auto unsupported = [&](std::string_view why) {
    detail::raise(error_kind::unsupported, t << printable(from.file, 1024) << ": " << name << " " << why);
  };
  if (m.is == form::none) from.fail(t << name << " has no type");
  if (m.is == form::sequence || m.is == form::optional) {
    if (!m.inner || depth > 2) unsupported("is a sequence or optional of an unsupported type");
    tensor_type inner = type_inside(*m.inner, name, from, depth + 1);
    const bool fits =
        m.is == form::sequence ? inner.is_tensor() : inner.is_tensor() || inner.kind == value_kind::sequence;
    if (!fits) unsupported("is a sequence of sequences, or an optional of an optional");
    inner.kind = m.is == form::sequence ? value_kind::sequence
                 : inner.is_tensor()    ? value_kind::optional
                                        : value_kind::optional_sequence;
    return inner;
  }
  if (m.is != form::tensor) unsupported("is a map or a sparse tensor, which are not supported");
  const auto element = element_of(m.element);
  if (!element) {
    text why;
    why << "has the unsupported element type " << name_of(m.element);
    unsupported(why.view());
  }
  if (!m.has_shape)
    unsupported(
        "has no shape; give one: read_options{.shapes = {{\"name\", {1, 3, 224, 224}}}}, or --shape name=1x3x224x224");
  if (m.extents.size() > static_cast<std::size_t>(max_rank)) unsupported("has more than 8 axes");
  tensor_type type{*element, {}};
  for (const auto& e : m.extents) {
    if (e.number && *e.number < -1) from.fail(t << name << " has the extent " << *e.number);
    type.dims.push_back(e.number && *e.number >= 0 ? dim(*e.number) : named_extent(e.name));
  }
  std::int64_t elements = 1;  // same limit as for program files
  for (int i = 0; i < type.dims.rank; ++i)
    if (const dim d = type.dims[i];
        d.is_number() && d.code > 0 && (__builtin_mul_overflow(elements, d.code, &elements) || elements > max_elements))
      from.fail(t << name << " is " << type << ", which has more elements than 2^40");
  return type;
}
}  // namespace

tensor_type type_of(const value_message& v, const source& from) {
  text name;
  name << "input `" << printable(v.name) << "`";
  return type_inside(v.type, name, from, 0);
}
tensor_type node_call::type_in(const type_message& m) const {
  text name;
  name << "attribute `type`";
  return type_inside(m, name, around.context().from, 0);
}

// ---- extents known before a run -------------------------------------------------------------------------------------

namespace {
using extent_list = std::optional<std::vector<dim>>;

extent_list gathered(const node_call& c) {
  const auto& from = c.extents(0);
  const auto at = c.known_integers(1);
  if (!from || !at) return {};
  std::vector<dim> made;
  for (auto i : *at) {
    const auto n = static_cast<std::int64_t>(from->size());
    if (i < -n || i >= n) return {};
    made.push_back((*from)[static_cast<std::size_t>(i < 0 ? i + n : i)]);
  }
  return made;
}
extent_list sliced(const node_call& c) {
  const auto& from = c.extents(0);
  if (!from || c.opset < 10) return {};
  const auto starts = c.known_integers(1), stops = c.known_integers(2);
  auto steps = c.has(4) ? c.known_integers(4) : std::vector<std::int64_t>{1};
  if (!starts || !stops || !steps || starts->size() != 1 || stops->size() != 1 ||
      *steps != std::vector<std::int64_t>{1})
    return {};
  const auto n = static_cast<std::int64_t>(from->size());
  const auto at = [&](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? i + n : i, 0, n); };
  std::vector<dim> made;
  for (auto i = at((*starts)[0]); i < at((*stops)[0]); ++i) made.push_back((*from)[static_cast<std::size_t>(i)]);
  return made;
}
extent_list joined(const node_call& c) {
  std::vector<dim> made;
  for (std::size_t i = 0; i < c.size(); ++i) {
    const auto& e = c.extents(i);
    if (!e) return {};
    made.insert(made.end(), e->begin(), e->end());
  }
  return made;
}
// Result of an operation on two extents; none if it is negative or overflows, `dyn` if unknown.
std::optional<dim> computed_extent(std::string_view op, dim x, dim y) {
  if (x.is_number() && y.is_number()) {
    std::int64_t n = -1;
    const bool fits = op == "Add"   ? !__builtin_add_overflow(x.code, y.code, &n)
                      : op == "Sub" ? !__builtin_sub_overflow(x.code, y.code, &n)
                      : op == "Mul" ? !__builtin_mul_overflow(x.code, y.code, &n)
                                    : y.code > 0 && (n = x.code / y.code, true);
    return fits && n >= 0 ? std::optional(dim(n)) : std::nullopt;
  }
  if (op == "Mul" && x == dim(1)) return y;
  if ((op == "Mul" || op == "Div") && y == dim(1)) return x;
  if (op == "Add" && x == dim(0)) return y;
  if ((op == "Add" || op == "Sub") && y == dim(0)) return x;
  return dyn;
}
extent_list computed(const node_call& c, std::string_view op) {
  const auto &a = c.extents(0), &b = c.extents(1);
  if (!a || !b || a->empty() || b->empty()) return {};
  if (a->size() != b->size() && a->size() != 1 && b->size() != 1) return {};
  std::vector<dim> made;
  for (std::size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const dim x = (*a)[a->size() == 1 ? 0 : i], y = (*b)[b->size() == 1 ? 0 : i];
    const auto r = computed_extent(op, x, y);
    if (!r) return {};
    made.push_back(*r);
  }
  return made;
}
}  // namespace

void propagate_extents(node_call& c) {
  if (c.results.empty() || c.results[0].v.empty() || c.results[0].extents) return;
  const tensor_type& type = c.results[0].v.type();
  if (!is_integer(type.element) || type.dims.rank > 1) return;
  const auto op = c.node.op;
  extent_list found;
  if (op == "Gather") found = gathered(c);
  else if (op == "Slice") found = sliced(c);
  else if (op == "Concat") found = joined(c);
  else if (op == "Identity" || op == "Cast" || op == "Unsqueeze" || op == "Squeeze" || op == "Reshape")
    found = c.extents(0);
  else if (op == "Add" || op == "Sub" || op == "Mul" || op == "Div") found = computed(c, op);
  if (!found || found->size() > 64) return;
  if (type.dims.is_static() && type.dims.size() != static_cast<std::int64_t>(found->size())) return;
  c.results[0].extents = std::move(found);
}

}  // namespace lamina::onnx
