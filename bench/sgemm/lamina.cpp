// lamina's product: prepared once as in a plan, then run.
#include <memory>

#include "families.h"
#include "sgemm.h"

namespace bench::sgemm {

library lamina() {
  const auto bind = [](const product& p) -> call {
    namespace k = ::lamina::kernels;
    const k::gemm_functions& gemm = k::gemm_f32_functions_of(program_isa);
    k::gemm_args args{};
    args.m = p.m, args.n = p.n, args.k = p.k;
    args.a = p.a, args.a_row = p.k, args.a_column = 1;
    args.b = p.b, args.b_row = p.n, args.b_column = 1;
    args.c = p.c, args.c_row = p.n;
    args.batch = 1;
    const auto floats = [](std::size_t bytes) { return static_cast<long>(bytes / sizeof(float)) + 1; };
    const auto packed = std::make_shared<buffer>(p.prepacked ? floats(gemm.packed_bytes(p.k, p.n)) : 1);
    if (p.prepacked) {
      const k::gemm_prepack_args pack{p.k, p.n, p.b, p.n, 1, packed->data()};
      gemm.prepack(&pack, nullptr);
      args.b = packed->data(), args.prepacked = 1;
    }
    const k::kernel run = gemm.prepare(&args);
    const auto scratch = std::make_shared<buffer>(floats(gemm.scratch_bytes(&args)));
    return [run, args, scratch, packed] { run(&args, scratch->data()); };
  };
  return {"lamina", "", program_isa_name, bind};
}

}  // namespace bench::sgemm
