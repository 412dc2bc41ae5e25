// One pipeline: the same formula as a typed expression, as a layer, and over run-time values is one program.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

struct dense {
  constexpr auto forward(auto& s, const auto& x, const auto& w, const auto& b) const {
    (void)s;
    return tanh(matmul(x, w) + b);
  }
};
struct no_scope {};
constexpr tensor_type matrix_type{dtype::float32, {dyn, dyn}}, vector_type{dtype::float32, {dyn}};

std::vector<value> inputs_of(program& p) {
  return {p.input("x", matrix_type), p.input("w", matrix_type), p.input("b", vector_type)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(one_road)

BOOST_AUTO_TEST_CASE(three_doors_one_program) {
  matrix<float> x{{1, 2}}, w{{0.5f, -1}, {0.25f, 1}};
  vector<float> b{0.125f, -0.25f};

  program typed, layered, direct;
  auto expression = tanh(matmul(var<"x">(x), var<"w">(w)) + var<"b">(b));
  lowering l(typed);
  typed.output("y", lower(expression, l));

  auto in = inputs_of(layered);
  no_scope scope;
  layered.output("y", dense{}.forward(scope, in[0], in[1], in[2]));

  auto v = inputs_of(direct);
  direct.output("y", tanh(matmul(v[0], v[1]) + v[2]));

  BOOST_TEST(typed.dump() == direct.dump());
  BOOST_TEST(layered.dump() == direct.dump());
  BOOST_TEST((typed.id() == direct.id()));
  BOOST_TEST((layered.id() == direct.id()));
  BOOST_TEST(direct.dump().find("%4 = add(%2, %3) : float32[?x?]") != std::string::npos);

  small_graph g;
  g.data = {from_tensor(x), from_tensor(w), from_tensor(b)};
  auto y = inputs_of(g.p);
  g.output(tanh(matmul(y[0], y[1]) + y[2]));
  BOOST_TEST(same_bits(from_tensor(evaluate(expression)), g.run()[0]));
}

BOOST_AUTO_TEST_CASE(the_layer_runs_over_types_alone) {
  message_text why;
  traced x{{dtype::float32, {"N", 4}}, &why}, w{{dtype::float32, {4, 3}}, &why}, b{{dtype::float32, {3}}, &why},
      wrong{{dtype::float32, {5, 3}}, &why};
  no_scope scope;
  BOOST_TEST((dense{}.forward(scope, x, w, b).shape() == shape{"N", 3}));
  BOOST_TEST(why.string().empty());
  dense{}.forward(scope, x, wrong, b);
  BOOST_TEST(why.string() == "matmul: the inner sizes differ: [Nx4] [5x3]");
}

BOOST_AUTO_TEST_SUITE_END()
