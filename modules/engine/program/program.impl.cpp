module lamina:program.impl;
import :core;
import :dtype;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 12) + (h >> 4);
  h *= 0xff51afd7ed558ccdu;
  return h ^ h >> 32;
}

std::uint64_t hash_bytes(std::uint64_t h, const void* data, std::size_t n) {
  auto* p = static_cast<const unsigned char*>(data);
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word;
    std::memcpy(&word, p, 8);
    h = mix(h, word);
  }
  std::uint64_t last = n;
  for (std::size_t i = 0; i < n; ++i) last = last << 8 | p[i];
  return mix(h, last);
}
/// 128-bit digest of bytes, from independent chains.
void digest(const void* data, std::size_t n, std::uint64_t (&words)[2]) {
  constexpr std::size_t lanes = 4;
  std::uint64_t chain[2][lanes];
  for (std::size_t w = 0; w < 2; ++w)
    for (std::size_t l = 0; l < lanes; ++l) chain[w][l] = mix(w, l);
  auto* p = static_cast<const unsigned char*>(data);
  for (; n >= 8 * lanes; n -= 8 * lanes, p += 8 * lanes) {
    std::uint64_t part[lanes];
    std::memcpy(part, p, sizeof part);
    for (std::size_t w = 0; w < 2; ++w)
      for (std::size_t l = 0; l < lanes; ++l) chain[w][l] = mix(chain[w][l], part[l]);
  }
  for (std::size_t w = 0; w < 2; ++w) {
    words[w] = hash_bytes(w, p, n);
    for (auto c : chain[w]) words[w] = mix(words[w], c);
  }
}
std::uint64_t hash_text(std::uint64_t h, std::string_view s) { return hash_bytes(h, s.data(), s.size()); }

std::uint64_t hash_type(std::uint64_t h, const tensor_type& t) {
  h = mix(h, static_cast<std::uint64_t>(t.element));
  for (int i = 0; i < t.dims.rank; ++i) h = mix(h, static_cast<std::uint64_t>(t.dims[i].code));
  h = mix(h, static_cast<std::uint64_t>(t.dims.rank));
  return t.is_tensor() ? h : mix(h, static_cast<std::uint64_t>(t.kind));
}

std::vector<program_id> ids_of(const std::vector<std::shared_ptr<const program>>& subprograms) {
  std::vector<program_id> ids;
  for (const auto& s : subprograms) ids.push_back(s->id());
  return ids;
}

// Distinguishes operations of the same name by their type. Types local to a file differ by address.
std::uint64_t hash_of_users(std::uint64_t h, const operation& op) {
  h = hash_text(h, op.type);
  const bool local = op.type.find("(anonymous") != op.type.npos || op.type.find("::(lambda") != op.type.npos;
  return local ? mix(h, reinterpret_cast<std::uintptr_t>(&op)) : h;
}

// Hash of a node from those of its operands and subprograms; `place` is the index of an input.
std::uint64_t hash_node(const node& n, const std::vector<program_id>& subprograms, std::uint64_t seed,
                        std::int64_t place, const std::function<std::uint64_t(std::int32_t)>& operand) {
  std::uint64_t h = mix(seed, static_cast<std::uint64_t>(n.kind));
  switch (n.kind) {
    case node_kind::input: h = mix(mix(h, static_cast<std::uint64_t>(place)), n.uniform); break;
    case node_kind::state: h = hash_text(h, n.name); break;
    case node_kind::constant: h = mix(mix(h, n.digest[0]), n.digest[1]); break;
    case node_kind::operation:
      h = mix(mix(hash_text(h, n.op->name), static_cast<std::uint64_t>(n.op->version)), n.op->hash(n.attributes.get()));
      if (!n.op->library) h = hash_of_users(h, *n.op);
      for (auto v : n.inputs) h = mix(mix(h, operand(v.node)), static_cast<std::uint64_t>(v.result));
      for (const auto& id : subprograms) h = mix(mix(h, id.words[0]), id.words[1]);
      break;
  }
  if (n.kind != node_kind::operation) h = hash_type(h, n.results[0]);
  return h;
}

bool same_node(const node& a, const node& b) {
  if (a.kind != b.kind || a.results.size() != b.results.size()) return false;
  if (a.kind == node_kind::constant) {
    const std::size_t bytes = a.constant.bytes();
    return a.results[0] == b.results[0] && a.digest[0] == b.digest[0] && a.digest[1] == b.digest[1] &&
           (bytes == 0 || a.constant.data() == b.constant.data() ||
            std::memcmp(a.constant.data(), b.constant.data(), bytes) == 0);
  }
  if (a.op->id != b.op->id || a.inputs != b.inputs || a.subprograms.size() != b.subprograms.size() ||
      !a.op->equal(a.attributes.get(), b.attributes.get()))
    return false;
  for (std::size_t i = 0; i < a.subprograms.size(); ++i)
    if (a.subprograms[i] != b.subprograms[i] && a.subprograms[i]->id() != b.subprograms[i]->id()) return false;
  return true;
}

