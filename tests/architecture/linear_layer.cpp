// Prints the addresses of the functions that a plan chooses for one linear layer: 64 rows, 400 -> 120, prepacked
// weights.
#include <cstdio>
#include <cstring>

#include "gemm.h"

using namespace lamina::kernels;

int main(int, char** argv) {
  const isa set = std::strcmp(argv[1], "avx512") == 0 ? isa::avx512
                  : std::strcmp(argv[1], "avx2") == 0 ? isa::avx2
                                                      : isa::sse2;
  const gemm_functions& gemm = gemm_f32_functions_of(set);
  gemm_args args{};
  args.m = 64, args.n = 120, args.k = 400, args.batch = 1;
  args.a_row = 400, args.a_column = 1, args.b_row = 1, args.b_column = 400, args.c_row = 120;
  args.prepacked = 1;
  gemm.prepare(&args);

  auto print = [](auto* function) {
    if (function != nullptr) std::printf("%016lx\n", reinterpret_cast<unsigned long>(function));
  };
  print(gemm.run);
  for (const auto& tiles : args.tile)
    for (gemm_tile tile : tiles) print(tile);
  print(args.packer_a);
  print(args.packer_b);
}
