// Operations of MetaNN's benchmark (problem 29). MetaNN's results are those that were published: medians of its own
// benchmark on another machine, with the same compiler flags.
#include "arguments.h"
#include "calls.h"
#include "measure.h"

int main(int count, char** values) {
  using namespace bench;
  const arguments a = parse(count, values);
  report all;
  const struct {
    const char* shape;
    void (*run)();
    double unit;
    const char* name;
    double theirs;
    const char* floor;
  } problems[] = {
      {"dot 512 x 512 x 512", &metann::dot_512, 1e-6, "us", 2 * 512. * 512 * 512 / 1.6e9 * 1e6, "ratio >= 50"},
      {"add of a million floats", &metann::add_million, 1e-6, "us", 5500, "ratio >= 10"},
      {"transpose of a million floats", &metann::transpose_million, 1e-6, "us", 6600, "ratio >= 10"},
      {"a tiny evaluate", &metann::evaluate_tiny, 1e-9, "ns", 310, "ratio >= 3"}};
  for (const auto& p : problems) {
    row r;
    r.problem = "29 MetaNN's own operations";
    r.shape = p.shape;
    r.unit = p.name;
    r.floor = p.floor;
    measure(r, p.run, {}, p.unit);
    r.peers.push_back({"MetaNN", "72c21a4, as measured elsewhere", {}, p.theirs, {}});
    r.ratio = p.theirs / *r.ours;
    all.add(std::move(r));
  }
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