// The node that equals n, which has its hash, among those that are known by their hashes; -1 if there is none.
std::int32_t equal_node(const node& n, const std::vector<node>& nodes,
                        const std::unordered_map<std::uint64_t, std::vector<std::int32_t>>& known) {
  const auto alike = known.find(n.hash);
  if (alike == known.end()) return -1;
  for (auto i : alike->second)
    if (same_node(nodes[static_cast<std::size_t>(i)], n)) return i;
  return -1;
}

// Prefix of an error: the layer, or the location in the user's code, if known.
text begin_at(std::string_view place) {
  text t;
  if (!place.empty()) t << place << ": ";
  return t;
}

error_kind mismatch_of(const tensor_type& a, const tensor_type& b) {
  return a.element == b.element && a.kind == b.kind ? error_kind::shape : error_kind::type;
}

}  // namespace

dimension_names names_of(const program& sub, view<const tensor_type> operands, std::string_view op,
                         std::string_view path) {
  dimension_names names;
  for (std::size_t i = 0; i < operands.size() && i < sub.inputs().size(); ++i)
    if (dim clash = names.bind(sub.at(sub.inputs()[i]).results[0].dims, operands[i].dims); clash.is_name()) {
      text t = begin_at(path);
      t << op << ": dimension `" << clash << "` of the subprogram is not the same in all operands:";
      for (const auto& x : operands) t << " " << x.dims;
      detail::raise(error_kind::shape, t);
    }
  return names;
}

dim dimension_names::bind(const shape& pattern, const shape& given) {
  for (int i = 0; i < pattern.rank && i < given.rank; ++i) {
    if (!pattern[i].is_name()) continue;
    auto known = std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == pattern[i]; });
    if (known == known_.end()) known_.emplace_back(pattern[i], given[i]);
    else if (!may_equal(known->second, given[i])) return pattern[i];
    else known->second = better(known->second, given[i]);
  }
  return dyn;
}
dim dimension_names::operator()(dim d) const {
  for (const auto& [name, meaning] : known_)
    if (name == d) return meaning;
  return d;
}
shape dimension_names::operator()(shape s) const {
  for (int i = 0; i < s.rank; ++i) s[i] = (*this)(s[i]);
  return s;
}

const tensor_type& value::type() const {
  const program& p = owner();
  if (static_cast<std::size_t>(id_.node) >= p.nodes().size()) [[unlikely]]
    detail::raise(error_kind::state, origin::prefix() + "a value is used after its program was moved from");
  return p.type(id_);
}
void detail::empty_value(const std::source_location* at) {
  text t;
  t << origin::prefix();
  if (t.empty() && at) t << at->file_name() << ":" << at->line() << ": ";
  raise(error_kind::value, t << "an operand is an empty value, of no program");
}

// ---- origins of operations ------------------------------------------------------------------------------------------

namespace {
constinit thread_local const std::source_location* outermost = nullptr;

// Folder of the library's own sources.
constexpr std::string_view library_folder() {
  constexpr std::string_view here = std::source_location::current().file_name(),
                             inside = "engine/program/program.impl.cpp";
  static_assert(here.ends_with(inside));
  return here.substr(0, here.size() - inside.size());
}
// Whether a call is in the library itself, which is no user's location.
bool of_library(std::string_view file) noexcept { return file.starts_with(library_folder()); }
}  // namespace
origin::origin(std::source_location at) noexcept : at_(at), outer_(outermost) {
  if (!outer_ && !of_library(at_.file_name())) outermost = &at_;
}
origin::~origin() { outermost = outer_; }
const std::source_location* origin::current() noexcept { return outermost; }
std::string origin::prefix() {
  text t;
  if (outermost) t << outermost->file_name() << ":" << outermost->line() << ": ";
  return t.string();
}

std::string program::place() const {
  const auto* at = origins ? origin::current() : nullptr;
  if (!at) return path;
  text t;
  t << at->file_name() << ":" << at->line();
  if (!path.empty()) t << ": " << path;
  return t.string();
}

path_of::path_of(program& p, std::string path)
    : p_(p), outer_(std::exchange(p.path, std::move(path))), origins_(std::exchange(p.origins, false)) {}
path_of::~path_of() {
  p_.path = std::move(outer_);
  p_.origins = origins_;
}

namespace {
// A rank-0 number, or an empty tensor if its type cannot represent it.
template <class V> any_tensor rank_0_of(V v, dtype element) {
  any_tensor t(tensor_type{element, {}});
  const bool holds = with_type(element, [&]<class T>() {
    T x{};
    if (!detail::to_element(v, x)) return false;
    std::memcpy(t.mutable_data(), &x, sizeof x);
    return true;
  });
  return holds ? t : any_tensor();
}
}  // namespace

