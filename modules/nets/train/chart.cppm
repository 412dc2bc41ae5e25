// Pictures of numbers: curves, and those of a training.
export module lamina:train.chart;
import :core;
import :train.observe;
import lamina.std;

namespace lamina {

/// A line through points; points that are not finite, or beyond 1e300, are left out.
export struct chart_curve {
  std::string name;
  std::vector<double> x, y;
};
/// A chart: curves over one axis.
export struct chart_panel {
  std::string title{};
  std::vector<chart_curve> curves{};
  std::string x_title = "epoch", unit{};
  int digits = 3;                ///< of the last number of a curve, which is written at its end
  bool log_x = false;            ///< powers of ten are equally far apart
  std::optional<double> mark{};  ///< a line across the chart at this place of the axis
};
/// Charts side by side, as SVG.
/// Errors: value_error for a curve whose x and y differ in number, or for an axis of logarithms with numbers that are not positive.
export std::string draw_chart(std::string_view title, std::string_view subtitle, view<const chart_panel> panels);

/// Loss and accuracy by epoch, of training and validation, as SVG.
export std::string learning_curve(const training_report& report, std::string_view title = "Training",
                                  std::string_view subtitle = {}, std::string_view loss_name = "Loss");

}  // namespace lamina
