// lamina train: a saved net on images with classes.
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

import lamina;

#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

any_tensor read_array(const std::string& path) { return path.ends_with(".npy") ? read_npy(path) : read_idx(path); }

// Images of bytes [N, H, W] or [N, C, H, W] and a class each.
image_dataset read_data(const train_arguments& o, const std::string& images, const std::string& labels) {
  any_tensor bytes = read_array(images), classes = read_array(labels);
  if (bytes.element() != dtype::uint8 || (bytes.shape().rank != 3 && bytes.shape().rank != 4))
    throw file_error(words(images, " is ", bytes.type(), "; expected uint8 [N x H x W] or [N x C x H x W]"));
  if (classes.shape().rank != 1 || !is_integer(classes.element()))
    throw file_error(words(labels, " is ", classes.type(), "; expected integers [N]"));
  shape s = bytes.shape();
  if (s.rank == 3) s = {s[0], 1, s[1], s[2]};
  const any_tensor pictures(bytes.memory(), {dtype::uint8, s});
  lamina::vector<std::int64_t> numbers(classes.shape().at(0));
  auto to = numbers.writable();
  std::int64_t largest = -1;
  with_type(classes.element(), [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      std::size_t i = 0;
      for (T v : classes.elements<T>()) largest = std::max(largest, to[i++] = static_cast<std::int64_t>(v));
    }
  });
  if (largest > 1000000) throw file_error(words(labels, ": a class is ", largest, "; expected at most 1000000"));
  std::vector<std::string> names;
  for (std::int64_t i = 0; i <= largest; ++i) names.push_back(std::to_string(i));
  return about(images, [&] {
    return image_dataset(pictures.as<std::uint8_t, extents<dyn, dyn, dyn, dyn>>(), numbers, names,
                         {o.mean, o.deviation});
  });
}

template <class O> trainer::step_rule rule_of(const O& rule) {
  return [rule](update_scope& s, const value& w, const value& g) { return value(rule.step(s, w, g)); };
}

}  // namespace

void train(const train_arguments& o) {
  const signals noted;
  const auto files = files_of_net(o.out);
  for (const auto& file : {files.structure, files.weights, o.checkpoint})
    if (!file.empty()) check_writable(file);
  model_core net = core_of(load_model(o.model), {.threads = o.threads});
  const auto data = read_data(o, o.images, o.labels);
  const std::map<std::string, trainer::loss_rule> losses{
      {"cross_entropy", [](const value& out, const value& y) { return value(loss::cross_entropy{}(out, y)); }},
      {"nll", [](const value& out, const value& y) { return value(loss::nll{}(out, y)); }}};
  const std::map<std::string, trainer::step_rule> rules{
      {"sgd", rule_of(optim::sgd{})}, {"adam", rule_of(optim::adam{})}, {"adamw", rule_of(optim::adamw{})}};
  fit_options fit{.epochs = o.epochs,
                  .batch = o.batch,
                  .observer = progress_bar(),
                  .seed = o.seed,
                  .checkpoint = o.checkpoint,
                  .resume = o.resume};
  if (o.schedule == "one_cycle") fit.schedule = optim::one_cycle{};
  if (o.schedule == "cosine") fit.schedule = optim::cosine{};
  signals::check();
  if (!o.validation_images.empty()) fit.validation = read_data(o, o.validation_images, o.validation_labels);
  signals::check();
  try {
    const stop_scope until(noted_signal{});
    trainer(net, losses.at(o.loss), rules.at(o.optimizer), o.rate).fit(data, fit);
  } catch (const stopped_error& e) {
    if (o.checkpoint.empty() || !std::filesystem::exists(o.checkpoint)) throw;
    throw stopped_error(words(e.what(), "; continue with --resume from ", printable(o.checkpoint, 1024)));
  }
  save_net(o.out, net.inference(), net.parameters());
  std::printf("%s\n%s\n", printable(files.structure, 1024).c_str(), printable(files.weights, 1024).c_str());
}

}  // namespace tool