value value_or_number::in(program& p, dtype element, std::string_view op) const {
  if (!value_.empty()) return value_;
  return std::visit(
      [&](auto n) {
        any_tensor t = rank_0_of(n, element);
        if (!t) {
          text message = begin_at(p.place());
          if (p.origins) message << op << ": ";  // otherwise the message equals that of typed expressions
          detail::raise(error_kind::value, message << detail::number_mismatch(n, element));
        }
        return p.constant(std::move(t));
      },
      number_);
}

value_id program::push(node n) {
  for (const auto& r : n.results)
    if (!r.dims.countable()) {
      text t = begin_at(n.path);
      if (n.op) t << n.op->name;
      else t << "`" << n.name << "`";
      detail::raise(error_kind::shape, t << ": " << r.dims << " has more elements than memory can hold");
    }
  nodes_.push_back(std::move(n));
  const auto id = static_cast<std::int32_t>(nodes_.size()) - 1;
  if (added) added(id);
  return {id, 0};
}

value program::input(std::string_view name, const tensor_type& type, bool uniform) {
  node n;
  n.kind = node_kind::input;
  n.name = name;
  n.results = {type};
  n.uniform = uniform;
  n.hash = hash_node(n, {}, 1, static_cast<std::int64_t>(inputs_.size()), nullptr);
  auto id = push(std::move(n));
  inputs_.push_back(id.node);
  return {this, id};
}

std::int32_t program::find_state(std::string_view name) const {
  const auto known = state_by_name_.find(name);
  return known == state_by_name_.end() ? -1 : known->second;
}
std::int32_t program::find_input(std::string_view name) const {
  for (auto s : inputs_)
    if (at(s).name == name) return s;
  return -1;
}

value program::state(std::string_view name, const tensor_type& type) {
  if (!type.is_tensor())
    detail::raise(error_kind::type, begin_at(place()) << "state `" << name << "` is " << type << "; expected a tensor");
  if (auto known = find_state(name); known >= 0) {
    if (at(known).results[0] != type) {
      const tensor_type& is = at(known).results[0];
      detail::raise(mismatch_of(is, type), begin_at(place())
                                               << "state `" << name << "` is " << is << "; requested as " << type);
    }
    return {this, {known, 0}};
  }
  node n;
  n.kind = node_kind::state;
  n.name = name;
  n.results = {type};
  n.hash = hash_node(n, {}, 1, 0, nullptr);
  auto id = push(std::move(n));
  states_.push_back(id.node);
  state_by_name_.emplace(name, id.node);
  return {this, id};
}

value program::constant(any_tensor data) {
  node n;
  n.kind = node_kind::constant;
  n.results = {{data.element(), data.shape()}};
  n.constant = std::move(data);
  digest(n.constant.data(), n.constant.bytes(), n.digest);
  return constant(n);
}
value program::constant(const node& of) {
  node n;
  n.kind = node_kind::constant;
  n.results = of.results, n.constant = of.constant;
  std::ranges::copy(of.digest, n.digest);
  n.hash = hash_node(n, {}, 1, 0, nullptr);
  if (const auto known = equal_node(n, nodes_, known_); known >= 0) return {this, {known, 0}};
  auto hash = n.hash;
  auto id = push(std::move(n));
  known_[hash].push_back(id.node);
  return {this, id};
}

template <class V> value program::rank_0(V v, dtype element) {
  any_tensor t = rank_0_of(v, element);
  if (!t) detail::raise(error_kind::value, begin_at(place()) << detail::number_mismatch(v, element));
  return constant(std::move(t));
}
value program::number(double v, dtype element) { return rank_0(v, element); }
value program::number(std::int64_t v, dtype element) { return rank_0(v, element); }
value program::number(std::uint64_t v, dtype element) { return rank_0(v, element); }

std::shared_ptr<const void> detail::copy_of(const void* attributes, std::size_t bytes) {
  auto memory = std::make_shared<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1);
  std::memcpy(memory.get(), attributes, bytes);
  return memory;
}

void detail::attribute_out_of_range(std::string_view name) {
  text t;
  raise(error_kind::value, t << "attribute `" << name << "` cannot hold a number this large");
}

