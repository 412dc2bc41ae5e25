// Small products (problem 4): square products with shapes known at compile time, against Eigen's fixed-size matrices.
#include "../sgemm/sgemm.h"
#include "arguments.h"

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  const sgemm::library ours = sgemm::lamina();

  report all;
  for (const std::string& line : lines_of(a.shapes)) {
    const long n = std::stol(line);
    const buffer x(n * n), y(n * n), z(n * n), peer_z(n * n);
    const sgemm::product p{n, n, n, x.data(), y.data(), z.data()};
    const call run = ours.bind(p);
    run();
    row r = sgemm::row_of(std::string("4 small products ") + program_isa_name, p, "ns");
    measure(r, run, sgemm::contenders_of({sgemm::eigen_fixed()}, p, peer_z), 1e-9);
    show(r);
    all.add(std::move(r));
  }
  row mean = geomean(all.rows(), "geomean");
  mean.floor = "ratio >= 1.0";
  mean.goal = "ratio >= 1.2";
  show(mean);
  all.add(std::move(mean));
  all.write(a.out);
}
