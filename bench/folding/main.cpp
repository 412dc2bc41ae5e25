// Folded batch norms (problem 30): reference models with batch norms folded into weights, against unfolded models.
#include "arguments.h"
#include "folding.h"
#include "measure.h"

int main(int count, char** values) {
  using namespace bench;
  const arguments a = parse(count, values);
  report all;
  const struct {
    const char* shape;
    void (*folded)();
    void (*plain)();
  } problems[] = {{"residual block, 64 x 56 x 56", &folding::residual_folded, &folding::residual_plain},
                  {"bottleneck, 24 x 56 x 56, expansion 6", &folding::bottleneck_folded, &folding::bottleneck_plain}};
  for (const auto& p : problems) {
    row r;
    r.problem = "30 folded batch norms";
    r.shape = p.shape;
    r.unit = "us";
    r.floor = "ratio >= 1.0";
    r.goal = "ratio >= 1.05";
    measure(r, p.folded, {{"computed in each run", "the same net", {}, p.plain}}, 1e-6);
    all.add(std::move(r));
  }
  for (const row& r : all.rows()) show(r);
  all.write(a.out);
}
