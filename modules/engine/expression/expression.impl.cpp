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

value lowering::variable(std::string_view name, std::size_t first) const {
  std::int32_t found = -1;
  for (std::size_t i = first; i < names_.size(); ++i) {
    if (names_[i] != name || aliases_[i] == found) continue;
    if (found >= 0) {
      auto of = [&](std::int32_t input) {
        return *std::find_if(seen_.begin(), seen_.end(), [&](const seen& s) { return s.v.id().node == input; })->at.extents;
      };
      text t;
      t << "variable `" << name << "` names two tensors, " << of(found) << " and " << of(aliases_[i]) << "; give each a name of its own";
      detail::raise(error_kind::value, t);
    }
    found = aliases_[i];
  }
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
    if (l.known(top)) {
      waiting.pop_back();
      continue;
    }
    const auto before = waiting.size();
    struct search { lowering& l; std::vector<const dynamic_node*>& waiting; } found{l, waiting};
    top->each([](void* to, const dynamic_node* inner) {
      auto& f = *static_cast<search*>(to);
      if (inner && !bool(f.l.known(inner))) f.waiting.push_back(inner);
    }, &found);
    if (waiting.size() > before) continue;
    l.remember(top, top->lower(l));
    waiting.pop_back();
  }
  return l.known(&node);
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
