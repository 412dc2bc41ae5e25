module;
#include "../kernels/families.h"
module lamina:plan.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :emitter;
import :passes;
import :plan;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {
bool multiplies_weights(const program& p) {
  return std::any_of(p.nodes().begin(), p.nodes().end(), [](const node& n) {
    return (n.op && n.op->channels) || std::any_of(n.subprograms.begin(), n.subprograms.end(),
                                                   [](const auto& s) { return multiplies_weights(*s); });
  });
}
constexpr double few_flops = 4096;  // below this, setting a thread's rounding mode takes as long as the formulas
}  // namespace

plan::plan(const program& p, lamina::isa set, const pass_options& options, pass_counters counters)
    : isa_(set), counters_(std::move(counters)) {
  if (options.compute != dtype::float32 && options.compute != dtype::bfloat16)
    detail::raise(error_kind::unsupported, text() << "pass_options::compute is " << options.compute
                                                  << "; a plan computes in float32 or bfloat16");
  emitter(*this, {p, set, options}).run();
  without_denormals_ = cost_.flops > few_flops && multiplies_weights(p);
}

std::size_t plan::bytes() const {
  const auto of = []<class T>(const std::vector<T>& v) { return v.capacity() * sizeof(T); };
  std::size_t n = sizeof *this + of(buffers_) + of(steps_) + of(stages_) + of(loop_stages_) + of(relocations_) +
                  of(arguments_) + of(code_) + of(constants_) + of(packs_) + of(checks_) + of(loops_) + of(moves_) +
                  of(input_types_) + of(output_types_) + of(state_types_) + of(output_names_) + of(state_names_) +
                  of(assigned_) + of(once_states_) + of(by_element_) + of(lines_);
  for (const auto& c : constants_) n += c.bytes();
  for (const auto& l : lines_) n += l.what.capacity() + l.where.capacity() + of(l.results);
  for (const auto& s : state_names_) n += s.capacity();
  return n;
}

namespace {
// Whether an elementwise step reads, through the address at `read` in its arguments, each element exactly where it
// writes one through the address at `write`, and writes it last.
bool reads_where_it_writes(const kernels::elementwise_functions& functions, step_function run,
                           const std::byte* arguments, std::size_t read, std::size_t write) {
  if (run == functions.map) {
    kernels::map_args a;
    std::memcpy(&a, arguments, sizeof a);
    const auto k = (read - offsetof(kernels::map_args, in)) / sizeof a.in[0];
    return write == offsetof(kernels::map_args, out) && k < 3 && (a.steps >> k & 1u);
  }
  if (run != functions.chain) return false;
  kernels::chain_args c;
  std::memcpy(&c, arguments, sizeof c);
  const auto operand = [](std::size_t at) {
    return (at - offsetof(kernels::chain_args, operand)) / sizeof(kernels::chain_operand);
  };
  const kernels::chain_operand &from = c.operand[operand(read)], &to = c.operand[operand(write)];
  for (int i = 0; i < c.step_count; ++i)
    if ((c.step[i].out == static_cast<int>(operand(write))) != (i + 1 == c.step_count)) return false;
  return from.inner == to.inner && from.size == to.size &&
         std::equal(std::begin(from.outer), std::end(from.outer), std::begin(to.outer));
}
}  // namespace

