// Runs any program that is small enough, on generated inputs and states, as if from a file. Values have separate memory
// of exact size, so that a sanitizer detects out-of-bounds accesses. Include it after `import lamina;` and <algorithm>,
// <atomic>, <cstdint>, <cstring>, <limits>, <memory>, <optional>, <string>, <string_view>, <type_traits>, <utility>, <vector>.
#pragma once

namespace engine_test {

/// Kind of generated elements: small enough to be positions of small axes, or arbitrary bits.
enum class made_up { small, wild };

/// Numbers that depend only on a seed.
class number_source {
 public:
  explicit number_source(std::uint64_t seed) : state_(seed * 2 + 1) {}
  std::uint64_t operator()() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return state_ >> 29;
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((*this)() % n); }
  template <class T> T element(made_up how) {
    constexpr std::int64_t odd[] = {1'000'000'000,
                                    -1'000'000'000,
                                    1'000'000'000'000,
                                    std::numeric_limits<std::int64_t>::max(),
                                    std::numeric_limits<std::int64_t>::min(),
                                    -1,
                                    7,
                                    127,
                                    -128};
    if constexpr (std::is_same_v<T, bool>) return below(2) == 1;
    else if constexpr (std::is_integral_v<T>) {
      if (how == made_up::wild && below(2)) return static_cast<T>(odd[below(std::size(odd))]);
      return static_cast<T>(below(2));
    } else {
      constexpr double strange[] = {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(),
                                    -std::numeric_limits<double>::infinity(), 1e30, -0.0};
      if (how == made_up::wild && below(4) == 0)
        return static_cast<T>(static_cast<float>(strange[below(std::size(strange))]));
      return static_cast<T>(static_cast<float>(below(9)) / 4 - 1);
    }
  }
  void fill(std::byte* to, const lamina::tensor_type& t, made_up how) {
    if (t.element == lamina::dtype::string) {
      constexpr std::string_view odd[] = {"", "1", "a b", "\xff", "(a|", "1e9"};
      for (std::int64_t i = 0; i < t.dims.size(); ++i, to += sizeof odd[0]) {
        const std::string_view x = how == made_up::wild ? odd[below(std::size(odd))] : below(2) ? "1" : "0";
        std::memcpy(to, &x, sizeof x);
      }
      return;
    }
    lamina::with_type(t.element, [&]<class T>() {
      for (std::int64_t i = 0; i < t.dims.size(); ++i, to += sizeof(T)) {
        const T x = element<T>(how);
        std::memcpy(to, &x, sizeof x);
      }
    });
  }

 private:
  std::uint64_t state_;
};

/// Extents for an input: numbers stay; equal names get equal extents.
inline lamina::shape bound(lamina::shape s) {
  for (int i = 0; i < s.rank; ++i)
    if (!s[i].is_number()) s[i] = s[i].is_name() ? 1 + (s[i].code & 0x7fffffff) % 3 : 2 + i % 2;
  return s;
}

/// Limits a program to the time and memory of a test: numbers of nodes, of elements, of operations, of attributes.
class small_enough {
 public:
  /// Whether a program is small for these operands. Raises the errors of its operations' shape rules.
  bool operator()(const lamina::ir::program& p, const std::vector<lamina::tensor_type>& in) {
    lamina::ir::program q;
    std::vector<lamina::ir::value> given;
    for (const auto& t : in) given.push_back(q.input("x", t));
    if (!count(static_cast<std::int64_t>(p.nodes().size()))) return false;
    q.inlined(p, given);
    for (const auto& n : q.nodes())
      if (!fits(q, n)) return false;
    return true;
  }

 private:
  static constexpr std::int64_t max_nodes = 300, max_elements = 1 << 14, max_attribute = 4096;
  static constexpr double max_flops = 1e6;

