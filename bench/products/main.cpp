// Inference products (problem 3): few rows times weights that are packed once if the library can; for a single row, the
// share of the read bandwidth.
#include "../sgemm/sgemm.h"
#include "arguments.h"

namespace {

using namespace bench;

/// Bandwidth at which a product reads its weights, in percent of plain reads of the same size.
row bandwidth(row r, const call& product, long weights) {
  const buffer read((weights + 1023) / 1024 * 1024);
  const comparison c = compare(product, {[&read] { read_probe(read.data(), read.size()); }});
  r.problem += ", share of read bandwidth";
  r.unit = "%";
  r.share.reset();
  r.ours = 100 * c.pairs[0].peer.best / c.pairs[0].ours.best;
  r.goal = "ours >= 95";
  return r;
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  const sgemm::library ours = sgemm::lamina();
  const std::vector<sgemm::library> peers = {sgemm::onednn(), sgemm::openblas(), sgemm::blis(), sgemm::eigen()};

  report all;
  std::vector<row> shares;
  for (const std::string& line : lines_of(a.shapes)) {
    long m = 0, n = 0, k = 0;
    std::istringstream(line) >> m >> n >> k;
    const buffer x(m * k), y(k * n), z(m * n), peer_z(m * n);
    const sgemm::product p{m, n, k, x.data(), y.data(), z.data(), true};
    const call run = ours.bind(p);
    run();
    row r = sgemm::row_of(std::string("3 inference products ") + program_isa_name, p, "us");
    if (m == 1) {
      shares.push_back(bandwidth(r, run, n * k));
      show(shares.back());
    }
    measure(r, run, sgemm::contenders_of(peers, p, peer_z), 1e-6);
    show(r);
    all.add(std::move(r));
  }
  row mean = geomean(all.rows(), "geomean");
  mean.floor = "ratio >= 1.0";
  mean.goal = "ratio >= 1.1";
  show(mean);
  all.add(std::move(mean));
  for (row& r : shares) all.add(std::move(r));
  all.write(a.out);
}