namespace {
// Checks common to all nodes with subprograms; functions that users call report more detail.
void check_subprogram(const program& sub, view<const tensor_type> operands, text& why) {
  if (!sub.states().empty() || !sub.assignments().empty()) why << "a subprogram cannot have states";
  else if (sub.inputs().size() != operands.size())
    why << "the subprogram takes " << sub.inputs().size() << " operands; got " << operands.size();
  for (std::size_t i = 0; i < operands.size() && why.empty(); ++i)
    if (const auto& expected = sub.at(sub.inputs()[i]).results[0]; !accepts(expected, operands[i]))
      why << "operand " << i << " is " << operands[i] << "; the subprogram takes " << expected;
}
// Result types of a subprogram, with extents' names replaced by their values for the operands.
std::vector<tensor_type> output_types(const program& sub, view<const tensor_type> operands, std::string_view op,
                                      std::string_view place) {
  const dimension_names names = names_of(sub, operands, op, place);
  std::vector<tensor_type> types;
  for (const auto& o : sub.outputs()) {
    types.push_back(sub.type(o.value));
    types.back().dims = names(types.back().dims);
  }
  return types;
}
std::vector<tensor_type> inferred_types(const operation& op, const void* attributes, view<const tensor_type> operands,
                                        view<const any_tensor* const> known, std::string_view place) {
  inference found;
  found.known = known;
  op.infer(attributes, operands, found);
  if (!found.why.empty())
    detail::raise(found.of_elements ? error_kind::type : error_kind::shape,
                  begin_at(place) << mismatch_diagnostic(op.name, found, operands));
  return {found.results, found.results + found.count};
}

// Constants among the operands that determine shapes; null for all others.
std::vector<const any_tensor*> known_elements(const operation& op, view<const value> operands) {
  std::vector<const any_tensor*> known;
  if (op.shape_operands == 0) return known;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const node& n = operands[i].owner().at(operands[i].id());
    known.push_back(op.decides_shape(i) && n.kind == node_kind::constant ? &n.constant : nullptr);
  }
  return known;
}

// Rejects sequences and optionals for operations that do not declare support for them.
void check_kinds(const operation& op, view<const tensor_type> types, std::string_view what, std::string_view place) {
  if (op.takes_kinds) return;
  for (std::size_t i = 0; i < types.size(); ++i)
    if (!types[i].is_tensor())
      detail::raise(error_kind::type, begin_at(place) << op.name << ": " << what << " " << i << " is " << types[i]
                                                      << "; the operation takes and returns tensors");
}

// Rejects wrong numbers of operands and subprograms.
void check_counts(const operation& op, std::size_t operands, std::size_t subprograms, std::string_view place) {
  const bool fits = op.operands < 0 ? operands != 0 : operands == static_cast<std::size_t>(op.operands);
  if (fits && subprograms == static_cast<std::size_t>(op.subprograms)) return;
  text t = begin_at(place);
  t << op.name << ": takes ";
  if (op.operands < 0) t << "at least one operand";
  else t << op.operands << (op.operands == 1 ? " operand" : " operands");
  if (op.subprograms) t << " and " << op.subprograms << (op.subprograms == 1 ? " subprogram" : " subprograms");
  detail::raise(error_kind::value, t << "; got " << operands << " and " << subprograms);
}
}  // namespace

// For an operation that runs one of several subprograms: checks that `other` has the results of the first.
void program::same_results(const program& other, view<const tensor_type> inside, const operation& op, text& why,
                           view<tensor_type> results) const {
  check_subprogram(other, inside, why);
  if (why.empty() && other.outputs().size() != results.size())
    why << "one program gives " << results.size() << " results and another " << other.outputs().size();
  if (!why.empty()) return;
  const auto types = output_types(other, inside, op.name, path);
  for (std::size_t i = 0; i < results.size() && why.empty(); ++i)
    if (op.results_vary && types[i].element == results[i].element && types[i].kind == results[i].kind &&
        types[i].dims.rank == results[i].dims.rank)
      results[i].dims = common_extents(results[i].dims, types[i].dims);
    else if (op.results_vary || !accepts(results[i], types[i]))
      why << "result " << i << " is " << results[i] << " in one program and " << types[i] << " in another";
}

value_id program::find_operation(const operation& op, std::shared_ptr<const void> attributes,
                                 view<const value> inputs) const {
  node n;
  n.op = &op;
  n.attributes = std::move(attributes);
  std::vector<tensor_type> in;
  for (const auto& v : inputs) {
    n.inputs.push_back(v.id());
    in.push_back(v.type());
  }
  n.results = inferred_types(op, n.attributes.get(), in, known_elements(op, inputs), place());
  n.hash = hash_node(n, {}, 1, 0, [&](std::int32_t i) { return at(i).hash; });
  const auto known = equal_node(n, nodes_, known_);
  return known < 0 ? value_id() : value_id{known, 0};
}

