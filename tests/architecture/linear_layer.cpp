// Prints the addresses of the functions that one linear layer needs, as a plan chooses them: 64 rows, 400 -> 120,
// weights packed ahead.
#include <cstdio>
#include <cstring>

#include "gemm.h"
#include "table.h"

using namespace lamina::kernels;

int main(int, char** argv) {
  const table* kernels = std::strcmp(argv[1], "avx512") == 0 ? lamina_kernels_avx512()
                         : std::strcmp(argv[1], "avx2") == 0 ? lamina_kernels_avx2()
                                                             : lamina_kernels_sse2();
  if (kernels == nullptr || kernels->gemm[0] == nullptr) return 1;
  gemm_args args{};
  args.m = 64, args.n = 120, args.k = 400, args.batch = 1;
  args.a_row = 400, args.a_column = 1, args.b_row = 1, args.b_column = 400, args.c_row = 120;
  args.prepacked = 1;
  kernels->gemm[0]->prepare(&args);

  auto print = [](auto* function) {
    if (function != nullptr) std::printf("%016lx\n", reinterpret_cast<unsigned long>(function));
  };
  print(kernels->gemm[0]->run);
  for (const auto& tiles : args.tile)
    for (gemm_tile tile : tiles) print(tile);
  print(args.packer_a);
  print(args.packer_b);
}
