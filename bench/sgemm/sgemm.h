// Interface of a library for sgemm: a product C = A B of contiguous row-major float matrices.
#pragma once
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "measure.h"
#include "report.h"

namespace bench::sgemm {

struct product {
  long m, n, k;
  const float *a, *b;
  float* c;
  bool prepacked = false;  // B may be packed when the product is bound, if the library can
};

/// A library and its binding of a product; absent if `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<call(const product&)> bind;
};

library lamina();
library onednn();
library openblas();
library blis();
library eigen();
library eigen_fixed();  // square products of the sizes in bench/shapes/small.txt

/// Report row of a product, without measured values.
inline row row_of(const std::string& problem, const product& p, const char* unit) {
  row r;
  r.problem = problem;
  r.shape = std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k);
  r.isa = program_isa_name;
  r.unit = unit;
  r.share = 2.0 * static_cast<double>(p.m * p.n * p.k);
  return r;
}

/// The peers, bound to `p` but with `result` as output. Exits if a peer's result differs from p.c, because its time
/// would be meaningless.
inline std::vector<contender> contenders_of(const std::vector<library>& peers, const product& p, const buffer& result) {
  std::vector<contender> contenders;
  for (const library& peer : peers) {
    contenders.push_back({peer.name, peer.version, peer.isa, {}});
    if (!peer.bind) continue;
    product theirs = p;
    theirs.c = result.data();
    const call run = contenders.back().run = peer.bind(theirs);
    for (long i = 0; i < result.size(); ++i) result[i] = 0;
    run();
    const double tolerance = 4e-7 * static_cast<double>(p.k) + 1e-6;
    for (long i = 0; i < result.size(); ++i)
      if (!(std::fabs(static_cast<double>(result[i]) - static_cast<double>(p.c[i])) <= tolerance)) {
        std::fprintf(stderr, "%s differs from lamina at %ld\n", peer.name.c_str(), i);
        std::exit(1);
      }
  }
  return contenders;
}

}  // namespace bench::sgemm
