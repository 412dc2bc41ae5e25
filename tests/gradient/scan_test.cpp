// Gradients through scans: by every operand, in both directions, up to second order.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// Carries h and c, sequence x, invariants w (a product), b (a broadcast term) and k (a factor).
values cell(const values& v, bool reverse) {
  auto p = std::make_shared<program>();
  dtype e = v[0].type().element;
  value h = p->input("h", v[0].type()), c = p->input("c", v[1].type()),
        x = p->input("x", {e, without_first(v[2].shape())});
  value w = p->input("w", v[3].type()), u = p->input("u", v[4].type()), b = p->input("b", v[5].type());
  value gate = sigmoid(matmul(x, w) + matmul(h, u) + b);
  value next = gate * c + (1 - gate) * tanh(h);
  p->output("h", gate * tanh(next));
  p->output("c", next);
  p->output("y", gate * 2 + h);
  return scan(p, {v.data(), 2}, {&v[2], 1}, {&v[3], 3}, reverse);
}
std::vector<array> operands(std::int64_t iterations, std::int64_t rows, std::int64_t in, std::int64_t out) {
  return {real({dim(rows), dim(out)}, 1),
          real({dim(rows), dim(out)}, 2),
          real({dim(iterations), dim(rows), dim(in)}, 3),
          real({dim(in), dim(out)}, 4, -0.7, 0.7),
          real({dim(out), dim(out)}, 5, -0.7, 0.7),
          real({dim(out)}, 6)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(scans)

BOOST_AUTO_TEST_CASE(all_operands_in_both_directions) {
  for (bool reverse : {false, true})
    for (auto [iterations, rows, in, out] : {std::array<std::int64_t, 4>{1, 1, 1, 1},
                                             {4, 2, 3, 2},
                                             {3, 1, 2, 4},
                                             {0, 2, 3, 2},
                                             {5, 3, 1, 2},
                                             {2, 0, 3, 2}}) {
      auto build = [&](const values& v) { return cell(v, reverse); };
      check_twice("scan", operands(iterations, rows, in, out), build);
      check_twice("last carry of a scan", operands(iterations, rows, in, out),
                  [&](const values& v) { return values{cell(v, reverse)[1]}; });
      check("what the iterations of a scan give", operands(iterations, rows, in, out),
            [&](const values& v) { return values{cell(v, reverse)[2]}; });
    }
}

BOOST_AUTO_TEST_CASE(without_carries) {
  check("map", {real({4, 3}, 1), real({3}, 2)}, [](const values& v) {
    auto p = std::make_shared<program>();
    value x = p->input("x", {v[0].type().element, {3}}), k = p->input("k", v[1].type());
    p->output("y", tanh(x) * k);
    return scan(p, {}, {v.data(), 1}, {&v[1], 1});
  });
}

BOOST_AUTO_TEST_CASE(the_gradient_reads_what_the_scan_stored) {
  small_graph g;
  values v;
  for (const auto& a : operands(4, 2, 3, 2)) v.push_back(g.input(a));
  value y = reduce_sum(square(cell(v, false)[2]));
  g.output(y);
  for (const auto& d : gradients(g.p, {&y, 1}, {}, {&v[3], 2})) g.output(d);
  auto plan = g.make();
  BOOST_TEST(plan->loops().size() == 2u);  // one forward, one backward: nothing is computed twice
  BOOST_TEST(plan->counters().joined_loops == 1);
  auto text = plan->explain();
  std::size_t sigmoids = 0;
  for (auto at = text.find("sigmoid"); at != std::string::npos; at = text.find("sigmoid", at + 1)) ++sigmoids;
  BOOST_TEST(sigmoids == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
