// Exp and tanh (problem 7): time and maximum error.
#include "math.h"

#include "arguments.h"
#include "float_error.h"

namespace {

std::string digits(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace bench;
  const arguments a = parse(argc, argv);
  const math::library ours = math::lamina();
  const std::vector<math::library> peers = {math::xsimd(), math::sleef_1(), math::sleef_35(), math::onednn(),
                                            math::eigen()};
  constexpr long n = 4096;
  report all;
  for (const std::string& line : lines_of(a.shapes)) {
    std::string name;
    double low = 0, high = 0;
    std::istringstream(line) >> name >> low >> high;
    const buffer in(n), out(n), peer_out(n);
    for (long i = 0; i < n; ++i) in[i] = static_cast<float>(low + (high - low) * (static_cast<double>(in[i]) + 0.5));

    const math::function mine = ours.find(name);
    std::vector<math::function> functions = {mine};
    std::vector<contender> contenders;
    for (const math::library& peer : peers) {
      functions.push_back(peer.find ? peer.find(name) : math::function());
      if (peer.find && !functions.back()) {  // this library has no such function
        functions.pop_back();
        continue;
      }
      contenders.push_back({peer.name, peer.version, peer.isa, {}});
      if (functions.back())
        contenders.back().run = [f = functions.back(), &in, &peer_out] { f(in.data(), peer_out.data(), n); };
    }
    const std::string problem = "7 " + name + " " + program_isa_name;
    row time;
    time.problem = problem;
    time.shape = "4096 floats in [" + std::to_string(low).substr(0, 5) + ", " + std::to_string(high).substr(0, 4) + "]";
    time.isa = program_isa_name;
    time.unit = "ns an element";
    time.floor = "ratio > 1.0";
    sampling often;
    often.pairs = 25;
    measure(time, [&] { mine(in.data(), out.data(), n); }, contenders, 1e-9 * n, often);
    show(time);

    const std::uint64_t stride = quick ? 65521 : 509;
    const float_error::steps each = a.exhaustive ? float_error::steps{} : float_error::steps{stride, stride};
    const std::vector<float_error::worst> errors =
        float_error::sweep(name == "exp" ? float_error::exp : float_error::tanh, functions, each);
    row error;
    error.problem = problem + ", largest error";
    error.shape = a.exhaustive ? "all 2^32 floats"
                  : quick      ? "65 thousand floats of all sizes"
                               : "8 million floats of all sizes";
    error.isa = program_isa_name;
    error.unit = "ULP";
    error.ours = errors[0].error;
    for (std::size_t p = 0; p < contenders.size(); ++p) {
      error.peers.push_back({contenders[p].name, contenders[p].version, contenders[p].isa, {}, {}});
      if (!contenders[p].run) continue;
      error.peers.back().value = errors[p + 1].error;
      error.ratio =
          std::min(error.ratio.value_or(errors[p + 1].error / errors[0].error), errors[p + 1].error / errors[0].error);
      if (contenders[p].name == "xsimd")
        error.floor = "ours <= " + std::to_string(errors[p + 1].error);  // lamina's function replaces xsimd's
      if (time.ratio && *time.peers[p].value <= *time.ratio * *time.ours * 1.0001)
        time.note = "the fastest peer, " + contenders[p].name + ", errs by up to " + digits(errors[p + 1].error) +
                    " ULP, lamina by " + digits(errors[0].error);
    }
    error.goal = "ours <= 1";
    show(error);
    all.add(std::move(time));
    all.add(std::move(error));
  }
  all.write(a.out);
}
