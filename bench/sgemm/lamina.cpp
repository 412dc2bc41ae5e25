// Our product: prepared once as a plan would, then run.
#include <memory>

#include "sgemm.h"
#include "table.h"

namespace bench::sgemm {

library lamina() {
  const auto bind = [](const product& p) -> call {
    namespace k = ::lamina::kernels;
    const k::gemm_functions& gemm = *k::kernels_of(program_isa).gemm[0];
    k::gemm_args args{};
    args.m = p.m, args.n = p.n, args.k = p.k;
    args.a = p.a, args.a_row = p.k, args.a_column = 1;
    args.b = p.b, args.b_row = p.n, args.b_column = 1;
    args.c = p.c, args.c_row = p.n;
    args.batch = 1;
    gemm.prepare(&args);
    const auto scratch = std::make_shared<buffer>(static_cast<long>(gemm.scratch_bytes(&args) / sizeof(float)) + 1);
    return [run = gemm.run, args, scratch] { run(&args, scratch->data()); };
  };
  return {"lamina", "", program_isa_name, bind};
}

}  // namespace bench::sgemm
