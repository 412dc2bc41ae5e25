// Low-rank adapters (LoRA): a net that classifies the points of three spirals is loaded from its file and learns
// spirals that turn the other way, with two thin factors for each weight matrix. The matrices themselves do not change.
//
//   lora [FOLDER]      writes spirals.json and .safetensors, the net, and adapters.safetensors
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
import lamina;

using namespace lamina;

namespace {

constexpr auto net = sequential(sublayer<"fc1">(nn::linear{.in_features = 2, .out_features = 64}), nn::tanh{},
                                sublayer<"fc2">(nn::linear{.in_features = 64, .out_features = 64}), nn::tanh{},
                                sublayer<"head">(nn::linear{.in_features = 64, .out_features = 3}));

// Points of three spiral arms that turn left or right (`turn`); the label is the number of the arm.
struct spirals {
  std::int64_t count, seed;
  float turn;
  std::int64_t size() const { return count; }
  std::pair<std::array<float, 2>, std::int64_t> operator[](std::int64_t i) const {
    const philox random(seed, 0, i);
    const float r = 0.1f + 0.9f * random.uniform(0), noise = 0.4f * (random.uniform(1) - 0.5f);
    const float angle = turn * (4 * r + noise) + 2.0944f * static_cast<float>(i % 3);
    return {{r * std::cos(angle), r * std::sin(angle)}, i % 3};
  }
};

template <class Net> double accuracy(Net& of, const spirals& data) {
  return evaluate(of, data, metric::accuracy{})[0].value;
}
// Whether all parameters of the file are bit-identical to those of the net.
bool kept(const saved_net& file, const parameter_store& now) {
  bool same = true;
  for (const parameter& p : file.states)
    if (p.role() == state_role::parameter)
      same &= std::memcmp(p.value().data(), now.find(p.name())->value().data(), p.value().bytes()) == 0;
  return same;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const std::string file = (folder / "spirals").string(), adapters = (folder / "adapters.safetensors").string();
  const spirals left{600, 1, 1}, right{600, 2, -1}, right_test{300, 3, -1};

  model<net, input<"N", 2>> base({.seed = 1});
  fit(base, left, loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.epochs = 40, .batch = 30});
  save_net(file, base);

  auto tuned = core_of(load_net(file));
  const double before = accuracy(tuned, right_test);
  add_lora(tuned, {"*.weight"}, {.rank = 2, .alpha = 4});
  fit(tuned, right, loss::cross_entropy{}, optim::adam{.lr = 0.01}, {.epochs = 40, .batch = 30});
  const double after = accuracy(tuned, right_test);
  save_lora(tuned, adapters);
  const bool same = kept(load_net(file), tuned.parameters());

  auto served = core_of(load_net(file));  // load net and adapters as another program would
  load_lora(served, adapters);
  merge_lora(served);  // from here on inference costs the same as without adapters
  const double merged = accuracy(served, right_test);
  std::printf("accuracy on spirals that turn the other way: %.1f %% before, %.1f %% with adapters, %.1f %% merged\n",
              100 * before, 100 * after, 100 * merged);
  std::printf("%s: the weights %s, the adapters have %d bytes\n", file.c_str(), same ? "are unchanged" : "were changed",
              static_cast<int>(std::filesystem::file_size(adapters)));
  return same && before < 0.6 && after > 0.9 && merged > 0.9 ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "lora: %s\n", e.what());
  return 2;
}
