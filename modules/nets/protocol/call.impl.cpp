module lamina:protocol.call.impl;
import :context;
import :core;
import :dtype;
import :execute;
import :execute.typed;
import :expression;
import :expression.dynamic;
import :expression.key;
import :expression.same;
import :op;
import :op.elementwise;
import :plan;
import :program;
import :protocol.call;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

layer_call::layer_call(const callee& what, std::vector<dynamic_pointer> operands, std::vector<any_tensor> leaves)
    : callee_(what),
      operands_(std::move(operands)),
      leaves_(std::move(leaves)),
      marks_(callee_.what->outputs().size()) {}
layer_call::~layer_call() {
  for (auto& o : operands_) release(std::move(o));  // avoids deep recursion when destroying a long chain of calls
}

value layer_call::lower(lowering& l, std::size_t i) const {
  if (auto v = l.known(&marks_[i]); !v.empty()) return v;
  std::vector<value> arguments;
  for (const auto& o : operands_) arguments.push_back(lower_dynamic(*o, l));
  for (const auto& t : leaves_) arguments.push_back(l.input("", leaf{t.data(), &t.shape(), false}, t.type()));
  auto results = l.owner().inlined(*callee_.what, arguments);
  for (std::size_t k = 0; k < results.size(); ++k) l.remember(&marks_[k], results[k]);
  return results[i];
}

void layer_call::key(evaluation_key& to) const {
  if (!to.first(this)) return;
  for (auto word : callee_.id.words) to.attribute(static_cast<std::int64_t>(word));
  for (const auto& o : operands_) to.enter(o.get());
  for (const auto& t : leaves_) {
    to.attribute(static_cast<std::int64_t>(t.element()) << 8 | t.shape().rank);
    for (int d = 0; d < t.shape().rank; ++d) to.attribute(t.shape()[d].code);
    to(leaf{t.data(), &t.shape(), false}, "", t.type());
  }
}

std::uint64_t layer_call::structure_hash() const {
  auto h = callee_.id.words[0];
  for (const auto& o : operands_) h = mix(h, o->structure_hash());
  for (const auto& t : leaves_) h = mix(h, static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(t.data())));
  return h;
}
bool layer_call::same(const layer_call& other, node_pairs& later) const {
  if (this == &other) return true;
  if (callee_.id != other.callee_.id || operands_.size() != other.operands_.size() ||
      leaves_.size() != other.leaves_.size())
    return false;
  for (std::size_t i = 0; i < leaves_.size(); ++i)
    if (leaves_[i].data() != other.leaves_[i].data() || leaves_[i].type() != other.leaves_[i].type()) return false;
  for (std::size_t i = 0; i < operands_.size(); ++i) later.emplace_back(operands_[i].get(), other.operands_[i].get());
  return true;
}

namespace {

class result_node final : public dynamic_node {
 public:
  result_node(std::shared_ptr<const layer_call> call, std::size_t at, const lamina::shape& extents)
      : call_(std::move(call)), at_(at), extents_(extents), hash_(mix(call_->structure_hash(), at)) {}
  const lamina::shape& shape() const override { return extents_; }
  value lower(lowering& l) const override { return call_->lower(l, at_); }
  const char* tag() const override { return &mark; }
  std::uint64_t structure_hash() const override { return hash_; }
  bool same(const dynamic_node& other, node_pairs& later) const override {
    const auto& o = static_cast<const result_node&>(other);
    return at_ == o.at_ && call_->same(*o.call_, later);
  }
  void key(evaluation_key& to) const override {
    to.tag(&mark);
    to.attribute(static_cast<std::int64_t>(at_));
    call_->key(to);
  }
  void each(void (*f)(void*, const dynamic_node*), void* to) const override {
    for (const auto& o : call_->operands()) f(to, o.get());
  }

 private:
  static constexpr char mark = 0;
  std::shared_ptr<const layer_call> call_;
  std::size_t at_;
  lamina::shape extents_;
  std::uint64_t hash_;
};

class sum_node final : public dynamic_node {
 public:
  explicit sum_node(std::vector<dynamic_pointer> parts) : parts_(std::move(parts)) {}
  sum_node(const sum_node&) = delete;
  sum_node& operator=(const sum_node&) = delete;
  ~sum_node() override {
    for (auto& p : parts_) release(std::move(p));
  }
  const lamina::shape& shape() const override { return parts_[0]->shape(); }
  value lower(lowering& l) const override {
    value sum = lower_dynamic(*parts_[0], l);
    for (std::size_t i = 1; i < parts_.size(); ++i) sum = sum + lower_dynamic(*parts_[i], l);
    return sum;
  }
  const char* tag() const override { return &mark; }
  std::uint64_t structure_hash() const override {
    std::uint64_t h = 7;
    for (const auto& p : parts_) h = mix(h, p->structure_hash());
    return h;
  }
  bool same(const dynamic_node& other, node_pairs& later) const override {
    const auto& o = static_cast<const sum_node&>(other);
    if (parts_.size() != o.parts_.size()) return false;
    for (std::size_t i = 0; i < parts_.size(); ++i) later.emplace_back(parts_[i].get(), o.parts_[i].get());
    return true;
  }
  void key(evaluation_key& to) const override {
    to.tag(&mark);
    to.attribute(static_cast<std::int64_t>(parts_.size()));
    for (const auto& p : parts_) to.enter(p.get());
  }
  void each(void (*f)(void*, const dynamic_node*), void* to) const override {
    for (const auto& p : parts_) f(to, p.get());
  }

 private:
  static constexpr char mark = 0;
  std::vector<dynamic_pointer> parts_;
};

}  // namespace

dynamic_pointer result_of(std::shared_ptr<const layer_call> call, std::size_t i, const shape& extents) {
  return std::make_shared<result_node>(std::move(call), i, extents);
}
dynamic_pointer sum_of(std::vector<dynamic_pointer> parts) {
  if (parts.size() == 1) return parts[0];
  return std::make_shared<sum_node>(std::move(parts));
}

namespace {
struct together {
  evaluation_site site{16};
};
}  // namespace

std::vector<any_tensor> evaluate_all(view<const dynamic_pointer> all, context& where) {
  std::vector<any_tensor> results;
  if (all.empty()) return results;
  evaluation_key key;
  for (const auto& e : all) key.enter(e.get());
  const auto lower = [](program& p, lowering& l, const void* nodes) {
    for (const auto& e : *static_cast<const view<const dynamic_pointer>*>(nodes))
      p.output("result", lower_dynamic(*e, l));
  };
  const auto into_results = [](void* to, executor& run) { *static_cast<std::vector<any_tensor>*>(to) = run.run({}); };
  where.slot<together>().site.with_executor(
      {.leaves = key.leaves(), .words = key.words(), .lower = lower, .expression = &all}, where, into_results,
      &results);
  return results;
}

}  // namespace lamina::detail