value_id program::add(const operation& op, std::shared_ptr<const void> attributes, view<const value> inputs,
                      std::vector<std::shared_ptr<const program>> subprograms) {
  node n;
  n.op = &op;
  n.path = place();
  n.attributes = std::move(attributes);
  check_counts(op, inputs.size(), subprograms.size(), n.path);
  std::vector<tensor_type> in;
  for (const auto& v : inputs) {
    if (&v.owner() != this) check_owner(v, std::string(op.name) + ": an operand");
    n.inputs.push_back(v.id());
    in.push_back(v.type());
  }
  check_kinds(op, in, "operand", n.path);
  if (subprograms.empty()) n.results = inferred_types(op, n.attributes.get(), in, known_elements(op, inputs), n.path);
  else {
    text why;
    std::vector<tensor_type> inside = in;
    if (op.inside) op.inside(n.attributes.get(), inside, why);
    if (why.empty()) check_subprogram(*subprograms[0], inside, why);
    if (why.empty()) {
      n.results = output_types(*subprograms[0], inside, op.name, n.path);
      for (std::size_t k = 1; k < subprograms.size() && why.empty(); ++k)
        same_results(*subprograms[k], inside, op, why, n.results);
      if (op.outside) op.outside(n.attributes.get(), in, n.results, why);
    }
    if (!why.empty()) detail::raise(error_kind::shape, begin_at(n.path) << op.name << ": " << why);
  }
  check_kinds(op, n.results, "result", n.path);
  n.subprograms = std::move(subprograms);
  n.hash = hash_node(n, ids_of(n.subprograms), 1, 0, [&](std::int32_t i) { return at(i).hash; });
  if (op.pure && common_subexpressions)
    if (const auto known = equal_node(n, nodes_, known_); known >= 0) {
      ++joined_;
      return {known, 0};
    }
  auto hash = n.hash;
  auto id = push(std::move(n));
  if (op.pure) known_[hash].push_back(id.node);
  return id;
}

void program::check_owner(const value& v, std::string_view what) const {
  if (&v.owner() == this) return void(v.type());  // rejects a value of a moved-from program
  text t = begin_at(place());
  t << what << " belongs to ";
  if (title.empty() || v.owner().title.empty()) t << "another program";
  else t << v.owner().title << " and not to " << title << "; `external(v)` makes it an input there, by its name";
  detail::raise(error_kind::state, t);
}

void program::output(std::string_view name, const value& v) {
  check_owner(v, "output: the value");
  outputs_.push_back({std::string(name), v.id()});
}

void program::replace_output(std::size_t i, const value& v) {
  check_owner(v, "replace_output: the value");
  outputs_[i].value = v.id();
}

void program::assign(const value& state, const value& v) {
  check_owner(state, "assign: the state");
  check_owner(v, "assign: the value");
  const node& s = at(state.id());
  const auto fail = [&](error_kind kind, const text& why) { detail::raise(kind, begin_at(place()) << why); };
  text t;
  if (s.kind != node_kind::state) fail(error_kind::state, t << "assign: the target is not a state");
  if (is_assigned(state.id().node))
    fail(error_kind::state, t << "state `" << s.name << "` is assigned twice in one run");
  if (!accepts(s.results[0], v.type()))
    fail(mismatch_of(s.results[0], v.type()),
         t << "state `" << s.name << "` is " << s.results[0] << " and is assigned " << v.type());
  assignments_.push_back({state.id().node, v.id()});
  assigned_.insert(state.id().node);
}

std::optional<double> program::number_of(value_id v) const {
  const node& n = at(v);
  if (n.kind != node_kind::constant || n.results[0].dims.size() < 1) return {};
  return with_type(n.results[0].element, [&]<class T>() -> std::optional<double> {
    const auto all = n.constant.elements<T>();
    const double first = static_cast<double>(all[0]);
    for (const auto& x : all)
      if (!(static_cast<double>(x) == first)) return {};
    return first;
  });
}

std::optional<value_bounds> program::bounds_of(const node& n) const {
  if (!n.op || !n.op->bounds) return {};
  std::vector<std::optional<double>> numbers;
  for (auto v : n.inputs) numbers.push_back(number_of(v));
  const auto bounds = n.op->bounds(numbers);
  return bounds && (std::isnan(bounds->low) || std::isnan(bounds->high)) ? std::nullopt : bounds;
}

bool program::may_fail(const node& n) const {
  for (const auto& s : n.subprograms)
    for (const node& inside : s->nodes())
      if (s->may_fail(inside)) return true;
  if (n.kind != node_kind::operation || !n.op->may_fail) return false;
  return !n.op->node_may_fail || n.op->node_may_fail(*this, n);
}

std::vector<char> program::reachable() const {
  std::vector<char> needed(nodes_.size());
  for (const auto& o : outputs_) needed[static_cast<std::size_t>(o.value.node)] = 1;
  for (const auto& a : assignments_)
    needed[static_cast<std::size_t>(a.value.node)] = needed[static_cast<std::size_t>(a.state)] = 1;
  for (auto i = nodes_.size(); i-- > 0;)
    if (needed[i])
      for (auto v : nodes_[i].inputs) needed[static_cast<std::size_t>(v.node)] = 1;
  return needed;
}

