#include "learning_curve.h"

#include "../plot/curves.h"
#include "../plot/svg.h"

std::string learning_curve(const std::vector<epoch_point>& epochs, const options& o) {
  constexpr std::string_view blue = "#2563eb", orange = "#d9480f";
  std::string s = svg::begin(1000, 430, "Learning curve");
  s += svg::text(40, 38, "LeNet on Fashion-MNIST", {.size = 20, .bold = true});
  s += svg::text(40, 60,
                 "Adam, one cycle with a peak of " + svg::number(o.lr, 6) + ", batches of " + std::to_string(o.batch) +
                     ", seed " + std::to_string(o.seed),
                 {.fill = svg::faint, .size = 13});
  if (!epochs.empty()) {
    std::vector<std::int64_t> at;
    svg::curve loss[] = {{"training", blue, {}}, {"validation", orange, {}}}, accuracy[] = {loss[0], loss[1]};
    for (const auto& e : epochs) {
      at.push_back(e.epoch);
      loss[0].values.push_back(e.loss);
      loss[1].values.push_back(e.validation_loss);
      accuracy[0].values.push_back(100 * e.accuracy);
      accuracy[1].values.push_back(100 * e.validation_accuracy);
    }
    s += svg::draw({90, 120, 290, 240, "Loss (cross entropy)", "", 3}, at, {loss[0], loss[1]});
    s += svg::draw({570, 120, 290, 240, "Accuracy", " %", 2}, at, {accuracy[0], accuracy[1]});
  }
  return s + "</svg>\n";
}
