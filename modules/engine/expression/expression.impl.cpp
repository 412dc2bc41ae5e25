module lamina:expression.impl;
import :core;
import :expression;
import :expression.dynamic;
import :expression.same;
import :op;
import :op.loss;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
[[noreturn]] void no_variable(std::string_view name) {
  text t;
  t << "gradient: the expression has no variable named `" << name << "`";
  detail::raise(error_kind::value, t);
}
}  // namespace

void detail::misfit(std::string_view op, const inference& found, view<const tensor_type> in) {
  raise(found.of_elements ? error_kind::type : error_kind::shape, worded_misfit(op, found, in));
}

value detail::lower_one_hot(const value& position, const value& number, const value& like) {
  return apply<op::one_hot_like>({}, position, number, like);
}

value lowering::input(std::string_view name, const leaf& x, const tensor_type& type) {
  names_.emplace_back(name);
  auto& here = at_[x.data];
  for (auto i : here)
    if (auto& s = seen_[i]; (s.name.empty() || name.empty() || s.name == name) && s.at.uniform == x.uniform && s.type == type && (s.at.extents == x.extents || (s.at.extents && x.extents && *s.at.extents == *x.extents))) {
      if (s.name.empty() && !name.empty()) {      // met without its name before
        s.name = name;
        program_.name_input(s.v.id().node, name);
      }
      aliases_.push_back(s.v.id().node);
      return s.v;
    }
  value v = program_.input(name, type, x.uniform);
  here.push_back(seen_.size());
  seen_.push_back({x, type, v, std::string(name)});
  leaves_.push_back(x);
  aliases_.push_back(v.id().node);
  return v;
}

value lowering::variable(std::string_view name, std::size_t first, const value& of) const {
  // A shared part that was lowered before is not met again; its inputs are those that the value depends on.
  std::vector<char> read(!of.empty() ? program_.nodes().size() : 0);
  if (!of.empty()) read[static_cast<std::size_t>(of.id().node)] = 1;
  for (auto i = read.size(); i-- > 0;)
    if (read[i])
      for (auto v : program_.nodes()[i].inputs) read[static_cast<std::size_t>(v.node)] = 1;
  std::int32_t found = -1;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    const bool counts = i >= first || (!of.empty() && read[static_cast<std::size_t>(aliases_[i])]);
    if (!counts || names_[i] != name || aliases_[i] == found) continue;
    if (found >= 0) {
      auto type_of = [&](std::int32_t input) {
        const auto& s = *std::find_if(seen_.begin(), seen_.end(), [&](const seen& one) { return one.v.id().node == input; });
        return tensor_type{s.type.element, *s.at.extents};
      };
      const tensor_type a = type_of(found), b = type_of(aliases_[i]);
      text t;
      t << "variable `" << name << "` names two tensors, ";
      if (a.element == b.element) t << a.dims << " and " << b.dims;
      else t << a << " and " << b;
      detail::raise(error_kind::value, t << "; give each a name of its own");
    }
    found = aliases_[i];
  }
  if (found < 0) no_variable(name);
  return {&program_, {found, 0}};
}

value lowering::known(const void* node) const {
  auto i = known_.find(node);
  return i == known_.end() ? value() : i->second;
}

value detail::lower_dynamic(const dynamic_node& node, lowering& l) {
  std::vector<const dynamic_node*> waiting{&node};
  while (!waiting.empty()) {
    const dynamic_node* top = waiting.back();
    if (!l.known(top).empty()) {
      waiting.pop_back();
      continue;
    }
    const auto before = waiting.size();
    struct search { lowering& l; std::vector<const dynamic_node*>& waiting; } found{l, waiting};
    top->each([](void* to, const dynamic_node* inner) {
      auto& f = *static_cast<search*>(to);
      if (inner && f.l.known(inner).empty()) f.waiting.push_back(inner);
    }, &found);
    if (waiting.size() > before) continue;
    l.remember(top, top->lower(l));
    waiting.pop_back();
  }
  return l.known(&node);
}

shape detail::extents_behind(std::vector<const dynamic_node*> waiting, std::string_view name, const tensor_type& wanted) {
  struct search {
    std::string_view name;
    std::vector<const dynamic_node*>& waiting;
    std::optional<tensor_type> found{};
  } at{name, waiting};
  std::set<const dynamic_node*> seen;
  while (!waiting.empty() && !at.found) {
    const dynamic_node* top = waiting.back();
    waiting.pop_back();
    if (!top || !seen.insert(top).second) continue;
    top->each_variable([](void* to, std::string_view met, const tensor_type& now) {
      auto& s = *static_cast<search*>(to);
      if (met == s.name && !s.found) s.found = now;
    }, &at);
    top->each([](void* to, const dynamic_node* inner) { static_cast<search*>(to)->waiting.push_back(inner); }, &at);
  }
  if (!at.found) no_variable(name);
  const tensor_type& found = *at.found;
  if (found.element != wanted.element || !fits(wanted.dims, found.dims)) {
    text t;
    t << "gradient: the variable `" << name << "` is " << found << " and is taken for " << wanted << "; say its type, as in gradient<\"" << name
      << "\", vector<float>>(loss)";
    raise(found.element == wanted.element ? error_kind::shape : error_kind::type, t);
  }
  return found.dims;
}

bool detail::same_nodes(node_pairs waiting) {
  std::set<std::pair<const dynamic_node*, const dynamic_node*>> compared;
  while (!waiting.empty()) {
    auto [a, b] = waiting.back();
    waiting.pop_back();
    if (a == b) continue;
    if (!a || !b || a->structure_hash() != b->structure_hash() || a->tag() != b->tag()) return false;
    if (compared.emplace(a, b).second && !a->same(*b, waiting)) return false;
  }
  return true;
}

void detail::release(dynamic_pointer node) noexcept {
  // The outermost call destroys; those that it causes only add to its list.
  static thread_local std::vector<dynamic_pointer>* destroying = nullptr;
  if (!node || node.use_count() > 1) return;
  if (destroying) {
    destroying->push_back(std::move(node));
    return;
  }
  std::vector<dynamic_pointer> list;
  destroying = &list;
  list.push_back(std::move(node));
  while (!list.empty()) {
    dynamic_pointer last = std::move(list.back());
    list.pop_back();
    last.reset();
  }
  destroying = nullptr;
}

}  // namespace lamina