bool plan::in_place(std::size_t i, std::size_t o) const {
  if (!loops_.empty() || input_types_[i] != output_types_[o]) return false;
  struct use {
    std::size_t step, stage, at;
    std::int64_t offset;
  };
  const auto uses = [&](buffer_kind kind, std::size_t index) {
    std::vector<use> found;
    for (const auto& r : relocations_) {
      const auto& b = buffers_[static_cast<std::size_t>(r.buffer)];
      if (b.kind != kind || static_cast<std::size_t>(b.index) != index) continue;
      for (std::size_t stage = 0; stage < stages_.size(); ++stage)
        for (std::size_t step = stages_[stage].first; step < stages_[stage].first + stages_[stage].count; ++step)
          if (r.at >= steps_[step].arguments && r.at < steps_[step].arguments + steps_[step].bytes)
            found.push_back({step, stage, r.at - steps_[step].arguments, r.offset});
    }
    return found;
  };
  const auto each_apart = [&](const use& r, const use& w) {
    const plan_step& s = steps_[r.step];
    return std::binary_search(by_element_.begin(), by_element_.end(), s.arguments) ||
           reads_where_it_writes(kernels::elementwise_of(isa_), s.run, arguments_.data() + s.arguments, r.at, w.at);
  };
  const auto reads = uses(buffer_kind::input, i), writes = uses(buffer_kind::output, o);
  // A step that overwrites its operand touches nothing of other steps that write parts of the result.
  const auto own = [&](const use& r) {
    return std::any_of(writes.begin(), writes.end(),
                       [&](const use& w) { return r.step == w.step && r.offset == w.offset && each_apart(r, w); });
  };
  const auto owned = [&](const use& w) {
    return std::any_of(reads.begin(), reads.end(), [&](const use& r) { return r.step == w.step && own(r); });
  };
  for (const use& r : reads)
    for (const use& w : writes)
      if (r.stage >= w.stage && !(own(r) && owned(w))) return false;
  return !reads.empty() && !writes.empty();
}

std::string plan::explain() const {
  text t;
  auto pad = [&](std::string s, std::size_t width, bool right) {
    if (right)
      while (s.size() < width) s.insert(s.begin(), ' ');
    else s.resize(std::max(width, s.size()), ' ');
    return s;
  };
  auto text_of = [](auto v) {
    text x;
    x << v;
    return x.string();
  };
  t << "plan for " << name_of(isa_) << "\n";
  t << pad("operation", 44, false) << pad("result", 26, false) << pad("layout", 9, false) << pad("kernel", 16, false)
    << pad("flops", 12, true) << pad("bytes", 12, true) << pad("steps", 7, true) << "\n";
  for (const auto& l : lines_)
    t << pad(l.what, 44, false) << " " << pad(text_of(l.result), 25, false)
      << pad(std::string(name_of(l.form)), 9, false) << pad(l.kernel, 16, false)
      << pad(text_of(static_cast<std::int64_t>(l.flops)), 12, true) << pad(text_of(l.bytes), 12, true)
      << pad(text_of(l.steps), 7, true) << "\n";
  t << "total: " << static_cast<std::int64_t>(cost_.flops) << " flops, " << cost_.bytes << " bytes moved, "
    << cost_.steps << " steps in " << cost_.stages << " stages, " << cost_.reorders << " reorders\n";
  t << "memory: arena " << cost_.arena << " bytes (live peak " << cost_.live_peak << ", efficiency "
    << (cost_.arena ? static_cast<double>(cost_.live_peak) / static_cast<double>(cost_.arena) : 1.0)
    << "), without sharing " << cost_.unshared << " bytes, shared by " << name_of(cost_.sharing) << ", scratch "
    << cost_.scratch << " bytes, packed weights " << cost_.packed << " bytes\n";
  t << "rewritten: " << counters_.common << " common, " << counters_.folded << " folded, " << counters_.simplified
    << " simplified";
  bool any = false;
  for (int k = 0; k < rewrite_count; ++k)
    if (counters_.rewritten[k]) {
      t << (any ? ", " : " (") << counters_.rewritten[k] << " " << name_of(static_cast<rewrite>(k));
      any = true;
    }
  t << (any ? "), " : ", ") << counters_.inlined_calls << " calls, " << counters_.joined_loops << " loops joined, "
    << counters_.moved_before_loops << " moved before loops, " << counters_.merged << " merged, "
    << counters_.fused_elementwise << " fused elementwise, " << counters_.fused_epilogues << " in epilogues\n";
  for (const auto& why : counters_.missed) t << "not recognized: " << why << "\n";
  return t.string();
}

}  // namespace lamina
