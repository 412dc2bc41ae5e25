module lamina:expression.dynamic.impl;
import :core;
import :expression;
import :expression.dynamic;
import :expression.key;
import :expression.same;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {

namespace {
// A stack of pending nodes; small ones need no heap memory.
class node_stack {
 public:
  std::size_t size() const { return few_count_ + many_.size(); }
  const dynamic_node* back() const { return many_.empty() ? few_[few_count_ - 1] : many_.back(); }
  void push(const dynamic_node* n) {
    if (few_count_ < std::size(few_)) few_[few_count_++] = n;
    else many_.push_back(n);
  }
  void pop() {
    if (many_.empty()) --few_count_;
    else many_.pop_back();
  }

 private:
  const dynamic_node* few_[32];
  std::size_t few_count_ = 0;
  std::vector<const dynamic_node*> many_;
};

// Calls `take` for a node and its nested nodes, innermost first, unless `known`; taking a node makes it known. The call
// stack stays flat at any depth, and the order is always that of `lower`.
template <class Known, class Take> void inner_first(const dynamic_node& node, Known known, Take take) {
  struct search {
    Known& known;
    node_stack waiting;
  } found{known, {}};
  found.waiting.push(&node);
  while (found.waiting.size() > 0) {
    const dynamic_node* top = found.waiting.back();
    if (!known(top)) {
      const auto before = found.waiting.size();
      top->each(
          [](void* to, const dynamic_node* inner) {
            auto& f = *static_cast<search*>(to);
            if (inner && !f.known(inner)) f.waiting.push(inner);
          },
          &found);
      if (found.waiting.size() > before) continue;
      take(*top);
    }
    found.waiting.pop();
  }
}
}  // namespace

value lower_dynamic(const dynamic_node& node, lowering& l) {
  inner_first(
      node, [&](const dynamic_node* n) { return !l.known(n).empty(); },
      [&](const dynamic_node& n) { l.remember(&n, n.lower(l)); });
  return l.known(&node);
}

// ---- keys -----------------------------------------------------------------------------------------------------------

address_numbers::place& address_numbers::place_of(const void* address) const {
  const auto last = places_ - 1;
  auto at = (std::bit_cast<std::uintptr_t>(address) >> 3) * 0x9e3779b97f4a7c15u >> 20 & last;
  while (table_[at].after && table_[at].address != address) at = (at + 1) & last;
  return table_[at];
}
bool address_numbers::knows(const void* address) const {
  if (!table_) return std::find(few_, few_ + count_, address) != few_ + count_;
  return place_of(address).after != 0;
}
std::size_t address_numbers::number_among_many(const void* address) {
  if (2 * (count_ + 1) > places_) {
    const auto had = places_;
    auto more = std::make_unique<place[]>(std::max<std::size_t>(64, 4 * had));
    places_ = std::max<std::size_t>(64, 4 * had);
    const auto old = std::exchange(table_, std::move(more));
    if (!old)
      for (std::size_t i = 0; i < count_; ++i) place_of(few_[i]) = {few_[i], i + 1};
    for (std::size_t i = 0; i < had; ++i)
      if (old[i].after) place_of(old[i].address) = old[i];
  }
  auto& p = place_of(address);
  if (!p.after) p = {address, ++count_};
  return p.after - 1;
}

namespace {
// Quadruples the capacity.
template <class T> T* grown(view<const T> taken, std::unique_ptr<T[]>& to, std::size_t& capacity) {
  auto more = std::make_unique<T[]>(capacity *= 4);
  std::copy(taken.begin(), taken.end(), more.get());
  to = std::move(more);
  return to.get();
}
}  // namespace

evaluation_key::~evaluation_key() {}
void evaluation_key::operator()(const leaf& x, std::string_view, const tensor_type& type) {
  if (leaf_count_ == leaf_capacity_) leaves_ = grown(leaves(), many_leaves_, leaf_capacity_);
  std::construct_at(&leaves_[leaf_count_++], x);
  for (int d = 0; d < type.dims.rank; ++d)
    if (!type.dims[d].is_number()) attribute(x.extents->at(d));
}
void evaluation_key::more_words() { words_ = grown(words(), many_words_, word_capacity_); }

bool evaluation_key::first(const void* part) {
  const auto before = parts_.count(), number = parts_.number(part);
  attribute(number == before ? -1 : static_cast<std::int64_t>(number));
  return number == before;
}
void evaluation_key::enter(const dynamic_node* node) {
  if (!node) return attribute(-1);  // empty: lowering it raises an error
  inner_first(
      *node, [&](const dynamic_node* n) { return parts_.knows(n); },
      [&](const dynamic_node& n) {
        n.key(*this);
        parts_.number(&n);
      });
  attribute(static_cast<std::int64_t>(parts_.number(node)));
}

}  // namespace detail

shape detail::extents_of_variable(std::vector<const dynamic_node*> waiting, std::string_view name,
                                  const tensor_type& expected) {
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
    top->each_variable(
        [](void* to, std::string_view candidate, const tensor_type& now) {
          auto& s = *static_cast<search*>(to);
          if (candidate == s.name && !s.found) s.found = now;
        },
        &at);
    top->each([](void* to, const dynamic_node* inner) { static_cast<search*>(to)->waiting.push_back(inner); }, &at);
  }
  if (!at.found) no_variable(name);
  const tensor_type& found = *at.found;
  if (found.element != expected.element || !fits(expected.dims, found.dims)) {
    text t;
    t << "gradient: the variable `" << name << "` is " << found << "; expected " << expected
      << "; name its type, as in gradient<\"" << name << "\", vector<float>>(loss)";
    raise(found.element == expected.element ? error_kind::shape : error_kind::type, t);
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
  // The outermost call destroys; nested calls only add to its list.
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