program_id program::id() const {
  program_id id;
  auto needed = reachable();
  std::vector<std::uint64_t> h[2];
  for (auto& word : h) word.resize(nodes_.size());
  std::int64_t place = 0;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    std::int64_t input_number = nodes_[i].kind == node_kind::input ? place++ : 0;
    if (!needed[i]) continue;
    // once for both words: otherwise the work would double with each level of subprograms
    const auto subprograms = ids_of(nodes_[i].subprograms);
    for (std::size_t w = 0; w < 2; ++w)
      h[w][i] = hash_node(nodes_[i], subprograms, 77 + 1000 * w, input_number,
                          [&](std::int32_t n) { return h[w][static_cast<std::size_t>(n)]; });
  }
  for (std::size_t w = 0; w < 2; ++w) {
    std::uint64_t all = mix(w, inputs_.size());
    for (const auto& o : outputs_)
      all = mix(mix(all, h[w][static_cast<std::size_t>(o.value.node)]), static_cast<std::uint64_t>(o.value.result));
    for (const auto& a : assignments_)
      all = mix(mix(mix(all, h[w][static_cast<std::size_t>(a.state)]), h[w][static_cast<std::size_t>(a.value.node)]),
                static_cast<std::uint64_t>(a.value.result));
    id.words[w] = all;
  }
  return id;
}

std::vector<value> program::inlined(const program& sub, view<const value> arguments) {
  std::vector<value_id> at_first(sub.nodes_.size());
  auto needed = sub.reachable();
  std::size_t next_input = 0;
  const std::string outer = place();
  const path_of rest(*this, outer);
  std::vector<tensor_type> types;
  for (const auto& v : arguments) types.push_back(v.type());
  const dimension_names names = names_of(sub, types, "call", path);
  for (std::size_t i = 0; i < sub.nodes_.size(); ++i) {
    const node& n = sub.nodes_[i];
    path = n.path.empty() ? outer : n.path;
    if (n.kind == node_kind::input) {
      if (next_input >= arguments.size())
        detail::raise(error_kind::value, "call: fewer operands than the subprogram has inputs");
      at_first[i] = arguments[next_input++].id();
      continue;
    }
    if (!needed[i]) continue;
    if (n.kind == node_kind::constant) at_first[i] = constant(n).id();
    else if (n.kind == node_kind::state) at_first[i] = state(n.name, n.results[0]).id();
    else {
      std::vector<value> in;
      for (auto v : n.inputs) {
        auto base = at_first[static_cast<std::size_t>(v.node)];
        in.emplace_back(this, value_id{base.node, base.result + v.result});
      }
      at_first[i] = add(*n.op, n.op->bound ? n.op->bound(n.attributes.get(), names) : n.attributes, in, n.subprograms);
    }
  }
  std::vector<value> results;
  for (const auto& o : sub.outputs_) {
    auto base = at_first[static_cast<std::size_t>(o.value.node)];
    results.emplace_back(this, value_id{base.node, base.result + o.value.result});
  }
  return results;
}

// ---- listings -------------------------------------------------------------------------------------------------------

namespace {

void print_attribute(text& t, const attribute_value& v) {
  switch (v.is) {
    case attribute_value::form::integer: t << v.integer; break;
    case attribute_value::form::real: t << v.real; break;
    case attribute_value::form::boolean: t << (v.integer != 0); break;
    case attribute_value::form::element: t << v.element; break;
    case attribute_value::form::product: t << dtype(v.product); break;
    case attribute_value::form::dims: t << v.dims; break;
    case attribute_value::form::axes: t << v.list; break;
  }
}

// Numbers nodes in the order in which the roots reach them, operands first.
struct numbering {
  const program& p;
  std::vector<std::int32_t> number, order;

  explicit numbering(const program& from) : p(from), number(from.nodes().size(), -1) {
    for (const auto& o : p.outputs()) visit(o.value.node);
    for (const auto& a : p.assignments()) {
      visit(a.state);
      visit(a.value.node);
    }
  }
  void visit(std::int32_t root) {
    std::vector<std::pair<std::int32_t, std::size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto [n, next] = stack.back();
      if (number[static_cast<std::size_t>(n)] >= 0) {
        stack.pop_back();
        continue;
      }
      const node& at = p.at(n);
      if (next < at.inputs.size()) {
        ++stack.back().second;
        auto operand = at.inputs[next].node;
        if (number[static_cast<std::size_t>(operand)] < 0) stack.emplace_back(operand, 0);
        continue;
      }
      number[static_cast<std::size_t>(n)] = static_cast<std::int32_t>(order.size());
      order.push_back(n);
      stack.pop_back();
    }
  }
  text& print_id(text& t, value_id v) const {
    t << "%" << number[static_cast<std::size_t>(v.node)];
    if (v.result) t << "." << v.result;
    return t;
  }
  text& attributes(text& t, const node& n) const {
    text a;
    n.op->visit(n.attributes.get(), [&](std::string_view name, attribute_value& v) {
      if (v.omitted) return;
      print_attribute(a << (a.empty() ? "" : ", ") << name << "=", v);
    });
    if (!a.empty()) t << " {" << a << "}";
    return t;
  }
};

