// Softmax and layer normalization (problem 8) over the rows of matrices.
#include "rows.h"

#include <cmath>

#include "arguments.h"

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  const rows::library ours = rows::lamina();
  const std::vector<rows::library> peers = {rows::onednn(), rows::eigen()};

  report all;
  for (const auto of : {rows::kind::softmax, rows::kind::layer_norm}) {
    std::vector<row> of_kind;
    for (const std::string& line : lines_of(a.shapes)) {
      long count = 0, length = 0;
      std::istringstream(line) >> count >> length;
      const buffer in(count * length), gain(length), bias(length), out(count * length), other(count * length);
      const auto bound = [&](const rows::library& library, const buffer& to) {
        return library.bind(of, {in.data(), gain.data(), bias.data(), to.data(), count, length});
      };
      const call run = bound(ours, out);
      run();
      std::vector<contender> contenders;
      for (const rows::library& peer : peers) {
        contenders.push_back({peer.name, peer.version, peer.isa, {}});
        if (!peer.bind) continue;
        bound(peer, other)();
        for (long i = 0; i < out.size(); ++i)
          if (!(std::fabs(static_cast<double>(other[i]) - static_cast<double>(out[i])) <= 1e-5)) {
            std::fprintf(stderr, "%s differs from lamina at %ld\n", peer.name.c_str(), i);
            return 1;
          }
        contenders.back().run =
            bound(peer, out);  // same output buffer as lamina's, because its address affects the time a lot
      }
      row r;
      r.problem = std::string(of == rows::kind::softmax ? "8 softmax " : "8 layer normalization ") + program_isa_name;
      r.shape = std::to_string(count) + " rows of " + std::to_string(length);
      r.isa = program_isa_name;
      r.unit = "us";
      measure(r, run, contenders, 1e-6);
      show(r);
      of_kind.push_back(std::move(r));
    }
    row mean = geomean(of_kind, "geomean");
    mean.floor = "ratio >= 1.0";
    mean.goal = "ratio >= 1.3";
    show(mean);
    for (row& r : of_kind) all.add(std::move(r));
    all.add(std::move(mean));
  }
  all.write(a.out);
}
