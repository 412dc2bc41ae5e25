// Sgemm (problems 1 and 2) against the available libraries, all on one instruction set.
#include "sgemm.h"

#include "arguments.h"

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  const bool wide = program_isa == lamina::kernels::isa::avx512;
  const std::string problem = wide ? "1 sgemm avx512" : "2 sgemm avx2";
  const sgemm::library ours = sgemm::lamina();
  const std::vector<sgemm::library> peers = {sgemm::onednn(), sgemm::openblas(), sgemm::blis(), sgemm::eigen()};

  report all;
  std::vector<row> large;
  for (const std::string& line : lines_of(a.shapes)) {
    long m = 0, n = 0, k = 0;
    std::istringstream(line) >> m >> n >> k;
    const buffer x(m * k), y(k * n), z(m * n), peer_z(m * n);
    const sgemm::product p{m, n, k, x.data(), y.data(), z.data()};
    const call run = ours.bind(p);
    run();
    const std::vector<contender> contenders = sgemm::contenders_of(peers, p, peer_z);
    row r = sgemm::row_of(problem, p, "us");
    measure(r, run, contenders, 1e-6);
    show(r);
    if (m >= 256) large.push_back(r);
    all.add(std::move(r));
  }
  row mean = geomean(all.rows(), "geomean");
  mean.floor = "ratio >= 0.97";
  mean.goal = "ratio >= 1.02";
  show(mean);
  all.add(std::move(mean));
  if (wide && !large.empty()) {
    row share;
    share.problem = problem + ", least share of the FMA peak";
    share.shape = "n >= 256";
    share.isa = program_isa_name;
    share.unit = "%";
    share.ours = 100.0;
    for (const row& r : large) share.ours = std::min(*share.ours, 100 * r.share.value_or(0));
    share.floor = "ours >= 92";
    show(share);
    all.add(std::move(share));
  }
  all.write(a.out);
}
