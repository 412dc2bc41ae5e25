// lamina train: trains a saved net on labeled images.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <regex>
#include <string>
#include <vector>

import lamina;

#include "json.h"
#include "tool.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

any_tensor read_array(const std::string& path) { return path.ends_with(".npy") ? read_npy(path) : read_idx(path); }

// uint8 images [N, H, W] or [N, C, H, W] with class labels.
image_dataset read_data(const train_arguments& o, const std::string& images, const std::string& labels) {
  any_tensor bytes = read_array(images), classes = read_array(labels);
  if (bytes.element() != dtype::uint8 || (bytes.shape().rank != 3 && bytes.shape().rank != 4))
    throw file_error(text_of(images, " is ", bytes.type(), "; expected uint8 [N x H x W] or [N x C x H x W]"));
  if (classes.shape().rank != 1 || !is_integer(classes.element()))
    throw file_error(text_of(labels, " is ", classes.type(), "; expected integers [N]"));
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
  if (largest > 1000000) throw file_error(text_of(labels, ": a class is ", largest, "; expected at most 1000000"));
  std::vector<std::string> names;
  for (std::int64_t i = 0; i <= largest; ++i) names.push_back(std::to_string(i));
  return about(images, [&] {
    return image_dataset(pictures.as<std::uint8_t, extents<dyn, dyn, dyn, dyn>>(), numbers, names,
                         {o.mean, o.deviation});
  });
}

template <class L> trainer::loss_rule loss_rule_of(const L& of) {
  return [of](view<const value> outputs, view<const value> labels) { return value(of(outputs[0], labels[0])); };
}

// Freezes parameters; `thaw` restores them for the net that is written.
class frozen_parameters {
 public:
  frozen_parameters(parameter_store& all, const std::vector<std::string>& patterns) : all_(all) {
    for (const auto& pattern : patterns) {
      const std::regex which = compiled(pattern);
      bool found = false;
      for (auto& p : all_)
        if (p.role() == state_role::parameter && std::regex_search(p.name(), which)) {
          found = true;
          if (!p.trainable()) continue;
          names_.push_back(p.name());
          p.trainable(false);
        }
      if (!found)
        throw value_error(
            text_of("--freeze: `", printable(pattern), "` matches no parameter; there are ", names_of(all_)));
    }
  }
  void thaw() {
    for (const auto& name : names_) all_.find(name)->trainable(true);
  }

 private:
  static std::regex compiled(const std::string& pattern) {
    if (pattern.size() > 1024) throw value_error("--freeze: the expression has more than 1024 characters");
    try {
      return std::regex(pattern);
    } catch (const std::regex_error&) {
      throw value_error(text_of("--freeze: `", printable(pattern), "` is not a regular expression (ECMAScript)"));
    }
  }
  static std::string names_of(const parameter_store& all) {
    std::string found;
    std::size_t count = 0;
    for (const auto& p : all)
      if (p.role() == state_role::parameter && ++count <= 8)
        found += (count > 1 ? ", `" : "`") + printable(p.name()) + "`";
    return count == 0 ? "none" : count > 8 ? found + " and " + std::to_string(count - 8) + " more" : found;
  }
  parameter_store& all_;
  std::vector<std::string> names_;
};

// Checks that the loss matches the net's kind of output, from its outputs for the first images: a wrong loss would
// train to nonsense.
void check_loss(model_core& net, const image_dataset& data, const std::string& loss) {
  const auto& in = net.definition().inputs[0].type;
  if (net.definition().outputs[0].type.dims.rank != 2 || in.element != dtype::float32) return;
  const std::int64_t n = in.dims[0].is_number() ? in.dims[0].code : std::min<std::int64_t>(data.size(), 16);
  shape s{n};
  for (int i = 0; i < data.image_shape().rank; ++i) s.push_back(data.image_shape()[i]);
  if (n > data.size() || !fits(in.dims, s)) return;
  any_tensor images({dtype::float32, s});
  std::vector<std::int64_t> rows(static_cast<std::size_t>(n)), labels(rows.size());
  for (std::int64_t i = 0; i < n; ++i) rows[static_cast<std::size_t>(i)] = i;
  data.batch(view<const std::int64_t>(rows), reinterpret_cast<float*>(images.mutable_data()), labels.data());
  const any_tensor results = net.runs().run({&images, 1})[0];
  const auto all = results.elements<float>();
  bool probabilities = true, logarithms = true;
  const std::size_t classes = all.size() / rows.size();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    double sum = 0, sum_of_exp = 0;
    for (std::size_t c = 0; c < classes; ++c) {
      const double x = static_cast<double>(all[r * classes + c]);
      sum += x, sum_of_exp += std::exp(x);
      probabilities = probabilities && x >= 0;
    }
    probabilities = probabilities && std::abs(sum - 1) < 1e-3;
    logarithms = logarithms && std::abs(sum_of_exp - 1) < 1e-3;
  }
  const std::string is = probabilities ? "log_loss" : logarithms ? "nll" : "cross_entropy";
  if (is == loss || (is == "nll" && loss == "cross_entropy")) return;  // log-probabilities are logits as well
  throw value_error(text_of("--loss ", loss, ": the output of the net is ",
                            probabilities ? "probabilities"
                            : logarithms  ? "log-probabilities"
                                          : "logits",
                            "; expected --loss ", is));
}

