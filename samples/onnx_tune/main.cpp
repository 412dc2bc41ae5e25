// Fine-tunes a classifier from an ONNX file on new pictures: the convolutions are frozen, the dense layers learn, and
// the result is an ONNX file again.
//
//   onnx_tune OUT.onnx [MODEL.onnx]
//
// MODEL maps 28 x 28 pictures to logits of ten classes. Without MODEL the program first trains one, a LeNet on
// Fashion-MNIST. The new pictures are the negatives of these images.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

import lamina;
import lamina.onnx;

using namespace lamina;

namespace {

constexpr auto lenet =
    sequential(sublayer<"conv1">(nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}),
               nn::relu{}, nn::max_pool2d{.kernel_size = 2},
               sublayer<"conv2">(nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}), nn::relu{},
               nn::max_pool2d{.kernel_size = 2}, nn::flatten{},
               sublayer<"fc1">(nn::linear{.in_features = 400, .out_features = 64}), nn::relu{},
               sublayer<"fc2">(nn::linear{.in_features = 64, .out_features = 10}));

/// The first `count` pictures of a set, or their negatives.
image_dataset part_of(const image_dataset& all, std::int64_t count, bool negative) {
  image_dataset::images_type images(count, 1, 28, 28);
  vector<std::int64_t> labels(count);
  auto to = images.writable();
  for (std::size_t i = 0; i < to.size(); ++i) {
    const std::uint8_t byte = all.bytes().data()[i];
    to[i] = negative ? static_cast<std::uint8_t>(255 - byte) : byte;
  }
  for (std::int64_t i = 0; i < count; ++i) labels.writable()[static_cast<std::size_t>(i)] = all.label(i);
  return {images, labels, all.class_names()};
}

void make_model(const std::string& file, const image_dataset& pictures) {
  model<lenet, input<"N", 1, 28, 28>> net({.seed = 1});
  fit(net, pictures, loss::cross_entropy{}, optim::adam{.lr = 2e-3}, {.epochs = 2});
  const std::string beside = file + ".net";
  save_net(beside, net);
  onnx::save(file, load_net(beside));
  const auto files = files_of_net(beside);
  for (const auto& f : {files.structure, files.weights}) std::filesystem::remove(f);
}

/// Whether the frozen parameters are bit-identical to those in the file.
bool kept(const saved_net& before, const auto& states) {
  for (const auto& p : before.states)
    if (p.name().starts_with("conv")) {
      const auto a = p.value().elements<float>(), b = states.find(p.name())->value().template elements<float>();
      if (!std::equal(a.begin(), a.end(), b.begin(), b.end())) return false;
    }
  return true;
}

int tune(const std::string& out, std::string from) {
  const auto training = datasets::fashion_mnist(data_split::train),
             held_out = datasets::fashion_mnist(data_split::test);
  if (from.empty()) make_model(from = out + ".before.onnx", part_of(training, 6000, false));

  saved_net net = onnx::load(from);
  std::size_t learning = 0;
  for (auto& p : net.states) {
    p.trainable(p.trainable() && !p.name().starts_with("conv"));
    learning += p.trainable();
  }
  auto core = core_of(std::move(net));
  const auto negatives = part_of(training, 6000, true), test = part_of(held_out, 2000, true);
  const double before = evaluate(core, test, loss::cross_entropy{}).accuracy;
  fit(core, negatives, loss::cross_entropy{}, optim::adam{.lr = 2e-3}, {.epochs = 3});
  const double after = evaluate(core, test, loss::cross_entropy{}).accuracy;

  const std::string beside = out + ".net";
  save_net(beside, core.inference(), core.parameters());
  onnx::save(out, load_net(beside));
  const auto files = files_of_net(beside);
  for (const auto& f : {files.structure, files.weights}) std::filesystem::remove(f);

  auto again = core_of(onnx::load(out));  // reload the file as another program would
  const double read = evaluate(again, test, loss::cross_entropy{}).accuracy;
  const bool same = kept(onnx::load(from), core.parameters());
  std::printf("%zu parameters trained; accuracy on negatives %.1f %% before, %.1f %% after, %.1f %% from %s\n",
              learning, 100 * before, 100 * after, 100 * read, out.c_str());
  std::printf("the convolutions are %s\n", same ? "unchanged" : "CHANGED");
  return after > before + 0.1 && after > 0.7 && read == after && same ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2 || count > 3) {
    std::fprintf(stderr, "usage: onnx_tune OUT.onnx [MODEL.onnx]\n");
    return 2;
  }
  try {
    return tune(arguments[1], count > 2 ? arguments[2] : "");
  } catch (const std::exception& e) {
    std::fprintf(stderr, "onnx_tune: %s\n", e.what());
    return 2;
  }
}