  bool count(std::int64_t nodes) { return (nodes_ += nodes) <= max_nodes; }
  static bool fits(std::int64_t number) {
    using limits = std::numeric_limits<std::int64_t>;
    return number == limits::max() || number == limits::min() || (number <= max_attribute && number >= -max_attribute);
  }
  // A data-dependent extent is small here, too, because the operands are.
  static bool fits(const lamina::shape& s) {
    std::int64_t n = 1;
    for (int i = 0; i < s.rank; ++i) {
      const std::int64_t extent = s[i].is_number() ? std::max<std::int64_t>(s.at(i), 1) : 16;
      if (extent > max_elements || (n *= extent) > max_elements) return false;
    }
    return true;
  }
  bool fits(const lamina::ir::program& p, const lamina::node& n) {
    for (const auto& t : n.results)
      if (!fits(t.dims)) return false;
    if (n.kind != lamina::node_kind::operation) return true;
    bool good = true;
    n.op->visit(n.attributes.get(), [&](std::string_view, lamina::attribute_value& a) {
      if (a.is == lamina::attribute_value::form::integer) good = good && fits(a.integer);
      if (a.is == lamina::attribute_value::form::dims) good = good && fits(a.dims);
    });
    std::vector<lamina::tensor_type> in;
    bool known = true;
    for (auto v : n.inputs) in.push_back(p.type(v)), known = known && in.back().dims.is_static();
    for (const auto& t : n.results) known = known && t.dims.is_static();
    if (!good || (known && n.op->flops(n.attributes.get(), in, n.results) > max_flops)) return false;
    if (n.op->inside && !n.subprograms.empty()) {
      lamina::message_text why;
      n.op->inside(n.attributes.get(), in, why);
      if (!why.empty()) return true;  // planning reports it
    }
    for (const auto& sub : n.subprograms)
      if (sub->inputs().size() == in.size() && !(*this)(*sub, in)) return false;
    return true;
  }
  std::int64_t nodes_ = 0;
};

/// The same program with every one of its values as an output.
inline std::shared_ptr<const lamina::ir::program> all_shown(const lamina::ir::program& p) {
  auto q = std::make_shared<lamina::ir::program>();
  std::vector<lamina::ir::value> given;
  for (auto i : p.inputs()) given.push_back(q->input(p.at(i).name, p.at(i).results[0], p.at(i).uniform));
  q->inlined(p, given);
  for (std::size_t i = 0; i < q->nodes().size(); ++i)
    for (std::size_t r = 0; r < q->nodes()[i].results.size(); ++r)
      q->output("y", lamina::ir::value(q.get(), {static_cast<std::int32_t>(i), static_cast<std::int32_t>(r)}));
  return q;
}

/// While alive, limits a program that computes its shapes, which may be arbitrary, to the memory of a small one.
class little_memory {
 public:
  static constexpr std::int64_t bytes = std::int64_t(1) << 18, usual = std::int64_t(512) << 20;
  explicit little_memory(const lamina::ir::program& p) : holds_(computes_shapes(p)) {
    if (holds_) lamina::memory::limit(lamina::memory::counters().current + bytes);
  }
  ~little_memory() {
    if (holds_) lamina::memory::limit(usual);
  }
  little_memory(const little_memory&) = delete;
  little_memory& operator=(const little_memory&) = delete;
  std::size_t largest_result() const { return holds_ ? std::size_t(bytes) : std::size_t(1) << 28; }

 private:
  static bool computes_shapes(const lamina::ir::program& p) {
    for (const auto& n : p.nodes()) {
      if (n.op && n.op->shape_operands) return true;
      for (const auto& sub : n.subprograms)
        if (computes_shapes(*sub)) return true;
    }
    return false;
  }
  bool holds_;
};

