// lamina's chains: one pass over memory, built as the planner does, and the same operations one after the other.
#include "chain.h"

#include <memory>

#include "compile_chain.h"
#include "every_map.h"
#include "families.h"

namespace bench::chain {
namespace {

namespace k = ::lamina::kernels;
using op = k::map_op;

// Slots of values: operands a, b, c, out, then temporaries.
constexpr std::int8_t a = 0, b = 1, c = 2, out = 3, t = 16, u = 17, none = -1;
struct step {
  op what;
  std::int8_t first, second, to;
};
const std::vector<step>& steps_of(int operations) {
  static const std::vector<step> steps[] = {
      {{op::multiply, a, b, t}, {op::add, t, c, t}, {op::relu, t, none, out}},
      {{op::add, a, b, t}, {op::subtract, a, b, u}, {op::multiply, t, u, t}, {op::add, t, c, out}},
      {{op::square, a, none, t},
       {op::square, b, none, u},
       {op::add, t, u, t},
       {op::sqrt, t, none, t},
       {op::multiply, t, c, out}},
      {{op::subtract, a, b, t},
       {op::square, c, none, u},
       {op::negate, u, none, u},
       {op::exp, u, none, u},
       {op::multiply, t, u, t},
       {op::add, t, a, out}}};
  return steps[operations - shortest];
}
k::map_function function_of(op what) { return k::map_of(program_isa, what, k::element::f32); }

}  // namespace

library fused() {
  const auto bind = [](int operations, const operands& o) -> call {
    k::chain_args args{};
    args.extent[0] = args.extent[1] = args.extent[2] = 1;
    args.extent[3] = o.n;
    for (const float* p : {o.a, o.b, o.c, static_cast<const float*>(o.out)})
      args.operand[args.operand_count++] = {const_cast<float*>(p), {0, 0, 0}, sizeof(float), 1};
    const k::map_functions* maps[k::chain_steps];
    for (const step& s : steps_of(operations)) {
      maps[args.step_count] = &k::map_of(program_isa, s.what);
      args.step[args.step_count++] = {function_of(s.what), {s.first, s.second, none}, s.to, s.what, k::element::f32};
    }
    k::compile_chain(maps, args);
    if (o.n * static_cast<long>(sizeof(float)) >= k::streamed_bytes) args.streamed = 1u << out;
    const auto scratch = std::make_shared<buffer>(static_cast<long>(k::chain_scratch_bytes / sizeof(float)));
    return [run = k::elementwise_of(program_isa).chain, args, scratch] { run(&args, scratch->data()); };
  };
  return {"lamina", "", program_isa_name, bind};
}

library unfused() {
  const auto bind = [](int operations, const operands& o) -> call {
    const auto memory = std::make_shared<std::pair<buffer, buffer>>(buffer(o.n), buffer(o.n));
    const auto address = [&o, &memory](std::int8_t slot) -> const float* {
      const float* of[] = {o.a, o.b, o.c, o.out};
      return slot == none ? nullptr : slot == t ? memory->first.data() : slot == u ? memory->second.data() : of[slot];
    };
    std::vector<k::map_args> maps;
    for (const step& s : steps_of(operations))
      maps.push_back({function_of(s.what),
                      {address(s.first), address(s.second), nullptr},
                      const_cast<float*>(address(s.to)),
                      o.n,
                      s.second == none ? 1u : 3u});
    return [run = k::elementwise_of(program_isa).map, maps, memory] {
      for (const k::map_args& m : maps) run(&m, nullptr);
    };
  };
  return {"lamina, unfused", "", program_isa_name, bind};
}

}  // namespace bench::chain