json json_of(const training_report& r, const std::vector<std::string>& files) {
  json epochs = json::array();
  for (const auto& e : r.epochs) {
    epochs.push_back({{"epoch", e.epoch}, {"loss", e.loss}, {"accuracy", e.accuracy}, {"rate", e.learning_rate}});
    if (e.validation_loss) epochs.back()["validation_loss"] = *e.validation_loss;
    if (e.validation_accuracy) epochs.back()["validation_accuracy"] = *e.validation_accuracy;
  }
  return {{"files", files}, {"epochs", epochs}, {"images_per_second", r.images_per_second}};
}

// Converts the error for an operation without gradient to unsupported_error.
template <class F> auto with_gradients(F f) {
  try {
    return f();
  } catch (const value_error& e) {
    if (std::string_view(e.what()).ends_with("has no gradient")) throw unsupported_error(e.what());
    throw;
  }
}

}  // namespace

void train(const train_arguments& o) {
  const signals noted;
  const auto files = files_to_write(o.out);
  for (const auto& file : files) check_writable(file);
  if (!o.checkpoint.empty()) check_writable(o.checkpoint);
  model_core net = core_of(load_model(o), {.threads = o.threads});
  const auto data = read_data(o, o.images, o.labels);
  const std::map<std::string, trainer::loss_rule> losses{{"cross_entropy", loss_rule_of(loss::cross_entropy{})},
                                                         {"nll", loss_rule_of(loss::nll{})},
                                                         {"log_loss", loss_rule_of(loss::log_loss{})}};
  const std::map<std::string, trainer::step_rule> rules{{"sgd", trainer::step_rule::of(optim::sgd{})},
                                                        {"adam", trainer::step_rule::of(optim::adam{})},
                                                        {"adamw", trainer::step_rule::of(optim::adamw{})}};
  fit_options fit{.epochs = o.epochs,
                  .batch = o.batch,
                  .observer = o.json ? observer() : progress_bar(),
                  .seed = o.seed,
                  .checkpoint = o.checkpoint,
                  .resume = o.resume};
  if (o.schedule == "one_cycle") fit.schedule = optim::one_cycle{};
  if (o.schedule == "cosine") fit.schedule = optim::cosine{};
  signals::check();
  if (!o.validation_images.empty()) fit.validation = read_data(o, o.validation_images, o.validation_labels);
  signals::check();
  training_report report;
  frozen_parameters frozen(net.parameters(), o.freeze);
  try {
    const stop_scope until(noted_signal{});
    trainer training(net, losses.at(o.loss), rules.at(o.optimizer), o.rate);
    check_loss(net, data, o.loss);
    report = with_gradients([&] { return training.fit(data, fit); });
  } catch (const stopped_error& e) {
    if (o.checkpoint.empty() || !std::filesystem::exists(o.checkpoint)) throw;
    throw stopped_error(text_of(e.what(), "; continue with --resume from ", printable(o.checkpoint, 1024)));
  }
  frozen.thaw();
  // The model keeps ownership of the program.
  write_net(o.out,
            {std::shared_ptr<const ir::program>(std::shared_ptr<const void>(), &net.inference()), net.parameters()});
  if (o.json) return print_line(json_of(report, files));
  for (const auto& file : files) std::printf("%s\n", printable(file, 1024).c_str());
}

}  // namespace tool