std::string short_constant(const any_tensor& c) { return c.shape().size() <= 8 ? c.print() : "..."; }

void quoted(text& t, std::string_view s) {
  t << '"';
  for (char c : s) {
    if (c == '"' || c == '\\') t << '\\';
    constexpr std::string_view digits = "0123456789abcdef";
    auto code = static_cast<unsigned char>(c);
    if (c == '\n') t << "\\n";
    else if (c == '\t') t << "\\t";
    else if (code < 32) t << "\\u00" << digits[code >> 4] << digits[code & 15];
    else t << c;
  }
  t << '"';
}

}  // namespace

std::string program::dump() const {
  numbering numbers(*this);
  text t;
  for (auto i : numbers.order) {
    const node& n = at(i);
    numbers.print_id(t, {i, 0}) << " = ";
    switch (n.kind) {
      case node_kind::input: t << "input `" << n.name << "`" << (n.uniform ? " uniform" : ""); break;
      case node_kind::state: t << "state `" << n.name << "`"; break;
      case node_kind::constant: t << "constant " << short_constant(n.constant); break;
      case node_kind::operation:
        t << n.op->name << "(";
        for (std::size_t k = 0; k < n.inputs.size(); ++k) numbers.print_id(t << (k ? ", " : ""), n.inputs[k]);
        numbers.attributes(t << ")", n);
        break;
    }
    t << " :";
    for (const auto& r : n.results) t << " " << r;
    t << "\n";
  }
  for (const auto& o : outputs_) numbers.print_id(t << "output `" << o.name << "` ", o.value) << "\n";
  for (const auto& a : assignments_)
    numbers.print_id(numbers.print_id(t << "assign ", {a.state, 0}) << " = ", a.value) << "\n";
  return t.string();
}

namespace {

/// A drawing: subprograms are clusters beside the program that uses them, each drawn once.
class drawing {
 public:
  explicit drawing(const program& p) {
    programs_.push_back({&p, ""});
    for (std::size_t k = 0; k < programs_.size(); ++k) draw(k);
  }
  std::string dot() const {
    text t;
    t << "digraph program {\n"
      << (programs_.size() > 1 ? "  compound=true;\n" : "") << "  node [shape=box, fontname=\"monospace\"];\n"
      << all_.view() << runs_.view() << "}\n";
    return t.string();
  }

 private:
  struct part {
    const program* p;
    std::string label;
  };

  void draw(std::size_t k) {
    const program& p = *programs_[k].p;
    const numbering numbers(p);
    const std::string indent = k == 0 ? "  " : "    ";
    auto node_name = [&](std::int32_t i) {
      text t;
      if (k > 0) t << "p" << k;
      return (t << "n" << numbers.number[static_cast<std::size_t>(i)]).string();
    };
    if (k > 0) {
      all_ << "  subgraph cluster_" << k << " {\n" << indent << "label=";
      quoted(all_, programs_[k].label);
      all_ << ";\n";
    }
    for (auto i : numbers.order) {
      const node& n = p.at(i);
      text node_label;
      switch (n.kind) {
        case node_kind::input: node_label << "input " << n.name; break;
        case node_kind::state: node_label << "state " << n.name; break;
        case node_kind::constant: node_label << "constant " << n.name; break;
        case node_kind::operation: node_label << n.op->name; break;
      }
      node_label << "\n" << n.results[0];
      all_ << indent << node_name(i) << " [label=";
      quoted(all_, node_label.view());
      all_ << (n.kind == node_kind::operation ? "" : ", style=filled, fillcolor=lightgray") << "];\n";
      for (auto v : n.inputs) all_ << indent << node_name(v.node) << " -> " << node_name(i) << ";\n";
      for (std::size_t s = 0; s < n.subprograms.size(); ++s) run(node_name(i), n, s);
    }
    for (std::size_t o = 0; o < p.outputs().size(); ++o) {
      text label, name;
      quoted(label, "output " + p.outputs()[o].name);
      if (k > 0) name << output_name(k, o);  // names are unique only within a program
      else name << label.view();
      all_ << indent << name.view() << " [";
      if (k > 0) all_ << "label=" << label.view() << ", ";
      all_ << "style=filled, fillcolor=lightgray];\n"
           << indent << node_name(p.outputs()[o].value.node) << " -> " << name.view() << ";\n";
    }
    if (k > 0) all_ << "  }\n";
  }
  static std::string output_name(std::size_t k, std::size_t o) {
    return "p" + std::to_string(k) + "o" + std::to_string(o);
  }
  // An arrow from an operation to a program that it runs.
  void run(const std::string& from, const node& n, std::size_t s) {
    const program* of = n.subprograms[s].get();
    if (of->outputs().empty()) return;
    const std::string when(n.op->subprogram_name ? n.op->subprogram_name(static_cast<int>(s)) : "program");
    auto known = std::find_if(programs_.begin(), programs_.end(), [&](const part& other) { return other.p == of; });
    if (known == programs_.end()) known = programs_.insert(known, {of, std::string(n.op->name) + ": " + when});
    const auto k = static_cast<std::size_t>(known - programs_.begin());
    runs_ << "  " << from << " -> " << output_name(k, 0) << " [style=dashed, lhead=cluster_" << k << ", label=\""
          << when << "\"];\n";
  }