/// Whether all inputs and outputs are tensors of numbers.
inline bool is_of_tensors(const lamina::ir::program& p) {
  const auto is = [](const lamina::tensor_type& t) { return t.is_tensor() && t.element != lamina::dtype::string; };
  for (auto i : p.inputs())
    if (!is(p.at(i).results[0])) return false;
  for (const auto& o : p.outputs())
    if (!is(p.type(o.value))) return false;
  return true;
}
/// Ends loops on the host: requests a stop after a number of polls.
struct few_steps {
  std::shared_ptr<std::atomic<int>> left = std::make_shared<std::atomic<int>>(2000);
  bool stop_requested() const noexcept { return --*left < 0; }
};
/// Generates values: sequences of two tensors, and optionals, which hold one unless `how` is wild.
template <class Room> std::vector<lamina::any_value> made_up_values(const std::vector<lamina::tensor_type>& in,
                                                                    number_source& numbers, made_up how,
                                                                    const Room& room) {
  using enum lamina::value_kind;
  std::vector<lamina::any_value> values;
  for (auto t : in) {
    const auto kind = t.kind;
    t.kind = tensor;
    const auto one = [&] {
      std::byte* memory = room(t);
      numbers.fill(memory, t, how);
      return lamina::any_tensor(lamina::storage::borrowed(static_cast<void*>(memory), t.bytes()), t);
    };
    const auto list = [&] { return lamina::any_value::sequence({one(), one()}); };
    const bool holds = how == made_up::small || numbers.below(2);
    switch (kind) {
      case tensor: values.emplace_back(one()); break;
      case sequence: values.push_back(list()); break;
      case optional: values.push_back(holds ? lamina::any_value::optional(one()) : lamina::any_value::none()); break;
      case optional_sequence:
        values.push_back(holds ? lamina::any_value::optional(list()) : lamina::any_value::none(sequence));
        break;
    }
  }
  return values;
}

/// Plans a program and runs it once, on inputs of these types. Propagates errors of planning and running.
inline void run_once(std::shared_ptr<const lamina::ir::program> p, const std::vector<lamina::tensor_type>& in,
                     number_source numbers, made_up how, const std::shared_ptr<lamina::context>& where) {
  const little_memory limited(*p);
  lamina::parameter_store states;
  for (auto s : p->states()) {
    lamina::any_tensor t(lamina::tensor_type{p->at(s).results[0].element, bound(p->at(s).results[0].dims)});
    numbers.fill(t.mutable_data(), t.type(), how);
    states.add(p->at(s).name, std::move(t), lamina::state_role::parameter);
  }
  std::vector<lamina::shape> extents;
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<const void*> inputs;
  const auto room = [&](const lamina::tensor_type& t) {
    if (t.bytes() > limited.largest_result()) throw lamina::value_error("a result is too large for a test");
    return memory.emplace_back(new std::byte[t.bytes()]).get();
  };
  std::optional<lamina::stop_scope<few_steps>> until;
  if (!lamina::run_on_host_in(*p).empty()) until.emplace(few_steps());
  if (!is_of_tensors(*p)) {
    const auto values = made_up_values(in, numbers, how, room);
    lamina::ir::session(std::move(p), {&states, nullptr}, where).run(values);
    return;
  }
  for (const auto& t : in) {
    extents.push_back(t.dims);
    inputs.push_back(room(t));
    numbers.fill(memory.back().get(), t, how);
  }
  lamina::ir::session run(std::move(p), {&states, nullptr}, where);
  run.run(extents, inputs, [&](std::size_t, const lamina::tensor_type& t) -> void* { return room(t); });
}

/// Runs a program if it is small: as it is, or with every value as an output. Returns whether it was small.
inline bool run_small(const std::shared_ptr<const lamina::ir::program>& p, std::uint64_t seed, made_up how, bool show,
                      const std::shared_ptr<lamina::context>& where) {
  std::vector<lamina::tensor_type> in;
  for (auto i : p->inputs())
    in.push_back({p->at(i).results[0].element, bound(p->at(i).results[0].dims), p->at(i).results[0].kind});
  for (auto s : p->states())
    if (!p->at(s).results[0].dims.is_static()) return false;
  if (small_enough small; !small(*p, in)) return false;
  run_once(show ? all_shown(*p) : p, in, number_source(seed), how, where);
  return true;
}

}  // namespace engine_test
