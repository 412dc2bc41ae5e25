// Int8 products (problem 24): weights packed once, results requantized to int8 with a scale per column.
#include <cstdlib>
#include <vector>

#include "arguments.h"
#include "int8.h"

namespace {

using namespace bench;

/// Exits if a peer's result differs from lamina's, because its time would be meaningless. Sums are exact; rounding may
/// differ by one.
void expect_equal(const std::vector<std::int8_t>& ours, const std::vector<std::int8_t>& theirs) {
  for (std::size_t i = 0; i < ours.size(); ++i)
    if (std::abs(ours[i] - theirs[i]) > 1) {
      std::fprintf(stderr, "oneDNN differs from lamina at %zu: %d, not %d\n", i, theirs[i], ours[i]);
      std::exit(1);
    }
}

row measured(const std::string& problem, long m, long n, long k) {
  const auto size = [](long count) { return static_cast<std::size_t>(count); };
  std::vector<std::int8_t> x(size(m * k)), w(size(k * n)), y(size(m * n)), peer_y(y.size());
  std::vector<std::int32_t> bias(size(n));
  std::vector<float> scale(size(n));
  unsigned state = 1;
  const auto byte = [&state] { return static_cast<std::int8_t>((state = state * 1664525u + 1013904223u) >> 24); };
  for (auto& one : x) one = byte();
  for (auto& one : w) one = byte();
  for (std::size_t j = 0; j < bias.size(); ++j) {
    bias[j] = 64 * byte();
    scale[j] = 0.004f / std::sqrt(static_cast<float>(k)) * (1 + static_cast<float>(j % 7) / 8);
  }
  const int8::product p{m, n, k, x.data(), w.data(), bias.data(), scale.data(), y.data()};
  auto theirs = p;
  theirs.y = peer_y.data();
  const contender ours = int8::lamina(p), peer = int8::onednn(theirs);
  ours.run();
  if (peer.run) peer.run(), expect_equal(y, peer_y);

  row r;
  r.problem = problem;
  r.shape = std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k);
  r.isa = program_isa_name;
  r.unit = "us";
  measure(r, ours.run, {peer}, 1e-6, {.budget_seconds = 1});
  show(r);
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  const std::string problem = std::string("24 int8 products ") + program_isa_name;
  report all;
  for (const std::string& line : lines_of(a.shapes)) {
    long m = 0, n = 0, k = 0;
    std::istringstream(line) >> m >> n >> k;
    all.add(measured(problem, m, n, k));
  }
  row mean = geomean(all.rows(), "geomean");
  mean.floor = "ratio >= 0.8";
  mean.goal = "ratio >= 1.0";
  show(mean);
  all.add(std::move(mean));
  all.write(a.out);
}
