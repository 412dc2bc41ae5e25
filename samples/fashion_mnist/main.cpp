// Trains LeNet on Fashion-MNIST, saves it, loads the file, and serves it with one and with two workers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "probe.h"
#include "report.h"
import lamina;

using namespace lamina;

inline constexpr auto lenet = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{},
    nn::max_pool2d{.kernel_size = 2}, nn::flatten{}, nn::linear{.in_features = 400, .out_features = 120}, nn::relu{},
    nn::linear{.in_features = 120, .out_features = 84}, nn::relu{}, nn::linear{.in_features = 84, .out_features = 10});
using image_input = input<"N", 1, 28, 28>;
using lenet_model = model<lenet, image_input>;
using lenet_factory = reference_factory<lenet, image_input>;

struct stopwatch {
  std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now();
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
};

// Trains until all epochs are done or the user presses Ctrl-C.
training_report learn(lenet_model& net, const image_dataset& train, const image_dataset& test, const options& o,
                      const std::string& checkpoint) {
  interrupt_guard interrupt;
  auto go_on = [&](const training_progress&) { return !interrupt.raised(); };
  return fit(net, train, loss::cross_entropy{}, optim::adam{.lr = o.lr},
             {.epochs = o.epochs,
              .batch = o.batch,
              .schedule = optim::one_cycle{},
              .validation = test,
              .observer = observers({progress_bar(), go_on}),
              .seed = o.seed,
              .checkpoint = checkpoint,
              .resume = o.resume});
}

struct served {
  std::vector<std::int64_t> classes;
  std::size_t bytes_per_reference = 0;
  double images_per_s = 0;
};

// Classifies a data set: each worker has its own reference model and takes its share of the images.
served serve(const lenet_factory& factory, const image_dataset& data, int workers) {
  served all{std::vector<std::int64_t>(static_cast<std::size_t>(data.size()))};
  const stopwatch watch;
  parallel_workers(workers, [&](int worker) {
    auto ref = factory.create();
    auto at = static_cast<std::size_t>(worker);
    for (auto [image, label] : shard(data, worker, workers)) {
      all.classes[at] = item(argmax(ref(image)));
      at += static_cast<std::size_t>(workers);
    }
    if (worker == 0) all.bytes_per_reference = ref.bytes();
  });
  all.images_per_s = static_cast<double>(data.size()) / watch.seconds();
  return all;
}

// Interleaves one worker, two workers and the probe, so that other load on the machine affects all three alike; keeps
// the best of three rounds.
served measure(const lenet_factory& factory, const image_dataset& data, run_figures& figures) {
  served last;
  for (int turn = 0; turn < 3; ++turn)
    for (int workers : {1, 2}) {
      last = serve(factory, data, workers);
      auto& served_best = figures.serve_images_per_s[workers - 1];
      auto& probe_best = figures.fma_rate[workers - 1];
      served_best = std::max(served_best, last.images_per_s);
      probe_best = std::max(probe_best, fma_rate(workers));
    }
  figures.bytes_per_reference = last.bytes_per_reference;
  return last;
}

// Plot of loss and accuracy per epoch.
std::string curve_of(const training_report& training, const options& o) {
  message_text summary;
  summary << "Adam, one cycle with a peak of " << o.lr << ", batches of " << o.batch << ", seed " << o.seed;
  return learning_curve(training, "LeNet on Fashion-MNIST", summary.view(), "Loss (cross entropy)");
}
// Sheet of the worst mistakes.
std::string sheet_of(lenet_model& net, const image_dataset& test) {
  const auto wrong = wrong_predictions(net, test);
  const std::size_t shown = std::min<std::size_t>(wrong.size(), 40);
  return picture_sheet(test, {wrong.data(), shown},
                       {.title = "The worst mistakes on Fashion-MNIST",
                        .subtitle = std::to_string(shown) + " of " + std::to_string(wrong.size()) +
                                    " mistakes on the test images, largest loss first. Red: the predicted class and "
                                    "its probability."});
}

void write_text(const std::string& path, const std::string& text) {
  write_file_atomically(path, [&](writer& file) { file.write(text); });
}

int run(const options& o) {
  const stopwatch watch;
  const std::string weights = o.out + "/lenet.safetensors", checkpoint = o.out + "/checkpoint.safetensors",
                    curve = o.out + "/learning_curve.svg", sheet = o.out + "/mistakes.svg",
                    report = o.out + "/report.json";
  prepare_output(o.out, {weights, checkpoint, curve, sheet, report});

  auto train = datasets::fashion_mnist(data_split::train, o.data),
       test = datasets::fashion_mnist(data_split::test, o.data);
  lenet_model net({.seed = o.seed, .threads = o.threads});
  auto training = learn(net, train, test, o, checkpoint);
  remove_results({curve, sheet, report});  // of an earlier run, whose weights are overwritten now
  save(net, weights);
  if (training.stopped) {
    std::cout << "\ninterrupted; the weights so far are in " << weights << ", and --resume continues from here\n";
    return 130;
  }
  auto factory = lenet_factory::from_file(weights, {.optimize = true});
  run_figures figures{.train_images_per_s = training.images_per_second,
                      .shared_bytes = factory.shared_bytes(),
                      .seed = o.seed,
                      .epochs = o.epochs,
                      .images = test.size(),
                      .threads = o.threads};
  auto result = measure(factory, test, figures);

  const std::vector<std::int64_t> label(test.labels().begin(), test.labels().end());
  std::size_t right = 0;
  for (std::size_t i = 0; i < label.size(); ++i) right += result.classes[i] == label[i];
  figures.test_accuracy = static_cast<double>(right) / static_cast<double>(test.size());
  figures.confused = max_confused(label, result.classes, 5);
  write_text(curve, curve_of(training, o));
  write_text(sheet, sheet_of(net, test));
  figures.seconds = watch.seconds();
  write_text(report, json(figures));
  std::filesystem::remove(checkpoint);  // kept up to here so that --resume can finish the run
  std::cout << table(figures, test.class_names()) << "\nwritten to " << o.out
            << ": lenet.safetensors learning_curve.svg mistakes.svg report.json\n";
  return 0;
}

int main(int argc, char** argv) {
  try {
    const int status = run(parse_options(argc, argv));
    if (!std::cout.flush() || std::ferror(stdout)) throw std::runtime_error("cannot write to standard output");
    return status;
  } catch (const std::bad_alloc&) { std::fputs("error: out of memory\n", stderr); } catch (const std::exception& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
  }
  return 2;
}