  std::vector<part> programs_;
  text all_, runs_;
};

}  // namespace

std::string program::to_dot() const { return drawing(*this).dot(); }

// ---- axis maps ------------------------------------------------------------------------------------------------------

namespace detail {

void no_such_part(std::string_view op, std::string_view member, std::string_view what, std::size_t i,
                  std::size_t count) {
  text t;
  raise(error_kind::value, t << op << ": its `" << member << "` asks for " << what << " " << i << " of " << count);
}

namespace {
text wrong_member(std::string_view op, std::string_view member) {
  text t;
  return t << op << ": its `" << member << "` gives ";
}
bool is_axis(int axis, const shape& s) { return axis >= 0 && axis < s.rank; }
}  // namespace

channel_axes checked_channels(std::string_view op, channel_axes declared, const shape& result, const shape& weights) {
  if (!is_axis(declared.result, result) || !is_axis(declared.weights, weights))
    raise(error_kind::value, wrong_member(op, "channels") << "the axes " << declared.result << " of " << result
                                                          << " and " << declared.weights << " of " << weights);
  return declared;
}

axis_view checked_part(std::string_view op, axis_view declared, const shape& whole) {
  if (!is_axis(declared.axis, whole) || declared.first < 0 || declared.count < 0 ||
      declared.first > whole.at(declared.axis) || declared.count > whole.at(declared.axis) - declared.first)
    raise(error_kind::value, wrong_member(op, "part_of") << declared.count << " positions from " << declared.first
                                                         << " of axis " << declared.axis << " of " << whole);
  return declared;
}

image_layouts checked_images(std::string_view op, image_layouts declared, const image_call& call) {
  auto is_image = [](const tensor_type& t) {
    return (t.element == dtype::float32 || t.element == dtype::int8) && t.dims.rank == 4;
  };
  if ((declared.operand && !is_image(call.in[0])) || (declared.result && !is_image(call.out[0])))
    raise(error_kind::value, wrong_member(op, "images") << "channel blocks for " << call.in[0] << " to " << call.out[0]
                                                        << ", which are for float32 and int8 of four axes");
  return declared;
}

void check_map(const axis_map& declared) {
  auto check = [&](std::string_view what, const std::vector<int>& axes, view<const tensor_type> of) {
    if (axes.size() != of.size())
      raise(error_kind::value, wrong_member(declared.operation, "map_axis")
                                   << axes.size() << " " << what << "s of " << of.size());
    for (std::size_t k = 0; k < of.size(); ++k)
      if (axes[k] < axis_map::either || (axes[k] != declared.axis && axes[k] >= of[k].dims.rank))
        raise(error_kind::value, wrong_member(declared.operation, "map_axis")
                                     << what << " " << k << " the axis " << axes[k] << " of " << of[k].dims);
  };
  if (!declared.independent) return;
  check("operand", declared.operands, declared.in);
  check("result", declared.results, declared.out);
}

}  // namespace detail

axis_map::axis_map(int along, view<const tensor_type> operand_types, view<const tensor_type> result_types)
    : axis(along), in(operand_types), out(result_types), operands(in.size(), along), results(out.size(), along) {}

bool axis_map::before(std::int64_t other) const {
  const int rank = in[0].dims.rank;
  return other < rank && (other < 0 ? other + rank : other) > axis;
}

bool axis_map::beside(std::int64_t other) const {
  const int rank = in[0].dims.rank;
  return axis < rank && (other < 0 ? other + rank : other) != axis;
}

bool axis_map::broadcast(std::size_t operand) {
  const shape &from = in[checked(operand)].dims, &to = out[0].dims;
  const int at = from.rank - to.rank + axis;
  if (at < 0) return share(operand), true;
  const bool one = from.at(at) == 1;
  if (at != axis || from.at(at) != to.at(axis)) return share(operand), one;
  operands[operand] = one ? either : axis;
  return true;
}

void axis_map::elementwise() {
  independent = true;
  for (std::size_t k = 0; k < in.size(); ++k) independent = broadcast(k) && independent;
}

}  // namespace lamina
