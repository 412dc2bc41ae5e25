// The weights of a saved net: a net that loads can run.
#include <cstdlib>
#include <memory>
#include <string>

#include "examine.h"
#include "scratch.h"

import lamina;

using namespace lamina;
using namespace lamina::ir;

namespace {

// Two states of different types, so that runs spend their time on the weights, not on the structure.
struct saved {
  scratch_folder folder;
  std::shared_ptr<const plan> run;
  saved() {
    program p;
    const value x = p.input("x", {dtype::float32, {3, 2}});
    p.output("y", x * p.state("w", {dtype::float32, {2}}) + cast<float>(p.state("n", {dtype::int64, {}})));
    parameter_store states;
    states.add("w", any_tensor(vector<float>{0.5f, -2}), state_role::parameter);
    states.add("n", any_tensor(tensor_type{dtype::int64, {}}), state_role::statistic, false);
    save_net(folder / "net", p, states);
    // LAMINA_FUZZ_SEED: writes the fitting weights there as a seed corpus.
    if (const char* to = std::getenv("LAMINA_FUZZ_SEED")) std::filesystem::copy_file(folder / "net.safetensors", to);
    const shape extents[] = {{3, 2}};
    run = make_plan(p, extents, target_isa());
  }
};

}  // namespace

void examine(const unsigned char* data, unsigned long size) {
  static const saved net;
  write_bytes(net.folder / "net.safetensors", data, size);
  try {
    auto loaded = load_net(net.folder / "net");
    executor run(net.run, &loaded.states);
    const float in[6]{};
    float out[6]{};
    run.bind_input(0, in);
    run.bind_output(0, out);
    run.run();
  } catch (const file_error&) {
  } catch (const unsupported_error&) {}
}
