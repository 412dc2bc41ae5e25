// Chains (problem 6): elementwise chains against Eigen's expressions, and against the same operations one by one.
#include "chain.h"

#include <cmath>

#include "arguments.h"

namespace {

using namespace bench;

void check(const chain::library& peer, const buffer& theirs, const buffer& ours) {
  for (long i = 0; i < ours.size(); ++i)
    if (!(std::fabs(static_cast<double>(theirs[i]) - static_cast<double>(ours[i])) <= 1e-6)) {
      std::fprintf(stderr, "%s differs from lamina at %ld\n", peer.name.c_str(), i);
      std::exit(1);
    }
}

}  // namespace

int main(int argc, char** argv) {
  const arguments a = parse(argc, argv);
  const chain::library ours = chain::fused(), eigen = chain::eigen(), unfused = chain::unfused();
  const std::string problem = std::string("6 chains ") + program_isa_name;

  report all;
  std::vector<row> to_eigen, to_unfused;
  for (const std::string& line : lines_of(a.shapes)) {
    const long n = std::stol(line);
    const buffer x(n), y(n), z(n), out(n), peer_out(n);
    for (int operations = chain::shortest; operations <= chain::longest; ++operations) {
      const call run = ours.bind(operations, {x.data(), y.data(), z.data(), out.data(), n});
      run();
      const auto against = [&](const chain::library& peer, const std::string& name) {
        row r;
        r.problem = name;
        r.shape = std::to_string(operations) + " operations, " + std::to_string(n) + ": " +
                  chain::formula_text[operations - chain::shortest];
        r.isa = program_isa_name;
        r.unit = "us";
        contender c{peer.name, peer.version, peer.isa, {}};
        if (peer.bind) {
          peer.bind(operations, {x.data(), y.data(), z.data(), peer_out.data(), n})();
          check(peer, peer_out, out);
          // same output buffer as lamina's, because its address affects the time a lot
          c.run = peer.bind(operations, {x.data(), y.data(), z.data(), out.data(), n});
        }
        measure(r, run, {c}, 1e-6);
        show(r);
        return r;
      };
      all.add(to_eigen.emplace_back(against(eigen, problem)));
      row r = against(unfused, problem + ", fused over unfused");
      if (n >= 1 << 20) to_unfused.push_back(r);
      all.add(std::move(r));
    }
  }
  row mean = geomean(to_eigen, "geomean");
  mean.floor = "ratio >= 1.0";
  mean.goal = "ratio >= 1.1";
  show(mean);
  all.add(std::move(mean));
  if (!to_unfused.empty()) {
    row passes = geomean(to_unfused, "geomean from 1048576 elements");
    passes.floor = "ratio >= 1.8";
    show(passes);
    all.add(std::move(passes));
  }
  all.write(a.out);
}
