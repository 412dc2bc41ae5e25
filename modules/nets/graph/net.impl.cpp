module lamina:graph.impl;
import :core;
import :dtype;
import :graph;
import :graph.symbol_table;
import :graph.fill;
import :graph.scope;
import :op;
import :op.elementwise;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::graph {

net::net(std::string_view name, const net_options& o) : symbols_(std::make_unique<symbol_table>(name, o)) {
  if (name.empty()) detail::raise(error_kind::value, "net: a net needs a name");
}
net::net(net&&) noexcept = default;
net& net::operator=(net&&) noexcept = default;
net::~net() = default;
symbol_table& net::symbols() const {
  if (!symbols_) [[unlikely]]
    detail::raise(error_kind::state, origin::prefix() + "net: it was moved from and has no blobs and operations");
  return *symbols_;
}
const std::string& net::name() const { return symbols().name; }
const program& net::body() const { return symbols().body; }

std::shared_ptr<program> subprogram() {
  auto p = std::make_shared<program>();
  p->origins = true;
  return p;
}

// ---- sources --------------------------------------------------------------------------------------------------------

fill_scope net::begin_fill(std::string_view name, const tensor_type& type) {
  auto& b = symbols();
  b.check_free(b.full(name));
  if (!type.dims.is_static()) {
    text t;
    b.fail(error_kind::shape, t << "blob `" << name << "` cannot be filled; its shape is not known: " << type.dims);
  }
  const std::string here = b.body.place();
  return {b.generator(), type, b.first_site + b.body.next_site(),
          (here.empty() ? here : here + ": ") + b.body.title + ": blob `" + b.full(name) + "`"};
}

value net::given(std::string_view name, const shape& s, std::initializer_list<double> numbers, dtype element,
                 const origin&) {
  auto& b = symbols();
  text t;
  if (!s.is_static() || s.size() != static_cast<std::int64_t>(numbers.size()))
    b.fail(error_kind::shape, t << "blob `" << name << "` has shape " << s << "; got " << numbers.size() << " numbers");
  any_tensor all(tensor_type{element, s});
  with_type(element, [&]<class T>() {
    auto* out = reinterpret_cast<T*>(all.mutable_data());
    for (double x : numbers)
      if (!detail::to_element(x, *out++))
        b.fail(error_kind::value, t << "blob `" << name << "`: " << detail::number_mismatch(x, element));
    return true;
  });
  return given(name, all);
}
value net::given(std::string_view name, const any_tensor& numbers, const origin&) {
  auto& b = symbols();
  const std::string as = b.full(name);
  b.check_free(as);
  return b.add(as, b.body.constant(numbers.copy()), false);
}
value net::constant(const any_tensor& numbers, const origin&) { return symbols().body.constant(numbers.copy()); }

value net::external(std::string_view name, const tensor_type& type, const origin&) {
  auto& b = symbols();
  const std::string as = b.full(name);
  b.check_free(as);
  return b.add(as, b.body.input(as, type), true);
}
value net::external(const value& v, const origin&) {
  auto& b = symbols();
  text t;
  if (v.empty()) b.fail(error_kind::value, text("external: an empty value"));
  const program& other = v.owner();
  if (&other == &b.body) b.fail(error_kind::state, text("external: the value belongs to this net already"));
  std::string as;
  if (const auto kind = other.at(v.id()).kind; kind == node_kind::input || kind == node_kind::state)
    as = other.at(v.id()).name;
  for (const auto& o : other.outputs())
    if (o.value == v.id()) as = o.name;
  if (as.empty())
    b.fail(error_kind::value, t << "external: the value has no name; "
                                << (other.title.empty() ? "its program" : other.title)
                                << " gives it one with `output`");
  if (auto known = b.blobs.find(as); known != b.blobs.end()) {
    const auto& is = b.body.type(known->second.versions[0]);
    if (known->second.external && is == v.type()) return b.at(known->second.versions.back());
    b.fail(error_kind::state,
           t << "external: blob `" << as << "` already exists as " << is << ", from " << known->second.where[0]);
  }
  return b.add(as, b.body.input(as, v.type()), true);
}

value net::iterations(const origin&) {
  auto& b = symbols();
  const std::string as = b.name + "/iterations";
  for (const auto& o : b.owned)
    if (o.state.name == as) return b.at(o.next);
  value next;
  const any_tensor first(tensor_type{dtype::int64, {}});
  b.own(as, b.body.input(as, first.type()), first, [](const value& v) { return v + 1; }, &next);
  return next;
}

// ---- effects --------------------------------------------------------------------------------------------------------

value net::assign(const value& blob, const value& next, const origin&) {
  auto& b = symbols();
  b.check_owned(blob, "the blob to be assigned");
  text t;
  auto at = b.blobs.end();
  if (const auto begun = b.begun.find(blob.id()); begun != b.begun.end()) {  // blobs whose first version is this value
    const auto& as = begun->second;
    if (as.size() > 1)
      b.fail(error_kind::value, t << "assign: the value is both `" << *as.begin() << "` and `" << *std::next(as.begin())
                                  << "`; assign to one of these names");
    at = b.blobs.find(*as.begin());
  }
  if (auto named = b.names.find(blob.id()); at == b.blobs.end() && named != b.names.end())
    at = b.blobs.find(named->second);
  if (at == b.blobs.end()) {
    b.fail(error_kind::value,
           t << "assign: `" << b.name_of(blob.id()) << "` is not a blob; name the value with `output`");
  }
  return b.assign(at->first, at->second, next);
}
value net::assign(std::string_view blob, const value& next, const origin&) {
  auto& b = symbols();
  auto* found = b.find(blob);
  if (!found && b.known(blob)) return assign(b.at(b.known(blob)->second), next);  // result or gradient: raises
  if (!found) b.no_blob(blob);
  return b.assign(found->first, found->second, next);
}
value net::output(std::string_view name, const value& v, const origin&) {
  auto& b = symbols();
  b.check_owned(v, "the output");
  const std::string as = b.full(name);
  b.check_free(as, v.id());
  return b.add(as, v, false);
}

// ---- lookup ---------------------------------------------------------------------------------------------------------

value net::operator[](std::string_view name) const {
  auto& b = symbols();
  const auto known = b.known(name);
  if (!known) b.no_blob(name);
  return b.at(known->second);
}
bool net::has(std::string_view name) const { return symbols().known(name).has_value(); }
std::string net::name_of(const value& v) const {
  symbols().check_owned(v, "the value");
  return symbols().name_of(v.id());
}
std::string net::free_name(std::string_view preferred) const {
  auto& b = symbols();
  const std::string full = b.full(preferred);
  std::string s = full;
  for (int i = 0; b.has(s); ++i) s = full + "_auto_" + std::to_string(i);
  return s.substr(name_scope::current().size());
}

std::vector<std::string> net::external_inputs() const {
  const auto& b = symbols();
  std::vector<std::string> all;
  for (auto i : b.leaves())
    if (auto blob = b.blobs.find(b.body.at(i).name); blob != b.blobs.end()) all.push_back(blob->first);
  return all;
}
std::vector<std::string> net::external_outputs() const {
  const auto& b = symbols();
  std::vector<std::string> all;
  const auto& outputs = b.body.outputs();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (auto blob = b.blobs.find(outputs[i].name); blob != b.blobs.end() && blob->second.output == i)
      all.push_back(blob->first);
  return all;
}
std::vector<operation_entry> net::operations() const {
  const auto& b = symbols();
  std::vector<operation_entry> all;
  for (std::size_t i = 0; i < b.body.nodes().size(); ++i) {
    const node& n = b.body.nodes()[i];
    if (!n.op || b.notes[i].inference) continue;
    operation_entry e{n.op->name, {}, {}, b.notes[i].scope, b.notes[i].device, n.path};
    for (auto v : n.inputs) e.inputs.push_back(b.name_of(v));
    for (std::size_t r = 0; r < n.results.size(); ++r)
      e.outputs.push_back(b.name_of({static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}));
    all.push_back(std::move(e));
  }
  return all;
}

// ---- runnable form --------------------------------------------------------------------------------------------------

std::shared_ptr<const runnable> net::to_run() const {
  auto& b = symbols();
  if (!b.made) b.made = b.as_runnable(purpose::training);
  return b.made;
}
std::shared_ptr<const runnable> symbol_table::as_runnable(purpose what) const {
  auto& b = *this;
  auto r = std::make_shared<runnable>();
  auto p = std::make_shared<program>();
  r->name = b.name;
  p->title = b.body.title;

  std::vector<value_id> roots;
  for (const auto& o : b.body.outputs()) roots.push_back(o.value);
  const auto needed = reached(b.body, roots, {}, what);

  // Omit the generator if no operation draws from it.
  auto idle = [&](const symbol_table::owned_state& o) {
    if (o.state.name != b.name + "/generator") return false;
    for (std::size_t i = 0; i < b.body.nodes().size(); ++i)
      if (const auto& in = b.body.nodes()[i].inputs;
          static_cast<std::int32_t>(i) != o.next.node && std::find(in.begin(), in.end(), o.now) != in.end())
        return false;
    return true;
  };
  std::map<value_id, value> known;
  for (auto i : b.leaves()) {
    const node& leaf = b.body.at(i);
    const auto own = std::find_if(b.owned.begin(), b.owned.end(), [&](const auto& o) { return o.now.node == i; });
    const auto blob = b.blobs.find(leaf.name);
    value v;
    if (own != b.owned.end())
      v = idle(*own) ? p->constant(own->state.first) : p->state(own->state.name, leaf.results[0]);
    else if (b.is_state(i) || blob->second.versions.size() > 1) v = p->state(leaf.name, leaf.results[0]);
    else v = p->input(leaf.name, leaf.results[0]);
    known.insert_or_assign({i, 0}, v);
  }
  add_nodes(*p, b.body, needed, {}, known, what);
  auto result = [&](std::size_t output) { return known.at(b.body.outputs()[output].value); };
  for (const auto& o : b.owned) {
    if (idle(o)) continue;
    p->assign(p->state(o.state.name, o.state.first.type()), result(o.output));
    r->own.push_back(o.state);
  }
  for (const auto& [as, blob] : b.blobs) {
    if (blob.external) r->where[as] = blob.where[0];
    if (!blob.external) p->output(as, result(blob.output));
    else if (blob.versions.size() > 1) p->assign(known.at(blob.versions[0]), result(blob.output));
  }
  r->body = std::move(p);
  return r;
}

}  // namespace lamina::graph
