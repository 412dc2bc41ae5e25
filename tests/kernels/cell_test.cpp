// Forward recurrent cells of every width and kernel variant against the formulas in double.
#include "kernel_test.h"

#include <algorithm>
#include <cmath>

#include "../support/elementwise_functions.h"

using namespace lamina::kernels;
using ::elementwise_functions::reference::sigmoid;
using kernel_test::buffer;

namespace {

template <class T> buffer<T> random_numbers(std::mt19937& g, long count, double max) {
  buffer<T> all(static_cast<std::size_t>(count), g() % 4);
  kernel_test::fill_uniform(all, g, -max, max);
  return all;
}

struct lstm {
  static const cell_kernels& kernels() { return cell_of(kernel_test::tested()).lstm; }
  /// The largest error of a run over random gates.
  template <class T> static double error(std::mt19937& g, kernel run, long rows, long hidden) {
    const auto gates = random_numbers<T>(g, rows * 4 * hidden, 9), cell = random_numbers<T>(g, rows * hidden, 3);
    buffer<T> out(static_cast<std::size_t>(rows * hidden), 1), next(static_cast<std::size_t>(rows * hidden), 1);
    lstm_args a{};
    a.gates = gates.data(), a.cell = cell.data(), a.out = out.data(), a.next_out = next.data();
    a.rows = rows, a.hidden = hidden;
    run(&a, nullptr);
    BOOST_TEST((out.guards_intact() && next.guards_intact()));
    double max = 0;
    for (long r = 0; r < rows; ++r)
      for (long j = 0; j < hidden; ++j) {
        const T* x = gates.data() + r * 4 * hidden + j;
        const long at = r * hidden + j;
        const double c = sigmoid<double>(x[hidden]) * cell.data()[at] +
                         sigmoid<double>(x[0]) * std::tanh(static_cast<double>(x[2 * hidden]));
        max = std::max({max, std::abs(next.data()[at] - c),
                        std::abs(out.data()[at] - sigmoid<double>(x[3 * hidden]) * std::tanh(c))});
      }
    return max;
  }
};

struct gru {
  static const cell_kernels& kernels() { return cell_of(kernel_test::tested()).gru; }
  template <class T> static double error(std::mt19937& g, kernel run, long rows, long hidden) {
    const auto x = random_numbers<T>(g, rows * 3 * hidden, 5), h = random_numbers<T>(g, rows * 3 * hidden, 5),
               state = random_numbers<T>(g, rows * hidden, 1);
    buffer<T> out(static_cast<std::size_t>(rows * hidden), 1);
    gru_args a{};
    a.x = x.data(), a.h = h.data(), a.state = state.data(), a.out = out.data();
    a.rows = rows, a.hidden = hidden;
    run(&a, nullptr);
    BOOST_TEST(out.guards_intact());
    double max = 0;
    for (long r = 0; r < rows; ++r)
      for (long j = 0; j < hidden; ++j) {
        const auto sum = [&](long gate, double scale) {
          const long at = (r * 3 + gate) * hidden + j;
          return x.data()[at] + scale * h.data()[at];
        };
        const double reset = sigmoid<double>(sum(0, 1)), z = sigmoid<double>(sum(1, 1)), n = std::tanh(sum(2, reset));
        const double expected = n + z * (state.data()[r * hidden + j] - n);
        max = std::max(max, std::abs(out.data()[r * hidden + j] - expected));
      }
    return max;
  }
};

// Every kernel that can be selected for a width, and the one for any number of rows.
template <class Cell> void check_widths() {
  std::mt19937 g(3);
  const cell_kernels& of = Cell::kernels();
  for (long hidden = 1; hidden <= 70; ++hidden) BOOST_TEST_CONTEXT(hidden << " wide") {
      for (const long rows : {1L, 3L}) {
        BOOST_TEST(Cell::template error<float>(g, of.any[0], rows, hidden) <= 3e-6);
        BOOST_TEST(Cell::template error<double>(g, of.any[1], rows, hidden) <= 1e-13);
      }
      BOOST_TEST(Cell::template error<float>(g, of.row, 1, hidden) <= 3e-6);
      if (hidden % of.lanes == 0) BOOST_TEST(Cell::template error<float>(g, of.registers_row, 1, hidden) <= 3e-6);
      BOOST_TEST((of.of(0, 1, hidden) == (hidden % of.lanes == 0 ? of.registers_row : of.row)));
    }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cells)

BOOST_AUTO_TEST_CASE(lstm_of_every_width) { check_widths<lstm>(); }
BOOST_AUTO_TEST_CASE(gru_of_every_width) { check_widths<gru>(); }

BOOST_AUTO_TEST_SUITE_END()
