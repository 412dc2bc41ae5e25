// lamina's threads: one persistent context, with its thread pool, per number of threads.
#include <map>
#include <memory>

#include "idle.h"

import lamina;

namespace bench::idle {

void run(int threads) {
  using namespace lamina;
  static std::map<int, std::unique_ptr<context>> contexts;
  auto& where = contexts[threads];
  if (!where) where = std::make_unique<context>(threads, target_isa());
  const matrix<float> a(256, 256), b(256, 256);
  for (int again = 0; again < 100; ++again) {
    const auto r = evaluate(matmul(a, b) + 1.f, *where);
    __asm__ volatile("" ::"r"(r.data().data()) : "memory");
  }
}

}  // namespace bench::idle
