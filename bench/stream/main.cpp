// Streams (problem 10): streaming nets, one sample at a time. The peer's time is a published result,
// scaled by the ratio of the FMA probes of both machines.
#include "arguments.h"
#include "measure.h"
#include "streams.h"

int main(int count, char** values) {
  using namespace bench;
  const arguments a = parse(count, values);
  report all;
  std::vector<row> rows;
  for (int i = 0; i < streams::problem_count; ++i) {
    const auto& p = streams::problems[i];
    row r;
    r.problem = "10 streams";
    r.shape = p.name;
    r.unit = "ns a step";
    measure(r, p.step, {}, 1e-9);
    if (p.published == 0) {
      all.add(std::move(r));
      continue;
    }
    const double gflops = fma_probe_flops / (*r.ours / *r.probe * 1e-9) / 1e9;
    const double scaled = p.published * 117 / gflops;
    r.peers.push_back({"the best static library, published", "Zen 4, scaled by the probe", {}, scaled, {}});
    r.ratio = scaled / *r.ours;
    rows.push_back(r);
  }
  for (const row& r : rows) all.add(r);
  row mean = geomean(rows, "geomean");
  mean.floor = "ratio >= 1.0";
  mean.goal = "ratio >= 1.3";
  all.add(std::move(mean));
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
