// The weights of a saved net: a net that loads can be run.
#include <cstdlib>
#include <memory>
#include <string>

#include "examine.h"
#include "scratch.h"

import lamina;

using namespace lamina;

namespace {

constexpr auto small = sequential(nn::linear{.in = 2, .out = 2}, nn::batch_norm1d{2}, nn::relu{});

struct saved {
  scratch_folder folder;
  std::shared_ptr<const plan> run;
  saved() {
    save_net(folder / "net", model<small, input<"N", 2>>({.seed = 1}));
    // With LAMINA_FUZZ_SEED the weights that fit are written there: what a corpus begins with.
    if (const char* to = std::getenv("LAMINA_FUZZ_SEED")) std::filesystem::copy_file(folder / "net.safetensors", to);
    const shape extents[] = {{3, 2}};
    run = make_plan(*load_net(folder / "net").program, extents, target_isa());
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
  } catch (const unsupported_error&) {
  }
}
