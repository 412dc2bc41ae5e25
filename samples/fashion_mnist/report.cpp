#include "report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

import lamina;

std::vector<confusion> max_confused(const std::vector<std::int64_t>& label, const std::vector<std::int64_t>& predicted,
                                    std::size_t max) {
  std::map<std::int64_t, std::int64_t> of_class;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> wrong;
  for (std::size_t i = 0; i < label.size(); ++i) {
    ++of_class[label[i]];
    if (label[i] != predicted[i]) ++wrong[{label[i], predicted[i]}];
  }
  std::vector<confusion> all;
  for (const auto& [pair, count] : wrong) all.push_back({pair.first, pair.second, count, of_class[pair.first]});
  std::sort(all.begin(), all.end(), [](const confusion& a, const confusion& b) {
    return std::tie(b.count, a.label, a.taken_for) < std::tie(a.count, b.label, b.taken_for);
  });
  if (all.size() > max) all.resize(max);
  return all;
}

namespace {

std::string fixed(double x, int digits) { return lamina::decimals_of(x, digits); }
// Formats 1234567 as 1,234,567.
std::string grouped(double x) {
  std::string s = fixed(x, 0);
  for (auto at = static_cast<std::ptrdiff_t>(s.size()) - 3; at > (s[0] == '-' ? 1 : 0); at -= 3)
    s.insert(static_cast<std::size_t>(at), ",");
  return s;
}
double ratio(const double (&rates)[2]) { return rates[0] > 0 ? rates[1] / rates[0] : 0; }

void line(std::string& out, std::string name, const std::string& value) {
  name.resize(24, ' ');
  out += "  " + name + value + '\n';
}

}  // namespace

std::string table(const run_figures& f, const std::vector<std::string>& class_names) {
  auto name = [&](std::int64_t c) { return class_names[static_cast<std::size_t>(c)]; };
  const double served = ratio(f.serve_images_per_s), possible = ratio(f.fma_rate);
  std::string out = "\nLeNet on Fashion-MNIST: " + std::to_string(f.epochs) +
                    (f.epochs == 1 ? " epoch, " : " epochs, ") + std::to_string(f.threads) +
                    (f.threads == 1 ? " thread, " : " threads, ") + "seed " + std::to_string(f.seed) + "\n\n";
  line(out, "test accuracy",
       fixed(100 * f.test_accuracy, 2) + " % of " + grouped(static_cast<double>(f.images)) +
           " images, after the last epoch");
  std::string head = "most confused";
  for (const auto& c : f.confused) {
    line(out, std::exchange(head, ""),
         name(c.label) + " taken for " + name(c.taken_for) + ": " + std::to_string(c.count) + " of " +
             std::to_string(c.of));
  }
  line(out, "training", grouped(f.train_images_per_s) + " images/s");
  line(out, "serving, 1 worker", grouped(f.serve_images_per_s[0]) + " images/s");
  line(out, "serving, 2 workers",
       grouped(f.serve_images_per_s[1]) + " images/s, " + fixed(served, 2) + " times as many");
  line(out, "FMA probe, 1 and 2",
       fixed(f.fma_rate[0], 1) + " and " + fixed(f.fma_rate[1], 1) + " G/s, " + fixed(possible, 2) +
           " times as many; serving reaches " + fixed(possible > 0 ? served / possible : 0, 2) + " of that");
  line(out, "memory",
       grouped(static_cast<double>(f.bytes_per_reference)) + " bytes for each reference model, " +
           grouped(static_cast<double>(f.shared_bytes)) + " bytes of weights shared by all");
  line(out, "whole run", fixed(f.seconds, 1) + " s");
  return out;
}

std::string json(const run_figures& f) {
  const nlohmann::ordered_json report = {
      {"test_accuracy", f.test_accuracy},
      {"train_images_per_s", f.train_images_per_s},
      {"serve_images_per_s_1", f.serve_images_per_s[0]},
      {"serve_images_per_s_2", f.serve_images_per_s[1]},
      {"bytes_per_reference", f.bytes_per_reference},
      {"seconds", f.seconds},
      {"seed", f.seed},
  };
  return report.dump(2) + "\n";
}
