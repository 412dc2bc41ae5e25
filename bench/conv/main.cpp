// Convolution (problem 5): convolutions of known networks with bias and ReLU.
#include "conv.h"

#include <cmath>

#include "arguments.h"

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  const conv::library ours = conv::lamina(), peer = conv::onednn();

  report all;
  std::vector<row> depthwise;
  for (const std::string& line : lines_of(a.shapes)) {
    conv::problem p{};
    std::istringstream fields(line);
    fields >> p.channels >> p.size >> p.out_channels >> p.kernel >> p.stride >> p.padding >> p.groups >> std::ws;
    row r;
    std::getline(fields, r.shape);
    const long outputs = p.out_channels * p.out_size() * p.out_size();
    const buffer in(p.channels * p.size * p.size), bias(p.out_channels);
    const buffer weight(p.out_channels * (p.channels / p.groups) * p.kernel * p.kernel);
    p.in = in.data(), p.weight = weight.data(), p.bias = bias.data();

    const conv::bound mine = ours.bind(p);
    contender other{peer.name, peer.version, peer.isa, {}};
    if (peer.bind) {
      const conv::bound theirs = peer.bind(p);
      const buffer x(outputs), y(outputs);
      mine.run();
      mine.fetch(x.data());
      theirs.run();
      theirs.fetch(y.data());
      const double tolerance = 1e-6 * std::sqrt(static_cast<double>(weight.size())) + 1e-5;
      for (long i = 0; i < outputs; ++i)
        if (!(std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])) <= tolerance)) {
          std::fprintf(stderr, "%s: %s differs from lamina at %ld: %g, %g\n", r.shape.c_str(), peer.name.c_str(), i,
                       static_cast<double>(y[i]), static_cast<double>(x[i]));
          return 1;
        }
      other.run = theirs.run;
    }
    r.problem = std::string("5 convolution ") + program_isa_name;
    r.isa = program_isa_name;
    r.unit = "us";
    r.floor = "ratio >= 0.85";
    r.share = p.flops();
    measure(r, mine.run, {other}, 1e-6);
    show(r);
    if (p.groups > 1 && p.groups == p.channels) depthwise.push_back(r);
    all.add(std::move(r));
  }
  row mean = geomean(all.rows(), "geomean");
  mean.floor = "ratio >= 1.0";
  mean.goal = "ratio >= 1.5";
  row narrow = geomean(depthwise, "geomean of depthwise");
  narrow.floor.clear();
  narrow.goal = "ratio >= 1.5";
  show(mean);
  show(narrow);
  all.add(std::move(mean));
  all.add(std::move(narrow));
  all.write(a.out);
}
