// Charts: curves, and the learning curve of a training.
export module lamina:train.chart;
import :core;
import :train.observe;
import lamina.std;

namespace lamina {

/// A line through points; points that are not finite or beyond 1e300 are left out.
export struct chart_curve {
  std::string name;
  std::vector<double> x, y;
};
/// A chart: curves over one x axis.
export struct chart_panel {
  std::string title{};
  std::vector<chart_curve> curves{};
  std::string x_title = "epoch", unit{};
  int digits = 3;                ///< of the last value of a curve, which labels its end
  bool log_x = false;            ///< logarithmic x axis
  std::optional<double> mark{};  ///< x position of a vertical line
};
/// Draws charts side by side, as SVG.
/// Errors: value_error for a curve whose x and y differ in size, or for a logarithmic axis with numbers that are not
/// positive.
export std::string draw_chart(std::string_view title, std::string_view subtitle, view<const chart_panel> panels);

/// Loss and accuracy of training and validation by epoch, as SVG.
export std::string learning_curve(const training_report& report, std::string_view title = "Training",
                                  std::string_view subtitle = {}, std::string_view loss_name = "Loss");

}  // namespace lamina
